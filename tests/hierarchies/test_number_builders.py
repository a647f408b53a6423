"""Bands, quantiles, equal counts and logarithms: each against its definition, and what holds for all of them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import HierarchyError, PolicyError, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec, canonical_literal
from privpipe.hierarchies.interval_levels import NumberLine, interval_ends, round_step


def build(mapping: dict[str, Any], values: list[Any], kind: str | None = "integer", **beside: Any) -> Hierarchy:
    seen = Counter(None if value is None else str(value) for value in values)
    return HierarchySpec.from_mapping({**mapping, **beside}, column="x").build(list(seen), list(seen.values()), kind)


def labels(hierarchy: Hierarchy) -> list[tuple[str, ...]]:
    return [hierarchy.labels(level) for level in range(1, hierarchy.height)]


def holds(label: str, value: str) -> bool:
    """Whether a value is in the interval that its label says."""
    if label == "*":
        return True
    ends = interval_ends(label)
    number = Decimal(value)
    if ends is None:
        return Decimal(label) == number
    low, high = (None if end is None else Fraction(Decimal(end)) for end in ends[:2])
    return (low is None or low <= number) and (high is None or number < high)


def test_bands_of_ages() -> None:
    ages = build({"bands": {"steps": [5, 10, 20], "lowest": 15, "highest": 85}}, [3, 15, 19, 20, 47, 84, 85, 120])
    assert labels(ages) == [
        ("<15", "15-19", "20-24", "45-49", "80-84", ">=85"),
        ("<15", "15-19", "20-29", "40-49", "80-84", ">=85"),
        ("<15", "15-19", "20-39", "40-59", "80-84", ">=85"),
    ]
    assert ages.level_names == ("raw", "steps of 5", "steps of 10", "steps of 20", "*")
    assert not ages.data_dependent


@pytest.mark.parametrize(
    ("values", "kind", "names"),
    [
        ([17, 90], "integer", ["5", "10", "20"]),
        ([0, 99_999], "integer", ["5000", "10000", "20000"]),
        (["0.1", "0.9"], "number", ["0.2"]),
        ([40], "integer", ["2"]),
        ([], "integer", ["2"]),
        ([-(10**30), 10**30], "integer", ["1" + "0" * 29, "2" + "0" * 29, "1" + "0" * 30]),
    ],
)
def test_bands_choose_round_steps_of_the_range(values: list[Any], kind: str, names: list[str]) -> None:
    found = build({"bands": {}}, values, kind)
    assert [name.removeprefix("steps of ") for name in found.level_names[1:-1]][: len(names)] == names
    assert found.data_dependent


def test_bands_of_declared_tails_do_not_depend_on_the_data() -> None:
    one, other = (build({"bands": {"lowest": 15, "highest": 90}}, values) for values in ([20, 21], [16, 88]))
    assert one.level_names == other.level_names == ("raw", "steps of 5", "steps of 10", "steps of 20", "*")
    assert not one.data_dependent


def test_infinite_values_are_outside_of_chosen_bands() -> None:
    with pytest.raises(HierarchyError, match="outside range: 1 distinct values"):
        build({"bands": {}}, ["1", "50", "inf"], "number")


def test_quantiles_of_distinct_records_are_equal_parts() -> None:
    found = build({"quantiles": {"counts": [4, 2], "round": 1}}, list(range(1, 17)) * 5)
    assert labels(found) == [("<5", "5-8", "9-12", ">=13"), ("<9", ">=9")]
    assert found.data_dependent
    assert found.level_names == ("raw", "4 quantiles", "2 quantiles", "*")


def test_a_value_of_many_records_takes_several_quantiles_in() -> None:
    found = build({"quantiles": {"counts": [4]}}, [0] * 300 + list(range(1, 41)) * 5)
    assert labels(found) == [("<15", ">=15")]
    assert labels(build({"quantiles": {"counts": [4]}}, [7] * 9)) == [("*",)]
    assert build({"quantiles": {"counts": [4]}}, []).values == ()


def quantile_cuts(values: list[int], count: int) -> list[int]:
    """The smallest value v such that more than n i / c records are at most v; the least value cuts nothing off."""
    found = set()
    for part in range(1, count):
        found.add(next(v for v in sorted(values) if sum(x <= v for x in values) * count > len(values) * part))
    return sorted(found - {min(values)})


@given(
    st.lists(st.sampled_from([1, 3, 10]).flatmap(lambda step: st.integers(-50, 50).map(step.__mul__)), min_size=1),
    st.sampled_from([1, 4, 5]),
    st.sampled_from(["auto", 1, 7]),
)
def test_quantiles_are_those_of_the_definition(numbers: list[int], times: int, rounding: Any) -> None:
    """Each cut is the nearest multiple, between the cuts next to it, that is not a value of fewer than 5 records."""
    values = numbers * times
    found = build({"quantiles": {"counts": [8, 4, 2], "round": rounding, "labels": "brackets"}}, values)
    finest = quantile_cuts(values, 8)
    rare = {value for value, records in Counter(values).items() if records < 5}
    ends = [min(values), *finest, max(values) + 1]
    between = finest if len(finest) > 1 else [min(values), *finest, max(values)]
    apart = min((b - a for a, b in pairwise(between) if b > a), default=2)
    step = round_step(apart // 2, at_most=True) if rounding == "auto" else rounding
    rounded = {}
    for at, cut in enumerate(finest):
        near = [x for x in range(ends[at] + 1, ends[at + 2]) if x % step == 0 and x not in rare]
        if near:
            rounded[cut] = min(near, key=lambda x: (abs(x - cut), -x))
    for level, count in enumerate((8, 4, 2), start=1):
        cuts = {rounded[cut] for cut in quantile_cuts(values, count) if cut in rounded}
        mapping = found.mapping(level)
        shown = {Decimal(end) for label in mapping.values() for end in (interval_ends(label) or ())[:2] if end}
        assert shown <= cuts
        assert not shown & rare
        groups = {value: sum(cut <= value for cut in cuts) for value in values}
        assert len(set(mapping.values())) == len(set(groups.values()))
        assert len({(groups[value], mapping[str(value)]) for value in values}) == len(set(groups.values()))
    assert any("few_cuts" in warning for warning in found.warnings) == (len(rounded) < len(finest))


def test_cuts_of_quantiles_are_rounded() -> None:
    values = list(range(18, 90)) * 5
    assert labels(build({"quantiles": {"counts": [4, 2], "round": 10}}, values)) == [
        ("<40", "40-49", "50-69", ">=70"),
        ("<50", ">=50"),
    ]
    assert labels(build({"quantiles": {"counts": [4, 2], "round": "auto"}}, values)) == [
        ("<35", "35-54", "55-69", ">=70"),
        ("<55", ">=55"),
    ]


def test_a_cut_whose_nearest_round_number_is_outside_takes_the_next_one() -> None:
    """0, nearest to 1, is the least value and cuts nothing off; 5 does. 20 is one record's value, so 15 is a cut."""
    found = build({"quantiles": {"counts": [8, 2]}}, [0, 1, 20])
    assert labels(found) == [("<5", ">=15"), ("<5", ">=5")]


