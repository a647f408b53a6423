"""``python tests/benchmarks/where_rows_go.py [--engines ...] [--only NAME ...] [--write]``: what comes to the driver.

Every example of every entry of the catalogues runs over two near-unique tables. The bytes are counted that each
primitive of the engine returns; those that grow with the rows are per distinct value (*facts*) or per record (*rows*);
in *one task* all records form one group; all else stays on the *workers*. Limits of samples and of values that stages
hold are lowered, so that they do what they do with large tables. `--write` puts the table into ``docs/scale.md``.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from privpipe import measures, models, transforms
from privpipe.blocks import RowBlock
from privpipe.blocks.requests import ByKey, ClassesOf, PairsOf
from privpipe.engines import Engine, Source, open_engine
from privpipe.engines.dask.runtime import result_bytes
from privpipe.errors import PrivpipeError
from privpipe.running.attached_source import attach
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages
from privpipe.testing import Judging, People, Setting
from privpipe.testing.people import COLUMNS, people
from privpipe.testing.stages import Staging, keys_of, tables_for
from privpipe.testing.verdicts import SETTINGS
from privpipe.transforms.base import Transformer

__all__ = ["ENGINES", "PAGE", "Brought", "brought_by", "entries", "kept", "page", "watched"]

ROWS, MANY_ROWS = (2_000, 8_000), (8_000, 32_000)
LONG_BLOCKS = ("microaggregate", "fuzzy_microaggregate")
"""Stages that have all of the smaller tables in one block of theirs: they take the larger ones."""
FIRST_ALONE = ("pram",)
"""Entries of which only the first example runs: others have a matrix of all near-unique values by all."""
SECONDS = 60
"""That an example may take."""
LOWERED = {
    "privpipe.judging.paired_columns.LARGEST_SAMPLE": 1000,
    "privpipe.judging.paired_columns.SMALLEST_SAMPLE": 1000,
    "privpipe.transforms.outliers.LARGEST_SAMPLE": 1000,
    "privpipe.transforms.exact_quantiles.COLLECTED": 50,
    "privpipe.transforms.exact_quantiles.SAMPLED": 50,
    "privpipe.transforms.swapping.swap_window.SAMPLED": 1 << 10,
    "privpipe.transforms.swapping.segment_swap.MOST_VALUES": 1000,
    "privpipe.transforms.synthesis.ranked_values.ROWS_PER_GROUP": 1000,
}
"""Limits of samples, values and groups, which many rows reach."""
KINDS = ("not measured", "refused", "workers", "facts", "one task", "rows")
"""From what brings least to what brings most."""
GROWTH = 2.0
"""Bytes of four times as many rows that are more than this many times the bytes grow with the rows."""
LEAST = 4096
ENGINES: Mapping[str, Mapping[str, Any]] = {
    "embedded": {},
    "dask": {"scheduler": "threads", "npartitions": 4},
    "spark": {"master": "local[2]", "shuffle_partitions": 2, "driver_bytes": 0},
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
START, END = "<!-- where rows go: written by tests/benchmarks/where_rows_go.py -->\n", "<!-- end -->\n"
Call = tuple[str, str]
"""A primitive, and the columns it was asked about."""


def crowd(n: int) -> People:
    """People whose postcodes, incomes, weights and dates of birth hardly repeat."""
    rng, table = np.random.default_rng(3), people(n)
    made: dict[str, pa.Array] = {
        "zip": pa.array([f"{at:07d}" for at in rng.integers(0, 10**7, n)]),
        "income": pa.array(rng.lognormal(3, 1, n)),
        "weight": pa.array(rng.uniform(20, 90, n)),
        "born": pa.array(rng.integers(0, 25_000, n).astype("datetime64[D]")),
    }
    rows = table.rows
    for name, values in made.items():
        rows = rows.set_column(rows.column_names.index(name), name, values)
    hierarchy = {"redact": {"keep": "left", "length": 7}}
    return replace(table, rows=rows, columns={**COLUMNS, "zip": {**COLUMNS["zip"], "hierarchy": hierarchy}})


def enlarged(table: People, n: int, *, own_keys: bool = False) -> People:
    """A table of an entry or a setting with so many records: those of `crowd`, or its own with other keys."""
    own, large = table.rows, crowd(n)
    if not own_keys and set(own.column_names) <= set(large.rows.column_names):
        columns = {**table.columns}
        if "hierarchy" in columns.get("zip", {}):
            columns["zip"] = {**columns["zip"], "hierarchy": large.columns["zip"]["hierarchy"]}
        return replace(table, rows=large.rows.select(own.column_names), columns=columns)
    at = np.arange(n)
    rows, keys = own.take(at % len(own)), table.settings.values()
    for place, name in enumerate(own.column_names):
        if name in keys or name == "household" or table.columns[name]["role"] == "identifier":
            texts = [f"{key} {copy}" for key, copy in zip(rows[name].to_pylist(), at // len(own), strict=True)]
            rows = rows.set_column(place, name, pa.array(texts))
    return replace(table, rows=rows)


@dataclass
class Watched:
    """What the primitives of an engine returned since `calls` was last emptied."""

    calls: dict[Call, int] = field(default_factory=dict)
    largest: int = 0

    def note(self, primitive: str, columns: Sequence[str], result: Any) -> None:
        call = (primitive, ", ".join(dict.fromkeys(columns)))
        self.calls[call] = self.calls.get(call, 0) + result_bytes(result)

    def group(self, function: Callable[..., RowBlock]) -> Callable[..., RowBlock]:
        def grouped(rows: RowBlock, key: int) -> RowBlock:
            self.largest = max(self.largest, len(rows))
            return function(rows, key)

        return grouped


@contextmanager
def watched(engine: Engine) -> Iterator[Watched]:
    """The engine with its primitives counted, and with lowered limits."""
    seen, own = Watched(), engine
    facts, distinct, classes, reduce, collect, map_ = (
        getattr(own, name) for name in ("facts", "distinct", "classes", "reduce", "collect", "map")
    )

    def counted_facts(table: Any, request: Any) -> Any:
        found = facts(table, request)
        for name, histogram in found.histograms.items():
            seen.note("histogram", [name], histogram)
        return found

    def counted_distinct(table: Any, columns: Sequence[str]) -> Any:
        found = distinct(table, columns)
        seen.note("combinations", columns, found)
        return found

    def counted_classes(table: Any, query: Any) -> Any:
        for block in classes(table, query):
            seen.note("classes", query.keys, block)
            yield block

    def counted_reduce(of: Any, reduction: Any, learnt: Any) -> Any:
        found = reduce(of, reduction, learnt)
        kind = "classes reduced" if isinstance(of, ClassesOf) else "pairs" if isinstance(of, PairsOf) else "rows"
        seen.note(kind, of.query.keys if isinstance(of, ClassesOf) else of.columns, found)
        return found

    def counted_collect(table: Any, **how: Any) -> Any:
        found = collect(table, **how)
        seen.note("collected", table.schema.names, found)
        return found

    def counted_map(table: Any, function: Any, schema: Any, by: Any = None) -> Any:
        local = isinstance(by, ByKey) and own.name != "spark"
        return map_(table, seen.group(function) if local else function, schema, by)

    replaced = {
        "facts": counted_facts,
        "distinct": counted_distinct,
        "classes": counted_classes,
        "reduce": counted_reduce,
        "collect": counted_collect,
        "map": counted_map,
        "values_held": 1000,
        "ranks_held": min(own.ranks_held, 1000),
    }
    vars(own).update(replaced)
    with ExitStack() as limits:
        for name, limit in LOWERED.items():
            limits.enter_context(mock.patch(name, limit))
        limits.callback(lambda: [vars(own).pop(name) for name in replaced])
        yield seen


@dataclass(frozen=True)
class Brought:
    """What an entry brings to the driver.

    Parameters
    ----------
    kind : str
        Of `KINDS`.
    what : str
        The primitives and columns.
    each : int
        Bytes for each further record; of one task, the records of the largest group.
    example : str
        The entry, where it is not its first example.
    """

    kind: str
    what: str = ""
    each: int = 0
    example: str = ""

    def __str__(self) -> str:
        figure = {"facts": f": {self.each} B, {self.what}", "rows": f": {self.each} B, {self.what}"}
        figure["one task"] = f": a group of {self.each:,} records"
        own = f" `{self.example}`" if self.example and self.kind in figure else ""
        return f"{self.kind}{figure.get(self.kind, '')}{own}"


def entries() -> dict[str, list[Any]]:
    """The examples of every entry, by the name of its room and its own."""
    rooms = {"stage": transforms, "model": models, "measure": measures}
    return {
        f"{room} {name}": made.CATALOGUE[name].examples() for room, made in rooms.items() for name in made.CATALOGUE
    }


def brought_by(examples: Sequence[Any], engine: Engine, folder: Path) -> Brought:
    """What the example brings that brings most, by what grows from the smaller table to the larger one."""
    found = []
    for at, example in enumerate(examples[:1] if examples[0].name() in FIRST_ALONE else examples):
        made = _brought(example, engine, folder / f"{example.name()} {at}")
        found.append(replace(made, example=repr(example) if at else ""))
    return max(found, key=lambda each: KINDS.index(each.kind))


def _brought(example: Any, engine: Engine, folder: Path) -> Brought:
    few_rows, many_rows = MANY_ROWS if example.name() in LONG_BLOCKS else ROWS
    try:
        with keys_of(example), _limited():
            few, _ = _run(example, engine, folder / str(few_rows), few_rows)
            many, together = _run(example, engine, folder / str(many_rows), many_rows)
    except (LookupError, _TooSlow):  # it is judged with earlier releases, files or a process that no setting has
        return Brought("not measured")
    except PrivpipeError:
        return Brought("refused")
    grown = {
        call: (size - few.get(call, 0)) / (many_rows - few_rows)
        for call, size in many.items()
        if size > LEAST and size > GROWTH * few.get(call, 0)
    }
    by_rows = {call: each for call, each in grown.items() if call[0] in ("rows", "pairs", "collected")}
    if chosen := by_rows or grown:
        what = "; ".join(f"{name} ({columns})" if columns else name for name, columns in sorted(chosen))
        return Brought("rows" if by_rows else "facts", what, round(sum(chosen.values())))
    if together >= many_rows:
        return Brought("one task", each=together)
    return Brought("workers")


class _TooSlow(BaseException):
    """An example took too long; handlers of errors let it pass."""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _run(example: Any, engine: Engine, folder: Path, n: int) -> tuple[dict[Call, int], int]:
    folder.mkdir(exist_ok=True, parents=True)
    if isinstance(example, Transformer):
        return _staged(example, engine, folder, n)
    shared = folder.parents[1] / f"releases-{engine.name}-{n}"
    if shared not in JUDGING:
        settings = {name: replace(each, table=_Large(each, n)) for name, each in SETTINGS.items()}
        shared.mkdir(exist_ok=True)
        JUDGING[shared] = Judging(shared, settings)
    judging = JUDGING[shared]
    setting, verdict = judging.first(example, engine)
    if verdict.observed is None:
        raise LookupError(verdict.reason)
    with watched(engine) as seen:
        judging.judged([models.NoIdentifiers()], engine, setting)
        before, seen.calls = seen.calls, {}
        judging.judged([example], engine, setting)
        return {call: size for call, size in seen.calls.items() if call not in before}, seen.largest


JUDGING: dict[Path, Judging] = {}
"""Releases made once for all entries that judge, by the folder of their tables."""


@dataclass(frozen=True)
class _Large:
    setting: Setting
    n: int

    def __call__(self) -> People:
        return enlarged(self.setting.table(), self.n)


def _staged(stage: Any, engine: Engine, folder: Path, n: int) -> tuple[dict[Call, int], int]:
    """Over the first table that serves the stage."""
    refused: Exception = LookupError(stage.name())
    for table in tables_for(stage):
        staging = Staging(stage, folder, enlarged(table, n, own_keys=hasattr(type(stage), "example_table")))
        policy = staging.policy()
        context = RunContext(engine, policy, policy.seed.resolve())  # type: ignore[union-attr]
        try:
            original = attach(context, Source(data=staging.table.rows, types=policy.types))
            with watched(engine) as seen:
                run_stages(RunContext(engine, policy.replaced(transform=()), context.seed), original)
                before, seen.calls = seen.calls, {}
                engine.count(run_stages(context, original).table)
                return {call: size for call, size in seen.calls.items() if call not in before}, seen.largest
        except PrivpipeError as error:
            refused = error
    raise refused


def kept(text: str) -> dict[str, dict[str, str]]:
    """The cells of the table of a page, by entry and engine."""
    lines = text.split(START)[1].split(END)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")]
    return {name: dict(zip(rows[0][1:], cells, strict=True)) for name, *cells in rows[2:]}


def page(found: Mapping[str, Mapping[str, str]]) -> str:
    """The table, an entry a line."""
    head = ["| entry | " + " | ".join(ENGINES) + " |", "|---" * (len(ENGINES) + 1) + "|"]
    lines = [
        f"| {name} | " + " | ".join(each.get(engine, "-") for engine in ENGINES) + " |" for name, each in found.items()
    ]
    return "\n".join([*head, *lines]) + "\n"


def main() -> None:
    """Run all entries, and print the table or change its cells in the page."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    asked.add_argument("--only", nargs="+", default=[])
    asked.add_argument("--write", action="store_true")
    given = asked.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    found = {name: kept(text).get(name, {}) for name in entries()}
    for engine in given.engines:
        with tempfile.TemporaryDirectory() as folder, open_engine(engine, ENGINES[engine]) as opened:
            for name, examples in entries().items():
                if given.only and not any(each in name for each in given.only):
                    continue
                started = time.perf_counter()
                found[name][engine] = str(brought_by(examples, opened, Path(folder)))
                took = time.perf_counter() - started
                print(f"{engine:9} {took:6.1f} s {name}: {found[name][engine]}", file=sys.stderr, flush=True)
    if given.write:
        before, rest = text.split(START)
        PAGE.write_text(before + START + page(found) + END + rest.split(END)[1], encoding="utf-8")
    else:
        print(page(found))


if __name__ == "__main__":
    main()
