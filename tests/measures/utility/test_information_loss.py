"""Information loss gives the reference figures, those of its definitions on small tables, and the same on every engine.

Source of figures: reference/sdcmicro.json (sdcMicro 5.8.1; IL1s and IL1 are plain sums there).
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.blocks import FilePair, Verdict
from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine, Source
from privpipe.errors import PolicyError, Refused, UnsupportedError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.judging import JudgingRules, assess
from privpipe.measures import InformationLoss
from privpipe.measures.utility.loss_columns import REGISTERED, register_loss
from privpipe.roles import Roles
from tests.tiers import at_most

REFERENCE = {"il1s": "IL1s", "il1": "IL1", "arctan": "il_variables", "sse_sst": "IL_SSE_over_SST_pct"}


def files_of(original: Mapping[str, Any], released: Mapping[str, Any], **more: Any) -> FilePair:
    x, y = pa.record_batch(dict(original)), pa.record_batch(dict(released))
    n = x.num_rows
    ids = more.pop("ids", np.column_stack([np.arange(n), np.arange(n)]).astype(np.int64))
    return FilePair(
        original=x, released=y, ids=ids, records=more.pop("records", n), released_records=y.num_rows, **more
    )


def figure(measure: str, files: FilePair, **more: Any) -> Any:
    entry = InformationLoss(measure=measure, columns=more.pop("columns", None), **more)
    verdict = entry.judge_files(files)
    assert verdict.observed is not None, verdict.reason
    return verdict.observed


def test_figures_of_the_reference(embedded: Engine, sdcmicro: Any, casc: Any, judged_pair: Any) -> None:
    cases = [case for case in sdcmicro if case["fn"] == "dRisk/dUtility/IL"]
    assert cases
    for case in cases:
        released = casc(case["masked"])
        original = casc(case["data"]).select(released.schema.names)
        cells = original.num_rows * original.num_columns
        found = {
            name: judged_pair(embedded, InformationLoss(measure=name), original, released).observed
            for name in (*REFERENCE, "eigen", "correlation", "moments")
        }
        ours = {
            "il1s": found["il1s"]["loss"] * cells,
            "il1": found["il1"]["loss"] * 100 * (cells - found["il1"]["zeros_dropped"]),
            "arctan": found["arctan"]["loss"],
            "sse_sst": found["sse_sst"]["loss"],
        }
        for name, key in REFERENCE.items():
            assert ours[name] == pytest.approx(case["expected"][key], rel=1e-9), (case["id"], name)
        # The census is collinear: a ratio of eigenvalues would be rounding noise divided by zero.
        assert 0 < found["eigen"]["loss"] < 0.1
        assert 0 < found["correlation"]["loss"] <= found["correlation"]["largest"] < 0.2
        assert found["moments"]["loss"] < 0.1


def judged_at_once(engine: Engine, entries: list[InformationLoss], tables: Any, order: Any) -> tuple[Verdict, ...]:
    sides = []
    for table in tables:
        numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64())).take(order)
        scanned = engine.with_record_ids(engine.scan(Source(data=numbered)), "row", Seed.insecure("losses"))
        sides.append(engine.select(scanned, table.schema.names))
    rules = JudgingRules(order=RunKey.of(Seed.insecure("losses"), "", "").attacks())
    roles = Roles(quasi_identifiers=tuple(tables[0].schema.names))
    found = assess(engine, sides[1], guarantees=(), measures=entries, roles=roles, rules=rules, original=sides[0])
    return found.measures


def test_every_engine_gives_the_same_bits(engine: Engine, embedded: Engine) -> None:
    rng = np.random.default_rng(4)
    n = 120
    income, hours = rng.lognormal(3, 1, n), rng.normal(38, 5, n)
    town = rng.choice(["a", "b", "c"], n)
    original = pa.table({"income": income, "hours": hours, "double": 2 * hours, "flat": np.ones(n), "town": town})
    blanked = pa.array([None if at % 17 == 0 else value for at, value in enumerate(hours + rng.normal(0, 1, n))])
    released = original.set_column(0, "income", pa.array(income * rng.uniform(0.9, 1.1, n)))
    released = released.set_column(1, "hours", blanked)
    names = ("il1s", "il1", "sse_sst", "moments", "correlation", "eigen", "propensity", "entropy", "kl", "arctan")
    entries = [InformationLoss(measure=name) for name in names]
    entries += [
        InformationLoss(measure="regression", target="income", columns=("hours", "double", "town")),
        InformationLoss(measure="classifier", target="town", columns=("income", "hours")),
        InformationLoss(measure="discernibility"),
    ]
    there = judged_at_once(engine, entries, (original, released), rng.permutation(n))
    here = judged_at_once(embedded, entries, (original, released), np.arange(n))
    for told, known in zip(there, here, strict=True):
        assert told.outcome == "pass", (told.entry, told.reason)
        assert told.observed == known.observed, told.entry
    assert here[0].observed["blanked_cells"] == sum(at % 17 == 0 for at in range(n))
    assert "flat" in here[0].reason


def test_losses_of_cells_and_moments_by_their_definitions() -> None:
    x, y = [1.0, 2.0, 3.0, 6.0], [2.0, 2.0, 5.0, 5.0]
    files = files_of({"a": x, "b": [0.0, 2.0, 4.0, 8.0]}, {"a": y, "b": [9.0, 1.0, 4.0, 8.0]})
    sd = [np.std(x, ddof=1), np.std([0, 2, 4, 8], ddof=1)]
    sums = [1 + 0 + 2 + 1, 9 + 1 + 0 + 0]
    assert figure("il1s", files)["loss"] == pytest.approx(sum(s / (math.sqrt(2) * d) for s, d in zip(sums, sd)) / 8)  # noqa: B905
    il1 = figure("il1", files)
    assert il1["loss"] == pytest.approx((1 + 0 + 2 / 3 + 1 / 6 + 1 / 2) / 7)
    assert il1["zeros_dropped"] == 1
    sse = (1 + 4 + 1) / sd[0] ** 2 + (81 + 1) / sd[1] ** 2
    assert figure("sse_sst", files)["loss"] == pytest.approx(100 * sse / (3 * 2))
    many = files_of({"a": x * 6, "c": [5.0] * 24}, {"a": y * 6, "c": [5.0] * 24})
    moments = figure("moments", many)
    a, b = np.array(x * 6), np.array(y * 6)
    assert moments["columns"]["a"]["mean"] == pytest.approx(abs(a.mean() - b.mean()) / a.std(ddof=1))
    assert moments["columns"]["a"]["sd"] == pytest.approx(abs(b.std(ddof=1) / a.std(ddof=1) - 1))
    assert moments["columns"]["c"] == {"mean": 0.0, "sd": 0.0, "median": 0.0, "mad": 0.0}
    moved = files_of({"c": [5.0] * 24}, {"c": [5.0] * 23 + [6.0]})
    assert figure("moments", moved)["columns"]["c"]["mean"] == 1.0


def test_moments_of_values_far_from_zero() -> None:
    """A shift of a quarter next to 1e12, where a mean has four digits after the point."""
    x, y = np.array([0.0, 1.0, 3.0, 5.0] * 5), np.array([0.0, 2.0, 3.0, 5.0] * 5)
    near, far = (figure("moments", files_of({"a": start + x}, {"a": start + y})) for start in (0.0, 1e12))
    assert far == near


def test_suppressed_records_stand_beside(embedded: Engine, judged_pair: Any) -> None:
    x = [1.0, 50.0, 3.0, 4.0, 5.0]
    y = [1.0, 50.0, 4.0, 4.0, 3.0]
    told = judged_pair(
        embedded, InformationLoss(measure="il1s"), pa.table({"a": x}), pa.table({"a": y}), left_out=2
    ).observed
    assert told["suppressed_share"] == pytest.approx(2 / 5)
    assert told["loss"] == pytest.approx((1 + 0 + 2) / 3 / (math.sqrt(2) * np.std(x, ddof=1)))  # sd of the whole


def test_losses_of_labels_by_their_definitions(embedded: Engine, judged_pair: Any) -> None:
    tree = HierarchySpec.from_mapping({"tree": {"*": {"north": ["a", "b"], "south": ["c", "d"]}}}, column="town")
    own, labels = ["a", "a", "a", "b", "c", "d"], ["north"] * 4 + ["c", "*"]
    files = files_of({"town": own}, {"town": labels}, hierarchies={"town": tree})
    log = math.log2
    lost = 3 * -log(3 / 4) - log(1 / 4) + 0 - log(1 / 6)
    assert figure("entropy", files)["loss"] == pytest.approx(lost / (3 * log(2) + 3 * log(6)))
    star = 1 / 6 / 4  # a suppressed cell is spread over all four leaves
    q = {"a": 4 / 6 / 2 + star, "b": 4 / 6 / 2 + star, "c": 1 / 6 + star, "d": star}
    p = {"a": 3 / 6, "b": 1 / 6, "c": 1 / 6, "d": 1 / 6}
    kl = figure("kl", files)
    assert kl["loss"] == pytest.approx(sum(p[v] * math.log(p[v] / q[v]) for v in p))
    assert not kl["smoothed"]
    ranges = files_of({"age": [7, 8, 30, 47]}, {"age": ["[7, 8]", "[7, 8]", "[30, 47]", "[30, 47]"]})
    assert figure("entropy", ranges)["loss"] == pytest.approx(0.5)
    assert figure("kl", ranges)["loss"] == pytest.approx(0.0)
    swapped = figure("kl", files_of({"v": [1.0, 2.0, 2.0]}, {"v": [1.0, 1.0, 3.0]}))
    assert swapped["smoothed"]
    p3, q3 = [1.5 / 4.5, 2.5 / 4.5, 0.5 / 4.5], [2.5 / 4.5, 0.5 / 4.5, 1.5 / 4.5]
    assert swapped["loss"] == pytest.approx(sum(a * math.log(a / b) for a, b in zip(p3, q3, strict=True)))
    for unchanged in ("entropy", "kl"):
        assert figure(unchanged, files_of({"town": own}, {"town": own}))["loss"] == 0.0
    before = pa.table({"town": ["a", "a", "b", "c", "d", "d"]})
    after = pa.table({"town": ["north", "north", "north", "south", "south", "south"]})
    given = {"hierarchies": {"town": tree}}
    found = {
        name: judged_pair(embedded, InformationLoss(measure=name, **more), before, after, **given).observed["loss"]
        for name, more in (("discernibility", {}), ("c_avg", {"k": 2}), ("ncp", {}))
    }
    assert found == {"discernibility": 18.0, "c_avg": pytest.approx(1.5), "ncp": pytest.approx(0.5)}
    gone = judged_pair(embedded, InformationLoss(measure="discernibility"), before, after, left_out=3, **given)
    assert gone.observed["loss"] == 9 + 6 * 3


def test_losses_of_models_by_their_definitions() -> None:
    found = figure("propensity", files_of({"v": ["a", "a", "b", "b"]}, {"v": ["a", "b", "b", "b"]}))
    assert found["loss"] == pytest.approx((3 / 36 + 5 / 100) / 8, rel=1e-5)
    assert found["ratio"] == pytest.approx(64 * (3 / 36 + 5 / 100) / 8, rel=1e-5)
    assert found["rank"] == 2
    rng = np.random.default_rng(8)
    x, noise = rng.normal(size=40), rng.normal(size=40)
    y = 1 + 2 * x + noise
    original = {"x": x, "y": y, "copy": 3 * x}
    released = {"x": x + rng.normal(0, 0.5, 40), "y": y, "copy": 3 * x}
    told = figure("regression", files_of(original, released), columns=("x",), target="y")
    intervals = [_interval(side["x"], side["y"]) for side in (original, released)]
    overlaps = []
    for (low, high), (other_low, other_high) in zip(*intervals, strict=True):
        width = min(high, other_high) - max(low, other_low)
        overlaps.append(0.5 * (width / (high - low) + width / (other_high - other_low)))
    assert told["loss"] == pytest.approx(1 - np.mean(overlaps))
    collinear = InformationLoss(measure="regression", target="y").judge_files(files_of(original, original))
    assert collinear.observed["loss"] == pytest.approx(0.0, abs=1e-12)
    assert collinear.observed["dropped"] == ["copy"]
    group = np.where(x > 0, "up", "down")
    spoilt = files_of({"x": x, "g": group}, {"x": rng.permutation(x), "g": group})
    lost = figure("classifier", spoilt, target="g")
    assert lost["accuracy_original"] > 0.9
    assert lost["loss"] == lost["accuracy_original"] - lost["accuracy_released"] > 0.1
    towns = np.where(x > 0, "a", "b")
    recoded = files_of({"t": towns, "g": group}, {"t": np.where(x > 0, "A", "B"), "g": group})
    assert figure("classifier", recoded, target="g")["loss"] == 0.0  # held-out originals are read as labels
    separable = figure("propensity", files_of({"x": x}, {"x": x + 100}))
    assert separable["loss"] == pytest.approx(0.25, abs=1e-3)


def test_fits_of_awkward_columns() -> None:
    at = np.arange(30.0)
    exact = files_of({"x": at, "y": 2 * at}, {"x": at, "y": 4 * at})
    assert figure("regression", exact, target="y")["columns"]["x"] == 1.0  # two lines without an error are apart
    rng = np.random.default_rng(3)
    y = at + rng.normal(size=30)
    for unit in (1.0, 1e300, 1e-300):
        same = files_of({"x": at * unit, "y": y}, {"x": at * unit, "y": y})
        assert figure("regression", same, target="y")["loss"] == pytest.approx(0.0, abs=1e-9)
        assert figure("propensity", same, columns=("x", "y"))["loss"] == pytest.approx(0.0, abs=1e-12)
    flat = files_of({"x": at, "y": y}, {"x": np.full(30, 5.0), "y": y})
    assert figure("regression", flat, target="y")["dropped"] == ["x"]
    infinite = InformationLoss(measure="propensity").judge_files(files_of({"x": [1.0, math.inf]}, {"x": [1.0, 2.0]}))
    assert (infinite.outcome, infinite.reason) == ("error", "infinite values in column 'x'.")
    gaps = {"x": [None, *at[1:].tolist()], "g": ["u", "v", "w"] * 10}
    assert figure("classifier", files_of(gaps, gaps), target="g")["loss"] == 0.0


def _interval(x: Any, y: Any) -> list[tuple[float, float]]:
    from scipy.stats import linregress, t

    fit = linregress(x, y)
    reach = float(t.ppf(0.975, len(x) - 2))
    return [
        (at - reach * error, at + reach * error)
        for at, error in ((fit.intercept, fit.intercept_stderr), (fit.slope, fit.stderr))
    ]


@settings(max_examples=at_most(20))
@given(st.permutations(range(24)), st.floats(-1e3, 1e3), st.sampled_from(["il1s", "sse_sst", "propensity", "eigen"]))
def test_no_figure_depends_on_the_order_of_records(order: list[int], shift: float, measure: str) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(24, 2)), rng.normal(size=(24, 2)) + shift
    ids = rng.integers(0, 2**60, size=(24, 2))
    plain = files_of({"a": x[:, 0], "b": x[:, 1]}, {"a": y[:, 0], "b": y[:, 1]}, ids=ids)
    mixed = FilePair(
        original=plain.original.take(pa.array(order)),
        released=plain.released.take(pa.array(order)),
        ids=ids[order],
        records=24,
        released_records=24,
    )
    assert figure(measure, plain) == figure(measure, mixed)


def test_what_cannot_be_told() -> None:
    texts = files_of({"a": ["x", "y"]}, {"a": ["x", "y"]})
    constant = files_of({"a": [1.0, 1.0]}, {"a": [1.0, 2.0]})
    nothing = files_of({"a": pa.array([None, None], pa.float64())}, {"a": pa.array([None, None], pa.float64())})
    single = files_of({"a": [1.0]}, {"a": [1.0]})
    for name, files in (
        *((name, texts) for name in ("il1s", "il1", "sse_sst", "moments", "correlation", "eigen")),
        *((name, constant) for name in ("il1s", "sse_sst", "correlation", "eigen")),
        *((name, nothing) for name in ("il1s", "il1", "sse_sst", "moments", "propensity", "eigen")),
        *((name, single) for name in ("il1s", "correlation", "propensity")),
    ):
        verdict = InformationLoss(measure=name, at_most=1.0).judge_files(files)
        assert (verdict.outcome, verdict.observed) == ("error", None), name
        assert verdict.reason
    few = files_of(
        {"a": list(range(19)), "b": [1.0, 2.0] * 9 + [5.0]}, {"a": list(range(19)), "b": [1.0, 2.0] * 9 + [7.0]}
    )
    for name in ("moments", "correlation", "eigen"):
        hidden = InformationLoss(measure=name, at_most=1e9).judge_files(few)
        assert (hidden.outcome, hidden.observed) == ("pass", None)
        assert "not shown of fewer than 20 records" in hidden.reason
        assert not any(
            character.isdigit() for character in hidden.reason.partition(";")[0].replace("1e+09", "").replace("20", "")
        )
    wrongs: list[dict[str, Any]] = [
        {"measure": "il2"},
        {"measure": "arctan", "at_most": 1.0},
        {"measure": "classifier"},
        {"measure": "il1s", "target": "a"},
        {"measure": "il1s", "model": "tree"},
        {"measure": "c_avg"},
        {"measure": "il1s", "k": 2},
        {"measure": "il1s", "at_most": math.nan},
        {"measure": "regression", "target": "a", "columns": ("a", "b")},
        {"measure": "il1s", "columns": ("a",), "quasi_identifiers": ("b",)},
    ]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            InformationLoss(**wrong)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("measure", ["correlation", "eigen"])
def test_a_column_that_is_constant_on_either_side_is_left_out_and_named(measure: str, side: int) -> None:
    rng = np.random.default_rng(4)
    sides = [{name: rng.normal(size=30) for name in "ab"} for _ in range(2)]
    wanted = figure(measure, files_of(*sides))
    for at, columns in enumerate(sides):
        columns["c"] = np.full(30, 5.0) if at == side else rng.normal(size=30)
    found = InformationLoss(measure=measure).judge_files(files_of(*sides))
    assert found.observed["loss"] == wanted["loss"]
    assert "constant): c" in found.reason


def test_a_tree_says_which_extra_it_needs() -> None:
    if importlib.util.find_spec("sklearn") is None:
        with pytest.raises(UnsupportedError, match=r"privpipe\[utility\]"):
            InformationLoss(measure="propensity", model="tree")
        return
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    apart = files_of({"a": x}, {"a": x + 10})
    assert figure("propensity", apart, model="tree")["loss"] == pytest.approx(0.25)
    group = np.where(abs(x) > 1, "out", "in")
    shuffled = files_of({"a": x, "g": group}, {"a": rng.permutation(x), "g": group})
    assert figure("classifier", shuffled, target="g", model="tree")["loss"] > 0.1


def test_a_function_of_ones_own() -> None:
    register_loss("largest_of_a", lambda table: max(table.column("a").to_pylist()))
    try:
        entry = InformationLoss(measure="largest_of_a", at_most=1.0)
        verdict = entry.judge_files(files_of({"a": [1, 5]}, {"a": [1, 8]}))
        assert (verdict.outcome, verdict.observed["loss"]) == ("fail", 3.0)
    finally:
        del REGISTERED["largest_of_a"]
    for taken in ("il1s", "Not a word"):
        with pytest.raises(UsageError):
            register_loss(taken, len)


def test_a_release_that_lost_too_much_is_refused(tmp_path: Path) -> None:
    lines = ["id;age;income", *(f"p{at};{20 + at % 4};{100 + 7 * at % 50}.5" for at in range(60))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")

    def policy(*guarantees: Any) -> dict[str, Any]:
        return {
            "version": 1,
            "name": "loss",
            "source": {"path": str(tmp_path / "people.csv"), "delimiter": ";"},
            "columns": {
                "id": {"role": "identifier"},
                "age": {"role": "quasi_identifier", "type": "integer"},
                "income": {"role": "insensitive", "type": "number"},
            },
            "record_id": "id",
            "transform": [{"add_noise": {"columns": ["income"], "variance_ratio": 4.0}}],
            "guarantees": [{"k_anonymity": {"k": 5}}, *guarantees],
            "measures": [{"information_loss": {"measure": "sse_sst", "columns": ["income"]}}],
            "sink": {"path": str(tmp_path / "published")},
            "seed": {"insecure": 5},
            "allow_insecure_seed": True,
        }

    gate = {"measure": "il1s", "columns": ["income"], "at_most": 0.3}
    with pytest.raises(Refused) as caught:
        pp.release(policy({"information_loss": gate}))
    [failed] = caught.value.assessment.failed
    assert failed.name == "information_loss"
    assert failed.observed["loss"] > 0.3
    assert not (tmp_path / "published").exists()
    passed = pp.release(policy({"information_loss": {**gate, "at_most": 5.0}}))
    assert passed.assessment.measures[0].observed["loss"] > 100
    with pytest.raises(PolicyError, match="only reported"):
        pp.release(policy({"information_loss": {**gate, "measure": "arctan"}}))


@pytest.mark.parametrize(("numbers", "outcome"), [(40, "pass"), (20, "pass"), (19, "error"), (0, "error")])
def test_a_loss_of_numbers_rests_on_numbers_of_both_tables(
    embedded: Engine, judged_pair: Any, numbers: int, outcome: str
) -> None:
    original = pa.table({"a": [float(at) for at in range(40)], "b": [str(at) for at in range(40)]})
    shown = pa.array([float(at) if at < numbers else None for at in range(40)], pa.float64())
    released = original.set_column(0, "a", shown)
    verdict = judged_pair(embedded, InformationLoss(measure="il1s", at_most=1.0), original, released)
    assert verdict.outcome == outcome


def test_a_label_that_nothing_explains_costs_as_much_as_a_suppressed_cell(embedded: Engine, judged_pair: Any) -> None:
    towns = ["a", "b", "c", "d"] * 5
    losses = []
    for label in ("anywhere", "*"):
        shown = [label] * 4 + towns[4:]
        tables = [pa.table({"town": texts, "n": list(range(20))}) for texts in (towns, shown)]
        losses.append(
            judged_pair(embedded, InformationLoss(measure="entropy", columns=("town",)), *tables).observed["loss"]
        )
    assert losses[0] == losses[1] > 0
