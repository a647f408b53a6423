"""The upper limit of a sampled share, by the binomial sum that defines it."""

from __future__ import annotations

import math

import pytest

from privpipe.errors import UsageError
from privpipe.kernels.linkage.attack_figures import upper_share


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(("hits", "attacked"), [(0, 1), (0, 40), (1, 2), (3, 40), (2.2, 40), (39, 40)])
def test_so_few_hits_are_as_unlikely_as_asked_at_the_limit(hits: float, attacked: int, confidence: float) -> None:
    limit = upper_share(hits, attacked, confidence)
    few = sum(math.comb(attacked, i) * limit**i * (1 - limit) ** (attacked - i) for i in range(math.ceil(hits) + 1))
    assert few == pytest.approx(1 - confidence)


def test_where_all_were_hit_all_may_be() -> None:
    assert upper_share(3, 3) == upper_share(2.5, 3) == 1.0
    assert upper_share(2 + 1e-12, 3) == upper_share(2, 3) < 1.0


@pytest.mark.parametrize(
    ("hits", "attacked", "confidence"),
    [(0, 0, 0.95), (-0.1, 3, 0.95), (3.1, 3, 0.95), (math.nan, 3, 0.95), (1, 3, 0.0), (1, 3, 1.0), (1, 3, math.nan)],
)
def test_what_is_no_sample_has_no_limit(hits: float, attacked: int, confidence: float) -> None:
    with pytest.raises(UsageError, match="no interval"):
        upper_share(hits, attacked, confidence)
