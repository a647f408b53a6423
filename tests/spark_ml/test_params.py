"""Every transformer has an estimator whose Params are its parameters; none of this starts Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.ml import Pipeline
from pyspark.ml.param import Params
from pyspark.ml.tuning import ParamGridBuilder

import privpipe.spark as pps
from privpipe.blocks.parameters import parameters_of
from privpipe.draws import Seed
from privpipe.errors import UnsupportedError, UsageError
from privpipe.hierarchies import Hierarchy
from privpipe.models import KAnonymity
from privpipe.roles import Roles
from privpipe.spark.parameters import names_of
from privpipe.transforms import CATALOGUE

OPTIONS = {"roles", "hierarchies", "guarantees", "recordId", "personId", "householdId", "seed"}
SECRET = "5b1de2a1c6b9d1d9a1a7b5cdd4f0b8f24be3a51d7c5e6ef1"


@pytest.mark.parametrize("name", CATALOGUE.class_names)
def test_the_params_of_an_estimator_are_the_parameters_of_its_transformer(name: str) -> None:
    transformer: Any = CATALOGUE.of_class(name)
    estimator, model = getattr(pps, name), getattr(pps, f"{name}Model")
    assert (estimator.__module__, estimator.__qualname__, model.__name__) == ("privpipe.spark", name, f"{name}Model")
    made = estimator()
    found = {param.name for param in made.params}
    own = set(names_of(transformer).values())
    assert len(own) == len(parameters_of(transformer))
    assert own | OPTIONS <= found
    assert len(found - own - OPTIONS) == 2, "nulls and mark of the policy, under one name or the other"
    assert {param.name for param in model().params} == found
    for param in found:
        large = param[:1].upper() + param[1:]
        assert hasattr(made, f"get{large}")
        assert hasattr(made, f"set{large}")
        assert not hasattr(model, f"set{large}"), "what was learnt does not change with a Param"
    told = made.explainParams()
    for text in transformer.descriptions().values():
        assert text in told


@pytest.mark.parametrize("name", CATALOGUE.class_names)
def test_an_estimator_represents_the_very_transformer(name: str) -> None:
    """Each of its examples, by the Params: the defaults are those of the fields."""
    transformer: Any = CATALOGUE.of_class(name)
    names = names_of(transformer)
    for example in transformer.examples():
        given = {names[field]: value for field, value in example.parameters().items()}
        assert getattr(pps, name)(**given)._stage() == transformer.build(_plain(example.parameters()))


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    from privpipe.blocks.verdict import plain

    return {name: plain(value) for name, value in parameters.items()}


def test_columns_have_the_name_that_spark_gives_them_and_ours() -> None:
    for given in ({"inputCols": ["income"]}, {"columns": ("income",)}):
        swap = pps.RankSwap(**given)
        assert swap.getInputCols() == swap.getColumns() == swap.getOrDefault(swap.columns) == ["income"]
    assert swap.setColumns(["age"]).getInputCols() == ["age"]
    with pytest.raises(UsageError, match="'columns' is 'inputCols' by another name"):
        pps.RankSwap(inputCols=["income"], columns=["income"])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: pps.RankSwap(inputCol=["income"]), "RankSwap: unknown param 'inputCol'; did you mean 'inputCols'"),
        (lambda: pps.Generalize(suppress_at_most=0.1), "did you mean 'suppressAtMost'"),
        (lambda: pps.RankSwap(p=2), "RankSwap: p must be"),
        (lambda: pps.RankSwap(p="much"), "RankSwap: p must be"),
        (lambda: pps.RankSwap(inputCols="income"), "inputCols: must be a list"),
        (lambda: pps.RankSwap(partner="any"), "RankSwap: partner must be"),
        (lambda: pps.RankSwap().setP(-1), "RankSwap: p must be"),
        (lambda: pps.Generalize(levels={"age": "much"}), r"Generalize: levels\.age must be"),
        (lambda: pps.Generalize(roles={"sensible": ["a"]}), "roles has no 'sensible'; did you mean 'sensitive'"),
        (lambda: pps.Generalize(roles=["a"]), "roles must be"),
        (lambda: pps.Generalize(hierarchies={"age": {"interval": {}}}), "interval"),
        (lambda: pps.Generalize(hierarchies=["age"]), "hierarchies must be a mapping"),
        (lambda: pps.Generalize(guarantees=[{"k_anonimity": {}}]), "unknown model 'k_anonimity'"),
        (lambda: pps.Generalize(guarantees=[KAnonymity()]), "has no threshold"),
        (lambda: pps.Generalize(guarantees="k_anonymity"), "must be a list of models"),
        (lambda: pps.RankSwap(policyNulls="any"), "policyNulls must be one of"),
        (lambda: pps.RankSwap(recordId=7), "recordId must be a text"),
        (lambda: pps.RankSwap(seed=42), "seed: give bytes, text or a Seed"),
        (lambda: pps.RankSwap(seed={"env": "NAME"}), "a mapping has one key of"),
        (lambda: pps.RankSwap()._stage(), "RankSwap: inputCols is required"),
        (lambda: pps.RankSwap(inputCols=["a"], p=0.1).fit([1]), "takes a Spark DataFrame, not list"),
        (lambda: pps.ReleaseGate(seed=1), "unknown param 'seed'"),
        (lambda: pps.Release(policy=7), "policy must be a Policy"),
    ],
)
def test_what_is_wrong_is_said_by_name(wrong: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        wrong()


def test_a_secret_is_shown_by_nothing() -> None:
    for given in (SECRET, SECRET.encode(), Seed.of(SECRET), {"insecure": SECRET}):
        swap = pps.RankSwap(inputCols=["income"], p=0.1, seed=given)
        assert SECRET not in swap.explainParams() + repr(swap.getSeed()) + repr(swap.extractParamMap())
    assert pps.RankSwap(seed={"from_env": "NAME"}).getSeed() == {"from_env": "NAME"}


def test_options_are_kept_as_json_knows_them() -> None:
    roles = Roles(quasi_identifiers=["age"], sensitive=["illness"])
    found = pps.Generalize(roles=roles, guarantees=[KAnonymity(k=3)], hierarchies={"age": "age.csv"})
    assert found.getRoles() == {"quasi_identifiers": ["age"], "sensitive": ["illness"]}
    assert found.getGuarantees() == [{"k_anonymity": {"k": 3}}]
    assert found.getHierarchies() == {"age": {"file": "age.csv"}}
    options = found._options()
    assert (options["roles"], options["guarantees"]) == (roles, [KAnonymity(k=3)])


def test_copies_and_grids_are_those_of_spark() -> None:
    swap = pps.RankSwap(inputCols=["income"], p=0.1)
    grid = ParamGridBuilder().addGrid(swap.p, [0.05, 0.2]).addGrid(swap.columns, [["age"]]).build()
    copies = [swap.copy(each) for each in grid]
    assert [(each.getP(), each.getInputCols()) for each in copies] == [(0.05, ["age"]), (0.2, ["age"])]
    assert (swap.getP(), swap.uid) == (0.1, copies[0].uid)
    pipeline = Pipeline(stages=[swap]).copy({swap.p: 0.3})
    assert pipeline.getStages()[0].getP() == 0.3
    assert isinstance(swap, Params)


def test_what_no_file_must_hold_is_not_saved() -> None:
    path = "/nowhere/at/all"
    with pytest.raises(UsageError, match=r"RankSwap is not saved: seed: a seed itself is never saved.*from_env"):
        pps.RankSwap(seed=SECRET).save(path)
    table = Hierarchy.from_rows([["a", "*"], ["b", "*"]])
    with pytest.raises(UsageError, match="Generalize is not saved: hierarchies: that of 'zip' was made in Python"):
        pps.Generalize(hierarchies={"zip": table}).write().overwrite().save(path)
    columns = {"age": {"role": "quasi_identifier"}}
    policy = {"columns": columns, "guarantees": [{"k_anonymity": {"k": 2}}], "seed": {"insecure": SECRET}}
    release = pps.Release(policy=policy)
    assert SECRET not in release.explainParams()
    with pytest.raises(UsageError, match="Release is not saved: policy: its seed is in it"):
        release.save(path)


def test_a_stream_is_refused_with_what_to_do_instead() -> None:
    stream = type("Stream", (), {"isStreaming": True})()
    gate = pps.ReleaseGate(guarantees=[KAnonymity(k=2)])
    for stage in (pps.RankSwap(inputCols=["income"], p=0.1), gate):
        with pytest.raises(UnsupportedError, match=r"foreachBatch"):
            stage.fit(stream)


def test_a_model_that_learnt_nothing_transforms_nothing() -> None:
    with pytest.raises(UsageError, match="RankSwapModel: learnt nothing yet"):
        pps.RankSwapModel().transform(None)


def test_the_room_lists_what_it_offers() -> None:
    assert {"RankSwap", "RankSwapModel", "ReleaseGate", "Release"} <= set(dir(pps))
    for name in ("rank_swap", "Swap", "SwapModel", "Model", "KAnonymity"):
        with pytest.raises(AttributeError, match=name):
            getattr(pps, name)


def test_the_import_loads_pyspark_and_nothing_else_of_weight() -> None:
    code = (
        "import sys, pyspark.ml; before = {name.partition('.')[0] for name in sys.modules}\n"
        "import privpipe.spark; privpipe.spark.RankSwap\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - before - sys.stdlib_module_names))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "['annotated_types', 'privpipe', 'typing_extensions']"
