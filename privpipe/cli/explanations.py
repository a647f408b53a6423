"""What ``privpipe explain`` shows of sources, table formats, hierarchies and officers' policies."""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privpipe.policy.grammar import Key

__all__ = [
    "LAKE_TOPICS",
    "OFFICER_TOPICS",
    "RELATED_TOPICS",
    "SOURCE_TOPICS",
    "TOPIC",
    "builder_document",
    "builder_lines",
    "hierarchy_document",
    "hierarchy_lines",
    "key_document",
    "lake_keys",
    "lake_text",
    "officer_document",
    "source_document",
    "source_example",
    "type_words",
]


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
        "A file is recognised by its first bytes and opened read-only. The rows are read in one statement into a "
        "private temporary file, which every engine reads. Servers need the extra [databases]; credentials come "
        "from the environment alone, and a password in a policy is an error. `sink: {database: ..., table: ...}` "
        "publishes into a DuckDB or SQLite file or PostgreSQL: `privpipe explain sink`.",
        ("database", "table", "query"),
        "{database: data/visits.duckdb, table: main.visits}",
    ),
}
"""By topic: its first line, what more there is to say, its own keys, an example."""


def _keys_of_a_table() -> Mapping[str, Key]:
    from privpipe.policy.grammar import MEMBER, Key

    return {"key": Key("text", "distinguishes its rows, where a relation leads to it; or a list of columns"), **MEMBER}


def _keys_of_a_relation() -> Mapping[str, Key]:
    from privpipe.policy.grammar import Key

    return {
        "from": Key("text", "a table and its columns: visits.patient, visits.[hospital, patient]", required=True),
        "to": Key("text", "the table whose `key:` they hold", required=True),
    }


def _key_of_orphans() -> Mapping[str, Key]:
    from privpipe.policy.grammar import RELATED

    return {"orphans": RELATED["orphans"]}


RELATED_TOPICS: Mapping[str, tuple[str, Callable[[], Mapping[str, Key]], str]] = {
    "tables": (
        "Instead of `source:` and `columns:`. No relation leaves the root table; its rows are persons, "
        "and what is judged together is counted in persons. Each table has its own stages and may have its own "
        "guarantees; sink, seed, engine and joint guarantees belong to the whole set, which is published in one move.",
        _keys_of_a_table,
        "tables: {patients: {source: {path: patients.parquet}, key: patient, columns: {...}}, visits: {...}}",
    ),
    "relations": (
        "Many rows to one: each table leads to the root by one path, also through others. What a relation leads to has "
        "a `key:`, unique and without missing values. A key with the role `identifier` is dropped from what is "
        "published unless `pseudonymise` releases it.",
        _keys_of_a_relation,
        "relations: [{from: visits.patient, to: patients}, {from: drugs.visit, to: visits}]",
    ),
    "orphans": (
        "A row whose key is missing, or is not in the table that the relation leads to, belongs to no person. `drop` "
        "leaves such rows out before the stages over the set, and counts them.",
        _key_of_orphans,
        "orphans: drop",
    ),
}
"""By section of a policy about related tables: what more there is to say, its keys, an example."""


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


