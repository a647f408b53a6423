"""A job ends as the command line would, reports only public figures, and stops with its caller."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from privpipe import errors
from privpipe.scheduled import Ending, Job, published_at, run_apart
from privpipe.scheduled import job as apart
from privpipe.scheduled.job import ERRORS, WORDS
from tests.tiers import deep, deep_beyond

from .conftest import CANARY

Written = Callable[..., str]


def test_a_release_is_published_and_its_figures_are_those_of_the_public_edition(
    tmp_path: Path, written: Written
) -> None:
    lines: list[str] = []
    job = Job(policy=written(), report=str(tmp_path / "reports" / "visits.html"))
    ending = run_apart(job, tell=lines.append)
    assert (ending.code, ending.word, ending.good) == (0, "published", True), ending.message
    assert lines[0] == "step 1 of 7: scan"
    public = json.loads(Path(ending.path, "_privpipe", "verdict.json").read_text(encoding="utf-8"))
    assert ending.run_id == public["run_id"]
    assert {name: ending.figures[name] for name in ("passed", "records", "classes")} == {
        "passed": True,
        "records": 12,
        "classes": 4,
    }
    rows = [(row["guarantee"], row["asked"], row["reached"], row["margin"]) for row in ending.figures["guarantees"]]
    assert rows[1] == ("k_anonymity", 3, 3, 0.0)
    assert [row["name"] for row in public["guarantees"]] == [row[0] for row in rows]
    assert "<html" in Path(ending.report).read_text(encoding="utf-8")
    assert CANARY not in json.dumps(ending.to_dict()) + "".join(lines) + Path(ending.report).read_text("utf-8")


@pytest.mark.deep
def test_a_refusal_is_final_says_what_was_asked_and_leaves_what_stood_there(tmp_path: Path, written: Written) -> None:
    assert run_apart(Job(policy=written(3))).good
    before = published_at(str(tmp_path / "policies" / "published" / "visits"))
    ending = run_apart(Job(policy=written(4)))
    assert (ending.code, ending.word, ending.worth_another_try) == (5, "refused", False)
    assert "k_anonymity: required 4, achieved 3" in ending.message
    assert ending.sentence.startswith("refused: k_anonymity: required 4, achieved 3. Nothing was published.")
    assert ending.figures["guarantees"][1]["margin"] == -1.0
    assert isinstance(ending.error(), errors.Refused)
    assert CANARY not in json.dumps(ending.to_dict())
    assert published_at(str(tmp_path / "policies" / "published" / "visits")) == before is not None


@pytest.mark.deep
def test_a_refusal_on_few_records_shows_no_figure_that_a_release_would_not(tmp_path: Path, written: Written) -> None:
    """The public edition withholds counts below the k of the policy; so does an ending."""
    policy = written(3, more="measures:\n  - sample_uniqueness: {}\n")
    lone = Path(policy).parent / "visits.csv"
    lone.write_text(lone.read_text(encoding="utf-8") + "999,99,flu\n", encoding="utf-8")
    ending = run_apart(Job(policy=policy))
    assert ending.word == "refused"
    assert "failing" not in json.dumps(ending.to_dict())


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"policy": "nowhere.yaml"}, "usage"),
        deep({"engine": "abacus"}, "usage"),
        deep({"plan": "nowhere.json"}, "usage"),
    ],
)
def test_what_is_wrong_without_the_data_is_final(written: Written, change: dict[str, str], word: str) -> None:
    ending = run_apart(Job(**{"policy": written(), **change}))  # type: ignore[arg-type]
    assert (ending.word, ending.worth_another_try) == (word, False)


def test_what_the_data_shows_is_final(written: Written) -> None:
    policy = written()
    (Path(policy).parent / "visits.csv").write_text("zip,age\n081,31\n", encoding="utf-8")
    ending = run_apart(Job(policy=policy))
    assert (ending.word, ending.worth_another_try) == ("data", False)


@pytest.mark.deep
def test_a_breakdown_is_worth_another_try(tmp_path: Path, written: Written) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ending = run_apart(Job(policy=written(), target=str(tmp_path / "file" / "out")))
    assert (ending.code, ending.word, ending.worth_another_try) == (4, "engine", True)


@pytest.mark.deep
def test_a_finished_table_is_judged(tmp_path: Path, written: Written) -> None:
    policy = written()
    table = str(Path(policy).parent / "visits.csv")
    assert run_apart(Job(action="judge", data=table, policy=policy)).word == "passed"
    refused = run_apart(Job(action="judge", data=table, policy=written(4)))
    assert (refused.word, refused.code) == ("refused", 5)
    assert run_apart(Job(action="judge", data=str(tmp_path / "gone.csv"), policy=policy)).word not in (
        "passed",
        "published",
    )


def test_every_exit_code_of_the_error_tree_has_a_word_and_its_error() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, errors.PrivpipeError) and kind is not errors.PrivpipeError:
            word = WORDS[kind.exit_code]
            # Another try could not repair a crash, as it could an engine error.
            assert (word not in ERRORS) if kind is errors.InternalError else ERRORS[word].exit_code == kind.exit_code
    assert Ending.of_code(0, "nothing told").good is False


HOSTILE = ("$(touch hacked); `touch hacked`", "a\x00b", "", "  ", "a\nb", "\x1b[2J", "--help", "-", "{{ x }}")


@pytest.mark.parametrize("hostile", deep_beyond(1, HOSTILE))
def test_a_hostile_text_is_a_path_that_is_not_there_and_nothing_else(tmp_path: Path, hostile: str) -> None:
    def told() -> str:
        try:
            ending = run_apart(Job(policy=hostile))
        except errors.UsageError as error:
            return str(error)
        assert ending.word == "usage"
        return ending.message

    assert told().isprintable()
    assert not Path("hacked").exists()


def test_anything_but_text_is_refused() -> None:
    for given in (None, 3, {"version": 1}, ["a"]):
        with pytest.raises(errors.UsageError, match="policy"):
            Job(policy=given)  # type: ignore[arg-type]


def test_an_interpreter_without_privpipe_gives_no_verdict(tmp_path: Path, written: Written) -> None:
    for python in (str(tmp_path / "nowhere"), "/bin/false"):
        if python.endswith("false"):
            assert run_apart(Job(policy=written()), python=python).good is False
        else:
            with pytest.raises(errors.UsageError, match="python"):
                run_apart(Job(policy=written()), python=python)


def test_a_process_that_ends_well_and_shows_nothing_has_not_published(written: Written) -> None:
    ending = run_apart(Job(policy=written()), python="/bin/true")
    assert (ending.word, ending.good) == ("crash", False)


def test_a_process_that_shows_another_end_than_it_comes_to_is_not_believed(tmp_path: Path, written: Written) -> None:
    liar = tmp_path / "liar"
    told = json.dumps({"ending": Ending(code=0, word="published").to_dict()})
    liar.write_text(f"#!/bin/sh\necho '{told}'\nexit 3\n", encoding="utf-8")
    liar.chmod(0o755)
    assert run_apart(Job(policy=written()), python=str(liar)).word == "data"


PARENT = """
import sys
from privpipe.scheduled import Job, run_apart
said = lambda line: print(line, flush=True)
run_apart(Job(policy=sys.argv[1]), tell=said, started=lambda process: said(process.pid))
"""


@pytest.mark.deep
@pytest.mark.parametrize("step", ["stage", "judge", "publish"])
def test_a_killed_task_leaves_no_process_and_the_next_try_publishes(
    tmp_path: Path, written: Written, step: str
) -> None:
    policy = written()
    with subprocess.Popen([sys.executable, "-c", PARENT, policy], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        for line in parent.stdout:
            if line.strip().endswith(f": {step}"):
                break
        parent.kill()  # as a worker that runs out of memory: nothing of it runs any more
    until = time.monotonic() + 120
    while time.monotonic() < until and _runs(child):
        time.sleep(0.05)
    assert not _runs(child)
    target = tmp_path / "policies" / "published" / "visits"
    left = published_at(str(target))  # it may have been faster than the kill; a part of it stands nowhere
    assert left is None or left.passed
    ending = run_apart(Job(policy=policy))
    assert ending.good
    found = published_at(str(target))
    assert found is not None
    assert found.run_id == ending.run_id
    assert not list((target.parent / ".visits.privpipe" / "staging").iterdir())


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        pass
    if Path("/proc/self").exists():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.deep
def test_an_error_in_the_task_ends_the_process_before_it_goes_on(tmp_path: Path, written: Written) -> None:
    class TimedOut(Exception):
        pass

    processes: list[subprocess.Popen[bytes]] = []

    def late(line: str) -> None:
        if line.endswith("stage"):
            raise TimedOut

    with pytest.raises(TimedOut):
        run_apart(Job(policy=written()), tell=late, started=processes.append)
    assert processes[0].poll() in (143, -signal.SIGTERM)
    assert published_at(str(tmp_path / "policies" / "published" / "visits")) is None


TERMINATED = """
import json, os, signal, sys, time
from privpipe.scheduled import Job, run_apart
from privpipe.scheduled.job import end
held = []
def handler(number, frame):
    end(held[0])
    if sys.argv[2] == "raises":
        raise RuntimeError("the task was told to stop")
