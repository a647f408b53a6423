"""How large the classes of a table are, and what each kind of intruder may find in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privpipe.blocks import Facts, Guarantee, SizeModel, Tally, Verdict
from privpipe.blocks.size_model import size_histogram
from privpipe.judging.gate import Gate
from privpipe.judging.grouping import keys_of
from privpipe.judging.judging import assess
from privpipe.judging.masked_cells import joined_bins
from privpipe.measures import JournalistRisk, MarketerRisk
from privpipe.roles import Roles
from privpipe.tolerance import at_most

if TYPE_CHECKING:
    from privpipe.engines import Engine
    from privpipe.judging.rules import JudgingRules

__all__ = ["AT_RISK", "ClassSizes", "SizeFigures", "judged_keys", "size_bins", "size_figures"]

AT_RISK = 0.2
"""Risk of a record above which it counts as at risk."""
ENDS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
"""Sizes at which a bar of the histogram begins."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassSizes(SizeModel):
    """The histogram of class sizes itself; asked beside measures, so that it is counted as they are."""

    judges_matching: ClassVar[bool] = True

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        sizes, classes = size_histogram(observed)
        return Verdict(self, {"sizes": sizes.tolist(), "classes": classes.tolist()}, outcome="pass")


@dataclass(frozen=True, kw_only=True)
class SizeFigures:
    """What one table shows.

    Parameters
    ----------
    sizes : tuple of int
        Ascending.
    classes : tuple of float
        How many classes have each size; under wildcard matching a record that w match is a w-th of one.
    journalist, marketer : mapping of figure to float
        Against the population; empty where none is known.
    """

    sizes: tuple[int, ...]
    classes: tuple[float, ...]
    journalist: dict[str, float | None]
    marketer: float | None

    @property
    def records(self) -> int:
        """Records in classes."""
        return round(float(np.dot(self.sizes, self.classes)))

    @property
    def prosecutor(self) -> dict[str, float]:
        """Highest and average risk, and the share of records above `AT_RISK`, of who knows that a person is there."""
        sizes, classes = np.array(self.sizes, dtype=np.float64), np.array(self.classes, dtype=np.float64)
        records = float(sizes @ classes)
        risky = ~np.asarray(at_most(1.0 / sizes, AT_RISK))
        return {
            "highest": 1.0 / self.sizes[0],
            "average": float(classes.sum()) / records,
            "at_risk": float(sizes[risky] @ classes[risky]) / records,
        }


def judged_keys(guarantees: Sequence[Guarantee], roles: Roles) -> tuple[str, ...]:
    """The quasi-identifiers of the first guarantee over classes, else all; empty where there are none.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> roles = Roles(quasi_identifiers=["age", "zip"])
    >>> judged_keys([KAnonymity(k=2, quasi_identifiers=("zip",))], roles), judged_keys([], roles)
    (('zip',), ('age', 'zip'))
    """
    over = [entry for entry in guarantees if entry.way.over_classes]
    for entry in over:
        if entry.quasi_identifiers is not None or roles.quasi_identifiers:
            return keys_of(entry, roles)
    return tuple(roles.quasi_identifiers)


def size_figures(
    engine: Engine, table: Any, keys: tuple[str, ...], roles: Roles, rules: JudgingRules, population: Any = None
) -> SizeFigures | None:
    """Count the classes of a table once, as guarantees over the same columns are counted; None without a record.

    Parameters
    ----------
    engine : Engine
    table : Table
    keys : tuple of str
    roles : Roles
        Of its columns.
    rules : JudgingRules
    population : Table, optional
        Generalized as the table is.
    """
    asked: list[Guarantee] = [ClassSizes(quasi_identifiers=keys)]
    if population is not None:
        asked += [
            JournalistRisk(quasi_identifiers=keys),
            JournalistRisk(quasi_identifiers=keys, figure="average"),
            JournalistRisk(quasi_identifiers=keys, figure="at_risk", threshold=AT_RISK),
            MarketerRisk(quasi_identifiers=keys),
        ]
    rules = replace(rules, gate=Gate(), allow_empty=True)
    judged = assess(engine, table, guarantees=(), measures=asked, roles=roles, rules=rules, population=population)
    counted, *compared = (verdict.observed for verdict in judged.measures)
    if not counted or not counted["sizes"]:
        return None
    return SizeFigures(
        sizes=tuple(counted["sizes"]),
        classes=tuple(counted["classes"]),
        journalist=dict(zip(("highest", "average", "at_risk"), compared, strict=False)) if compared else {},
        marketer=compared[3] if compared else None,
    )


def size_bins(sides: Sequence[SizeFigures], least: int) -> list[dict[str, Any]]:
    """Records by the size of their class, in bins of which each holds none or at least so many in every table.

    Examples
    --------
    >>> raw = SizeFigures(sizes=(1, 7), classes=(2, 9), journalist={}, marketer=None)
    >>> out = SizeFigures(sizes=(65,), classes=(1,), journalist={}, marketer=None)
    >>> size_bins([raw, out], 5)
    [{'from': 1, 'to': 9, 'counts': [65, 0]}, {'from': 50, 'to': 99, 'counts': [0, 65]}]
    """
    counts = np.zeros((len(ENDS), len(sides)))
    for at, side in enumerate(sides):
        places = np.searchsorted(np.array(ENDS), np.array(side.sizes), side="right") - 1
        np.add.at(counts[:, at], places, np.array(side.sizes) * np.array(side.classes, dtype=np.float64))
    found = [tuple(round(each) for each in row) for row in counts.tolist()]
    shown = []
    for cell in joined_bins(found, least):
        filled = [at for at in cell.labels if any(found[at])]
        end = ENDS[filled[-1] + 1] - 1 if filled[-1] + 1 < len(ENDS) else None
        shown.append({"from": ENDS[filled[0]], "to": end, "counts": list(cell.counts)})
    return shown
