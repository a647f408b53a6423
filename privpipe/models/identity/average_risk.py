"""Average risk, and strict average risk, which bounds the records at high risk too."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Self

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, SizeModel, Tally, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Stricter
from privpipe.blocks.oracle_classes import Case, Classes, Expected, around_figure, share_at_most, slack
from privpipe.blocks.size_model import size_histogram
from privpipe.tolerance import at_most

__all__ = ["AverageRisk", "StrictAverageRisk"]


@dataclass(frozen=True, kw_only=True, repr=False)
class AverageRisk(SizeModel):
    """A record is re-identified with probability at most `at_most` on average; observed = classes / records.

    Parameters
    ----------
    at_most : float, optional
        In (0, 1]. Left out (under `measures:`), the average risk is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    The mean over *records* of 1/n_c, which is C/n. The mean over classes of 1/n_c is another, misleading figure:
    classes of 99 and 1 records give 0.505 against 0.02.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = AverageRisk(at_most=0.05)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([99, 1])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('pass', 0.02)
    """

    judges_matching = True
    threshold_field = "at_most"
    protects_nobody_at = 1
    observes = float
    source = "El Emam, Guide to the De-Identification of Personal Health Information, CRC Press, 2013"
    threat = "A marketer matches as many records as possible to people and accepts that some matches are wrong."
    formula = "C / n <= at_most: the mean of 1/n_c over records"
    choose = (
        "0.05 to 0.1 is usual for health data. An average hides single records at high risk: pair it with k_anonymity."
    )

    at_most: Annotated[
        float | None,
        Gt(0),
        Le(1),
        Stricter("smaller"),
        Doc("highest mean probability, over records, that a record is matched to its person"),
    ] = None

    def figure_of(self, sizes: Ints, counts: Ints) -> float:
        return float(counts.sum() / (sizes @ counts))

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """Classes over records."""
        records = sum(classes.sizes)
        return share_at_most(model, Fraction(len(classes.members), records) if records else None)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"at_most": float(rng.uniform(0.01, 1))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=1.0), cls(at_most=0.5), cls(at_most=0.05)]


@dataclass(frozen=True, kw_only=True, repr=False)
class StrictAverageRisk(SizeModel):
    """Low risk on average and few records at high risk; observed = average, highest risk, share of records at risk.

    Parameters
    ----------
    at_most : float, optional
        Highest average risk, classes / records, in (0, 1]. Left out (under `measures:`), the figures are reported.
    highest : float
        Highest tolerated risk of a single record, in (0, 1]; turned into a class size, `least_class`.
    records_at_risk : float
        Highest share of records in smaller classes, in [0, 1].
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    A class is small when it has fewer than z records: with f = floor(1/highest), z is f + 1 where 1/f exceeds
    `highest` by 1 % of it, else f. So 0.3333 asks for 3 records and 0.33 for 4. A report that counts records with
    1/n_c above a threshold without this rounding is another figure.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = StrictAverageRisk(at_most=0.05, highest=0.2, records_at_risk=0.01)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([99, 1])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('pass', {'average': 0.02, 'highest': 1.0, 'records_at_risk': 0.01})
    """

    judges_matching = True
    threshold_field = "at_most"
    observes = dict[str, float]
    source = (
        "El Emam, Guide to the De-Identification of Personal Health Information, CRC Press, 2013; El Emam and"
        " Malin in Institute of Medicine, Sharing Clinical Trial Data, 2015"
    )
    threat = "A marketer matches as many records as possible, and a prosecutor looks for one person in a small class."
    formula = "C / n <= at_most, and the share of records in classes below z(highest) <= records_at_risk"
    choose = (
        "at_most 0.05 to 0.1 with highest 0.2 and records_at_risk 0 to 0.05 is usual for health data; highest 0.2 "
        "means classes of five."
    )

    at_most: Annotated[
        float | None,
        Gt(0),
        Le(1),
        Stricter("smaller"),
        Doc("highest mean probability, over records, that a record is matched to its person"),
    ] = None
    highest: Annotated[
        float, Gt(0), Le(1), Stricter("smaller"), Doc("highest tolerated probability for a single record")
    ]
    records_at_risk: Annotated[
        float, Ge(0), Le(1), Stricter("smaller"), Doc("highest share of records above that probability")
    ] = 0.0

    def demanded(self) -> Any:
        if self.at_most is None:
            return None
        return {"average": self.at_most, "highest": self.highest, "records_at_risk": self.records_at_risk}

    def least_class(self) -> int:
        """z: records of the smallest class that is not at risk.

        Examples
        --------
        >>> [StrictAverageRisk(highest=h).least_class() for h in (0.3333, 0.3, 0.334, 0.33, 1.0)]
        [3, 4, 3, 4, 1]
        """
        whole = math.floor(round(1 / self.highest, 9))
        return whole + 1 if 1 / whole - self.highest >= 0.01 * self.highest else whole

    def figures(self, sizes: Ints, counts: Ints) -> dict[str, float]:
        """The three figures of so many (`counts`) classes of each of these `sizes`."""
        records = float(sizes @ counts)
        small = sizes < self.least_class()
        return {
            "average": float(counts.sum()) / records,
            "highest": 1 / int(sizes[counts > 0].min()),
            "records_at_risk": float(sizes[small] @ counts[small]) / records,
        }

    def figure_of(self, sizes: Ints, counts: Ints) -> float:
        return self.figures(sizes, counts)["average"]

    def met_by(self, sizes: Ints, counts: Ints, facts: Facts) -> bool:
        if self.at_most is None or not counts.sum():
            return True
        found = self.figures(sizes, counts)
        return bool(at_most(found["average"], self.at_most) and at_most(found["records_at_risk"], self.records_at_risk))

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        sizes, counts = size_histogram(observed)
        figures = self.figures(sizes, counts) if observed.records else None
        passed = self.met_by(sizes, counts, facts)
        return Verdict(
            self,
            figures,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=self._reason(figures, observed, facts, passed),
        )

    def _reason(self, figures: dict[str, float] | None, observed: Tally, facts: Facts, passed: bool) -> str:
        if figures is None:
            return "no class to judge."
        asked = (
            f", required at most {short(self.at_most)} on average and {short(self.records_at_risk)} at risk"
            if self.is_gate()
            else ""
        )
        seen = (
            f"observed {short(figures['average'])} on average, {short(figures['highest'])} at the highest, "
            f"{short(figures['records_at_risk'])} of the {facts.unit} in classes below {self.least_class():,}"
        )
        note = "" if passed else self.unattainable(observed.records, facts)
        over = f"over {observed.classes:,} classes of {observed.records:,} {facts.unit}"
        return "; ".join(part for part in (f"{seen}{asked}", over, note) if part) + "."

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """The mean risk, and the share of records above the highest one."""
        sizes = classes.sizes
        if not sizes:
            return Expected("fail", None)
        exact = Fraction(str(model.highest))
        whole = math.floor(1 / exact + Fraction(1, 10**9))
        least = whole + 1 if Fraction(1, whole) - exact >= exact / 100 else whole
        average = Fraction(len(sizes), sum(sizes))
        at_risk = Fraction(sum(size for size in sizes if size < least), sum(sizes))
        met = model.at_most is None or (
            float(average) <= model.at_most + slack(model.at_most)
            and float(at_risk) <= model.records_at_risk + slack(model.records_at_risk)
        )
        figures = {"average": average, "highest": Fraction(1, min(sizes)), "records_at_risk": at_risk}
        return Expected("pass" if met else "fail", {name: float(figure) for name, figure in figures.items()})

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"at_most": float(rng.uniform(0.01, 1))}

    @staticmethod
    def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
        """Both thresholds at the figures; the highest single risk is not compared, but decides who is at risk."""
        at = {"at_most": observed["average"], "records_at_risk": observed["records_at_risk"]}
        for name, figure in at.items():
            for what, value, passes in around_figure(figure, "at_most"):
                yield f"{name} {what}", {**at, name: value}, passes

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(highest=0.2),
            cls(at_most=1.0, highest=1.0),
            cls(at_most=0.5, highest=0.5, records_at_risk=0.25),
            cls(at_most=0.05, highest=0.2, records_at_risk=0.01),
        ]
