"""A policy is the same however it was written, and keeps its secrets."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.draws import Seed
from privpipe.errors import PolicyError, UsageError
from privpipe.policy import ColumnSpec, Policy, SecretSpec, SinkSpec, SourceSpec

DOCUMENT = {
    "version": 1,
    "name": "small",
    "source": {"path": "data.csv", "delimiter": ";"},
    "columns": {
        "age": {"role": "quasi_identifier", "type": "integer", "hierarchy": {"intervals": {"widths": [10]}}},
        "zip": {"role": "quasi_identifier"},
        "illness": {"role": "sensitive", "nulls": "refuse"},
        "name": {"role": "identifier"},
    },
    "guarantees": [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"column": "illness", "l": 3}}],
    "measures": [{"average_risk": {}}],
    "sink": {"path": "published"},
    "seed": {"from_env": "A_SEED"},
}
YAML = """\
# the same in another order
sink: {path: published}
name: small
version: 1
seed: {from_env: A_SEED}
source:
  delimiter: ";"
  path: data.csv
columns:
  age:
    type: integer
    role: quasi_identifier
    hierarchy: {intervals: {widths: [10]}}
  zip: {role: quasi_identifier}
  illness: {role: sensitive, nulls: refuse}
  name: {role: identifier}
measures: [{average_risk: {}}]
guarantees:
  - k_anonymity: {k: 5}
  - distinct_l_diversity: {l: 3, column: illness}
