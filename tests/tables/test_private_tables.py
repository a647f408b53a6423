"""Private tables from records to publication: bounded contributions, fixed labels, a budget, and attacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, PolicyError, Refused, UsageError
from privpipe.models import DifferentialPrivacy
from privpipe.tables import MinimumFrequency, PrivateTable, RoundTable, SuppressTable, TableAudit
from privpipe.tables.aggregation import COUNT, TableSpec, aggregated
from privpipe.tables.private_noise import PrivateNoise
from privpipe.tables.private_tables import SpendBook
from privpipe.tables.responses import responses_of
from privpipe.tables.table import Table
from tests.tables.test_aggregation import load, rows_of

Documents = Callable[..., dict[str, Any]]
ASKED = DifferentialPrivacy(epsilon=1.0, delta=1e-6)
DOMAIN = {"region": ["north", "south", "west", "east"], "sex": ["f", "m"]}


def people(number: int = 60, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "person": draw.integers(0, number, 2 * number),
            "region": draw.choice(["north", "south", "west", "nowhere"], 2 * number),
            "sex": draw.choice(["f", "m"], 2 * number),
            "cost": draw.integers(-20, 90, 2 * number),
        }
    )


def noise(folder: Path, **more: Any) -> PrivateTable:
    given = {
        "epsilon": 1,
        "limit": 5,
        "ledger": str(folder / "ledger"),
        "contribution_bound": 2,
        "bounds": {"cost": [0, 50]},
        "domain": DOMAIN,
    }
    return PrivateTable(**{**given, **more})


def table(stage: PrivateTable, frame: pd.DataFrame | None = None, *responses: Any, **more: Any) -> Table:
    count = pp.tables.Aggregate(
        **{"by": ["region", "sex"], "responses": [*(responses or ("count", {"sum": "cost"}))], **more}
    )
    made: Table = count.apply(people() if frame is None else frame, person_id="person", stages=[stage])
    return made


@pytest.mark.parametrize("bound", [1, 2])
def test_contributions_are_bounded_and_clipped_on_every_engine(engine: Engine, bound: int) -> None:
    """Each contributor is in as many leaf cells as allowed, with the clipped sum of its records there."""
    rows = [row for row in rows_of(5, 150, 25) if row["town"] != "zz" or row["age"] > 2]
    spec = TableSpec(
        by=("town", "sex"),
        responses=responses_of(["count", {"sum": "cost"}]),
        contribution_bound=bound,
        bounds={"cost": (Fraction(0), Fraction(4))},
        domain={"town": ("x", "y", "far"), "sex": ("f", "m", "d")},
    )
    found = aggregated(engine, load(engine, rows), spec, person="person", secret=b"k" * 32)
    assert [each.labels for each in found.cells.dimensions] == [
        ("Total", "far", "x", "y", "(missing)"),
        ("Total", "d", "f", "m", "(missing)"),
    ]
    inside = [row for row in rows if row["town"] in ("x", "y", None)]
    whole: dict[tuple[Any, Any, Any], int | None] = {}
    for row in inside:
        key = (row["person"], row["town"], row["sex"])
        before, value = whole.get(key), row["cost"]
        whole[key] = value if before is None else before + (value or 0)
    leaf = np.array([code.all() for code in found.cells.codes])
    counts, sums = found.figures[COUNT], found.figures["cost"]
    held: dict[Any, int] = {}
    for person, _, _ in whole:
        held[person] = held.get(person, 0) + 1
    assert counts.totals[leaf].sum() == sum(min(bound, number) for number in held.values())
    by_cell: dict[tuple[str, str], list[int]] = {}
    for (_, town, sex), total in whole.items():
        by_cell.setdefault(("(missing)" if town is None else town, sex), []).append(
            0 if total is None else min(max(total, 0), 4)
        )
    for at in np.flatnonzero(leaf):
        labels = tuple(d.labels[c] for d, c in zip(found.cells.dimensions, found.cells.codes[at], strict=True))
        every = sorted(by_cell.get(labels, []))
        number, total = int(counts.totals[at]), int(sums.totals[at])
        assert number <= len(every)
        # Which of its cells a contributor keeps is drawn; the sum is one of so many clipped parts.
        assert sum(every[:number]) <= total <= sum(every[len(every) - number :])


def test_the_choice_of_cells_is_the_same_on_every_engine(engine: Engine) -> None:
    rows = rows_of(5, 150, 25)
    spec = TableSpec(
        by=("town",),
        responses=responses_of(["count"]),
        contribution_bound=1,
        domain={"town": ("x", "y", "zz")},
    )
    found = aggregated(engine, load(engine, rows), spec, person="person", secret=b"k" * 32)
    assert found.figures[COUNT].totals.tolist() == CHOSEN


CHOSEN = [25, 7, 6, 7, 5]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("split", ["leaves", "levels"])
def test_a_private_table_adds_up_and_names_its_noise(tmp_path: Path, mechanism: str, split: str) -> None:
    budget = {"epsilon": 1, "rho": None} if mechanism == "laplace" else {"epsilon": None, "rho": 0.01, "delta": 1e-6}
    stage = noise(tmp_path, mechanism=mechanism, split=split, **budget)
    made = stage.apply(table(stage))
    public = made.public()
    assert set(public["count_status"]) == set(public["sum_cost_status"]) == {"noisy"}
    for measure in made.measures.values():
        assert not (made.cells.relations @ measure.shown).any()
        assert (measure.shown != measure.figures.totals).any()
    process = made.process
    assert process is not None
    unit = "epsilon" if mechanism == "laplace" else "rho"
    levels = 4 if split == "levels" else 1
    spent: dict[str, Any] = {unit: Fraction(process[unit])}
    kernel = PrivateNoise(
        contribution_bound=2,
        bounds={"cost": (0, 50)},
        mechanism=mechanism,
        split=split,
        **spent,
    )
    for key in (COUNT, "cost"):
        assert process["scales"][key] == float(kernel.scale(key, Fraction(1, 2 * levels), leaves=split == "leaves"))
    assert set(process) <= {
        "mechanism", "epsilon", "rho", "contribution_bound", "neighbours", "split", "levels", "scales", "bounds",
        "labels_fixed", "delta", "epsilon_of_all_tables",
    }  # fmt: skip
    assert pp.check(made, [ASKED]).passed


def test_means_are_of_noisy_parts(tmp_path: Path) -> None:
    stage = noise(tmp_path, epsilon=0.05)
    public = stage.apply(table(stage, None, "count", {"sum": "cost"}, {"mean": "cost"})).public()
    for count, total, mean in zip(public["count"], public["sum_cost"], public["mean_cost"], strict=True):
        assert (pd.isna(mean) and count <= 0) or mean == total / count


def test_labels_do_not_depend_on_the_records(tmp_path: Path) -> None:
    stage = noise(tmp_path)
    some, none = table(stage), table(stage, people()[:1])
    assert some.cells.dimensions == none.cells.dimensions
    assert "nowhere" not in some.cells.dimensions[0].labels
    # A hierarchy from a file fixes labels as well.
    rows = [[name, "coast" if name in ("north", "west") else "inland", "*"] for name in DOMAIN["region"]]
    made = pp.tables.Aggregate(by=["region"], responses=["count"]).apply(
        people(),
        person_id="person",
        stages=[noise(tmp_path, domain={})],
        hierarchies={"region": pp.Hierarchy.from_rows(rows)},
    )
    assert set(made.cells.dimensions[0].labels) == {"Total", "coast", "inland", *DOMAIN["region"], "(missing)"}
    with pytest.raises(UsageError, match="labels of 'sex' must be fixed"):
        table(noise(tmp_path, domain={"region": ["north"]}))


def test_values_of_a_domain_are_read_as_values_of_their_column(embedded: Engine) -> None:
    """Compared as written, `True` and 30.0 would be in no record, and noise around zero published for all."""
    rows = pa.table({"ok": [True, True, False], "age": [30.0, 30.0, 40.5], "person": [1, 2, 3]})

    def counts(column: str, *values: str) -> list[int]:
        spec = TableSpec(by=(column,), responses=responses_of(["count"]), contribution_bound=1, domain={column: values})
        records = embedded.scan(Source(data=rows))
        found = aggregated(embedded, records, spec, person="person", secret=b"k" * 32)
        return list(found.figures[COUNT].totals.tolist())

    assert counts("ok", "True", "False") == counts("ok", "1", "0") == counts("ok", "true", "false") == [3, 1, 2, 0]
    assert counts("age", "30.0", "40.50") == counts("age", "30", "40.5") == [3, 2, 1, 0]
    with pytest.raises(DataError, match=r"domain.ok: a label is not of the column's type \(boolean\)"):
        counts("ok", "yes", "no")


def test_every_run_draws_again_and_pays_until_nothing_is_left(tmp_path: Path) -> None:
    stage = noise(tmp_path, limit=3)
    made = table(stage, None, "count")
    shown = [stage.apply(made).measures[COUNT].shown.tolist() for _ in range(3)]
    assert len({tuple(each) for each in shown}) == 3
    with pytest.raises(Refused, match="costs epsilon 1, and 0 of 3 is left. Nothing was published"):
        stage.apply(made)
    assert SpendBook(tmp_path / "ledger").spent("frames", "epsilon") == 3


def test_the_seed_draws_nothing(tmp_path: Path) -> None:
    stage = noise(tmp_path, epsilon=0.01)
    count = pp.tables.Aggregate(by=["region"], responses=["count"])
    seed = Seed.insecure("same")
    two = [
        stage.apply(count.apply(people(), person_id="person", seed=seed, stages=[stage]), seed=seed) for _ in range(2)
    ]
    assert two[0].measures[COUNT].figures.totals.tolist() == two[1].measures[COUNT].figures.totals.tolist()
    assert two[0].measures[COUNT].shown.tolist() != two[1].measures[COUNT].shown.tolist()


def test_a_run_that_is_killed_between_spend_and_draw_has_spent(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from privpipe.tables import private_noise
        from tests.tables.test_private_tables import noise, table

        def killed(scale):
            os.kill(os.getpid(), signal.SIGKILL)

        private_noise.discrete_laplace = killed
        stage = noise(Path({str(tmp_path)!r}), limit=1)
        stage.apply(table(stage))
        """
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL
    stage = noise(tmp_path, limit=1)
    with pytest.raises(Refused, match="0 of 1 is left"):
        stage.apply(table(stage))


