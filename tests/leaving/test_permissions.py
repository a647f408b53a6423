"""What is published follows the umask, also the way to it; what is not is in folders of its owner alone."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import PrivpipeError, Refused, SinkError
from privpipe.private_files import make_public
from privpipe.sinks.target import LocalTarget
from tests.tiers import deep, deep_beyond

NOBODY = 65534


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def policy(place: Path, **sections: Any) -> dict[str, Any]:
    if not (place / "in.parquet").exists():
        pq.write_table(pa.table({"zip": ["a", "a", "b", "b"]}), place / "in.parquet")
    return {
        "source": {"path": str(place / "in.parquet")},
        "columns": {"zip": {"role": "quasi_identifier"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "sink": {"path": str(place / "deep" / "published" / "people")},
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
        **sections,
    }


def modes(folder: Path) -> dict[str, int]:
    found = {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}
    return found | {".": stat.S_IMODE(folder.stat().st_mode)}


def state_of(document: dict[str, Any]) -> Path:
    sink = Path(document["sink"]["path"])
    return sink.with_name(f".{sink.name}.privpipe")


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_release_and_the_way_to_it_follow_the_umask(engine: Engine, place: Path, umask: int, format: str) -> None:
    document = policy(place)
    document["sink"]["format"] = format
    result = pp.release(document, engine=engine)
    state = state_of(document)
    for folder in (place / "deep", state.parent, state, state / "releases"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~umask, folder
    release = Path(os.path.realpath(result.path))
    for name, mode in modes(release).items():
        expected = 0o777 if (release / name).is_dir() else 0o666
        assert mode == expected & ~umask, name
    assert not [name for name in modes(release) if name.endswith(".crc")]
    assert modes(state / "staging") == {".": 0o700}
    assert stat.S_IMODE((state / "lock").stat().st_mode) == 0o600


def test_staged_files_are_private_while_they_are_judged(
    engine: Engine, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, int]] = []
    document = policy(place)
    staging = state_of(document) / "staging"
    pp.release(document, engine=engine, progress=lambda step: seen.append(modes(staging)) if step == "judge" else None)
    (found,) = seen
    assert len(found) == 3
    assert {mode for name, mode in found.items() if name.endswith(".parquet")} == {0o600}
    assert {mode for name, mode in found.items() if not name.endswith(".parquet")} == {0o700}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_reads_the_release_and_nothing_else(place: Path) -> None:
    document = policy(place)
    published = pp.release(document).path
    with pytest.raises(Refused):
        pp.release(policy(place, guarantees=[{"k_anonymity": {"k": 3}}]))

    def as_nobody(*command: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, check=False)

    assert as_nobody("cat", f"{published}/_privpipe/verdict.json", f"{published}/part-00000.parquet").returncode == 0
    state = state_of(document)
    secret = [path for path in state.iterdir() if path.name not in ("releases", "lock")]
    assert secret
    for path in secret:
        assert as_nobody("ls", str(path)).returncode != 0
    assert as_nobody("cat", str(state / "lock")).returncode != 0
    assert as_nobody("sh", "-c", f"echo x > '{published}/more'").returncode != 0


def test_a_private_folder_is_private_under_any_umask(place: Path, umask: int) -> None:
    with LocalTarget(place / "people") as target:
        assert stat.S_IMODE(target.private("records").stat().st_mode) == 0o700
        (target.state / "records").chmod(0o755)  # as an earlier version might have left it
        assert stat.S_IMODE(target.private("records").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("name", [".", "staging", "releases"])
def test_a_work_area_of_someone_else_is_refused(place: Path, name: str) -> None:
    document = policy(place)
    (state_of(document) / name).mkdir(parents=True, exist_ok=True)
    os.chown(state_of(document) / name, NOBODY, NOBODY)
    with pytest.raises(SinkError, match=r"belongs to another user \(uid 65534\)") as caught:
        pp.release(document)
    assert caught.value.exit_code == 4
    assert not Path(document["sink"]["path"]).exists()


@pytest.mark.parametrize("name", [".", "staging", "releases", "staging/planted", "releases/planted", "lock", "planted"])
def test_a_work_area_with_links_is_refused(place: Path, name: str) -> None:
    """Nothing is written through a link, and nothing of what it leads to is thrown away."""
    document = policy(place)
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "precious").write_text("x")
    link = state_of(document) / name
    link = state_of(document) if name == "." else link
    link.parent.mkdir(parents=True)
    link.symlink_to(place / "elsewhere")
    with pytest.raises(SinkError):
        pp.release(document)
    assert [path.name for path in (place / "elsewhere").iterdir()] == ["precious"]
    assert not Path(document["sink"]["path"]).exists()


def test_a_private_folder_that_is_a_link_is_refused(place: Path) -> None:
    with LocalTarget(place / "people") as target:
        (target.state / "records").symlink_to(place)
        with pytest.raises(SinkError, match="is a link"):
            target.private("records")


def test_a_staged_link_is_never_published(place: Path) -> None:
    (place / "staged").mkdir()
    (place / "staged" / "part-00000.parquet").symlink_to(place / "secret")
    with pytest.raises(SinkError, match="is a link"):
        make_public(place / "staged", (0o644, 0o755))


STEPS = ["os.mkdir", "os.rename", "os.replace", "os.symlink", "os.fsync", "os.chmod", "os.open", "io.open"]


class Fault:
    """One call of a function fails, counted over those about the sink; the others do what they did."""

    def __init__(self, function: Callable[..., Any], sink: Path, at: int, number: int) -> None:
        self.function, self.sink, self.left, self.number = function, str(sink.parent), at, number
        self.struck = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(args[0], int) or any(str(each).startswith(self.sink) for each in args):
            self.left -= 1
            if self.left == -1:
                self.struck = True
                raise OSError(self.number, os.strerror(self.number))
        return self.function(*args, **kwargs)


def error_of(run: Callable[[], Any]) -> PrivpipeError | None:
    try:
        run()
    except PrivpipeError as error:
        return error
    return None


@pytest.mark.parametrize("number", [errno.ENOSPC, deep(errno.EACCES)], ids=errno.errorcode.get)
@pytest.mark.parametrize("what", STEPS)
def test_a_fault_at_any_step_publishes_nothing(
    embedded: Engine, place: Path, what: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call about the sink fails once; readers see the release before, whole, and the error names the reason."""
    document = policy(place)
    sink = Path(document["sink"]["path"])

    def seen() -> tuple[str, bytes]:
        return os.readlink(sink), (sink / "_privpipe" / "verdict.json").read_bytes()

    pp.release(document, engine=embedded)
    struck = 0
    for at in range(60):
        before = seen()
        module, _, name = what.rpartition(".")
        fault = Fault(getattr(__import__(module), name), sink, at, number)
        with monkeypatch.context() as patch:
            patch.setattr(what, fault)
            error = error_of(lambda: pp.release(document, engine=embedded))
        if not fault.struck:
            break
        struck += 1
        if error is None:  # in cleaning up, on which nothing hangs
            assert json.loads(seen()[1])["passed"]
            continue
        assert error.exit_code == 4, (at, error)
        assert os.strerror(number) in str(error) or "PermissionError" in str(error), (at, error)
        assert seen() == before, at
    assert struck
    assert not fault.struck
    assert pp.release(document, engine=embedded).assessment.passed


