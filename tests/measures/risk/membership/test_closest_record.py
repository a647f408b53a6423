"""How near released rows come to original records, next to records that were never in the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks.file_pair import TableFiles
from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.kernels.linkage.attack_figures import attack_figures
from privpipe.measures import ClosestRecord

from ..joined import adult, adult_cases, need_reference
from .test_membership_attack import TREE, judged, tables


def test_copies_and_other_people(embedded: Engine, tmp_path: Path) -> None:
    original, holdout = tables()
    pq.write_table(holdout, tmp_path / "holdout.parquet")
    path = str(tmp_path / "holdout.parquet")
    copies = judged(embedded, ClosestRecord(holdout=path, at_least=0.5), original, original.slice(0, 200))
    assert (copies.outcome, copies.observed["ratio"], copies.observed["copies"]) == ("fail", 0.0, 1.0)
    assert copies.reason.startswith("observed 0, required at least 0.5;")
    other = judged(embedded, ClosestRecord(holdout=path, at_least=0.2, sample=None), original, tables(seed=77)[0])
    assert other.outcome == "pass"
    x, y, h = (np.column_stack([t["a"], t["b"]]) for t in (original, tables(seed=77)[0], holdout))
    sd = x.std(axis=0, ddof=1)
    near = [np.sqrt((((side[:, None] - x[None]) / sd) ** 2).sum(axis=2)).min(axis=1) for side in (y, h)]
    assert other.observed["released"] == pytest.approx(np.quantile(near[0], 0.05))
    assert other.observed["ratio"] == pytest.approx(np.quantile(near[0], 0.05) / np.quantile(near[1], 0.05))


def test_labels_are_copies_of_what_they_cover() -> None:
    files = TableFiles(
        original=pa.table({"town": ["Bonn", "Graz"], "age": [20.0, 40.0]}),
        released=pa.table({"town": ["Europe", "Europe"], "age": [20.0, 40.0]}),
        holdout=pa.table({"town": ["Pune", "Bonn"], "age": [20.0, 25.0]}),
        hierarchies={"town": TREE},
    )
    near = ClosestRecord(holdout="h", sample=None).judge_tables(files)
    assert near.observed["copies"] == 1.0
    assert near.observed["holdout"] == pytest.approx(np.quantile([0.5, 0.125], 0.05))


def test_without_a_holdout_nothing_is_judged(embedded: Engine) -> None:
    original, _ = tables(20)
    verdict = judged(embedded, ClosestRecord(at_least=0.0), original, original)
    assert (verdict.outcome, verdict.observed["copies"]) == ("error", 1.0)
    ill: list[dict[str, Any]] = [{"at_least": -1}, {"sample": 0}, {"columns": ("a", "a")}]
    ill += [{"at_most": 0.5}, {"figure": "closer", "at_least": 0.5}, {"figure": "copies", "at_most": 2}]
    for each in ill:
        with pytest.raises(UsageError):
            ClosestRecord(**each)


def gower(x: list[Any], y: list[Any], spans: list[float | None]) -> float:
    """From the definition: numbers by range, null and null 0, null and a value 1."""
    total = 0.0
    for one, other, span in zip(x, y, spans, strict=True):
        if span == 0:
            continue
        if one is None or other is None:
            total += (one is None) != (other is None)
        else:
            total += abs(one - other) / span if span is not None else one != other
    return total / sum(span != 0 for span in spans)


def mixed(seed: int, rows: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages = [None if rng.random() < 0.2 else float(rng.integers(0, 6)) for _ in range(rows)]
    missing = pa.nulls(rows, pa.float64())
    return pa.table({"a": ages, "b": rng.choice(["u", "v"], rows).tolist(), "c": [7.0] * rows, "d": missing})


def test_rows_nearer_to_an_original_copies_and_accuracies_by_definition(engine: Engine, tmp_path: Path) -> None:
    x, y, h = mixed(1, 24), mixed(2, 20), mixed(3, 24)
    pq.write_table(h, tmp_path / "holdout.parquet")
    entry = ClosestRecord(holdout=str(tmp_path / "holdout.parquet"), figure="closer", at_most=1.0, sample=None)
    observed = judged(engine, entry, x, y).observed
    sides = [list(zip(*table.to_pydict().values(), strict=True)) for table in (x, y, h)]
    known = [value for table in (x, y) for value in table["a"].to_pylist() if value is not None]
    spans = [max(known) - min(known), None, 0.0, 0.0]
    apart = {
        (i, j): [[gower(list(one), list(other), spans) for other in sides[j]] for one in sides[i]]
        for i in range(3)
        for j in range(3)
    }
    nearer = [(min(a), min(b)) for a, b in zip(apart[1, 0], apart[1, 2], strict=True)]
    closer = sum(0.5 if abs(a - b) < 1e-12 else float(a < b) for a, b in nearer) / 20
    assert observed["closer"] == pytest.approx(closer)
    assert observed["released"] == pytest.approx(np.quantile([a for a, _ in nearer], 0.05))
    assert observed["holdout"] == pytest.approx(np.quantile([min(each) for each in apart[2, 0]], 0.05))
    assert observed["copies_original"] == sum(a < 1e-12 for a, _ in nearer) / 20
    assert observed["copies_holdout"] == sum(b < 1e-12 for _, b in nearer) / 20
    ratios = [[1.0 if s[1] < 1e-12 else s[0] / s[1] for s in map(sorted, apart[1, j])] for j in (0, 2)]
    assert [observed["nndr"], observed["nndr_holdout"]] == pytest.approx([np.quantile(each, 0.05) for each in ratios])
    # Whoever is cut is cut in keyed order; with as many of all no one is.
    pq.write_table(h.slice(0, 24), tmp_path / "holdout.parquet")
    same = judged(engine, entry, x, mixed(2, 24)).observed
    assert same["privacy_loss"] == pytest.approx(same["adversarial_accuracy_holdout"] - same["adversarial_accuracy"])


def test_a_column_that_is_missing_throughout_brings_no_one_nearer() -> None:
    def side(*values: float) -> pa.Table:
        n = len(values)
        return pa.table({"a": values, "t": ["u"] * n, "d": pa.nulls(n, pa.float64())})

    sides = side(0.0, 10.0), side(1.0), side(5.0, 7.0)
    files = TableFiles(original=sides[0], released=sides[1], holdout=sides[2])
    observed = ClosestRecord(holdout="h", sample=None).judge_tables(files).observed
    assert observed["metric"] == "gower"
    assert observed["released"] == pytest.approx(0.05), "a tenth of the range of one column of two"


@need_reference()
@pytest.mark.parametrize("case", adult_cases("closest_record"), ids=lambda case: str(case["data"]))
def test_published_figures(case: dict[str, Any]) -> None:
    x, y, h = adult(case["data"])
    files = TableFiles(original=x, released=y, holdout=h)
    observed = ClosestRecord(holdout="h", sample=None).judge_tables(files).observed
    expected = case["expected"]
    assert observed["closer"] == pytest.approx(expected["share_closer"])
    assert observed["copies_original"] == pytest.approx(expected["copies"])
    assert observed["copies_holdout"] == pytest.approx(expected["copies_holdout"])
    assert observed["released"] == pytest.approx(expected["q05"], rel=1e-9)
    for accuracy in adult_cases("nnaa"):
        if accuracy["data"] == case["data"]:
            wanted = accuracy["expected"]
            assert observed["adversarial_accuracy"] == pytest.approx(wanted["aa_original"])
            assert observed["adversarial_accuracy_holdout"] == pytest.approx(wanted["aa_holdout"])
            assert observed["privacy_loss"] == pytest.approx(wanted["privacy_loss"])


@need_reference()
def test_few_copies_are_seen_where_the_quantile_is_blind() -> None:
    x, y, h = adult("synthesize")
    copied = pa.concat_tables([y.slice(0, 292), x.slice(0, 8).cast(y.schema)])
    files = TableFiles(original=x, released=copied, holdout=h)
    assert ClosestRecord(holdout="h", at_least=0.9, sample=None).judge_tables(files).outcome == "pass"
    assert ClosestRecord(holdout="h", figure="copies", at_most=0.02, sample=None).judge_tables(files).outcome == "fail"


@pytest.mark.parametrize("seed", range(3))
def test_accuracies_are_how_often_a_record_is_nearer_to_its_own(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, h = (rng.integers(0, 9, 15).astype(float).tolist() for _ in range(3))
    files = TableFiles(original=pa.table({"a": x}), released=pa.table({"a": y}), holdout=pa.table({"a": h}))
    observed = ClosestRecord(holdout="h", figure="closer", sample=None).judge_tables(files).observed

    def accuracy(one: list[float], other: list[float]) -> float:
        shares = []
        for own, beside in ((one, other), (other, one)):
            for at, value in enumerate(own):
                among = min(abs(value - each) for place, each in enumerate(own) if place != at)
                shares.append(min(abs(value - each) for each in beside) > among)
        return float(np.mean(shares))

    assert observed["adversarial_accuracy"] == pytest.approx(accuracy(x, y))
    assert observed["adversarial_accuracy_holdout"] == pytest.approx(accuracy(h, y))


def test_ties_are_not_protection() -> None:
    """One program counts rows as near to both as safe."""
    one = pa.table({"a": ["u", "v"] * 20})
    files = TableFiles(original=one, released=one, holdout=one)
    verdict = ClosestRecord(holdout="h", figure="closer", at_most=0.5, sample=None).judge_tables(files)
    assert (verdict.outcome, verdict.observed["closer"]) == ("fail", 0.5)


def test_copies_of_all_rows_are_exact_and_those_of_some_have_a_limit() -> None:
    x, h = pa.table({"a": list(range(40))}), pa.table({"a": list(range(30, 70))})
    y = pa.table({"a": [*range(10), *range(30, 35), *range(100, 125)]})

    def observed(original: pa.Table, holdout: pa.Table, sample: int | None) -> Any:
        files = TableFiles(original=original, released=y, holdout=holdout)
        return ClosestRecord(holdout="h", figure="copies", sample=sample).judge_tables(files).observed

    exact = attack_figures(15, 40, control_hits=5, controls=40, everyone=True)
    whole = observed(x, h, None)
    assert (whole["copies_original"], whole["copies_upper"]) == (15 / 40, exact.excess_upper)
    limits = [attack_figures(15, 20, control_hits=5, controls=20), attack_figures(10, 40, control_hits=0, controls=40)]
    assert observed(x, h, 20)["copies_upper"] == limits[0].excess_upper, "not every row of the release"
    assert observed(x, h.slice(20), None)["copies_upper"] == limits[1].excess_upper, "not every original"


def test_a_reason_shows_what_was_seen_and_what_was_asked() -> None:
    table = pa.table({"a": ["u", "v", "w", "x"] * 10})
    files = TableFiles(original=table, released=table, holdout=table.slice(0, 39))
    for figure, seen, other in (
        ("closer", "nearer to an original than to another", "copies of an original"),
        ("copies", "copies of an original", "nearer to an original than to another"),
    ):
        for at_most in (None, 0.25):
            entry = ClosestRecord(holdout="h", figure=figure, at_most=at_most)  # type: ignore[arg-type]
            reason = entry.judge_tables(files).reason
            if figure == "copies" and at_most is not None:
                assert "asked" not in reason, "nothing is left to exceed"
                continue
            assert (seen in reason, other in reason) == (True, False)
            assert (", required at most 0.25" in reason) == (at_most is not None)


def test_without_others_the_new_figures_are_errors() -> None:
    one = pa.table({"a": ["u", "v"]})
    files = TableFiles(original=one, released=one)
    for figure in ("closer", "copies"):
        verdict = ClosestRecord(figure=figure, at_most=1.0).judge_tables(files)  # type: ignore[arg-type]
        assert verdict.outcome == "error"
    # Nothing is left to exceed where the others are all copied.
    every = TableFiles(original=one, released=one, holdout=one)
    assert ClosestRecord(holdout="h", figure="copies", at_most=1.0).judge_tables(every).outcome == "error"
