"""No cell of a hostile table in an exception of a public function, its chain, a log record or a warning."""

from __future__ import annotations

import pytest

from tests.fuzzing.canaries import FACES, pairs, tried

LIGHT = [name for name in FACES if name.startswith(("observe", "assess of", "Policy.apply", "FittedStage", "plan "))]


@pytest.mark.parametrize("first", [0, 50], ids=["first half", "second half"])
def test_a_hundred_hostile_tables(first: int) -> None:
    found = {number: tried(LIGHT[number % len(LIGHT)], number) for number in range(first, first + 50)}
    wrong = {number: trial for number, trial in found.items() if trial.leaks or not trial.ours}
    assert not wrong


@pytest.mark.rare
def test_two_thousand_hostile_tables() -> None:
    wrong = []
    for number, face in pairs(2000, 3):
        trial = tried(face, number)
        if trial.leaks or not trial.ours:
            wrong.append((number, face, trial))
    assert not wrong
