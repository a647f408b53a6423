"""Population uniqueness."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.blocks import ClassBlock, Facts
from privpipe.errors import DataError, UsageError
from privpipe.kernels.uniqueness.population_estimates import pitman, population_uniques, snb, zayatz
from privpipe.models import PopulationUniqueness
from privpipe.models.identity.population_uniqueness_oracle import uniques_of
from privpipe.testing import judged
from tests.tiers import deep_beyond

SIZES, COUNTS = np.array([1, 2, 3, 7]), np.array([40, 15, 6, 2])
ESTIMATORS = ("dankar", "pitman", "zayatz", "snb")


def test_no_unique_record_is_not_a_unique_person() -> None:
    for estimator in ESTIMATORS:
        model = PopulationUniqueness(at_most=0.0, population_size=10**6, estimator=estimator)
        verdict = judged(model, ClassBlock(np.array([2, 3])), Facts())
        assert (verdict.observed, verdict.passed) == (0.0, True)
        assert "; 0 of 5 records are unique in the table" in verdict.reason


def test_where_the_table_is_the_population_its_uniques_are_counted() -> None:
    records = int(SIZES @ COUNTS)
    for estimator in ESTIMATORS:
        assert population_uniques(SIZES, COUNTS, records, estimator) == 40.0
        model = PopulationUniqueness(population_size=records, estimator=estimator)
        assert judged(model, ClassBlock(np.repeat(SIZES, COUNTS)), Facts()).observed == 40 / records


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("counts", [(40, 15, 6, 0, 2), (0, 15, 6, 2, 0), (40, 0, 0, 0, 0), (40, 5, 0, 0, 0)])
def test_sizes_that_no_class_has_change_nothing(estimator: str, counts: tuple[int, ...]) -> None:
    """A search counts the classes of each size again for every node, and leaves sizes without one."""
    sizes, many = np.array([1, 2, 3, 5, 7]), np.array(counts)
    for population in (int(sizes @ many), 1000, 10**6):
        model = PopulationUniqueness(population_size=population, estimator=estimator)
        assert model.share(sizes, many) == model.share(sizes[many > 0], many[many > 0])


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("population", [130, 200, 1000, 1021, 10**5, 10**9])
def test_the_solvers_agree_with_plain_sums(estimator: str, population: int) -> None:
    expected = uniques_of(tuple(zip(SIZES.tolist(), COUNTS.tolist(), strict=True)), population, estimator)
    found = population_uniques(SIZES, COUNTS, population, estimator)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-10))


@pytest.mark.parametrize("seed", deep_beyond(2, range(6)))
def test_the_solvers_agree_with_plain_sums_on_random_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.unique(np.append(1, rng.integers(2, 13, 3)))
    counts = rng.integers(1, 20, len(sizes))
    records = int(sizes @ counts)
    for population in (records + 1, 3 * records, 4000, 10**7):
        for estimator in ESTIMATORS:
            expected = uniques_of(tuple(zip(sizes.tolist(), counts.tolist(), strict=True)), population, estimator)
            found = population_uniques(sizes, counts, population, estimator)
            assert found == (None if expected is None else pytest.approx(expected, rel=1e-10, abs=0)), estimator


@pytest.mark.parametrize(("twos", "population"), [(5, 10**6), (4, 10**6), (4, 4000), (6, 4000)])
def test_an_estimate_near_the_edge_of_solvability_is_found(twos: int, population: int) -> None:
    """Roots at logits of -25 and less, where the shares of the equation differ by 1e-12."""
    expected = uniques_of(((1, 6), (2, twos)), population, "snb")
    found = population_uniques(np.array([1, 2]), np.array([6, twos]), population, "snb")
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-10))


def test_rounding_makes_no_root() -> None:
    """The equation nears -5e-4 as b nears 1, with a of 1e13 times a difference of logarithms."""
    assert uniques_of(((1, 1), (2, 2), (7, 1), (11, 1)), 4000, "snb") is None
    assert snb(np.array([1, 2, 7, 11]), np.array([1, 2, 1, 1]), 4000) is None


def test_dankar_chooses_by_the_sampling_fraction() -> None:
    records = int(SIZES @ COUNTS)
    at_a_tenth, above = (population_uniques(SIZES, COUNTS, size, "dankar") for size in (10 * records, 5 * records))
    assert at_a_tenth == pitman(SIZES, COUNTS, 10 * records)
    assert above == min(zayatz(SIZES, COUNTS, 5 * records) or 0, snb(SIZES, COUNTS, 5 * records) or 0)


def test_all_persons_may_be_unique() -> None:
    """Where every record is, Zayatz estimates the population itself, whatever rounding makes of it."""
    for records in (6, 10, 11, 18):
        ones = np.array([1]), np.array([records])
        assert population_uniques(*ones, records + 1, "dankar") == population_uniques(*ones, records + 1, "zayatz")
        assert population_uniques(*ones, records + 1, "dankar") == records + 1


def test_without_an_estimate_it_fails_and_tries_nothing_else() -> None:
    """Only uniques: Pitman has no maximum."""
    model = PopulationUniqueness(at_most=1.0, population_size=10**6, estimator="pitman")
    verdict = judged(model, ClassBlock(np.ones(5, dtype=np.int64)), Facts())
    assert (verdict.observed, verdict.passed) == (None, False)
    assert "no estimate" in verdict.reason
    assert snb(np.array([1, 3]), np.array([4, 2]), 100) is None


def test_few_uniques_take_the_boundary() -> None:
    """The likelihood is greatest at alpha <= 0: theta of Ewens, whatever the population."""
    sizes, counts = np.array([1, 40, 60]), np.array([1, 8, 12])
    small, large = (pitman(sizes, counts, population) for population in (10**5, 10**8))
    assert small == large
    assert 0 < (small or 0) < 20


@pytest.mark.parametrize(
    "sizes",
    [((1, 18), (2, 2), (3, 1)), ((1, 40), (2, 4)), ((1, 200), (2, 10), (3, 2)), ((1, 3000), (2, 200), (3, 9))],
)
@pytest.mark.parametrize("population", [10**6, 10**9])
def test_many_uniques_and_hardly_a_pair(sizes: tuple[tuple[int, int], ...], population: int) -> None:
    """theta is a million times alpha at the lower end of the bracket: digammas of it would differ in noise alone."""
    found = pitman(np.array([size for size, _ in sizes]), np.array([count for _, count in sizes]), population)
    assert found == pytest.approx(uniques_of(sizes, population, "pitman"), rel=1e-9)


@pytest.mark.parametrize(
    ("sizes", "population", "uniques"),
    [
        ({1: 10**8, 2: 1}, 10**12, 5000000083333333.4),
        ({1: 11_033_687, 2: 3}, 139_356_943, 20290387674964.667),
        ({1: 91_294_850, 2: 13_795, 2_037_891: 5}, 264_820_072_586, 262711273099.48808),
    ],
)
def test_nearly_all_records_are_unique(sizes: dict[int, int], population: int, uniques: float) -> None:
    """The sums of theta's score then differ by one in a hundred million; figures from the scores in sixty digits."""
    found = pitman(np.array(list(sizes)), np.array(list(sizes.values())), population)
    assert found == pytest.approx(uniques, rel=1e-11)


