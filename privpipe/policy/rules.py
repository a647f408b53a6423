"""Read a policy section by section, and check it as a whole."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from privpipe.blocks import Entry, Guarantee
from privpipe.blocks.marks import ColumnNames, Columns, SensitiveColumn
from privpipe.blocks.parameters import flat_names, marked
from privpipe.blocks.table_name import TableName
from privpipe.engines.base import format_of
from privpipe.engines.databases import Database
from privpipe.errors import PolicyError, Problem, UsageError, did_you_mean
from privpipe.judging.judging import unused_quasi_identifiers
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.entries import (
    Draft,
    ReadEntry,
    check_appending,
    check_counting,
    check_persons_in_stages,
    check_processes,
    check_stages_under_counting,
    filled_in,
    is_of_tables,
    read_entries,
    section_hint,
)
from privpipe.policy.grammar import COLUMN, TOP, VERSION
from privpipe.policy.officer import HeldJob, read_officer, require_tighter
from privpipe.policy.plain_values import Place, Report, decoded, from_python, from_yaml, shown
from privpipe.policy.related import is_related, read_related
from privpipe.policy.sections import (
    check_dated_columns,
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
from privpipe.policy.sinks import check_failing, check_ledgers, read_failing, read_sink
from privpipe.policy.specs import ColumnSpec, SinkSpec, SourceSpec, located, roles_of
from privpipe.tables.entries import CellGuarantee
from privpipe.transforms.coding.tail_coding import TailCode

__all__ = ["check", "held_job", "read_file", "read_mapping"]


def check(draft: Draft, report: Report) -> None:
    """Note every rule the draft breaks."""
    rules: tuple[Callable[[Draft, Report], None], ...] = (
        check_quasi_identifiers,
        check_judged_columns,
        check_every_sensitive_column_is_judged,
        check_every_quasi_identifier_is_looked_at,
        check_thresholds,
        check_something_binds,
        check_population,
        check_repeated_guarantees,
        check_stages,
        check_tail_codes,
        check_base,
        check_keys,
        check_dropped_columns,
        check_counting,
        check_persons_in_stages,
        check_stages_under_counting,
        check_processes,
        check_ledgers,
        check_dated_columns,
        check_sink,
        check_appending,
        check_records,
        check_failing,
        check_packages,
    )
    for rule in rules:
        if not (draft.of_tables and rule in OF_RECORDS):
            rule(draft, report)


def check_packages(draft: Draft, report: Report) -> None:
    """What is not installed is reported before a record is read, not in the middle of a run."""
    for read in (*draft.transform, *draft.guarantees, *draft.measures):
        for package, extra in (read.entry.packages() if read.entry is not None else {}).items():
            missing = f"needs {package}, which is not installed: pip install 'privpipe[{extra}]'"
            if not is_installed(package):
                report.unsupported(read.place, missing)


def is_installed(package: str) -> bool:
    """Whether a package could be imported; nothing is imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # what replaces it in `sys.modules` is not a module
        return False


def check_quasi_identifiers(draft: Draft, report: Report) -> None:
    """Without a quasi-identifier every table is one class, and passes."""
    for read, entry in draft.judging():
        if entry.quasi_identifiers == ():
            place = (*read.place, "quasi_identifiers")
            report.warn(place, "the list is empty: all records are one class, whatever they hold")
    if draft.unreadable_columns or draft.with_role("quasi_identifier"):
        return
    if any(entry.quasi_identifiers is None for _, entry in draft.judging()) or not draft.guarantees:
        report.wrong(
            ("columns",),
            "no column has `role: quasi_identifier`, so every table would pass; name the columns by which a person "
            "could be recognised, or write `quasi_identifiers: []` on each guarantee to mean one class",
        )


def check_judged_columns(draft: Draft, report: Report) -> None:
    """A guarantee counts sensitive columns, in classes over quasi-identifiers."""
    for read, entry in draft.judging():
        for column in entry.sensitive_columns():
            _require_role(draft, report, (*read.place, "column"), column, "sensitive")
        for column in entry.record_columns():
            _require_column(draft, report, read.place, column)
        keys = entry.quasi_identifiers or ()
        any_role = keys == entry.own_columns()  # a measure of any columns, not of an attacker's knowledge
        for at, column in enumerate(() if any_role else keys):
            _require_role(draft, report, (*read.place, "quasi_identifiers", at), column, "quasi_identifier")
        for place, column in _named(read, entry):
            _require_column(draft, report, place, column)


