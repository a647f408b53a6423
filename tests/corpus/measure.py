"""Runs `privpipe init` and `privpipe release` on the tables of the corpus, and next to them the policies by hand.

`python -m tests.corpus.measure [FOLDER] [--only NAME ...] [--page FILE]`. Without `--page` it prints the table. No one
edits a draft: the line of its seed alone is made valid, so that a run can be repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from .checklist import failures
from .fetch import FOLDER, folder, place_of
from .page import Row, checks_of, page, table_of
from .tables import Table, named

__all__ = ["POLICIES", "Run", "main", "measured", "release_by_hand", "release_unattended", "row_of"]

POLICIES = Path(__file__).parent / "policies"
SEED = hashlib.sha256(b"first releases").hexdigest()  # for this page only
LIMIT = 900
TOO_LONG = 124
PROJECT = Path(os.environ.get("PRIVPIPE_PROJECT") or Path(__file__).parents[2])
"""Whose privpipe is measured."""
METHODS = ("generalize", "mondrian", "local_recoding", "suppress_cells", "microaggregate")
RELEASED = ("quasi_identifier", "sensitive", "insensitive")
TELLS = re.compile(r"^`(?P<by>.+?)` tells `(?P<column>.+?)` for ")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a policy came to: exit codes by command, the policy, the private verdict, seconds."""

    codes: Mapping[str, int]
    policy: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    verdict: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    processor: float = 0.0

    @property
    def met(self) -> bool:
        """Whether the release was published, every guarantee met."""
        fine = all(each["outcome"] == "pass" for each in self.verdict.get("guarantees", ()))
        return not any(self.codes.values()) and bool(self.verdict.get("passed")) and fine

    @property
    def columns(self) -> dict[str, dict[str, Any]]:
        """The row of each column in the release's own table."""
        return {each["column"]: each for each in self.verdict.get("column_loss", {}).get("columns", ())}

    @property
    def treated(self) -> dict[str, float]:
        """The loss of each quasi-identifier, and of each other column that a stage touched."""
        found = {}
        for name, row in self.columns.items():
            if row["loss"] is not None and (row["role"] == "quasi_identifier" or row["done"]):
                found[name] = float(row["loss"])
        return found

    def role(self, name: str) -> str:
        """The role of a column in the policy."""
        spec = self.policy.get("columns", {}).get(name, "")
        return str(spec if isinstance(spec, str) else spec.get("role", ""))


