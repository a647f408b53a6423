"""Differentially private marginals: noise and accountant against published formulas, domains, units."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import PolicyError, UsageError
from privpipe.kernels.synthesis import noisy_marginals
from privpipe.kernels.synthesis.noisy_marginals import fitted, measured, on_simplex
from privpipe.transforms import Synthesize
from privpipe.transforms.synthesis.marginal_model import Domain

DOMAINS: dict[str, Any] = {
    "sex": {"levels": ["f", "m"]},
    "ill": {"levels": ["cold", "flu", "gout"]},
    "age": {"low": 0, "high": 100, "bins": 10},
}


def private(**more: Any) -> Synthesize:
    return Synthesize.build({"method": "marginals", "epsilon": 2.0, "delta": 1e-6, "domains": DOMAINS, **more})


def people(n: int = 20_000) -> dict[str, Any]:
    rng = np.random.default_rng(6)
    sex = rng.integers(0, 2, n)
    ill = np.where(rng.random(n) < 0.8, sex * 2, 1)
    age = pa.array(np.clip(rng.normal(30 + 20 * sex, 10), 0, 100).round().astype(int), mask=rng.random(n) < 0.1)
    return {"sex": np.array(["f", "m"])[sex], "ill": np.array(["cold", "flu", "gout"])[ill], "age": age}


def below_of(seed: int) -> noisy_marginals.Below:
    rng = np.random.default_rng(seed)
    return lambda bound: int(rng.integers(0, bound)) if bound < 2**62 else int(rng.random() * bound)


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(5, 2), Fraction(40)])
def test_noise_has_the_shares_of_its_definition(variance: Fraction) -> None:
    n, below = 4000, below_of(1)
    drawn = Counter(noisy_marginals.discrete_gaussian(variance, below) for _ in range(n))
    weights = {y: math.exp(-y * y / (2 * float(variance))) for y in range(-60, 61)}
    total = sum(weights.values())
    for y, weight in weights.items():
        share = weight / total
        assert abs(drawn[y] - n * share) <= 5 * math.sqrt(n * share) + 1


def test_the_exponential_mechanism_has_the_shares_of_its_definition() -> None:
    scores, n, below = [0, 4, 5], 4000, below_of(2)
    drawn = Counter(noisy_marginals.chosen(scores, Fraction(1, 2), below) for _ in range(n))
    weights = [math.exp(score / 2) for score in scores]
    for at, weight in enumerate(weights):
        share = weight / sum(weights)
        assert abs(drawn[at] - n * share) <= 5 * math.sqrt(n * share)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (3.0, 1e-5), (10.0, 1e-10)])
def test_the_accountant_is_between_published_bounds(epsilon: float, delta: float) -> None:
    """No worse than Bun and Steinke 2016 (epsilon = rho + 2 sqrt(rho ln 1/delta)); never better than the exact delta of
    a Gaussian of that rho (Balle, Wang, ICML 2018, theorem 8)."""
    rho = noisy_marginals.rho_within(epsilon, delta)
    assert noisy_marginals.delta_of(rho, epsilon) <= delta
    log = math.log(1 / delta)
    assert rho >= (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    sensitivity = math.sqrt(2 * rho)  # over the deviation
    a, b = sensitivity / 2 - epsilon / sensitivity, -sensitivity / 2 - epsilon / sensitivity
    exact = norm.cdf(a) - math.exp(epsilon + norm.logcdf(b))
    assert exact <= delta


def test_what_is_spent_is_what_the_noise_costs() -> None:
    """From the variances that noise was asked with: d Delta^2 / 2 sigma^2 each, and e^2 / 8 a choice."""
    asked: list[float] = []
    rates: list[float] = []

    def noise(variance: Fraction) -> int:
        asked.append(float(variance))
        return 0

    def choice(scores: Any, rate: Fraction) -> int:
        rates.append(float(rate))
        return int(np.argmax(scores))

    x, y, z = (np.array(each) for each in ([0, 1] * 50, [0, 1] * 50, [0] * 50 + [1] * 50))
    columns = [x, y, z]
    pairs = {
        (i, j): np.histogram2d(columns[i], columns[j], 2)[0].astype(np.int64) for i in range(3) for j in range(i + 1, 3)
    }
    for most in (1, 3):
        asked.clear(), rates.clear()
        found = measured([np.bincount(each) for each in columns], pairs, 0.5, most, noise, choice)
        assert found["tree"][0] == (0, 1)
        spent = (
            3 * most**2 / (2 * asked[0]) + 2 * most**2 / (2 * asked[-1]) + sum((2 * most * r) ** 2 / 8 for r in rates)
        )
        assert found["spent"] == pytest.approx(spent, rel=1e-9)
        assert 0.499 < found["spent"] <= 0.5
    steps = {column: shares for column, _, shares in fitted(found)["steps"]}
    assert steps[1] == pytest.approx(np.eye(2), abs=1e-4)


def test_projection_is_the_nearest_point() -> None:
    values = np.array([3.0, -1.0, 0.5])
    best = on_simplex(values, 2.0)
    assert best.sum() == pytest.approx(2.0)
    for other in np.random.default_rng(0).dirichlet(np.ones(3), 500) * 2:
        assert np.square(values - best).sum() <= np.square(values - other).sum() + 1e-12


def test_relations_of_chosen_pairs_are_kept(run: Any) -> None:
    x = people()
    found = run(private(), x)
    assert len(found["sex"]) == pytest.approx(20_000, abs=300)
    for sex, wanted in (("f", 30), ("m", 50)):
        ages = [a for a, s in zip(found["age"], found["sex"], strict=True) if s == sex and a is not None]
        assert np.mean(ages) == pytest.approx(wanted, abs=3)
    together = Counter(zip(found["sex"], found["ill"], strict=True))
    assert together["f", "gout"] < 0.03 * 20_000
    assert together["m", "gout"] > 0.35 * 20_000
    assert np.mean([a is None for a in found["age"]]) == pytest.approx(0.1, abs=0.03)
    assert found.plan.public().detail == {"privacy": found.plan.detail["privacy"]}
    assert found.plan.detail["privacy"]["delta_at_epsilon"] <= 1e-6


def test_noise_is_drawn_again_and_never_from_the_seed(run: Any) -> None:
    x = people(500)
    one, other = (run(private(), x).plan.detail["models"] for _ in range(2))
    assert one != other


def test_the_public_figures_say_nothing_of_the_data(run: Any) -> None:
    few, many = (run(private(), people(n)).plan.public().detail for n in (30, 900))
    assert few == many
    empty = {"sex": pa.array([], pa.string()), "ill": pa.array([], pa.string()), "age": pa.array([], pa.int64())}
    assert run(private(records=20), empty).plan.public().detail == few


def test_a_person_counts_at_most_so_often(embedded: Engine, run_on: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_marginals, "discrete_gaussian", lambda variance: 0)
    monkeypatch.setattr(noisy_marginals, "chosen", lambda scores, rate: int(np.argmax(scores)))
    from privpipe.draws import Seed
    from privpipe.engines import Source
    from privpipe.roles import Roles
    from privpipe.transforms.base import StageContext

    frame = pa.table({"who": [f"p{at % 10}" for at in range(100)] + [None] * 9, "sex": ["f"] * 109})
    table = embedded.with_record_ids(embedded.scan(Source(data=frame)), None, Seed.insecure(1))
    roles = Roles(identifiers=("who",), insensitive=("sex",))
    context = StageContext(roles=roles, schema=table.schema, person="who", place="transform[0]")
    for most, wanted in ((1, 11), (4, 44)):
        stage = private(unit="person", most_records=most)
        assert stage.learn(embedded, table, context).detail["models"][0]["records"] == wanted
    with pytest.raises(UsageError, match="person_id"):
        private(unit="person").learn(embedded, table, StageContext(roles=roles, schema=table.schema))


def test_the_same_plan_draws_the_same_records(
    engine: Engine, embedded: Engine, run_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every engine and under any partitioning; noise set aside, plans agree as well."""
    monkeypatch.setattr(noisy_marginals, "discrete_gaussian", lambda variance: 2)
    monkeypatch.setattr(noisy_marginals, "chosen", lambda scores, rate: int(np.argmax(scores)))
    x = people(400)
    wanted, found = run_on(embedded, private(), x), run_on(engine, private(), x, parts=2, shuffled=True)
    assert json.dumps(found.plan.detail) == json.dumps(wanted.plan.detail)
    assert Counter(map(repr, found.rows.to_pylist())) == Counter(map(repr, wanted.rows.to_pylist()))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "marginals"}, "needs epsilon and delta"),
        ({"epsilon": 1.0}, "epsilon requires `method: marginals`"),
        ({"method": "marginals", "epsilon": 1.0, "delta": 1e-6, "by": ["a"]}, "by does not go"),
        ({"method": "marginals", "epsilon": 1.0, "delta": 1e-6, "most_records": 2}, "unit: person"),
        ({"method": "marginals", "epsilon": 0, "delta": 1e-6}, "epsilon"),
        (
            {"method": "marginals", "epsilon": 1.0, "delta": 1e-6, "domains": {"a": {"low": 2, "high": 1}}},
            "low below high",
        ),
    ],
)
def test_what_cannot_be_asked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Synthesize.build(parameters)