def check_every_sensitive_column_is_judged(draft: Draft, report: Report) -> None:
    """Nothing sensitive is released unexamined."""
    judged: set[Any] = set()
    undeclared: set[str] = set()
    for read in draft.guarantees:
        if isinstance(read.entry, Guarantee) and not read.entry.binds:
            continue  # a warning keeps nothing back
        named = () if read.kind is None else marked(read.kind, SensitiveColumn)
        judged.update(flat_names([read.parameters.get(name) for name in named]))  # of unsound entries too
        if isinstance(read.entry, Guarantee):
            judged.update(read.entry.sensitive_columns())
            undeclared.update(name for name in read.entry.sensitive_columns() if name not in draft.columns)
    warned = {name for _, entry in draft.judging() if not entry.binds for name in entry.sensitive_columns()}
    for name in draft.with_role("sensitive"):
        if any(did_you_mean(each, [name]) for each in undeclared):
            continue  # `check_judged_columns` reports the misspelling, from which this would follow
        if name not in judged and name not in draft.unreadable_columns:
            report.wrong(
                ("columns", name),
                f"is sensitive and no guarantee judges it{' but warnings' if name in warned else ''}; add a model with "
                f"`column: {name}`, or declare the column insensitive to release it all the same",
            )


def check_every_quasi_identifier_is_looked_at(draft: Draft, report: Report) -> None:
    """A quasi-identifier in no guarantee's classes or attack deserves a word."""
    if any(read.entry is None for read in draft.guarantees):
        return
    guarantees = [read.entry for read in draft.guarantees if isinstance(read.entry, Guarantee)]
    for name in unused_quasi_identifiers(guarantees, draft.with_role("quasi_identifier")) if guarantees else ():
        report.warn(("columns", name), "no guarantee looks at this quasi-identifier")


def check_thresholds(draft: Draft, report: Report) -> None:
    """A threshold that every table meets deserves a word."""
    for read in draft.guarantees:
        if isinstance(read.entry, Guarantee) and (idle := read.entry.idle()):
            report.warn(read.place, f"{idle} protects no one")


def check_something_binds(draft: Draft, report: Report) -> None:
    """Warnings by themselves do not refuse a table."""
    sound = [read.entry for read in draft.guarantees if isinstance(read.entry, Guarantee)]
    if len(sound) < len(draft.guarantees) or not sound or any(entry.binds for entry in sound):
        return  # an unsound entry may be meant to bind, and has its own error
    report.wrong(
        (*draft.guarantees[0].place, "severity"),
        "at least one guarantee must have `severity: fail`: with warnings only every table would be published",
    )


def check_population(draft: Draft, report: Report) -> None:
    """Models with a population need one, and a population one that compares with it."""
    if "population" in draft.values:
        unread = any(read.entry is None for read in (*draft.guarantees, *draft.measures))
        if not unread and not any(entry.needs_population for _, entry in draft.judging()):
            report.warn(
                ("population",),
                "no guarantee and no measure compares with it, and it is not read; add one, such as k_map, or "
                "leave it out",
            )
        return
    for read, entry in draft.judging():
        if entry.needs_population:
            report.wrong(read.place, f"{read.name} needs `population:`, the table of all persons it could be about")


def check_repeated_guarantees(draft: Draft, report: Report) -> None:
    """The same model twice over the same columns: the stricter one wins."""
    seen: dict[tuple[Any, ...], ReadEntry] = {}
    for read in draft.guarantees:
        entry = read.entry
        if not isinstance(entry, Guarantee):
            continue
        columns = entry.own_columns()
        key = (read.name, entry.sensitive_columns(), entry.quasi_identifiers, columns, entry.severity)
        if key in seen:
            first = seen[key]
            same = first.entry == entry
            what = "is there already" if same else "is there already with other parameters; both are judged"
            report.warn(read.place, f"{read.name} {what} (guarantees[{first.at}])")
        seen.setdefault(key, read)


def check_stages(draft: Draft, report: Report) -> None:
    """Stages work on declared columns, and not on those that are gone."""
    kept: set[str] = set()
    for _, stage in draft.stages():
        if stage.taxon == "identifiers":
            kept.update(stage.masked_columns())
    for read, stage in draft.stages():
        for place, column in _named(read, stage):
            if not _require_column(draft, report, place, column):
                continue
            gone = draft.columns[column].role == "identifier" and column not in kept
            if gone and stage.taxon != "identifiers" and not set(marked(type(stage), Columns)).isdisjoint(place):
                report.wrong(
                    place, f"{column!r} is an identifier and gone before this stage; pseudonymise it to keep it"
                )


