"""Read a policy document: every section, then what must hold between them, then everything wrong at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from privpipe.blocks import Guarantee
from privpipe.errors import PolicyError, Problem
from privpipe.policy.conditions import Draft
from privpipe.policy.entries import Catalogues, ReadEntry, filled_in, read_entries
from privpipe.policy.grammar import COLUMN, TOP, VERSION
from privpipe.policy.officer import HeldJob, read_officer, require_tighter
from privpipe.policy.places import Report, shown
from privpipe.policy.plain_values import decoded, from_python, from_yaml
from privpipe.policy.rules import check
from privpipe.policy.sections import (
    read_columns,
    read_drift,
    read_engines,
    read_keys,
    read_others,
    read_plan,
    read_report,
    read_retention,
    read_secret,
    read_source,
    read_uses,
    read_utility,
)
from privpipe.policy.sinks import read_failing, read_sink
from privpipe.policy.specs import ColumnSpec, roles_of
from privpipe.policy.tables import without_tables

__all__ = ["held_job", "read_file", "read_mapping"]

ENTRIES = ("transform", "guarantees", "measures")


def read_file(path: str | os.PathLike[str], catalogues: Catalogues | None = None) -> dict[str, Any]:
    """The fields of a `Policy` from a YAML file.

    Raises
    ------
    PolicyError
        Everything that is wrong with it.
    UnsupportedError
        Nothing is wrong but what is not served yet.
    """
    file = os.fspath(path)
    try:
        text = decoded(Path(file).read_bytes(), file, "policy")
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {type(error).__name__}"
        raise PolicyError([Problem("", f"the policy file {reason}", file)]) from None
    document, report = from_yaml(text, file)
    if document is None:
        raise PolicyError([Problem("", "the policy file is empty", file)])
    return _read(document, report, Path(file).absolute().parent, catalogues)


def read_mapping(
    document: Any, base_dir: str | os.PathLike[str] | None = None, catalogues: Catalogues | None = None
) -> dict[str, Any]:
    """The fields of a `Policy` from a Python mapping; relative paths start at `base_dir`, else where we are."""
    report = Report()
    plain = from_python(document, (), report)
    return _read(plain, report, Path(base_dir or ".").absolute(), catalogues)


def _read(document: Any, report: Report, base_dir: Path, catalogues: Catalogues | None) -> dict[str, Any]:
    catalogues = catalogues or Catalogues.shipped()
    found = read_keys(report, document, (), TOP)
    if found.get("version", VERSION) != VERSION:
        report.wrong(("version",), f"is {found['version']}; this privpipe reads version {VERSION}")
    document = read_others(report, document, found)
    columns = read_columns(report, found.get("columns", {}), ("columns",), base_dir) if "columns" in found else {}
    found |= _read_sections(report, found, base_dir)
    if "uses" in found:
        found["uses"] = read_uses(report, found["uses"], columns)
    read = {name: read_entries(report, found.get(name, []), name, catalogues, base_dir) for name in ENTRIES}
    compared = "population" in found
    read = {name: filled_in(report, items, columns, population=compared) for name, items in read.items()}
    read, tables = without_tables(report, read, columns, found)
    if found.get("guarantees") == []:
        report.wrong(("guarantees",), "at least one guarantee is needed: without any, every table would be published")
    draft = Draft(
        base_dir=base_dir,
        columns=columns,
        unreadable_columns=frozenset(name for name in columns if _role(document, name) not in COLUMN["role"].choices),
        values=found,
        of_tables=tables is not None,
        **read,
    )
    check(draft, report)
    report.raise_if_wrong()
    lines = {shown(place): line for place, line in report.lines.items()}
    officer = read_officer(found.pop("policy"), base_dir, catalogues) if "policy" in found else None
    if officer is not None:
        require_tighter(held_job(read, columns, found, report.file, lines), officer)
    fields = {name: value for name, value in found.items() if name not in ENTRIES and value is not None}
    stem = Path(report.file).stem if report.file else "policy"
    return {
        "name": stem,
        **fields,
        **_entries(read),
        "tables": tables,
        "columns": columns,
        "warnings": tuple(report.warnings),
        "file": report.file,
        "base_dir": base_dir,
        "lines": lines,
        "document": document,
        "officer": officer,
    }


def held_job(
    read: Mapping[str, Sequence[ReadEntry]],
    columns: Mapping[str, ColumnSpec],
    values: Mapping[str, Any],
    file: str | None,
    lines: Mapping[str, int],
) -> HeldJob:
    """What an officer's policy looks at, each with its place."""
    return HeldJob(
        guarantees=[(item.place, item.entry) for item in read["guarantees"] if isinstance(item.entry, Guarantee)],
        stages=[(item.place, item.entry) for item in read["transform"]],
        roles=roles_of(columns),
        values=values,
        file=file,
        lines=lines,
    )


def _read_sections(report: Report, found: Mapping[str, Any], base_dir: Path) -> dict[str, Any]:
    """The sections that become specs."""
    sections: Mapping[str, Callable[..., Any]] = {
        "source": read_source,
        "original": read_source,
        "population": read_source,
        "sink": read_sink,
        "drift": read_drift,
        "failing": read_failing,
        "plan": read_plan,
        "utility": read_utility,
        "report": read_report,
        "retention": read_retention,
        "seed": partial(read_secret, base_dir=base_dir),
        "engines": read_engines,
    }
    return {name: read(report, found[name], (name,)) for name, read in sections.items() if name in found}


def _entries(read: Mapping[str, Sequence[ReadEntry]]) -> dict[str, tuple[Any, ...]]:
    """The lists of entries that are all sound."""
    entries: dict[str, tuple[Any, ...]] = {name: tuple(item.entry for item in read[name]) for name in ENTRIES}
    # An entry over columns, where the policy lists one, comes first, as in every verdict.
    entries["guarantees"] = tuple(sorted(entries["guarantees"], key=lambda entry: not entry.way.of_columns))
    return entries


def _role(document: Any, column: str) -> Any:
    spec = document["columns"][column]
    return spec.get("role") if isinstance(spec, Mapping) else None
