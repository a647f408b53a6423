"""Whatever ends a run on its way, an old release stays unchanged and nothing new is seen."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import EngineError, PrivpipeError
from privpipe.running.release_memory import KeyHistory
from privpipe.running.run import STEPS
from tests.tiers import deep


class Caller(Exception):
    """What a caller's own callback raises."""


def raising_at(step: str, error: BaseException) -> Callable[[str], None]:
    def tell(told: str) -> None:
        if told == step:
            raise error

    return tell


def seen(folder: Path) -> dict[str, bytes]:
    """What a reader of a release sees."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


ENDS = (KeyboardInterrupt(), SystemExit(3))
"""What ends a process; in `make test` at the step that publishes, where an error of a caller is raised at each step."""
RAISED: list[Any] = [
    *((step, Caller("told")) for step in STEPS),
    *(("publish", error) for error in ENDS),
    *(deep(step, error) for step in STEPS for error in ENDS if step != "publish"),
]


@pytest.mark.parametrize(("step", "error"), RAISED, ids=repr)
def test_what_a_callback_raises_is_raised_and_nothing_is_published(
    document: Mapping[str, Any], tmp_path: Path, step: str, error: BaseException
) -> None:
    first = pp.release(document)
    before = seen(Path(first.path))
    with pytest.raises(type(error)) as caught:
        pp.release(document, progress=raising_at(step, error))
    assert caught.value is error
    assert seen(Path(first.path)) == before
    state = Path(first.path).parent / f".{Path(first.path).name}.privpipe"
    assert [path.name for path in (state / "releases").iterdir()] == [first.run_id]
    assert list((state / "staging").iterdir()) == []
    assert pp.release(document).assessment.passed  # nothing holds the lock


@pytest.mark.parametrize("step", STEPS)
def test_without_an_earlier_release_nothing_is_seen(document: Mapping[str, Any], step: str) -> None:
    with pytest.raises(Caller):
        pp.release(document, progress=raising_at(step, Caller()))
    assert not os.path.lexists(document["sink"]["path"])


def test_a_source_that_changed_meanwhile_publishes_nothing(document: Mapping[str, Any], people: Path) -> None:
    def tell(step: str) -> None:
        if step == "write":
            people.write_text(people.read_text() + "late;44;Barrow;flu;7.5\n")

    with pytest.raises(EngineError, match=r"people\.csv changed while it was read"):
        pp.release(document, progress=tell)
    assert not os.path.lexists(document["sink"]["path"])


@pytest.mark.parametrize("engine", ["embedded", "dask"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_source_that_vanishes_is_a_typed_error(
    document: dict[str, Any], people: Path, tmp_path: Path, engine: str, ending: str
) -> None:
    source = people
    if ending == "parquet":
        source = tmp_path / "people.parquet"
        pd.read_csv(people, sep=";").to_parquet(source)
        document["source"] = {"path": str(source)}
    for step in ("stage", "write", "judge"):
        content = source.read_bytes()
        gone = Path(source)

        def tell(told: str, step: str = step, gone: Path = gone) -> None:
            if told == step:
                gone.unlink()

        with pytest.raises(PrivpipeError) as caught:
            pp.release(document, engine=engine, progress=tell)
        assert caught.value.exit_code in (3, 4)
        assert not os.path.lexists(document["sink"]["path"])
        source.write_bytes(content)


@pytest.mark.parametrize("error", [OSError(28, "canary-4711"), ValueError("canary-4711"), EngineError("the disk")])
@pytest.mark.parametrize("logs", [True, False])
def test_what_fails_after_publication_is_noted_and_the_release_stands(
    document: Mapping[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    logs: bool,
) -> None:
    class Full(logging.Handler):
        """A host's handler whose disk is full."""

        def emit(self, record: logging.LogRecord) -> None:
            raise OSError(28, "No space left on device")

    def keep(*_: Any) -> None:
        raise error

    log, full = logging.getLogger("privpipe.release"), Full()
    monkeypatch.setattr(KeyHistory, "settle", keep)
    if not logs:
        log.addHandler(full)
    try:
        result = pp.release(document)
    finally:
        log.removeHandler(full)
    assert seen(Path(result.path))
    if logs:
        assert "the release is published; " in caplog.text
        assert ("the disk" in caplog.text) == isinstance(error, PrivpipeError)
    assert "canary" not in caplog.text
