"""Finished tables as files and frames: read or aggregated without a policy, judged, and returned in their own kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.base.frames import as_handed, at_hand, frame_like, is_local_frame, made_like
from privpipe.engines.databases import Database
from privpipe.engines.readers.files import elsewhere
from privpipe.engines.readers.text_records import csv_table
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.judging import Assessment
from privpipe.policy import Policy
from privpipe.policy.secret import secret_given
from privpipe.running.frame_policies import hierarchy_specs
from privpipe.running.run_context import OpenedEngine, named, read_as_source, scanned
from privpipe.tables.aggregates import rational
from privpipe.tables.aggregation import TableSpec
from privpipe.tables.cells import MOST_CELLS
from privpipe.tables.entries import CellGuarantee, TableSet, TableStage, idle_notes
from privpipe.tables.exact_audit import intervals
from privpipe.tables.finished_tables import TOTAL, finished_table, interval_rows, linked_problem, require_exact
from privpipe.tables.private_noise import of_tables
from privpipe.tables.response_judgement import require_judged
from privpipe.tables.stages import ONE_TABLE, Aggregate, needs_joint
from privpipe.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "NOTHING",
    "aggregate",
    "arrow_table",
    "audit",
    "check_tables",
    "finished_rows",
    "in_long_form",
    "is_table",
    "labels_in_order",
    "run_stage",
    "table_frame",
    "tables_by_name",
]


SUFFIXES = (".parquet", ".csv")
LAKE = {"path", "iceberg"}
"""Keys of a mapping that names a state of one table."""


def tables_by_name(specs: Mapping[str, TableSpec], data: Any) -> Mapping[str, Any]:
    """What was given, by the names of the policy's tables.

    Raises
    ------
    DataError, UsageError
        One is missing or none of the policy's.
    """
    if isinstance(data, Mapping) and not (LAKE & set(data) and not LAKE & set(specs)):
        given: Mapping[str, Any] = data
    elif isinstance(data, str | PurePath) and Path(data).is_dir() and not (Path(data) / "_delta_log").is_dir():
        files = [path for path in sorted(Path(data).iterdir()) if path.is_file() and path.suffix in SUFFIXES]
        stems = [path.stem for path in files]
        for name in specs:
            if stems.count(name) > 1:
                raise DataError(f"table {name!r} is there as Parquet and as CSV; leave one of them")
        given = {path.stem: path for path in files}
    elif len(specs) == 1:
        given = {next(iter(specs)): data}
    else:
        raise UsageError(f"validate: give a folder or a mapping with the tables {', '.join(specs)}")
    for name in given:
        if name not in specs:
            raise DataError(f"table {name!r} is not in the policy's `aggregate`{did_you_mean(str(name), specs)}")
    missing = [name for name in specs if name not in given]
    if missing:
        raise DataError(f"{len(missing)} tables of the policy are missing: {', '.join(missing)}")
    return given


def finished_rows(data: Any, owner: str, **form: Any) -> pa.Table:
    """The rows of a finished table, which has cells and no persons, on this machine.

    Parameters
    ----------
    form : str
        How a file is written: `format`, `delimiter`.

    Raises
    ------
    DataError
        It has more rows than a table of cells may have; none of them is read.
    """
    given = data if isinstance(data, Database) else at_hand(data, owner)
    if form and not isinstance(given, str | PurePath):
        raise UsageError(f"{owner}: {' and '.join(form)} say how a file is written, and no file was given")
    source = Source(data=given) if isinstance(given, Database) else read_as_source(given, NOTHING, **form)
    if source.is_path and source.resolved_format == "csv" and not elsewhere(str(source.data)):
        text = named(source, lambda: csv_table(source, MOST_CELLS))
        if text.num_rows > MOST_CELLS:
            raise _too_long(owner, f"more than {MOST_CELLS:,}")
        return text
    with OpenedEngine(None, None if isinstance(given, Database) else given, NOTHING) as engine:
        table = scanned(engine, source)
        rows = engine.count(table)
        if rows > MOST_CELLS:
            raise _too_long(owner, f"{rows:,}")
        found: pa.Table = engine.collect(table, order="any")
    return found


def _too_long(owner: str, rows: str) -> DataError:
    return DataError(
        f"{owner}: the table has {rows} rows, and tables of up to {MOST_CELLS:,} cells are judged; leave out a "
        "dimension or its lowest level"
    )


def labels_in_order(path: str, delimiter: str = ",") -> dict[str, list[str]]:
    """Distinct texts of each column of a local file, as they follow one another in it; nothing of any other place."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    place = Path(path)
    if not place.is_file() or place.suffix not in SUFFIXES:
        return {}
    try:
        if place.suffix == ".parquet":
            rows = pyarrow.parquet.read_table(place)
        else:
            rows = pyarrow.csv.read_csv(place, parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter))
    except pa.ArrowException:  # the engine reports the error
        return {}
    return {
        column: list(dict.fromkeys(str(each) for each in rows.column(column).to_pylist()))
        for column in rows.schema.names
    }


