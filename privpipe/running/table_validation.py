"""Finished tables of anybody, judged by a policy's guarantees on cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.verdict import Comparison, Verdict
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.judging import Assessment
from privpipe.running.table_frames import arrow_table
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, TableSpec
from privpipe.tables.audit_problem import Levels
from privpipe.tables.entries import CellGuarantee, UnionGuarantee
from privpipe.tables.exact_audit import AuditResult, audit
from privpipe.tables.families import merged_levels
from privpipe.tables.finished_tables import FinishedTable, finished_table, linked_problem
from privpipe.tables.guarantees import MinimumFrequency
from privpipe.tables.primary_rules import Settings, protection_levels
from privpipe.tables.table_audit import TableAudit

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["validate_tables"]

Finished = Mapping[str, Mapping[str, FinishedTable]]
"""By table, each response that is a count or a sum."""
NO_CONTRIBUTIONS = "a finished table shows no contributions, so it cannot be judged here; release it by the policy."
NO_PERSONS = "a finished table shows no persons, so it was not judged together with the earlier ones of the ledger"
ONLY_BLANKS = "without the true figures only blank cells could be judged; give the original"


def validate_tables(policy: Policy, data: Any, original: Any = None) -> Assessment:
    """Judge finished tables as a policy's `aggregate` describes them: dimensions, responses, label of the total.

    Parameters
    ----------
    data : frame, path of a file or folder, or mapping of table names to these
    original : as `data`, optional
        The same tables without blanks.

    Raises
    ------
    DataError, UsageError
    """
    if policy.tables is None:
        raise TypeError("the policy makes no tables")
    specs = policy.tables.aggregate.specs()
    trees = {name: {column: _parents(policy, column, spec.total) for column in spec.by} for name, spec in specs.items()}
    finished = _read(specs, trees, data)
    first = None if original is None else _read(specs, trees, original)
    asked = policy.tables.guarantees
    rule = next((each for each in asked if isinstance(each, MinimumFrequency)), None)
    verdicts = tuple(_verdict(guarantee, finished, first, rule) for guarantee in asked)
    cells = sum(len(next(iter(each.values())).cells) for each in finished.values())
    notes: tuple[str, ...] = () if first is not None else (ONLY_BLANKS,)
    if any(isinstance(each, UnionGuarantee) and each.ledger is not None for each in asked):
        notes = (*notes, NO_PERSONS)
    return Assessment(verdicts=verdicts, records=cells, notes=notes)


def _parents(policy: Policy, column: str, total: str) -> dict[str, str] | None:
    """The parent of each label that the column's hierarchy has, as far as it is a table; None: labels are flat."""
    spec = policy.hierarchies.get(column)
    if spec is None:
        return None
    hierarchy = spec.build([], [], policy.types.get(column))
    parents: dict[str, str] = {}
    levels = [hierarchy.texts(level) for level in range(hierarchy.height + 1)]
    for code in range(len(levels[0])):
        above = total
        for level in reversed(levels):
            if len(set(level)) > 1 and level[code] != above:
                parents.setdefault(level[code], above)
                above = level[code]
    return parents


def _read(specs: Mapping[str, TableSpec], trees: Mapping[str, Any], data: Any) -> Finished:
    given = _by_name(specs, data)
    found: dict[str, dict[str, FinishedTable]] = {}
    for name, spec in specs.items():
        rows = arrow_table(given[name], "validate")
        for response in spec.responses:
            shown = rows.column(response.name) if response.name in rows.column_names else None
            if (response.ordered or response.spread) and shown is not None and shown.null_count < len(rows):
                raise UsageError(
                    f"table {name!r}: a finished table does not show how many contributors {response.name!r} rests on, "
                    "so it cannot be judged; leave that column out of what is published, or release from records"
                )
        own = {
            response.name: finished_table(rows, trees[name], response.name, total=spec.total)
            for response in spec.responses
            if response.kind in ("count", "sum")
        }
        if not own:
            raise UsageError(f"table {name!r} has no count and no sum; only these can be judged in a finished table")
        found[name] = own
    return found


