"""Compile the kernels ahead of time: `python kernels.py FOLDER` fills a cache that `PRIVPIPE_KERNELS` names later.

Every example of the catalogues is judged or applied once, and the demo is released, with each kernel handed to the
compiler. What these do not reach is compiled at run time as before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["main", "warm"]


def warm(folder: Path) -> Iterator[str]:
    """Compile into a folder; yields what was run."""
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    os.environ.pop("PRIVPIPE_KERNELS", None)
    from privpipe.compiled import load
    from privpipe.engines import open_engine
    from privpipe.errors import PrivpipeError
    from privpipe.testing import HOSTILE_TABLES, Case, Conformance, first_outcome
    from privpipe.transforms import CATALOGUE

    load()
    with open_engine("embedded") as engine:
        checks = Conformance(engine)
        for table in HOSTILE_TABLES.values():
            for model in checks.models:
                checks.check(Case(model, table))
            yield f"models over {table.name}"
        for name in CATALOGUE:
            for at, stage in enumerate(CATALOGUE[name].examples()):
                with tempfile.TemporaryDirectory() as place:
                    try:
                        first_outcome(stage, engine, Path(place))
                    except (LookupError, PrivpipeError) as error:
                        yield f"{name} {at} left out: {type(error).__name__}"
            yield name
    yield _demo()


def _demo() -> str:
    """The demo of an installation; a clone has none that writes elsewhere."""
    with tempfile.TemporaryDirectory() as place:
        ended = subprocess.run([sys.executable, "-m", "privpipe", "demo"], cwd=place, capture_output=True, check=False)
    return "demo" if ended.returncode == 0 else f"demo left out: exit code {ended.returncode}"


def main() -> int:
    """The command; 2 for a wrong call."""
    if len(sys.argv) != 2:
        print("usage: kernels.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).absolute()
    for done in warm(folder):
        print(done, file=sys.stderr, flush=True)
    found = [file.stat().st_size for file in folder.rglob("*.nbc")]
    print(f"{len(found):,} compiled signatures, {sum(found):,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