def privpipe(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process and a folder of its own."""
    env = {**os.environ, "PRIVPIPE_SEED": SEED, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "privpipe", *arguments]
    given: dict[str, Any] = {"cwd": place, "env": env, "stdin": subprocess.DEVNULL, "timeout": LIMIT}
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, **given)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, TOO_LONG, "", f"not done after {LIMIT} seconds")


def release_unattended(data: Path, place: Path) -> Run:
    """Draft a policy for the table and release by it."""
    shutil.copy(data, place / data.name)
    begun, used = time.monotonic(), _processor()
    drafted = privpipe(place, "init", data.name, "--out", "draft.yaml")
    if drafted.returncode:
        return Run(codes={"init": drafted.returncode}, text=drafted.stderr)
    return _released(place, "draft.yaml", {"init": 0}, (begun, used))


def release_by_hand(name: str, data: Path, place: Path) -> Run:
    """Release the table by the policy that a person wrote; nothing where there is none."""
    if not (POLICIES / f"{name}.yaml").exists():
        return Run(codes={})
    shutil.copy(data, place / data.name)
    shutil.copy(POLICIES / f"{name}.yaml", place / "hand.yaml")
    return _released(place, "hand.yaml", {}, (time.monotonic(), _processor()))


def _released(place: Path, policy: str, codes: dict[str, int], since: tuple[float, float]) -> Run:
    text = (place / policy).read_text(encoding="utf-8")
    text = re.sub(r"^# *(seed: \{from_env: PRIVPIPE_SEED\})", r"\1", text, flags=re.MULTILINE)
    (place / policy).write_text(text, encoding="utf-8")
    done = privpipe(place, "release", policy, "--json")
    seconds, processor = time.monotonic() - since[0], _processor() - since[1]
    verdict: dict[str, Any] = {}
    if done.stdout.strip():
        verdict = json.loads(done.stdout)
    return Run(
        codes={**codes, "release": done.returncode},
        policy=YAML(typ="safe").load(text),
        text=text if not done.returncode else done.stderr,
        verdict=verdict,
        seconds=seconds,
        processor=processor,
    )


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def method(run: Run) -> str:
    """The stage that recodes the quasi-identifiers, the last of several."""
    names = [name for stage in run.policy.get("transform", ()) for name in _names(stage)]
    return next((name for name in reversed(names) if name in METHODS[:-1]), "none")


def _names(stage: Any) -> list[str]:
    return [stage] if isinstance(stage, str) else list(stage)


def asked_k(run: Run) -> int | None:
    """The k of k-anonymity, None where it is not asked."""
    entries = [entry for entry in run.policy.get("guarantees", ()) if isinstance(entry, Mapping)]
    return next((entry["k_anonymity"]["k"] for entry in entries if "k_anonymity" in entry), None)


def dependencies(run: Run) -> tuple[int, int]:
    """Notes on columns that tell a generalized one; how many of the pairs no comment of the draft names."""
    pairs = [(found["by"], found["column"]) for note in run.verdict.get("notes", ()) if (found := TELLS.match(note))]
    comments = " ".join(line for line in run.text.splitlines() if line.lstrip().startswith("#"))
    return len(pairs), sum(not all(f"`{name}`" in comments for name in pair) for pair in pairs)


def compared(run: Run, hand: Run) -> tuple[float | None, float | None]:
    """The mean loss of the draft and of the hand over the columns that both treat."""
    both = sorted(set(run.treated) & set(hand.treated))
    if not both:
        return None, None
    return tuple(sum(each.treated[name] for name in both) / len(both) for each in (run, hand))  # type: ignore[return-value]


def row_of(table: Table, data: Path, run: Run, hand: Run) -> Row:
    """The page's line of a table."""
    loss, by_hand = compared(run, hand)
    notes, unexplained = dependencies(run)
    with data.open(encoding="utf-8") as lines:
        columns = len(lines.readline().split(","))
        rows = sum(1 for _ in lines)
    age = run.columns.get(table.age, {})
    guarded = [name for name in hand.policy.get("columns", {}) if hand.role(name) in ("quasi_identifier", "sensitive")]
    dropped = [name for name in hand.policy.get("columns", {}) if hand.role(name) in RELEASED]
    return Row(
        table=table,
        rows=rows,
        columns=columns,
        method=method(run),
        k=asked_k(run),
        k_by_hand=asked_k(hand),
        age=(age.get("labels_before"), age.get("labels_after")),
        blanked=sum(each["alarm"] in ("blank", "one label") for each in run.columns.values()),
        met=run.met,
        codes=tuple(run.codes.values()),
        notes=notes,
        unexplained=unexplained,
        unguarded=sum(run.role(name) == "insensitive" for name in guarded),
        dropped=sum(run.role(name) in ("identifier", "drop") for name in dropped),
        loss=loss,
        by_hand=by_hand,
        seconds=run.seconds,
        processor=run.processor,
    )


def measured(table: Table, data: Path) -> Row:
    """One table, in fresh folders that are gone afterwards."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        run = release_unattended(data, Path(one))
        hand = release_by_hand(table.name, data, Path(other))
        judged = not hand.policy or any(hand.role(name) == "sensitive" for name in hand.policy.get("columns", {}))
        failed = failures(run, data, Path(one), table.age, judged=judged)
    for kind, each in (("draft", run), ("policy by hand", hand)):
        if any(each.codes.values()):
            print(f"{table.name}: {kind}: exit codes {dict(each.codes)}\n{each.text}", file=sys.stderr)
    return replace(row_of(table, data, run, hand), failed=failed)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.measure", description="Measure first releases.")
    parser.add_argument(
        "folder", nargs="?", type=Path, default=folder(), help=f"default: ${FOLDER} or the user's cache"
    )
    parser.add_argument("--only", nargs="*", default=(), metavar="NAME", help="these tables")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page here")
    given = parser.parse_args()
    rows, absent = [], []
    for table in named(tuple(given.only)):
        data = place_of(table, given.folder)
        if not data.exists():
            absent.append(table.name)
            continue
        rows.append(measured(table, data))
        print(f"{table.name}: {rows[-1].seconds:.0f} s", file=sys.stderr)
    if not rows:
        raise SystemExit(f"no table in {given.folder}; `python -m tests.corpus.fetch` brings them")
    if given.page:
        given.page.write_text(page(rows, absent), encoding="utf-8")
    else:
        print("\n".join([*table_of(rows), "", *checks_of(rows)]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