def test_several_tables_share_the_budget(tmp_path: Path) -> None:
    stage = noise(tmp_path, limit=1)
    count = pp.tables.Aggregate(
        tables={name: {"by": [name], "responses": ["count"]} for name in ("region", "sex")},
    )
    both = stage.apply(count.apply(people(), person_id="person", stages=[stage]))
    assert [each.process["epsilon"] for each in both.values()] == ["1/2", "1/2"]
    verdict = pp.check(both, [ASKED]).verdicts[0]
    assert verdict.observed == {"epsilon": 1.0, "delta": 0.0}
    with pytest.raises(Refused, match=r"cost epsilon 1 together, required at most 0\.5"):
        pp.check(both, [DifferentialPrivacy(epsilon=0.5, delta=1e-6)])


def test_noise_without_a_record_and_records_without_noise_fail(tmp_path: Path) -> None:
    stage = noise(tmp_path)
    made = table(stage)
    with pytest.raises(Refused, match="needs the process record"):
        pp.check(made, [ASKED])
    noisy = stage.apply(made)
    with pytest.raises(Refused, match="is published without noise"):
        pp.check({"a": noisy, "b": made}, [ASKED])
    assert noisy.process is not None
    forged = replace(made, process=noisy.process)
    with pytest.raises(Refused, match="changed by its true figures"):
        pp.check(forged, [ASKED])
    for name, value, message in (
        ("contribution_bound", 1, "more leaf cells"),
        ("bounds", {"cost": [0, 10]}, "other bounds"),
        ("labels_fixed", False, "made from the records"),
        ("epsilon", "3/2", "cost epsilon 1.5 together"),
    ):
        with pytest.raises(Refused, match=message):
            pp.check(replace(noisy, process={**noisy.process, name: value}), [ASKED])


