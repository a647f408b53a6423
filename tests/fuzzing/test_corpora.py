"""Kept inputs end as they must, and the search sees what it is there to see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from privpipe.errors import DataError, PrivpipeError, UsageError
from privpipe.scheduled.job import Job
from tests.fuzzing.all_readers import READERS
from tests.fuzzing.edits import Edits, edited
from tests.fuzzing.loop import CORPORA, LARGEST, MOST_KEPT, Search, kept_inputs, tried
from tests.fuzzing.readers import CANARIES, Reader, Wrong

BY_NAME = {reader.name: reader for reader in READERS}


@pytest.mark.parametrize("name", BY_NAME)
def test_kept_inputs_end_well(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = BY_NAME[name]
    inputs = [*reader.first, *kept_inputs(reader)]
    found = [tried(reader, data, tmp_path) for data in inputs]
    assert {each.violation: data for each, data in zip(found, inputs, strict=True) if each.violation} == {}
    assert {each.outcome for each in found} > {"accepted"}, "what is never refused was not tried"


@pytest.mark.parametrize("name", BY_NAME)
def test_few_small_inputs_are_kept(name: str) -> None:
    inputs = kept_inputs(BY_NAME[name])
    assert 2 <= len(inputs) <= MOST_KEPT
    assert max(map(len, inputs)) <= LARGEST


def test_every_corpus_has_a_reader() -> None:
    assert {path.name for path in CORPORA.iterdir()} == set(BY_NAME)


def _reader(faulty: object) -> Reader:
    def read(data: bytes, place: Path) -> None:
        job = Job.from_json(data)
        if job.target is not None:
            faulty(job)  # type: ignore[operator]

    return Reader(
        name="faulty",
        rooms=("scheduled/job.py",),
        read=read,
        errors=(UsageError,),
        mutate=lambda data, queue, draw: data.replace(b"}", b', "target": "x"}') if draw.random() < 0.5 else data[:-1],
        first=(b'{"policy": "a", "keep_out": []}',),
    )


def _crashes(job: Job) -> None:
    raise KeyError(job.policy)


def _hangs(job: Job) -> None:
    while job:
        job.to_json()


def _tells(job: Job) -> None:
    raise UsageError(f"town {CANARIES[1]} is unknown")


def _confuses(job: Job) -> None:
    raise DataError("of another kind")


def _believes(job: Job) -> None:
    raise Wrong("it was changed")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (_crashes, "KeyError"),
        (_hangs, "more than"),
        (_tells, "says a value of the data"),
        (_confuses, "DataError, which is not among"),
        (_believes, "wrongly accepted"),
    ],
)
def test_a_planted_fault_is_found(fault: object, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzzing.trace.MOST_STEPS", 20_000)
    search = Search(_reader(fault), tmp_path, seed=1)
    assert search.violations == {}
    search.run(30)
    assert [violation for violation in search.violations if said in violation]


def test_an_input_that_takes_a_new_branch_is_kept_and_cut(tmp_path: Path) -> None:
    search = Search(BY_NAME["job"], tmp_path, seed=1)
    before = len(search.known)
    search.one(b"[" + b" " * 500 + b"]")
    search.one(b'{"policy": "a", "keep_out": [], "action": "judge"}')
    assert len(search.known) > before
    assert min(map(len, search.smallest())) < 20


def test_edits_are_made_where_their_place_is_there() -> None:
    document = {"a": [1, 2], "b": {"c": 3}}
    edits = [[["a", 0], "set", 9], [["b", "c"], "name", "d"], [["x", "y"], "set", 1], [["a", 7], "drop", None]]
    assert edited(document, edits) == {"a": [9, 2], "b": {"d": 3}}
    assert document == {"a": [1, 2], "b": {"c": 3}}
    made = Edits([[["a"], "drop", 0]], [[0, 1, "x"]], sealed=True)
    assert Edits.read(made.written()) == made
    assert made.on_bytes(json.dumps({}).encode()) == b"x}"


def test_errors_of_the_package_are_what_readers_may_end_in() -> None:
    assert all(issubclass(error, PrivpipeError) and error is not PrivpipeError for r in READERS for error in r.errors)
