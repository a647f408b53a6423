"""``python tests/benchmarks/entered.py [--json FILE]``: files and functions that a run of privpipe enters.

Four ways are counted with ``sys.setprofile``, own frames only, those of threads too, in a separate process each,
the second time that it runs, so that imports are not counted:

- `release`: pp.release of four columns (age, sex, education, income) of 400 records, generalized for k-anonymity and
  distinct l-diversity, into a folder of Parquet files, by the embedded engine
- `check`: pp.k_anonymity of a pandas frame with two quasi-identifiers
- `validate`: `privpipe validate table.csv policy.yaml` of 12 cells of two dimensions, four of them blank, against
  `minimum_frequency` and `table_audit`
- `column`: the same release, of what is handed the column `age` or an object that holds it: the frames among whose
  arguments its name occurs

`depth` is the number of own frames on the stack when a model's `measure` is called, at most; `changes` is how often
a frame is entered from one of another room, where a room is a folder or module right below `privpipe`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

COLUMN = "age"
WAYS = ("release", "check", "validate", "column")
ITEMS = 64
"""Of a container, so many items are looked at for the name of the column."""


class Entered:
    """What is entered while the profile is set."""

    def __init__(self, root: Path, *, column: str | None = None) -> None:
        self.root, self.column = f"{root}{os.sep}", column
        self.codes: set[CodeType] = set()
        self.depth = self.changes = self.calls = 0

    def own(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self.root)

    def room(self, frame: FrameType) -> str:
        return frame.f_code.co_filename.removeprefix(self.root).partition(os.sep)[0]

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not self.own(frame) or frame.f_code.co_name in ("<module>", "<lambda>", "<genexpr>"):
            return
        if self.column is not None and not self.holds(frame):
            return
        self.calls += 1
        self.codes.add(frame.f_code)
        callers = self.callers(frame)
        self.changes += bool(callers) and self.room(callers[0]) != self.room(frame)
        if frame.f_code.co_name == "measure":
            self.depth = max(self.depth, len(callers) + 1)

    def callers(self, frame: FrameType) -> list[FrameType]:
        found, caller = [], frame.f_back
        while caller is not None:
            if self.own(caller) and caller.f_code.co_name != "<module>":
                found.append(caller)
            caller = caller.f_back
        return found

    def holds(self, frame: FrameType) -> bool:
        """Whether an argument is the column's name, or a container that has it."""
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return any(self.names(frame.f_locals.get(name)) for name in names)

    def names(self, value: Any) -> bool:
        if type(value) is str:
            return value == self.column
        if type(value) in (tuple, list, set, frozenset, dict):
            return any(type(item) is str and item == self.column for item, _ in zip(value, range(ITEMS), strict=False))
        return False

    def figures(self) -> dict[str, int]:
        files = {code.co_filename for code in self.codes}
        return {
            "files": len(files),
            "functions": len(self.codes),
            "calls": self.calls,
            "depth": self.depth,
            "changes": self.changes,
        }


def profiled(entered: Entered, run: Callable[[], object]) -> None:
    threading.setprofile(entered)
    sys.setprofile(entered)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def policy() -> Mapping[str, Any]:
    return {
        "version": 1,
        "name": "four-columns",
        "source": {"path": "people.csv", "format": "csv"},
        "columns": {
            "age": {
                "role": "quasi_identifier",
                "type": "integer",
                "hierarchy": {"intervals": {"start": 0, "widths": [10, 20, 40]}},
            },
            "sex": {"role": "quasi_identifier"},
            "education": {"role": "quasi_identifier"},
            "income": {"role": "sensitive"},
        },
        "transform": [{"generalize": {"search": "optimal", "suppress_at_most": 0.1}}],
        "guarantees": [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "income", "l": 2}}],
        "sink": {"path": "published/people"},
    }


def rows() -> list[tuple[int, str, str, str]]:
    """400 records, of a pattern that needs no draw."""
    schools = ("school", "college", "degree")
    return [
        (20 + at * 7 % 50, "fm"[at % 2], schools[at * 5 // 3 % 3], "<=50K" if at * at % 7 < 4 else ">50K")
        for at in range(400)
    ]


def validated() -> None:
    """A finished table, judged as the command line does it."""
    from privpipe.cli.app import app

    Path("table.csv").write_text(
        "region,sex,count\nTotal,Total,96\nTotal,f,50\nTotal,m,46\n"
        "North,Total,34\nNorth,f,\nNorth,m,\nSouth,Total,36\nSouth,f,\nSouth,m,\n"
        "West,Total,26\nWest,f,14\nWest,m,12\n"
    )
    made = {"by": ["region", "sex"], "responses": ["count"]}
    asked = {
        **{key: value for key, value in policy().items() if key in ("version", "source", "sink")},
        "name": "finished-table",
        "columns": {"region": {"role": "insensitive"}, "sex": {"role": "insensitive"}},
        "transform": [{"aggregate": {"total": "Total", "tables": {"table": made}}}],
        "guarantees": [{"minimum_frequency": {"at_least": 10}}, {"table_audit": {}}],
    }
    Path("policy.yaml").write_text(json.dumps(asked))
    app(["validate", "table.csv", "policy.yaml"], standalone_mode=False)


def counted(way: str) -> dict[str, int]:
    """The figures of one way, in this process."""
    import pandas as pd

    import privpipe as pp

    entered = Entered(Path(pp.__file__).parent, column=COLUMN if way == "column" else None)
    names = ("age", "sex", "education", "income")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        frame = pd.DataFrame(rows(), columns=list(names))
        frame.to_csv("people.csv", index=False)
        ways = {"check": lambda: pp.k_anonymity(frame, ["sex", "education"]), "validate": validated}
        run = ways.get(way, lambda: pp.release(policy()))
        run()  # imports are not part of what is counted
        profiled(entered, run)
        os.chdir("/")
    return entered.figures()


def main(arguments: Sequence[str]) -> int:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--json", type=Path, help="where figures are written")
    reader.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    asked = reader.parse_args(arguments)
    if asked.way:
        print(json.dumps(counted(asked.way)))
        return 0
    found = {}
    for way in WAYS:
        command = [sys.executable, __file__, "--way", way]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[way] = json.loads(done.stdout.splitlines()[-1])
    titles = ("files", "functions", "calls", "depth", "changes")
    print(f"{'':10}" + "".join(f"{title:>11}" for title in titles))
    for way, figures in found.items():
        print(f"{way:10}" + "".join(f"{figures[title]:>11,}" for title in titles))
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
