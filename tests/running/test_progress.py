"""A watcher learns the progress of a step, seldom enough, and no value with it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe import progress
from privpipe.cli.console import _Lines
from privpipe.engines import Engine
from privpipe.progress import Within, advanced, watched, within
from privpipe.running.run import STEPS

CANARIES = ("Zanzibarella", "Quokkaville", "xylophobia")


class Clock:
    """Time that passes by so much with every look at it."""

    def __init__(self, by: float) -> None:
        self.now = 0.0
        self.by = by

    def __call__(self) -> float:
        self.now += self.by
        return self.now


@pytest.fixture
def every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message is left out."""
    monkeypatch.setattr(progress._Watch, "within", _always)


def _always(self: Any, what: str, done: int, of: int | None) -> None:
    self._next = 0.0
    total = "" if of is None else f" of {of:,}"
    self._tell(Within(f"{self._step}: {done:,}{total} {what}"))


def test_messages_within_a_step_are_bounded_by_time() -> None:
    told: list[str] = []
    clock = Clock(0.001)
    with watched(told.append, clock=clock) as step:
        step("search")
        for done in range(5000):
            within("nodes", done, 5000)
    assert told[0] == "search"
    assert 40 <= len(told) <= 1 + clock.now * 10
    assert all(isinstance(text, Within) for text in told[1:])
    assert not isinstance(told[0], Within)


def test_counts_begin_again_with_each_step() -> None:
    told: list[str] = []
    with watched(told.append, every=0) as step:
        for name in ("one", "two"):
            step(name)
            advanced("blocks", 3)
            advanced("blocks")
    assert told == ["one", "one: 3 blocks", "one: 4 blocks", "two", "two: 3 blocks", "two: 4 blocks"]


def test_no_one_is_told_outside_or_within_a_watch_of_no_one() -> None:
    told: list[str] = []
    within("nodes", 1)
    with watched(told.append, every=0):
        with watched(None) as step:
            step("inner")
            within("nodes", 1)
        within("rows", 2)
    within("nodes", 1)
    assert told == [": 2 rows"]


def test_what_the_watcher_raises_ends_the_work(document: dict[str, Any], every_time: None) -> None:
    def stop(text: str) -> None:
        if isinstance(text, Within):
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        pp.release(document, progress=stop)
    assert not Path(document["sink"]["path"]).exists()


def test_a_release_reports_nodes_and_rows_and_no_value(document: dict[str, Any], every_time: None) -> None:
    told: list[str] = []
    result = pp.release(document, progress=told.append)
    assert [text for text in told if text in STEPS] == list(STEPS)
    inside = [text for text in told if isinstance(text, Within)]
    assert any(text.startswith("stage 2 of 2: generalize: ") and text.endswith(" nodes") for text in inside)
    records = result.assessment.records
    assert f"write: {records:,} rows" in inside
    assert not any(word in text for text in told for word in CANARIES)


def test_the_release_is_the_same_whether_someone_watches(document: dict[str, Any]) -> None:
    def outcome(**more: Any) -> Any:
        found = pp.release(document, dry_run=True, **more)
        return [file["sha256"] for file in found.manifest["output"]["files"]], found.plan.digest

    assert outcome() == outcome(progress=lambda text: None)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ({"microaggregate": {"columns": ["income", "age"], "k": 3, "block": 16}}, ("passes", "blocks")),
        ({"local_recoding": {"suppress_at_most": 0.05, "method": "sweep"}}, ("vectors of levels",)),
        ({"local_recoding": {"suppress_at_most": 0.05, "method": "rounds"}}, ("nodes", "rounds")),
        ({"local_recoding": {"suppress_at_most": 0.05, "method": "search"}}, ("blocks",)),
        ({"generalize": {"search": "minimal", "suppress_at_most": 0.05}}, ("nodes",)),
        ({"generalize": {"search": "genetic", "suppress_at_most": 0.05}}, ("nodes",)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_long_stages_tell_how_far_they_are(
    stage: dict[str, Any], words: tuple[str, ...], document: dict[str, Any], every_time: None
) -> None:
    changed = copy.deepcopy(document)
    changed["transform"] = [stage]
    changed["guarantees"] = [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "illness", "l": 1}}]
    told: list[str] = []
    pp.plan(None, changed, progress=told.append, losses=False)
    for word in words:
        assert any(isinstance(text, Within) and text.endswith(f" {word}") for text in told), told


def test_every_engine_shows_its_steps_and_the_nodes(engine: Engine, document: dict[str, Any], every_time: None) -> None:
    told: list[str] = []
    pp.release(document, engine=engine, progress=told.append)
    assert [text for text in told if text in STEPS] == list(STEPS)
    assert any(text.endswith(" nodes") for text in told)


def test_lines_of_a_log_are_few(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _Lines(clock=Clock(0.1))
    lines("search")
    for done in range(200):
        lines(Within(f"search: {done} nodes"))
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "progress: search"
    assert len(shown) == 1 + 200 // 51
