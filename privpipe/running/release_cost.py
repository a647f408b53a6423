"""The cost of a run, predicted: formulas and their measured constants (`docs/scale.md`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from privpipe.border import bordered
from privpipe.engines import Engine, Source
from privpipe.engines.base.frames import at_hand
from privpipe.engines.readers.source_facts import MOST_ROWS
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.html_tables import Table, html_tables
from privpipe.policy import Policy
from privpipe.policy.specs import require_one_table
from privpipe.running.attached_source import require_declared
from privpipe.running.run_context import OpenedEngine, pinned_tables, read_as_source, scanned, source_of, without_others
from privpipe.running.source_facts import LookedAt, Work, looked_at, work_of

__all__ = [
    "COUNTED_HERE",
    "COUNTED_HERE_ROWS",
    "MEASURED",
    "RESOURCES",
    "STORED",
    "STORED_ROWS",
    "Cost",
    "EngineCosts",
    "Estimate",
    "plan_cost",
    "predict",
]


MEGABYTE = 1e6


@dataclass(frozen=True, kw_only=True)
class EngineCosts:
    """Measured costs of an engine; bytes as factors of their source.

    Parameters
    ----------
    base_read : float
        Bytes whatever the table: libraries, the documents of the run.
    source_reads, release_reads : float
        Times that the bytes of the source, and of the release, are read.
    packs : float
        How well the engine packs the files it writes, compared with the embedded one.
    kept_reads : float
        Times that the rows in memory are read, files and kept tables together, which Spark counts as one.
    staged_reads, staged_reads_by_key : float
        Times that rows staged on disk are read: always, and once more for each quasi-identifier.
    laid_reads : float
        Times that they are read for each stage that writes rows again.
    shuffles, shuffles_by_count : float
        Times that the rows cross between workers: always, and for each count of classes.
    base_driver : float
    driver_rows, driver_rows_on_disk : float
        Times the rows in memory that the process holds: where they fit, and where they are staged on disk.
    driver_laid : float
        The same for each stage that writes rows again.
    base_cpu : float
    worker_read, worker_cpu : float
        Bytes of libraries that a worker process reads, and seconds until it has loaded or compiled what it needs.
    driver_beside_workers : float
        Bytes that the process holds where the rows are in worker processes.
    tells_driver : bool
        Whether the memory of the driver was measured.
    measured_rows : int
        The largest table whose costs were measured.
    cpu_by_column, cpu_by_key, cpu_by_stage : float
        Seconds per row for each column, each quasi-identifier, and each stage that writes rows again.
    cpu_by_row_on_disk : float
        Further seconds per row where packed rows do not fit into half of the memory: the database spills them, and they
        are counted in parts.
    """

    base_read: float = 0.0
    source_reads: float = 1.0
    release_reads: float = 1.0
    packs: float = 1.0
    kept_reads: float = 0.0
    staged_reads: float = 0.0
    staged_reads_by_key: float = 0.0
    laid_reads: float = 0.0
    shuffles: float = 0.0
    shuffles_by_count: float = 0.0
    base_driver: float = 0.0
    driver_rows: float = 0.0
    driver_rows_on_disk: float = 0.0
    driver_laid: float = 0.0
    base_cpu: float = 0.0
    cpu_by_column: float = 0.0
    cpu_by_key: float = 0.0
    cpu_by_stage: float = 0.0
    cpu_by_row_on_disk: float = 0.0
    worker_read: float = 0.0
    worker_cpu: float = 0.0
    driver_beside_workers: float = 0.0
    tells_driver: bool = True
    measured_rows: int = 0


MEASURED: Mapping[str, EngineCosts] = {
    "embedded": EngineCosts(
        base_read=28 * MEGABYTE,
        release_reads=3.6,
        staged_reads=7.0,
        staged_reads_by_key=0.55,
        laid_reads=1.2,
        base_driver=250 * MEGABYTE,
        driver_rows=2.8,
        driver_rows_on_disk=2.0,
        base_cpu=3.0,
        cpu_by_column=0.2e-6,
        cpu_by_key=0.75e-6,
        cpu_by_stage=0.7e-6,
        measured_rows=10_000_000,
    ),
    "dask": EngineCosts(
        base_read=34 * MEGABYTE,
        source_reads=2.8,
        release_reads=3.4,
        packs=0.85,
        shuffles=1.35,
        shuffles_by_count=0.5,
        base_driver=350 * MEGABYTE,
        driver_rows=4.2,
        base_cpu=2.5,
        cpu_by_column=0.35e-6,
        cpu_by_key=0.7e-6,
        cpu_by_stage=1.0e-6,
        worker_read=47 * MEGABYTE,
        worker_cpu=4.0,
        driver_beside_workers=310 * MEGABYTE,
        measured_rows=10_000_000,
    ),
    "spark": EngineCosts(
        source_reads=0.0,
        release_reads=0.0,
        kept_reads=11.0,
        shuffles=1.0,
        shuffles_by_count=0.83,
        base_cpu=40.0,
        cpu_by_column=0.9e-6,
        cpu_by_key=2.0e-6,
        cpu_by_stage=6.0e-6,
        worker_cpu=25.0,
        tells_driver=False,
        measured_rows=10_000_000,
    ),
}
"""One thread or many: seconds are of all processors together."""
STORED_ROWS = 200_000
"""From this number of rows on the embedded engine stores a table in its database, with texts as numbers."""
STORED = EngineCosts(
    base_read=33 * MEGABYTE,
    source_reads=1.2,
    release_reads=2.2,
    staged_reads=7.0,
    laid_reads=1.2,
    base_driver=340 * MEGABYTE,
    driver_rows=0.6,
    driver_rows_on_disk=0.6,
    driver_laid=1.7,
    base_cpu=3.5,
    cpu_by_column=0.055e-6,
    cpu_by_key=0.13e-6,
    cpu_by_stage=0.9e-6,
    cpu_by_row_on_disk=0.7e-6,
    measured_rows=100_000_000,
)
"""Of such tables."""
COUNTED_HERE_ROWS = 2_000_000
"""Up to this number of rows Spark's driver counts near-unique columns."""
COUNTED_HERE = replace(MEASURED["spark"], kept_reads=10.0, shuffles=0.35, shuffles_by_count=0.3)
"""Of such tables."""


