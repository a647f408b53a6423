"""Enhanced beta-likeness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from annotated_types import Gt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Tally
from privpipe.blocks.marks import Stricter
from privpipe.models.attribute.base_distribution import largest_gains
from privpipe.models.attribute.basic_beta_likeness import BasicBetaLikeness

__all__ = ["EnhancedBetaLikeness"]


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
