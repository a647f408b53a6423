"""A job may only tighten what an officer's policy asks for."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe import measures, models
from privpipe.blocks import Guarantee
from privpipe.blocks.marks import Stricter
from privpipe.blocks.parameters import marked, parameters_of
from privpipe.errors import PolicyError
from privpipe.policy.officer import PINNED, presets, read_officer
from privpipe.policy.schema import officer_schema
from tests.gathering import gathered

Document = dict[str, Any]
Written = Callable[..., Path]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0CrzAUrCVuBFXvcdo/Tmtjt5PKOjdAzG40ywuvDm6Z"
OFFICER: Document = {
    "name": "officer",
    "guarantees": [
        {"k_anonymity": {"k": 5}, "reason": "no class of four", "source": "us"},
        {"distinct_l_diversity": {"l": 2}},
    ],
    "columns": {"Town": {"role": "quasi_identifier"}},
    "suppress_at_most": 0.05,
    "seed": "required",
    "nulls": "own_value",
}


@pytest.fixture
def job(document: Document, written: Written) -> Callable[..., pp.Policy]:
    """The job's policy after a change, under the officer's after another."""

    def load(change: Callable[[Document], Any] = lambda job: None, **officer: Any) -> pp.Policy:
        written({**OFFICER, **officer}, "officer.yaml")
        document["policy"] = "officer.yaml"
        change(document)
        return pp.Policy.load(written(document))

    return load


def entry(at: int, **parameters: Any) -> Callable[[Document], None]:
    def change(job: Document) -> None:
        [(name, given)] = job["guarantees"][at].items()
        job["guarantees"][at] = {name: {**given, **parameters}}

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda job: None,
        entry(0, k=50),
        entry(1, l=3),
        lambda job: job["guarantees"].append({"k_anonymity": {"k": 2}}),
        lambda job: job["transform"][0]["generalize"].update(suppress_at_most=0.0),
        lambda job: job["transform"][0]["generalize"].pop("suppress_at_most"),
        lambda job: job.update(nulls="refuse"),
        lambda job: job["columns"]["town"].update(role="drop"),
        entry(0, quasi_identifiers=["age", "town"]),
    ],
)
def test_what_tightens_is_taken(job: Callable[..., pp.Policy], change: Callable[[Document], None]) -> None:
    assert job(change).officer is not None


LOOSENINGS: dict[str, tuple[Callable[[Document], Any], str, str]] = {
    "k": (entry(0, k=4), "guarantees[0].k_anonymity.k", "at least 5"),
    "l": (entry(1, l=1), "guarantees[1].distinct_l_diversity.l", "at least 2"),
    "warn": (entry(0, severity="warn"), "guarantees[0].k_anonymity.severity", "fail"),
    "fewer columns": (entry(0, quasi_identifiers=["age"]), "guarantees[0].k_anonymity.quasi_identifiers", "left out"),
    "gone": (lambda job: job["guarantees"].pop(0), "guarantees", "KAnonymity(k=5)"),
    "of another column": (
        lambda job: (
            job["columns"].update(more={"role": "sensitive"})
            or job["guarantees"].append({"entropy_l_diversity": {"column": "more", "l": 2}})
        ),
        "guarantees",
        "column='more'",
    ),
    "role": (lambda job: job["columns"]["town"].update(role="insensitive"), "columns.town.role", "quasi_identifier"),
    "sensitive": (
        lambda job: (
            job["columns"]["town"].update(role="sensitive")
            or job["guarantees"].append({"distinct_l_diversity": {"column": "town", "l": 2}})
        ),
        "columns.town.role",
        "quasi_identifier",
    ),
    "suppression": (
        lambda job: job["transform"][0]["generalize"].update(suppress_at_most=0.06),
        "transform[0].generalize.suppress_at_most",
        "0.05",
    ),
    "undeclared": (lambda job: job.update(undeclared="note"), "undeclared", "refuse"),
    "seed": (lambda job: job.pop("seed"), "(top level)", "seed"),
    "insecure": (
        lambda job: job.update(seed={"insecure": 7}, allow_insecure_seed=True),
        "allow_insecure_seed",
        "does not allow",
    ),
    "counts others": (entry(0, over="records"), "guarantees[0].k_anonymity.over", "left out"),
}


@pytest.mark.parametrize("name", LOOSENINGS)
def test_a_loosening_is_an_error_that_names_both_lines(job: Callable[..., pp.Policy], name: str) -> None:
    change, place, asked = LOOSENINGS[name]
    with pytest.raises(PolicyError) as found:
        job(change)
    [problem] = [each for each in found.value.problems if each.path == place.replace("(top level)", "")]
    text = str(problem)
    assert asked in text
    assert "release.yaml" in text
    assert "officer.yaml" in text
    if name != "seed":
        assert text.count(".yaml:") == 2 or name in ("undeclared", "insecure")  # these two the officer leaves out


def test_finer_classes_of_persons_promise_nothing_of_values(job: Callable[..., pp.Policy]) -> None:
    """Passing classes of persons may merge to a failing one under l-diversity; under k they may not."""
    asked = [{"distinct_l_diversity": {"column": "illness", "l": 2, "quasi_identifiers": ["age"]}}]
    towns = {"k_anonymity": {"k": 2, "quasi_identifiers": ["age"]}}

    def in_persons(job: Document) -> None:
        job["columns"]["who"] = {"role": "identifier"}
        job["person_id"] = "who"

    assert job(guarantees=asked).officer is not None
    with pytest.raises(PolicyError) as found:
        job(in_persons, guarantees=asked)
    assert [each.path for each in found.value.problems] == ["guarantees[1].distinct_l_diversity.quasi_identifiers"]
    assert job(in_persons, guarantees=[towns]).officer is not None


def test_blanks_that_match_anything_are_a_loosening(job: Callable[..., pp.Policy]) -> None:
    def change(job: Document) -> None:
        job["nulls"] = "wildcard"
        job["guarantees"].pop(1)
        job["columns"]["illness"]["role"] = "insensitive"

    with pytest.raises(PolicyError, match=r"nulls: is wildcard; .*officer.yaml:\d+: nulls.* own_value"):
        job(change, guarantees=OFFICER["guarantees"][:1])


def test_every_loosening_is_reported_at_once(job: Callable[..., pp.Policy]) -> None:
    def change(job: Document) -> None:
        entry(0, k=2)(job)
        entry(1, l=1)(job)
        job["undeclared"] = "note"

    with pytest.raises(PolicyError) as found:
        job(change)
    assert len(found.value.problems) == 3


def test_the_reason_of_a_threshold_is_reported(job: Callable[..., pp.Policy]) -> None:
    with pytest.raises(PolicyError, match="no class of four"):
        job(entry(0, k=4))


def test_one_of_several_guarantees_is_enough_and_the_nearest_is_named(job: Callable[..., pp.Policy]) -> None:
    def change(job: Document) -> None:
        job["guarantees"] = [
            {"k_anonymity": {"k": 2, "severity": "warn"}},
            {"k_anonymity": {"k": 4}},
            job["guarantees"][1],
        ]

    with pytest.raises(PolicyError) as found:
        job(change)
    assert [each.path for each in found.value.problems] == ["guarantees[1].k_anonymity.k"]


def test_parameters_that_compare_nothing_must_be_equal(job: Callable[..., pp.Policy]) -> None:
    asked = [{"t_closeness": {"t": 0.5, "distance": "equal"}}]
    given = {"t_closeness": {"column": "illness", "t": 0.4, "base": "released"}}
    with pytest.raises(PolicyError) as found:
        job(lambda job: job["guarantees"].append(given), guarantees=asked)
    assert [each.path for each in found.value.problems] == ["guarantees[2].t_closeness.base"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"guarantees": [{"k_anonimity": {"k": 5}}]}, "k_anonymity"),
        ({"guarantees": [{"k_anonymity": {"k": 0}}]}, "k"),
        ({"guarantees": [{"k_anonymity": {}}]}, "threshold"),
        ({"guarantees": [{"k_anonymity": {"k": 5}, "why": "x"}]}, "one entry"),
        ({"guarantees": [{"k_anonymity": {"k": 5}, "reason": 5}]}, "text"),
        ({"guarantees": {}}, "list"),
        ({"columns": {"town": {"role": "secret"}}}, "one of"),
        ({"sign_off": {"by": []}}, "must sign"),
        ({"sign_off": {"by": [{"name": "Ada", "key": KEY}], "two_persons": True}}, "2 must sign, and 1 may"),
        ({"sign_off": {}}, "required"),
        ({"sinc": 5}, "unknown key"),
    ],
)
def test_what_is_wrong_with_an_officers_policy_is_reported(
    job: Callable[..., pp.Policy], change: Document, text: str
) -> None:
    with pytest.raises(PolicyError, match=text) as found:
        job(**change)
    assert all(str(problem.file).endswith("officer.yaml") for problem in found.value.problems)


def test_a_missing_officers_policy_is_an_error(job: Callable[..., pp.Policy]) -> None:
    with pytest.raises(PolicyError, match="does not exist"):
        job(lambda job: job.update(policy="nowhere.yaml"))
    with pytest.raises(PolicyError, match="public_use"):
        job(lambda job: job.update(policy="public-use"))


def guarantees() -> list[type[Guarantee]]:
    return [room[name] for room in (models.CATALOGUE, measures.CATALOGUE) for name in room]


def test_every_parameter_says_which_way_it_is_stricter() -> None:
    """The direction of thresholds follows from how a figure must lie to them."""
    with gathered() as case:
        for kind in guarantees():
            with case(kind.name()):
                assert set(parameters_of(kind)) == set(marked(kind, Stricter))
                field = kind.threshold_field
                if field is not None and field not in kind.withheld:  # an officer cannot ask for what is in no document
                    assert parameters_of(kind)[field].marked(Stricter).direction in ("larger", "smaller")


def test_what_protects_no_one_is_on_the_loose_side() -> None:
    """An entry says itself which threshold protects no one, and with it every looser one."""
    for kind in guarantees():
        field, idle = kind.threshold_field, kind.protects_nobody_at
        if field is not None and idle is not None:
            looser = idle - 1 if parameters_of(kind)[field].marked(Stricter).direction == "larger" else idle + 1
            made = [each for each in kind.examples() if getattr(each, field) is not None]
            vague = copy.copy(made[0])
            object.__setattr__(vague, field, looser)
            assert vague.idle(), kind.name()


@pytest.mark.parametrize("name", presets())
def test_presets_are_sound_and_say_why(name: str) -> None:
    found = read_officer(name, Path())
    assert found.name == name
    assert found.guarantees
    assert all(asked.reason and asked.source for asked in found.guarantees)


def test_presets_are_ordered_by_who_reads() -> None:
    asked = {
        name: next(a for a in read_officer(name, Path()).guarantees if a.kind.name() == "k_anonymity")
        for name in presets()
    }
    assert (
        asked["public_use"].parameters["k"] > asked["research_use"].parameters["k"] > asked["internal"].parameters["k"]
    )


def test_a_job_is_held_to_a_preset(document: Document, written: Written) -> None:
    document["policy"] = "research_use"
    assert pp.Policy.load(written(document)).officer.name == "research_use"
    document["policy"] = "public_use"
    with pytest.raises(PolicyError, match="at least 12"):
        pp.Policy.load(written(document))


def test_the_manifest_names_the_officers_policy(document: Document, written: Written) -> None:
    document["policy"] = "research_use"
    result = pp.release(written(document))
    assert result.public["manifest"]["officer_policy"] == read_officer("research_use", Path()).to_dict()
    held, other = pp.Policy.from_dict({**document, "policy": "internal"}), pp.Policy.from_dict(document)
    assert held.run_digest() == other.run_digest()


def test_presets_and_sign_offs_follow_the_json_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    from ruamel.yaml import YAML

    schema = jsonschema.Draft202012Validator(officer_schema())
    for text in presets().values():
        schema.validate(YAML(typ="safe", pure=True).load(text))
    rule = {"by": [{"name": "Ada", "key": "ssh-ed25519 AAAA"}], "two_persons": True, "valid_days": 9}
    schema.validate({**OFFICER, "sign_off": rule})
    for wrong in ({"sign_off": {"by": []}}, {"guarantees": [{"k_anonimity": {"k": 5}}]}, {"sinc": 1}):
        assert not schema.is_valid({**OFFICER, **wrong})


def test_layout_of_an_officers_policy_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# ours\nname: a\nguarantees:\n- k_anonymity:\n    k: 5\n")
    (tmp_path / "b.yaml").write_text(json.dumps({"guarantees": [{"k_anonymity": {"k": 5}}], "name": "a"}))
    assert read_officer("a.yaml", tmp_path).hash == read_officer("b.yaml", tmp_path).hash


class TestThePinnedOne:
    def test_every_release_is_held_to_it(
        self, document: Document, written: Written, monkeypatch: pytest.MonkeyPatch, place: Path
    ) -> None:
        officer = written({**OFFICER, "guarantees": [{"k_anonymity": {"k": 7}}]}, "officer.yaml")
        monkeypatch.setenv(PINNED, str(officer))
        with pytest.raises(PolicyError, match=r"release.yaml:\d+: guarantees.0..k_anonymity.k: .*officer.yaml:\d+"):
            pp.release(written(document))
        assert not (place / "published" / "people").exists()
        document["guarantees"][0]["k_anonymity"]["k"] = 7
        result = pp.release(written(document))
        assert result.public["manifest"]["officer_policy"]["name"] == "officer"

    def test_a_job_cannot_name_another(
        self, document: Document, written: Written, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(PINNED, str(written(OFFICER, "officer.yaml")))
        document["policy"] = str(written({"name": "mine"}, "mine.yaml"))
        with pytest.raises(PolicyError, match="every release here is held to"):
            pp.release(written(document))
        document["policy"] = str(written(OFFICER, "copy.yaml"))
        assert pp.release(written(document)).published

    def test_its_content_is_pinned_by_its_hash(
        self, document: Document, written: Written, monkeypatch: pytest.MonkeyPatch, place: Path
    ) -> None:
        officer = written(OFFICER, "officer.yaml")
        hash_ = read_officer(str(officer), place).hash
        monkeypatch.setenv(PINNED, f"{officer}@sha256:{hash_}")
        assert pp.release(written(document)).published
        written({**OFFICER, "guarantees": []}, "officer.yaml")
        with pytest.raises(PolicyError, match=hash_):
            pp.release(written(document))
