"""Models that look at roles, trees, record counts or several columns work as expectations too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from tests.validated_frames import batch_of

gx = pytest.importorskip("great_expectations")
import privpipe.gx as ppgx  # noqa: E402  # after the check that great_expectations is there

pytestmark = [pytest.mark.gx, pytest.mark.filterwarnings("default")]

FRAME = pd.DataFrame({"zip": ["a"] * 6 + ["b"] * 4, "illness": ["flu", "cold"] * 5, "wage": [1, 2, 3, 4, 5] * 2})
TREE = {"tree": {"any": {"air": ["flu", "cold"], "other": ["gout"]}}}


def result_of(name: str, **parameters: Any) -> Any:
    settings = {"quasi_identifiers": ["zip"], "sensitive": ["illness", "wage"]} | parameters
    return batch_of(FRAME).validate(getattr(ppgx, name)(**settings))


@pytest.mark.parametrize(
    ("name", "parameters", "observed"),
    [
        ("ExpectPSensitiveKAnonymity", {"k": 4, "p": 2}, {"k": 4, "p": 2}),
        ("ExpectAlphaKAnonymity", {"k": 4, "alpha": 0.5}, {"k": 4, "alpha": 0.5}),
        ("ExpectEstimatedKMap", {"k": 3, "population_size": 1000, "significance": 0.05}, 4),
        ("ExpectTCloseness", {"column": "illness", "t": 0.1, "distance": "hierarchical", "hierarchy": TREE}, 0.0),
        ("ExpectPopulationUniqueness", {"at_most": 0.1, "population_size": 1000}, 0.0),
    ],
)
def test_it_passes_with_its_figure(name: str, parameters: dict[str, Any], observed: Any) -> None:
    found = result_of(name, **parameters)
    assert found.success, found
    assert found.result["observed_value"] == observed


def test_several_groupings_sets_of_items_and_a_base_in_a_file_are_judged_as_anywhere(tmp_path: Path) -> None:
    found = result_of("ExpectKmAnonymity", k=2, m=1, quasi_identifiers=["zip", "wage"], sensitive=["illness"])
    assert (found.success, found.result["observed_value"]) == (True, 2)  # two records a wage
    found = result_of("ExpectKmAnonymity", k=6, m=1, items="illness", separator=";")
    assert (found.success, found.result["observed_value"]) == (False, 5)
    (tmp_path / "census.csv").write_text("illness,count\nflu,1\ncold,1\n", encoding="utf-8")
    base = {"file": str(tmp_path / "census.csv")}
    found = result_of("ExpectTCloseness", column="illness", t=0.1, distance="equal", base=base)
    assert (found.success, found.result["observed_value"]) == (True, 0.0)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (pp.measures.HomogeneityAttack(column="illness"), "homogeneity_attack has no threshold, .* `at_most`"),
        (pp.models.KAnonymity(), "k_anonymity has no threshold"),
        (pp.models.TCloseness(column="illness", t=0.1, base={"flu": 3, "cold": 1}), "holds no table: write the base"),
        (pp.models.BasicBetaLikeness(column="illness", beta=1.0, base=FRAME[["illness"]]), "give base={'file': path}"),
    ],
)
def test_a_suite_refuses_what_no_expectation_can_be(entry: Any, text: str) -> None:
    with pytest.raises(pp.errors.UsageError, match=text):
        ppgx.suite_of([entry], {"zip": "quasi_identifier", "illness": "sensitive"}, name="visits")
