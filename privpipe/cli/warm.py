"""``privpipe warm``: kernels compiled ahead of time, for an image, a machine or the tests."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli.console import put, say
from privpipe.cli.drafts import EXPECTED
from privpipe.errors import UsageError

if TYPE_CHECKING:
    from privpipe.testing.people import People

__all__ = ["compiled_entries", "warm"]

MODELS, DEMO = "all models", "demo"


def warm(
    folder: Annotated[
        Path | None,
        typer.Argument(help="Where compiled kernels go; PRIVPIPE_KERNELS names it later. Default: this installation."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Processes that share the work; default: one per processor.")
    ] = None,
) -> None:
    """Compile the kernels ahead of time.

    Every example of the catalogues is judged or applied once, and the demo is released. In a folder kernels are
    compiled for no processor in particular, so that it may be copied to other machines of the same architecture;
    without one, for this processor. What is compiled already stays.
    """
    from privpipe.compiled import places

    if folder is not None:
        os.environ["PRIVPIPE_KERNELS"] = str(folder.absolute())
        os.environ.setdefault("NUMBA_CPU_NAME", "generic")
    place = places()[0]
    try:
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise UsageError(
            f"kernels cannot be kept in {place}: {error.strerror}; name a folder: privpipe warm FOLDER"
        ) from None
    for done in compiled_entries(workers or os.cpu_count() or 1):
        say(done)
    sizes = [file.stat().st_size for file in place.rglob("*.nbc")]
    put(f"{len(sizes):,} compiled signatures, {sum(sizes):,} bytes in {place}")


def compiled_entries(workers: int) -> Iterator[str]:
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
    from privpipe.testing.stages import tables_for
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
        examples: list[Any] = CATALOGUE[name].examples()
        for at, stage in enumerate(examples):
            # Sizes of classes alone have kernels that other guarantees do not reach.
            alone = [_by_sizes(people) for people in tables_for(stage)] if stage.searches else []
            for people in (None, *alone):
                with tempfile.TemporaryDirectory() as place:
                    try:
                        first_outcome(stage, engine, Path(place), people)
                    except (LookupError, PrivpipeError) as error:
                        if people is None:
                            left_out.append(f"{name} {at} left out: {type(error).__name__}")
    return [*left_out, name]


def _by_sizes(people: People) -> People:
    """The same table with its first guarantee alone, and no sensitive column that others would have to judge."""
    columns = {
        name: {**said, "role": "insensitive"} if said.get("role") == "sensitive" else said
        for name, said in people.columns.items()
    }
    return replace(people, columns=columns, guarantees=people.guarantees[:1])


def _demo() -> str:
    """The demo, in a separate folder: of a clone, a copy of its pipelines."""
    clone = Path(__file__).parents[2] / "pipelines"
    with tempfile.TemporaryDirectory() as place:
        for name in EXPECTED if clone.is_dir() else ():
            shutil.copytree(
                clone / name, Path(place, clone.name, name), ignore=shutil.ignore_patterns("published", ".*")
            )
        ended = subprocess.run([sys.executable, "-m", "privpipe", DEMO], cwd=place, capture_output=True, check=False)
    return DEMO if ended.returncode == 0 else f"{DEMO} left out: exit code {ended.returncode}"