"""


def test_yaml_and_python_give_the_same_policy_and_digest(tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_text(YAML)
    from_yaml = Policy.load(tmp_path / "release.yaml")
    from_python = Policy.from_dict(DOCUMENT, tmp_path)
    assert from_yaml == from_python
    assert from_yaml.digest() == from_python.digest()
    assert from_yaml.document == DOCUMENT


def test_a_policy_survives_its_own_document() -> None:
    policy = Policy.from_dict(DOCUMENT)
    again = Policy.from_dict(policy.document)
    assert again == policy
    assert again.digest() == policy.digest()


def test_the_digest_is_pinned() -> None:
    document = {"columns": {"a": {"role": "quasi_identifier"}}, "guarantees": [{"k_anonymity": {"k": 2}}]}
    digest = Policy.from_dict(document).digest()
    assert digest == "f8e38aa0e83dd6b821d8213ce4eaaa865e635a29857fc95424d43ea4d167d16d"


@given(st.permutations(list(DOCUMENT)))
def test_the_order_of_keys_does_not_count(order: list[str]) -> None:
    assert Policy.from_dict({key: DOCUMENT[key] for key in order}).digest() == Policy.from_dict(DOCUMENT).digest()


@pytest.mark.parametrize("path", [("name",), ("guarantees", 0, "k_anonymity", "k"), ("columns", "zip", "role")])
def test_any_change_changes_the_digest(path: tuple[str | int, ...]) -> None:
    changed = copy.deepcopy(DOCUMENT)
    inner = changed
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = {"name": "other", "k": 6, "role": "insensitive"}[str(path[-1])]
    assert Policy.from_dict(changed).digest() != Policy.from_dict(DOCUMENT).digest()


def test_the_document_of_the_caller_is_left_alone() -> None:
    mine = copy.deepcopy(DOCUMENT)
    policy = Policy.from_dict(mine)
    mine["guarantees"].clear()
    assert policy.document == DOCUMENT


def test_it_gives_roles_types_hierarchies_and_places() -> None:
    policy = Policy.from_dict({**DOCUMENT, "transform": [{"generalize": {"suppress_at_most": 0.05}}]})
    assert policy.roles.quasi_identifiers == ("age", "zip")
    assert policy.roles.of("name") == "identifier"
    assert policy.types == {"age": "integer"}
    assert list(policy.hierarchies) == ["age"]
    assert policy.hierarchies["age"].column == "age"
    assert policy.place_of(0) == policy.located_stage(0) == "transform[0].generalize"
    assert policy.columns["zip"] == ColumnSpec(role="quasi_identifier")
    assert policy.source == SourceSpec(path="data.csv", delimiter=";")
    assert policy.sink == SinkSpec(path="published", format="parquet")


def test_places_know_their_line(tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_text(YAML + "transform:\n  - generalize: {levels: {age: 1}}\n")
    policy = Policy.load(tmp_path / "release.yaml")
    assert policy.located_stage(0) == f"{tmp_path / 'release.yaml'}:22: transform[0].generalize"


def test_relative_paths_start_at_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "release.yaml").write_text(YAML)
    monkeypatch.chdir("/")
    policy = Policy.load(tmp_path / "release.yaml")
    assert policy.source is not None
    assert policy.sink is not None
    source = policy.source.to_source(policy.types, policy.base_dir)
    assert (source.data, source.delimiter, source.types) == (str(tmp_path / "data.csv"), ";", {"age": "integer"})
    assert policy.sink.target(policy.base_dir) == str(tmp_path / "published")
    assert SinkSpec(path="s3://lake/adult").target(policy.base_dir) == "s3://lake/adult"


def test_files_named_inside_entries_start_at_the_policy_too(tmp_path: Path) -> None:
    stage = {"pseudonymise": {"columns": ["name"], "key": {"from_file": "keys/name"}, "domain": "people"}}
    policy = Policy.from_dict({**DOCUMENT, "transform": [stage]}, tmp_path)
    assert policy.transform[0].parameters()["key"] == {"from_file": str(tmp_path / "keys" / "name")}
    assert policy.document["transform"] == [stage]


def test_problems_of_a_hierarchy_have_their_place() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["columns"]["age"]["hierarchy"] = {"intervalls": {}}
    document["columns"]["zip"]["hierarchy"] = {"redact": {"keep": "middle"}, "minlevel": 1}
    with pytest.raises(PolicyError) as caught:
        Policy.from_dict(document)
    paths = {problem.path for problem in caught.value.problems}
    assert {"columns.age.hierarchy.intervalls", "columns.zip.hierarchy.minlevel"} <= paths
    assert "columns.zip.hierarchy.redact" in paths


def test_unknown_keys_inside_a_parameter_have_their_place() -> None:
    with pytest.raises(PolicyError, match=r"transform\[0\]\.generalize\.loss\.gs_facter: .* 'gs_factor'"):
        Policy.from_dict({**DOCUMENT, "transform": [{"generalize": {"loss": {"gs_facter": 0.5}}}]})
    with pytest.raises(PolicyError, match=r"transform\[0\]\.generalize\.levels\.agee: .* 'age'"):
        Policy.from_dict({**DOCUMENT, "transform": [{"generalize": {"levels": {"agee": 1}}}]})


@pytest.mark.parametrize("way", ["literal", "insecure"])
def test_a_seed_in_the_document_appears_nowhere_and_no_hash_of_it_either(way: str) -> None:
    one, other = "7d1c9a3e5b8f2046d1e7c3a95f80b264", "0f9e4b7a6c2d8153e9b04d7c1fa36285"
    policies = [
        Policy.from_dict({**DOCUMENT, "seed": text if way == "literal" else {way: text}}) for text in (one, other)
    ]
    assert one not in repr(policies[0]) + str(policies[0].public_document()) + str(policies[0].warnings)
    assert policies[0].public_document()["seed"] == {way: True}
    assert policies[0].digest() == policies[1].digest()
    assert len(policies[0].warnings) == (way == "literal")


def test_options_of_engines_stay_out_of_what_is_published() -> None:
    policy = Policy.from_dict({**DOCUMENT, "engines": {"spark": {"conf": {"fs.s3a.secret.key": "hunter2"}}}})
    assert "hunter2" not in str(policy.public_document()) + repr(policy)
    assert policy.digest() == Policy.from_dict(DOCUMENT).digest()
    assert policy.engines["spark"]["conf"] == {"fs.s3a.secret.key": "hunter2"}


def test_secrets_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "7d1c9a3e5b8f2046d1e7c3a95f80b264"
    monkeypatch.setenv("A_SEED", text)
    (tmp_path / "seed").write_text(f"{text}\n")
    places = (
        SecretSpec(from_env="A_SEED"),
        SecretSpec(from_file="seed", base_dir=tmp_path),
        SecretSpec(literal=text),
    )
    assert {spec.resolve() for spec in places} == {Seed.of(text)}
    raw = bytes(range(99, 114)) + b"\xff\n"  # the last byte of raw ones is not a line end
    (tmp_path / "seed").write_bytes(raw)
    assert places[1].resolve() == Seed(raw)


@pytest.mark.parametrize("weak", ["7", "20261122", "a seed for tests", "5f" * 32, "s" * 64, "0123456789" * 4])
def test_a_weak_seed_is_refused_wherever_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: str) -> None:
    monkeypatch.setenv("A_SEED", weak)
    (tmp_path / "seed").write_text(weak)
    for spec in (SecretSpec(from_env="A_SEED"), SecretSpec(from_file="seed", base_dir=tmp_path)):
        with pytest.raises(UsageError, match="privpipe seed") as caught:
            spec.resolve()
        assert weak not in str(caught.value).replace("128", "").replace(str(tmp_path), "")
    with pytest.raises(PolicyError, match="seed: .* needs 128"):
        Policy.from_dict({**DOCUMENT, "seed": weak})
    assert SecretSpec(insecure=weak).resolve() == Seed.insecure(weak)


def test_a_missing_secret_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_SEED", raising=False)
    with pytest.raises(UsageError, match="A_SEED is not set"):
        SecretSpec(from_env="A_SEED").resolve()
    with pytest.raises(UsageError, match=r"cannot read the seed file .*nowhere"):
        SecretSpec(from_file="nowhere", base_dir=tmp_path).resolve()
    (tmp_path / "blank").write_text("\n")
    with pytest.raises(UsageError, match="is empty"):
        SecretSpec(from_file="blank", base_dir=tmp_path).resolve()


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Policy.from_dict(DOCUMENT).name = "other"  # type: ignore[misc]
