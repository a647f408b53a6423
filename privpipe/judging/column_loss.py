"""What each column of a release has lost, as a table, and which of them lost all: alarms."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from privpipe.errors import UsageError
from privpipe.html_tables import Table, html_tables
from privpipe.judging.lost_relations import LostRelation

__all__ = ["NOT_RELEASED", "AlarmAction", "AlarmKind", "ColumnLoss", "ColumnLossRule", "LossTable", "alarm_of"]

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
            return f"{_percent(row.zeros_changed)} of the zeros of `{row.column}` are zeros no more"
        return f"`{row.column}` lost {row.loss:.3g} of its information, more than {self.rule.at_most:g}"


def alarm_of(row: ColumnLoss, rule: ColumnLossRule) -> AlarmKind | None:
    """Which alarm a row is. Where nothing is disclosed of the source, the released labels alone decide.

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