RESOURCES = ("read", "shuffled", "spilled", "written", "driver", "cpu_s")
VALUE_BYTES = 1000.0
"""Bytes per distinct value while its hierarchy is built."""
CELL_BYTES = 16.0
"""Bytes per column of a distinct combination that a search holds."""
STAGED_BYTES = 17.0
"""Bytes per staged row in a file in addition to its cells: the two words of the record's id."""
DEALT_BYTES = 9.0
"""The same for a row that is sorted on disk: its order word, and which cells are missing."""
KEPT_BYTES = 32 << 20
"""Rows that the embedded engine keeps in memory whatever its limit."""
DIGITS = 2
"""Significant digits printed: more would be false precision."""


@dataclass(frozen=True)
class Estimate:
    """One resource.

    Parameters
    ----------
    amount : float or None
        Bytes, or seconds of a processor; None where the model cannot predict it.
    terms : mapping of str to float
        What it is made of.
    """

    amount: float | None
    terms: Mapping[str, float]

    @classmethod
    def of(cls, **terms: float) -> Estimate:
        """The sum of its terms; those that are 0 are left out."""
        kept = {name.replace("_", " "): value for name, value in terms.items() if value > 0}
        return cls(sum(kept.values()), kept)


@bordered
@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run will cost on an engine. Holds counts and sizes, rounded; no value of the table.

    Parameters
    ----------
    engine : str
    rows, columns, combinations : int
        What it was predicted for. `combinations` are of quasi-identifiers, before anything is done to them.
    workers : int or None
        Processors that the work is split over; None: unknown.
    estimates : mapping of str to Estimate
        By resource, in the order of `RESOURCES`.
    unknown : tuple of str
        What is not in the estimates, in sentences.
    """

    engine: str
    rows: int
    columns: int
    combinations: int
    estimates: Mapping[str, Estimate]
    workers: int | None = None
    unknown: tuple[str, ...] = ()

    def __getitem__(self, resource: str) -> float | None:
        return self.estimates[resource].amount

    @property
    def seconds(self) -> float | None:
        """Seconds at least: processor seconds over workers that are busy all the time."""
        amount = self["cpu_s"]
        return None if amount is None or self.workers is None else amount / self.workers

    def to_dict(self) -> dict[str, Any]:
        """The cost as plain JSON; figures have two significant digits."""
        return {
            "engine": self.engine,
            "rows": self.rows,
            "columns": self.columns,
            "combinations": _rounded(self.combinations),
            "workers": self.workers,
            "estimates": {
                name: {
                    "amount": None if each.amount is None else _rounded(each.amount),
                    "terms": {term: _rounded(value) for term, value in each.terms.items()},
                }
                for name, each in self.estimates.items()
            },
            "unknown": list(self.unknown),
        }

    def rows_shown(self) -> list[tuple[str, str, str]]:
        """Resource, amount and its parts, as texts."""
        shown = []
        for name, each in self.estimates.items():
            amount = "not known" if each.amount is None else _said(name, each.amount)
            terms = ", ".join(f"{term} {_said(name, value)}" for term, value in each.terms.items())
            shown.append((name.replace("cpu_s", "CPU"), amount, terms if len(each.terms) > 1 else ""))
        return shown

    def _repr_html_(self) -> str:
        title = f"{self.engine}: {self.rows:,} rows, {self.columns} columns"
        table = Table(head=("resource", "estimate", "of which"), rows=self.rows_shown())
        return html_tables(title, table, notes=self.unknown)


def _rounded(amount: float) -> float | int:
    """Two significant digits.

    Examples
    --------
    >>> _rounded(1234567), _rounded(0.01234), _rounded(0)
    (1200000, 0.012, 0)
    """
    if not amount:
        return 0
    told = float(f"{amount:.{DIGITS - 1}e}")
    return int(told) if told >= 10 else told


def _said(resource: str, amount: float) -> str:
    """An amount for people.

    Examples
    --------
    >>> _said("read", 1234567890), _said("cpu_s", 81.2), _said("cpu_s", 8000)
    ('1.2 GB', '81 s', '2.2 h')
    """
    if resource == "cpu_s":
        return f"{_rounded(amount)} s" if amount < 3600 else f"{_rounded(amount / 3600):,} h"
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if amount >= size:
            return f"{_rounded(amount / size):,} {unit}"
    return f"{_rounded(amount / 1e3):,} kB"


def predict(
    engine: str,
    table: LookedAt,
    work: Work,
    memory: int | None = None,
    workers: int | None = None,
    worker_processes: int = 0,
    *,
    here: bool = False,
) -> Cost:
    """The cost of a run.

    Parameters
    ----------
    engine : str
    memory : int, optional
        Bytes that the process may take; without it nothing is taken to be staged on disk.
    worker_processes : int
        In addition to this one; 0: it does the work itself.
    here : bool
        Whether the calling process works on the rows, whatever workers the engine has: Spark leaves them to the
        embedded engine then.

    Raises
    ------
    UnsupportedError
        An engine that was not measured.
    """
    if engine not in MEASURED:
        raise UnsupportedError(f"the costs of the engine {engine!r} were not measured; known: {', '.join(MEASURED)}")
    working = "embedded" if here and engine == "spark" else engine
    own = _costs(working, table)
    written = _written(table, work) * (1.0 if work.text else own.packs)
    staged = table.rows * (sum(table.packed_bytes.values()) + STAGED_BYTES)
    on_disk = _on_disk(table, work, memory, own) if working == "embedded" else 0
    large = own is STORED and memory is not None and staged > memory / 8
    dealt = table.rows * (sum(table.packed_bytes.values()) + DEALT_BYTES) if large else 0.0
    held = table.rows * table.row_bytes
    values = sum(VALUE_BYTES * table.distinct.get(name, 0) for name in work.with_hierarchy)
    cells = CELL_BYTES * work.quasi_identifiers * table.cells if work.searches else 0.0
    rows_held = held * ((own.driver_rows_on_disk if on_disk else own.driver_rows) + own.driver_laid * work.laid)
    if memory is not None:
        rows_held = min(rows_held, max(memory - own.base_driver, 0.0))
    passes = own.staged_reads + own.staged_reads_by_key * work.quasi_identifiers + own.laid_reads * work.laid
    held_here = {"process": own.base_driver, "rows": rows_held, "hierarchies": values, "combinations": cells}
    if worker_processes:
        held_here |= {"process": own.driver_beside_workers, "rows": 0.0}
    estimates = {
        "read": Estimate.of(
            libraries_and_documents=own.base_read,
            libraries_of_workers=own.worker_read * worker_processes,
            source=own.source_reads * table.source_bytes,
            written_files=own.release_reads * written,
            files_and_kept_tables=own.kept_reads * held,
            staged_rows=passes * staged if on_disk else 0.0,
            rows_in_order=dealt,
        ),
        "shuffled": Estimate.of(rows=(own.shuffles + own.shuffles_by_count * work.counts) * held),
        "spilled": Estimate.of(staged_rows=on_disk * staged, rows_in_order=dealt),
        "written": Estimate.of(release=written),
        "driver": Estimate(None, {}) if not own.tells_driver else Estimate.of(**held_here),
        "cpu_s": Estimate.of(
            start_and_report=own.base_cpu,
            start_of_workers=own.worker_cpu * worker_processes,
            columns=own.cpu_by_column * table.rows * table.columns,
            classes=own.cpu_by_key * table.rows * work.quasi_identifiers,
            stages=own.cpu_by_stage * table.rows * work.laid,
            rows_on_disk=own.cpu_by_row_on_disk * table.rows if memory is not None and staged > memory / 2 else 0.0,
        ),
    }
    return Cost(
        engine=engine,
        rows=table.rows,
        columns=table.columns,
        combinations=table.combinations,
        estimates=estimates,
        workers=workers,
        unknown=tuple(_unknown(table, work, working, memory)),
    )


def _written(table: LookedAt, work: Work) -> float:
    """Bytes of the released files, as if nothing were suppressed and each column kept its values."""
    if work.text:
        return table.rows * sum(table.text_bytes.get(name, 0.0) + 1 for name in work.released)
    return table.rows * sum(table.packed_bytes.get(name, 0.0) for name in work.released)


def _costs(engine: str, table: LookedAt) -> EngineCosts:
    """What was measured of an engine for tables of this size."""
    if engine == "embedded" and table.rows >= STORED_ROWS:
        return STORED
    return COUNTED_HERE if engine == "spark" and table.rows <= COUNTED_HERE_ROWS else MEASURED[engine]


def _on_disk(table: LookedAt, work: Work, memory: int | None, own: EngineCosts) -> int:
    """How many of the tables that a run lays down itself do not fit into an eighth of its memory."""
    if memory is None:
        return 0
    held = table.rows * table.row_bytes
    return sum(1 for at in range(work.laid + (own is not STORED)) if held > max(memory / 8 - at * held, KEPT_BYTES))


def _unknown(table: LookedAt, work: Work, engine: str, memory: int | None) -> Iterator[str]:
    own, held = _costs(engine, table), table.rows * table.row_bytes
    for place in work.searches:
        yield f"how long the search of {place} takes: give it a budget, or watch its progress"
    if work.unmeasured:
        yield f"the additional cost of {', '.join(work.unmeasured)}; not measured"
    if not own.tells_driver:
        yield "memory of the driver: not measured"
    if engine == "spark":
        yield "what packing saves in reads and costs in CPU where kept tables do not fit into the executors' memory"
    if engine == "embedded" and memory is not None and held > memory / 2:
        yield "what the database spills in addition while it sorts rows that take more than half of the memory"
    if table.rows > own.measured_rows:
        yield f"nothing above {own.measured_rows:,} rows was measured on this engine: the figures are extrapolated"


@bordered
def plan_cost(
    policy: Policy | str | PurePath | Mapping[str, Any],
    data: Any = None,
    *,
    engine: str | Engine | None = None,
    rows: int | None = None,
    combinations: int | None = None,
    workers: int | None = None,
) -> Cost:
    """What a release of a policy will read, shuffle, spill, write and hold, predicted from one look at its source.

    The look reads every row once, hashes the cells and keeps the smallest hashes: distinct values and combinations are
    estimates with a standard error of 3 %. No stage runs and nothing is written.

    Parameters
    ----------
    policy : Policy, path or mapping
    data : path or frame, optional
        Default: the policy's source.
    engine : str or Engine, optional
        Default: the policy's.
    rows : int, optional
        Predict for this number of rows of the same kind.
    combinations : int, optional
        Distinct combinations of quasi-identifiers among them. Default: in proportion where most rows have their own.
    workers : int, optional
        Processors. Default: those that the engine has, as far as it reports them.

    Returns
    -------
    Cost
        Bytes by resource and CPU seconds, the parts of each, and what cannot be known.

    Raises
    ------
    UnsupportedError
        An engine that was not measured.

    Examples
    --------
    >>> import pandas as pd
    >>> from privpipe.running.release_cost import plan_cost
    >>> columns = {"age": {"role": "quasi_identifier"}, "ill": {"role": "insensitive"}}
    >>> policy = {"columns": columns, "guarantees": [{"k_anonymity": {"k": 2}}]}
    >>> cost = plan_cost(policy, pd.DataFrame({"age": [30, 30, 40], "ill": ["a", "b", "a"]}))
    >>> cost.rows, cost.combinations, cost["cpu_s"] > 0
    (3, 2, True)
    """
    for name, given in (("rows", rows), ("combinations", combinations), ("workers", workers)):
        if given is not None and (isinstance(given, bool) or not isinstance(given, int) or given < 1):
            raise UsageError(f"plan_cost: {name} must be a whole number of at least 1, got {given!r}")
    if not isinstance(policy, Policy):
        policy = Policy.from_dict(policy) if isinstance(policy, Mapping) else Policy.load(policy)
    require_one_table(policy, "plan --cost")
    policy = pinned_tables(policy)
    data = at_hand(data, "plan_cost")
    with OpenedEngine(engine, data if data is not None else policy, policy) as running:
        source = source_of(policy) if data is None else read_as_source(data, policy)
        return _predicted(running, source, policy, (rows, combinations, workers))


def _predicted(
    engine: Engine, source: Source, policy: Policy, asked: tuple[int | None, int | None, int | None]
) -> Cost:
    rows, combinations, workers = asked
    table = without_others(engine, scanned(engine, source), policy)
    require_declared(table, policy)
    seen = looked_at(engine, table, source, policy)
    if not seen.rows:
        raise DataError("the source has no records: there is nothing to predict from")
    if rows is not None or combinations is not None:
        seen = seen.of_rows(rows or seen.rows, combinations)
    processors = workers or _workers(engine, policy)
    here = engine.known(table).is_local and (rows is None or rows <= MOST_ROWS)
    processes = 0 if here else engine.resources.processes
    return predict(engine.name, seen, work_of(policy), engine.resources.memory, processors, processes, here=here)


def _workers(engine: Engine, policy: Policy) -> int | None:
    """Processors that an engine on this machine uses; those of a cluster are not counted."""
    options = policy.engines.get(engine.name, {})
    for name in ("threads", "workers"):
        if isinstance(options.get(name), int):
            return int(options[name])
    return os.cpu_count() if engine.name == "embedded" else None
