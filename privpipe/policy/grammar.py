"""Every key of a policy outside its entries: one table for the reader, the JSON schema and `init`.

Keys of entries are not here: they are the fields of the catalogue's classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from privpipe.engines.base import Format
from privpipe.engines.readers.text_forms import Encoding
from privpipe.engines.readers.unpacking import MOST_BYTES, Compression
from privpipe.judging.column_loss import AlarmAction, ColumnLossRule
from privpipe.policy.specs import FormulaRule, PublishMode, SchemaRule
from privpipe.reporting.officer.languages import Language
from privpipe.roles import ColumnType, EmptyRule, NullRule, Role

__all__ = [
    "COLUMN",
    "COLUMN_LOSS",
    "DRIFT",
    "FAILING",
    "FAILING_SINK",
    "LAKES",
    "LONGEST_REASON",
    "MEMBER",
    "OFFICER",
    "OFFICER_COLUMN",
    "OTHERS",
    "PLAN",
    "RELATED",
    "REPORT",
    "RETENTION",
    "SIGNER",
    "SIGN_OFF",
    "SINK",
    "SOURCE",
    "SOURCE_SECTIONS",
    "TOP",
    "UTILITY",
    "VERSION",
    "Key",
]

VERSION = 1
UNDECLARED = ("refuse", "note")
OTHERS = ("refuse", "drop", "note")
Kind = Literal[
    "text",
    "integer",
    "share",
    "flag",
    "texts",
    "text or texts by name",
    "mapping",
    "entries",
    "secret",
    "database",
    "source",
    "sink",
    "plan",
    "utility",
    "report",
    "retention",
    "column_loss",
    "columns",
    "drift",
    "failing",
    "failing_sink",
    "hierarchy",
    "engine",
]


@dataclass(frozen=True)
class Key:
    """One key of a section.

    Parameters
    ----------
    kind : str
        The shape of its value.
    about : str
        One line for a person.
    choices : tuple of str
        The texts it may be; empty: any.
    required : bool
        Whether the section must have it.
    instead : tuple of str
        Keys that may replace a required one; never two of them.
    default : Any
        What leaving it out means; None where that is nothing.
    """

    kind: Kind
    about: str
    choices: tuple[str, ...] = ()
    required: bool = False
    default: Any = None
    instead: tuple[str, ...] = ()


LAKES: Mapping[str, Key] = {
    "iceberg": Key("text", "instead of `path`: an Iceberg table with its namespace, `db.visits`"),
    "catalog": Key("text", "of an Iceberg table: its catalogue in pyiceberg's configuration", default="default"),
    "snapshot": Key("integer", "of an Iceberg table: number of a snapshot; left out, the current table"),
    "branch": Key("text", "of an Iceberg table: instead of `snapshot`"),
    "tag": Key("text", "of an Iceberg table: instead of `snapshot`"),
    "version": Key("integer", "of a Delta table; left out, the newest"),
    "timestamp": Key("text", "of a Delta table: instead of `version`, the one that was the newest then; ISO 8601"),
}
"""Tables of table formats."""

SOURCE: Mapping[str, Key] = {
    "path": Key(
        "text",
        "a file or a folder of files; relative to the policy file, no sign of it a pattern",
        required=True,
        instead=("table", "database", "query", "iceberg"),
    ),
    "table": Key(
        "text", "a table or view: of the database, else (instead of `path`) of the Spark session, as in `db.visits`"
    ),
    "database": Key(
        "database",
        "instead of `path`: a DuckDB or SQLite file, a URL without a password, `postgresql` for what PGHOST and its "
        "kin say, or {env: NAME} for the variable that holds the URL; with `table` or `query`",
    ),
    "query": Key("text", "one SELECT in the words of the `database`, instead of its `table`"),
    **LAKES,
    "format": Key("text", "format of the files; left out, recognised by the name's ending", get_args(Format)),
    "delimiter": Key("text", "character between the fields of a CSV file", default=","),
    "header": Key("flag", "whether the first line of a CSV file names its columns", default=True),
    "columns": Key("texts", "names of the columns of a CSV file without a header, in order"),
    "null_values": Key("texts", "CSV fields that mean a missing value", default=("",)),
    "max_bytes": Key(
        "integer", "what each packed or UTF-16 file may unpack to, in bytes: it is read whole", default=MOST_BYTES
    ),
    "partitions": Key("texts", "columns in the names of folders above Parquet files (`year=2024`), in their order"),
    "sheet": Key("text", "sheet of an Excel file that has several"),
    "encoding": Key(
        "text", "of CSV text; a byte order mark is skipped, and utf-16 needs one", get_args(Encoding), default="utf-8"
    ),
    "compression": Key(
        "text",
        "how CSV files are packed (a zip holds one file); left out, recognised by the ending",
        get_args(Compression),
    ),
    "skip_rows": Key("integer", "lines above the header of a CSV file, or above its first record", default=0),
    "footer": Key(
        "integer", "lines with text at the end of each CSV file that are not records: totals, notes", default=0
    ),
    "quote": Key("text", "ASCII character around fields of a CSV file; `none` where quotes are text", default='"'),
    "escape": Key("text", "ASCII character of a CSV file that takes the next one literally"),
    "comment": Key("text", "ASCII character at the beginning of lines of a CSV file that are left out"),
    "trim": Key("flag", "whether white space around CSV fields and column names is left out", default=False),
    "decimal": Key("text", "decimal sign of CSV columns declared integer, number or decimal", default="."),
    "thousands": Key("text", "character between groups of three digits of such columns; a space for any narrow one"),
    "date_format": Key(
        "text or texts by name",
        "how CSV columns declared date or timestamp are written, as in %d/%m/%Y: a text for all, or one by column",
    ),
}

GENERALIZED = Key("flag", "whether the table is generalized already; else the plan is applied to it", default=False)

SINK: Mapping[str, Key] = {
    "path": Key(
        "text",
        "folder to publish into; relative to the policy file",
        required=True,
        instead=("table", "iceberg", "database"),
    ),
    "table": Key(
        "text",
        "a table of the `database`, else (instead of `path`) a view to publish in the Spark session's own catalogue, "
        "`db.visits_public`",
    ),
    "database": Key(
        "database",
        "instead of `path`: a DuckDB or SQLite file, the URL of a PostgreSQL server without a password, `postgresql` "
        "for what PGHOST and related variables name, or {env: NAME} for the variable that holds the URL; with `table`",
    ),
    "iceberg": Key(
        "text", "instead of `path`: an Iceberg table to publish into, with its namespace, `db.visits_public`"
    ),
    "catalog": LAKES["catalog"],
    "format": Key(
        "text",
        "format of the published files; `delta` is a Delta table",
        ("parquet", "csv", "json", "delta"),
        default="parquet",
    ),
    "mode": Key(
        "text",
        "whether a release replaces the rows that are there, joins them (Delta and Iceberg tables) or takes "
        "the place of the partitions that it has rows of; rows that stay are judged with those that come",
        get_args(PublishMode),
        default="replace",
    ),
    "partition": Key(
        "texts",
        "released columns whose values make a partition: each file holds rows of one, so that `mode: "
        "replace_partition` can replace it",
    ),
    "schema": Key(
        "text",
        "of a Delta or Iceberg table: whether a release may bring columns that the table lacks; types never change",
        get_args(SchemaRule),
        default="same",
    ),
    "formula_cells": Key(
        "text",
        "CSV texts that spreadsheets run as formulas: kept and noted, behind an apostrophe, or an error",
        get_args(FormulaRule),
        default="keep",
    ),
}

PLAN: Mapping[str, Key] = {
    "file": Key("text", "JSON of a plan of this policy, as a private record holds it", required=True),
}

COLUMN_LOSS: Mapping[str, Key] = {
    "at_most": Key("share", "loss above which a column is an alarm, from 0 to 1", default=ColumnLossRule.at_most),
    "blanked_at_most": Key(
        "share",
        "share of blanked cells above which a column is an alarm, from 0 to 1",
        default=ColumnLossRule.blanked_at_most,
    ),
    "relation_lost_at_most": Key(
        "share",
        "share of a relation between two columns above whose loss it is an alarm, from 0 to 1",
        default=ColumnLossRule.relation_lost_at_most,
    ),
    "on_alarm": Key(
        "text",
        "whether an alarm is reported or refuses the release",
        get_args(AlarmAction),
        default=ColumnLossRule.on_alarm,
    ),
}

REPORT: Mapping[str, Key] = {
    "write": Key("flag", "whether a run writes its report", default=True),
    "threshold": Key(
        "integer",
        "records that a figure must be based on to be shown; left out, the largest required k, and at least 5",
    ),
    "lang": Key("text", "language of the report", get_args(Language), default="en"),
}

RETENTION: Mapping[str, Key] = {
    "keep": Key("integer", "how many of the newest private records are kept"),
    "days": Key("integer", "for how many days private records are kept; instead of `keep`"),
}

DRIFT: Mapping[str, Key] = {
    "new": Key(
        "text",
        'a column that the last run did not read and `columns:` does not name; left out, as `"*"` decides there',
        ("refuse", "drop"),
    ),
    "missing": Key("text", "a column that `columns:` names and the source lacks", ("refuse",), default="refuse"),
    "widened": Key(
        "text",
        "a type that holds every value of the one in the last run, as int64 of int32; any other change is refused",
        ("accept", "refuse"),
        default="accept",
    ),
}

FAILING: Mapping[str, Key] = {
    "sink": Key("failing_sink", "where they are kept, readable only by their owner", required=True),
}

FAILING_SINK: Mapping[str, Key] = {
    "path": Key(
        "text",
        "a folder of this machine apart from source, sink and records; relative to the policy file; each run has a "
        "folder of Parquet files there",
        required=True,
    ),
}

UTILITY: Mapping[str, Key] = {
    "column_loss": Key("column_loss", "what each column may lose"),
}

COLUMN: Mapping[str, Key] = {
    "role": Key("text", "what the column is for", get_args(Role), required=True),
    "type": Key("text", "type of its values; left out, the source's (text in CSV)", get_args(ColumnType)),
    "nulls": Key("text", "whether a missing sensitive value is a value or an error", ("own_value", "refuse")),
    "hierarchy": Key("hierarchy", "how its values generalize: one builder, and options"),
    "reason": Key("text", "why it has its role, in up to 300 characters; shown only in the internal report"),
}
LONGEST_REASON = 300
"""Characters of a column's reason."""

