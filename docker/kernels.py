"""Compile the kernels ahead of time, for an image or before the tests.

`python kernels.py FOLDER` fills a cache that `PRIVPIPE_KERNELS` names later; without a folder, kernels are kept where
every process of this installation looks for them. Every example of the catalogues is judged or applied once, and the
demo is released, with each kernel handed to the compiler; `WORKERS` processes share the entries. What these do not
reach is compiled at run time as before.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

__all__ = ["main", "warm"]

MODELS, DEMO = "all models", "demo"


def warm(workers: int) -> Iterator[str]:
    """Compile in so many processes; yields what was run."""
    from privpipe.transforms import CATALOGUE

    # The entry with the most examples has the most kernels; begun last, it would end alone.
    stages = sorted(CATALOGUE, key=lambda name: len(CATALOGUE[name].examples()), reverse=True)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_run, name) for name in [stages[0], MODELS, *stages[1:], DEMO]]):
            yield from done.result()


def _run(name: str) -> list[str]:
    """One entry, with its examples; lines that name it and what was left out."""
    if name == DEMO:
        return [_demo()]
    from privpipe.compiled import load
    from privpipe.engines import open_engine
    from privpipe.errors import PrivpipeError
    from privpipe.testing import HOSTILE_TABLES, Case, Conformance, first_outcome
    from privpipe.transforms import CATALOGUE

    load()
    left_out = []
    with open_engine("embedded") as engine:
        if name == MODELS:
            checks = Conformance(engine)
            for table in HOSTILE_TABLES.values():
                for model in checks.models:
                    checks.check(Case(model, table))
            return [name]
        for at, stage in enumerate(CATALOGUE[name].examples()):
            with tempfile.TemporaryDirectory() as place:
                try:
                    first_outcome(stage, engine, Path(place))
                except (LookupError, PrivpipeError) as error:
                    left_out.append(f"{name} {at} left out: {type(error).__name__}")
    return [*left_out, name]


def _demo() -> str:
    """The demo of an installation; a clone has none that writes elsewhere."""
    with tempfile.TemporaryDirectory() as place:
        ended = subprocess.run([sys.executable, "-m", "privpipe", DEMO], cwd=place, capture_output=True, check=False)
    return DEMO if ended.returncode == 0 else f"{DEMO} left out: exit code {ended.returncode}"


def main() -> int:
    """The command; 2 for a wrong call."""
    if len(sys.argv) > 2:
        print("usage: kernels.py [FOLDER]", file=sys.stderr)
        return 2
    os.environ.pop("PRIVPIPE_KERNELS", None)
    if len(sys.argv) == 2:
        os.environ["NUMBA_CACHE_DIR"] = str(Path(sys.argv[1]).absolute())
    for done in warm(int(os.environ.get("WORKERS", "2"))):
        print(done, file=sys.stderr, flush=True)
    if len(sys.argv) == 2:
        found = [file.stat().st_size for file in Path(sys.argv[1]).rglob("*.nbc")]
        print(f"{len(found):,} compiled signatures, {sum(found):,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
