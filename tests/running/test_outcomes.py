"""From the moment a release stands, what fails is noted and the release is what the run came to."""

from __future__ import annotations

import errno
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.engines.embedded.engine import EmbeddedEngine
from privpipe.errors import EngineError, NotWithdrawn, PrivpipeError
from privpipe.ledger import Ledger
from privpipe.running import run as runs
from privpipe.running.release_memory import KeyHistory
from privpipe.running.release_result import Outcome
from privpipe.scheduled.job import Ending, Job
from privpipe.scheduled.job_process import done
from privpipe.sinks.databases.target import DatabaseTarget
from privpipe.sinks.delta import DeltaTarget
from privpipe.sinks.records import PrivateRecords
from privpipe.sinks.target import LocalTarget
from tests.tiers import deep_beyond

SINKS: Mapping[str, tuple[dict[str, str], type[Any]]] = {
    "folder": ({"path": "out/rows"}, LocalTarget),
    "delta": ({"path": "out/rows", "format": "delta", "mode": "append"}, DeltaTarget),
    "sqlite": ({"database": "out/rows.sqlite", "table": "rows"}, DatabaseTarget),
}
FULL = OSError(errno.ENOSPC, "canary-4711")
NOISE = [{"add_noise": {"columns": ["income"], "variance_ratio": 0.1}}]


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pp.Policy]:
    """A policy over 40 people, with noise; to each sink, with a ledger where the sink takes one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()

    def made(sink: str, **changes: Any) -> pp.Policy:
        lines = [f"{town},{100 + 7 * at}" for at, town in enumerate(["Ulm", "Bonn"] * 20)]
        (tmp_path / "people.csv").write_text("\n".join(["town,income", *lines]) + "\n")
        document = {
            "version": 1,
            "name": "people",
            "source": {"path": "people.csv"},
            "columns": {
                "town": {"role": "quasi_identifier"},
                "income": {"role": "insensitive", "type": "number"},
            },
            "transform": NOISE,
            "guarantees": [{"k_anonymity": {"k": 2}}],
            "sink": SINKS[sink][0],
            "seed": "7d1c9a3e5b8f2046d1e7c3a95f80b264",
            **changes,
        }
        (tmp_path / "policy.yaml").write_text(yaml.safe_dump(document))
        return pp.Policy.from_dict(document, tmp_path)

    return made


def failing(error: BaseException) -> Callable[..., None]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


def only_after(publication: list[str], real: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    """A step that fails once the release is published."""

    def step(*given: Any, **more: Any) -> Any:
        if publication:
            raise error
        return real(*given, **more)

    return step


def stands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled with the run when its release stands."""
    seen: list[str] = []
    real = Outcome.stands

    def told(self: Outcome, result: Any) -> None:
        real(self, result)
        seen.append(result.run_id)

    monkeypatch.setattr(Outcome, "stands", told)
    return seen


STEPS: Mapping[str, tuple[Callable[[type[Any]], Any], str, str]] = {
    "record": (lambda _: PrivateRecords, "settle", "marked as pending"),
    "draws": (lambda _: KeyHistory, "settle", "its draws are written and pending"),
    "waiting": (lambda _: runs, "drop_stale", "wait for a sign-off"),
    "sink": (lambda kind: kind, "__exit__", "not closed in order"),
    "engine": (lambda _: EmbeddedEngine, "close", "not closed in order"),
}