def in_long_form(rows: pa.Table, name: str, spec: TableSpec) -> pa.Table:
    """A wide table with one row per cell: the labels of the last dimension are columns, after those of the others.

    Raises
    ------
    DataError
        A dimension has no column.
    UsageError
        The table has one dimension, or several responses.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from privpipe.tables.responses import responses_of
    >>> spec = TableSpec(by=("region", "sex"), responses=responses_of("count"))
    >>> wide = pa.table({"region": ["N", "Total"], "f": [1, 4], "m": [2, 3], "Total": [3, 7]})
    >>> in_long_form(wide, "table", spec).num_rows
    6
    """
    import pyarrow as pa

    *front, across = spec.by
    if not front or len(spec.responses) != 1:
        raise UsageError(
            f"table {name!r}: `layout: wide` is for one response and at least two dimensions, and the last has its "
            "labels as columns"
        )
    for column in front:
        if column not in rows.schema.names:
            raise DataError(f"table {name!r} has no column {column!r}{did_you_mean(column, rows.schema.names)}")
    labels = [column for column in rows.schema.names if column not in front]
    if len(set(labels)) < len(labels) or not labels:
        raise DataError(f"table {name!r}: two columns have one label of {across!r}, or none has any")
    figures = [rows.column(label).cast(pa.string()).combine_chunks() for label in labels]
    columns = {column: pa.concat_arrays([rows.column(column).combine_chunks()] * len(labels)) for column in front}
    columns[across] = pa.array([label for label in labels for _ in range(rows.num_rows)], pa.string())
    columns[spec.responses[0].name] = pa.concat_arrays(figures)
    return pa.table(columns)


OPTIONS = ("person_id", "hierarchies", "guarantees", "seed", "engine", "stages")
NOTHING = Policy.of_fields(name="frame", columns={}, guarantees=())
REFUSED = "Do not release these tables."


@bordered
def aggregate(stage: Aggregate, frame: Any, options: Mapping[str, Any]) -> Table | dict[str, Table]:
    """See `Aggregate.apply`."""
    for name in options:
        if name not in OPTIONS:
            raise UsageError(
                f"Aggregate: unknown option {name!r}{did_you_mean(name, OPTIONS)}; known: {', '.join(OPTIONS)}"
            )
    given = {name: value for name, value in options.items() if value is not None}
    seed = secret_given(given.get("seed"))
    person = given.get("person_id")
    if person is not None and not isinstance(person, str):
        raise UsageError("person_id must be the name of a column")
    stages = stages_given(given.get("stages", ()))
    require_kept_seed(stages, seed is not None)
    data = at_hand(frame, "Aggregate")
    is_path = isinstance(data, str | PurePath | Source)
    with OpenedEngine(given.get("engine"), data, NOTHING) as engine:
        source = data if isinstance(data, Source) else Source(data=str(data) if is_path else data)
        found = stage.tables_over(
            engine,
            scanned(engine, source),
            person=person,
            seed=Seed.from_os() if seed is None else seed.resolve(),
            hierarchies=hierarchy_specs(given.get("hierarchies")),
            guarantees=guarantees_given(given.get("guarantees", ())),
            stages=stages,
        )
    like = None if is_path else frame
    made = {
        name: replace(table, like=like, engine=given.get("engine"), joint=found.joint)
        for name, table in found.tables.items()
    }
    return made[ONE_TABLE] if stage.by else made


@bordered
def table_frame(rows: pa.Table, like: Any, engine: Any) -> Any:
    """Rows of a table, in their order, as a frame of the kind of `like`; a pyarrow Table for None."""
    if like is None:
        return rows
    data = at_hand(like, "Table")
    if is_local_frame(data):
        return as_handed(frame_like(rows, made_like(data, like)), like)
    with OpenedEngine(engine, data, NOTHING, holds=False) as opened:
        return as_handed(opened.collect(opened.scan(Source(data=rows)), like=data), like)


