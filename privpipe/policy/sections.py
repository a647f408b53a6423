"""Sections of a policy read into specifications: columns, keys, and the source with how its files are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from privpipe.blocks.table_name import TableName
from privpipe.draws import Seed
from privpipe.engines import engine_fault
from privpipe.engines.databases import Database, password_fault
from privpipe.engines.lakes import IcebergName
from privpipe.engines.readers.text_forms import FORM_KEYS, TextForm, form_faults
from privpipe.engines.stores import refuse_credentials
from privpipe.errors import PolicyError, UsageError, did_you_mean
from privpipe.hierarchies import HierarchySpec
from privpipe.judging.column_loss import ColumnLossRule
from privpipe.policy.entries import Draft
from privpipe.policy.grammar import (
    COLUMN,
    COLUMN_LOSS,
    DRIFT,
    LAKES,
    LONGEST_REASON,
    OTHERS,
    PLAN,
    REPORT,
    RETENTION,
    SOURCE,
    SOURCE_SECTIONS,
    UTILITY,
    Key,
)
from privpipe.policy.plain_values import Place, Report
from privpipe.policy.secret import SecretSpec
from privpipe.policy.specs import (
    ColumnSpec,
    DriftSpec,
    PlanSpec,
    ReportSpec,
    RetentionSpec,
    SinkSpec,
    SourceSpec,
    Utility,
)
from privpipe.policy.uses import Use, read_use
from privpipe.roles import case_collisions

__all__ = [
    "OF_ICEBERG",
    "check_dated_columns",
    "check_delta",
    "check_url",
    "database_fault",
    "read_columns",
    "read_database",
    "read_database_sink",
    "read_drift",
    "read_engines",
    "read_form",
    "read_iceberg",
    "read_keys",
    "read_others",
    "read_plan",
    "read_report",
    "read_retention",
    "read_secret",
    "read_source",
    "read_uses",
    "read_utility",
    "table_name",
]


VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def database_fault(value: Any) -> str:
    """What is wrong with the shape of `database:`; nothing of it is repeated, for it may hold a password.

    Examples
    --------
    >>> database_fault("visits.duckdb"), database_fault({"env": "VISITS_URL"})
    ('', '')
    >>> database_fault({"env": "postgresql://me:pw@db.example/visits"})
    'env names an environment variable: letters, digits and _; the URL is in the variable'
    """
    if isinstance(value, Mapping):
        if list(value) != ["env"]:
            return "must be a text, or {env: NAME} with the environment variable that holds the URL"
        if not (isinstance(value["env"], str) and VARIABLE.fullmatch(value["env"])):
            return "env names an environment variable: letters, digits and _; the URL is in the variable"
        return ""
    if not (isinstance(value, str) and value.strip()):
        return "must be a file, a URL without a password, or {env: NAME}"
    return password_fault(value)


def read_database(report: Report, found: Mapping[str, Any], place: Place) -> SourceSpec | None:
    """The source of the keys that were found, of which one is `database` or `query`."""
    if "database" not in found:
        report.wrong((*place, "query"), "is for a database: write `database:`, or leave it out")
        return None
    wrong = False
    for name in found:
        if name == "path":
            report.wrong(
                (*place, "database"), "is given in addition to `path:`; a table has one place: leave one of them out"
            )
        elif name not in ("database", "table", "query", "generalized"):
            report.wrong((*place, name), "is for files; a database declares its own columns and types")
        wrong = wrong or name == "path"
    if ("table" in found) == ("query" in found):
        report.wrong((*place, "database"), "needs `table:` or `query:`, one of the two")
        return None
    table = table_name(report, found["table"], (*place, "table")) if "table" in found else None
    if wrong or ("table" in found and table is None):
        return None
    database = _named(report, found, table, place)
    return SourceSpec(database=database, generalized=found.get("generalized", False))


def read_database_sink(report: Report, found: Mapping[str, Any], place: Place) -> SinkSpec | None:
    """The sink of the keys that were found, of which one is `database`."""
    wrong = False
    for name in found:
        if name == "path":
            report.wrong(
                (*place, "database"), "is given in addition to `path:`; a release has one place: leave one of them out"
            )
        elif name == "partition" or found[name] == "replace_partition":
            report.unsupported(
                (*place, name),
                "a table of a database is replaced as a whole; publish a folder, a Delta or an Iceberg table",
            )
        elif name not in ("database", "table"):
            report.wrong((*place, name), "is for other sinks; a table of a database is always replaced as a whole")
        wrong = wrong or name not in ("database", "table")
    if "table" not in found:
        report.wrong((*place, "database"), "needs `table:`, the name under which the release is read")
        return None
    table = table_name(report, found["table"], (*place, "table"))
    return None if wrong or table is None else SinkSpec(database=_named(report, found, table, place))


def _named(report: Report, found: Mapping[str, Any], table: TableName | None, place: Place) -> Database:
    at = found["database"]
    return Database(
        at=at if isinstance(at, str) else "",
        env="" if isinstance(at, str) else at["env"],
        table=table,
        query=found.get("query"),
        place=report.located(place),
    )


def table_name(report: Report, text: str, place: Place) -> TableName | None:
    """The name of a table; what is wrong with it is noted."""
    try:
        return TableName.parse(text, report.located(place))
    except UsageError as error:
        report.wrong(place, str(error))
        return None


OF_ICEBERG = ("catalog", "snapshot", "branch", "tag")
OF_DELTA = ("version", "timestamp")


def read_iceberg(report: Report, found: Mapping[str, Any], place: Place) -> SourceSpec | None:
    """A source that is an Iceberg table, which has no files to describe."""
    for key in found:
        if key in ("path", "table"):
            report.wrong(
                (*place, "iceberg"), f"is given in addition to `{key}:`; a table has one place: leave one of them out"
            )
        elif key not in ("iceberg", "generalized", *OF_ICEBERG):
            report.wrong((*place, key), "is for files; an Iceberg table declares its own columns and types")
    try:
        name = IcebergName(name=found["iceberg"], **{key: found[key] for key in OF_ICEBERG if key in found})
    except UsageError as error:
        report.wrong((*place, "iceberg"), str(error))
        return None
    return SourceSpec(iceberg=name, generalized=found.get("generalized", False))


def check_delta(report: Report, found: dict[str, Any], place: Place) -> None:
    """Keys of table formats next to a path; a version shows that it is a Delta table."""
    for name in OF_ICEBERG:
        if found.pop(name, None) not in (None, LAKES[name].default):
            report.wrong((*place, name), "is for an Iceberg table, which `iceberg:` names instead of `path:`")
    said = [name for name in OF_DELTA if name in found]
    if not said:
        return
    if found.setdefault("format", "delta") != "delta":
        report.wrong((*place, said[0]), f"is for Delta tables; the format here is {found['format']}")
    if len(said) > 1:
        report.wrong((*place, "timestamp"), "is given in addition to `version:`; leave one of them out")
    if found.get("version", 0) < 0:
        report.wrong((*place, "version"), f"must be 0 or more, got {found['version']}")


def read_form(report: Report, found: Mapping[str, Any], place: Place) -> TextForm:
    """The form that the keys of a source describe; what is wrong with it is noted.

    Parameters
    ----------
    found : mapping
        Keys of the source, each of the kind that the grammar demands.
    """
    given = {name: found[name] for name in FORM_KEYS if name in found}
    faults = dict(form_faults(given, found.get("delimiter", ",")))
    for name, fault in faults.items():
        report.wrong((*place, name), fault)
    return TextForm() if faults else TextForm(**given)


def check_dated_columns(draft: Draft, report: Report) -> None:
    """A date format is for a column that is declared a date: of any other it would be ignored."""
    for section in ("source", "original", "population"):
        spec = draft.values.get(section)
        formats = spec.form.date_format if isinstance(spec, SourceSpec) else {}
        for name in formats if isinstance(formats, Mapping) else ():
            declared = draft.columns[name].type if name in draft.columns else None
            if name in draft.unreadable_columns or declared in ("date", "timestamp"):
                continue
            said = f"declared {declared}" if declared else "not declared a date"
            report.wrong(
                (section, "date_format", name), f"column {name!r} is {said}; give it `type: date` or `type: timestamp`"
            )


EVERY_OTHER = "*"
"""Under `columns:` what becomes of columns that it does not name; with a mapping behind it a column of that name."""
RESERVED, COUNT = "__privpipe", "__count"
PLACES = ("from_env", "from_file", "insecure")
OF_CSV = ("delimiter", "header", "columns", "null_values", *FORM_KEYS)
OF_EXCEL = ("header", "columns", "null_values", "skip_rows", "footer", "trim")


def read_keys(
    report: Report, value: Any, place: Place, keys: Mapping[str, Key], hint: Callable[[str], str] = lambda name: ""
) -> dict[str, Any]:
    """The keys of one section that are as they should be; everything else is noted.

    A key whose value is null counts as left out. `hint` gives where an unknown key belongs, if it knows.
    """
    if not isinstance(value, Mapping):
        report.wrong(place, f"must be a mapping{_example(keys)}, not {_kind(value)}")
        return {}
    found = {}
    meant: set[str] = set()
    for name, item in value.items():
        if name not in keys:
            near = did_you_mean(name, keys)
            meant.update(key for key in keys if repr(key) in near)
            report.wrong((*place, name), f"unknown key{hint(str(name)) or near or '; known here: ' + ', '.join(keys)}")
        elif item is not None and (wrong := _mismatch(item, keys[name])):
            report.wrong((*place, name), wrong)
        elif item is not None:
            found[name] = item
    for name in _left_out(value, keys):
        if not meant & {name, *keys[name].instead}:
            report.wrong((*place, name), f"is required: {keys[name].about}")
    return found


def _example(keys: Mapping[str, Key]) -> str:
    example = ", ".join(f"{name}: ..." for name, key in keys.items() if key.required)
    return f", as in {{{example}}}" if example else ""


def _left_out(value: Mapping[str, Any], keys: Mapping[str, Key]) -> list[str]:
    """Required keys that a section does not have."""
    return [
        name
        for name, key in keys.items()
        if key.required and all(value.get(each) is None for each in (name, *key.instead))
    ]


def read_source(report: Report, value: Any, place: Place) -> SourceSpec | None:
    """`source`, `original` or `population`."""
    keys = SOURCE_SECTIONS.get(str(place[-1]), SOURCE)
    found = read_keys(report, value, place, keys)
    if "database" in found or "query" in found:
        return read_database(report, found, place)
    if "iceberg" in found:
        return read_iceberg(report, found, place)
    if "table" in found:
        return _named_source(report, found, place)
    if "path" not in found:
        return None
    check_url(report, found["path"], (*place, "path"))
    check_delta(report, found, place)
    for name in ("columns", "null_values", "partitions"):
        if name in found:
            found[name] = tuple(found[name])
    form = read_form(report, found, place)
    spec = SourceSpec(**{name: item for name, item in found.items() if name not in FORM_KEYS}, form=form)
    try:
        resolved = spec.resolved_format
    except UsageError as error:
        report.wrong((*place, "path"), str(error))
        return spec
    if spec.max_bytes < 1:
        report.wrong((*place, "max_bytes"), f"must be at least 1, got {spec.max_bytes}")
    if resolved not in ("csv", "json", "excel", "avro") and "max_bytes" in found:
        what = f"is for packed CSV and JSON files, Excel and Avro; the format here is {resolved}"
        report.wrong((*place, "max_bytes"), what)
    if resolved != "parquet" and "partitions" in found:
        report.wrong((*place, "partitions"), f"is for Parquet files; the format here is {resolved}")
    if resolved != "excel" and "sheet" in found:
        report.wrong((*place, "sheet"), f"is for Excel files; the format here is {resolved}")
    if resolved != "csv":
        for name in OF_CSV:
            if name in found and not (resolved == "excel" and name in OF_EXCEL):
                report.wrong((*place, name), f"is for CSV files; the format here is {resolved}")
    else:
        _check_csv(report, spec, place)
    return spec


def _named_source(report: Report, found: Mapping[str, Any], place: Place) -> SourceSpec | None:
    """A table of a catalogue, which has no files to describe."""
    for name in found:
        if name == "path":
            report.wrong(
                (*place, "table"), "is given in addition to `path:`; a table has one place: leave one of them out"
            )
        elif name not in ("table", "generalized"):
            report.wrong((*place, name), "is for files; a table declares its own columns and types")
    table = table_name(report, found["table"], (*place, "table"))
    return None if table is None else SourceSpec(table=table, generalized=found.get("generalized", False))


def _check_csv(report: Report, spec: SourceSpec, place: Place) -> None:
    if len(spec.delimiter) != 1:
        report.wrong((*place, "delimiter"), "must be a single character")
    if not spec.header and not spec.columns:
        report.wrong((*place, "header"), "a file without a header needs `columns: [...]`, their names in order")
    if spec.header and spec.columns:
        report.wrong((*place, "columns"), "is for files without a header; write `header: false` or leave it out")


def check_url(report: Report, path: str, place: Place) -> None:
    """Complain of a URL with a secret: it is kept with the policy and in manifests."""
    try:
        refuse_credentials(path)
    except UsageError as error:
        report.wrong(place, str(error))


def read_plan(report: Report, value: Any, place: Place) -> PlanSpec | None:
    """`plan`."""
    found = read_keys(report, value, place, PLAN)
    return PlanSpec(**found) if "file" in found else None


def read_drift(report: Report, value: Any, place: Place) -> DriftSpec:
    """`drift`."""
    return DriftSpec(**read_keys(report, value, place, DRIFT))


def read_others(report: Report, document: Any, found: dict[str, Any]) -> Any:
    """The document with the rule of `columns: {"*": ...}` as `undeclared:`, its name outside the section.

    `found`, the keys that are as they should be, has the rule there too. Two that contradict each other are noted.
    """
    columns = found.get("columns")
    if isinstance(columns, Mapping) and isinstance(rule := columns.get(EVERY_OTHER), str):
        place = ("columns", EVERY_OTHER)
        if rule not in OTHERS:
            report.wrong(
                place, f"must be one of {', '.join(OTHERS)}, not the text {rule!r}{did_you_mean(rule, OTHERS)}"
            )
        elif found.get("undeclared", rule) != rule:
            report.wrong(place, f"is {rule}, and `undeclared:` is {found['undeclared']}: leave `undeclared:` out")
        found["columns"] = {name: spec for name, spec in columns.items() if name != EVERY_OTHER}
        found["undeclared"] = rule if rule in OTHERS else "refuse"
        document = {**document, "columns": found["columns"], "undeclared": found["undeclared"]}
    drift = found.get("drift")
    if isinstance(drift, Mapping) and drift.get("new") == "drop":
        if found.get("undeclared", "drop") != "drop":
            what = f"is drop, and columns that `columns:` does not name are {found['undeclared']}: write one of the two"
            report.wrong(("drift", "new"), what)
        found["undeclared"] = "drop"
    return document


def read_utility(report: Report, value: Any, place: Place) -> Utility:
    """`utility`."""
    found = read_keys(report, value, place, UTILITY)
    if "column_loss" not in found:
        return Utility()
    own = read_keys(report, found["column_loss"], (*place, "column_loss"), COLUMN_LOSS)
    return Utility(column_loss=ColumnLossRule(**own))


def read_report(report: Report, value: Any, place: Place) -> ReportSpec:
    """`report`."""
    found = read_keys(report, value, place, REPORT)
    if found.get("threshold", 1) < 1:
        report.wrong((*place, "threshold"), f"must be at least 1, got {found['threshold']}")
    return ReportSpec(**found)


def read_retention(report: Report, value: Any, place: Place) -> RetentionSpec | None:
    """`retention`."""
    try:
        return RetentionSpec(**read_keys(report, value, place, RETENTION))
    except UsageError as error:
        report.wrong(place, str(error))
        return None


def read_uses(report: Report, value: Sequence[str], columns: Mapping[str, ColumnSpec]) -> tuple[Use, ...]:
    """`uses`, each with what is wrong about it at its own line."""
    found = []
    types = {name: column.type for name, column in columns.items() if column.type}
    for at, text in enumerate(value):
        try:
            found.append(read_use(text, columns, types))
        except UsageError as error:
            report.wrong(("uses", at), str(error))
    return tuple(found)


def read_columns(report: Report, value: Any, place: Place, base_dir: Path) -> dict[str, ColumnSpec]:
    """`columns`: every column that is well described."""
    if not isinstance(value, Mapping):
        report.wrong(place, f"must be a mapping of column names, as in {{age: {{role: ...}}}}, not {_kind(value)}")
        return {}
    if not value:
        report.wrong(place, "names no column")
    for group in case_collisions(value):
        report.wrong((*place, group[-1]), f"column names differ only in case: {', '.join(map(repr, group))}")
    return {name: _column(report, item, (*place, name), base_dir) for name, item in value.items()}


def _column(report: Report, value: Any, place: Place, base_dir: Path) -> ColumnSpec:
    name = str(place[-1])
    if not name or name.casefold().startswith(RESERVED) or name.casefold() == COUNT:
        report.wrong(place, f"a column name must not be empty, be {COUNT} or start with {RESERVED}")
    found = read_keys(report, value, place, COLUMN)
    if "nulls" in found and found.get("role", "sensitive") != "sensitive":
        report.wrong((*place, "nulls"), "is for sensitive columns; quasi-identifiers follow the policy's own `nulls:`")
    if len(found.get("reason", "")) > LONGEST_REASON:
        many = f"has {len(found['reason']):,} characters, more than {LONGEST_REASON}"
        report.wrong((*place, "reason"), f"{many}; shorten it")
    if "hierarchy" in found:
        found["hierarchy"] = _hierarchy(report, found["hierarchy"], (*place, "hierarchy"), base_dir)
    return ColumnSpec(**{"role": "insensitive", **found})


def _hierarchy(report: Report, value: Mapping[str, Any], place: Place, base_dir: Path) -> Any:
    try:
        return HierarchySpec.from_mapping(value, base_dir, column=str(place[1]))
    except PolicyError as error:
        for problem in error.problems:
            report.wrong((*place, *problem.path.split(".")) if problem.path else place, problem.message)
        return None


def read_engines(report: Report, value: Any, place: Place) -> dict[str, dict[str, Any]]:
    """`engines`: options by engine; which options there are, the engine reports when it opens."""
    found = {}
    for name, options in value.items():
        if wrong := engine_fault(name):
            report.wrong((*place, name), wrong)
        elif options is not None and not isinstance(options, Mapping):
            report.wrong((*place, name), f"must be a mapping of options, not {_kind(options)}")
        else:
            found[name] = dict(options or {})
    return found


def read_secret(report: Report, value: Any, place: Place, base_dir: Path) -> SecretSpec | None:
    """A seed: `{from_env: NAME}`, `{from_file: PATH}`, with a warning the seed itself, or `{insecure: ...}`."""
    form = "write {from_env: NAME} or {from_file: PATH}"
    if _is_text(value):
        try:
            Seed.of(value)
        except UsageError as error:
            report.wrong(place, str(error))
            return None
        report.warn(place, f"the secret is in the policy, where anyone who reads it can undo the noise; {form}")
        return SecretSpec(literal=value)
    if not isinstance(value, Mapping):
        report.wrong(place, f"must be text, an integer or a mapping; {form}")
        return None
    for name in value:
        if name not in PLACES:
            report.wrong((*place, name), f"unknown key{did_you_mean(name, PLACES)}; {form}")
            return None
    if "insecure" in value:
        if len(value) != 1 or not _is_text(value["insecure"]):
            report.wrong(place, "insecure must be a text or an integer, without other keys")
            return None
        return SecretSpec(insecure=value["insecure"])
    if len(value) != 1 or not all(isinstance(item, str) and item for item in value.values()):
        report.wrong(place, f"must be one place as text; {form}")
        return None
    return SecretSpec(**value, base_dir=base_dir)


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def _mismatch(value: Any, key: Key) -> str:
    """What is wrong with the shape of a value, or nothing."""
    if key.choices and not (isinstance(value, str) and value in key.choices):
        near = did_you_mean(value, key.choices) if isinstance(value, str) else ""
        return f"must be one of {', '.join(key.choices)}, not {_kind(value)}{near}"
    if key.kind == "engine":
        return engine_fault(value) if isinstance(value, str) else f"must be text, not {_kind(value)}"
    if key.kind == "text" and not (isinstance(value, str) and value):
        return f"must be text, not {_kind(value)}{'' if isinstance(value, str) else '; put it in quotes'}"
    if key.kind == "database":
        return database_fault(value)
    demanded = _demanded_form(value, key.kind)
    return f"must be {demanded}, not {_kind(value)}" if demanded else ""


def _demanded_form(value: Any, kind: str) -> str:
    """The form that values of a kind have and this one lacks, or nothing."""
    if kind == "integer" and (not isinstance(value, int) or isinstance(value, bool)):
        return "an integer"
    if kind == "share" and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1):
        return "a number from 0 to 1"
    if kind == "flag" and not isinstance(value, bool):
        return "true or false"
    if kind == "texts" and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        return "a list of texts"
    if kind == "text or texts by name":
        texts = value.values() if isinstance(value, Mapping) else [value]
        return "" if all(isinstance(item, str) and item for item in texts) else "a text, or a mapping to texts"
    if kind in ("mapping", "hierarchy") and not isinstance(value, Mapping):
        return "a mapping"
    return ""


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if all(isinstance(item, str) for item in value) else "a list of other things"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"the text {value!r}" if isinstance(value, str) else f"the number {value}"