signal.signal(signal.SIGTERM, handler)
said = lambda line: print(line, flush=True)
try:
    ending = run_apart(Job(policy=sys.argv[1]), tell=said, started=held.append)
    print(json.dumps(ending.to_dict()), flush=True)
except RuntimeError as error:
    print(f"{type(error).__name__}: {error}, {held[0].returncode}", flush=True)
"""


@pytest.mark.deep
@pytest.mark.parametrize(("step", "kind"), [("judge", "returns"), ("stage", "raises")])
def test_a_task_that_is_told_to_stop_while_it_reads_ends_its_process_and_keeps_the_outcome(
    tmp_path: Path, written: Written, step: str, kind: str
) -> None:
    command = [sys.executable, "-c", TERMINATED, written(), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as task:
        assert task.stdout is not None
        assert task.stderr is not None
        lines = iter(task.stdout)
        assert any(line.strip().endswith(f": {step}") for line in lines)
        for _ in range(3):  # a scheduler may repeat it
            task.send_signal(signal.SIGTERM)
            time.sleep(0.05)
        last = list(lines)[-1]
        told = task.stderr.read()
    assert "reentrant" not in told
    published = published_at(str(tmp_path / "policies" / "published" / "visits"))
    if kind == "raises":
        assert last.startswith("RuntimeError: the task was told to stop") or not last.strip()
        assert published is None
        return
    ending = Ending.from_dict(json.loads(last))
    assert ending.code in (143, -signal.SIGTERM)
    assert (ending.word, ending.worth_another_try) == ("engine", True)
    assert published is None


def test_a_process_that_does_not_end_is_ended_by_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "PATIENCE", 0.3)
    command = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); print(); time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        apart.end(process)
        assert process.wait(20) == -signal.SIGKILL


@pytest.mark.deep
def test_a_repeated_job_of_a_batch_ends_well_and_changes_nothing(tmp_path: Path, written: Written) -> None:
    policy, told = written(), []
    first = run_apart(Job(policy=policy, batch="2026-01-31"))
    link = os.readlink(tmp_path / "policies" / "published" / "visits")
    again = run_apart(Job(policy=policy, batch="2026-01-31"), tell=told.append)
    assert (first.good, again.good) == (True, True)
    assert again.message.startswith("already published: batch 2026-01-31")
    assert (again.run_id, os.readlink(tmp_path / "policies" / "published" / "visits")) == (first.run_id, link)
    assert not [line for line in told if "judge" in line]
