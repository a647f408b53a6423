"""What `init --suggest` proposes can be met, says why, and runs on Adult."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.blocks import ClassModel, Facts, Histogram
from privpipe.blocks.guarantee import one_class
from privpipe.drafting.guarantees import RULE_OF_THUMB, effective_values, least_distance, propose
from privpipe.drafting.methods import MOST_NODES, levels_of, thinned
from privpipe.drafting.profile import Profile
from privpipe.models import CATALOGUE
from privpipe.policy import Policy


def profile(name: str, counts: list[int], type_: Any = "text", missing: int = 0) -> Profile:
    return Profile(name, type_, sum(counts), missing, len(counts), counts=tuple(counts))


@pytest.mark.parametrize(("name", "k"), [(None, 5), ("income", 10), ("Diagnosis", 20)])
def test_k_starts_from_the_tolerable_risk_and_is_in_its_band(name: str | None, k: int) -> None:
    """Source of the bands: rule of thumb, low 3-5, medium 5-10, high 10-20."""
    first, *_ = propose([profile(name, [500, 500])] if name else [], 1000)
    assert (first.name, first.parameters) == ("k_anonymity", {"k": k})
    band = next(band for band in RULE_OF_THUMB if band.k == k)
    low, high = map(int, band.range_of_k.split("-"))
    assert low <= k <= high
    assert f"k {band.range_of_k}" in first.reason


def parameters(found: Profile) -> dict[str, dict[str, Any]]:
    return {proposal.name: dict(proposal.parameters) for proposal in propose([found], found.records)}


def test_l_and_t_follow_the_values_and_their_distribution() -> None:
    even = parameters(profile("diagnosis", [100] * 8))
    assert even["distinct_l_diversity"]["l"] == 4
    assert even["t_closeness"]["t"] == 0.15
    assert parameters(profile("diagnosis", [990, 5, 5]))["distinct_l_diversity"]["l"] == 2
    assert parameters(profile("diagnosis", [500, 500]))["distinct_l_diversity"]["l"] == 2
    amounts = parameters(profile("income", [10] * 90, "integer"))
    assert amounts["t_closeness"] == {"column": "income", "t": 0.2, "distance": "ordered"}
    assert "distance" not in parameters(profile("income", [10] * 90, "integer", missing=3))["t_closeness"]
    assert "t_closeness" not in parameters(profile("income", [1000]))


@given(st.lists(st.integers(1, 400), min_size=1, max_size=40), st.sampled_from(["diagnosis", "income"]))
def test_nothing_is_proposed_that_the_table_cannot_meet(counts: list[int], name: str) -> None:
    """All records as one class pass, and so would the best class of k records by its distance."""
    found = profile(name, counts)
    codes = Histogram(pa.array([f"{at:03}" for at in range(len(counts))]), np.array(counts))
    facts = Facts(records=found.records, histograms={name: codes})
    proposals = propose([found], found.records)
    for proposal in proposals:
        model = CATALOGUE[proposal.name].build(proposal.parameters)
        assert isinstance(model, ClassModel)
        assert model.unattainable(found.records, facts) == ""
        assert model.passing(one_class(found.records, facts, model.sensitive_columns()), facts).all()
        assert proposal.reason
    k = proposals[0].parameters["k"]
    chosen = [proposal.parameters["t"] for proposal in proposals if proposal.name == "t_closeness"]
    assert all(t >= least_distance(counts, k) - 1e-12 for t in chosen)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 6))
def test_the_least_distance_is_that_of_the_best_class(counts: list[int], k: int) -> None:
    """Oracle: every class of k records."""
    total = sum(counts)
    classes = combinations_with_replacement(range(len(counts)), k)
    best = min(
        sum(abs(chosen.count(value) / k - count / total) for value, count in enumerate(counts)) / 2
        for chosen in classes
    )
    assert least_distance(counts, k) == pytest.approx(best, abs=1e-12)


def test_even_values_are_worth_their_number() -> None:
    assert effective_values([3] * 7) == pytest.approx(7)
    assert effective_values([]) == 0


builders = st.one_of(
    st.builds(lambda n: {"intervals": {"widths": [2**at for at in range(n)]}}, st.integers(1, 5)),
    st.builds(lambda n: {"dates": {"levels": ["month", "year", "decade"][:n]}}, st.integers(1, 3)),
    st.just({"redact": {"keep": "left"}}),
    st.just({"priority": {"levels": 1}}),
)


@given(st.dictionaries(st.sampled_from("abcdefgh"), builders), st.integers(1, 5000))
def test_thinning_stops_as_soon_as_it_fits(hierarchies: dict[str, Any], most: int) -> None:
    lengths = dict.fromkeys("abcdefgh", 5)
    before = {name: levels_of(found, 5) for name, found in hierarchies.items()}
    after = {name: levels_of(found, 5) for name, found in thinned(hierarchies, lengths, most).items()}
    assert set(after) == set(before)
    assert all(2 <= after[name] <= before[name] for name in before)
    assert np.prod(list(after.values())) <= most or set(after.values()) <= {2}
    assert thinned(hierarchies, lengths, 10**9) == hierarchies


@pytest.mark.deep
def test_the_proposal_for_adult_loads_and_is_released(run: Any, project: Path, tmp_path: Path) -> None:
    out = tmp_path / "release.yaml"
    done = run("init", project / "pipelines" / "adult" / "data" / "adult.csv", "--out", out, "--suggest")
    assert done.exit_code == 0, done.output
    policy = Policy.load(out)
    assert [guarantee.name() for guarantee in policy.guarantees][:2] == ["k_anonymity", "distinct_l_diversity"]
    assert "k 5-10" in out.read_text()
    levels = [levels_of(column["hierarchy"]) for column in policy.document["columns"].values() if "hierarchy" in column]
    assert np.prod(levels) <= MOST_NODES
    done = run("release", out, "--target", tmp_path / "published")
    assert done.exit_code == 0, done.output
    assert "PUBLISHED" in done.output
    assert "ALARM" not in done.output