LAKE_TOPICS = {
    "delta": (
        "A Delta table, read as its log has it: a folder with `_delta_log`, on every path argument.",
        "Rows that the log has deleted are not read, whatever files still hold them. Deletion vectors, mapped columns "
        "(by name), typed partitions and columns that came later are read on every engine, as deltalake tells them "
        "from the log (`pip install 'privpipe[delta]'`); on Spark the session's own connector goes first. Mapping by "
        "id, type widening, unknown reader features and binary partition columns are refused. A file or folder within "
        "the table, and a link into it, are refused by name. A run reads one version, which its private manifest "
        "names. As a sink: `sink: {path: lake/visits_public, format: delta}` publishes by one commit into a table that "
        "privpipe made, with `mode: append` next to existing rows (the batch and the whole table are judged), "
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


OFFICER_TOPICS = {
    "officer": (
        "The policy of those responsible for releases: the minimum for every job.",
        "A job names it as `policy: FILE` or by the name of a preset ({presets}) and may only tighten it: a loosening "
        "is an error that names both lines. PRIVPIPE_OFFICER_POLICY=FILE or FILE@sha256:HEX holds every release of a "
        "machine to one, whether its job names it or not. Its hash is in the manifest, and `privpipe verify "
        "--officer-policy FILE` holds a release to it.",
        "{guarantees: [{k_anonymity: {k: 11}, reason: no class has a risk above 0.09}], seed: required}",
    ),
    "sign_off": (
        "A section of an officer's policy: whose approval a release waits for.",
        "The release is staged, judged, and waits: exit code 7, nothing published. `privpipe sign RUN --as NAME "
        "--decision approve` signs exactly its bytes, documents and policies with the person's Ed25519 or SSH key "
        "(`privpipe key make`); `privpipe release POLICY --continue RUN` publishes what was approved. report.html in "
        "the folder that waits says for whom. Whoever rejects or asks for changes stops it. A declared seed is needed, "
        "and a sink of files.",
        "sign_off: {by: [{name: Ada Moe, key: ssh-ed25519 AAAA...}], two_persons: false, valid_days: 90}",
    ),
}
"""By name: summary, prose, example."""


def officer_document(name: str) -> dict[str, Any]:
    """The document of an officer's policy, or of its sign-off.

    Examples
    --------
    >>> [each["name"] for each in officer_document("sign_off")["parameters"]]
    ['by', 'two_persons', 'valid_days']
    """
    from privpipe.policy.grammar import OFFICER, SIGN_OFF
    from privpipe.policy.officer import presets

    summary, about, example = OFFICER_TOPICS[name]
    keys = OFFICER if name == "officer" else SIGN_OFF
    return {
        "name": name,
        "kind": "officer's policy",
        "summary": summary,
        "about": about.replace("{presets}", ", ".join(presets())),
        "parameters": [key_document(key, each) for key, each in keys.items()],
        "example": example,
    }


TOPIC = "hierarchy"
"""The name under which all builders are explained."""


def hierarchy_document() -> dict[str, Any]:
    """All builders at hand, and the keys that may be used with them."""
    from privpipe.hierarchies import BUILDERS, builders
    from privpipe.hierarchies.spec import builder_text, option_parameters

    return {
        "name": TOPIC,
        "kind": "section of a policy",
        "summary": "What the values of a column become, level by level: one builder and its options.",
        "builders": {
            name: builder_text(name)[0] if name in BUILDERS else "brought by a plug-in" for name in builders()
        },
        "options": [_told(each) for each in option_parameters()],
        "example": "age: {role: quasi_identifier, hierarchy: {bands: {steps: [5, 10, 20]}, min_level: 1}}",
    }


def builder_document(name: str) -> dict[str, Any]:
    """What a built-in builder states about itself, and what its example makes of some values."""
    from privpipe.hierarchies.spec import CLASSES, builder_parameters, builder_text

    kind: Any = CLASSES[name]
    summary, about = builder_text(name)
    return {
        "name": name,
        "class": f"{kind.__module__}.{kind.__name__}",
        "kind": "hierarchy builder",
        "summary": summary,
        "about": about,
        "parameters": [_told(each) for each in builder_parameters(name)],
        "example": f"hierarchy: {{{name}: {kind.example}}}",
        **({"example_file": kind.example_file} if hasattr(kind, "example_file") else {}),
        "labels": _labels(name, kind),
    }


def hierarchy_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The text of `hierarchy_document`."""
    yield f"{document['name']} - {document['kind']}"
    yield document["summary"]
    yield ""
    yield "builders (`privpipe explain NAME` shows the parameters):"
    for name, summary in document["builders"].items():
        yield f"  {name:17} {summary}"
    yield ""
    yield "options in addition to the builder:"
    for option in document["options"]:
        yield f"  {option['name']}: {option['type']}{_default(option)}"
        yield f"      {option['about']}"
    yield ""
    yield f"example: {document['example']}"


def builder_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What follows the parameters of `builder_document`."""
    yield ""
    yield f"example: {document['example']}"
    if "example_file" in document:
        yield from (f"  {line}" for line in document["example_file"].splitlines())
    for row in document["labels"]:
        yield "  " + " -> ".join(row)


def _labels(name: str, kind: Any) -> list[list[str]]:
    """Each value of the example and its label at every level."""
    from ruamel.yaml import YAML

    from privpipe.hierarchies import HierarchySpec

    seen = Counter(kind.example_values)
    with tempfile.TemporaryDirectory() as folder:
        if hasattr(kind, "example_file"):
            (Path(folder) / kind.example).write_text(kind.example_file, encoding="utf-8")
        mapping = YAML(typ="safe", pure=True).load(f"{{{name}: {kind.example}}}")
        spec = HierarchySpec.from_mapping(mapping, folder)
        if hasattr(kind, "example_rows"):
            spec = dataclasses.replace(spec, builder=kind.from_parameters(mapping[name]).read(kind.example_rows, ""))
        built = spec.build(list(seen), list(seen.values()), kind.example_type)
    levels = [built.mapping(level) for level in range(built.height + 1)]
    return [[level[value] for level in levels] for value in seen]


def _told(parameter: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: parameter[key] for key in ("name", "about", "required")}
    default = {"default": parameter["default"]} if "default" in parameter else {}
    return {**found, "type": type_words(parameter["schema"]), **default}


def type_words(schema: Mapping[str, Any]) -> str:
    """A JSON schema's type in a few words.

    Examples
    --------
    >>> type_words({"type": "array", "items": {"type": ["number", "string"]}}), type_words({"enum": ["a", "b"]})
    ('list of number', 'a | b')
    """
    if "anyOf" in schema:
        return " or ".join(type_words(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if schema["type"] == "array":
        return f"list of {type_words(schema['items'])}"
    if schema["type"] == ["string", "number", "boolean"]:
        return "value"
    kind = str(schema["type"][0] if isinstance(schema["type"], list) else schema["type"])
    return {"string": "text", "boolean": "flag"}.get(kind, kind)


def _default(option: Mapping[str, Any]) -> str:
    return f" (default {option['default']})" if "default" in option else ""
