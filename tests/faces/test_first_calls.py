"""The first calls of a notebook: as a policy says it, in one import, and a wrong one is answered with the right one."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe import measures, models, relations, tables, transforms
from privpipe.errors import PolicyError, PrivpipeError, RolesError, UsageError

SEED = "6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f"
FRAME = pd.DataFrame({"age": [31, 33, 52, 55], "zip": ["a", "a", "b", "b"], "ill": ["x", "y", "x", "y"]})
BY_COLUMN = {"age": "insensitive", "zip": "quasi_identifier", "ill": "sensitive"}
BY_ROLE = {"insensitive": ["age"], "quasi_identifiers": ["zip"], "sensitive": ["ill"]}
ROLES = pp.Roles(**BY_ROLE)
BANDS = {"age": {"intervals": {"start": 0, "widths": [20]}}}
DIVERSE = {"l_diversity": {"column": "ill", "l": 2}}


@pytest.mark.parametrize(
    ("call", "right"),
    [
        (lambda: models.KAnonymity(5), "by name: KAnonymity(k=5)"),
        (lambda: models.DistinctLDiversity("ill", 3), "by name: DistinctLDiversity(column='ill', l=3)"),
        (lambda: measures.Distinction(["zip"]), "by name: Distinction(columns=['zip'], at_most=...)"),
        (lambda: transforms.RankSwap("age", 0.1), "by name: RankSwap(columns=['age'], p=0.1)"),
        (lambda: transforms.RankSwap(FRAME), "takes a frame afterwards: RankSwap(columns=[...]).apply(frame)"),
        (lambda: models.KAnonymity(FRAME), "afterwards: KAnonymity(k=...).assess(frame, quasi_identifiers=[...])"),
        (lambda: transforms.RankSwap(columns=[("a", "age")], p=0.1), "must be text and one is tuple; rename"),
        (lambda: models.KAnonymity(kk=5), "unknown parameter 'kk'; did you mean 'k'?"),
        (lambda: transforms.Pseudonymise("a secret"), "Pseudonymise(columns=['a secret'], key=..., domain=...)"),
        (lambda: transforms.AddNoise(["age"], "a secret"), "AddNoise(columns=['age'], "),
    ],
)
def test_a_wrong_call_of_an_entry_is_answered_with_the_right_one(call: Callable[[], Any], right: str) -> None:
    with pytest.raises(UsageError) as error:
        call()
    assert right in str(error.value)
    assert "'a secret'" not in str(error.value).replace("['a secret']", "")


@pytest.mark.parametrize(
    ("stage", "options", "right"),
    [
        (
            transforms.Generalize(levels={"age": 1}),
            {},
            "quasi_identifiers=['age'] and hierarchies={'age': {'bands': {'steps': [5, 10, 20]}}} (or",
        ),
        (
            transforms.Generalize(levels={"age": 1}),
            {"hierarchies": BANDS},
            "in Python give quasi_identifiers=['age']; in",
        ),
        (
            transforms.Generalize(levels={"zip": 1}),
            {"quasi_identifiers": ["zip"]},
            "in Python give hierarchies={'zip': {'redact': {'keep': 'left'}}} (or",
        ),
        (transforms.Mondrian(), {"quasi_identifiers": ["age"]}, "guarantees=[KAnonymity(k=5)]"),
        (transforms.LocalRecoding(), {"quasi_identifiers": ["age"]}, "guarantees=[KAnonymity(k=5)]"),
        (
            transforms.Mondrian(),
            {"quasi_identifiers": ["age"], "guarantees": [{"k_anonymity": {"k": 2}}]},
            "in Python Mondrian(columns=['age'])",
        ),
    ],
)
def test_a_stage_that_lacks_something_is_answered_with_how_it_is_given(stage: Any, options: Any, right: str) -> None:
    with pytest.raises(UsageError) as error:
        stage.apply(FRAME, seed=SEED, **options)
    assert right in str(error.value)


def test_an_entry_can_still_be_copied_and_pickled() -> None:
    swap = transforms.RankSwap(columns=["age"], p=0.5)
    assert copy.deepcopy(swap) == swap == pickle.loads(pickle.dumps(swap))


@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (FRAME.to_numpy(), "pandas.DataFrame(array, columns=[...])"),
        (FRAME["zip"], "series.to_frame()"),
        (pl.Series("zip", ["a"]), "series.to_frame()"),
        (pa.array(["a"]), "pyarrow.table({'name': array})"),
        ([{"zip": "a"}], "pandas.DataFrame(rows, ...)"),
        ({"zip": ["a"]}, "pandas.DataFrame(...)"),
    ],
    ids=["numpy", "pandas", "polars", "pyarrow", "rows", "columns"],
)
def test_anything_but_a_table_is_refused_with_how_one_is_made(data: Any, remedy: str) -> None:
    for call in (
        lambda: pp.k_anonymity(data, ["zip"]),
        lambda: transforms.TopCode(columns=["zip"], at=3).apply(data),
        lambda: _policy(ROLES).apply(data),
    ):
        with pytest.raises(UsageError) as error:
            call()
        assert remedy in str(error.value)


@pytest.mark.parametrize("roles", [ROLES, BY_COLUMN, BY_ROLE], ids=["roles", "by column", "by role"])
def test_roles_are_taken_as_an_object_or_as_a_mapping(roles: Any) -> None:
    assert pp.check(FRAME, models.KAnonymity(k=2), roles=roles).passed
    assert _policy(roles).roles == _policy(ROLES).roles
    out = transforms.Generalize(levels={"zip": 1}).apply(FRAME, roles=roles, hierarchies={"zip": {"redact": {}}})
    assert set(out["zip"]) == {"*"}


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ({"zip": "quasi_id"}, "'zip' has a role that does not exist; did you mean 'quasi_identifier'?"),
        ({"quasi_identifier": ["zip"]}, "did you mean 'quasi_identifiers'?"),
        ({"quasi_identifiers": "zip"}, "must be a list of column names"),
        ({"zip": 5}, "'zip' must have one role"),
        ({0: "sensitive"}, "column names must be text and one is int"),
        ("zip", "roles must be a privpipe.Roles or a mapping"),
    ],
)
def test_a_wrong_mapping_of_roles_is_named(roles: Any, said: str) -> None:
    with pytest.raises(RolesError) as error:
        pp.check(FRAME, models.KAnonymity(k=2), roles=roles)
    assert said in str(error.value)


@pytest.mark.parametrize("given", [{"k_anonymity": {"k": 2}}, [{"k_anonymity": {"k": 2}}]], ids=["one", "list"])
def test_guarantees_are_taken_as_a_policy_has_them(given: Any) -> None:
    assert pp.check(FRAME, given, quasi_identifiers=["zip"]).passed
    with pytest.raises(pp.errors.Refused):
        pp.check(FRAME, given, quasi_identifiers=["age"])
    with pp.checked(FRAME, given, quasi_identifiers=["zip"]) as safe:
        assert safe is FRAME
    out = transforms.Generalize(search="optimal").apply(
        FRAME, quasi_identifiers=["age"], guarantees=given, hierarchies=BANDS
    )
    assert pp.k_anonymity(out, ["age"]) == 2


def test_an_entry_is_taken_by_its_name() -> None:
    found = pp.assess(FRAME, "k_anonymity", quasi_identifiers=["zip"])
    assert [each.observed for each in found.measures] == [2]
    with pytest.raises(UsageError, match="did you mean 'k_anonymity'"):
        pp.assess(FRAME, ["k_anonimity"], quasi_identifiers=["zip"])
    with pytest.raises(UsageError, match="none of the entries has a threshold"):
        pp.check(FRAME, ["k_anonymity"], quasi_identifiers=["zip"])
    with pytest.raises(UsageError, match=r"KAnonymity is a class: call it, as in KAnonymity\(k=...\)"):
        pp.check(FRAME, models.KAnonymity, quasi_identifiers=["zip"])


def test_stages_are_taken_as_a_policy_has_them() -> None:
    code = {"top_code": {"columns": ["age"], "at": 40}}
    assert pp.transform(FRAME, [code])["age"].tolist() == [31, 33, 40, 40]
    assert _policy(ROLES, transform=[code]).transform == (transforms.TopCode(columns=["age"], at=40),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"guarantees": ["k_anonymity"]}, "guarantees[0].k_anonymity.k: a guarantee needs its threshold `k`"),
        ({"guarantees": [{"k_anonymity": {"k": 0}}]}, "guarantees[0]: k_anonymity: "),
        ({"guarantees": [models.KAnonymity]}, "guarantees[0]: KAnonymity is a class: call it"),
        ({"transform": [{"top_cod": {}}]}, "transform[0]: unknown transformer"),
    ],
)
def test_a_wrong_entry_of_a_policy_of_objects_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError) as error:
        _policy(ROLES, **given)
    assert said in str(error.value)


def test_a_table_of_several_is_given_in_the_same_ways() -> None:
    persons = {"roles": {"id": "identifier", "town": "quasi_identifier"}, "key": "id"}
    visits = {"roles": {"who": "identifier", "ward": "quasi_identifier"}, "guarantees": [{"k_anonymity": {"k": 2}}]}
    policy = pp.Policy(
        tables={"persons": persons, "visits": visits},
        relations=[{"from": "visits.who", "to": "persons"}],
        guarantees=[{"joint_k_anonymity": {"k": 2}}],
    )
    assert policy.related is not None
    assert policy.related.guarantees == (relations.JointKAnonymity(k=2),)
    assert policy.related.tables["visits"].guarantees == (models.KAnonymity(k=2),)


def test_l_diversity_of_a_policy_is_the_distinct_one() -> None:
    columns = {"zip": {"role": "quasi_identifier"}, "ill": {"role": "sensitive"}}
    policy = pp.Policy.from_dict({"columns": columns, "guarantees": [DIVERSE]})
    assert policy.guarantees == (models.DistinctLDiversity(column="ill", l=2),)
    assert [each.name for each in pp.assess(FRAME[["zip", "ill"]], policy).verdicts] == ["distinct_l_diversity"]
    assert pp.check(FRAME, [DIVERSE], quasi_identifiers=["zip"]).passed
    assert "l_diversity" not in list(models.CATALOGUE)


def test_a_stage_without_hierarchies_says_how_they_are_given() -> None:
    stage = transforms.Generalize(levels={"age": 1})
    with pytest.raises(UsageError) as error:
        stage.apply(FRAME)
    assert "give quasi_identifiers=['age'] and hierarchies={'age': {" in str(error.value)
    with pytest.raises(UsageError, match="in Python give hierarchies="):
        stage.apply(FRAME, quasi_identifiers=["age"])
    assert stage.apply(FRAME, quasi_identifiers=["age"], hierarchies=BANDS)["age"].nunique() == 2


@pytest.mark.parametrize(
    ("columns", "said"), [([0, 1, 2], "str(name)"), ([("a", at) for at in "xyz"], '"_".join(map(str, name))')]
)
def test_columns_that_are_no_text_are_refused_with_how_to_rename_them(columns: list[Any], said: str) -> None:
    named = FRAME.set_axis(columns, axis=1)
    for call in (
        lambda: pp.k_anonymity(named, columns[:1]),
        lambda: pp.assess(named, models.KAnonymity(k=2), quasi_identifiers=["a"]),
    ):
        with pytest.raises(PrivpipeError) as error:
            call()
        assert f"frame.columns = [{said} for name in frame.columns]" in str(error.value)


def test_one_import_is_enough() -> None:
    assert pp.KAnonymity is models.KAnonymity
    assert pp.RankSwap is transforms.RankSwap
    assert pp.RecordLinkage is measures.RecordLinkage
    assert {"KAnonymity", "RankSwap", "check", "explain"} <= set(dir(pp))
    with pytest.raises(AttributeError, match="did you mean 'KAnonymity'"):
        pp.KAnonimity  # noqa: B018


def test_explain_takes_a_name_a_class_or_an_object() -> None:
    found = [pp.explain(each) for each in ("k_anonymity", "KAnonymity", pp.KAnonymity, pp.KAnonymity(k=5))]
    assert len({repr(each) for each in found}) == 1
    assert found[0]._repr_html_().startswith("<pre>k_anonymity - privacy model")
    assert "rank_swap" in pp.explain().text
    with pytest.raises(UsageError, match="did you mean 'k_anonymity'"):
        pp.explain("k_anonimity")
    with pytest.raises(UsageError, match="give a name"):
        pp.explain(5)


def test_a_policy_lists_what_a_caller_needs() -> None:
    shown = dir(_policy(ROLES))
    assert {"apply", "release", "guarantees", "roles", "to_yaml"} <= set(shown)
    known = {*vars(pp.Policy), *pp.Policy.__dataclass_fields__}
    assert not [name for name in shown if name.startswith("_") or name not in known]
    assert len(shown) <= 30


def _faces() -> list[Any]:
    rooms = ((pp, pp.WIRES), (tables, tables.FACES), (relations, relations.FACES))
    found = [getattr(room, name) for room, names in rooms for name in names]
    return [each for each in found if not inspect.isclass(each)] + [
        pp.observe.distinct_l_diversity,
        pp.observe.entropy_l_diversity,
        transforms.TopCode.apply,
        transforms.TopCode.fit,
        models.KAnonymity.assess,
    ]


def test_every_public_function_describes_its_parameters() -> None:
    missing = {}
    for face in _faces():
        described = _described(inspect.getdoc(face) or "")
        taken = [name for name in inspect.signature(face).parameters if name != "self"]
        missing[face.__name__] = [name for name in taken if name not in described]
    assert {name: left for name, left in missing.items() if left} == {}


def _described(text: str) -> set[str]:
    """Names of the section Parameters of a docstring."""
    section = text.partition("\nParameters\n")[2].partition("\n\n")[0]
    heads = [line.partition(" :")[0] for line in section.splitlines() if line and not line.startswith(" ")]
    return {name.strip().strip("*") for head in heads for name in head.split(",")}


def _policy(roles: Any, **given: Any) -> pp.Policy:
    return pp.Policy(roles=roles, **{"guarantees": [models.KAnonymity(k=2), DIVERSE], "seed": SEED, **given})