@bordered
def run_stage(stage: TableStage, tables: Any, options: Mapping[str, Any]) -> Any:
    """See `TableStage.apply`."""
    known = ("guarantees", "seed", "sensitive")
    for name in options:
        if name not in known:
            raise UsageError(
                f"{stage.name()}: unknown option {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"
            )
    found = stage.run(table_set(tables, options))
    return found.tables[tables.name] if isinstance(tables, Table) else dict(found.tables)


@bordered
def check_tables(tables: Any, guarantees: Any, options: Mapping[str, Any]) -> Assessment:
    """The verdict of guarantees on tables as they will be published; raises if one does not hold.

    Parameters
    ----------
    options : mapping
        `sensitive`: dimensions that are attributes.

    Raises
    ------
    Refused, UsageError, DataError
    """
    for name in options:
        if name != "sensitive":
            raise UsageError(f"{name}= is for checks of records; tables are judged by their cells")
    found = table_set(tables, {"guarantees": guarantees, "sensitive": options.get("sensitive") or ()})
    if not any(guarantee.binds and not guarantee.reported for guarantee in found.guarantees):
        raise UsageError(
            "give at least one guarantee on cells with severity fail, as in [MinimumFrequency(at_least=10)]"
        )
    require_judged(found)
    judged = [(guarantee.reported, guarantee.judged_over(found)) for guarantee in found.guarantees]
    verdicts = tuple(verdict for reported, verdict in judged if not reported)
    measures = tuple(verdict for reported, verdict in judged if reported)
    cells = sum(len(table) for table in found.tables.values())
    notes = (*found.notes, *idle_notes(found.guarantees))
    return Assessment(verdicts=verdicts, measures=measures, records=cells, notes=notes).raise_if_failed(REFUSED)


@bordered
def audit(
    tables: Any,
    dims: Any,
    *,
    response: str | None = None,
    original: Any = None,
    total: str = TOTAL,
    whole: bool | None = None,
    lower: int | None = 0,
    prior: float | str | None = None,
) -> Any:
    """What an attacker can infer about each blank cell of finished tables: its exact interval.

    Parameters
    ----------
    tables : frame or path, or a list of them
        In long form, one row per cell; a figure is blank where it is null, or where a column ``<response>_status`` or
        ``status`` is ``c``, ``suppressed``, ``primary`` or ``secondary``. Cells of several tables with the same
        labels are one cell.
    dims : list of columns, or mapping of column to the parent of each label; of several tables a list of these
        In a list of columns, or where the parents are None, every label is below `total`.
    response : str, optional
        Column of the figures; default: the only one that is left.
    original : frame or path, or a list of them, optional
        The tables without blanks; needed for `prior`.
    total : str
        Label of all.
    whole : bool, optional
        Whether figures are counts; default: none has a fraction.
    lower : int or None
        The least that a blank figure can be; None: no bound.
    prior : number, optional
        Percent to which the attacker already knows each blank figure.

    Returns
    -------
    frame
        Of the kind of the first table: of each blank cell the labels, `low` and `high` (null: no bound), for counts
        `integer_low` and `integer_high`, `recomputable` (only by sums and differences) and `exact` (one value left).

    Raises
    ------
    DataError
        Tables that do not add up, a cell that occurs twice, an interval that was not proved in time.
    UsageError

    Examples
    --------
    >>> import pandas as pd
    >>> rows = [("N", 3), ("S", None), ("W", None), ("Total", 10)]
    >>> audit(pd.DataFrame(rows, columns=["region", "count"]), ["region"])[["region", "low", "high"]]
      region  low  high
    0      S  0.0   7.0
    1      W  0.0   7.0
    """
    several = isinstance(tables, list | tuple)
    given = list(tables) if several else [tables]
    trees = list(dims) if several else [dims]
    whole_tables = None if original is None else (list(original) if several else [original])
    if len(trees) != len(given) or (whole_tables is not None and len(whole_tables) != len(given)):
        raise UsageError("audit: give dims, and the original where there is one, for each of the tables")
    read = [
        finished_table(arrow_table(t, "audit"), d, response, total=total) for t, d in zip(given, trees, strict=True)
    ]
    for each, frame in zip(read, given, strict=True):
        require_exact(arrow_table(frame, "audit"), each.response)
    first = (
        None
        if whole_tables is None
        else [
            finished_table(arrow_table(t, "audit"), d, response, total=total)
            for t, d in zip(whole_tables, trees, strict=True)
        ]
    )
    share = None if prior is None else rational(prior, "prior") / 100
    cells, problem, unit = linked_problem(read, original=first, whole=whole, lower=lower, prior=share)
    among_whole = intervals(problem) if problem.whole else None
    fixed = {at: int(problem.low[at]) for at in np.flatnonzero(problem.published).tolist()}
    if problem.whole and share is not None:
        cells, problem, unit = linked_problem(read, original=first, whole=False, lower=lower, prior=share)
    found = intervals(problem) if among_whole is None or share is not None else among_whole
    rows = interval_rows(cells, problem, found, unit, among_whole, fixed)
    return table_frame(rows, None if isinstance(given[0], str | PurePath) else given[0], None)


