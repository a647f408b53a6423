"""Values written into the text of a policy: the document changes as asked, and the rest of the text not at all."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import UsageError
from privpipe.policy.plain_values import from_yaml
from privpipe.policy.text_changes import Edit, rewritten

PLACE = ("transform", 0, "generalize")
SEARCH = ("search", "criteria", "roots_only")
LEVELS = {"age": 1, "Zip code": 2}
TEXTS = {
    "block": (
        "a: 1\ntransform:\n  - generalize:\n      # how\n      search: optimal  # the best\n      # much\n"
        "      suppress_at_most: 0.2\n      roots_only: false\n  - other: {}\n",
        "a: 1\ntransform:\n  - generalize:\n      # how\n"
        '      levels: {age: 1, "Zip code": 2}  # the best\n      # much\n'
        "      suppress_at_most: 0.2\n  - other: {}\n",
    ),
    "flow": (
        "transform: [{generalize: {suppress_at_most: 0.2, search: optimal, roots_only: true}}] # end\n",
        'transform: [{generalize: {suppress_at_most: 0.2, levels: {age: 1, "Zip code": 2}}}] # end\n',
    ),
    "no search": (
        "transform:\n- generalize:\n    suppress_at_most: 0.2 # few\n    criteria: [a,\n      b]  # why\n",
        'transform:\n- generalize:\n    levels: {age: 1, "Zip code": 2}\n    suppress_at_most: 0.2 # few\n    # why\n',
    ),
    "nothing": (
        "transform:\n- generalize:\n# end\n",
        'transform:\n- generalize: {levels: {age: 1, "Zip code": 2}}\n# end\n',
    ),
    "nothing but comments": (
        "transform:\n  - generalize:   # a: b\n  # c: d\n\n  - x: {}\n",
        'transform:\n  - generalize: {levels: {age: 1, "Zip code": 2}}   # a: b\n  # c: d\n\n  - x: {}\n',
    ),
    "empty": (
        "transform:\n- generalize: {}  # x\n",
        'transform:\n- generalize: {levels: {age: 1, "Zip code": 2}}  # x\n',
    ),
    "levels": (
        "transform:\n- generalize:\n    levels:\n      age: 3  # years\n      Zip code: 2\n    # few\n    mark: true\n",
        "transform:\n- generalize:\n    levels:\n      age: 1  # years\n      Zip code: 2\n    # few\n    mark: true\n",
    ),
    "windows": (
        "transform:\r\n- generalize:\r\n    loss: {name: x}\r\n",
        'transform:\r\n- generalize:\r\n    levels: {age: 1, "Zip code": 2}\r\n    loss: {name: x}\r\n',
    ),
    "json": (
        '{"transform": [{"generalize": {"search": "optimal"}}]}',
        '{"transform": [{"generalize": {levels: {age: 1, "Zip code": 2}}}]}',
    ),
}


def asked(document: Any) -> Any:
    wanted = copy.deepcopy(document)
    kept = {name: each for name, each in (wanted["transform"][0]["generalize"] or {}).items() if name not in SEARCH}
    wanted["transform"][0]["generalize"] = {**kept, "levels": LEVELS}
    return wanted


@pytest.mark.parametrize("name", TEXTS)
def test_levels_take_the_place_of_a_search(name: str) -> None:
    before, after = TEXTS[name]
    found = rewritten(before, [Edit(PLACE, "levels", LEVELS, without=SEARCH)])
    assert found == after
    assert from_yaml(found, None)[0] == asked(from_yaml(before, None)[0])


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(-2, 2, allow_nan=False)
    | st.text("aé#:'\"- {,\n", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=5,
)


@given(VALUES, st.sampled_from(["q: {0}", "q: # c\n  p: [1, {0}]\n", "q:\n- p: {0} # c\n- 2\n"]), VALUES)
def test_any_value_is_read_back(value: Any, text: str, old: Any) -> None:
    """An old value on one line, as JSON, which is YAML too."""
    import json

    written = text.replace("{0}", json.dumps(old))
    places = {
        "q: {0}": ((), "q"),
        "q: # c\n  p: [1, {0}]\n": (("q", "p"), 1),
        "q:\n- p: {0} # c\n- 2\n": (("q", 0), "p"),
    }
    place, key = places[text]
    found = rewritten(written, [Edit(place, key, value)])
    before, after = from_yaml(written, None)[0], from_yaml(found, None)[0]
    inner = before
    for step in place:
        inner = inner[step]
    inner[key] = json.loads(json.dumps(value))
    assert after == before
    assert found.count("# c") >= text.count("# c")


@pytest.mark.parametrize("place", [("nowhere",), ("transform", 3), ("transform", 0, "other")])
def test_a_place_that_is_not_there_is_reported(place: Any) -> None:
    with pytest.raises(UsageError, match="has no"):
        rewritten(TEXTS["block"][0], [Edit(place, "k", 1)])
