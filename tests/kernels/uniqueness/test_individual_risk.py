"""The risk of a record is the series of its definition, at any size of class and sampling fraction."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.uniqueness.frequency_models import household_risk, individual_risk


def series(f: float, population: float) -> float:
    """(p/f) sum m!/((f+1)...(f+m)) (1-p)^m in fifty digits."""
    with localcontext() as context:
        context.prec = 50
        count, p = Decimal(f), Decimal(f) / Decimal(population)
        term = total = Decimal(1)
        m = 0
        while term > total * Decimal("1e-30"):
            m += 1
            term *= m / (count + m) * (1 - p)
            total += term
        return float(p / count * total)


def test_it_is_the_series_of_the_definition() -> None:
    for f in (1.0, 1.0000001, 1.5, 2.0, 2.5, 3.0, 7.0, 24.0, 25.0, 60.0, 1e5, 1e8):
        for p in (0.001, 0.01, 0.2, 0.299, 0.31, 0.7, 0.95, 0.999999999):
            found = individual_risk(np.array([f]), np.array([f / p]))[0]
            assert found == pytest.approx(series(f, f / p), rel=1e-13), (f, p)


@pytest.mark.parametrize(
    ("f", "population", "risk"),
    [
        (1.0001616226743373, 331590118.9623296, 5.9082209354504961e-8),
        (1.5, 1e10, 2.9999422861576297e-10),
        (2.25, 3e9, 5.9999999821307834e-10),
    ],
)
def test_fractional_counts_keep_their_digits_at_tiny_fractions(f: float, population: float, risk: float) -> None:
    """1 - p rounds the digits of p away; figures by quadrature in fifty digits."""
    assert individual_risk(np.array([f]), np.array([population]))[0] == pytest.approx(risk, rel=1e-12)


def test_worked_figures() -> None:
    """Where an alternating sum elsewhere gives 0.0348 for 20 records at p = 0.7, and -6.6e11 for 40 (specification)."""
    found = individual_risk(np.array([3.0, 20.0, 40.0]), np.array([149.0, 20 / 0.7, 40 / 0.7]))
    assert found[:2] == pytest.approx([0.009885636, 0.0355141983613656], rel=1e-7)
    assert 0 < found[2] < 0.7 / 39
    shortcut = individual_risk(np.array([3.0]), np.array([149.0]), approximate=True)
    assert shortcut[0] == pytest.approx(0.009966777, rel=1e-7)


def test_tiny_fractions_and_limits() -> None:
    # f=1: p/(1-p) ln(1/p).
    assert individual_risk(np.array([1.0]), np.array([1e9]))[0] == pytest.approx(1e-9 * np.log(1e9), rel=1e-8)
    assert individual_risk(np.array([1.0, 4.0, 1.5]), np.array([1.0, 4.0, 1.5])).tolist() == [1.0, 0.25, 1 / 1.5]
    assert (individual_risk(np.array([1.25, 1.999]), np.array([1e6, 3.0])) > 0).all()
    assert individual_risk(np.zeros(0), np.zeros(0)).tolist() == []


@given(st.lists(st.tuples(st.integers(-1, 3), st.sampled_from([0.1, 0.5, 1.0]), st.integers(1, 3)), max_size=12))
def test_households_are_a_product_in_any_order(parts: list[tuple[int, float, int]]) -> None:
    arrays = [np.array(column) for column in zip(*parts, strict=True)] or [np.zeros(0, np.int64)] * 3
    risks, members = household_risk(arrays[0], arrays[1].astype(float), arrays[2])
    backwards = household_risk(arrays[0][::-1], arrays[1].astype(float)[::-1], arrays[2][::-1])
    assert sorted(zip(risks, members, strict=True)) == sorted(zip(*backwards, strict=True))
    wanted = []
    for household in {one for one, _, _ in parts if one >= 0}:
        own = [(risk, count) for one, risk, count in parts if one == household]
        wanted.append((1 - np.prod([(1 - r) ** c for r, c in own]), sum(c for _, c in own)))
    wanted += [(risk, count) for one, risk, count in parts if one < 0]
    found = sorted(zip(risks.tolist(), members.tolist(), strict=True))
    assert sorted(r for r, _ in found) == pytest.approx(sorted(float(r) for r, _ in wanted))
    assert sum(c for _, c in found) == sum(c for _, c in wanted)
