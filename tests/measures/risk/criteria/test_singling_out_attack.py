"""Predicates that isolate a row of the release, and whom they isolate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks.file_pair import TableFiles
from privpipe.draws import Stream
from privpipe.errors import UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.kernels.linkage.criteria import isolated_once_of
from privpipe.measures import SinglingOutAttack

from .gower_oracle import Rows, rows_of

Tables = Callable[[str], tuple[pa.Table, pa.Table, pa.Table]]
Part = tuple[str, str, Any]


def people(rng: np.random.Generator, n: int) -> pa.Table:
    """Numbers and texts with blanks, some rows twice."""
    a = [None if rng.random() < 0.1 else int(each) for each in rng.integers(0, 30, n)]
    b = rng.normal(0, 5, n).round(0).tolist()
    c = [None if rng.random() < 0.1 else str(each) for each in rng.choice(["u", "v", "w", 'it\'s "so"'], n)]
    day = pa.array(rng.integers(18000, 18020, n).tolist(), pa.int32()).cast(pa.date32())
    table = pa.table({"a": pa.array(a, pa.int64()), "b": b, "c": pa.array(c, pa.string()), "day": day})
    return pa.concat_tables([table, table.slice(0, n // 10)])


def holds(row: dict[str, Any], part: Part) -> bool:
    name, sign, value = part
    if value is None or row[name] is None:
        return sign == "=" and row[name] is value
    return bool({"=": row[name] == value, ">=": row[name] >= value, "<=": row[name] <= value}[sign])


def count(rows: Rows, parts: frozenset[Part]) -> int:
    return sum(all(holds(row, part) for part in parts) for row in rows)


def ordinal(value: Any) -> float:
    return float(value.toordinal() if hasattr(value, "toordinal") else value)


def conjunctions(y: Rows, size: int) -> set[frozenset[Part]]:
    middle = {name: median(ordinal(row[name]) for row in y if row[name] is not None) for name in ("a", "b", "day")}

    def part(name: str, value: Any) -> Part:
        if value is None or name == "c":
            return name, "=", value
        return name, ">=" if ordinal(value) > middle[name] else "<=", value

    sets = itertools.combinations(("a", "b", "c", "day"), size)
    return {frozenset(part(name, row[name]) for name in names) for names in sets for row in y}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_predicate_is_that_of_the_definition(size: int) -> None:
    rng = np.random.default_rng(size)
    x, y, h = people(rng, 40), people(rng, 50), people(rng, 60)
    observed = (
        SinglingOutAttack(size=size, attacks=None, holdout="h")
        .judge_tables(TableFiles(original=x, released=y, holdout=h))
        .observed
    )
    first, second, third = rows_of(x), rows_of(y), rows_of(h)
    written = conjunctions(second, size)
    kept = [each for each in written if count(second, each) == 1]
    assert (observed["tried"], observed["attacked"]) == (len(written), len(kept))
    assert observed["hits"] == sum(count(first, each) == 1 for each in kept)
    found = {at for each in kept if count(first, each) == 1 for at, row in enumerate(first) if count([row], each)}
    assert observed["persons"] == len(found) / len(first)
    n, more = len(first), len(third)
    chances = [d * math.comb(more - d, n - 1) / math.comb(more, n) for d in (count(third, each) for each in kept)]
    assert observed["control_hits"] == pytest.approx(sum(chances), rel=1e-9)


def test_single_values_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(7)
    x, y = people(rng, 200), people(rng, 200)
    observed = (
        SinglingOutAttack(mode="univariate", attacks=None).judge_tables(TableFiles(original=x, released=y)).observed
    )
    first, second = rows_of(x), rows_of(y)
    written: list[frozenset[Part]] = []
    for name in ("a", "b", "c", "day"):
        values = [row[name] for row in second]
        once = {value for value in values if values.count(value) == 1}
        known = [value for value in values if value is not None]
        if name != "c":
            written += [frozenset({(name, "<=", min(known))}), frozenset({(name, ">=", max(known))})]
        written += [frozenset({(name, "=", value)}) for value in once]
    kept = [each for each in written if count(second, each) == 1]
    assert (observed["tried"], observed["attacked"]) == (len(written), len(kept))
    assert observed["hits"] == sum(count(first, each) == 1 for each in kept)


def test_the_reference_figures(figures: dict[str, Any], tables: Tables) -> None:
    cases = [case for case in figures["cases"] if case["measure"] == "singling_out_attack"]
    assert len(cases) == 3
    for case in cases:
        x, y, h = tables(case["data"])
        wanted = case["expected"]
        entry = SinglingOutAttack(mode=case["mode"], size=wanted.get("columns", 3), attacks=None, holdout="h")
        observed = entry.judge_tables(TableFiles(original=x, released=y, holdout=h)).observed
        assert observed["tried"] == wanted["predicates"]
        assert observed["attacked"] == wanted["isolating_in_released"]
        assert observed["hits"] == wanted["isolating_in_original"]
        assert observed["control_hits"] == wanted["isolating_in_holdout"]
        if "original_records_isolated" in wanted:
            assert observed["persons"] == wanted["original_records_isolated"] / 300


@pytest.mark.parametrize(("total", "drawn"), [(9, 4), (9, 9), (9, 1), (30, 12)])
def test_a_larger_holdout_is_thinned_exactly(total: int, drawn: int) -> None:
    wanted = [d * math.comb(total - d, drawn - 1) / math.comb(total, drawn) for d in range(total + 1)]
    assert isolated_once_of(np.arange(total + 1), total, drawn).tolist() == pytest.approx(wanted, rel=1e-12)


def test_identical_people_are_not_singled_out() -> None:
    """Duplicates were dropped first elsewhere: six people in three pairs gave 8 successes."""
    pairs = pa.table({"a": [1, 1, 2, 2, 3, 3], "b": ["u", "u", "v", "v", "w", "w"]})
    once = pa.table({"a": [1, 2, 3], "b": ["u", "v", "w"]})
    observed = SinglingOutAttack(mode="univariate").judge_tables(TableFiles(original=pairs, released=once)).observed
    assert (observed["attacked"] > 0, observed["hits"], observed["persons"]) == (True, 0.0, 0.0)


def test_few_predicates_are_an_error_and_divide_what_was_kept() -> None:
    """Elsewhere 8 successes of 8 read as 8 of the 20 that were asked for, and none of none as a pass."""
    table = pa.table({"a": list(range(6)), "b": ["u", "u", "v", "v", "w", "w"]})
    files = TableFiles(original=table, released=table)
    verdict = SinglingOutAttack(mode="univariate", at_most=1.0).judge_tables(files)
    assert (verdict.outcome, verdict.observed["success"]) == ("error", 1.0)
    assert "isolates hardly anyone" in verdict.reason
    twins = pa.table({"a": [1, 1, 1], "b": ["u", "u", "u"]})
    nobody = TableFiles(original=table, released=twins)
    strict = SinglingOutAttack(size=2, attacks=None, at_most=0.1).judge_tables(nobody)
    assert (strict.outcome, strict.observed["attacked"]) == ("error", 0)
    lenient = SinglingOutAttack(size=2, attacks=None, at_most=0.1, if_no_predicates="pass")
    assert lenient.judge_tables(nobody).outcome == "pass"
    assert lenient.judge_tables(files).outcome == "fail", "a verbatim copy is not a pass, however few the predicates"
    few = SinglingOutAttack(mode="univariate", at_most=0.1, if_no_predicates="pass")
    other = pa.table({"a": list(range(100, 106)), "b": ["x", "x", "y", "y", "z", "z"]})
    passed = few.judge_tables(TableFiles(original=table, released=other))
    assert (passed.outcome, passed.observed["success_upper"] > 0.1) == ("pass", True)


def test_quotes_names_and_dates_match_as_any_other() -> None:
    """Elsewhere 0 of 50 on a verbatim copy: escaped quotes, names with spaces, dates."""
    n = 150
    days = pa.array(list(range(n)), pa.int32()).cast(pa.date32())
    text = [f'it\'s "{at}" \\' for at in range(n)]
    table = pa.table({"select from": text, 'a "b"': days, "x.y": [float(at) for at in range(n)]})
    observed = SinglingOutAttack(mode="univariate").judge_tables(TableFiles(original=table, released=table)).observed
    assert observed["success"] == 1.0
    assert observed["attacked"] == 3 * n + 4
    drawn = SinglingOutAttack(size=2, attacks=100).judge_tables(TableFiles(original=table, released=table)).observed
    assert (drawn["success"], drawn["attacked"]) == (1.0, 100)


def test_rows_are_tried_in_turn_until_enough_isolate() -> None:
    """A hundred texts give a hundred predicates, each tried once; twins are tried fifty times over, and give none."""
    texts = pa.table({"t": [f"t{at}" for at in range(100)]})
    observed = SinglingOutAttack(size=1, attacks=100).judge_tables(TableFiles(original=texts, released=texts)).observed
    assert (observed["attacked"], observed["tried"], observed["hits"]) == (100, 100, 100.0)
    more = pa.table({"t": [f"t{at}" for at in range(150)]})
    observed = SinglingOutAttack(size=1, attacks=100).judge_tables(TableFiles(original=texts, released=more)).observed
    assert (observed["attacked"], observed["tried"]) == (100, 100)
    twins = pa.table({"t": ["u", "u", "v", "v"]})
    verdict = SinglingOutAttack(size=1, attacks=100).judge_tables(TableFiles(original=texts, released=twins))
    assert (verdict.outcome, verdict.observed["attacked"], verdict.observed["tried"]) == ("error", 0, 5000)


def test_a_holdout_of_one_is_too_small() -> None:
    texts = pa.table({"t": [f"t{at}" for at in range(100)]})
    for rows, told in ((1, True), (99, True), (100, False)):
        files = TableFiles(original=texts, released=texts, holdout=texts.slice(0, rows))
        verdict = SinglingOutAttack(size=1, attacks=100, holdout="h", figure="success").judge_tables(files)
        assert ("give a larger one" in verdict.reason) == told


def test_the_same_seed_gives_the_same_predicates_whatever_order_and_names() -> None:
    rng = np.random.default_rng(11)
    x, y, h = people(rng, 150), people(rng, 150), people(rng, 140)
    stream = Stream(bytes(range(16)))
    for mode in ("multivariate", "univariate"):
        entry = SinglingOutAttack(attacks=100, size=2, mode=mode, holdout="h")
        wanted = entry.judge_tables(TableFiles(original=x, released=y, holdout=h, order=stream)).observed
        mixed = [table.take(rng.permutation(table.num_rows)) for table in (x, y, h)]
        files = TableFiles(original=mixed[0], released=mixed[1], holdout=mixed[2], order=stream)
        assert entry.judge_tables(files).observed == pytest.approx(wanted)
        strange = [table.rename_columns(["z z", "order by", '"', "`"]) for table in (x, y, h)]
        files = TableFiles(original=strange[0], released=strange[1], holdout=strange[2], order=stream)
        assert entry.judge_tables(files).observed == pytest.approx(wanted)
    other = SinglingOutAttack(attacks=100, size=2, holdout="h").judge_tables(
        TableFiles(original=x, released=y, holdout=h, order=Stream(bytes(16)))
    )
    assert other.observed["tried"] != wanted["tried"]


def test_verbatim_rows_exceed_the_control_and_a_small_holdout_is_reported() -> None:
    rng = np.random.default_rng(12)

    def table(n: int) -> pa.Table:
        return pa.table({name: rng.integers(0, 60, n).tolist() for name in "abcd"})

    x, h = table(400), table(400)
    entry = SinglingOutAttack(attacks=500, holdout="h", at_most=0.1)
    safe = entry.judge_tables(TableFiles(original=x, released=table(400), holdout=h))
    assert safe.outcome == "pass", safe.reason
    copied = pa.concat_tables([x.slice(0, 120), table(280)])
    assert entry.judge_tables(TableFiles(original=x, released=copied, holdout=h)).outcome == "fail"
    small = entry.judge_tables(TableFiles(original=x, released=copied, holdout=h.slice(0, 200)))
    assert "give a larger one" in small.reason


TREE = HierarchySpec.from_mapping({"tree": {"Europe": ["Bonn", "Graz"], "Asia": ["Pune"]}}, column="town")


def test_a_label_asks_who_is_under_it() -> None:
    files = TableFiles(
        original=pa.table({"town": ["Bonn", "Graz", "Pune", "Pune"], "age": [10, 40, 10, 40]}),
        released=pa.table({"town": ["Europe", "Asia"], "age": ["[0, 30[", "[30, 60["]}),
        hierarchies={"town": TREE},
    )
    observed = SinglingOutAttack(size=2, attacks=None).judge_tables(files).observed
    assert (observed["attacked"], observed["hits"], observed["persons"]) == (2, 2.0, 0.5)
    alone = SinglingOutAttack(mode="univariate").judge_tables(files).observed
    assert (alone["attacked"], alone["hits"]) == (4, 0.0)


def test_too_many_predicates_or_columns_are_an_error() -> None:
    wide = pa.table({f"c{at:02}": [1, 2] for at in range(60)})
    verdict = SinglingOutAttack(size=8, attacks=None, at_most=1.0).judge_tables(
        TableFiles(original=wide, released=wide)
    )
    assert (verdict.outcome, "distinct predicates" in verdict.reason) == ("error", True)
    narrow = wide.select(["c00", "c01"])
    verdict = SinglingOutAttack(at_most=1.0).judge_tables(TableFiles(original=narrow, released=narrow))
    assert (verdict.outcome, "there are 2" in verdict.reason) == ("error", True)
    assert (
        SinglingOutAttack(figure="excess", at_most=1.0).judge_tables(TableFiles(original=wide, released=wide)).outcome
        == "error"
    )


ILL: list[dict[str, Any]] = [
    {"size": 0},
    {"size": 9},
    {"columns": ("a", "b")},
    {"attacks": 99},
    {"attacks": 100_001},
    {"mode": "both"},
    {"if_no_predicates": "warn"},
    {"at_most": -0.1},
]


@pytest.mark.parametrize("parameters", ILL, ids=repr)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        SinglingOutAttack(**parameters)