TOP: Mapping[str, Key] = {
    "version": Key("integer", "version of this grammar", default=VERSION),
    "name": Key("text", "name of the release; left out, that of the policy file"),
    "policy": Key("text", "an officer's policy that this one may only tighten: a file, or a preset's name"),
    "source": Key("source", "the table to release"),
    "engine": Key("engine", "what runs it", default="embedded"),
    "engines": Key("mapping", "options of each engine"),
    "columns": Key("columns", "role of every column of the source", required=True),
    "population": Key("source", "population table of the models that need one, as raw values"),
    "original": Key("source", "the original table, for `validate`"),
    "record_id": Key("text", "column that is unique to a record"),
    "person_id": Key("text", "column that names the person, where one has several records"),
    "household_id": Key("text", "identifier column that names the household, whose members share draws and removal"),
    "nulls": Key("text", "how a missing quasi-identifier matches", get_args(NullRule), default="own_value"),
    "undeclared": Key(
        "text",
        'what becomes of columns that `columns:` does not name, there written `"*": drop`: an error, dropped from the '
        "source, or (in a table that is judged) noted",
        OTHERS,
        default="refuse",
    ),
    "drift": Key("drift", "what a run does where the columns of the source are not those of the last run"),
    "metadata": Key(
        "text",
        "whether metadata of judged files, other than their writers' own, is an error or a note",
        UNDECLARED,
        default="refuse",
    ),
    "empty": Key(
        "text",
        "whether a table without a record is an error, or passes with a note: a release of it publishes nothing",
        get_args(EmptyRule),
        default="refuse",
    ),
    "wildcard": Key("text", "text that matches anything; only with `nulls: wildcard`"),
    "suppression_mark": Key("text", "text that stands for a suppressed value", default="*"),
    "transform": Key("entries", "stages, in order"),
    "guarantees": Key("entries", "what the release must meet; all are judged", required=True),
    "measures": Key("entries", "what is reported and never judged"),
    "sink": Key("sink", "where the release is published"),
    "failing": Key("failing", "the records that stages suppress, as they came in: kept for who corrects them"),
    "records": Key("text", "folder of the private records of runs; left out, one in the sink's work area"),
    "retention": Key("retention", "which private records are kept; left out, all of them"),
    "plan": Key("plan", "a plan of an earlier run: its stages are taken from there and not learnt again"),
    "utility": Key("utility", "what the release must be good for"),
    "report": Key("report", "the report that each run writes for people"),
    "uses": Key("texts", "what the data is for, as in `regression of income on age`; methods are compared by it"),
    "seed": Key("secret", "secret of 128 bits from which all draws follow; left out, one is drawn for the run"),
    "allow_insecure_seed": Key(
        "flag", "publish although the seed is declared insecure; for demonstrations", default=False
    ),
}