@pytest.mark.parametrize("error", deep_beyond(1, (FULL, KeyboardInterrupt())), ids=["full", "signal"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("sink", SINKS)
def test_what_fails_after_publication_is_noted_and_settled_by_the_next_run(
    policy: Callable[..., pp.Policy], monkeypatch: pytest.MonkeyPatch, sink: str, step: str, error: BaseException
) -> None:
    asked = policy(sink)
    where, name, said = STEPS[step]
    owner = where(SINKS[sink][1])
    with monkeypatch.context() as patch:
        real, seen = getattr(owner, name), stands(patch)
        if step == "sink":  # it fails when all is done

            def leave(self: Any, *details: Any) -> None:
                real(self, *details)
                if seen:
                    raise error

            patch.setattr(owner, name, leave)
        else:
            patch.setattr(owner, name, only_after(seen, real, error))
        result = pp.release(asked)
    reason = {"OSError": "No space left on device", "KeyboardInterrupt": "interrupted"}
    wanted = reason.get(type(error).__name__, type(error).__name__)
    [line] = result.unfinished
    assert said in line
    assert f"({wanted})" in line
    assert (Path(result.record) / "afterwards.txt").read_text() == f"{line}\n"
    assert (Path(result.record) / "afterwards.txt").stat().st_mode & 0o777 == 0o600
    again = pp.release(asked)
    assert again.unfinished == ()
    assert Path(result.record, "manifest.json").exists()
    assert not [*Path(result.record).parent.glob("*.pending")]


def test_draws_of_a_release_count_though_they_could_not_be_settled(
    policy: Callable[..., pp.Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(KeyHistory, "settle", failing(FULL))
        pp.release(policy("folder"))
    other = policy("folder", seed="8e2dab4f6c903157e2f8d4ba6091c375")
    assert not [note for note in pp.release(other).assessment.source_notes if "was released" in note]
    changed = policy("folder", transform=[{"add_noise": {"columns": ["income"], "variance_ratio": 0.2}}])
    [note] = [note for note in pp.release(changed).assessment.source_notes if "was released" in note]
    assert "2 times with independent noise" in note


@pytest.mark.parametrize("step", ["publish", "judge again", "done"])
def test_draws_that_were_not_published_do_not_count(policy: Callable[..., pp.Policy], step: str) -> None:
    def stop(told: str) -> None:
        if told == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pp.release(policy("folder"), progress=stop)
    changed = policy("folder", transform=[{"add_noise": {"columns": ["income"], "variance_ratio": 0.2}}])
    assert not [note for note in pp.release(changed).assessment.source_notes if "was released" in note]


@pytest.mark.parametrize("owner", [KeyHistory, Outcome])
def test_what_cannot_be_noted_before_publication_stops_it(
    policy: Callable[..., pp.Policy], monkeypatch: pytest.MonkeyPatch, owner: type[Any]
) -> None:
    asked = policy("folder")
    before = pp.release(asked)
    with monkeypatch.context() as patch:
        patch.setattr(owner, {"KeyHistory": "prepare", "Outcome": "stands"}[owner.__name__], failing(FULL))
        with pytest.raises(EngineError, match="No space left on device") as ended:
            pp.release(asked)
    assert "canary" not in str(ended.value)
    assert Path(before.path).resolve().name == before.run_id
    assert not [*Path(before.record).parent.glob("*.pending")]
    assert [path.name for path in Path(before.record).parent.iterdir()] == [before.run_id]


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("cause", [FULL, KeyboardInterrupt()], ids=["full", "signal"])
def test_a_release_that_cannot_be_withdrawn_is_said_to_be_read(
    policy: Callable[..., pp.Policy], monkeypatch: pytest.MonkeyPatch, sink: str, cause: BaseException
) -> None:
    asked = policy(sink)
    pp.release(asked)
    monkeypatch.setattr(SINKS[sink][1], "withdraw", failing(FULL))
    monkeypatch.setattr(runs.ReleaseRun, "_judged_again", failing(cause))
    with pytest.raises(NotWithdrawn, match="could not be withdrawn") as caught:
        pp.release(asked)
    assert "nothing was published" not in str(caught.value)
    assert "canary" not in str(caught.value)
    ending = Ending.of_code(caught.value.exit_code)
    assert not ending.worth_another_try
    assert "nothing was published" not in ending.message


def test_a_release_that_was_withdrawn_before_something_failed_is_not_said_to_be_read(
    policy: Callable[..., pp.Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = policy("folder")
    before = pp.release(asked)
    real = LocalTarget.withdraw

    def withdraw(self: LocalTarget, run_id: str) -> None:
        real(self, run_id)
        raise FULL

    monkeypatch.setattr(LocalTarget, "withdraw", withdraw)
    monkeypatch.setattr(runs.ReleaseRun, "_judged_again", failing(PrivpipeError("the cause")))
    with pytest.raises(PrivpipeError, match="the cause"):
        pp.release(asked)
    assert Path(before.path).resolve().name == before.run_id


def test_the_command_line_ends_with_the_outcome_when_a_signal_comes_late(
    policy: Callable[..., pp.Policy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy("folder")
    # As its handler raises it; where a real signal is met is not the same each time.
    monkeypatch.setattr(LocalTarget, "_unlock", failing(KeyboardInterrupt()))
    ended = CliRunner().invoke(app, ["release", str(tmp_path / "policy.yaml")])
    assert (ended.exit_code, (tmp_path / "out/rows").exists()) == (0, True)
    assert "PUBLISHED: " in ended.stderr
    assert "not closed in order; the next run to this sink removes what is left (interrupted)" in ended.stderr
    assert "nothing was published" not in ended.stderr


@pytest.mark.parametrize("cause", [FULL, KeyboardInterrupt()], ids=["full", "signal"])
def test_the_command_line_ends_with_8_where_a_release_cannot_be_withdrawn(
    policy: Callable[..., pp.Policy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: BaseException
) -> None:
    policy("folder")
    monkeypatch.setattr(LocalTarget, "withdraw", failing(FULL))
    monkeypatch.setattr(runs.ReleaseRun, "_judged_again", failing(cause))
    ended = CliRunner().invoke(app, ["release", str(tmp_path / "policy.yaml")])
    assert (ended.exit_code, (tmp_path / "out/rows").exists()) == (8, True)
    assert "Readers see it" in ended.stderr
    assert "nothing was published" not in ended.stderr


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "signal"])
def test_a_job_ends_as_published_whatever_fails_behind_it(
    policy: Callable[..., pp.Policy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    policy("folder")
    monkeypatch.setattr(importlib.import_module("privpipe.scheduled.work"), "public_figures", failing(error))
    told: list[str] = []
    ending = done(Job(action="release", policy=str(tmp_path / "policy.yaml")), told.append)
    assert (ending.code, ending.word) == (0, "published")
    assert "published: " in ending.message
    assert "warning: the release is published; not all of it is reported" in "\n".join(told)


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "signal"])
def test_a_ledger_entry_that_could_not_be_settled_counts_in_the_next_run(
    policy: Callable[..., pp.Policy], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    history = {"complementary_release": {"ledger": str(tmp_path / "ledger"), "k": 1}}
    asked = policy("folder", guarantees=[{"k_anonymity": {"k": 2}}, history])
    with monkeypatch.context() as patch:
        seen = stands(patch)
        patch.setattr(Ledger, "settle", only_after(seen, Ledger.settle, error))
        result = pp.release(asked)
    assert [*(tmp_path / "ledger").glob("*/pending-*")]
    [line] = result.unfinished
    assert "its ledger entry is written and pending" in line
    assert "`privpipe ledger repair`" in line
    with Ledger(tmp_path / "ledger", place=LocalTarget(tmp_path / "out/rows")) as opened:
        assert len(opened.releases()) == 1
    assert pp.release(asked).unfinished == ()
    with Ledger(tmp_path / "ledger", place=LocalTarget(tmp_path / "out/rows")) as opened:
        assert len(opened.releases()) == 2