def check_tail_codes(draft: Draft, report: Report) -> None:
    """Both ends of one column: bottom is below top."""
    limits: dict[tuple[str, str, str], float] = {}
    for read, stage in draft.stages():
        for parameter, given in (("at", stage.at), ("quantile", stage.quantile)) if isinstance(stage, TailCode) else ():
            if not isinstance(given, int | float):
                continue
            for name in stage.masked_columns():
                limits[read.name, parameter, name] = given
                ends = [limits.get((code, parameter, name)) for code in ("bottom_code", "top_code")]
                if None not in ends and not ends[0] < ends[1]:  # type: ignore[operator]
                    report.wrong(read.place, f"codes both ends of {name!r}, and bottom is not below top")


def check_base(draft: Draft, report: Report) -> None:
    """Distances compare with S as it enters the suppressing stage, so no later stage may change S."""
    suppressing: ReadEntry | None = None
    compared = {
        column
        for _, entry in draft.judging()
        if entry.needs_base and entry.base_distribution() != "released"
        for column in entry.sensitive_columns()
    }
    for read, stage in draft.stages():
        named = set(stage.named_columns())
        if read.name == "synthesize" and not named:
            named = set(draft.columns)  # it draws every column again
        changed = sorted(compared & named) if suppressing else []
        if suppressing and changed:
            report.wrong(
                read.place,
                f"changes {', '.join(map(repr, changed))} after transform[{suppressing.at}].{suppressing.name}, which "
                "fixed the base distribution that a guarantee compares with; mask before suppressing, or write "
                "`base: released` on that guarantee",
            )
        if stage.suppresses:
            suppressing = suppressing or read


def check_keys(draft: Draft, report: Report) -> None:
    """Keys are declared columns; those of records and persons of any role, that of households an identifier."""
    for key in ("record_id", "person_id", "household_id"):
        if key in draft.values:
            _require_column(draft, report, (key,), draft.values[key])
    for read, stage in draft.stages():
        for key in stage.needs_keys():
            if key not in draft.values:
                report.wrong(read.place, f"{read.name} needs `{key}`, the column that distinguishes them; declare it")
    household = draft.values.get("household_id")
    if household is None:
        return
    if household == draft.values.get("person_id"):
        report.wrong(
            ("household_id",), "is the column of person_id too; a household is distinguished by a separate column"
        )
    if household in draft.columns and household not in draft.with_role("identifier"):
        report.wrong(
            ("household_id",),
            "must have the role identifier: it shows who lives together, and is dropped or pseudonymised, never "
            "released unchanged",
        )


def check_dropped_columns(draft: Draft, report: Report) -> None:
    """A dropped column is gone before anything reads it, so a policy may declare only its type."""
    dropped = draft.with_role("drop")
    for name in dropped:
        if draft.columns[name].hierarchy is not None:
            report.wrong(("columns", name, "hierarchy"), "the column is dropped, so nothing generalizes it")
    for key in ("record_id", "person_id"):
        if draft.values.get(key) in dropped:
            report.wrong((key,), f"{draft.values[key]!r} is dropped; a key of the run has `role: identifier`")
    for read in (*draft.transform, *draft.guarantees, *draft.measures):
        named = list(_named(read, read.entry))
        if isinstance(read.entry, Guarantee):
            named += [(read.place, column) for column in read.entry.record_columns()]
        for place, column in named:
            if column in dropped:
                report.wrong(place, f"{column!r} is dropped before anything looks at it; give it another role")


def check_sink(draft: Draft, report: Report) -> None:
    """A release never lands on a table it was made from."""
    sink = draft.values.get("sink")
    if not isinstance(sink, SinkSpec):
        return
    for name in ("source", "original", "population"):
        spec = draft.values.get(name)
        if not isinstance(spec, SourceSpec):
            continue
        if sink.table is not None and spec.table is not None and _same_table(sink.table, spec.table):
            report.wrong(("sink", "table"), f"is the table of `{name}:`; publish under a separate name")
        if (
            sink.iceberg is not None
            and spec.iceberg is not None
            and (sink.iceberg.catalog, sink.iceberg.name) == (spec.iceberg.catalog, spec.iceberg.name)
        ):
            report.wrong(("sink", "iceberg"), f"is the table of `{name}:`; publish under a separate name")
        if sink.database is not None and _same_database_table(sink.database, spec, draft.base_dir):
            report.wrong(("sink", "table"), f"is the table of `{name}:`; publish under a separate name")
        if sink.is_folder and (told := _file_of(spec)):
            target = Path(sink.target(draft.base_dir))
            path = Path(located(told, draft.base_dir))
            if path == target or path in target.parents or target in path.parents:
                report.wrong(("sink", "path"), f"overlaps with the path of `{name}:`; publish into a separate folder")