MEMBER: Mapping[str, Key] = {
    name: key
    for name, key in TOP.items()
    if name
    in (
        *("source", "columns", "record_id", "person_id", "household_id", "nulls", "undeclared", "drift", "metadata"),
        *("empty", "wildcard", "transform", "guarantees", "measures", "utility"),
    )
}
"""The keys of one of several related tables, next to `key`."""

RELATED: Mapping[str, Key] = {
    **{
        name: TOP[name]
        for name in (
            *("version", "name", "engine", "engines", "nulls", "undeclared", "metadata", "suppression_mark"),
            *("transform", "measures", "sink", "records", "retention", "report", "plan", "seed", "allow_insecure_seed"),
        )
    },
    "tables": Key(
        "mapping", "related tables by name, each with source, columns, key, stages, guarantees", required=True
    ),
    "relations": Key("entries", "which table leads to which: {from: visits.patient_id, to: patients}", required=True),
    "orphans": Key(
        "text", "whether rows that belong to no person are an error, or left out", ("refuse", "drop"), default="refuse"
    ),
    "joined": Key("flag", "whether the tables are judged together where no key is released", default=True),
    "guarantees": Key("entries", "what the tables must meet together; each table may have its own", required=True),
}
"""The keys of a policy about related tables."""


OFFICER: Mapping[str, Key] = {
    "version": Key("integer", "version of this grammar", default=VERSION),
    "name": Key("text", "name of the officer's policy; left out, that of its file"),
    "about": Key("text", "what it is for"),
    "guarantees": Key("entries", "what every job must at least require; next to each entry its reason and source"),
    "columns": Key("mapping", "columns by name with the role that a job gives them, or a more protected one"),
    "nulls": Key("text", "how a missing quasi-identifier matches; `refuse` is always allowed", get_args(NullRule)),
    "undeclared": Key("text", "`note` lets jobs note a column without a role", UNDECLARED, default="refuse"),
    "metadata": Key("text", "`note` lets jobs note metadata of judged files", UNDECLARED, default="refuse"),
    "seed": Key("text", "whether a job must declare a seed", ("optional", "required"), default="optional"),
    "suppress_at_most": Key("share", "share of the records that a stage may suppress, at most"),
    "allow_insecure_seed": Key("flag", "lets jobs publish under an insecure seed", default=False),
    "sign_off": Key("mapping", "whose approval a release waits for"),
}
"""The keys of an officer's policy."""

OFFICER_COLUMN: Mapping[str, Key] = {
    "role": Key("text", "least protected role that a job may give it", get_args(Role), required=True),
}

SIGN_OFF: Mapping[str, Key] = {
    "by": Key("entries", "who may sign: a list of {name, key}", required=True),
    "two_persons": Key("flag", "whether two of them must approve", default=False),
    "valid_days": Key("integer", "for how many days an approval holds", default=90),
}

SIGNER: Mapping[str, Key] = {
    "name": Key("text", "the person", required=True),
    "key": Key("text", "the person's public key, `ssh-ed25519 AAAA...`", required=True),
}

SOURCE_SECTIONS: Mapping[str, Mapping[str, Key]] = {
    "source": SOURCE,
    "population": {**SOURCE, "generalized": GENERALIZED},
    "original": SOURCE,
}
"""The keys of each section that names a table to be read."""
