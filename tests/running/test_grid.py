"""A grid of settings is staged and judged, never published, every point on the same sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.errors import NoSolutionError, PolicyError, UsageError
from privpipe.policy import Policy
from privpipe.running.settings_grid import Chosen, compare_grid, measure_of, read_grid, with_setting

P = "transform[0].rank_swap.p"


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    lines = ["id;age;income", *(f"p{at};{20 + at % 9};{(100 + 37 * at) % 997}.5" for at in range(200))]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    return Policy.from_dict(
        {
            "version": 1,
            "name": "grid",
            "source": {"path": "people.csv", "delimiter": ";"},
            "columns": {
                "id": {"role": "identifier"},
                "age": {"role": "quasi_identifier", "type": "integer"},
                "income": {"role": "insensitive", "type": "number"},
            },
            "record_id": "id",
            "transform": [{"rank_swap": {"columns": ["income"], "p": 0.05}}],
            "guarantees": [
                {"k_anonymity": {"k": 2}},
                {"rank_interval_disclosure": {"columns": ["income"], "at_most": 0.7}},
            ],
            "measures": [
                {"record_linkage": {"columns": ["income"]}},
                {"information_loss": {"measure": "il1s", "columns": ["income"]}},
                {"information_loss": {"measure": "sse_sst", "columns": ["income"]}},
            ],
            "sink": {"path": "published"},
            "seed": {"insecure": 3},
            "allow_insecure_seed": True,
        },
        tmp_path,
    )


def test_a_grid_lays_risk_next_to_loss_and_publishes_nothing(policy: Policy, tmp_path: Path) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    found = compare_grid(policy, {P: [0.02, 0.3], "guarantees[0].k_anonymity.k": [2, 50]})
    assert {path.name for path in tmp_path.iterdir()} == before
    assert [tuple(point.setting.values()) for point in found.points] == [(0.02, 2), (0.02, 50), (0.3, 2), (0.3, 50)]
    assert found.risk_weights == {"rank_interval_disclosure": 0.5, "record_linkage": 0.5}
    assert found.loss_weights == {"information_loss.il1s": 1.0}
    assert [point.gates["k_anonymity"] for point in found.points] == ["pass", "fail", "pass", "fail"]
    near, _, far, _ = found.points
    assert near.figures["rank_interval_disclosure"] > far.figures["rank_interval_disclosure"]
    assert near.loss < far.loss
    assert near.risk == pytest.approx((near.figures["record_linkage"] + near.figures["rank_interval_disclosure"]) / 2)
    wide = min((2, 3), key=lambda at: found.points[at].loss)  # k = 50 is another policy, and swaps otherwise
    assert found.smallest_loss == {"k_anonymity": 0, "rank_interval_disclosure": wide, "all guarantees": 2}
    document = found.to_dict()
    figures = [(point.risk, point.loss) for point in found.points]
    dominated = [any(o != p and o[0] <= p[0] and o[1] <= p[1] for o in figures) for p in figures]
    assert document["pareto"] == [at for at, worse in enumerate(dominated) if not worse]
    assert document["points"][0]["score"] == pytest.approx((near.risk + near.loss) / 2)


def test_a_point_has_the_figures_of_its_release(policy: Policy) -> None:
    far = with_setting(policy, {P: 0.3})
    found = compare_grid(
        policy, {P: [0.3]}, loss=["information_loss.sse_sst"], risk=["rank_interval_disclosure"]
    ).points[0]
    released = pp.release(far).assessment
    assert found.outcome == "pass"
    assert found.risk == released.verdicts[1].observed["share"]
    assert found.loss == released.measures[2].observed["loss"] / 100


def test_another_engine_gives_the_same_map(policy: Policy) -> None:
    grid = {P: [0.02, 0.3]}
    assert compare_grid(policy, grid, engine="dask").to_dict() == compare_grid(policy, grid).to_dict()


def test_what_makes_no_grid(policy: Policy, tmp_path: Path) -> None:
    for place in (
        "transform[1].rank_swap.p",
        "transform[0].rank_swop.p",
        "transfrom[0].rank_swap.p",
        "seed.x",
        "p",
        "a..b",
    ):
        with pytest.raises(UsageError, match="grid"):
            with_setting(policy, {place: 0.1})
    with pytest.raises(PolicyError):
        compare_grid(policy, {P: [0.1, 7]})
    with pytest.raises(UsageError, match="did you mean"):
        Chosen.of(policy, risk=["record_linkge"])
    bare = Policy.from_dict({**policy.document, "measures": []}, policy.base_dir)
    with pytest.raises(UsageError, match="no measure of loss"):
        Chosen.of(bare)
    texts: dict[str, Any] = {
        "text.yaml": "just text",
        "value.yaml": f'"{P}": 0.1',
        "empty.yaml": f'"{P}": []',
        "long.yaml": f'"{P}": [{", ".join(["0.1"] * 1001)}]',
        "broken.yaml": '"a: [',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError):
            read_grid(tmp_path / name)
    with pytest.raises(UsageError, match="cannot be read"):
        read_grid(tmp_path / "nowhere.yaml")
    (tmp_path / "grid.yaml").write_text(f'"{P}": [0.02, 0.3]')
    assert read_grid(tmp_path / "grid.yaml") == {P: [0.02, 0.3]}


def test_points_without_a_solution_are_reported(policy: Policy) -> None:
    document = {
        **policy.document,
        "columns": {
            **policy.document["columns"],
            "age": {"role": "quasi_identifier", "type": "integer", "hierarchy": {"intervals": {"widths": [3]}}},
        },
        "transform": [{"generalize": {"search": "optimal", "suppress_at_most": 0.0}}],
        "measures": [{"prosecutor_risk": {}}, {"information_loss": {"measure": "ncp"}}],
        "guarantees": [{"k_anonymity": {"k": 2}}],
    }
    searched = Policy.from_dict(document, policy.base_dir)
    found = compare_grid(searched, {"guarantees[0].k_anonymity.k": [2, 500]})
    assert [point.outcome for point in found.points] == ["pass", "no_solution"]
    assert found.points[1].reason
    assert found.front == (0,)
    with pytest.raises(NoSolutionError):
        compare_grid(searched, {"guarantees[0].k_anonymity.k": [500, 600]})


def test_any_measure_is_an_axis(policy: Policy) -> None:
    lost = "information_loss.il1s:columns=[age]"
    asked = "sd_interval_disclosure:columns=[income]"
    found = compare_grid(policy, {P: [0.02, 0.3]}, risk=[asked], loss=[lost, "quality.c_avg:k=2"])
    assert found.risk_weights == {asked: 1.0}
    assert list(found.loss_weights) == [lost, "quality.c_avg:k=2"]
    document = policy.document | {"measures": [*policy.document["measures"], measure_of(asked)]}
    declared = Policy.from_dict(document, policy.base_dir)
    same = compare_grid(declared, {P: [0.02, 0.3]}, risk=["sd_interval_disclosure"])
    assert [point.risk for point in found.points] == [point.risk for point in same.points]
    assert None not in [point.risk for point in found.points]


@pytest.mark.parametrize(
    ("axis", "text", "message"),
    [
        ("risk", "prosecutor_rsik", "did you mean 'prosecutor_risk'"),
        ("loss", "cel_loss", "did you mean 'cell_loss'"),
        ("risk", "closest_record", "the safer the table"),
        ("risk", "k_anonymity", "the safer the table"),
        ("risk", "quality.gcp", "name it with --loss"),
        ("loss", "prosecutor_risk", "name it with --risk"),
        ("risk", "prosecutor_risk:colums=[a]", "unknown parameter"),
        ("risk", "prosecutor_risk:income", "parameter=value"),
        ("risk", "record_linkage:columns=[nowhere]", "nowhere"),
        ("risk", "record_linkage:columns=[", "record_linkage"),
    ],
)
def test_what_is_not_an_axis(policy: Policy, axis: str, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Chosen.of(policy, **{axis: [text]})
