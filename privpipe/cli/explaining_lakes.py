"""What `explain` says of tables of table formats."""

from __future__ import annotations

from typing import Any

__all__ = ["LAKE_TOPICS", "lake_keys", "lake_text"]

LAKE_TOPICS = {
    "delta": (
        "A Delta table, read as its log has it: a folder with `_delta_log`, on every path argument.",
        "Rows that the log has deleted are not there, whatever files still hold them. Deletion vectors, mapped columns "
        "(by name), typed partitions and columns that came later are read on every engine, as deltalake tells them "
        "from the log (`pip install 'privpipe[delta]'`); on Spark the session's own connector goes first. Mapping by "
        "id, type widening, unknown reader features and binary partition columns are refused. A file or folder within "
        "the table, and a link into it, are refused by name. A run reads one version, which its private manifest "
        "names. As a sink: `sink: {path: lake/visits_public, format: delta}` publishes by one commit into a table that "
        "privpipe made, with `mode: append` beside the rows that are there (the batch and the whole table are judged), "
        "with `schema: evolve` with new columns. Earlier releases can be read by their version until VACUUM.",
        "source: {path: lake/visits, format: delta, version: 3}",
        ("version", "timestamp"),
    ),
    "iceberg": (
        "An Iceberg table, found by its name in a catalogue that pyiceberg's own configuration describes.",
        "The catalogue is described in .pyiceberg.yaml or in the environment (PYICEBERG_CATALOG__NAME__URI). Rows that "
        "are deleted by position are not there; deletes by equality are refused until the table is compacted. A folder "
        "or file of such a table is refused by name, since only the catalogue knows what is in the table. pyiceberg is "
        "needed where files are read, also on workers (`pip install 'privpipe[iceberg]'`); `source: {table: "
        "catalog.db.visits}` reads through a Spark session's own catalogue. A run reads one snapshot, which its "
        "private manifest names. `sink: {iceberg: db.visits_public, catalog: lake}` publishes into such a table by one "
        "commit of files that were judged before; `mode: append` joins the rows that are there and is judged with "
        "them, `schema: evolve` lets columns be added.",
        "source: {iceberg: db.visits, catalog: lake, tag: audited}",
        ("iceberg", "catalog", "snapshot", "branch", "tag"),
    ),
}
"""By name: summary, prose, example, keys of a source."""


def lake_text(name: str) -> dict[str, Any]:
    """The document of a format without its keys.

    Examples
    --------
    >>> lake_text("iceberg")["summary"]
    "An Iceberg table, found by its name in a catalogue that pyiceberg's own configuration describes."
    """
    summary, about, example, _ = LAKE_TOPICS[name]
    return {
        "name": name,
        "kind": "table format of a source",
        "summary": summary,
        "about": f"{about}\nExample: {example}",
    }


def lake_keys(name: str) -> tuple[str, ...]:
    """The keys of a source that are of the format alone."""
    return LAKE_TOPICS[name][3]