def _by_name(specs: Mapping[str, TableSpec], data: Any) -> Mapping[str, Any]:
    if isinstance(data, Mapping):
        given: Mapping[str, Any] = data
    elif isinstance(data, str | PurePath) and Path(data).is_dir():
        files = [
            path for path in sorted(Path(data).iterdir()) if path.is_file() and path.suffix in (".parquet", ".csv")
        ]
        given = {path.stem: path for path in files}
    elif len(specs) == 1:
        given = {next(iter(specs)): data}
    else:
        raise UsageError(f"validate: give a folder or a mapping with the tables {', '.join(specs)}")
    for name in given:
        if name not in specs:
            raise DataError(f"table {name!r} is not in the policy's `aggregate`{did_you_mean(name, specs)}")
    missing = [name for name in specs if name not in given]
    if missing:
        raise DataError(f"{len(missing)} tables of the policy are missing: {', '.join(missing)}")
    return given


def _verdict(
    guarantee: CellGuarantee, tables: Finished, original: Finished | None, rule: MinimumFrequency | None
) -> Verdict:
    chosen = {name: own for name, own in tables.items() if guarantee.tables is None or name in guarantee.tables}
    if isinstance(guarantee, MinimumFrequency):
        return _frequency(guarantee, chosen)
    if isinstance(guarantee, TableAudit):
        return _audit(guarantee, chosen, original, rule)
    return Verdict(guarantee, None, "error", guarantee.demanded(), reason=NO_CONTRIBUTIONS)


def _frequency(guarantee: MinimumFrequency, tables: Finished) -> Verdict:
    counts = [own[COUNT] for own in tables.values() if COUNT in own]
    shown = np.concatenate([np.empty(0, dtype=np.int64), *(each.values[~each.blank] for each in counts)])
    if (shown < 0).any():
        raise DataError(f"{int((shown < 0).sum()):,} counts are negative")
    shown = shown[shown > 0]
    compared = (Comparison(len(shown), len(shown), "published counts above 0 were judged"),)
    if not len(shown):
        return Verdict(guarantee, None, "error", guarantee.at_least, reason="no count is published.", compared=compared)
    failing = int((shown < guarantee.at_least).sum())
    return Verdict(
        guarantee,
        int(shown.min()),
        outcome="fail" if failing else "pass",
        threshold=guarantee.at_least,
        failing_classes=failing,
        reason=f"observed {int(shown.min()):,}; {failing:,} of {len(shown):,} published counts are below.",
        compared=compared,
    )


def _audit(
    guarantee: TableAudit, tables: Finished, original: Finished | None, rule: MinimumFrequency | None
) -> Verdict:
    results: list[AuditResult] = []
    judged = 0
    for response in dict.fromkeys(name for own in tables.values() for name in own):
        own = {name: each[response] for name, each in tables.items() if response in each}
        first = None if original is None else [original[name][response] for name in own]
        counts = response == COUNT
        cells, problem, _ = linked_problem(
            list(own.values()),
            original=first,
            whole=counts and guarantee.whole,
            at_least=rule.at_least if counts and rule is not None and rule.protect == "masked" else None,
        )
        if first is not None and rule is not None and original is not None:
            truth = [original[name].get(COUNT) for name in own]
            levels = [
                _levels(rule, figures, guarantee, variables, counts_shown=counts)
                for figures, variables in zip(truth, cells.variables, strict=True)
                if figures is not None
            ]
            problem = replace(problem, levels=merged_levels(levels))
        results.append(audit(problem, time_limit=guarantee.time_limit))
        judged += cells.size
    return guarantee.verdict(results, judged)


def _levels(
    rule: MinimumFrequency, counts: FinishedTable, asked: TableAudit, variables: Any, *, counts_shown: bool
) -> Levels:
    """Levels of the cells that are too small by their true counts, for the counts or for a sum over the same cells."""
    figures = counted_figures(counts)
    made = protection_levels([rule.rule], figures, Settings(lower=asked.lower, sliding=asked.sliding))
    if not counts_shown:
        nothing = np.zeros(len(made.variables), dtype=np.int64)
        made = Levels(made.variables, nothing, nothing.copy(), nothing.copy())
    return replace(made, variables=variables[made.variables])


def counted_figures(counts: FinishedTable) -> CellFigures:
    """Figures of cells of which the numbers of contributors are known, and nothing else."""
    none = np.zeros(len(counts.cells), dtype=np.int64)
    return CellFigures(
        cells=counts.cells,
        response=counts.response,
        contributors=counts.values,
        records=counts.values,
        totals=counts.values,
        magnitudes=counts.values,
        largest=none[:, None],
        holders=none[:, None],
        negative=none,
        nonzero=counts.values,
        single=none,
        counting=True,
    )
