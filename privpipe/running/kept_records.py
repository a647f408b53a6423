"""What stays on this machine of runs: private records, listed and removed, and records in quarantine."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.blocks.row_reductions import NothingLeft, without_suppressed
from privpipe.engines import open_engine
from privpipe.errors import SinkError, UsageError
from privpipe.judging.judged_table import record_risks
from privpipe.policy.specs import require_one_table
from privpipe.running.run_context import RunContext, judging_rules, scanned, source_of, without_others
from privpipe.running.staging import Staged
from privpipe.sinks.records import Quarantine

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.policy import Policy
    from privpipe.policy.specs import RetentionSpec

__all__ = [
    "in_order",
    "keep_left_out",
    "left_out_records",
    "of_sink",
    "prune_records",
    "published_rows",
    "refused_runs",
    "write_record_risks",
]


FORMATS = (".csv", ".parquet")


def write_record_risks(policy: Policy, path: str, *, engine: str | None = None) -> int:
    """Write one line per record: its id and its risks, for those who may see the source.

    Parameters
    ----------
    policy : Policy
        With a `record_id`, and an entry with figures of single records.
    path : str
        A new file, CSV or Parquet by its name, outside the release; readable only by its owner.
    engine : str, optional
        Default: the policy's.

    Returns
    -------
    int
        Records written.

    Raises
    ------
    UsageError
        No `record_id`, a file that exists, of another format, or within the release.
    """
    require_one_table(policy, "assess --show-records")
    if policy.record_id is None:
        raise UsageError("single records are shown by their `record_id`, and the policy names none")
    target = Path(path).absolute()
    if target.suffix not in FORMATS:
        raise UsageError(f"--show-records takes a file named {' or '.join(FORMATS)}, got {target.name!r}")
    sink = Path(policy.sink.target(policy.base_dir)).absolute() if policy.sink and policy.sink.is_folder else None
    if sink is not None and (sink in target.parents or sink == target or sink.resolve() in target.resolve().parents):
        raise UsageError("--show-records: the risks of single records must not be in the release; name another place")
    if target.exists():
        raise UsageError(f"--show-records: {target.name!r} exists already; nothing was overwritten")
    name = engine or policy.engine
    with open_engine(name, policy.engines.get(name, {})) as running:
        table = without_others(running, scanned(running, source_of(policy)), policy)
        entries = policy.entries
        found = record_risks(running, table, entries, policy.roles, judging_rules(policy), policy.record_id)
    _write(found, target)
    return int(found.num_rows)


def _write(found: pa.Table, target: Path) -> None:
    import pyarrow.csv
    import pyarrow.parquet

    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        if target.suffix == ".csv":
            pyarrow.csv.write_csv(found, file)
        else:
            pyarrow.parquet.write_table(found, file)


RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
PRUNED = ".pruned"
TOLD = ("run_id", "created", "name", "verdict", "records", "policy_hash", "officer_policy_hash", "signed_by")
Row = Mapping[str, Any]


def published_rows(before: Iterable[Row], last: Row) -> list[dict[str, Any]]:
    """Releases by the entries of their chain."""
    return [{**{name: entry[name] for name in TOLD}, "published": True} for entry in (*before, last)]


def refused_runs(home: Path | None) -> Iterator[dict[str, Any]]:
    """Runs whose private record is only a verdict."""
    for path in sorted(home.glob("*/verdict.json")) if home is not None else ():
        if not RUN.fullmatch(path.parent.name) or (path.parent / "manifest.json").exists():
            continue
        try:
            verdict = json.loads(path.read_bytes())
            yield {
                "run_id": str(verdict["run_id"]),
                "created": _began(str(verdict["run_id"])),
                "name": str(verdict["name"]),
                "verdict": "refused",
                "records": int(verdict["records"]),
                "policy_hash": str(verdict["policy_hash"]),
                "officer_policy_hash": verdict.get("officer_policy_hash"),
                "signed_by": [],
                "published": False,
            }
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            continue  # not of a run


def in_order(published: Sequence[Row], refused: Iterable[Row]) -> list[Row]:
    """Releases in the order of their publication, and refused runs where they began.

    Times are whole seconds: of runs in one second the refused ones come first, so that no release is pruned for them.

    Parameters
    ----------
    published : sequence of mapping
        As the chain has them. One that waited for its sign-off was made before others that were published first.
    refused : iterable of mapping

    Examples
    --------
    >>> chain = [{"run_id": "b", "created": "02"}, {"run_id": "a", "created": "01"}]
    >>> [row["run_id"] for row in in_order(chain, [{"run_id": "c", "created": "03"}])]
    ['b', 'a', 'c']
    """
    latest = ""
    timed = [(str(row["created"]), row) for row in refused]
    for row in published:
        latest = max(latest, str(row["created"]))
        timed.append((latest, row))
    return [row for _, row in sorted(timed, key=lambda each: each[0])]


def of_sink(rows: Iterable[Row], *, shared: bool, digest: str | None = None) -> list[Row]:
    """The rows that are runs of one sink for certain.

    Parameters
    ----------
    shared : bool
        Whether other sinks may keep their records there: refused runs then belong to it by the hash of a policy that
        it has published under.
    digest : str, optional
        Hash of the policy at hand.
    """
    rows = list(rows)
    hashes = {str(row["policy_hash"]) for row in rows if row["published"]} | {digest}
    return [row for row in rows if row["published"] or not shared or row["policy_hash"] in hashes]


def prune_records(
    home: Path, rows: Sequence[Row], retention: RetentionSpec, current: str, policy: Policy | None = None
) -> list[str]:
    """Remove the private records of runs that `retention` does not keep; the runs.

    What counts over releases is elsewhere and is not touched: a ledger's entries, the draws of earlier releases, the
    chain. These records stay whatever their age: that of the release that is published, those of runs that are about to
    publish or wait for a sign-off, and the one that the policy's `plan:` names.

    Parameters
    ----------
    rows : sequence of mapping
        Of `of_sink`, in order.
    current : str
        The run whose release is published.

    Raises
    ------
    SinkError
        A record cannot be removed.
    """
    there = [row for row in rows if RUN.fullmatch(str(row["run_id"])) and (home / row["run_id"]).is_dir()]
    if retention.keep is not None:
        old = there[: max(len(there) - retention.keep, 0)]
    else:
        since = datetime.now(UTC) - timedelta(days=retention.days or 0)
        old = [row for row in there if datetime.fromisoformat(str(row["created"])) < since]
    stay = {current, *_planned(home, policy)}
    runs = [str(row["run_id"]) for row in old if row["run_id"] not in stay and not _pending(home, row["run_id"])]
    try:
        for run in runs:  # a partial record would look like that of a refused run
            os.rename(home / run, home / f"{run}{PRUNED}")
        for left in home.glob(f"*{PRUNED}"):
            shutil.rmtree(left)
    except OSError as error:
        raise SinkError(f"a private record in {str(home)!r} cannot be removed: {error.strerror}") from None
    return runs


def _planned(home: Path, policy: Policy | None) -> Collection[str]:
    """The run of whose record a policy takes its plan."""
    if policy is None or policy.plan is None:
        return ()
    folder = Path(os.path.realpath(policy.plan.target(policy.base_dir))).parent
    return (folder.name,) if folder.parent == Path(os.path.realpath(home)) else ()


def _pending(home: Path, run: str) -> bool:
    return any(home.glob(f"{run}.*"))


def _began(run_id: str) -> str:
    """When a run began, by its id.

    Examples
    --------
    >>> _began("20260102T030405Z-1a2b3c4d")
    '2026-01-02T03:04:05+00:00'
    """
    return f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}T{run_id[9:11]}:{run_id[11:13]}:{run_id[13:15]}+00:00"


RELEASED = "__privpipe_released"
ROWS_AT_ONCE = 50_000


def keep_left_out(context: RunContext, staged: Staged, quarantine: Quarantine, run_id: str) -> tuple[str, int]:
    """Stage the records that a release leaves out; the folder where they will be, and their number."""
    table = left_out_records(context, staged)
    folder = quarantine.stage(run_id)
    written = context.engine.write(table, str(folder), "parquet", staged.run.rows("records left out"))
    quarantine.close(folder)
    if not written.records:
        quarantine.settle(None)
        return "", 0
    return str(quarantine.home / run_id), written.records


def left_out_records(context: RunContext, staged: Staged) -> Any:
    """Unchanged records of the source that are not in the released table or have only marks there."""
    import pyarrow as pa

    engine, original, released = context.engine, staged.original, staged.table
    nothing = NothingLeft(tuple(released.schema.names), context.policy.suppression_mark)
    released = without_suppressed(engine, released, nothing)
    schema = original.schema
    labelled = pa.schema([*schema, pa.field(RELEASED, pa.bool_())])
    rows = engine.append(
        engine.map_rows(original, _Labelled(labelled, released=False), labelled),
        engine.map_rows(released, _Labelled(labelled, released=True), labelled),
    )
    groups = 1 << (engine.count(original) // ROWS_AT_ONCE).bit_length()
    return engine.map_groups(rows, _Group(groups), _without_released, schema)


@dataclass(frozen=True)
class _Labelled:
    """Rows with a column that shows whether they are from the release; of these only the ids are kept."""

    schema: pa.Schema
    released: bool

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        said = pa.array(np.full(len(rows), self.released))
        kept = [
            pa.nulls(len(rows), field.type) if self.released else rows.column(field.name)
            for field in self.schema
            if field.name != RELEASED
        ]
        return rows.with_batch(pa.record_batch([*kept, said], schema=self.schema))


@dataclass(frozen=True)
class _Group:
    """Some number of groups by the ids, which are evenly distributed."""

    groups: int

    def __call__(self, rows: RowBlock) -> Ints:
        return rows.record_ids[:, 1] & (self.groups - 1)


def _without_released(rows: RowBlock, group: int) -> RowBlock:
    import pyarrow as pa
    import pyarrow.compute as pc

    words = np.ascontiguousarray(rows.record_ids)
    ids = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, pa.py_buffer(words)])
    released = rows.column(RELEASED)
    gone = pc.and_(pc.invert(released), pc.invert(pc.is_in(ids, value_set=ids.filter(released))))
    return rows.take(np.flatnonzero(gone.to_numpy(zero_copy_only=False))).drop([RELEASED])