def test_nothing_else_is_done_to_a_private_table(tmp_path: Path) -> None:
    stage = noise(tmp_path)
    made = table(stage)
    noisy = stage.apply(made)
    for rule in (MinimumFrequency(at_least=3), TableAudit()):
        with pytest.raises(Refused, match="does not apply to tables with noise of private_table"):
            pp.check(noisy, [rule])
    with pytest.raises(UsageError, match="is noisy already"):
        RoundTable(base=5).apply(noisy)
    with pytest.raises(UsageError, match="nothing is hidden by its true figures"):
        SuppressTable().apply(noisy, guarantees=[MinimumFrequency(at_least=30)])
    with pytest.raises(UsageError, match="let private_table be the only stage"):
        stage.apply(RoundTable(base=5).apply(made))
    with pytest.raises(UsageError, match="let private_table be the only stage"):
        stage.apply(noisy)
    plain = pp.tables.Aggregate(by=["region"], responses=["count"]).apply(people(), person_id="person")
    with pytest.raises(UsageError, match="was not counted with bounded contributions"):
        stage.apply(plain)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": None}, "laplace noise takes epsilon"),
        ({"rho": 1}, "laplace noise takes epsilon"),
        ({"bounds": {"cost": [5, 5]}}, "the first below the second"),
        ({"domain": {"region": ["a", "a"]}}, "give distinct values"),
        ({"delta": 1e-6}, "delta is for gaussian noise"),
    ],
    ids=str,
)
def test_bad_parameters_are_usage_errors(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        noise(tmp_path, **changes)


def test_sums_need_bounds_and_weights_are_not_served(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="need bounds for a contributor's part"):
        table(noise(tmp_path, bounds={}))
    with pytest.raises(UsageError, match="`weight` are not served"):
        table(noise(tmp_path), None, "count", weight="cost")
    with pytest.raises(UsageError, match="more than its 0 decimals"):
        table(noise(tmp_path, bounds={"cost": [0, 0.5]}))


@pytest.fixture
def document(tmp_path: Path) -> Documents:
    people().to_parquet(tmp_path / "people.parquet")

    def made(**changes: Any) -> dict[str, Any]:
        private = {
            "epsilon": 1,
            "limit": 2,
            "ledger": str(tmp_path / "ledger"),
            "contribution_bound": 2,
            "bounds": {"cost": [0, 50]},
            "domain": DOMAIN,
        }
        return {
            "version": 1,
            "columns": {
                "region": {"role": "quasi_identifier"},
                "sex": {"role": "quasi_identifier"},
                "cost": {"role": "insensitive"},
                "person": {"role": "identifier"},
            },
            "source": {"path": str(tmp_path / "people.parquet")},
            "sink": {"path": str(tmp_path / "out")},
            "person_id": "person",
            "transform": [
                {"aggregate": {"by": ["region", "sex"], "responses": ["count", {"sum": "cost"}, {"mean": "cost"}]}},
                {"private_table": private},
            ],
            "guarantees": [{"differential_privacy": {"epsilon": 1.0, "delta": 1e-6}}],
            **changes,
        }

    return made


def test_a_policy_publishes_until_its_budget_is_spent(document: Documents, tmp_path: Path) -> None:
    first = pp.release(document())
    assert first.published
    assert first.assessment.verdicts[0].name == "differential_privacy"
    shown = pd.read_parquet(tmp_path / "out" / "table.parquet")
    assert set(shown["count_status"]) == {"noisy"}
    assert set(shown["region"]) == {"Total", *DOMAIN["region"], "(missing)"}
    pp.release(document())
    assert pd.read_parquet(tmp_path / "out" / "table.parquet")["count"].tolist() != shown["count"].tolist()
    before = (tmp_path / "out" / "table.parquet").read_bytes()
    with pytest.raises(Refused, match="0 of 2 is left"):
        pp.release(document())
    assert (tmp_path / "out" / "table.parquet").read_bytes() == before


def test_public_documents_say_the_noise_and_no_true_figure(document: Documents, tmp_path: Path) -> None:
    pp.release(document())
    home = tmp_path / "out" / "_privpipe"
    plan = json.loads((home / "plan.json").read_text())
    process = plan["stages"][1]["parameters"]["process"]["table"]
    assert process["mechanism"] == "discrete laplace"
    assert process["bounds"] == {"cost": [0, 50]}
    assert "ledger" not in plan["stages"][1]["parameters"]
    manifest = json.loads((home / "manifest.json").read_text())
    assert manifest["input"]["records"] is None
    for file in home.iterdir():
        assert str(tmp_path / "ledger") not in file.read_text()
    verdict = json.loads((home / "verdict.json").read_text())
    for drawn in ("run_id", "plan_hash", "policy_hash", "versions"):  # a day, digests: 120 may be part of them
        verdict.pop(drawn, None)
    assert "120" not in json.dumps(verdict)  # records of the source


def test_another_policy_over_the_same_source_shares_the_budget(document: Documents, tmp_path: Path) -> None:
    pp.release(document())
    other = document(
        transform=[
            {"aggregate": {"by": ["sex"], "responses": ["count"]}},
            {"private_table": {**document()["transform"][1]["private_table"], "epsilon": 1.5}},
        ],
        sink={"path": str(tmp_path / "other")},
        guarantees=[{"differential_privacy": {"epsilon": 2.0, "delta": 1e-6}}],
    )
    with pytest.raises(Refused, match=r"costs epsilon 1\.5, and 1 of 2 is left"):
        pp.release(other)


def test_a_refused_epsilon_publishes_nothing(document: Documents, tmp_path: Path) -> None:
    asked = [{"differential_privacy": {"epsilon": 0.5, "delta": 1e-6}}]
    with pytest.raises(Refused, match=r"required at most 0\.5"):
        pp.release(document(guarantees=asked))
    assert not (tmp_path / "out").exists()


def test_a_ledger_within_the_sink_is_refused(document: Documents, tmp_path: Path) -> None:
    inside = document()
    inside["transform"][1]["private_table"]["ledger"] = str(tmp_path / "out" / "ledger")
    with pytest.raises(UsageError, match="is inside the sink"):
        pp.release(inside)
    with pytest.raises(UsageError, match="local"):
        noise(tmp_path, ledger="s3://bucket/ledger")


def test_a_link_to_the_source_does_not_bring_another_budget(document: Documents, tmp_path: Path) -> None:
    pp.release(document())
    (tmp_path / "link.parquet").symlink_to(tmp_path / "people.parquet")
    pp.release(document(source={"path": str(tmp_path / "link.parquet")}))
    with pytest.raises(Refused, match="0 of 2 is left"):
        pp.release(document(source={"path": str(tmp_path / "link.parquet")}))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "rules on true figures": (
        {"guarantees": [{"minimum_frequency": {"at_least": 3}}]},
        "minimum_frequency does not apply to tables with noise",
    ),
    "an audit": ({"guarantees": [{"table_audit": {}}]}, "table_audit does not apply to tables with noise"),
}


@pytest.mark.parametrize("name", WRONG)
def test_policies_that_look_at_true_figures_are_refused(document: Documents, name: str) -> None:
    changes, message = WRONG[name]
    with pytest.raises(PolicyError, match=message):
        pp.Policy.from_dict(document(**changes))


def test_stages_next_to_the_noise_are_refused(document: Documents) -> None:
    more = document()
    more["transform"].append({"round_table": {"base": 5}})
    with pytest.raises(PolicyError, match="the only stage after aggregate"):
        pp.Policy.from_dict(more)
    more = document()
    more["transform"].insert(0, {"top_code": {"columns": ["cost"], "at_most": 50}})
    with pytest.raises(PolicyError):
        pp.Policy.from_dict(more)
    more = document()
    more["transform"][1]["private_table"]["bounds"] = {}
    with pytest.raises(PolicyError, match="bounds for a contributor"):
        pp.Policy.from_dict(more)


def test_a_policy_without_an_audit_does_not_warn(document: Documents) -> None:
    assert pp.Policy.from_dict(document()).warnings == ()
