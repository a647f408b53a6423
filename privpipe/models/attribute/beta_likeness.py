"""Basic and enhanced beta-likeness: a bound on how much likelier a value becomes in a class than in the table."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Gt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts, Tally
from privpipe.blocks.marks import BaseDistribution, OneSensitive, Stricter
from privpipe.blocks.oracle_classes import Classes, Expected, base_shares, by_class, finite_max, slack
from privpipe.models.attribute.base_distribution import Base, as_base, largest_gains

__all__ = ["BasicBetaLikeness", "EnhancedBetaLikeness"]


@dataclass(frozen=True, kw_only=True, repr=False)
class BasicBetaLikeness(ClassModel):
    """No value's share in a class exceeds its share in the whole table by more than `beta` times; observed = max gain.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    beta : float, optional
        Above 0. Left out (under `measures:`), the largest relative gain is reported.
    base : {"original", "released"} or {"file": path}
        The distribution that classes are compared with, as for `t_closeness`.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    The gain of a value is (q - p)/p; values that become rarer in a class are not limited. Shares of a merged class
    are between those of its parts, so passing classes merge to a passing class.

    Where persons are counted, q is the share of the persons of a class who have the value, p that of all persons.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from privpipe.blocks import Cells, ClassBlock, Facts, Histogram
    >>> facts = Facts(histograms={"illness": Histogram(pa.array(["asthma", "flu"]), np.array([1, 3]))})
    >>> block = ClassBlock(np.array([2]), {"illness": Cells(np.array([0, 2]), np.array([0, 1]), np.array([1, 1]))})
    >>> model = BasicBetaLikeness(column="illness", beta=1.0)
    >>> verdict = model.judge(model.measure(block, facts), facts)
    >>> verdict.outcome, verdict.observed
    ('pass', 1.0)
    """

    threshold_field = "beta"
    direction = "at_most"
    convex = True
    needs_base = True
    observes = float | None
    source = "Cao and Karras, Publishing microdata with a robust privacy guarantee, PVLDB 5(11), 2012"
    threat = "An intruder who finds a person's class finds a rare value many times more likely than in the whole table."
    formula = "(q - p)/p <= beta for each value of each class"
    choose = (
        "1 lets a share double, 2 to 4 is usual. It guards rare values, which t_closeness does not; "
        "enhanced_beta_likeness limits common values as well."
    )

    column: Annotated[OneSensitive, Doc("the sensitive column")]
    beta: Annotated[
        float | None,
        Gt(0),
        Stricter("smaller"),
        Doc("largest relative gain (q - p)/p of a value's share in a class over that in the whole table"),
    ] = None
    base: Annotated[
        Base,
        BaseDistribution(),
        Stricter("equal"),
        Doc("what classes are compared with: original, released, or {file: path}"),
    ] = "original"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "base", as_base(type(self).__name__, self.base))

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        return largest_gains(block, facts, self.column)[0]

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """The largest gain of a value in a class."""
        base = base_shares(model, classes)
        figures = [
            max([Fraction(0), *((share - base[value]) / base[value] for value, share in shares.items())])
            for shares in classes.shares(model.column)
        ]
        passes = (model.beta is None or float(figure) <= model.beta + slack(model.beta) for figure in figures)
        return by_class(classes, figures, passes, max)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"beta": float(rng.uniform(0.01, 8))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness"),
            cls(column="illness", beta=0.5),
            cls(column="illness", beta=3.0),
            cls(column="income", beta=1.0, base="released"),
        ]


@dataclass(frozen=True, kw_only=True, repr=False)
class EnhancedBetaLikeness(BasicBetaLikeness):
    """No value's share in a class gains more than `beta` times, nor more than -ln p times; observed = max gain.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    beta : float, optional
        Above 0. Left out (under `measures:`), the least sufficient beta is reported.
    base : {"original", "released"} or {"file": path}
        The distribution that classes are compared with, as for `t_closeness`.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    The gain of a value is (q - p)/p. The cap -ln p holds common values below certainty. Observed is None where a
    value exceeds its cap: no beta suffices. The gain of a value is compared with the cap of that value only.

    Where persons are counted, q is the share of the persons of a class who have the value, p that of all persons.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from privpipe.blocks import Cells, ClassBlock, Facts, Histogram
    >>> facts = Facts(histograms={"illness": Histogram(pa.array(["asthma", "flu"]), np.array([2, 8]))})
    >>> block = ClassBlock(np.array([2]), {"illness": Cells(np.array([0, 1]), np.array([0]), np.array([2]))})
    >>> model = EnhancedBetaLikeness(column="illness", beta=100.0)
    >>> verdict = model.judge(model.measure(block, facts), facts)
    >>> verdict.outcome, verdict.observed
    ('fail', None)
    """

    threat = (
        "An intruder who finds a person's class finds a sensitive value, rare or common, far more likely than before."
    )
    formula = "(q - p)/p <= min(beta, -ln p) for each value of each class"
    choose = (
        "As for basic_beta_likeness, 1 to 4. The cap -ln p does not depend on beta: where it is what fails, only "
        "coarser classes or suppression help."
    )

    beta: Annotated[
        float | None,
        Gt(0),
        Stricter("smaller"),
        Doc("largest relative gain (q - p)/p of a value's share in a class; never more than -ln p"),
    ] = None

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        return largest_gains(block, facts, self.column)[1]

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        tally = super().measure(block, facts)
        if not len(block):
            return tally
        return replace(tally, sums={"over_cap": int(np.isinf(self.scores(block, facts)).sum())})

    def seen(self, observed: Tally) -> str:
        over = observed.sums.get("over_cap", 0)
        if over:
            return f"unsatisfiable: in {over:,} classes a value exceeds its -ln p cap"
        return super().seen(observed)

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """The largest gain of a value in a class, within its cap."""
        base = base_shares(model, classes)
        figures: list[float] = []
        for shares in classes.shares(model.column):
            gains = {value: float((share - base[value]) / base[value]) for value, share in shares.items()}
            caps = {value: -math.log(base[value]) for value in gains}
            over = any(gain > caps[value] + slack(caps[value]) for value, gain in gains.items())
            figures.append(math.inf if over else max(0.0, *gains.values()))
        passes = [
            not math.isinf(figure) and (model.beta is None or figure <= model.beta + slack(model.beta))
            for figure in figures
        ]
        if model.beta is None:
            passes = [True] * len(figures)
        return by_class(classes, figures, passes, finite_max)
