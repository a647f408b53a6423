"""Releases to a store that are killed, cut off, refused or slowed at a request, while a reader follows the pointer.

The run is a child forked from a warm process, and reaches moto's server through the proxy; the reader has a client of
its own. ``Trials.once`` says what is wrong after one run, and an empty list when nothing is.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import posixpath
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from tests.object_store import BUCKET, Fault, FaultyProxy, ObjectStore, Request

__all__ = ["KINDS", "SEED", "Reader", "Trials", "Warm"]

KINDS = ("kill", "cut", "cut after", "503", "403", "slow")
SEED = "8c1f0e5ad9b24733a1c6e0f2b7d45a98"
SINK = "people"
LONGEST = 90.0
CHILD = """
import os, sys
import privpipe as pp
import privpipe.judging, privpipe.running.verbs
from privpipe.errors import PrivpipeError
import s3fs
s3fs.S3FileSystem.retries = int(os.environ.get("STORE_RETRIES", "1"))
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
        continue
    try:
        pp.release(line.strip())
    except PrivpipeError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(error.exit_code)
    except BaseException as error:
        print(f"CRASH {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)
"""


class Warm:
    """A process that has imported everything and opened nothing; each run is a fork of it."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        self.home, self.environment = home, environment

    def __enter__(self) -> Self:
        project = Path(__file__).resolve().parents[1]
        variables = {**os.environ, **self.environment, "PRIVPIPE_TEST_SEED": SEED}
        variables["PYTHONPATH"] = os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")])
        self._errors = (self.home / "errors").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=self.home,
            env=variables,
        )
        assert self._line() == "ready"
        return self

    def __exit__(self, *details: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._process.stdout.close()
        self._errors.close()

    def started(self, policy: Path) -> int:
        """Begin a run; its process id."""
        assert self._process.stdin is not None
        print(policy, file=self._process.stdin, flush=True)
        return int(self._line())

    def ended(self) -> int:
        """How the run ended: its exit code, a signal as a negative number."""
        return int(self._line())

    def run(self, policy: Path) -> int:
        """A run that no one disturbs."""
        self.started(policy)
        return self.ended()

    def said(self) -> str:
        """What runs said on stderr."""
        return (self.home / "errors").read_text()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class Reader:
    """Someone who follows the pointer again and again, with a client of his own, and checks all that he reads."""

    def __init__(self, store: ObjectStore, pause: float = 0.05) -> None:
        self.store, self.pause = store, pause
        self.seen: list[str] = []
        self.wrong: list[str] = []
        self.reads = 0
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._stop.set()
        self._thread.join(LONGEST)

    def _poll(self) -> None:
        while not self._stop.wait(self.pause):
            try:
                self.look()
            except (OSError, http.client.HTTPException):
                continue

    def look(self) -> str:
        """The run id of the release that is published; nothing where none is."""
        for _ in range(20):
            named = self._named()
            if not named:
                self._note("")
                return ""
            found = self._read(named)
            if found is not None:
                self.reads += 1
                self._note(found)
                return found
            if self._named() == named:
                self.wrong.append(f"the pointer names {named}, which is not whole")
                return "?"
        return "?"

    def _note(self, state: str) -> None:
        if not self.seen or self.seen[-1] != state:
            self.seen.append(state)

    def _named(self) -> str:
        status, body = self.store.request("GET", f"/{BUCKET}/{SINK}/_CURRENT")
        if status not in (200, 404):
            raise OSError(f"the reader was answered {status}")
        return str(json.loads(body)["release"] or "") if status == 200 else ""

    def _read(self, named: str) -> str | None:
        home = posixpath.normpath(f"/{BUCKET}/{SINK}/{named}")
        documents = {}
        for name in ("manifest", "verdict"):
            status, body = self.store.request("GET", f"{home}/_privpipe/{name}.json")
            if status != 200:
                return None  # thrown away meanwhile, or never whole
            documents[name] = json.loads(body)
        manifest, verdict = documents["manifest"], documents["verdict"]
        for file in manifest["output"]["files"]:
            status, body = self.store.request("GET", f"{home}/{file['name']}")
            if status != 200 or hashlib.sha256(body).hexdigest() != file["sha256"]:
                return None
        if not verdict["passed"] or verdict["run_id"] != manifest["run_id"] or not home.endswith(manifest["run_id"]):
            self.wrong.append(f"{named} is a mix")
        return str(manifest["run_id"])


class Trials:
    """A sink in a store, to which is released again and again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.requests = 0

    def __enter__(self) -> Self:
        self.store = ObjectStore().__enter__()
        self.proxy = FaultyProxy(self.store).__enter__()
        pq.write_table(pa.table({"zip": ["a", "a", "b", "b"]}), self.home / "in.parquet")
        self.policy = self.home / "policy.json"
        self.policy.write_text(json.dumps(self.document()))
        environment = {**self.store.environment(self.proxy.url), "AWS_MAX_ATTEMPTS": "1"}
        self.warm = Warm(self.home, environment).__enter__()
        before = len(self.proxy.requests)
        assert self.warm.run(self.policy) == 0, self.warm.said()
        assert self.warm.run(self.policy) == 0, self.warm.said()  # one that finds a release to clean away
        self.requests = (len(self.proxy.requests) - before) // 2 + 6
        return self

    def __exit__(self, *details: object) -> None:
        for each in (self.warm, self.proxy, self.store):
            each.__exit__()

    def document(self) -> dict[str, Any]:
        """The policy of every run."""
        return {
            "source": {"path": str(self.home / "in.parquet")},
            "columns": {"zip": {"role": "quasi_identifier"}},
            "guarantees": [{"k_anonymity": {"k": 2}}],
            "sink": {"path": f"s3://{BUCKET}/{SINK}"},
            "records": str(self.home / "records"),
            "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
        }

    def once(self, kind: str, at: int, *, lasting: bool = False) -> list[str]:
        """One run that is struck at a request (`lasting`: at all from there on); what is wrong then."""
        old = Reader(self.store).look()
        first = len(self.proxy.requests)
        said = len(self.warm.said())
        with Reader(self.store) as reader:
            if kind == "kill":
                code = self._killed(first + at)
            else:
                self.proxy.fault = Fault(kind, first=at, times=None if lasting else 1, seconds=0.05)  # type: ignore[arg-type]
                self.warm.started(self.policy)
                code = self.warm.ended()
                self.proxy.fault = None
            time.sleep(0.02)
        new = Reader(self.store).look()
        found = list(reader.wrong)
        text = self.warm.said()[said:]
        allowed = {old, new}
        if not set(reader.seen) <= allowed:
            # What was published and withdrawn is a judged release too: it was judged before it was switched to.
            found += [] if code == 4 and len({*reader.seen} - allowed) == 1 else [f"{kind}: a third state was seen"]
        if code == 0 and new == old:
            found.append(f"{kind} at {at}: it ended well and published nothing")
        if code == 4 and new != old and "could not be withdrawn" not in text:
            found.append(f"{kind} at {at}: it failed and published: {text}")
        if code not in (0, 4, -signal.SIGKILL):
            found.append(f"{kind} at {at}: it ended with {code}: {text}")
        if "SECRETOFTESTS" in text or "AKIDOFTESTS" in text:
            found.append(f"{kind} at {at}: a credential was told")
        return found + self.listed()

    def listed(self) -> list[str]:
        """What a listing of the sink shows next to the pointer."""
        _, body = self.store.request("GET", f"/{BUCKET}?list-type=2&prefix={SINK}/")
        names = [part.split("</Key>")[0] for part in body.decode().split("<Key>")[1:]]
        return (
            [] if set(names) <= {f"{SINK}/_CURRENT", f"{SINK}/read_CURRENT_first.md"} else [f"the sink lists {names}"]
        )

    def after(self) -> list[str]:
        """What is wrong after a run that no one disturbs: it publishes, and leaves two releases and no lock."""
        old = Reader(self.store).look()
        code = self.warm.run(self.policy)
        reader = Reader(self.store)
        found = (
            [] if code == 0 and reader.look() != old else [f"the next run ended with {code}: {self.warm.said()[-300:]}"]
        )
        _, body = self.store.request("GET", f"/{BUCKET}?list-type=2&prefix=.{SINK}.privpipe/")
        names = [part.split("</Key>")[0] for part in body.decode().split("<Key>")[1:]]
        releases = {name.split("/")[2] for name in names if "/releases/" in name}
        if len(releases) > 2:
            found.append(f"{len(releases)} releases are there")
        if any(name.endswith("/_LOCK") for name in names):
            found.append("a lock was left")
        return found + reader.wrong + self.listed()

    def _killed(self, number: int) -> int:
        held = threading.Event()
        pid: list[int] = []
        dead: list[int] = []

        def watch(request: Request) -> None:
            if request.number >= number and not dead:
                held.wait(10)
                dead.append(1)
                with suppress(ProcessLookupError):
                    os.kill(pid[0], signal.SIGKILL)

        self.proxy.watch = watch
        try:
            pid.append(self.warm.started(self.policy))
            held.set()
            return self.warm.ended()
        finally:
            self.proxy.watch = None
