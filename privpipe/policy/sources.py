"""Read the details of a `source`: a table or query of a database, a table format, how a text file is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from privpipe.blocks.table_name import TableName
from privpipe.engines.databases import Database, password_fault
from privpipe.engines.lakes import IcebergName
from privpipe.engines.readers.text_forms import FORM_KEYS, TextForm, form_faults
from privpipe.errors import UsageError
from privpipe.policy.conditions import Draft
from privpipe.policy.grammar import LAKES
from privpipe.policy.places import Place, Report
from privpipe.policy.specs import SinkSpec, SourceSpec

__all__ = [
    "OF_ICEBERG",
    "check_dated_columns",
    "check_delta",
    "database_fault",
    "read_database",
    "read_database_sink",
    "read_form",
    "read_iceberg",
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
    'env names an environment variable: letters, digits and _; the URL stands in the variable'
    """
    if isinstance(value, Mapping):
        if list(value) != ["env"]:
            return "must be a text, or {env: NAME} with the environment variable that holds the URL"
        if not (isinstance(value["env"], str) and VARIABLE.fullmatch(value["env"])):
            return "env names an environment variable: letters, digits and _; the URL stands in the variable"
        return ""
    if not (isinstance(value, str) and value.strip()):
        return "must be a file, a URL without a password, or {env: NAME}"
    return password_fault(value)


def read_database(report: Report, found: Mapping[str, Any], place: Place) -> SourceSpec | None:
    """The source of the keys that were found, of which one is `database` or `query`."""
    if "database" not in found:
        report.wrong((*place, "query"), "is asked of a database: say `database:`, or leave it out")
        return None
    wrong = False
    for name in found:
        if name == "path":
            report.wrong((*place, "database"), "stands beside `path:`; a table has one place: leave one of them out")
        elif name not in ("database", "table", "query", "generalized"):
            report.wrong((*place, name), "is for files; a database says its own columns and types")
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
            report.wrong((*place, "database"), "stands beside `path:`; a release has one place: leave one of them out")
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
            report.wrong((*place, "iceberg"), f"stands beside `{key}:`; a table has one place: leave one of them out")
        elif key not in ("iceberg", "generalized", *OF_ICEBERG):
            report.wrong((*place, key), "is for files; an Iceberg table says its own columns and types")
    try:
        name = IcebergName(name=found["iceberg"], **{key: found[key] for key in OF_ICEBERG if key in found})
    except UsageError as error:
        report.wrong((*place, "iceberg"), str(error))
        return None
    return SourceSpec(iceberg=name, generalized=found.get("generalized", False))


def check_delta(report: Report, found: dict[str, Any], place: Place) -> None:
    """Keys of table formats next to a path; a version says that it is a Delta table."""
    for name in OF_ICEBERG:
        if found.pop(name, None) not in (None, LAKES[name].default):
            report.wrong((*place, name), "is for an Iceberg table, which `iceberg:` names in place of `path:`")
    said = [name for name in OF_DELTA if name in found]
    if not said:
        return
    if found.setdefault("format", "delta") != "delta":
        report.wrong((*place, said[0]), f"is for Delta tables; the format here is {found['format']}")
    if len(said) > 1:
        report.wrong((*place, "timestamp"), "stands beside `version:`; leave one of them out")
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