def test_a_sink_that_fills_up_while_it_is_withdrawn_goes_back(
    embedded: Engine, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Going back takes no room: after the switch, nothing new can be made and the release before returns."""
    document = policy(place)
    sink = Path(document["sink"]["path"])
    pp.release(document, engine=embedded)
    before = os.readlink(sink)

    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def step(name: str) -> None:
        if name == "judge again":
            monkeypatch.setattr("os.symlink", full)
            monkeypatch.setattr("os.mkdir", full)
            raise SinkError("the step after the switch")

    with pytest.raises(SinkError, match="after the switch"):
        pp.release(document, engine=embedded, progress=step)
    assert os.readlink(sink) == before


LIMITED = """
import resource, sys
from privpipe.cli.app import main

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
sys.argv = ["privpipe", "release", sys.argv[1], "--engine", sys.argv[2]]
main()
"""


@pytest.mark.parametrize("engine_name", deep_beyond(1, ("embedded", "dask")))
@pytest.mark.parametrize("format", deep_beyond(1, ("parquet", "csv", "json")))
def test_part_files_that_find_no_room_publish_nothing(engine_name: str, format: str, place: Path) -> None:
    """The system itself refuses more bytes, in the middle of a file and beneath any library."""
    document = policy(place)
    texts = [f"{n * 2654435761 % 2**32:08x}" for n in range(20_000)]
    pq.write_table(pa.table({"zip": ["a"] * len(texts), "text": texts}), place / "in.parquet")
    document["columns"]["text"] = {"role": "insensitive"}
    document["sink"]["format"] = format
    (place / "release.yaml").write_text(json.dumps(document))
    command = [sys.executable, "-c", LIMITED, str(place / "release.yaml"), engine_name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 4, done.stderr
    assert "cannot be written" in done.stderr
    assert "File too large" in done.stderr
    assert not Path(document["sink"]["path"]).exists()
    assert list((state_of(document) / "staging").iterdir()) == []