def test_two_cuts_are_rounded_by_what_is_between_them() -> None:
    """11 and 21 of thirty numbers: half of the ten between them is the step."""
    assert labels(build({"quantiles": {"counts": [3], "round": "auto"}}, list(range(1, 31)) * 5)) == [
        ("<10", "10-19", ">=20")
    ]


def test_cuts_of_quantiles_are_the_value_of_no_few_records() -> None:
    """Salaries that end in figures of their own: none of them is a cut, whatever was asked for before."""
    salaries = [23_417 + 1_311 * at + 17 * (at * at % 89) for at in range(400)]
    found = build({"quantiles": {"counts": [8, 4, 2]}}, salaries)
    ends = {end for level in labels(found) for label in level for end in (interval_ends(label) or ())[:2] if end}
    assert len(ends) == 7
    assert not ends & set(map(str, salaries))
    assert all(end.endswith("0000") for end in ends)
    # Forty records of 40,000 are not few: such a number may be a cut.
    heaped = build({"quantiles": {"counts": [2]}}, [*salaries[:10], *[40_000] * 40, *salaries[300:310]])
    assert any("40000" in label for label in labels(heaped)[0])


@given(st.integers(0, 10**6))
def test_round_steps_are_the_nearest_of_their_series(least: int) -> None:
    series = [factor * 10**power for power in range(8) for factor in (1, 2, 5)]
    assert round_step(least) == min(step for step in series if step >= least)
    assert round_step(least, at_most=True) == max(step for step in series if step <= max(least, 1))


