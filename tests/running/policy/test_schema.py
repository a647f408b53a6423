"""The schema for editors says what the reader says."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from privpipe.errors import PolicyError
from privpipe.policy import Policy, json_schema
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.grammar import TOP

jsonschema = pytest.importorskip("jsonschema")

DOCUMENT: dict[str, Any] = {
    "columns": {"a": {"role": "quasi_identifier"}},
    "guarantees": [{"k_anonymity": {"k": 2}}],
}


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())


def accepts(document: dict[str, Any]) -> bool:
    """Whether the schema takes the document."""
    return bool(validator().is_valid(document))


def reads(document: dict[str, Any]) -> bool:
    """Whether the reader takes the document."""
    try:
        Policy.from_dict(document)
    except PolicyError:
        return False
    return True


def test_it_is_a_schema_of_the_draft() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert set(json_schema()["$defs"]["one_table"]["properties"]) == set(TOP)


def test_every_catalogue_entry_is_in_it() -> None:
    schema, catalogues = json_schema(), Catalogues.shipped()
    for section in ("transform", "guarantees", "measures"):
        named = schema["$defs"]["one_table"]["properties"][section]["items"]["properties"]
        assert set(named) == {name for room in catalogues.of(section) for name in (*room, *room.other_names)}


def test_every_example_of_the_catalogues_is_accepted() -> None:
    for section, room in (("transform", Catalogues.shipped().transforms), ("guarantees", Catalogues.shipped().models)):
        for name in room:
            for example in room[name].examples():
                sound = section == "transform" or example.is_gate()
                document = {**DOCUMENT, section: [{name: _plain(example.parameters())}]}
                assert not sound or validator().is_valid(document), (name, example)


def _plain(value: Any) -> Any:
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize(
    "change",
    [
        {"nam": "x"},
        {"version": 2},
        {"engine": "sprk"},
        {"source": {}},
        {"source": {"path": "a.csv", "generalized": True}},
        {"columns": {"a": {"role": "qi"}}},
        {"columns": {"a": {"role": "quasi_identifier", "hierarchy": {"file": "a.csv", "redact": {}}}}},
        {"guarantees": []},
        {"guarantees": [{"k_anonymity": {}}]},
        {"guarantees": [{"k_anonimity": {"k": 2}}]},
        {"guarantees": [{"k_anonymity": {"k": 2, "kk": 1}}]},
        {"guarantees": [{"k_anonymity": {"k": "two"}}]},
        {"measures": [{"k_anonymity": {"k": 2}}]},
        {"transform": [{"generalize": {"loss": {"gs_facter": 1}}}]},
        {"seed": {"from_env": "A", "from_file": "B"}},
    ],
    ids=str,
)
def test_both_refuse(change: dict[str, Any]) -> None:
    assert not accepts({**DOCUMENT, **change})
    assert not reads({**DOCUMENT, **change})


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"name": "x", "version": 1, "engine": "spark", "engines": {"spark": {"master": "local"}}},
        {"population": {"path": "a.csv", "generalized": True}},
        {"measures": [{"k_anonymity": {}}]},
        {"transform": [{"generalize": {"suppress_at_most": 0.1}}, {"drop_identifiers": None}]},
        {"seed": {"insecure": 7}, "allow_insecure_seed": True},
        {"seed": "7d1c9a3e5b8f2046d1e7c3a95f80b264"},
    ],
    ids=str,
)
def test_both_accept(change: dict[str, Any]) -> None:
    assert accepts({**DOCUMENT, **change})
    assert reads({**DOCUMENT, **change})


@pytest.mark.parametrize(
    ("hierarchy", "right"),
    [
        ({"intervals": {"widths": [5, 10.5, "1e-3"]}}, None),
        ({"intervals": {"widths": [5, 10], "labels": "words", "domain": [0, 90]}}, True),
        ({"intervals": {"widths": [5], "domain": [0]}}, False),
        ({"intervals": {"widhts": [5]}}, False),
        ({"bands": {}}, True),
        ({"bands": {"steps": [5, 10], "labels": "dashes"}}, False),
        ({"quantiles": {"counts": [4, 2], "round": "auto"}}, True),
        ({"quantiles": {"counts": [4, 2], "round": 5}}, True),
        ({"quantiles": {}}, False),
        ({"quantiles": {"counts": [1]}}, False),
        ({"equal_count": {"sizes": [2]}, "unknown": "root"}, True),
        ({"equal_count": {"sizes": [2]}, "unknown": "rot"}, False),
        ({"log": {"base": 2, "per_decade": 9}}, True),
        ({"log": {"base": 3}}, False),
        ({"frequency_groups": {"shares": [0.1], "label": "rest"}, "min_level": 1}, True),
        ({"frequency_groups": {"keep": [0]}}, False),
        ({"groups": {"order": [1, 2, 3], "sizes": [2, [1, 1]]}}, True),
        ({"groups": {"counts": [0]}}, False),
        ({"dates": {"levels": ["month", "year"]}}, True),
        ({"dates": {"levels": ["moon"]}}, False),
        ({"dates": {}}, False),
        ({"redact": {"keep": "left", "length": 5}}, True),
        ({"redact": {"length": 0}}, False),
        ({"priority": {"levels": 2, "order": ["a", "b"]}}, True),
        ({"priority": {}}, False),
        ({"rows": [["a", "*"]]}, True),
        ({"rows": []}, False),
    ],
    ids=str,
)
def test_builders_are_described(hierarchy: dict[str, Any], right: bool | None) -> None:
    document = {**DOCUMENT, "columns": {"a": {"role": "quasi_identifier", "hierarchy": hierarchy}}}
    if right is None:  # the schema knows types; which numbers divide which, the reader alone
        assert accepts(document)
        assert not reads(document)
    else:
        assert accepts(document) == reads(document) == right
