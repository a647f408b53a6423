"""A distribution that is installed adds to everything that a policy, a suite or a person can ask for."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

pytestmark = pytest.mark.deep
Runner = Callable[..., subprocess.CompletedProcess[str]]
POLICY = """
version: 1
source: {path: people.csv}
engine: thrifty
engines: {thrifty: {threads: 1}}
columns:
  zip: {role: quasi_identifier}
  town: {role: quasi_identifier, hierarchy: {initials: {after: "-"}, min_level: 1}}
  illness: {role: sensitive}
transform:
  - keep_prefix: {columns: [zip], characters: 2}
  - generalize: {levels: {town: 1}}
guarantees:
  - weighted_share: {column_of_interest: illness, at_most: 0.4, weight: 0.5}
  - k_anonymity: {k: 2}
measures:
  - worst_guess: {}
sink: {path: out/people}
seed: {from_file: seed}
"""
ROWS = [
    "zip,town,illness",
    *(f"{100 + at % 7},{['Crewe', 'Cove'][at % 2]},{['flu', 'gout'][at // 4 % 2]}" for at in range(40)),
]
CONFORM = """
import privpipe as pp
from privpipe.testing import catalogue_problems, conformance, stage_problems, verdict_problems
from privpipe import measures, models, transforms

model, measure, stage = models.WeightedShare, measures.WorstGuess, transforms.KeepPrefix
for room in (models, measures, transforms):
    assert catalogue_problems(room.CATALOGUE) == [], catalogue_problems(room.CATALOGUE)
examples = [*model.examples(), *measure.examples()]
report = conformance("embedded", models=examples)
assert not report.failures and report.passed > 100, report
for entry in examples:
    assert verdict_problems(entry, partitions=[3]) == []
for example in stage.examples():
    assert stage_problems(example) == []
judged = [models.KAnonymity(k=2), models.TCloseness(column="illness", t=0.2)]
report = conformance("thrifty", {"threads": 1}, models=judged)
assert not report.failures and report.passed, report
assert stage_problems(transforms.Round(columns=["income"], base=10), "thrifty", draws=False) == []
"""
SUITE = """
import pandas as pd
import privpipe.gx as ppgx
import great_expectations as gx

