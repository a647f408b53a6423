"""What `privpipe explain` says of each format of a source: its keys, their defaults, an example."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privpipe.policy.grammar import Key

__all__ = ["SOURCE_TOPICS", "key_document", "source_document", "source_example"]

_FORM = (
    "encoding",
    "compression",
    "skip_rows",
    "footer",
    "quote",
    "escape",
    "comment",
    "trim",
    "decimal",
    "thousands",
    "date_format",
)
_CSV = ("delimiter", "header", "columns", "null_values", "max_bytes", *_FORM)
_EXCEL = ("sheet", "header", "columns", "null_values", "skip_rows", "footer", "trim", "max_bytes")
_WHOLE = "It is read whole by the process that runs the policy, so convert what is larger than its memory to Parquet."
SOURCE_TOPICS: Mapping[str, tuple[str, str, tuple[str, ...], str]] = {
    "parquet": (
        "Parquet files, or a folder of them; each engine reads them itself.",
        "Columns have the types of the files. Columns in the names of folders are named by `partitions`.",
        ("partitions",),
        "{path: data/visits, partitions: [year, region]}",
    ),
    "csv": (
        "Text with delimiters: .csv, .tsv, .txt and .data, also packed (.gz, .zst, .bz2, .xz, .zip).",
        "Columns are text until `columns:` of the policy types them. One reader serves all engines, and cells that are "
        "not of the declared form are counted and refused. `privpipe doctor FILE` prints the keys of a file.",
        _CSV,
        '{path: data/besuche.csv, delimiter: ";", encoding: windows-1252, decimal: ","}',
    ),
    "json": (
        "One JSON object a line: .json, .jsonl and .ndjson, also packed.",
        "Columns are text until `columns:` of the policy types them.",
        ("max_bytes",),
        "{path: data/visits.jsonl}",
    ),
    "arrow": (
        "Arrow files (Feather) and streams in files: .arrow, .feather and .ipc.",
        f"Columns have the types of the file. {_WHOLE}",
        (),
        "{path: data/visits.feather}",
    ),
    "orc": (
        "ORC files: .orc.",
        f"Columns have the types of the file. {_WHOLE}",
        (),
        "{path: data/visits.orc}",
    ),
    "avro": (
        "Avro files: .avro; needs the extra [formats].",
        f"Columns have the types of the file; enumerations are texts. {_WHOLE}",
        ("max_bytes",),
        "{path: data/visits.avro}",
    ),
    "excel": (
        "Excel files: .xlsx and .xlsm; needs the extra [formats].",
        f"Columns are text until `columns:` of the policy types them; rows without a value are left out. {_WHOLE}",
        _EXCEL,
        "{path: data/visits.xlsx, sheet: visits, skip_rows: 1}",
    ),
    "stata": (
        "Stata files: .dta.",
        f"Columns have the types of the file, and labels stand for codes. {_WHOLE}",
        (),
        "{path: data/visits.dta}",
    ),
    "spss": (
        "SPSS files: .sav and .zsav; needs the extra [formats].",
        f"Columns have the types of the file, and labels stand for codes. {_WHOLE}",
        (),
        "{path: data/visits.sav}",
    ),
    "sas": (
        "SAS files: .sas7bdat and .xpt; needs the extra [formats].",
        f"Columns have the types of the file. {_WHOLE}",
        (),
        "{path: data/visits.xpt}",
    ),
    "database": (
        "A table or a query of a DuckDB or SQLite file, of PostgreSQL, or of what SQLAlchemy reads.",
        "A file is told by its first bytes and opened read-only. The rows are read in one statement into a private "
        "temporary file, which every engine reads. Servers need the extra [databases]; credentials come from the "
        "environment alone, and a password in a policy is an error. `sink: {database: ..., table: ...}` publishes into "
        "a DuckDB or SQLite file or PostgreSQL: `privpipe explain sink`.",
        ("database", "table", "query"),
        "{database: data/visits.duckdb, table: main.visits}",
    ),
}
"""By topic: its first line, what more there is to say, its own keys, an example."""


def source_document(name: str) -> dict[str, Any]:
    """What is known of a format of a source.

    Examples
    --------
    >>> document = source_document("orc")
    >>> [each["name"] for each in document["parameters"]], document["example"]
    (['path', 'format'], 'source: {path: data/visits.orc}')
    """
    from privpipe.policy.grammar import SOURCE

    summary, about, own, example = SOURCE_TOPICS[name]
    keys = own if name == "database" else ("path", "format", *own)
    return {
        "name": name,
        "kind": "source of a policy",
        "summary": summary,
        "about": about,
        "parameters": [key_document(key, SOURCE[key]) for key in keys],
        "example": f"source: {example}",
    }


def key_document(name: str, key: Key) -> dict[str, Any]:
    """What the grammar knows of a key of a section."""
    kinds = {"texts": "list of text", "database": "text or {env: NAME}"}
    found: dict[str, Any] = {
        "name": name,
        "type": " | ".join(key.choices) or kinds.get(key.kind, key.kind),
        "about": key.about,
        "required": key.required and not key.instead,
    }
    if key.default is not None:
        found["default"] = list(key.default) if isinstance(key.default, tuple) else key.default
    return found


def source_example(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines that show a source as a policy has it."""
    if "example" in document:
        yield ""
        yield "example:"
        yield f"  {document['example']}"
