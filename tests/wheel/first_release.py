"""From `pip install` of the wheel, in an empty folder, to the demo and to a release of one's own, with seconds.

`python -m tests.wheel.first_release [DATA.csv]`. Asked: at most three commands to the release, and two minutes.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

__all__ = ["COMMANDS", "MOST_SECONDS", "build", "main", "table", "try_out"]

PROJECT = Path(__file__).parents[2]
MOST_SECONDS = 120
COMMANDS = (
    ("pip", "install", "--quiet", "{wheel}"),
    ("privpipe", "init", "data.csv", "--out", "p.yaml"),
    ("privpipe", "release", "p.yaml"),
)
"""What a newcomer types."""


def build(place: Path) -> Path:
    """The wheel of the project."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(place), str(PROJECT)]
    subprocess.run(command, check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def table(path: Path) -> None:
    """A small table of visits to a clinic, drawn again but always the same."""
    drawn = random.Random(7)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["name", "age", "town", "sex", "illness", "cost"])
        for number in range(2000):
            town, illness = drawn.choice(["north", "south", "east", "west"]), drawn.choice(["flu", "gout", "cold"])
            age = min(99, int(abs(drawn.gauss(40, 20))))
            out.writerow([f"p{number}", age, town, drawn.choice("fm"), illness, drawn.randrange(40, 900)])


def try_out(wheel: Path, place: Path, data: Path | None) -> dict[str, float]:
    """Run the commands and the demo in an empty folder with a new environment; the seconds of each."""
    home, empty = place / "venv", place / "empty"
    venv.create(home, with_pip=True)
    empty.mkdir()
    if data is None:
        table(empty / "data.csv")
    else:
        (empty / "data.csv").write_bytes(data.read_bytes())
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env = {**kept, "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    seconds = {}
    for command in (*COMMANDS, ("privpipe", "demo")):
        given = [word.format(wheel=wheel) for word in command]
        begun = time.monotonic()
        done = subprocess.run(
            [str(home / "bin" / given[0]), *given[1:]], cwd=empty, env=env, capture_output=True, text=True
        )
        seconds[" ".join(command)] = time.monotonic() - begun
        print(f"{seconds[' '.join(command)]:6.1f} s  {' '.join(command)}", flush=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds


def main() -> int:
    """The command; 1 where the release of one's own took too long."""
    parser = argparse.ArgumentParser(prog="python -m tests.wheel.first_release")
    parser.add_argument("data", nargs="?", type=Path, metavar="DATA.csv", help="left out: a small table is drawn")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds = try_out(build(Path(folder)), Path(folder), given.data and given.data.resolve())
    own = sum(taken for command, taken in seconds.items() if not command.endswith("demo"))
    print(f"{own:6.1f} s  from `pip install` to a release of one's own, in {len(COMMANDS)} commands")
    return int(own > MOST_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