def _file_of(spec: SourceSpec) -> str:
    """The path of a source that is in files, else nothing."""
    if spec.database is not None:
        return spec.database.at if spec.database.is_file else ""
    return spec.path if spec.table is None else ""


def _same_table(one: TableName, other: TableName) -> bool:
    """Whether two names may denote the same table: the parts that both have agree."""
    shared = min(len(one.parts), len(other.parts))
    return [part.casefold() for part in one.parts[-shared:]] == [part.casefold() for part in other.parts[-shared:]]


def _same_database_table(sink: Database, spec: SourceSpec, base_dir: Path) -> bool:
    """Whether a source is the table of a sink, or a file that the sink's database is."""
    if sink.is_file and (told := _file_of(spec)) and spec.database is None:
        return os.path.realpath(located(told, base_dir)) == os.path.realpath(located(sink.at, base_dir))
    if spec.database is None or spec.database.table is None or sink.table is None:
        return False
    one, other = sink.within(base_dir), spec.database.within(base_dir)
    same = os.path.realpath(one.at) == os.path.realpath(other.at) if one.is_file else one.at == other.at
    return same and one.env == other.env and _same_table(sink.table, spec.database.table)


def check_records(draft: Draft, report: Report) -> None:
    """Private records are on this machine, and never where readers of the release look."""
    records, sink = draft.values.get("records"), draft.values.get("sink")
    if not isinstance(records, str):
        return
    if "://" in records:
        report.wrong(("records",), "private records are on a local (or mounted) file system; name a folder there")
        return
    home = Path(located(records, draft.base_dir))
    if isinstance(sink, SinkSpec) and sink.is_folder and Path(sink.target(draft.base_dir)) in (home, *home.parents):
        report.wrong(("records",), "is inside the sink, where readers of the release would see it; name another folder")


def _named(read: ReadEntry, entry: Entry | None) -> Iterable[tuple[Place, str]]:
    """Every column an entry names in a list or as its items, with its place."""
    for parameter in marked(type(entry), ColumnNames) if entry is not None else ():
        named = read.parameters.get(parameter)
        yield from _leaves(() if named == "all" else named, (*read.place, parameter))