def test_anything_but_a_number_is_neither_finite_nor_infinite() -> None:
    line = NumberLine(["3", "town", "inf", "", "-inf"], [])
    assert line.numeric.tolist() == [True, False, True, False, True]
    assert line.infinite.tolist() == [0, 0, 1, 0, -1]


def test_equal_count_takes_so_many_distinct_values() -> None:
    found = build({"equal_count": {"sizes": [2, 4]}}, [1, 1, 1, 2, 5, 9, 30])
    assert labels(found) == [("<5", "5-29", ">=30"), ("<30", ">=30")]
    assert found.data_dependent
    assert found.level_names == ("raw", "2 values", "4 values", "*")


@given(st.sets(st.integers(-(10**20), 10**20), min_size=1, max_size=40), st.integers(1, 5), st.integers(2, 3))
def test_equal_count_is_that_of_the_definition(values: set[int], size: int, factor: int) -> None:
    found = build({"equal_count": {"sizes": [size, size * factor]}}, list(values))
    ordered = sorted(values)
    for level, wanted in enumerate((size, size * factor), start=1):
        groups = [ordered[start : start + wanted] for start in range(0, len(ordered), wanted)]
        mapping = found.mapping(level)
        assert [len({mapping[str(value)] for value in group}) for group in groups] == [1] * len(groups)
        assert len(set(mapping.values())) == len(groups)


@pytest.mark.parametrize(
    ("base", "parts", "cuts"), [(10, 4, ["1.8", "3.2", "5.6"]), (2, 3, ["1.26", "1.59"]), (5, 2, ["2.2"])]
)
def test_cuts_within_a_power_have_two_digits_and_three_for_powers_of_two(
    base: int, parts: int, cuts: list[str]
) -> None:
    """Powers base ** (i / parts), rounded; a cut begins the group above it."""
    beside = [str(Decimal(cut) - Decimal("0.001")) for cut in cuts]
    mapping = build({"log": {"base": base, "per_decade": parts}}, ["1", *cuts, *beside], "number").mapping(1)
    for place, cut in enumerate(cuts):
        assert float(cut) == pytest.approx(base ** ((place + 1) / parts), abs=0.005 if base == 2 else 0.05)
        assert mapping[beside[place]] == mapping[["1", *cuts][place]] != mapping[cut]


def test_logarithms_of_incomes() -> None:
    found = build({"log": {}}, [0, 1, 2, 4, 5, 10, 19, 20, 150, 99_999])
    assert labels(found) == [
        ("0", "1", "2-4", "5-9", "10-19", "20-49", "100-199", "50000-99999"),
        ("0", "1-9", "10-99", "100-999", "10000-99999"),
    ]
    assert found.level_names == ("raw", "3 a power of 10", "powers of 10", "*")
    assert not found.data_dependent


def test_logarithms_of_other_bases_and_levels() -> None:
    assert labels(build({"log": {"base": 2, "per_decade": 1}}, [0, 1, 3, 8, 9])) == [("0", "1", "2-3", "8-15")]
    assert labels(build({"log": {"per_decade": 1, "decades": [2, 4]}}, ["0.02", "5", "100"], "number")) == [
        ("[0.01, 0.1)", "[1, 10)", "[100, 1000)"),
        ("[0.01, 1)", "[1, 100)", "[100, 10000)"),
        ("[0.0001, 1)", "[1, 10000)"),
    ]
    quarter = build({"log": {"base": 2, "per_decade": 1, "labels": "words"}}, ["0.3", "0.5"], "number")
    assert labels(quarter) == [("0.25 to under 0.5", "0.5 to under 1")]


@given(
    st.sampled_from([2, 5, 10]),
    st.integers(1, 9),
    st.lists(st.decimals("1e-20", "1e25", places=20), min_size=1, max_size=8),
)
def test_logarithms_are_cut_at_whole_powers(base: int, parts: int, numbers: list[Decimal]) -> None:
    texts = [str(canonical_literal(str(number), "decimal")) for number in numbers if number]
    given = {"base": base, "per_decade": parts, "decades": [2], "labels": "brackets"}
    for text, label in build({"log": given}, texts, "decimal").mapping(2).items():
        low, high = (Fraction(Decimal(end)) for end in label.strip("[)").split(", "))
        assert low <= Fraction(Decimal(text)) < high == low * base**2
        power = 0
        while Fraction(base) ** power < low:
            power += 2
        while Fraction(base) ** power > low:
            power -= 2
        assert Fraction(base) ** power == low


