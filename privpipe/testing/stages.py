"""What must hold for every stage: the same rows and plan however the input is arranged, even with empty blocks."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import RowBlock
from privpipe.blocks.primitives import ID_COLUMNS
from privpipe.blocks.verdict import plain
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import PrivpipeError
from privpipe.policy import Policy
from privpipe.running.attached_source import attach
from privpipe.running.plan import Plan, canonical_json
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages
from privpipe.testing.people import TABLES, People
from privpipe.transforms.base import StagePlan, Transformer

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "PARTITIONS",
    "SEEDS",
    "EmptyBlocks",
    "Outcome",
    "Staging",
    "first_outcome",
    "keys_of",
    "stage_problems",
    "tables_for",
    "written_in_parts",
]


class EmptyBlocks:
    """Everything is the engine's, but functions of blocks are tried on nothing before they run.

    Parameters
    ----------
    engine : Engine

    Attributes
    ----------
    problems : list of str
        What went wrong so far.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.problems: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def map_rows(self, table: Any, function: Callable[[RowBlock], RowBlock], schema: Any) -> Any:
        """As the engine's."""
        self._try(lambda: function(_nothing(table)), schema)
        return self._engine.map_rows(table, function, schema)

    def map_groups(self, table: Any, key: Callable[[RowBlock], Any], function: Any, schema: Any) -> Any:
        """As the engine's; a group has at least one row, its key is asked of any block."""
        self._try(lambda: key(_nothing(table)), None)
        return self._engine.map_groups(table, key, function, schema)

    def map_ranked(self, table: Any, column: str, stream: Any, function: Any, schema: Any) -> Any:
        """As the engine's."""
        self._try(lambda: function(_nothing(table), np.zeros(0, dtype=np.int64)), schema)
        return self._engine.map_ranked(table, column, stream, function, schema)

    def _try(self, call: Callable[[], Any], schema: Any) -> None:
        try:
            found = call()
        except Exception as error:  # noqa: BLE001 - whatever breaks is the finding
            self.problems.append(f"a block without rows breaks it: {type(error).__name__}")
            return
        if len(found):
            self.problems.append("a block without rows comes out with rows")
        elif schema is not None and list(found.schema.names) != list(schema.names):
            self.problems.append("a block without rows comes out with other columns")


def _nothing(table: Any) -> RowBlock:
    import pyarrow as pa

    fields = [*table.schema, *(pa.field(name, pa.int64()) for name in ID_COLUMNS if table.has_record_ids)]
    return RowBlock(pa.RecordBatch.from_pylist([], schema=pa.schema(fields)))


PARTITIONS = (1, 3, 7)
SEEDS = (
    "7e680bd0703b052244008bac17dacba2457b75f36e829951356a47727bf31a6a",
    "abb5217b717f6778bcab058e9851fd32293771279b30ad9c77c62b26cf51b3c3",
    "09f6d6caddb4766fd635e2c9d8cd80a7cde27c9479b858acf183e02ee6d63a81",
    "c211b094fdd83fd519237cc7234b01de943fb7668bad2082b8a0bb8784cff39d",
    "1807ae3886901d6d458c3ca514df3a8d548006dd69e66f6960531a246e7e1bd2",
)
KEY = "4b657920" * 8


@dataclass(frozen=True)
class Outcome:
    """What a stage made of a table.

    Parameters
    ----------
    plan : str
        Its plan, as canonical JSON; `public` what anyone may read of it.
    rows : tuple of tuple
        Cells with their types, sorted: where a row is does not matter.
    schema, promised : pyarrow.Schema
        What came out, and what `released_schema` said.
    made : Plan
    table : People
        What it was made of.
    """

    plan: str
    public: str
    rows: tuple[tuple[str, ...], ...] = field(repr=False)
    schema: pa.Schema
    promised: pa.Schema
    made: Plan = field(repr=False)
    table: People = field(repr=False)