def arrow_table(frame: Any, owner: str) -> pa.Table:
    """The rows of a finished table, which has cells and no persons, on this machine."""
    data = at_hand(frame, owner)
    with OpenedEngine(None, data, NOTHING) as engine:
        is_path = isinstance(data, str | PurePath)
        source = data if isinstance(data, Source) else Source(data=str(data) if is_path else data)
        found: pa.Table = engine.collect(scanned(engine, source))
    return found


def is_table(found: Any) -> bool:
    """Whether it is a table of cells, or several by name."""
    return isinstance(found, Table) or (
        isinstance(found, Mapping) and bool(found) and all(isinstance(each, Table) for each in found.values())
    )


def table_set(tables: Any, options: Mapping[str, Any]) -> TableSet:
    """Tables that a caller passed, one or several by name, with the other inputs of a stage."""
    named = {tables.name: tables} if isinstance(tables, Table) else tables
    if not is_table(named):
        raise UsageError("give a table that `Aggregate(...).apply(frame)` made, or a mapping of such tables")
    seed = secret_given(options.get("seed"))
    joints = {id(table.joint): table.joint for table in named.values()}
    joint = next(iter(joints.values()))
    if len(joints) > 1 or (joint is None and needs_joint([table.aggregated.spec for table in named.values()])):
        raise UsageError(
            "the tables were counted apart, so nothing shows how their populations are nested; make them with "
            "one `Aggregate(tables=...)`"
        )
    return TableSet(
        tables=dict(named),
        joint=joint if len(named) > 1 else None,
        guarantees=guarantees_given(options.get("guarantees", ())),
        sensitive=tuple(options.get("sensitive", ())),
        seed=next(iter(named.values())).seed if seed is None else seed.resolve(),
    )


def stages_given(given: Any) -> tuple[TableStage, ...]:
    """Stages on tables as a caller may give them.

    Raises
    ------
    UsageError
        Something else.
    """
    listed = (given,) if isinstance(given, TableStage) else given
    if not isinstance(listed, Sequence) or not all(isinstance(each, TableStage) for each in listed):
        raise UsageError("stages must be a list of stages on tables, as in [CellKey(D=5, V=3)]")
    return tuple(listed)


def require_kept_seed(stages: Sequence[TableStage], given: bool) -> None:
    """Refuse draws that would be others in the next release, which averages them away.

    Raises
    ------
    UsageError
    """
    for stage in stages:
        if stage.needs_seed and not given:
            raise UsageError(
                f"{stage.name()}: give the seed that is kept for all releases, as in seed={{'from_env': 'SEED'}}: "
                "under another seed each time the average of several releases shows the true figures"
            )


def guarantees_given(given: Any) -> tuple[CellGuarantee, ...]:
    """Guarantees on cells as a caller may give them.

    Raises
    ------
    UsageError
        Something else.
    """
    listed = (given,) if isinstance(given, CellGuarantee) else given
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        raise UsageError("guarantees must be a list of guarantees on cells, as in [MinimumFrequency(at_least=10)]")
    listed = [of_tables(each) for each in listed]
    for each in listed:
        if not isinstance(each, CellGuarantee):
            what = f"the class {each.__name__}: call it" if isinstance(each, type) else type(each).__name__
            raise UsageError(f"guarantees: tables are judged by guarantees on cells, not by {what}")
    return tuple(listed)