context = gx.get_context(mode="ephemeral")
frame = pd.DataFrame({"zip": ["1", "1", "2", "2"], "illness": ["flu", "gout", "flu", "flu"]})
batch = context.data_sources.add_pandas("p").add_dataframe_asset("a").add_batch_definition_whole_dataframe("b")
batch = batch.get_batch(batch_parameters={"dataframe": frame})
made = ppgx.ExpectWeightedShare(quasi_identifiers=["zip"], column_of_interest="illness", at_most=0.6)
found = batch.validate(made)
assert not found.success and found.result["observed_value"] == 1.0, found
assert "worst_guess" in ppgx.EXPECTATIONS
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a policy that uses every kind of plug-in."""
    (tmp_path / "release.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "people.csv").write_text("\n".join(ROWS) + "\n", encoding="utf-8")
    (tmp_path / "seed").touch(mode=0o600)
    (tmp_path / "seed").write_text("5b1de2a1c6b9d1d9a1a7b5cdd4f0b8f24be3a51d7c5e6ef1", encoding="utf-8")
    return tmp_path


def test_a_policy_uses_all_of_them_and_its_manifest_says_whose(python: Runner, place: Path) -> None:
    python("-m", "privpipe", "release", "release.yaml", cwd=place)
    manifest = json.loads((place / "out/people/_privpipe/manifest.json").read_text(encoding="utf-8"))
    verdict = json.loads((place / "out/people/_privpipe/verdict.json").read_text(encoding="utf-8"))
    assert manifest["versions"]["privpipe-sample"] == "0.3.0"
    assert manifest["engine"] == "thrifty"
    assert [row["name"] for row in (*verdict["guarantees"], *verdict["measures"])] == [
        "no_identifiers",
        "weighted_share",
        "k_anonymity",
        "worst_guess",
    ]
    assert verdict["guarantees"][1]["parameters"]["weight"] == 0.5


def test_a_manifest_names_no_distribution_that_is_not_in_use(python: Runner, place: Path) -> None:
    plain = """
    source: {path: people.csv}
    columns: {zip: {role: quasi_identifier}, town: {role: quasi_identifier}, illness: {role: insensitive}}
    guarantees: [{k_anonymity: {k: 1}}]
    sink: {path: out/people}
    seed: {from_file: seed}
    """
    (place / "release.yaml").write_text(dedent(plain), encoding="utf-8")
    python("-m", "privpipe", "release", "release.yaml", cwd=place)
    manifest = json.loads((place / "out/people/_privpipe/manifest.json").read_text(encoding="utf-8"))
    assert "privpipe-sample" not in manifest["versions"]


def test_the_schema_has_each(python: Runner) -> None:
    schema = json.loads(python("-m", "privpipe", "schema").stdout)
    properties = schema["$defs"]["one_table"]["properties"]
    assert "weighted_share" in properties["guarantees"]["items"]["properties"]
    assert "worst_guess" in properties["measures"]["items"]["properties"]
    assert "keep_prefix" in properties["transform"]["items"]["properties"]
    assert "thrifty" in properties["engine"]["enum"]
    assert "initials" in schema["$defs"]["hierarchy"]["properties"]


def test_people_are_told_of_each(python: Runner) -> None:
    listed = json.loads(python("-m", "privpipe", "explain", "--json").stdout)
    assert "weighted_share" in listed["privacy model"]
    told = python("-m", "privpipe", "explain", "weighted_share").stdout
    assert "plug-in of privpipe-sample 0.3.0" in told
    assert "column_of_interest: text (required)" in told
    assert "keep_prefix (privpipe-sample 0.3.0)" in python("-m", "privpipe", "doctor", "--engine", "thrifty").stdout
    rows = json.loads(python("-m", "privpipe", "plugins", "--json").stdout)["plugins"]
    assert {(row["group"], row["name"]) for row in rows} == {
        ("privpipe.models", "weighted_share"),
        ("privpipe.transforms", "keep_prefix"),
        ("privpipe.measures", "worst_guess"),
        ("privpipe.hierarchies", "initials"),
        ("privpipe.engines", "thrifty"),
    }
    assert {(row["distribution"], row["version"], row["state"]) for row in rows} == {("privpipe-sample", "0.3.0", "ok")}


def test_rooms_offer_each_and_load_none_before_it_is_asked_for(python: Runner) -> None:
    script = (
        "import sys, privpipe as pp\n"
        "pp.models.KAnonymity(k=2); pp.transforms.Round\n"
        "columns = {'a': {'role': 'quasi_identifier'}}\n"
        "assert pp.Policy.from_dict({'columns': columns, 'guarantees': [{'k_anonymity': {'k': 2}}]})\n"
        "import privpipe.plugins as plugins\n"
        "assert plugins.found.cache_info().currsize == 0\n"
        "assert 'WeightedShare' in dir(pp.models) and 'privpipe_sample' not in sys.modules\n"
        "assert pp.models.WeightedShare(column_of_interest='a', at_most=0.5).name() == 'weighted_share'\n"
        "from privpipe.reporting.entry_rows import catalogue_tables\n"
        "assert 'worst_guess' not in catalogue_tables() and 'worst_guess' in catalogue_tables(plug_ins=True)\n"
    )
    python("-c", script)


def test_they_conform_by_the_kit(python: Runner) -> None:
    python("-c", CONFORM)


@pytest.mark.gx
def test_a_suite_holds_its_expectations(python: Runner, tmp_path: Path) -> None:
    pytest.importorskip("great_expectations")
    python("-c", SUITE, cwd=tmp_path)