class Staging:
    """Runs one stage as a policy does, over a table dealt out to files in any order.

    Parameters
    ----------
    stage : Transformer
    folder : Path
        Where the tables are.
    table : People, optional
        Default: what ``example_table()`` of the stage gives, else `people()`.
    """

    def __init__(self, stage: Transformer, folder: Path, table: People | None = None) -> None:
        self.stage = stage
        self.folder = folder
        self.table = table or next(tables_for(stage))

    def policy(self, seed: int = 0) -> Policy:
        """The policy with this stage alone, under one of a few seeds."""
        path = self.folder / f"seed-{seed}"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(SEEDS[seed], encoding="utf-8")
        document = {**self.table.document, "seed": {"from_file": str(path)}}
        return Policy.from_dict(document, base_dir=self.folder).replaced(transform=(self.stage,))

    def run(self, engine: Engine, parts: int = 0, seed: int = 0, given: Plan | None = None) -> Outcome:
        """Plan, unless a plan is given, and apply the stage.

        Parameters
        ----------
        engine : Engine
        parts : int
            Files among which the rows are dealt out in a shuffled order, the last of seven without a row;
            0: the table is passed unchanged.
        seed : int
            0 or 1.
        given : Plan, optional
        """
        policy = self.policy(seed)
        secret = policy.seed.resolve()  # type: ignore[union-attr]
        source = Source(data=self.table.rows, types=policy.types)
        if parts:
            folder = written_in_parts(self.table.rows, self.folder / f"rows-{parts}", parts)
            source = Source(data=str(folder), format="parquet", types=policy.types)
        with keys_of(self.stage):
            context = RunContext(engine, policy, secret)
            original = attach(context, source)
            staged = run_stages(context, original, plan=given)
            found = engine.collect(staged.table)
            made = staged.plan.stages[0]
            promised = self.stage.released_schema(self._entering(original.schema, policy), made)
        return Outcome(
            plan=canonical_json(made.detail),
            public=_public(made),
            rows=sorted_rows(found),
            schema=found.schema,
            promised=promised,
            made=staged.plan,
            table=self.table,
        )

    def run_empty(self, engine: Engine, plan: Plan) -> pa.Table:
        """The plan applied to a table without a row."""
        policy = self.policy()
        secret = policy.seed.resolve()  # type: ignore[union-attr]
        source = Source(data=self.table.rows.slice(0, 0), types=policy.types)
        with keys_of(self.stage):
            original = engine.with_record_ids(engine.scan(source), policy.record_id, secret)
            return engine.collect(run_stages(RunContext(engine, policy, secret), original, plan=plan).table)

    def _entering(self, schema: pa.Schema, policy: Policy) -> pa.Schema:
        """What enters the stage: identifiers have gone, but for those it gives pseudonyms."""
        import pyarrow as pa

        kept = self.stage.masked_columns() if self.stage.name() == "pseudonymise" else ()
        gone = {name for name in policy.roles.unreleased if name not in kept}
        return pa.schema([entry for entry in schema if entry.name not in gone])


def stage_problems(
    stage: Transformer,
    engine: Engine | str = "embedded",
    *,
    table: People | None = None,
    partitions: Sequence[int] = PARTITIONS,
    draws: bool | None = None,
    expected: Outcome | None = None,
    folder: Path | None = None,
) -> list[str]:
    """What is wrong with a stage, one line per fault; empty when it conforms.

    Parameters
    ----------
    stage : Transformer
    engine : Engine or str
    table : People, optional
        Default: what ``example_table()`` of the stage gives, else a table with the columns that examples of the
        catalogue name.
    partitions : sequence of int
        Files the rows are dealt out to, each time in another order.
    draws : bool, optional
        Whether its rows follow the seed; default: what the stage declares (`needs_draws`).
    expected : Outcome, optional
        What another engine made of it (`first_outcome`): then the rows are compared with that, and what does not
        depend on the engine (seeds, plans read back, blocks without rows) is not tried once more.
    folder : Path, optional
        An empty folder to work in; default: a temporary one.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from privpipe.transforms import Round
    >>> stage_problems(Round(columns=["income"], base=10), draws=False)
    []
    """
    if isinstance(engine, str):
        with open_engine(engine) as opened:
            return stage_problems(
                stage,
                opened,
                table=table,
                partitions=partitions,
                draws=draws,
                expected=expected,
                folder=folder,
            )
    with tempfile.TemporaryDirectory() as made:
        if expected is not None:
            other = Staging(stage, Path(made) if folder is None else folder, expected.table)
            problems = _dealing_problems(other, engine, partitions, expected)
            return [*dict.fromkeys([*problems, *_empty_problems(other, engine, expected)])]
        staging, first = _served(stage, engine, Path(made) if folder is None else folder, table)
        if first is None:
            return [f"none of the tables serves it: {staging}"]
        return _problems(staging, engine, partitions, draws, first)


def first_outcome(stage: Transformer, engine: Engine, folder: Path, table: People | None = None) -> Outcome:
    """What an engine makes of the table that a stage is tried on, to be compared with other engines.

    Raises
    ------
    LookupError
        No table serves the stage.
    """
    staging, first = _served(stage, engine, folder, table)
    if first is None:
        raise LookupError(f"none of the tables serves {stage!r}: {staging}")
    return first


def _served(stage: Transformer, engine: Engine, folder: Path, table: People | None) -> tuple[Any, Outcome | None]:
    """The stage over the first table that serves it, and what it made of it; else why none does."""
    refusals = []
    for at, one in enumerate([table] if table is not None else tables_for(stage)):
        own = folder / f"table-{at}"
        own.mkdir(exist_ok=True)
        staging = Staging(stage, own, one)
        try:
            return staging, staging.run(engine)
        except PrivpipeError as error:
            refusals.append(f"{type(error).__name__}: {error}")
    return "; ".join(refusals), None


