"""Basic beta-likeness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from annotated_types import Gt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts
from privpipe.blocks.marks import BaseDistribution, OneSensitive, Stricter
from privpipe.models.attribute.base_distribution import Base, as_base, largest_gains

__all__ = ["BasicBetaLikeness"]


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
    lie between those of its parts, so passing classes merge to a passing class.

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

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness"),
            cls(column="illness", beta=0.5),
            cls(column="illness", beta=3.0),
            cls(column="income", beta=1.0, base="released"),
        ]
