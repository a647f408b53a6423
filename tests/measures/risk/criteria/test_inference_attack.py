"""Secrets guessed from what is known of a person."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks.file_pair import FilePair, TableFiles
from privpipe.draws import Stream
from privpipe.errors import UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.measures import InferenceAttack
from privpipe.measures.risk.criteria import secret_guesses

from .gower_oracle import Rows, nearest, ranges, rows_of
from .test_linkability_attack import mixed

Tables = Callable[[str], tuple[pa.Table, pa.Table, pa.Table]]


def is_right(guess: Any, secret: Any, relative: str | None) -> bool:
    if guess is None or secret is None or relative is None:
        return bool(guess == secret)
    return abs(Fraction(guess) - Fraction(secret)) <= Fraction(relative) * abs(Fraction(secret))


def by_definition(of: Rows, x: Rows, y: Rows, known: tuple[str, ...], column: str, relative: str | None) -> Fraction:
    spans, total = ranges(x, y, known), Fraction(0)
    for row in of:
        _, tied = nearest(row, y, spans, 1)
        total += Fraction(sum(is_right(y[at][column], row[column], relative) for at in tied), len(tied))
    return total


@pytest.mark.parametrize(("column", "relative"), [("d", None), ("n", "1/4")])
@pytest.mark.parametrize("seed", range(3))
def test_guesses_are_those_of_the_definition(seed: int, column: str, relative: str | None) -> None:
    rng = np.random.default_rng(seed)

    def table(n: int) -> pa.Table:
        numbers = [None if rng.random() < 0.1 else int(each) for each in rng.integers(-6, 7, n)]
        return mixed(rng, n).append_column("n", pa.array(numbers, pa.int64()))

    x, y, h = table(40), table(30), table(25)
    tolerance = None if relative is None else {"relative": float(Fraction(relative))}
    observed = (
        InferenceAttack(column=column, columns=("a", "b", "c"), tolerance=tolerance, holdout="h")
        .judge_tables(TableFiles(original=x, released=y, holdout=h))
        .observed
    )
    first, second, third = rows_of(x), rows_of(y), rows_of(h)
    for name, of in (("hits", first), ("control_hits", third)):
        wanted = by_definition(of, first, second, ("a", "b", "c"), column, relative)
        assert observed[name] == pytest.approx(float(wanted), rel=1e-9), name
    shares = [sum(is_right(row[column], each[column], relative) for each in first) / len(first) for row in second]
    assert observed["naive"] == pytest.approx(max(shares))
    assert observed["random"] == pytest.approx(np.mean(shares))
    assert observed["success_upper"] == observed["success"]


def test_the_reference_figures(figures: dict[str, Any], tables: Tables) -> None:
    cases = [case for case in figures["cases"] if case["measure"] == "inference_attack"]
    assert len(cases) == 5
    for case in cases:
        x, y, h = tables(case["data"])
        tolerance = None if case["tolerance"] is None else {"relative": case["tolerance"]}
        entry = InferenceAttack(column=case["column"], columns=case["known"], tolerance=tolerance, holdout="h")
        observed = entry.judge_tables(TableFiles(original=x, released=y, holdout=h)).observed
        wanted = case["expected"]
        assert observed["hits"] == pytest.approx(wanted["original"], rel=1e-9)
        assert observed["control_hits"] == pytest.approx(wanted["holdout"], rel=1e-9)
        assert observed["naive"] == pytest.approx(wanted["constant_guess"], rel=1e-9)
        assert observed["random"] == pytest.approx(wanted["random_guess"], rel=1e-9)


def test_errors_are_relative_to_the_secret_and_not_to_the_guess() -> None:
    """Divided by the signed guess elsewhere: -5 for 1000 was "right", as every negative guess."""
    x = pa.table({"a": [0, 1], "n": [1000.0, 0.0]})
    y = pa.table({"a": [0, 1], "n": [-5.0, 1e-6]})
    observed = InferenceAttack(column="n", tolerance={"relative": 0.05}, columns=("a",)).judge_tables(
        TableFiles(original=x, released=y)
    )
    assert observed.observed["hits"] == 0.0
    near = pa.table({"a": [0, 1], "n": [950.0, 0.0]})
    observed = InferenceAttack(column="n", tolerance={"relative": 0.05}, columns=("a",)).judge_tables(
        TableFiles(original=x, released=near)
    )
    assert observed.observed["hits"] == 2.0


def test_dates_are_compared_in_days() -> None:
    days = pa.array([18000, 18010], pa.date32())
    x, y = pa.table({"a": [0, 1], "d": days}), pa.table({"a": [0, 1], "d": pa.array([18002, 18013], pa.date32())})
    files = TableFiles(original=x, released=y)
    entry = InferenceAttack(column="d", columns=("a",), tolerance={"absolute": 2})
    assert entry.judge_tables(files).observed["hits"] == 1.0
    asked = InferenceAttack(column="a", columns=("d",), tolerance={"absolute": 0})
    assert asked.judge_tables(files).observed["hits"] == 2.0, "dates have distances"


@pytest.mark.parametrize(
    ("column", "tolerance", "reason"),
    [
        ("n", None, "tolerance must say"),
        ("t", {"absolute": 1}, "is a text"),
        ("d", {"relative": 0.1}, "in days"),
    ],
)
def test_a_tolerance_is_written_for_numbers_and_dates_alone(
    column: str, tolerance: dict[str, float] | None, reason: str
) -> None:
    table = pa.table({"a": [1, 2], "n": [1, 2], "t": ["u", "v"], "d": pa.array([1, 2], pa.date32())})
    entry = InferenceAttack(column=column, columns=("a",), tolerance=tolerance, at_most=1.0)
    verdict = entry.judge_tables(TableFiles(original=table, released=table))
    assert (verdict.outcome, reason in verdict.reason) == ("error", True)


def test_the_guess_of_everybody_is_shown_whatever_the_index() -> None:
    """Re-indexed to the targets elsewhere: 0 where one half is right."""
    rng = np.random.default_rng(4)
    x, y = mixed(rng, 200, blanks=0), mixed(rng, 150, blanks=0)
    entry = InferenceAttack(column="c", columns=("a", "b"), sample=20)
    observed = entry.judge_tables(TableFiles(original=x, released=y)).observed
    share = max(x["c"].to_pylist().count(value) for value in ("u", "v")) / 200
    assert observed["naive"] == pytest.approx(share), "of all originals, not of the sample"
    assert observed["attacked"] == 20
    assert observed["success_upper"] > observed["success"]


TREE = HierarchySpec.from_mapping({"tree": {"Europe": ["Bonn", "Graz"], "Asia": ["Pune"]}}, column="town")


def test_a_label_is_right_for_what_it_covers_and_its_width_is_reported() -> None:
    files = TableFiles(
        original=pa.table({"age": [1, 2, 3], "town": ["Bonn", "Graz", "Pune"]}),
        released=pa.table({"age": [1, 2, 3], "town": ["Europe", "Asia", "*"]}),
        hierarchies={"town": TREE},
    )
    observed = InferenceAttack(column="town", columns=("age",)).judge_tables(files).observed
    assert observed["hits"] == 2.0
    assert observed["width"] == pytest.approx((2 / 3 + 1 / 3 + 1) / 3)
    assert observed["naive"] == 1.0, "the star is right for everyone"
    numbers = TableFiles(
        original=pa.table({"age": [1, 2], "pay": [10, 30]}), released=pa.table({"age": [1, 2], "pay": ["[0, 20[", "*"]})
    )
    attack = InferenceAttack(column="pay", columns=("age",), tolerance={"absolute": 0})
    assert attack.judge_tables(numbers).observed["hits"] == 2.0


def test_a_model_of_the_release_guesses_what_the_nearest_row_does_not() -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(6)

    def people(n: int) -> pa.Table:
        a = rng.normal(0, 1, n)
        noise = {f"n{at}": rng.normal(0, 1, n).tolist() for at in range(4)}
        secret = np.where(a + rng.normal(0, 0.3, n) > 0, "yes", "no")
        return pa.table({"a": a.tolist(), **noise, "s": secret.tolist(), "pay": (10 + 3 * a).tolist()})

    x, y, h = people(300), people(300), people(300)
    files = TableFiles(original=x, released=y, holdout=h, order=Stream(bytes(16)))
    known = ("a", "n0", "n1", "n2", "n3")
    both = InferenceAttack(column="s", columns=known, holdout="h", guess="both", figure="success").judge_tables(files)
    assert both.observed["guess"] == "model"
    assert both.observed["guesses"]["model"]["success"] > both.observed["guesses"]["nearest"]["success"] + 0.05
    assert "0.975 limit" in both.reason
    assert 0.5 < both.observed["confident"] <= 1
    tree = InferenceAttack(column="s", columns=known, holdout="h", guess="model", model="tree").judge_tables(files)
    assert "guesses" not in tree.observed, "one guess is not compared with itself"
    assert tree.observed["success"] > 0.8
    line = InferenceAttack(column="pay", columns=known, guess="model", tolerance={"absolute": 1e-6})
    assert line.judge_tables(files).observed["success"] == 1.0
    regression = InferenceAttack(column="pay", columns=known, guess="model", model="tree", tolerance={"absolute": 2})
    assert regression.judge_tables(files).observed["success"] > 0.7


def test_a_tree_shows_what_no_line_does() -> None:
    """A secret that two signs tell together and neither of them alone."""
    signs = np.repeat([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]], 40, axis=0)
    classes = (signs[:, 0] * signs[:, 1] > 0).astype(np.int64)
    line = secret_guesses.predicted_categories(signs, classes, signs, 2, "logistic")
    assert line == pytest.approx(np.full((160, 2), 0.5), abs=1e-6)
    pytest.importorskip("sklearn")
    tree = secret_guesses.predicted_categories(signs, classes, signs, 2, "tree")
    assert tree[np.arange(160), classes].tolist() == [1.0] * 160


def test_numbers_are_on_the_scale_of_the_release_and_blanks_are_reported() -> None:
    known, released = np.array([5.0, np.nan, 9.0]), np.array([1.0, 3.0, np.nan, 8.0])
    mean, sd = 4.0, np.std([1.0, 3.0, 8.0], ddof=1)
    asked, fitted = secret_guesses._scaled(known, released)
    assert asked == pytest.approx(np.array([[1 / sd, 0.0], [0.0, 1.0], [5 / sd, 0.0]]))
    assert fitted == pytest.approx(np.array([[-3 / sd, 0.0], [-1 / sd, 0.0], [0.0, 1.0], [(8 - mean) / sd, 0.0]]))
    assert secret_guesses._scaled(known, np.array([4.0]))[0][:, 0].tolist() == [1.0, 0.0, 5.0]


def test_a_model_guesses_few_categories_and_learns_of_something() -> None:
    many = pa.table({"a": range(400), "s": [f"s{at}" for at in range(400)], "t": [f"t{at}" for at in range(400)]})
    files = TableFiles(original=many, released=many)
    verdict = InferenceAttack(column="s", columns=("a",), guess="model", at_most=1.0).judge_tables(files)
    assert (verdict.outcome, "at most 200 categories" in verdict.reason) == ("error", True)
    verdict = InferenceAttack(column="s", columns=("t",), guess="both", at_most=1.0).judge_tables(files)
    assert verdict.outcome == "error"


def test_success_by_value_is_told_for_values_of_twenty_or_more() -> None:
    x = pa.table({"a": [1] * 30 + [2] * 25 + [3] * 5, "s": ["u"] * 30 + ["v"] * 25 + ["w"] * 5})
    h = pa.table({"a": [2] * 40, "s": ["u"] * 20 + ["v"] * 20})
    entry = InferenceAttack(column="s", columns=("a",), holdout="h", by_value=True)
    verdict = entry.judge_tables(TableFiles(original=x, released=x, holdout=h))
    assert {name: row["success"] for name, row in verdict.observed["by_value"].items()} == {"u": 1.0, "v": 1.0}
    assert verdict.observed["by_value"]["u"]["control"] == 0.0
    assert verdict.observed["largest_excess"] == 1.0
    assert "'u'" not in verdict.reason


def test_figures_do_not_depend_on_the_order_of_rows_or_on_names() -> None:
    rng = np.random.default_rng(9)
    x, y, h = mixed(rng, 80), mixed(rng, 70), mixed(rng, 60)
    stream = Stream(bytes(range(16)))
    names = ["a b", "order", 'c"', "d'"]
    for guess in ("nearest", "model"):
        entry = InferenceAttack(column="d", columns=("a", "b", "c"), holdout="h", sample=30, guess=guess)
        wanted = entry.judge_tables(TableFiles(original=x, released=y, holdout=h, order=stream)).observed
        mixed_up = [table.take(rng.permutation(table.num_rows)) for table in (x, y, h)]
        files = TableFiles(original=mixed_up[0], released=mixed_up[1], holdout=mixed_up[2], order=stream)
        assert entry.judge_tables(files).observed == pytest.approx(wanted)
        renamed = [table.rename_columns(names) for table in (x, y, h)]
        files = TableFiles(original=renamed[0], released=renamed[1], holdout=renamed[2], order=stream)
        entry = InferenceAttack(column="d'", columns=tuple(names[:3]), holdout="h", sample=30, guess=guess)
        assert entry.judge_tables(files).observed == pytest.approx(wanted)


def test_guesses_worse_than_random_prove_nothing() -> None:
    x = pa.table({"a": [1, 2], "s": ["u", "v"]})
    turned = pa.table({"a": [1, 2], "s": ["v", "u"]})
    verdict = InferenceAttack(column="s", columns=("a",), at_most=1.0).judge_tables(
        TableFiles(original=x, released=turned)
    )
    assert (verdict.outcome, verdict.observed["success"], verdict.observed["random"]) == ("error", 0.0, 0.5)
    assert "broken" in verdict.reason


ILL: list[dict[str, Any]] = [
    {"column": "s", "columns": ("a", "s")},
    {"column": ""},
    {"column": "s", "tolerance": {"relative": 0.1, "absolute": 1}},
    {"column": "s", "tolerance": {"percent": 5}},
    {"column": "s", "tolerance": {"relative": -1}},
    {"column": "s", "tolerance": {}},
    {"column": "s", "guess": "luck"},
    {"column": "s", "model": "forest"},
    {"column": "s", "by_value": "yes"},
]


@pytest.mark.parametrize("parameters", ILL, ids=repr)
def test_parameters_out_of_range_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        InferenceAttack(**parameters)


@pytest.mark.parametrize("value", [0.5, 0.1, 1e-30])
def test_a_released_column_that_is_constant_shows_nothing(value: float) -> None:
    """Of 0.1 no sum is a multiple, and the deviation of equal numbers is not 0; no scale is made of it all the same."""
    a, b = np.arange(6.0), np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0])
    pair = FilePair(
        original=pa.record_batch({"a": a, "b": b}),
        released=pa.record_batch({"a": a, "b": np.full(6, value)}),
        ids=np.zeros((6, 2), dtype=np.int64),
        records=6,
        released_records=6,
    )
    design = secret_guesses.predictors(pair, ["a", "b"])
    guesses = secret_guesses.predicted_numbers(design.released, 2 * a + 1, design.known, "logistic")
    assert guesses == pytest.approx(2 * a + 1)