def _problems(
    staging: Staging, engine: Engine, partitions: Sequence[int], draws: bool | None, first: Outcome
) -> list[str]:
    problems = [*_broken_promises(first), *_dealing_problems(staging, engine, partitions, first)]
    before = _bytes_of(staging.table.rows)
    probing: Any = EmptyBlocks(engine)
    again = staging.run(probing, given=Plan.from_json(first.made.to_json(), staging.policy()))
    problems += probing.problems
    problems += [] if _bytes_of(staging.table.rows) == before else ["it changes its input"]
    problems += [f"{fault} by its own plan, read back" for fault in _differences(first, again)]
    problems += _seed_problems(staging, engine, first, staging.stage.needs_draws if draws is None else draws)
    return [*dict.fromkeys((*problems, *_empty_problems(staging, engine, first)))]


def _dealing_problems(staging: Staging, engine: Engine, partitions: Sequence[int], first: Outcome) -> list[str]:
    problems = []
    for parts in partitions:
        found = staging.run(engine, parts)
        problems += [f"{fault} in {parts} partitions and another order" for fault in _differences(first, found)]
        problems += _broken_promises(found)
    return problems


def _seed_problems(staging: Staging, engine: Engine, first: Outcome, draws: bool) -> list[str]:
    others = [staging.run(engine, seed=1)]
    if draws and others[0].rows == first.rows:  # a small table may come out equal by chance
        others += [staging.run(engine, seed=seed) for seed in range(2, len(SEEDS))]
    if draws and all(other.rows == first.rows for other in others):
        return ["the rows are the same under another seed, although the stage draws"]
    if not draws and others[0].rows != first.rows:
        return ["the rows are others under another seed, although the stage draws nothing"]
    return []


def _empty_problems(staging: Staging, engine: Engine, first: Outcome) -> list[str]:
    """A plan over a table without records gives one of the same schema without records."""
    try:
        found = staging.run_empty(engine, first.made)
    except Exception as error:  # noqa: BLE001 - whatever breaks is the finding
        return [f"an empty table breaks it: {type(error).__name__}"]
    if not found.schema.equals(first.schema):
        return ["an empty table comes out with another schema"]
    return ["an empty table comes out with rows"] if len(found) else []


def _differences(one: Outcome, other: Outcome) -> list[str]:
    found = []
    if one.plan != other.plan:
        found.append("the plan differs")
    if one.public != other.public:
        found.append("the public plan differs")
    if not one.schema.equals(other.schema):
        found.append("the schema differs")
    if one.rows != other.rows:
        found.append("the rows differ")
    return found


def _broken_promises(found: Outcome) -> list[str]:
    promised = {entry.name: entry.type for entry in found.promised}
    came = {entry.name: entry.type for entry in found.schema}
    if promised != came or list(promised) != list(came):
        return [f"released_schema promises {_shown(found.promised)} and {_shown(found.schema)} comes out"]
    return []


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{entry.name} {entry.type}" for entry in schema)


def _public(made: StagePlan) -> str:
    """What anyone may read of a plan, where the stage parts it; it must be JSON and the same everywhere too."""
    parted = getattr(made, "public", None)
    return "" if parted is None else json.dumps(plain(parted().detail), sort_keys=True)


def written_in_parts(rows: pa.Table, folder: Path, parts: int) -> Path:
    """A folder with the rows dealt out to so many files in a shuffled order, the last of seven without a row."""
    import numpy as np
    import pyarrow.parquet as pq

    if not folder.exists():
        folder.mkdir()
        mixed = rows.take(np.random.default_rng(parts).permutation(len(rows)))
        filled = parts - 1 if parts > 6 else parts
        for part in range(parts):
            some = mixed.take(np.arange(part, len(mixed), filled)) if part < filled else mixed.slice(0, 0)
            pq.write_table(some, folder / f"part-{part}.parquet")
    return folder


def sorted_rows(rows: pa.Table) -> tuple[tuple[str, ...], ...]:
    """Rows as texts that distinguish types and bits, sorted.

    Examples
    --------
    >>> import pyarrow as pa
    >>> sorted_rows(pa.table({"x": [0.5, -0.0], "y": ["b", None]}))
    (('-0.0', 'None'), ('0.5', "'b'"))
    """
    columns = [map(repr, column.to_pylist()) for column in rows.columns]
    return tuple(sorted(zip(*columns, strict=True)))


def tables_for(stage: Transformer) -> Iterator[People]:
    """Tables that a stage's examples may run on: its own, or those with the columns that examples name."""
    own = getattr(type(stage), "example_table", None)
    if own is not None:
        yield People(**own())
    else:
        yield from (make() for make in TABLES.values())


@contextmanager
def keys_of(entry: Any) -> Iterator[None]:
    """A key in each environment variable that the entry's parameters name."""
    named = {
        value["from_env"]: KEY for value in vars(entry).values() if isinstance(value, Mapping) and "from_env" in value
    }
    unset = {name: key for name, key in named.items() if name not in os.environ}
    os.environ.update(unset)
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]


def _bytes_of(rows: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
