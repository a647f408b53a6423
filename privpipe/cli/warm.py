"""``privpipe warm``: kernels compiled ahead of time, for an image, a machine or the tests."""

from __future__ import annotations

import json
import multiprocessing
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli.console import put, say
from privpipe.cli.drafts import EXPECTED
from privpipe.errors import PrivpipeError, UsageError

if TYPE_CHECKING:
    from privpipe.engines import Engine
    from privpipe.testing.people import People

__all__ = ["compiled_entries", "warm"]

MODELS, MEASURES, TABLES, DEMO = "all models", "all measures", "tables of counts and sums", "demo"
MART: Mapping[str, Any] = {
    "version": 1,
    "source": {"path": "rows.csv"},
    "columns": {
        **{name: {"role": "quasi_identifier"} for name in ("region", "branch", "size")},
        "owner": {"role": "identifier"},
        "turnover": {"role": "insensitive", "type": "integer"},
    },
    "person_id": "owner",
    "seed": {"from_env": "PRIVPIPE_SEED"},
}
"""A policy about few thousand rows; each of `MARTS` completes it."""
TURNOVER = {"tables": {"mart": {"by": ["region", "branch"], "responses": [{"sum": "turnover", "name": "turnover"}]}}}
MARTS: Sequence[Mapping[str, Any]] = (
    {
        "transform": [
            {"aggregate": {"tables": {"mart": {"by": ["region", "branch", "size"], "responses": ["count"]}}}},
            {"suppress_table": {"method": "gauss"}},
        ],
        "guarantees": [{"minimum_frequency": {"at_least": 5}}, {"table_audit": {}}],
    },
    {
        "transform": [{"aggregate": TURNOVER}, {"suppress_table": {"method": "hierarchical"}}],
        "guarantees": [{"p_percent": {"at_least": 10, "response": "turnover"}}, {"table_audit": {}}],
    },
    {
        "transform": [{"aggregate": TURNOVER}, {"suppress_table": {"method": "optimal"}}],
        "guarantees": [{"minimum_frequency": {"at_least": 4}}, {"table_audit": {}}],
    },
)
"""Tables whose cells are hidden by each method, and audited."""


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

    Every example of the catalogues is judged or applied once, and tables and the demo are released. In a folder
    kernels are compiled for no processor in particular, so that it may be copied to other machines of the same
    architecture; without one, for this processor. What is compiled already stays.
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

    # What has the most kernels begins first, as it would otherwise end alone.
    stages = sorted(CATALOGUE, key=lambda name: len(CATALOGUE[name].examples()), reverse=True)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        names = [stages[0], TABLES, MODELS, MEASURES, *stages[1:], DEMO]
        for done in as_completed([pool.submit(_run, name) for name in names]):
            yield from done.result()


def _run(name: str) -> list[str]:
    """One entry, with its examples; lines that name it and what was left out."""
    from privpipe.compiled import load

    load()
    if name == DEMO:
        return [_demo()]
    if name == TABLES:
        return [*_tables(), TABLES]
    from privpipe.engines import open_engine
    from privpipe.testing import HOSTILE_TABLES, Case, Conformance, first_outcome
    from privpipe.testing.stages import tables_for
    from privpipe.transforms import CATALOGUE

    left_out = []
    with open_engine("embedded") as engine:
        if name == MODELS:
            checks = Conformance(engine)
            for table in HOSTILE_TABLES.values():
                for model in checks.models:
                    checks.check(Case(model, table))
            return [name]
        if name == MEASURES:
            return [*_measured(engine), MEASURES]
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


def _measured(engine: Engine) -> Iterator[str]:
    """Every measure over the first table in which it has a figure; yields those left out."""
    from privpipe.measures import CATALOGUE
    from privpipe.testing import Judging

    with tempfile.TemporaryDirectory() as place:
        judging = Judging(Path(place))
        for name in CATALOGUE:
            examples: list[Any] = CATALOGUE[name].examples()
            for entry in examples:
                try:
                    judging.first(entry, engine)
                except (LookupError, PrivpipeError) as error:
                    yield f"{name} left out: {type(error).__name__}"


def _tables() -> Iterator[str]:
    """Tables of counts and of sums, with hidden cells and their audit; yields those left out."""
    import numpy as np

    import privpipe as pp

    draw, rows = np.random.default_rng(1), 3000
    columns = {
        "region": draw.integers(0, 12, rows),
        "branch": draw.zipf(1.5, rows) % 15,
        "size": draw.integers(0, 4, rows),
        "owner": draw.integers(0, 2000, rows),
        "turnover": draw.lognormal(6, 2, rows).astype(np.int64),
    }
    os.environ.setdefault("PRIVPIPE_SEED", secrets.token_hex(32))
    for at, part in enumerate(MARTS):
        with tempfile.TemporaryDirectory() as place:
            np.savetxt(
                Path(place, "rows.csv"),
                np.column_stack(list(columns.values())),
                "%d",
                ",",
                header=",".join(columns),
                comments="",
            )
            policy = Path(place, "policy.json")
            policy.write_text(json.dumps({**MART, **part, "sink": {"path": "released", "format": "parquet"}}))
            try:
                pp.release(policy)
            except PrivpipeError as error:
                yield f"{TABLES} {at} left out: {type(error).__name__}: {error}"


def _by_sizes(people: People) -> People:
    """The same table with its first guarantee alone, and no sensitive column that others would have to judge."""
    columns = {
        name: {**said, "role": "insensitive"} if said.get("role") == "sensitive" else said
        for name, said in people.columns.items()
    }
    return replace(people, columns=columns, guarantees=people.guarantees[:1])


def _demo() -> str:
    """Run the demo in a temporary folder; in a clone, on a copy of its pipelines."""
    clone = Path(__file__).parents[2] / "pipelines"
    with tempfile.TemporaryDirectory() as place:
        for name in EXPECTED if clone.is_dir() else ():
            shutil.copytree(
                clone / name, Path(place, clone.name, name), ignore=shutil.ignore_patterns("published", ".*")
            )
        ended = subprocess.run([sys.executable, "-m", "privpipe", DEMO], cwd=place, capture_output=True, check=False)
    return DEMO if ended.returncode == 0 else f"{DEMO} left out: exit code {ended.returncode}"
