"""What each column of a release has lost, as a table, which lost all, and which relations between columns are lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import UsageError
from privpipe.html_tables import Table, html_tables
from privpipe.kernels.losses.column_losses import counted_pairs, cramers_v, rank_correlation, rank_ratio

if TYPE_CHECKING:
    from privpipe.judging.paired_columns import CodedColumn, PairedSample

__all__ = [
    "LEAST_RECORDS",
    "LEAST_RELATED",
    "NOT_RELEASED",
    "AlarmAction",
    "AlarmKind",
    "ColumnLoss",
    "ColumnLossRule",
    "LossTable",
    "LostRelation",
    "RelatedColumn",
    "alarm_of",
    "lost_relations",
    "places_of",
]


LEAST_RELATED = 0.3
"""A relation above which its loss is reported."""
LEAST_RECORDS = 50
"""Records that a relation is measured over, at least: over fewer 0.3 may be chance."""
MOST_RECORDS = 20_000
"""Records that relations are measured over, at most."""


@dataclass(frozen=True, kw_only=True)
class LostRelation:
    """Two columns that were related, and are less so in the release.

    Parameters
    ----------
    columns : tuple of two str
    measured_by : str
        ``rank correlation`` of two numbers or points in time; ``correlation ratio`` of one with labels; ``association``
        of labels, which is Cramer's V.
    before, after : float
        Without sign, in [0, 1].
    records, of : int
        Records with a label of both columns in the release, over which it was measured; and those looked at.
    """

    columns: tuple[str, str]
    measured_by: str
    before: float
    after: float
    records: int
    of: int


@dataclass(frozen=True)
class _Side:
    codes: Ints = field(repr=False)
    ordered: bool

    @classmethod
    def of(cls, column: CodedColumn, places: Ints) -> _Side:
        codes = column.codes[places]
        return cls(np.where(column.blank[codes], -1, codes), column.ordered)

    @property
    def known(self) -> Bools:
        found: Bools = self.codes >= 0
        return found


@dataclass(frozen=True)
class RelatedColumn:
    """A column before and after, of the records that relations are measured over.

    Parameters
    ----------
    before, after : codes, shape (n,)
        In the order of the values where there is one, -1 where there is no label. Labels of what had an order are in
        the order of the values that they were given to.
    """

    before: _Side
    after: _Side

    @classmethod
    def of(cls, before: CodedColumn, after: CodedColumn, places: tuple[Ints, Ints]) -> RelatedColumn:
        """From both sides, and the places of the records in each."""
        first, second = _Side.of(before, places[0]), _Side.of(after, places[1])
        return cls(first, _in_order(second, first) if first.ordered and not second.ordered else second)


def places_of(sample: PairedSample) -> tuple[Ints, Ints]:
    """The places in both tables of the records that relations are measured over: at most 20,000, of smallest id."""
    first, second = sample.pairs
    if len(first) <= MOST_RECORDS:
        return first, second
    ids = sample.released.record_ids[second]
    chosen = np.lexsort((ids[:, 1], ids[:, 0]))[:MOST_RECORDS]
    return first[chosen], second[chosen]


def lost_relations(
    columns: Mapping[str, RelatedColumn], changed: Mapping[str, bool], at_most: float
) -> tuple[LostRelation, ...]:
    """Pairs of columns whose relation was above 0.3 and lost more than a share of it, the greatest loss first.

    Pairs in which neither column changed are left out; so are relations over fewer than 50 records on either side.

    Parameters
    ----------
    columns : mapping of name to RelatedColumn
    changed : mapping of name to bool
        Whether a column changed, of those that have two labels or more left.
    at_most : float
        The share that a relation may lose.
    """
    found = []
    for pair in combinations(changed, 2):
        if not any(changed[name] for name in pair):
            continue
        first, second = (columns[name] for name in pair)
        before, _ = _related(first.before, second.before)
        if before is None or before <= LEAST_RELATED:
            continue
        after, records = _related(first.after, second.after)
        if after is not None and before - after > at_most * before:
            by, looked_at = _measure(first.before, second.before), len(first.before.codes)
            found.append(
                LostRelation(columns=pair, measured_by=by, before=before, after=after, records=records, of=looked_at)
            )
    return tuple(sorted(found, key=lambda each: each.after - each.before))


def _in_order(labels: _Side, values: _Side) -> _Side:
    """Labels in the order of the mean rank of the values that they were given to."""
    both = labels.known & values.known
    given, size = labels.codes[both], int(labels.codes.max(initial=-1)) + 1
    sums = np.bincount(given, weights=_ranks(values.codes[both]), minlength=size)
    means = sums / np.maximum(np.bincount(given, minlength=size), 1)
    place = np.empty(size, np.int64)
    place[np.argsort(means, kind="stable")] = np.arange(size)
    codes = labels.codes.copy()
    codes[labels.known] = place[labels.codes[labels.known]]
    return _Side(codes, ordered=True)


def _ranks(codes: Ints) -> Ints:
    """Twice the mid-rank of each code: whole numbers, so that sums are exact in any order."""
    counts = np.bincount(codes) if len(codes) else np.zeros(0, np.int64)
    found: Ints = (2 * np.cumsum(counts) - counts)[codes]
    return found


def _measure(first: _Side, second: _Side) -> str:
    if first.ordered and second.ordered:
        return "rank correlation"
    return "correlation ratio" if first.ordered or second.ordered else "association"


def _related(first: _Side, second: _Side) -> tuple[float | None, int]:
    """The relation of two columns, over the records with a label of both; None over too few."""
    both = first.known & second.known
    records = int(both.sum())
    if records < LEAST_RECORDS:
        return None, records
    if second.ordered and not first.ordered:
        first, second = second, first
    x, y = _dense(first.codes[both]), _dense(second.codes[both])
    pairs = counted_pairs(x, y, int(y.max()) + 1)
    if second.ordered:
        return abs(rank_correlation(pairs)), records
    return (rank_ratio(pairs) if first.ordered else cramers_v(pairs)), records


def _dense(codes: Ints) -> Ints:
    """Codes without gaps, in the same order."""
    present = np.bincount(codes) > 0
    found: Ints = (np.cumsum(present) - 1)[codes]
    return found


AlarmAction = Literal["warn", "refuse"]
AlarmKind = Literal["blank", "one label", "loss", "blanked", "zeros"]
LEAST_ZEROS, MOST_ZEROS = 0.01, 0.5
"""Share of zeros from which on their change may be an alarm, and the share of them that may change."""
NOT_RELEASED = "not released"
MOST_RELATIONS = 3


@dataclass(frozen=True, kw_only=True)
class ColumnLossRule:
    """What a column may lose.

    Parameters
    ----------
    at_most : float
        Loss above which a column is an alarm, in [0, 1].
    blanked_at_most : float
        Share of blanked cells above which a column is an alarm, in [0, 1].
    relation_lost_at_most : float
        Share of a relation between two columns above whose loss it is an alarm, in [0, 1].
    on_alarm : {"warn", "refuse"}
        Whether an alarm refuses the release.
    """

    at_most: float = 0.9
    blanked_at_most: float = 0.2
    relation_lost_at_most: float = 0.5
    on_alarm: AlarmAction = "warn"

    def __post_init__(self) -> None:
        for name in ("at_most", "blanked_at_most", "relation_lost_at_most"):
            share = getattr(self, name)
            if isinstance(share, bool) or not 0 <= share <= 1:
                raise UsageError(f"column_loss: {name} must be a number from 0 to 1, got {share!r}")


@dataclass(frozen=True, kw_only=True)
class ColumnLoss:
    """A row of the table. A label is a distinct value; a missing cell and the suppression mark are none.

    Parameters
    ----------
    column, role : str
    done : tuple of str
        The stages that touched it, in order.
    labels_before, labels_after : int or None
        Labels in the source and in the release; None: not disclosed.
    changed, blanked : float or None
        Shares of the cells of released records that differ; that had a label and have none.
    zeros, zeros_changed : float or None
        Of a number that is one before and after: the share of its cells that were 0, and the share of these that are
        not any more; None over no cell.
    signs_changed : float or None
        Of the cells that were above or below 0, the share on the other side of it now.
    missing_changed : float or None
        Of the cells that were missing, the share that has a value now.
    mean_change, quantile_change : float or None
        Of the mean, and the largest of the quantiles 0.05, 0.25, 0.5, 0.75 and 0.95, in standard deviations before.
    loss : float or None
        From 0, all kept, to 1; None where it is unknown.
    measured_by : str
        ``hierarchy``, ``rank correlation``, ``association`` or ``cells``; empty without a loss.
    alarm : {"blank", "one label", "loss", "blanked", "zeros"} or None
    """

    column: str
    role: str
    done: tuple[str, ...] = ()
    labels_before: int | None = None
    labels_after: int | None = None
    changed: float | None = None
    blanked: float | None = None
    zeros: float | None = None
    zeros_changed: float | None = None
    signs_changed: float | None = None
    missing_changed: float | None = None
    mean_change: float | None = None
    quantile_change: float | None = None
    loss: float | None = None
    measured_by: str = ""
    alarm: AlarmKind | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class LossTable:
    """Information loss, column by column: for those who run the release, not for its readers.

    Parameters
    ----------
    columns : tuple of ColumnLoss
        Released columns in their order, then those of the source that are not released.
    records : int or None
        Released records that were compared with their originals.
    whole : bool
        Whether these are all; else shares and losses are those of a keyed sample. Labels are always counted in all.
    withheld : bool
        Whether figures of the source are left out, since a model forbids counts of it.
    rule : ColumnLossRule
    relations : tuple of LostRelation
        Pairs of columns whose relation was above 0.3 and is lost, the greatest loss first.

    Examples
    --------
    >>> town = ColumnLoss(column="town", role="sensitive", labels_before=7, labels_after=0, alarm="blank")
    >>> table = LossTable(columns=(town,), records=90, rule=ColumnLossRule(on_alarm="refuse"))
    >>> table.alarms, table.refuses
    (('`town` is blank from top to bottom; it had 7 labels',), True)
    """

    columns: tuple[ColumnLoss, ...]
    records: int | None = None
    whole: bool = True
    withheld: bool = False
    rule: ColumnLossRule = field(default_factory=ColumnLossRule)
    relations: tuple[LostRelation, ...] = ()

    @property
    def alarms(self) -> tuple[str, ...]:
        """A sentence for each column that lost all its information, or more than the policy says; then lost relations.

        Of more than three relations the others are counted.
        """
        found = [self._sentence(each) for each in self.columns if each.alarm is not None]
        found += [_relation(each) for each in self.relations[:MOST_RELATIONS]]
        if more := len(self.relations[MOST_RELATIONS:]):
            found.append(f"{more:,} more relation{'s' if more > 1 else ''} between two columns lost as much")
        return tuple(found)

    @property
    def refuses(self) -> bool:
        """Whether an alarm refuses the release."""
        return self.rule.on_alarm == "refuse" and bool(self.alarms)

    def of(self, column: str) -> ColumnLoss:
        """The row of one column; KeyError where it has none."""
        found = {each.column: each for each in self.columns}
        return found[column]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per column."""
        return [{**asdict(each), "done": ", ".join(each.done)} for each in self.columns]

    def to_pandas(self) -> Any:
        """`rows` as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def __repr__(self) -> str:
        compared = "" if self.records is None else f", {self.records:,} records compared"
        return f"LossTable({len(self.columns)} columns{compared}, {len(self.alarms)} alarms)"

    def _repr_html_(self) -> str:
        head = (
            *("column", "role", "done", "labels before", "labels after", "changed", "blanked", "zeros"),
            *("zeros changed", "signs changed", "missing changed", "mean", "quantiles", "loss", "by", "alarm"),
        )
        rows = [[*row.values()] for row in self.rows]
        note = "Figures of the raw table: for who runs the release, not for who reads it."
        return html_tables("What was lost", Table(head=head, rows=rows), notes=[note])

    def documents(self) -> dict[str, Any]:
        """What a private document states about it: the table, and its alarms as notes of a separate kind."""
        table = {
            "records": self.records,
            "whole": self.whole,
            "withheld": self.withheld,
            **asdict(self.rule),
            "columns": [{**asdict(each), "done": list(each.done)} for each in self.columns],
            "relations": [{**asdict(each), "columns": list(each.columns)} for each in self.relations],
        }
        return {"alarms": list(self.alarms), "column_loss": table}

    def _sentence(self, row: ColumnLoss) -> str:
        if row.alarm == "blank":
            had = "" if row.labels_before is None else f"; it had {_labels(row.labels_before)}"
            return f"`{row.column}` is blank from top to bottom{had}"
        if row.alarm == "one label":
            of = "" if row.labels_before is None else f" of {row.labels_before:,}"
            return f"`{row.column}` has one label left{of}"
        if row.alarm == "blanked":
            return f"{_percent(row.blanked)} of the cells of `{row.column}` are blanked"
        if row.alarm == "zeros":
            return f"{_percent(row.zeros_changed)} of the zeros of `{row.column}` are no longer zero"
        return f"`{row.column}` lost {row.loss:.3g} of its information, more than {self.rule.at_most:g}"


def alarm_of(row: ColumnLoss, rule: ColumnLossRule) -> AlarmKind | None:
    """Which alarm a row is. Where nothing about the source may be disclosed, only the released labels decide.

    Examples
    --------
    >>> rule = ColumnLossRule()
    >>> alarm_of(ColumnLoss(column="a", role="sensitive", labels_before=1, labels_after=1, loss=0.0), rule)
    >>> alarm_of(ColumnLoss(column="a", role="sensitive", labels_before=2, labels_after=1, loss=1.0), rule)
    'one label'
    >>> alarm_of(ColumnLoss(column="a", role="sensitive", labels_after=9, blanked=0.25), rule)
    'blanked'
    """
    if row.labels_after == 0 and row.labels_before != 0:
        return "blank"
    if row.labels_after == 1 and (row.labels_before is None or row.labels_before > 1):
        return "one label"
    if row.loss is not None and row.loss > rule.at_most + 1e-9:
        return "loss"
    if row.blanked is not None and row.blanked > rule.blanked_at_most + 1e-9:
        return "blanked"
    return "zeros" if (row.zeros or 0.0) >= LEAST_ZEROS and (row.zeros_changed or 0.0) > MOST_ZEROS else None


def _relation(lost: LostRelation) -> str:
    first, second = lost.columns
    return (
        f"the relation of `{first}` and `{second}` fell from {lost.before:.2f} to {lost.after:.2f} "
        f"({lost.records:,} of {lost.of:,} records have both)"
    )


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.3g} %"


def _labels(count: int) -> str:
    return f"{count:,} label{'' if count == 1 else 's'}"