@pytest.mark.parametrize(
    ("sizes", "population", "uniques"),
    [
        ({1: 11, 2: 1, 1657: 65}, 103_991_052_643, 8.0683463058280117e-26),
        ({1: 1113, 2: 4296, 32: 1, 2204: 1}, 357_518_799, 2.5629120669300177e-50),
        ({1: 450, 2: 427, 4: 1, 17: 13}, 180_767_687, 0.013989008457514655),
    ],
)
def test_tiny_fractions_keep_the_digits_of_snb(sizes: dict[int, int], population: int, uniques: float) -> None:
    """1 - d is as small as the fraction there; figures from the equations in sixty digits."""
    found = snb(np.array(list(sizes)), np.array(list(sizes.values())), population)
    assert found == pytest.approx(uniques, rel=1e-11)


def test_one_huge_class_costs_no_memory() -> None:
    found = zayatz(np.array([1, 2 * 10**9]), np.array([3, 1]), 10**10)
    assert found == pytest.approx(3 * 10**10 / (2 * 10**9 + 3))


def test_a_population_smaller_than_the_table() -> None:
    with pytest.raises(DataError, match="population_size is 4 and the table has 5"):
        judged(PopulationUniqueness(population_size=4), ClassBlock(np.array([5])), Facts())


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"at_most": 1.1}, "at_most must"),
        ({"population_size": 0}, "population_size must"),
        ({"population_size": True}, "population_size must"),
        ({"estimator": "shlosser"}, "estimator must"),
    ],
)
def test_ranges(parameters: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        PopulationUniqueness(**{"population_size": 10, **parameters})