def test_logarithms_of_the_least_and_greatest_numbers() -> None:
    ends = ["5e-324", "1.7976931348623157e308", "0"]
    values = [str(canonical_literal(text, "number")) for text in ends]
    for base in (2, 5, 10):
        assert len(labels(build({"log": {"base": base}}, values, "number"))[0]) == 3


def test_logarithms_say_what_to_do_with_negative_numbers() -> None:
    with pytest.raises(HierarchyError, match=r"outside range: 2 distinct values \(3 records\): the logarithm needs"):
        build({"log": {}}, [-5, -5, -1, 0, 7])
    assert labels(build({"log": {"lowest": 1}}, [-5, 0, 7]))[0] == ("<1", "5-9")
    assert labels(build({"log": {"lowest": 0, "highest": 50}}, [-5, 0, 7, 60]))[0] == ("<0", "0", "5-9", ">=50")


BUILDERS: list[dict[str, Any]] = [
    {"bands": {}},
    {"bands": {"steps": [3, 6, 60], "lowest": 2, "highest": 50}},
    {"intervals": {"start": -7, "widths": [10, 20], "lowest": -3, "highest": 40}},
    {"quantiles": {"counts": [12, 6, 2]}},
    {"quantiles": {"counts": [8, 4], "round": 5}},
    {"quantiles": {"counts": [8, 4], "round": "auto"}},
    {"equal_count": {"sizes": [2, 4, 8]}},
    *({"log": {"base": base, "per_decade": parts, "lowest": 1}} for base in (2, 5, 10) for parts in (3, 4, 9)),
]
NUMBERS = st.one_of(
    st.integers(-60, 60).map(str),
    st.decimals(-1000, 10**7, places=2).map(str),
    st.sampled_from(["-0.0", "0", "1e22", "1e-7", "10", "1000", "1", str(2**63), str(-(2**70))]),
)


@given(st.sampled_from(BUILDERS), st.lists(NUMBERS, min_size=1, max_size=25), st.sampled_from([None, "words", "open"]))
def test_labels_hold_their_values_and_levels_nest(builder: dict[str, Any], texts: list[str], style: str | None) -> None:
    [(name, given)] = builder.items()
    values = [canonical_literal(text, "number") for text in texts]
    found = build({name: {**given, **({"labels": style} if style else {})}}, values, "number", unknown="root")
    for level in range(1, found.height + 1):
        mapping, below = found.mapping(level), found.mapping(level - 1)
        assert all(holds(label, value) for value, label in mapping.items())
        assert len({(below[value], mapping[value]) for value in mapping}) == len(set(below.values()))
        assert len(set(mapping.values())) <= len(set(below.values()))
    assert set(found.texts(found.height)) <= {"*"}
    if style is None and not any(value.startswith("-") for value in values if value):
        assert not any(label.startswith("[-") for level in labels(found) for label in level)


@given(st.sampled_from(BUILDERS), st.lists(st.integers(-200, 200), min_size=1, max_size=25))
def test_dashes_hold_whole_numbers(builder: dict[str, Any], values: list[int]) -> None:
    found = build(builder, values, unknown="root")
    for level in range(1, found.height + 1):
        assert all(holds(label, value) for value, label in found.mapping(level).items())


@pytest.mark.parametrize("builder", BUILDERS, ids=str)
def test_nulls_have_a_leaf_and_a_file_keeps_the_labels(builder: dict[str, Any], tmp_path: Any) -> None:
    found = build(builder, [None, "3", "7", "12", "41"], "integer")
    assert found.null_code is not None
    found.to_csv(tmp_path / "x.csv")
    again = Hierarchy.read_csv(tmp_path / "x.csv", type="integer")
    assert [again.mapping(level) for level in range(again.height + 1)] == [
        found.mapping(level) for level in range(found.height + 1)
    ]


