"""What is known not to work yet, with the error it raises meanwhile: a gap that closes fails its test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privpipe.errors import UnsupportedError

__all__ = ["GAPS", "Gap"]


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A combination that is not served.

    Parameters
    ----------
    why : str
        Reason.
    raises : type of error
        What it raises.
    parameters : mapping, optional
        Those of the catalogue entry that is refused, when it is refused at construction.
    """

    why: str
    raises: type[Exception] = UnsupportedError
    parameters: Mapping[str, Any] = field(default_factory=dict)


GAPS: Mapping[tuple[str, str], Gap] = {
    ("*", "generalized population search"): Gap(
        why="a population that is generalized already stands at one vector of levels; a search compares many",
    ),
    ("*", "population in persons"): Gap(
        why="a population is counted in records: how many records of it a person has, it does not say",
    ),
    ("*", "wildcard in persons"): Gap(
        why="what matches a record by wildcards is counted in records, and a person may match in several",
    ),
    ("embedded", "source table"): Gap(
        why="it has no catalogue; with a DuckDB connection of the caller's it reads the tables of that connection",
    ),
    ("dask", "source table"): Gap(why="it has no catalogue: it reads files and frames"),
    ("embedded", "sink table"): Gap(why="it has no catalogue; it publishes into a folder"),
    ("dask", "sink table"): Gap(why="it has no catalogue; it publishes into a folder"),
    ("*", "sink table of another catalogue"): Gap(
        why="views are published in Spark's own catalogue; few others can switch one in one step",
    ),
    ("*", "sink delta on a file system without conditional writes"): Gap(
        why="a commit is created only where no other has its version; S3, Google Cloud Storage and Azure do that",
    ),
    ("*", "append together with what compares with originals"): Gap(
        why="rows of earlier releases are without their originals, populations and processes: only the table is left",
    ),
    ("*", "append together with what counts by a column that is not released"): Gap(
        why="rows of earlier releases are without it"
    ),
    ("*", "replace_partition of what is replaced as a whole"): Gap(
        why="partitions are files of one partition each; a view, a table of a database, CSV and JSON have none",
    ),
    ("*", "ledger together with a sink table"): Gap(
        why="a ledger asks what its sinks published, and a table answers only within its session",
    ),
    ("*", "sink in a server other than PostgreSQL"): Gap(
        why="of other servers it is not known that one transaction replaces a table; they are sources",
    ),
    ("*", "ledger together with a sink database"): Gap(
        why="a ledger asks what its sinks published, and a table keeps no record of a ledger",
    ),
    ("*", "database by position"): Gap(why="the rows of a database have no order, so nothing can be aligned by it"),
    ("*", "bytes that are judged"): Gap(
        why="bytes have no values that people compare: they are carried through, or left out as identifiers",
    ),
    ("*", "bytes in a sink of texts"): Gap(why="CSV and JSON hold no bytes; Parquet does"),
    ("spark", "text files elsewhere"): Gap(
        why="of files on a file system that is not mounted here Spark reads Parquet and Delta; the others need a mount",
    ),
    ("spark", "batches of a stream over Spark Connect"): Gap(
        why="Connect does not show which query a batch is of, so a repeat and a new checkpoint look alike; the "
        "embedded engine and Dask have no streams",
    ),
    ("*", "cells counted otherwise"): Gap(
        why="mondrian and local_recoding count records or persons of the table, no populations",
    ),
    ("gx", "differential_privacy"): Gap(
        why="it is judged by the record of the process that is next to a published release, not by a table",
    ),
    ("gx", "attribute_risk"): Gap(why="it only reports: it has no threshold by which an expectation could fail"),
    ("gx", "complementary_release"): Gap(
        why="it is judged together with earlier releases, by a ledger that a run keeps; judge it in a policy",
    ),
    ("gx", "repeated_noise"): Gap(
        why="it is judged together with earlier releases, by a ledger that a run keeps; judge it in a policy",
    ),
    ("gx", "unsorted_matching"): Gap(
        why="it is judged by the order of the rows in the files that were written, which a batch does not keep",
    ),
}
"""By (engine, what): an engine's name, ``gx`` for its expectations, or ``*``; a hostile table, a catalogue entry, or
``entry table``."""