def test_a_domain_is_known_without_the_data(run: Any) -> None:
    with pytest.raises(UsageError, match=r"'town' has no domain.*levels"):
        run(private(), {**people(50), "town": ["x"] * 50})
    with pytest.raises(UsageError, match="'sex' is text and needs levels"):
        run(private(domains={**DOMAINS, "sex": {"low": 0, "high": 1}}), people(50))
    with pytest.raises(UsageError, match="'age' would be released next to"):
        run(private(columns=["sex", "ill"]), people(50))


def test_a_number_is_counted_in_its_cell_and_drawn_from_it() -> None:
    """Cells of equal width; what is beyond an end counts as that end."""
    domain = Domain(low=-2, high=3, bins=5)
    seen = {-9.0: 1, -2.0: 1, -1.5: 1, -1.0: 2, 0.5: 3, 1.99: 4, 2.0: 5, 2.99: 5, 3.0: 5, 8.0: 5, None: 0}
    assert domain.codes(pa.array(list(seen), pa.float64())).tolist() == list(seen.values())
    assert Domain(low=0, high=9, bins=1).codes(pa.array([None, 0, 4, 9])).tolist() == [0, 1, 1, 1]
    codes, uniforms = np.repeat(np.arange(6), 3), np.tile([0.001, 0.25, 0.999], 6)
    wanted = [None if code == 0 else -2 + (code - 1) + u for code, u in zip(codes.tolist(), uniforms, strict=True)]
    made = domain.values(codes, uniforms, pa.float64())
    assert made.to_pylist()[:3] == [None] * 3
    assert made.to_pylist()[3:] == pytest.approx(wanted[3:])
    assert domain.codes(made).tolist() == codes.tolist()
    for kind, digits in ((pa.decimal128(6, 2), 2), (pa.int64(), 0)):
        found = [None if value is None else float(value) for value in domain.values(codes, uniforms, kind).to_pylist()]
        assert found == [None if value is None else pytest.approx(round(value, digits)) for value in wanted]


def test_no_drawn_number_is_beyond_its_domain_once_it_is_rounded() -> None:
    """Of low: 0.004 the nearest hundredth is below it."""
    domain, ends = Domain(low=0.004, high=1.016, bins=2), np.array([0.0, 1.0 - 2**-53])
    found = domain.values(np.array([1, 2]), ends, pa.decimal128(6, 2)).to_pylist()
    assert [float(value) for value in found] == [0.01, 1.01]


def test_no_stage_that_looks_at_other_records_comes_before() -> None:
    document = {
        "version": 1,
        "columns": {"sex": {"role": "insensitive"}, "age": {"role": "insensitive", "type": "integer"}},
        "transform": [
            {"top_code": {"columns": ["age"], "quantile": 0.9}},
            {"synthesize": {"method": "marginals", "epsilon": 1.0, "delta": 1e-6, "domains": DOMAINS}},
        ],
        "guarantees": [{"k_anonymity": {"k": 1}}],
    }
    with pytest.raises(PolicyError, match=r"comes after transform\[0\].top_code"):
        pp.Policy.from_dict(document)
