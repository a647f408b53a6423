"""Models that look at roles, trees, record counts or several columns work as expectations too."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from privpipe.errors import UnsupportedError

gx = pytest.importorskip("great_expectations")
import privpipe.gx as ppgx  # noqa: E402  # after the check that great_expectations is there

pytestmark = [pytest.mark.gx, pytest.mark.filterwarnings("default")]

FRAME = pd.DataFrame({"zip": ["a"] * 6 + ["b"] * 4, "illness": ["flu", "cold"] * 5, "wage": [1, 2, 3, 4, 5] * 2})
TREE = {"tree": {"any": {"air": ["flu", "cold"], "other": ["gout"]}}}


def result_of(name: str, **parameters: Any) -> Any:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("source").add_dataframe_asset("asset")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": FRAME})
    settings = {"quasi_identifiers": ["zip"], "sensitive": ["illness", "wage"]} | parameters
    expectation = getattr(ppgx, name)(**settings)
    return batch.validate(expectation)


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


def test_several_groupings_are_refused_not_taken_for_one() -> None:
    with pytest.raises(UnsupportedError, match="one set of quasi-identifiers"):
        result_of("ExpectKmAnonymity", k=2, m=1, quasi_identifiers=["zip", "wage"], sensitive=["illness"])


def test_what_is_no_class_of_the_batch_is_refused_not_passed_over() -> None:
    with pytest.raises(UnsupportedError, match="not sets of items"):
        result_of("ExpectKmAnonymity", k=2, m=1, items="illness")
    with pytest.raises(UnsupportedError, match="not with a file"):
        result_of("ExpectTCloseness", column="illness", t=0.1, base={"file": "census.csv"})
