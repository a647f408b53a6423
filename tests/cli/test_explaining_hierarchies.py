"""`explain` shows what every hierarchy builder takes, and what it makes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from privpipe.cli.explain import described
from privpipe.hierarchies import BUILDERS, OPTION_KEYS
from privpipe.hierarchies.spec import builder_parameters
from privpipe.policy.catalogues import Catalogues


@pytest.mark.parametrize("name", BUILDERS)
def test_every_builder_is_explained_with_an_example_that_runs(run: Any, name: str) -> None:
    done = run("explain", name)
    assert done.exit_code == 0
    document = described(name)
    assert json.loads(run("explain", name, "--json").stdout) == document
    said = " ".join(done.stdout.split())
    for parameter in document["parameters"]:
        assert f" {parameter['name']}: {parameter['type']} (" in said
        assert parameter["about"]
    assert document["example"] in done.stdout
    assert len(document["labels"]) > 1
    for row in document["labels"]:
        assert "  " + " -> ".join(row) in done.stdout
        assert row[-1] == "*"


def test_all_builders_and_options_are_listed(run: Any) -> None:
    said = run("explain", "hierarchy").stdout
    assert all(f"\n  {name} " in said for name in BUILDERS)
    assert all(f"\n  {name}: " in said for name in OPTION_KEYS)
    assert "\n  hierarchy " in run("explain").stdout


def test_the_nearest_builder_is_offered(run: Any) -> None:
    assert "did you mean 'quantiles'?" in run("explain", "quantile").stderr


def test_no_entry_of_a_catalogue_is_called_as_a_builder() -> None:
    names = {name for room in Catalogues.shipped().every() for name in room}
    assert not names & {*BUILDERS, "hierarchy"}


def test_every_parameter_says_what_it_is() -> None:
    for name in BUILDERS:
        parameters = builder_parameters(name)
        assert all(each["about"] and each["schema"] for each in parameters)
        assert bool(parameters) == (name not in ("file", "rows", "tree"))
