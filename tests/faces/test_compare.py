"""`pp.compare`: what ``privpipe compare`` says, of frames, policies, stages and runs, and shows no value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.errors import UsageError
from privpipe.measures import InformationLoss, ProsecutorRisk
from privpipe.models import KAnonymity
from privpipe.transforms import Generalize, TopCode

from .test_faces import Page

SEED = "0123456789abcdef0123456789abcdef"
FRAME = pd.DataFrame({"age": [97123, 97123, 97131, 97131, 97137, 97137], "town": ["Quuxville", "Fnordstadt"] * 3})
HIERARCHY = {"intervals": {"widths": [10, 100]}}
SECRETS = ("97123", "97131", "Quuxville", "Fnordstadt", SEED)


def policy(k: int = 2, level: int = 1) -> pp.Policy:
    return pp.Policy(
        roles=pp.Roles(quasi_identifiers=["age"], insensitive=["town"]),
        hierarchies={"age": HIERARCHY},
        transform=[Generalize(levels={"age": level}, suppress_at_most=1.0)],
        guarantees=[KAnonymity(k=k)],
        measures=[ProsecutorRisk(), InformationLoss(measure="ncp")],
        seed={"insecure": SEED},
        allow_insecure_seed=True,
    )


def test_policies_over_one_frame() -> None:
    found = pp.compare(FRAME, [policy(level=1), policy(level=2), policy(k=6, level=2)])
    assert [row["outcome"] for row in found.rows] == ["pass", "pass", "pass"]
    assert [row["policy"][:2] for row in found.rows] == ["#1", "#2", "#3"]
    table = found.to_pandas()
    assert table["prosecutor_risk"].is_monotonic_decreasing
    assert table["information_loss.ncp"].is_monotonic_increasing
    assert repr(found) == "RiskUtilityMap(3 points, 3 met all guarantees, 3 Pareto-optimal)"


def test_stages_under_one_policy_and_a_grid_of_it_agree() -> None:
    stages = [Generalize(levels={"age": level}, suppress_at_most=1.0) for level in (1, 2)]
    found = pp.compare(FRAME, [stages[0], [TopCode(columns=["age"], at=97134), stages[1]]], policy=policy())
    assert [row["stages"] for row in found.rows] == ["#1: generalize", "#2: top_code + generalize"]
    grid = pp.compare(FRAME, policy=policy(), grid={"transform[0].generalize.levels.age": [1, 2]})
    same = [name for name in found.rows[0] if name not in ("stages", "pareto")]
    assert [found.rows[0][name] for name in same] == [grid.rows[0][name] for name in same]


def test_the_command_line_gives_the_same_figures(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "people.parquet")
    written = tmp_path / "policy.yaml"
    document = {**policy().document, "source": {"path": str(tmp_path / "people.parquet")}}
    document |= {"seed": {"insecure": SEED}, "allow_insecure_seed": True}
    written.write_text(json.dumps(document))
    grid = {"transform[0].generalize.levels.age": [1, 2]}
    (tmp_path / "grid.json").write_text(json.dumps(grid))
    done = CliRunner().invoke(app, ["compare", str(written), "--grid", str(tmp_path / "grid.json"), "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(pp.compare(None, policy=written, grid=grid).to_dict()))


def test_two_runs(tmp_path: Path) -> None:
    runs = [policy(level=level).release(FRAME, str(tmp_path / f"out{level}")) for level in (1, 2)]
    found = pp.compare(*runs)
    done = CliRunner().invoke(app, ["compare", runs[0].path, runs[1].path, "--json"])
    assert json.loads(done.stdout) == json.loads(json.dumps(found.to_dict()))
    assert {row["entry"].split(" ")[0] for row in found.rows} >= {"k_anonymity", "prosecutor_risk"}
    assert len(found.to_pandas()) == len(found.rows)
    assert repr(found).startswith("RunComparison(")
    check_shown(found)
    check_shown(pp.compare(runs[0].record, runs[1].record))


def test_no_value_is_shown() -> None:
    check_shown(pp.compare(FRAME, [policy(), policy(level=2)]))
    check_shown(pp.compare(FRAME, policy=policy(), grid={"columns.age.hierarchy": [{"intervals": {"widths": [7]}}]}))


def check_shown(found: Any) -> None:
    page = Page.of(found._repr_html_())
    assert page.tags <= {"div", "p", "b", "table", "caption", "tr", "th", "td"}
    assert len(repr(found)) <= 200
    assert "\n" not in repr(found)
    for secret in SECRETS:
        assert secret not in found._repr_html_() + repr(found)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((FRAME,), {}, "give two finished runs; a frame and a list"),
        ((FRAME, []), {}, "give two finished runs; a frame and a list"),
        ((FRAME, [TopCode(columns=["age"], at=3)]), {}, "measures of policy="),
        ((FRAME, [policy(), TopCode(columns=["age"], at=3)]), {}, "policies, or stages"),
        ((FRAME, [3]), {}, "int is not a policy"),
        ((FRAME,), {"grid": {"a.b": [1]}}, "varies one policy"),
        ((FRAME, [policy()]), {"policy": policy()}, "not both"),
        ((FRAME, [policy(), policy()]), {"risk": ["average_rsk"]}, "is called 'average_rsk'"),
        (("nowhere", "elsewhere"), {"risk": ["a"]}, "not for finished runs"),
        (("nowhere", "elsewhere"), {}, "is not a finished run"),
    ],
)
def test_wrong_calls(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pp.compare(*arguments, **options)
