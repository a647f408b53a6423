"""Quality of a finished release on every engine: by its definitions, with and without the original."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.blocks import Verdict
from privpipe.blocks.quality_spec import QualityName
from privpipe.engines import Engine, Source
from privpipe.errors import Refused, UsageError
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.judging import JudgingRules, assess
from privpipe.measures import Quality
from privpipe.measures.label_meaning import range_members, range_penalty
from privpipe.measures.utility.recoded_release import LabelCosts
from privpipe.roles import Roles

TOWNS = [["Bonn", "west", "*"], ["Trier", "west", "*"], ["Jena", "east", "*"], ["Gera", "east", "*"]]
AGES = [["7", "child", "*"], ["8", "child", "*"], ["30", "adult", "*"], ["31", "adult", "*"], ["32", "adult", "*"]]
CELLS = [
    ("Bonn", "7", "x", "flu"),
    ("Bonn", "8", "x", "flu"),
    ("Trier", "7", "x", "gout"),
    ("Trier", "30", "x", "flu"),
    ("Bonn", "31", "x", "flu"),
    ("Jena", "30", "y", "gout"),
    ("Gera", "31", "y", "gout"),
    ("Jena", "31", "y", "flu"),
    ("Gera", "7", "y", "gout"),
]
NAMES = ("town", "age", "shift", "ill")
LEVELS = {"town": 1, "age": 1}
ROLES = Roles(quasi_identifiers=["town", "age", "shift"], sensitive=["ill"])
SPECS = {
    name: HierarchySpec.from_hierarchy(Hierarchy.from_rows(rows, column=name), column=name)
    for name, rows in (("town", TOWNS), ("age", AGES))
}


def label(rows: list[list[str]], value: str, level: int) -> str:
    return next(row[level] for row in rows if row[0] == value)


def table(rows: list[tuple[str, ...]]) -> pa.Table:
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(NAMES)})


KEYS = [(label(TOWNS, town, 1), label(AGES, age, 1), shift) for town, age, shift, _ in CELLS]
KEPT = [row for row, key in zip(CELLS, KEYS, strict=True) if Counter(KEYS)[key] >= 2]
RELEASED = [(label(TOWNS, row[0], 1), label(AGES, row[1], 1), *row[2:]) for row in KEPT]
SIZES = list(Counter(row[:3] for row in RELEASED).values())
N, LOST = len(CELLS), len(CELLS) - len(KEPT)


def judged(
    engine: Engine, released: pa.Table, measures: list[Quality], original: pa.Table | None = None, **rules: Any
) -> list[Verdict]:
    first = None if original is None else engine.scan(Source(data=original))
    found = assess(
        engine,
        engine.scan(Source(data=released)),
        guarantees=(),
        measures=measures,
        roles=ROLES,
        rules=JudgingRules(hierarchies=SPECS, **rules),
        original=first,
    )
    return list(found.measures)


def expected_losses() -> dict[str, float]:
    found = {}
    for name, rows, at in (("town", TOWNS, 0), ("age", AGES, 1)):
        d = len(rows)
        shares = [sum(row[1] == label(rows, cells[at], 1) for row in rows) / d for cells in KEPT]
        found[name] = (sum(shares) + LOST - N / d) / (N - N / d)
    return found


def expected_entropy() -> float:
    bits = 0.0
    for rows, at in ((TOWNS, 0), (AGES, 1)):
        values = Counter(cells[at] for cells in CELLS)
        labels = Counter(label(rows, cells[at], 1) for cells in CELLS)
        bits += sum(a * math.log2(labels[label(rows, x, 1)] / a) for x, a in values.items())
        gone = Counter(label(rows, cells[at], 1) for cells in CELLS if cells not in KEPT)
        bits += sum(c * math.log2(LOST / c) for c in gone.values())
    return bits


def expected_divergence() -> float:
    found, tuples = 0.0, Counter(cells[:3] for cells in CELLS)
    for cells, count in tuples.items():
        key = (label(TOWNS, cells[0], 1), label(AGES, cells[1], 1), cells[2])
        area = 2 * sum(row[1] == key[1] for row in AGES)
        size = Counter(row[:3] for row in RELEASED)[key]
        q = size / N / area if size else LOST / N / (4 * 5 * 2)
        found += count / N * math.log2(count / N / q)
    return found


def test_every_engine_weighs_a_release_by_definition(engine: Engine) -> None:
    losses = expected_losses()
    ncp = {
        "town": (len(KEPT) * 0.5 + LOST) / N,
        "age": (sum(0.4 if row[1] == "child" else 0.6 for row in RELEASED) + LOST) / N,
        "shift": LOST / N,
    }
    expected: list[tuple[Quality, Any]] = [
        (Quality(), math.sqrt((1 + losses["town"]) * (1 + losses["age"])) - 1),
        (Quality(aggregate="rank"), losses),
        (Quality(name="discernibility"), sum(size * size for size in SIZES) + N * LOST),
        (Quality(name="discernibility_monotonic"), sum(size * size for size in Counter(KEYS).values())),
        (Quality(name="aecs"), N / (len(SIZES) + 1)),
        (Quality(name="height"), 2.0),
        (Quality(name="entropy"), expected_entropy()),
        (Quality(name="kl_divergence"), expected_divergence()),
        (Quality(name="average_class_size"), len(KEPT) / len(SIZES)),
        (Quality(name="c_avg", k=2), len(KEPT) / len(SIZES) / 2),
        (Quality(name="classification", response="ill"), 3 / 9),
        (Quality(name="ncp"), ncp),
        (Quality(name="gcp"), sum(ncp.values()) / 3),
        (Quality(name="gcp", weights={"town": 0.5}), (ncp["town"] / 2 + ncp["age"] + ncp["shift"]) / 3),
        (Quality(name="cell_loss"), math.sqrt((1 + losses["town"]) * (1 + losses["age"])) - 1),
    ]
    assert LOST == 1
    verdicts = judged(engine, table(RELEASED), [measure for measure, _ in expected], table(CELLS))
    for (measure, figure), verdict in zip(expected, verdicts, strict=True):
        assert verdict.outcome == "pass"
        assert verdict.observed == pytest.approx(figure, rel=1e-12), measure
    assert "score 0." in verdicts[0].reason
    assert "1 of 9 records suppressed" in verdicts[0].reason


def test_ambiguity_is_told_in_powers_of_ten_too(embedded: Engine) -> None:
    (verdict,) = judged(embedded, table(RELEASED), [Quality(name="ambiguity")], table(CELLS))
    sizes = [2 * sum(row[1] == key[1] for row in AGES) for key in (row[:3] for row in RELEASED)]
    assert verdict.observed == sum(sizes) + LOST * 4 * 5 * 2
    assert f"log10 {math.log10(verdict.observed):.6g}" in verdict.reason


def test_without_the_original_labels_tell_most(embedded: Engine) -> None:
    measures = [Quality(), Quality(name="entropy"), Quality(name="kl_divergence"), Quality(gs_factor=0.2)]
    losses = expected_losses()
    full = math.sqrt((1 + losses["town"]) * (1 + losses["age"])) - 1
    loss, entropy, divergence, cheap = judged(embedded, table(RELEASED), measures, records=N)
    assert loss.observed == pytest.approx(full)
    assert "1 of 9 records suppressed; by the labels of the release alone" in loss.reason
    assert [entropy.outcome, divergence.outcome, cheap.outcome] == ["error"] * 3
    assert "needs the original" in entropy.reason
    # As rows of the mark, suppressed records count the same.
    marked = judged(embedded, table([*RELEASED, ("*", "*", "*", "*")]), measures[:1])[0]
    assert marked.observed == pytest.approx(full)
    (blind,) = judged(embedded, table(RELEASED), [Quality()])
    assert blind.observed < full
    assert "whatever was suppressed" in blind.reason


def test_a_release_that_other_stages_changed_is_weighed_by_its_labels(embedded: Engine) -> None:
    changed = [("east", *RELEASED[0][1:]), *RELEASED[1:]]
    loss, entropy = judged(embedded, table(changed), [Quality(), Quality(name="entropy")], table(CELLS))
    assert loss.outcome == "pass"
    assert "by the labels of the release alone" in loss.reason
    assert entropy.outcome == "error"


def test_cells_at_several_levels_have_a_penalty_and_no_node(embedded: Engine) -> None:
    mixed = [("Bonn", *RELEASED[0][1:]), ("*", *RELEASED[1][1:]), *RELEASED[2:]]
    names = ("loss", "ncp", "discernibility", "aecs")
    loss, penalty, squares, size = judged(embedded, table(mixed), [Quality(name=n) for n in names], table(CELLS))
    assert loss.outcome == "error"
    assert "column 'town' was not released at one level" in loss.reason
    assert penalty.observed["town"] == pytest.approx((0 + 1 + 0.5 * (len(KEPT) - 2) + LOST) / N)
    sizes = list(Counter(row[:3] for row in mixed).values())
    assert squares.observed == sum(n * n for n in sizes) + N * LOST
    assert size.observed == pytest.approx(N / (len(sizes) + 1))
    foreign = [("Paris", *row[1:]) for row in RELEASED]
    (unknown,) = judged(embedded, table(foreign), [Quality(name="gcp")], table(CELLS))
    assert (unknown.outcome, unknown.observed) == ("error", None)
    assert "'town' has 1 labels that its hierarchy does not have" in unknown.reason
    assert "Paris" not in unknown.reason


def test_nothing_left_fails(embedded: Engine) -> None:
    (verdict,) = judged(embedded, table([("*", "*", "*", "*")]), [Quality(at_most=1.0)], table(CELLS))
    assert (verdict.outcome, verdict.observed) == ("fail", None)


def test_a_gate_on_loss_stops_a_release(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "town": {"role": "quasi_identifier", "hierarchy": {"file": "towns.csv"}},
        "age": {"role": "quasi_identifier", "hierarchy": {"file": "ages.csv"}},
        "shift": {"role": "quasi_identifier"},
        "ill": {"role": "insensitive"},
    }
    for name, rows in (("towns", TOWNS), ("ages", AGES)):
        (tmp_path / f"{name}.csv").write_text("".join(";".join(row) + "\n" for row in rows))
        columns["town" if name == "towns" else "age"]["hierarchy"]["file"] = str(tmp_path / f"{name}.csv")
    lines = [",".join(row) for row in (NAMES, *CELLS)]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")

    def policy(at_most: float, model: dict[str, Any]) -> pp.Policy:
        return pp.Policy.from_dict(
            {
                "version": 1,
                "source": {"path": str(tmp_path / "data.csv"), "format": "csv"},
                "columns": columns,
                "transform": [{"generalize": {"suppress_at_most": 0.2, "loss": model}}],
                "guarantees": [{"k_anonymity": {"k": 2}}, {"quality": {**model, "at_most": at_most}}],
                "measures": [{"quality": {"name": "entropy"}}],
                "sink": {"path": str(tmp_path / "release")},
                "seed": {"insecure": "s" * 32},
                "allow_insecure_seed": True,
            }
        )

    for model in ({"name": "loss"}, {"name": "discernibility"}, {"name": "classification", "response": "ill"}):
        result = pp.release(policy(1e9, model))
        # The plan's loss is the release's, whatever the model.
        assert result.assessment.verdicts[1].observed == pytest.approx(result.plan.loss, rel=1e-12)
        assert result.plan.stages[0].parameters["loss"]["name"] == model["name"]
        assert result.assessment.measures[0].outcome == "pass"
        with pytest.raises(Refused, match="Quality"):
            pp.release(policy(0.0, model))


def test_a_label_of_one_value_costs_nothing() -> None:
    assert LabelCosts.of(Hierarchy.from_rows([["u", "*"]])).penalties == {"u": 0.0, "*": 0.0}


def test_cut_ranges_cost_the_range_of_the_values_they_take_in(embedded: Engine) -> None:
    """Of columns without a hierarchy, as a multidimensional recoding by values releases them."""
    before = pa.table({"age": [7, 8, 30, 47], "town": ["Bonn", "Gera", "Jena", "Bonn"]})
    after = pa.table({"age": ["[7, 8]", "[7, 8]", "[30, 47]", "[30, 47]"], "town": ["Bonn", "*", "{Bonn, Jena}", "*"]})
    roles = Roles(quasi_identifiers=["age", "town"])

    def penalties(released: pa.Table) -> Verdict:
        first, second = (embedded.scan(Source(data=frame)) for frame in (released, before))
        found = assess(embedded, first, guarantees=(), measures=[Quality(name="ncp")], roles=roles, original=second)
        return found.measures[0]

    assert penalties(after).observed == pytest.approx(
        {"age": (2 * 1 / 40 + 2 * 17 / 40) / 4, "town": (0 + 1 + 2 / 3 + 1) / 4}
    )
    assert penalties(before).observed == {"age": 0.0, "town": 0.0}
    odd = penalties(after.set_column(0, "age", pa.array(["young", "young", "old", "old"])))
    assert (odd.outcome, odd.observed) == ("error", None)
    assert "2 labels that are not ranges of its values" in odd.reason


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"name": "los"}, "name: Input should be 'loss', 'precision'"),
        ({"name": "c_avg"}, "k belongs to c_avg"),
        ({"k": 3}, "k belongs to c_avg"),
        ({"name": "ncp", "at_most": 0.2}, "a figure a column has no threshold"),
        ({"aggregate": "rank", "at_most": 0.2}, "a figure a column has no threshold"),
        ({"name": "gcp", "gs_factor": 0.2}, "gs_factor is not a parameter of the quality model gcp"),
        ({"name": "aecs", "weights": {"a": 1.0}}, "weights is not a parameter of the quality model aecs"),
        ({"name": "height", "response": "ill"}, "response is not a parameter of the quality model height"),
        ({"name": "gcp", "weights": {"a": -1.0}}, "weights.a must be a number >= 0"),
        ({"at_most": -1.0}, "at_most must be a number >= 0"),
        ({"model": "loss"}, "unknown parameter of quality"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Quality.build(parameters)


def test_every_model_is_served_and_has_the_name_of_the_entry() -> None:
    assert Quality.name() == Quality(name="height").name() == "quality"
    own = {"static": {"penalties": {"age": [0, 1, 2]}}, "classification": {"response": "ill"}}
    for name in get_args(QualityName):
        built = Quality.build({"name": name, **own.get(name, {})})
        assert built.spec().name == name


@pytest.mark.parametrize(
    ("label", "values", "kind", "penalty"),
    [
        (f"[{2**60 + 1}, {2**60 + 3}]", [2**60 + at for at in (1, 3, 5, 9)], "integer", 0.25),
        (f"<{2**60 + 5}", [2**60 + at for at in (1, 3, 5, 9)], "integer", 0.25),
        ("[0.1, 0.3[", ["0.1", "0.2", "0.3", "0.5"], "decimal", 0.25),
        ("1-2", [1, 2, 3, 5], "integer", 0.25),
        ("-3 to -1", [-4, -3, -1, 4], "integer", 0.25),
        ("[0.1, 0.3)", ["0.1", "0.2", "0.3", "0.5"], "decimal", 0.25),
        ("1 to under 3", [1, 2, 3, 5], "integer", 0.25),
        ("3 or more", [1, 2, 3, 5], "integer", 0.5),
        ("2020-21", ["2020-02-29"], "date", None),
        (">=2020-03-01", ["2020-02-29", "2020-03-01", "2020-03-05"], "date", 0.8),
        ("[0001-01-01, 9999-12-31]", ["0001-01-01", "2020-03-01", "9999-12-31"], "date", 1.0),
        ("<2020-01-01T12:00:00", [f"2020-01-01T{at:02d}:00:00" for at in (0, 6, 12, 18)], "timestamp", 1 / 3),
        ("[a, b]", ["2020-02-29"], "date", None),
    ],
)
def test_ranges_are_measured_exactly(label: str, values: list[Any], kind: str, penalty: float | None) -> None:
    """Integers beyond 2^53 are distinguished, and dates have a range like numbers."""
    found = range_penalty(label, [str(value) for value in values], kind)
    assert found == (None if penalty is None else pytest.approx(penalty, rel=1e-15))


def test_members_of_a_range_beyond_2_to_53() -> None:
    values = [str(2**60 + at) for at in (1, 2, 3)]
    assert range_members(f"[{2**60 + 2}, {2**60 + 3}[", values, "integer") == [False, True, False]