def _leaves(value: Any, place: Place) -> Iterable[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _leaves(item, (*place, at))
    elif isinstance(value, Mapping):
        yield from (((*place, column), column) for column in value)


def _require_column(draft: Draft, report: Report, place: Place, column: str) -> bool:
    if column in draft.columns:
        return True
    near = did_you_mean(column, draft.columns) or "; give it a role there"
    report.wrong(place, f"{column!r} is not among `columns:`{near}")
    return False


def _require_role(draft: Draft, report: Report, place: Place, column: str, role: str) -> None:
    if not _require_column(draft, report, place, column) or column in draft.unreadable_columns:
        return
    if draft.columns[column].role != role:
        report.wrong(place, f"{column!r} is declared {draft.columns[column].role}; this needs `role: {role}`")


ENTRIES = ("transform", "guarantees", "measures")


def is_data_file(path: str) -> bool:
    """Whether the ending of a path is one of data; JSON and plain text may be either.

    Examples
    --------
    >>> [is_data_file(path) for path in ("visits.csv", "visits.csv.gz", "release.yaml", "release.json", "release")]
    [True, True, False, False, False]
    """
    try:
        suffix = PurePath(path).suffix
        return suffix not in ("", ".txt", ".data") and format_of(path) != "json"
    except UsageError:
        return False


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
    if is_data_file(file) and os.path.exists(file):  # before it is read: it may be large
        raise _no_policy(file, "this looks like data and not like a policy")
    try:
        text = decoded(Path(file).read_bytes(), file, "policy")
    except IsADirectoryError:
        raise _no_policy(file, "the policy file cannot be read, for it is a folder") from None
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        reason = "does not exist" if isinstance(error, FileNotFoundError) else f"cannot be read: {type(error).__name__}"
        raise PolicyError([Problem("", f"the policy file {reason}", file)]) from None
    document, report = from_yaml(text, file)
    if document is None:
        raise PolicyError([Problem("", "the policy file is empty", file)])
    if isinstance(document, str | list):  # of which no line may be quoted
        raise _no_policy(file, "must be a mapping, as in {columns: ..., guarantees: ...}", 1)
    return _read(document, report, Path(file).absolute().parent, catalogues)


def _no_policy(file: str, what: str, line: int | None = None) -> PolicyError:
    drafts = f"`privpipe init {file}` drafts a policy for data (in Python `privpipe.init`)"
    return PolicyError([Problem("", f"{what}; {drafts}", file, line)])


def read_mapping(
    document: Any, base_dir: str | os.PathLike[str] | None = None, catalogues: Catalogues | None = None
) -> dict[str, Any]:
    """The fields of a `Policy` from a Python mapping; relative paths start at `base_dir`, else where we are."""
    report = Report()
    plain = from_python(document, (), report)
    return _read(plain, report, Path(base_dir or ".").absolute(), catalogues)


def _read(document: Any, report: Report, base_dir: Path, catalogues: Catalogues | None) -> dict[str, Any]:
    catalogues = catalogues or Catalogues.shipped()
    if is_related(document):
        return read_related(document, report, base_dir, catalogues, partial(_read_whole, alone=False))
    return _read_whole(document, report, base_dir, catalogues)


def _read_whole(
    document: Any, report: Report, base_dir: Path, catalogues: Catalogues, *, alone: bool = True
) -> dict[str, Any]:
    """The fields of a policy about one table; several related tables judge it together with others (not `alone`)."""
    found = read_keys(report, document, (), TOP, lambda name: section_hint(name, catalogues))
    if found.get("version", VERSION) != VERSION:
        report.wrong(("version",), f"is {found['version']}; this privpipe reads version {VERSION}")
    document = read_others(report, document, found)
    columns = read_columns(report, found.get("columns", {}), ("columns",), base_dir) if "columns" in found else {}
    found |= _read_sections(report, found, base_dir)
    if "uses" in found:
        found["uses"] = read_uses(report, found["uses"], columns)
    read = {name: read_entries(report, found.get(name, []), name, catalogues, base_dir) for name in ENTRIES}
    read = {name: filled_in(report, items, columns, population="population" in found) for name, items in read.items()}
    records, tables = read, None
    if any(is_of_tables(item) for items in read.values() for item in items):
        from privpipe.policy.tables import without_tables

        records, tables = without_tables(report, read, columns, found)
    cells = read["guarantees"] if tables is not None else None
    read = dict(records)
    if alone and found.get("guarantees") == []:
        report.wrong(("guarantees",), "at least one guarantee is needed: without any, every table would be published")
    draft = Draft(
        base_dir=base_dir,
        columns=columns,
        unreadable_columns=frozenset(name for name in columns if _role(document, name) not in COLUMN["role"].choices),
        values=found,
        of_tables=tables is not None or not alone,
        **read,
    )
    check(draft, report)
    report.raise_if_wrong()
    lines = {shown(place): line for place, line in report.lines.items()}
    officer = read_officer(found.pop("policy"), base_dir, catalogues) if "policy" in found else None
    if officer is not None:
        require_tighter(held_job(read, columns, found, report.file, lines, cells), officer)
    return {
        "name": Path(report.file).stem if report.file else "policy",
        **{name: value for name, value in found.items() if name not in ENTRIES and value is not None},
        **_entries(read),
        "tables": tables,
        "columns": columns,
        "warnings": tuple(report.warnings),
        "file": report.file,
        "base_dir": base_dir,
        "lines": lines,
        "outer": shown(report.outer),
        "document": document,
        "officer": officer,
    }


def held_job(
    read: Mapping[str, Sequence[ReadEntry]],
    columns: Mapping[str, ColumnSpec],
    values: Mapping[str, Any],
    file: str | None,
    lines: Mapping[str, int],
    cells: Sequence[ReadEntry] | None = None,
) -> HeldJob:
    """What an officer's policy looks at, each with its place; `cells` are guarantees of a release of tables."""
    return HeldJob(
        guarantees=[(item.place, item.entry) for item in read["guarantees"] if isinstance(item.entry, Guarantee)],
        stages=[(item.place, item.entry) for item in read["transform"]],
        roles=roles_of(columns),
        values=values,
        file=file,
        lines=lines,
        cells=None
        if cells is None
        else [(item.place, item.entry) for item in cells if isinstance(item.entry, CellGuarantee)],
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


OF_RECORDS = (
    check_quasi_identifiers,
    check_every_sensitive_column_is_judged,
    check_every_quasi_identifier_is_looked_at,
)
"""Rules for releases of records; of tables, cells are judged."""
