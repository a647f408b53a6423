"""`init --ask`: one line a question on a terminal, and a clear error without one."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from privpipe.drafting.profile import Guess, Profile
from privpipe.drafting.questions import Answers, Question, answers_of, questions
from privpipe.policy import Policy


def table(place: Path) -> Path:
    rows = [f"{20 + at % 40};{at % 3};{['a', 'b'][at % 2]};{at // 2}" for at in range(400)]
    (place / "people.csv").write_text("\n".join(["age;xyz;illness;nr", *rows]) + "\n")
    return place / "people.csv"


def test_without_a_terminal_it_fails_with_the_code_of_usage(run: Any, tmp_path: Path) -> None:
    done = run("init", table(tmp_path), "--ask")
    assert done.exit_code == 2
    assert "--ask needs a terminal" in done.stderr


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_answers_on_a_terminal_are_in_the_draft(tmp_path: Path) -> None:
    out = tmp_path / "p.yaml"
    ours, theirs = pty.openpty()
    # Wrong first, then right: each question is one line, and an empty one takes the default.
    os.write(ours, b"maybe\nsensitive\n" + b"illness\nseven\n7\n\n\n\n\n")
    arguments = ["init", str(table(tmp_path)), "--ask", "--out", str(out), "--seconds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "privpipe", *arguments],
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert "role of 'xyz': " in done.stderr
    assert "least number of records that are alike (k) [20]: " in done.stderr
    assert "a whole number of 2 or more" in done.stderr
    policy = Policy.load(out)
    assert policy.guarantees[0].parameters()["k"] == 7
    assert "as answered" in out.read_text()


def test_a_default_is_what_the_draft_would_take() -> None:
    profiles = [Profile("age", "integer", 90, 0, 60), Profile("x", "text", 90, 0, 4), Profile("ill", "text", 90, 0, 3)]
    guesses = {
        "age": Guess("quasi_identifier", ""),
        "x": Guess("insensitive", "", unknown=True),
        "ill": Guess("sensitive", ""),
    }
    asked = list(questions(profiles, guesses, 10, ""))
    assert [question.key for question in asked] == ["role x", "sensitive", "k", "person"]
    assert answers_of({question.key: question.default for question in asked}, guesses, 10).heard(guesses) == guesses
    given = {"role x": "quasi_identifier", "sensitive": "x", "k": "5", "person": "age"}
    answers = answers_of(given, guesses, 10)
    assert {name: guess.role for name, guess in answers.heard(guesses).items()} == {
        "age": "identifier",
        "x": "sensitive",
        "ill": "insensitive",
    }
    assert (answers.k, answers.person) == (5, "age")
    assert Answers().person_of("pid") == "pid"


@pytest.mark.parametrize(("key", "given", "wrong"), [("k", "1", True), ("k", "3", False), ("sensitive", "b", True)])
def test_an_answer_is_held_to_its_question(key: str, given: str, wrong: bool) -> None:
    assert bool(Question(key, "", "", ("a",)).wrong(given)) is wrong
