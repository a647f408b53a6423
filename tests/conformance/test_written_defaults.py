"""A default that is written out is taken: of every entry of the catalogues, and of every key of a policy."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from privpipe import measures, models, transforms
from privpipe.blocks.verdict import plain
from privpipe.errors import UsageError
from privpipe.policy import Policy, grammar
from tests.gathering import gathered

ENTRIES = {
    f"{name} {at}": example
    for room in (models, measures, transforms)
    for name in room.CATALOGUE.class_names
    for at, example in enumerate(getattr(room, name).examples())
}
ONE_OF = "one of the (two|three)|is required|needs it|which need it"
"""What an entry says that takes one of several parameters, each with nothing for its default."""


def defaults_of(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    for each in dataclasses.fields(kind):
        if each.init and each.default is not dataclasses.MISSING:
            yield each.name, each.default
        elif each.init and each.default_factory is not dataclasses.MISSING:
            yield each.name, each.default_factory()


def test_an_entry_takes_its_defaults_written_out() -> None:
    with gathered() as case:
        for name, example in ENTRIES.items():
            with case(name):
                takes_its_defaults(example)


def takes_its_defaults(example: Any) -> None:
    kind, defaults = type(example), dict(defaults_of(type(example)))
    given = {each.name: getattr(example, each.name) for each in dataclasses.fields(kind) if each.init}
    assert kind(**{**defaults, **given}) == example
    assert kind.build({name: plain(value) for name, value in {**defaults, **given}.items()}) == example
    alone = {name: value for name, value in given.items() if name not in defaults}
    try:
        made = kind(**alone)
    except UsageError as error:
        with pytest.raises(UsageError, match=ONE_OF):
            raise error from None
        return
    for name, value in defaults.items():
        assert kind(**alone, **{name: value}) == made, name
        assert kind.build({each: plain(v) for each, v in {**alone, name: value}.items()}) == made, name
    assert kind(**alone, **defaults) == made


POLICY: Mapping[str, Any] = {
    "source": {"path": "x.csv"},
    "sink": {"path": "out"},
    "columns": {"q": {"role": "quasi_identifier"}, "cost": {"role": "insensitive", "type": "number"}},
    "guarantees": [{"k_anonymity": {"k": 2}}],
    "utility": {"column_loss": {}},
    "report": {},
}
SECTIONS: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
    "policy": (grammar.TOP, ()),
    "source": (grammar.SOURCE, ("source",)),
    "sink": (grammar.SINK, ("sink",)),
    "utility": (grammar.UTILITY, ("utility",)),
    "column_loss": (grammar.COLUMN_LOSS, ("utility", "column_loss")),
    "report": (grammar.REPORT, ("report",)),
    "column": (grammar.COLUMN, ("columns", "q")),
}
KEYS = [
    (section, name, key.default)
    for section, (keys, _) in SECTIONS.items()
    for name, key in keys.items()
    if key.default is not None
]


@pytest.mark.parametrize(
    "sink", [{"path": "out"}, {"path": "out", "format": "csv"}, {"path": "out", "format": "delta"}]
)
def test_a_policy_takes_its_defaults_written_out(sink: dict[str, str]) -> None:
    with gathered() as case:
        for section, name, default in KEYS:
            with case(f"{section}.{name}"):
                policy_takes_its_default(section, name, default, sink)


def policy_takes_its_default(section: str, name: str, default: Any, sink: dict[str, str]) -> None:
    document = {**copy.deepcopy(dict(POLICY)), "sink": dict(sink)}
    place: Any = document
    for part in SECTIONS[section][1]:
        place = place[part]
    without = Policy.from_dict(document)
    place.setdefault(name, list(default) if isinstance(default, tuple) else default)
    made = Policy.from_dict(document)
    for each in dataclasses.fields(made):
        if each.name not in ("document", "lines", "warnings"):
            assert getattr(made, each.name) == getattr(without, each.name), each.name


@pytest.mark.parametrize(("key", "other"), [("mode", "append"), ("schema", "evolve"), ("formula_cells", "escape")])
def test_anything_but_a_default_is_refused_where_it_means_nothing(key: str, other: str) -> None:
    with pytest.raises(UsageError, match=f"sink.{key}: is for"):
        Policy.from_dict({**POLICY, "utility": {}, "sink": {"path": "out", key: other}})


def test_marginals_take_the_default_of_gaps() -> None:
    private: dict[str, Any] = {"method": "marginals", "epsilon": 1.0, "delta": 1e-6}
    assert transforms.Synthesize(**private, nulls="model").nulls == "model"
    with pytest.raises(UsageError, match="nulls does not go with"):
        transforms.Synthesize(**private, nulls="refuse")


def test_a_rank_swap_says_which_parameters_it_takes_one_of() -> None:
    with pytest.raises(UsageError, match="give p, keep_correlation or keep_mean, one of the three"):
        transforms.RankSwap(columns=["income"])
