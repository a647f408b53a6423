"""A run document is checked before anything is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from privpipe.errors import UsageError
from privpipe.sharing import RunDocument
from tests.gathering import gathered
from tests.sharing.conftest import NONCE, Run

PRIVATE = {
    "writer": None,
    "guarantees": None,
    "epsilon": 1,
    "contribution_bound": 1,
    "measures": {"count": {"between": [0, 1000]}},
}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"version": 2}, "version"),
    ({"nonce": "short"}, "32 to 64 hex digits"),
    ({"nonce": NONCE.upper()}, "32 to 64 hex digits"),
    ({"exchange": None}, "lacks 'exchange'"),
    ({"exchang": "x"}, "did you mean 'exchange'"),
    ({"disjoint_persons": False}, "link such persons"),
    ({"disjoint_persons": None}, "lacks 'disjoint_persons'"),
    ({"writer": "east"}, "writer"),
    ({"writer": None}, "writer"),
    ({"guarantees": None}, "either guarantees"),
    ({"epsilon": 1}, "either guarantees"),
    ({"dimensions": {}}, "at least one column"),
    ({"dimensions": {"region": []}}, "all its labels"),
    ({"dimensions": {"region": ["a", "a"]}}, "all its labels"),
    ({"dimensions": {"region": ["a", "Total"]}}, "all its labels"),
    ({"dimensions": {"region": [1.5]}}, "all its labels"),
    ({"dimensions": {"cost": ["a"]}}, "is a measure or the person too"),
    ({"dimensions": {f"d{at}": ["a", "b"] for at in range(22)}}, "2,000,000 are served"),
    ({"measures": {"cost": {"between": [0, 1]}}}, "lacks 'count'"),
    ({"measures": {"count": {"between": [1, 5]}}}, "begin at 0"),
    ({"measures": {"count": {"between": [0, 5], "decimals": 2}}}, "unknown key 'decimals'"),
    ({"measures": {"count": {"between": [0, 2**58]}}}, "could exceed 2\\^62"),
    ({"measures": {"count": {"between": [0, 9]}, "cost": {"between": [0, 0.5]}}}, "at most 0 decimals"),
    ({"measures": {"count": {"between": [0, 9]}, "cost": {"between": [5, 1]}}}, "must ascend"),
    ({"measures": {"count": {"between": [0, 9]}, "a:contributors": {"between": [0, 9]}}}, "must not end with"),
    ({"person_id": 7}, "person_id: must be a text"),
    ({"exchange": 7}, "exchange: must be a text"),
    ({"holders": ["north"]}, "must be a mapping"),
    ({"guarantees": [{"p_percent": {"at_least": 10}}]}, "p_percent reads single contributions"),
    ({"guarantees": [{"dominance": {"contributors": 1, "at_most": 0.75}}]}, "dominance reads single contributions"),
    ({"guarantees": [{"k_anonymity": {"k": 3}}]}, "judges records"),
    ({"guarantees": []}, "guarantees"),
    ({**PRIVATE, "contribution_bound": None}, "contribution_bound"),
    ({**PRIVATE, "contribution_bound": 0}, "contribution_bound"),
    ({**PRIVATE, "colluding": 0}, "knows its own noise"),
    ({**PRIVATE, "colluding": 3}, "from 1"),
    ({**PRIVATE, "epsilon": 0}, "epsilon"),
    ({**PRIVATE, "writer": "north"}, "either guarantees"),
    ({**PRIVATE, "measures": {"count": {"between": [0, 9]}, "cost": {"between": [0, 9]}}}, "clipped to"),
]


def test_what_is_wrong_is_named(run: Callable[..., Run]) -> None:
    sound = run()
    assert sound.document.figures == ("count", "cost:contributors", "cost")
    with gathered() as case:
        for at, (change, match) in enumerate(WRONG):
            with case(f"{at} {match}"):
                given = {key: value for key, value in {**sound.given, **change}.items() if value is not None}
                with pytest.raises(UsageError, match=match):
                    RunDocument.of(given)


def test_holders_are_distinct_and_enough(run: Callable[..., Run]) -> None:
    given = run().given
    holders = given["holders"]
    north, south, west = holders.values()
    for wrong, match in (
        ({"north": north, "south": south}, "at least 3"),
        ({"north": north}, "at least 2"),
        ({**holders, "East": north}, "small letters"),
        ({**holders, "east": west}, "same key twice"),
        ({**holders, "west": {"sign": west["sign"], "seal": south["seal"]}}, "same key twice"),
        ({**holders, "west": {"sign": west["sign"]}}, "lacks 'seal'"),
    ):
        with pytest.raises(UsageError, match=match):
            RunDocument.of({**given, "holders": wrong})


def test_two_holders_may_share_with_noise(run: Callable[..., Run]) -> None:
    given = run(**PRIVATE).given
    pair = {name: given["holders"][name] for name in ("north", "south")}
    found = RunDocument.of({**given, "holders": pair})
    assert (found.colluding, found.figures, found.writer) == (1, ("count",), None)


def test_all_but_the_exchange_folder_is_in_the_digest(run: Callable[..., Run]) -> None:
    given = run().given
    digest = RunDocument.of(given).digest
    assert RunDocument.of({**given, "exchange": "/mnt/elsewhere"}).digest == digest
    assert RunDocument.of({**given, "person_id": "other"}).digest != digest
    assert RunDocument.of({**given, "dimensions": {"age": ["old", "young"], "region": ["North"]}}).digest != digest
