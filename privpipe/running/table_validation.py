"""Finished tables of anyone, judged by a policy's guarantees on cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.verdict import Verdict
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.judging import Assessment
from privpipe.running.table_frames import finished_rows, in_long_form, tables_by_name
from privpipe.tables.aggregation import COUNT, TableSpec
from privpipe.tables.audit_problem import AuditProblem, Levels, product
from privpipe.tables.cells import Cells, LinkedCells
from privpipe.tables.differencing import nested_differences, small_rests
from privpipe.tables.entries import CellGuarantee, TableSet, TableStage, UnionGuarantee, idle_notes
from privpipe.tables.exact_audit import AuditResult, Kind, audit
from privpipe.tables.families import families, merged_levels
from privpipe.tables.finished_checks import (
    absent_note,
    base_rows,
    finished_dimension,
    frequency_verdict,
    require_counts,
    require_margins,
    require_quotients,
    require_sums,
    with_blanks_alone,
)
from privpipe.tables.finished_tables import (
    MARK,
    SUPPRESSED,
    FinishedTable,
    finished_cells,
    finished_table,
    in_declared_units,
    labels_of,
    linked_problem,
)
from privpipe.tables.guarantees import GroupDisclosure, MinimumFrequency, PrimaryRule
from privpipe.tables.implied_populations import implied_populations
from privpipe.tables.original_cells import counted_figures, kept_contributions, known_table
from privpipe.tables.perturbed_tables import CellKey, RoundTable
from privpipe.tables.population_differences import Differencing
from privpipe.tables.private_tables import PrivateTable
from privpipe.tables.rounding import reader_intervals
from privpipe.tables.stages import needs_joint
from privpipe.tables.table import STATUS_SUFFIX, measures_of
from privpipe.tables.table_audit import TableAudit, audit_problem, audited

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy

__all__ = ["FinishedTables", "finished_tables", "validate_tables"]

PLAIN = ("published", "zero", "")
ROUNDED = "rounded"
SMALL = "small_counts"
NO_CONTRIBUTIONS = (
    "a finished table shows no contributions, so it cannot be judged here; give the true cells with their largest "
    "contributions as the original (as `Table.private()` has them), or release it by the policy."
)
NO_PERSONS = "a finished table shows no persons, so it was not judged together with the earlier ones of the ledger"
ROUNDED_COUNTS = "counts are rounded, so contributors are not known; give the original."
NO_CONTRIBUTORS = "the counts are weighted, or none is published: contributors are not known; give the original."
ONLY_BLANKS = "without the true figures only blank cells could be judged; give the original"
APART = (
    "tables with other dimensions or populations were compared cell by cell; how else their populations are in one "
    "another was not judged: release them by the policy"
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FinishedTables:
    """Finished tables as they were read.

    Parameters
    ----------
    specs : mapping of str to TableSpec
    rows : mapping of str to pyarrow.Table
        In long form.
    cells : mapping of str to Cells
    responses : mapping of str to mapping of str to FinishedTable
        By table, each response.
    known : TableSet, optional
        The same with the true figures of each cell.
    kept : int
        Largest contributions of each cell that are known.
    weighted : bool
        Whether counts are of something else than contributors.
    """

    specs: Mapping[str, TableSpec]
    rows: Mapping[str, pa.Table]
    cells: Mapping[str, Cells]
    responses: Mapping[str, Mapping[str, FinishedTable]]
    known: TableSet | None = None
    kept: int = 0
    weighted: bool = False

    def figures(self, key: str, chosen: Sequence[str] | None = None) -> dict[str, FinishedTable]:
        """By table, the figures of a measure: counts, or sums of a column."""
        return {
            name: own[response.name]
            for name, own in self.responses.items()
            if chosen is None or name in chosen
            for response in self.specs[name].responses
            if response.kind in ("count", "sum") and measures_of(response)[-1] == key
        }

    def rounded(self, chosen: Sequence[str] | None = None) -> bool:
        """Whether published counts are rounded."""
        return any(each.low is not None for each in self.figures(COUNT, chosen).values())

    @property
    def keys(self) -> tuple[str, ...]:
        """Measures whose figures are shown."""
        every = [response for spec in self.specs.values() for response in spec.responses]
        return tuple(dict.fromkeys(measures_of(each)[-1] for each in every if each.kind in ("count", "sum")))

    @cached_property
    def given_away(self) -> int:
        """Means and ratios that are shown where one of their parts is blank."""
        found = 0
        for name, own in self.responses.items():
            parts = {key: table for key in self.keys for table in [self.figures(key).get(name)] if table is not None}
            for response in self.specs[name].responses:
                if response.kind not in ("count", "sum"):
                    blank = [parts[key].blank for key in measures_of(response) if key in parts]
                    if response.kind == "percentage":
                        blank += [each[base_rows(self.cells[name], response)] for each in blank]
                    some = np.logical_or.reduce(blank) if blank else np.zeros(len(self.cells[name]), dtype=np.bool_)
                    found += int((some & ~own[response.name].blank).sum())
        return found

    def notes(self) -> Iterator[str]:
        """Notes of a verdict on the tables."""
        if self.known is None:
            yield ONLY_BLANKS
        if needs_joint(list(self.specs.values())):
            yield APART
        for name, cells in self.cells.items():
            absent = absent_note(name, cells)
            if absent is not None:
                yield absent


def validate_tables(
    policy: Policy, data: Any, original: Any = None, *, extra_columns: bool = False, **form: str
) -> Assessment:
    """Judge finished tables as a policy's `aggregate` describes them: dimensions, responses, label of the total.

    Parameters
    ----------
    data : frame, path of a file or folder, or mapping of table names to these
    original : as `data`, optional
        The same tables without blanks; with ``count:contributors``, ``<column>:total`` and ``<column>:largest_1`` (and
        so on) concentration rules are judged as well.
    extra_columns : bool
        Whether a table may have columns that the policy does not name; they are not judged, and a note says so.
    form : str
        How files are written: `format`, `delimiter`.

    Raises
    ------
    DataError, UsageError
    """
    finished = finished_tables(policy, data, original, extra_columns=extra_columns, **form)
    asked = () if policy.tables is None else policy.tables.guarantees
    judged = [(guarantee.reported, _verdict(guarantee, finished, asked, policy)) for guarantee in asked]
    followed = any(isinstance(each, UnionGuarantee) and each.ledger is not None for each in asked)
    return Assessment(
        verdicts=tuple(verdict for reported, verdict in judged if not reported),
        measures=tuple(verdict for reported, verdict in judged if reported),
        records=sum(map(len, finished.cells.values())),
        notes=(
            *finished.notes(),
            *idle_notes(asked),
            *_unjudged(finished, extra_columns=extra_columns),
            *((NO_PERSONS,) if followed else ()),
        ),
    )


def finished_tables(
    policy: Policy, data: Any, original: Any = None, *, extra_columns: bool = False, **form: str
) -> FinishedTables:
    """Finished tables, read and found whole: see `validate_tables`."""
    if policy.tables is None:
        raise TypeError("the policy makes no tables")
    _require_readable(policy.tables.stages)
    aggregate = policy.tables.aggregate
    specs = aggregate.specs()
    rows = _long(specs, data, aggregate.layout, "validate", **form)
    first = None if original is None else _long(specs, original, "long", "validate, original")
    cells, responses = {}, {}
    for name, spec in specs.items():
        cells[name] = _cells(policy, name, spec, rows[name], None if first is None else first[name])
        responses[name] = _responses(policy, name, spec, rows[name], cells[name])
        if not extra_columns and (others := _others(rows[name], spec)):
            raise DataError(
                f"table {name!r}: columns {', '.join(map(repr, others))} are neither dimensions nor responses of the "
                "policy, and would leave unjudged; name them in `aggregate`, or leave them out"
            )
    found = FinishedTables(specs=specs, rows=rows, cells=cells, responses=responses, weighted=bool(aggregate.weight))
    if first is None:
        return found
    tables = {name: known_table(name, specs[name], responses[name], first[name], cells[name]) for name in specs}
    sums = [(name, key) for name, spec in specs.items() for key in spec.sums]
    return replace(
        found,
        known=TableSet(tables=tables, guarantees=policy.tables.guarantees, sensitive=tuple(policy.roles.sensitive)),
        kept=min((kept_contributions(first[name], key) for name, key in sums), default=0),
    )


def _require_readable(stages: Sequence[TableStage]) -> None:
    """Refuse policies whose published figures put no certain bound on the true ones.

    Raises
    ------
    UnsupportedError
    """
    for stage in stages:
        if isinstance(stage, CellKey | PrivateTable) or (isinstance(stage, RoundTable) and stage.method == SMALL):
            raise UnsupportedError(
                f"the policy has `{stage.name()}`, and what such figures show is judged where they are made, not in a "
                "finished table: release from records"
            )


def _long(specs: Mapping[str, TableSpec], data: Any, layout: str, owner: str, **form: str) -> dict[str, pa.Table]:
    given = tables_by_name(specs, data)
    found = {name: finished_rows(given[name], owner, **form) for name in specs}
    if layout == "wide":
        found = {
            name: rows
            if len(specs[name].by) > 1 and set(specs[name].by) <= set(rows.schema.names)
            else in_long_form(rows, name, specs[name])
            for name, rows in found.items()
        }
    return found


def _others(rows: pa.Table, spec: TableSpec) -> list[str]:
    """Columns of a table that the policy does not name."""
    named = {*spec.by, "status"}
    for response in spec.responses:
        named |= {response.name, f"{response.name}{STATUS_SUFFIX}"}
    return [column for column in rows.schema.names if column not in named]


def _unjudged(finished: FinishedTables, *, extra_columns: bool) -> Iterator[str]:
    for name, spec in finished.specs.items():
        others = _others(finished.rows[name], spec)
        if extra_columns and others:
            yield f"table {name!r}: columns {', '.join(map(repr, others))} were not judged"


def _cells(policy: Policy, name: str, spec: TableSpec, rows: pa.Table, original: pa.Table | None) -> Cells:
    dimensions = {}
    for column in spec.by:
        labels: list[str] = []
        for table in (rows, original):
            if table is not None:
                if column not in table.schema.names:
                    raise DataError(f"table {name!r} has no column {column!r}")
                labels += labels_of(table, column)[0]
        dimensions[column] = finished_dimension(
            column, list(dict.fromkeys(labels)), spec, policy.hierarchies.get(column), policy.types.get(column)
        )
    cells = finished_cells(rows, dimensions, total=spec.total, only=spec.only)
    if not len(cells):
        raise DataError(f"table {name!r} has no rows")
    require_margins(name, cells)
    return cells


def _responses(policy: Policy, name: str, spec: TableSpec, rows: pa.Table, cells: Cells) -> dict[str, FinishedTable]:
    """Every response, also means and ratios, whose blanks count."""
    found = {}
    weighted = policy.tables is not None and policy.tables.aggregate.weight is not None
    parts = {key for each in spec.responses if each.kind in ("count", "sum") for key in measures_of(each)}
    for response in spec.responses:
        if response.ordered or response.spread:
            _require_unshown(name, rows, response.name)
            continue
        dims = {each.name: each for each in cells.dimensions}
        if response.kind == "sum":
            rows = in_declared_units(rows, [response.name], spec.sums[response.columns[0]])
        plain = response.kind in ("count", "sum")
        read = rows if plain else with_blanks_alone(rows, response.name)
        own = finished_table(read, dims, response.name, total=spec.total, cells=cells)
        if own.left:
            raise DataError(
                f"table {name!r}: {own.left:,} figures of {response.name!r} are marked as suppressed and still there; "
                "publish null"
            )
        rounded = _require_statuses(name, rows, response.name)
        if plain:
            own = _as_read(policy, name, own, rounded=rounded, counts=response.kind == "count")
            if response.kind == "count":
                require_counts(name, own, weighted=weighted)
            require_sums(name, own)
        elif missing := [key for key in measures_of(response) if key != COUNT and key not in parts]:
            raise DataError(
                f"table {name!r}: {response.name!r} is judged by its parts, and the sums of "
                f"{', '.join(map(repr, missing))} are not responses of the policy; publish them as well"
            )
        found[response.name] = own
    shown = {measures_of(each)[-1]: found[each.name] for each in spec.responses if each.kind in ("count", "sum")}
    for response in spec.responses:
        if response.name in found and response.kind not in ("count", "sum"):
            require_quotients(name, response, rows.column(response.name), shown, cells)
    return found


def _require_unshown(table: str, rows: pa.Table, response: str) -> None:
    """Refuse extremes, quantiles and variances that are shown."""
    shown = rows.column(response) if response in rows.schema.names else None
    if shown is not None and shown.null_count < len(rows):
        raise UsageError(
            f"table {table!r}: a finished table does not show how many contributors {response!r} rests on, so it "
            "cannot be judged; do not publish that column, or release from records"
        )


def _require_statuses(table: str, rows: pa.Table, response: str) -> bool:
    """Whether statuses state that figures are rounded; refuse unknown ones."""
    column = next((each for each in (f"{response}{STATUS_SUFFIX}", "status") if each in rows.schema.names), None)
    if column is None:
        return False
    texts = {"" if each is None else str(each) for each in rows.column(column).unique().to_pylist()}
    unknown = {text for text in texts - {*SUPPRESSED, *PLAIN, ROUNDED} if MARK.fullmatch(text) is None}
    if unknown:
        raise DataError(
            f"table {table!r}: {len(unknown)} texts of {column!r} are none of published, zero, rounded, c; perturbed "
            "and noisy figures are judged where they are made, not in a finished table"
        )
    if len(texts & set(SUPPRESSED)) > 1 or texts & {"primary", "secondary"}:
        raise DataError(
            f"table {table!r}: {column!r} distinguishes suppressed cells, and so reveals which are primary; "
            "write c for all"
        )
    return ROUNDED in texts


def _as_read(policy: Policy, name: str, own: FinishedTable, *, rounded: bool, counts: bool) -> FinishedTable:
    """Figures with the conclusions of a reader, where the policy rounds them."""
    stages = () if policy.tables is None else policy.tables.stages
    stage: Any = next(
        (each for each in stages if each.name() == "round_table" and name in (getattr(each, "tables", None) or [name])),
        None,
    )
    if stage is None:
        if rounded:
            raise DataError(
                f"table {name!r}: figures of {own.response!r} are rounded, and no `round_table` of the policy states "
                "by which base"
            )
        return own
    base = stage.base * 10**own.decimals
    if np.any(own.values % base) and stage.method != "midpoint":
        raise DataError(f"table {name!r}: figures of {own.response!r} are not multiples of the base of `round_table`")
    nonnegative = counts or not bool((own.values < 0).any())
    low, high = reader_intervals(own.values, base, stage.method, counts=nonnegative)
    return replace(own, low=low, high=high)


def _verdict(
    guarantee: CellGuarantee, finished: FinishedTables, asked: Sequence[CellGuarantee], policy: Policy
) -> Verdict:
    if guarantee.tables is not None and not set(guarantee.tables) <= set(finished.specs):
        raise UsageError(f"{guarantee.name()}: names a table that the policy does not make")
    found = _judged(guarantee, finished, asked, policy)
    if not finished.given_away or found.outcome == "fail":
        return found
    spoilt = f"{finished.given_away:,} means or ratios are shown where a part of them is blank, which gives it away"
    return replace(found, outcome="fail", failing_classes=finished.given_away, reason=f"{spoilt}.")


def _judged(
    guarantee: CellGuarantee, finished: FinishedTables, asked: Sequence[CellGuarantee], policy: Policy
) -> Verdict:
    if isinstance(guarantee, TableAudit):
        return _audited(guarantee, finished, asked)
    known = finished.known
    if isinstance(guarantee, Differencing):
        return _differences(guarantee, finished)
    if known is not None and not _unknown(guarantee, finished):
        return guarantee.judge(known)
    if isinstance(guarantee, MinimumFrequency | GroupDisclosure) and known is None:
        by_holding = isinstance(guarantee, MinimumFrequency) and guarantee.holding is not None
        if finished.weighted or by_holding or not finished.figures(COUNT, guarantee.tables):
            return Verdict(guarantee, None, "error", guarantee.demanded(), reason=NO_CONTRIBUTORS)
        if finished.rounded(guarantee.tables):
            return Verdict(guarantee, None, "error", guarantee.demanded(), reason=ROUNDED_COUNTS)
        if isinstance(guarantee, MinimumFrequency):
            return _frequency(guarantee, finished)
        return _groups(guarantee, finished, tuple(policy.roles.sensitive))
    return Verdict(guarantee, None, "error", guarantee.demanded(), reason=NO_CONTRIBUTIONS)


def _unknown(guarantee: CellGuarantee, finished: FinishedTables) -> bool:
    """Whether the true cells lack what the guarantee reads: contributions and their weights."""
    if isinstance(guarantee, MinimumFrequency):
        by_sums = guarantee.count == "nonzero" and any(spec.sums for spec in finished.specs.values())
        return (by_sums and finished.kept < guarantee.at_least) or (guarantee.population and finished.weighted)
    weights = getattr(guarantee, "weights", "sample")
    return guarantee.largest() > finished.kept or (finished.weighted and weights != "sample")


def _frequency(guarantee: MinimumFrequency, finished: FinishedTables) -> Verdict:
    sums: dict[str, list[FinishedTable]] = {}
    for key in finished.keys:
        for name, each in finished.figures(key, guarantee.tables).items():
            if key != COUNT and guarantee.response in (None, key, each.response):
                sums.setdefault(name, []).append(each)
    counts = finished.figures(COUNT, guarantee.tables)
    if guarantee.response not in (None, COUNT, *(each.response for each in counts.values())) and not sums:
        raise UsageError(f"minimum_frequency: no table has a response that it can judge ({guarantee.response!r})")
    if guarantee.count == "nonzero" and sums:
        return Verdict(guarantee, None, "error", guarantee.at_least, reason=NO_CONTRIBUTIONS)
    return frequency_verdict(guarantee, counts, sums)


def _groups(guarantee: GroupDisclosure, finished: FinishedTables, sensitive: tuple[str, ...]) -> Verdict:
    """Groups whose published counts show that all members are in one cell."""
    failing = judged = 0
    counts = finished.figures(COUNT, guarantee.tables).values()
    guarantee.require_dimensions([each.cells for each in counts])
    for each in counts:
        rule = guarantee.rule_of(each.cells, sensitive)
        if rule is not None:
            figures = counted_figures(each.cells, np.where(each.blank, 0, each.values))
            failing += rule.observed(figures, ~each.blank)
            judged += int((~each.blank & (each.values > 0)).sum())
    return guarantee.verdict(failing, judged)


def _differences(guarantee: Differencing, finished: FinishedTables) -> Verdict:
    cells, counts, shown = _populations(finished, guarantee.tables)
    if not cells or (finished.weighted and finished.known is None):
        return Verdict(guarantee, None, "error", guarantee.at_least, reason=NO_CONTRIBUTORS)
    if finished.known is None and finished.rounded(guarantee.tables):
        return Verdict(guarantee, None, "error", guarantee.at_least, reason=ROUNDED_COUNTS)
    failing = nested_differences(cells, counts, shown, guarantee.at_least)
    for one, sizes, seen in zip(cells, counts, shown, strict=True):
        if finished.known is None or not np.any(product(one.relations, sizes)):
            failing += len(small_rests(one.relations, sizes, seen, guarantee.at_least))
    judged = sum(int((one & (count > 0)).sum()) for one, count in zip(shown, counts, strict=True))
    return guarantee.verdict(failing, judged)


def _populations(finished: FinishedTables, chosen: Sequence[str] | None) -> tuple[list[Cells], list[Ints], list[Bools]]:
    """Cells of tables, their contributors, and which of these are published."""
    if finished.known is not None:
        tables = finished.known.chosen(chosen).values()
        measures = [table.measures[COUNT] for table in tables]
        return (
            [table.cells for table in tables],
            [measure.figures.contributors for measure in measures],
            [~measure.hidden for measure in measures],
        )
    counts = finished.figures(COUNT, chosen).values()
    return [each.cells for each in counts], [each.values for each in counts], [~each.blank for each in counts]


def _audited(guarantee: TableAudit, finished: FinishedTables, asked: Sequence[CellGuarantee]) -> Verdict:
    rules = [each for each in asked if isinstance(each, MinimumFrequency) and not finished.weighted]
    rule = max(rules, key=lambda each: each.at_least, default=None)
    if finished.known is None:
        results, judged = _blanks_audited(guarantee, finished, rule)
    else:
        results, judged = _levels_audited(guarantee, finished, finished.known, asked)
    if results and rule is not None and needs_joint(list(finished.specs.values())):
        if finished.known is None and finished.rounded(guarantee.tables):
            return Verdict(guarantee, None, "error", guarantee.demanded(), reason=ROUNDED_COUNTS)
        cells, counts, shown = _populations(finished, guarantee.tables)
        apart = nested_differences(cells, counts, shown, rule.at_least, between=True)
        results[0] = replace(results[0], implied=results[0].implied + apart)
    return guarantee.verdict(results, judged, true_known=finished.known is not None)


def _blanks_audited(
    guarantee: TableAudit, finished: FinishedTables, rule: MinimumFrequency | None
) -> tuple[list[AuditResult], int]:
    """Verdict from the table alone: no blank figure may have one value, or be within the mask of small counts."""
    results, judged = [], 0
    for key in finished.keys:
        own = finished.figures(key, guarantee.tables)
        if not own:
            continue
        counts = key == COUNT
        signed = any(bool((each.values < 0).any()) for each in own.values())
        tables = [_without_empty(finished, name, each) if not counts else each for name, each in own.items()]
        cells, problem, unit = linked_problem(
            tables,
            whole=counts and guarantee.whole,
            lower=None if signed else 0,
            at_least=rule.at_least if counts and rule is not None and rule.protect == "masked" else None,
        )
        result = _of_cells(audit(problem, time_limit=guarantee.time_limit), cells)
        if counts and rule is not None and guarantee.implied:
            result = replace(result, implied=_implied(cells, problem, result, rule.at_least * unit))
        results.append(result)
        judged += cells.size
    return results, judged


def _without_empty(finished: FinishedTables, name: str, sums: FinishedTable) -> FinishedTable:
    """Sums that a reader knows better: those without contributors are 0."""
    counts = finished.figures(COUNT).get(name)
    if counts is None or finished.weighted:
        return sums
    none = ~counts.blank & (counts.values == 0)
    none &= np.ones(len(counts.cells), dtype=np.bool_) if counts.high is None else counts.high == 0
    if bool((none & ~sums.blank & (sums.values != 0)).any()):
        raise DataError(f"table {name!r}: sums of {sums.response!r} are not 0 where the count is 0")
    return replace(sums, blank=sums.blank & ~none)


def _of_cells(result: AuditResult, cells: LinkedCells) -> AuditResult:
    """Without variables that are not cells: distances of inequalities, and cells about which nothing is known."""
    own = result.variables < cells.size
    return replace(result, kinds=np.where(own, result.kinds, Kind.HOLDS))


def _implied(cells: LinkedCells, problem: AuditProblem, result: AuditResult, least: int) -> int:
    """Sets of blank counts whose sum follows from published ones and is below the least count."""
    hidden = ~problem.published[: cells.size]
    sets = implied_populations(cells, hidden)
    if not len(sets):
        return 0
    sums = sets.sums(result.base[: cells.size])
    several = np.diff(sets.sets.indptr) > 1
    return int((several & (sums > 0) & (sums < least * result.scale)).sum())


def _levels_audited(
    guarantee: TableAudit, finished: FinishedTables, known: TableSet, asked: Sequence[CellGuarantee]
) -> tuple[list[AuditResult], int]:
    """By the true figures; where a rule on contributions cannot be applied, no blank sum may have one value."""
    unknown = [each for each in asked if _unknown(each, finished)]
    tables = replace(known, guarantees=[each for each in known.guarantees if each not in unknown])
    results, judged = [], 0
    for family in families(tables.chosen(guarantee.tables)):
        spoken = any(
            (isinstance(each, PrimaryRule) and each in tables.guarantees) or isinstance(each, GroupDisclosure)
            for each in asked
        )
        strict = unknown and family.key != COUNT
        if not spoken and not strict:
            continue
        problem = audit_problem(tables, family, guarantee)
        if strict:
            hidden = np.flatnonzero(family.hidden & (family.true != 0))
            none = np.zeros(len(hidden), dtype=np.int64)
            levels = [Levels(hidden, none, none.copy(), none.copy())]
            problem = replace(problem, levels=merged_levels([*levels, *([problem.levels] if problem.levels else [])]))
        results.append(audited(tables, family, problem, guarantee))
        judged += family.cells.size
    return results, judged
