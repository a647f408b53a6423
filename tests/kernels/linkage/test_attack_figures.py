"""Success, gain and excess of attacks, and their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from privpipe.errors import UsageError
from privpipe.kernels.linkage.attack_figures import attack_figures, excess_limit, lower_share

FIGURES = [  # hits, attacked, control hits, controls, everyone: upper, lower, excess, its limit
    (3, 500, 1, 500, False, 0.0154337348768, 0.000102581326951, 0.00400801603206, 0.0136454437576),
    (3, 500, 1, 500, True, 0.006, 0.000102581326951, 0.00400801603206, 0.00589802370015),
    (60, 500, 40, 500, False, 0.146594772508, 0.060938069832, 0.0434782608696, 0.078139080901),
    (60, 500, 40, 500, True, 0.12, 0.060938069832, 0.0434782608696, 0.0628946060644),
    (450, 500, 480, 500, False, 0.921261429955, 0.942404437884, 0.0, 0.0),
    (450, 500, 480, 500, True, 0.9, 0.942404437884, 0.0, 0.0),
    (500, 500, 500, 500, True, 1.0, 0.994026448484, None, None),
    (1000, 10000, 900, 2500, False, 0.105071116587, 0.344136676827, 0.0, 0.0),
]
"""Of the reference figures for the attacks on releases of Adult, computed apart from this program."""


@pytest.mark.parametrize(("hits", "m", "others", "h", "everyone", "upper", "lower", "excess", "limit"), FIGURES)
def test_the_limits_are_those_of_the_reference(
    hits: int,
    m: int,
    others: int,
    h: int,
    everyone: bool,
    upper: float,
    lower: float,
    excess: float | None,
    limit: float | None,
) -> None:
    found = attack_figures(hits, m, control_hits=others, controls=h, everyone=everyone)
    assert (found.success, found.control) == (hits / m, others / h)
    assert found.upper == pytest.approx(upper, rel=1e-9)
    assert found.lower == pytest.approx(lower, rel=1e-9)
    assert found.observed("excess") == (None if excess is None else pytest.approx(excess, rel=1e-9))
    assert found.compared("excess") == (None if limit is None else pytest.approx(limit, rel=1e-9))


def test_the_lower_limit_is_the_quantile_of_a_beta_distribution() -> None:
    for hits in range(1, 21):
        assert lower_share(hits, 20, 0.9) == pytest.approx(beta.ppf(0.1, hits, 21 - hits), rel=1e-12)


def test_fractional_hits_are_rounded_against_the_release() -> None:
    assert lower_share(2.9, 20) == lower_share(2, 20)
    assert lower_share(math.fsum([0.1] * 30), 20) == lower_share(3, 20), "3 but for the last bit is 3"
    assert attack_figures(2.1, 20).upper == attack_figures(3, 20).upper


def test_an_attacker_may_always_guess() -> None:
    found = attack_figures(10, 100, naive=0.4)
    assert (found.observed("success"), found.compared("success")) == (0.4, 0.4)
    assert (found.observed("gain"), found.compared("gain")) == (0.0, 0.0)
    assert found.observed("excess") is found.compared("excess") is None


def test_an_attack_that_always_succeeds_exceeds_all() -> None:
    assert attack_figures(5, 5, control_hits=1, controls=5, everyone=True).compared("excess") == 1.0
    assert attack_figures(5, 5, control_hits=4.5, controls=5).compared("excess") == 1.0


def test_where_others_are_always_found_nothing_can_be_exceeded() -> None:
    assert excess_limit(0.2, 0.3, 1.0, 0.9) is None
    assert excess_limit(1.0, 0.99, 0.5, 0.4) == 1.0


@pytest.mark.parametrize(("hits", "m"), [(-1, 5), (6, 5), (float("nan"), 5), (0, 0)])
def test_figures_out_of_range_are_refused(hits: float, m: int) -> None:
    with pytest.raises(UsageError, match="no interval"):
        attack_figures(hits, m)
    with pytest.raises(UsageError, match="no interval"):
        lower_share(hits, m)


def test_the_limit_covers_the_excess() -> None:
    """One-sided at 0.95, at a setting where the estimate alone would lie below in half of all trials."""
    rng, (a, c, m, h) = np.random.default_rng(7), (0.3, 0.2, 400, 100)
    true = (a - c) / (1 - c)
    trials = zip(rng.binomial(m, a, 1000).tolist(), rng.binomial(h, c, 1000).tolist(), strict=True)
    limits = [attack_figures(x, m, control_hits=y, controls=h).compared("excess") for x, y in trials]
    assert np.mean([limit is not None and limit >= true for limit in limits]) >= 0.94
