"""Rules of a kept model are over codes that its columns have, and decide by what is drawn before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.errors import UsageError
from privpipe.kernels.synthesis.trees import CodeTree
from privpipe.transforms.synthesis.codebooks import Codebook
from privpipe.transforms.synthesis.drawn_records import require_sound_trees

BOOKS = {"g": Codebook(labels=("p",)), "a": Codebook(labels=("x", "y")), "b": Codebook(labels=("u", "v"))}
LEAF = CodeTree.grown(np.array([1, 2] * 5), None, {}, {}, 5)


def check(when: Any, then: Any) -> None:
    model = {"order": ["a", "b"], "records": 10, "zeros": {}, "rules": [{"when": when, "then": then}]}
    require_sound_trees(model, ["a", "b"], ["g"], BOOKS, {"a": LEAF, "b": LEAF})


@pytest.mark.parametrize(
    ("when", "then"),
    [({"a": [1]}, {"b": [2]}), ({"a": [0, 2], "g": [1]}, {"b": [0]}), ({"g": [0]}, {"a": [1], "b": [1, 2]})],
)
def test_rules_over_codes_of_earlier_columns_are_sound(when: Any, then: Any) -> None:
    check(when, then)


@pytest.mark.parametrize(
    ("when", "then"),
    [
        ({"a": [3]}, {"b": [2]}),
        ({"a": [-1]}, {"b": [2]}),
        ({"a": ["1"]}, {"b": [2]}),
        ({"a": 1}, {"b": [2]}),
        ({"town": [1]}, {"b": [2]}),
        ({"a": [1]}, {"b": [3]}),
        ({"a": [1]}, {"b": []}),
        ({"a": [1]}, {"town": [1]}),
        ({"a": [1]}, {"g": [1]}),
        ({"b": [1]}, {"a": [1]}),
        ({"a": [1]}, {"a": [2]}),
    ],
)
def test_other_rules_are_refused(when: Any, then: Any) -> None:
    with pytest.raises(UsageError, match="rules that do not fit"):
        check(when, then)