def test_no_interval_of_ages_is_negative() -> None:
    ages = build({"intervals": {"start": -5, "widths": [10]}}, [0, 3, 5, 17])
    assert labels(ages) == [("0-4", "5-14", "15-24")]
    assert ages.data_dependent  # the label of 0 to 4 rests on there being no negative age
    assert labels(build({"intervals": {"start": -5, "widths": [10]}}, [-1, 3])) == [("-5 to 4",)]
    declared = build({"intervals": {"start": -5, "widths": [10], "domain": [2, 100]}}, [3, 17])
    assert labels(declared) == [("2-4", "15-24")]
    assert not declared.data_dependent
    assert labels(build({"intervals": {"start": -5, "widths": [10], "labels": "open"}}, [3])) == [("[-5, 5[",)]


@pytest.mark.parametrize(
    ("style", "kind", "expected"),
    [
        (None, "integer", ("<20", "20-39", ">=60")),
        (None, "number", ("<20", "[20, 40)", ">=60")),
        (None, None, ("<20", "[20, 40)", ">=60")),
        ("brackets", "integer", ("<20", "[20, 40)", ">=60")),
        ("words", "decimal", ("under 20", "20 to under 40", "60 or more")),
        ("open", "integer", ("<20", "[20, 40[", ">=60")),
    ],
)
def test_labels_by_choice(style: str | None, kind: str | None, expected: tuple[str, ...]) -> None:
    given = {"widths": [20], "lowest": 20, "highest": 60, **({"labels": style} if style else {})}
    assert labels(build({"intervals": given}, [3, 25, 70], kind)) == [expected]


def test_dashes_are_for_whole_numbers() -> None:
    with pytest.raises(UsageError, match="labels: dash is for whole numbers, and column 'x' has type number"):
        build({"bands": {"steps": [5], "labels": "dash"}}, [7], "number")
    with pytest.raises(UsageError, match="bounds of column 'x' are not"):
        build({"intervals": {"widths": [0.5], "labels": "dash"}}, [7])
    assert labels(build({"intervals": {"widths": [0.5]}}, [7])) == [("[7, 7.5)",)]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"bands": {"steps": [5, 12]}}, "steps: not functional"),
        ({"bands": {"stpes": [5]}}, "unknown key 'stpes'; did you mean 'steps'?"),
        ({"bands": {"labels": "dashes"}}, "labels: must be brackets | dash | words | open"),
        ({"bands": {"lowest": 9, "highest": 9}}, "lowest: must be below highest"),
        ({"quantiles": {}}, "counts: must be a list"),
        ({"quantiles": {"counts": [4, 3]}}, "counts: not functional"),
        ({"quantiles": {"counts": [1]}}, "counts: must be an integer >= 2"),
        ({"quantiles": {"counts": [2], "round": "nice"}}, "round: must be auto"),
        ({"quantiles": {"counts": [2], "round": 0}}, "round: must be above 0"),
        ({"equal_count": {}}, "sizes: must be a list"),
        ({"equal_count": {"sizes": [2, 5]}}, "sizes: not functional"),
        ({"log": {"base": 3}}, "base: must be 2 | 5 | 10"),
        ({"log": {"per_decade": 10}}, "per_decade: must be an integer from 1 to 9"),
        ({"log": {"decades": [2, 3]}}, "decades: not functional"),
        ({"log": {"per_decade": 1, "decades": [1]}}, "decades: the first level"),
        ({"log": {"lowest": -1}}, "lowest: must be at least 0"),
        ({"log": {"highest": 0}}, "highest: must be above 0"),
    ],
)
def test_parameters_are_checked(mapping: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        HierarchySpec.from_mapping(mapping)
    assert caught.value.problems[0].path == next(iter(mapping))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["bands", "quantiles", "equal_count", "log"])
def test_other_types_are_refused(name: str) -> None:
    given = {"quantiles": {"counts": [2]}, "equal_count": {"sizes": [2]}}.get(name, {})
    with pytest.raises(UsageError, match="this builder needs integer or number or decimal"):
        build({name: given}, ["a"], "text")


@pytest.mark.parametrize("text", ["40-40", "59-40", "12-12"])
def test_what_does_not_rise_is_not_an_interval(text: str) -> None:
    assert interval_ends(text) is None
