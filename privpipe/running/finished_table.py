"""Judge a finished table by a policy, alone or compared with its original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from privpipe.blocks import Facts
from privpipe.blocks.arrays import Ints
from privpipe.blocks.file_pair import RowPositions
from privpipe.blocks.release_history import ReleaseHistory
from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine, Source
from privpipe.engines.base.contract import fingerprint
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.judging import Assessment, JudgingRules
from privpipe.judging import assess as judge
from privpipe.judging.rules import metadata_notes
from privpipe.judging.table_facts import person_histograms
from privpipe.policy import Policy
from privpipe.policy.ledgers import named_ledger
from privpipe.policy.specs import require_one_table
from privpipe.running.run_context import (
    finished_population,
    finished_source,
    judging_rules,
    left_out_notes,
    read_as_source,
    scanned,
    source_of,
    unjudged_notes,
    untyped_columns,
    versions_at_work,
    without_others,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.judging.recovery import Recoveries
    from privpipe.roles import Roles

__all__ = [
    "NO_MATCH",
    "Align",
    "found_at",
    "group_numbers",
    "judge_table",
    "of_records",
    "reads_pairs",
    "reads_positions",
    "row_hashes",
]


Align = Literal["record_id", "position"]


def judge_table(
    engine: Engine, data: Any, policy: Policy, original: Any, align: Align, *, allow_empty: bool
) -> Assessment:
    """As `assess`, on an open engine, by a policy whose tables are pinned."""
    of_records(policy, "assess")
    if align not in get_args(Align):
        raise UsageError(f"align must be one of {', '.join(get_args(Align))}, got {align!r}")
    if isinstance(original, str | PurePath):
        original = read_as_source(original, policy)  # once: it is read again with the notes
    case = _tables(engine, data, policy, original, align)
    said = () if case.raw else metadata_notes(case.finished, policy.metadata)
    rules, notes = _rules(engine, case, policy, align)
    rules = replace(rules, allow_empty=allow_empty)
    roles = policy.roles if case.raw else policy.released_roles
    judged = judge(
        engine,
        case.table,
        guarantees=policy.guarantees,
        measures=policy.measures,
        roles=roles,
        rules=rules,
        original=case.first,
        population=finished_population(engine, policy, case.table, finished=not case.raw),
    )
    before = None if original is None else read_as_source(original, policy)
    notes += left_out_notes(policy, table=case.finished if case.raw else None, original=before)
    notes += () if case.raw else (*unjudged_notes(case.finished), *said)
    judged = judged.noting(*notes)
    if original is not None:
        from privpipe.judging.recovery import recoveries

        recovered = (
            recoveries(engine, case.table, case.first, roles, rules, rules.order)
            if case.paired and rules.order is not None
            else recoveries_beside_original(engine, case.finished, original, policy, align, roles, rules)
        )
        judged = recovered.joining(judged, policy.guarantees)
    return judged.within(
        name=policy.name,
        policy_hash=policy.digest(),
        engine=engine.name,
        versions=versions_at_work(engine, policy),
        nulls=policy.nulls,
        suppression_mark=policy.suppression_mark,
    )


def of_records(policy: Policy, verb: str) -> Policy:
    """The policy, if it releases records.

    Raises
    ------
    UsageError
        It releases tables of cells, or related tables.
    """
    require_one_table(policy, verb)
    if policy.tables is not None:
        raise UsageError(
            f"{verb}: policy {policy.name!r} releases tables of cells; use `release` (with `dry_run` to publish "
            "nothing), `Policy.apply` for a frame, or `validate` for finished tables"
        )
    return policy


@dataclass(frozen=True, kw_only=True)
class _Tables:
    """What `assess` judges, and the original it is compared with.

    `original` is as it was passed, `first` its table or None; `drawn` is whether the seed fixes the attacked records.
    """

    finished: Source
    table: Any
    original: Any
    first: Any
    seed: Seed | None
    raw: bool
    paired: bool
    drawn: bool


def _tables(engine: Engine, data: Any, policy: Policy, original: Any, align: Align) -> _Tables:
    finished = finished_source(data, policy) if data is not None else source_of(policy)
    paired = original is not None and reads_pairs(policy)
    # The seed fixes which records are attacked; without pairs nothing is drawn and no seed is needed.
    drawn = paired or (original is not None and compares_tables(policy))
    seed = None if original is None else policy.seed.resolve() if policy.seed and drawn else Seed.from_os()
    if paired and seed is not None:
        table, first = aligned(engine, finished, read_as_source(original, policy), policy, align, seed)
    else:
        table = scanned(engine, finished)
        first = None if original is None else scanned(engine, read_as_source(original, policy))
    if data is None:
        table = without_others(engine, table, policy)
    return _Tables(
        finished=finished,
        table=table,
        original=original,
        first=first,
        seed=seed,
        raw=data is None,
        paired=paired,
        drawn=drawn,
    )


def _rules(engine: Engine, case: _Tables, policy: Policy, align: Align) -> tuple[JudgingRules, tuple[str, ...]]:
    """The rules that the tables are judged by, and notes on the record of the process."""
    entered = {} if case.first is None else _bases(engine, case.first, policy)
    base = dict(entered[judging_rules(policy).person].histograms) if entered else {}
    process, notes = _process(policy, case.finished)
    histories = _histories(engine, case, policy)
    order = None  # of attacks, each of which needs the original
    if case.seed is not None:
        # Without a declared seed the order is arbitrary anyway, and the fingerprint would be a pass for nothing.
        source = fingerprint(engine, case.first, case.seed) if policy.seed and case.drawn else ""
        order = RunKey.of(case.seed, policy.run_digest(), source).attacks()
    whole = case.first if case.first is not None else case.table if case.raw else None
    known = policy.hierarchies
    if whole is not None:
        from privpipe.running.attached_source import with_columns_read

        known = with_columns_read(engine, whole, known, policy.types)
    rules = replace(judging_rules(policy, base), entered=entered, order=order, process=process, hierarchies=known)
    rules = replace(rules, untyped=untyped_columns(case.finished, policy))
    positions = None
    if case.paired and reads_positions(policy):
        tables = engine.frames.held(case.finished), engine.frames.held(read_as_source(case.original, policy))
        positions = finished_positions(policy, *tables, align)
    gate = replace(rules.gate, raw=case.raw)
    return replace(rules, histories=histories, positions=positions, gate=gate), notes


def _process(policy: Policy, source: Source) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    """The process record of the judged table, and notes on it; nothing where no guarantee is about a process."""
    if not any(entry.way.of_process for entry in policy.entries):
        return None, ()
    path = str(source.data) if source.is_path else ""
    if not path or "://" in path or not Path(path).is_dir():
        return None, ("a process record is read only from the folder of a published release",)
    from privpipe.running.published_release import process_beside

    found, why = process_beside(Path(path))
    return found, (why,) if why else ()


def _histories(engine: Engine, case: _Tables, policy: Policy) -> Mapping[str, ReleaseHistory]:
    """What the ledger remembers of the records that both tables hold."""
    with_ids = case.paired and case.table.has_record_ids and case.first.has_record_ids
    if not with_ids or named_ledger(policy.entries) is None:
        return {}
    from privpipe.running.release_memory import Remembering

    with Remembering(policy) as memory:
        memory.gather(engine, case.first, case.table, policy.roles)
        return memory.histories


def _bases(engine: Engine, original: Any, policy: Policy) -> dict[str | None, Facts]:
    """Base distributions in the original, by the column that identifies the counted units."""
    entries, rules = policy.entries, judging_rules(policy)
    columns = sorted({column for entry in entries if entry.needs_base for column in entry.sensitive_columns()})
    if not columns:
        return {}
    units = dict.fromkeys((rules.person, *(rules.unit(entry) for entry in entries if entry.needs_base)))
    found = {unit: person_histograms(engine, original, columns, unit) for unit in units}
    return {unit: Facts(histograms=facts.histograms) for unit, facts in found.items()}


def reads_pairs(policy: Policy) -> bool:
    """Whether an entry of the policy compares the release with its original."""
    return any(entry.way.aligned for entry in policy.entries)


def compares_tables(policy: Policy) -> bool:
    """Whether an entry of the policy compares whole tables, without pairing their records."""
    return any(entry.way.in_keyed_order for entry in policy.entries)


def aligned(
    engine: Engine, released: Source, original: Source, policy: Policy, align: Align, seed: Seed
) -> tuple[Any, Any]:
    """Both tables with record ids for pairing; unchanged where nothing pairs them.

    Parameters
    ----------
    released, original : Source
    align : {"record_id", "position"}
        By the policy's `record_id` column, which both tables must hold, or by row number.

    Returns
    -------
    (Table, Table)
        Released, original. Without ids where the released table lacks the record id: entries over pairs are then
        errors.

    Raises
    ------
    DataError
        By position, tables of different length.
    UnsupportedError
        By position, a source that has no order.
    """
    if align == "position":
        return _by_position(engine, released, original, seed)
    key = policy.record_id
    first = scanned(engine, original)
    if key is None:
        return scanned(engine, released), first
    kind = policy.types.get(key)
    second = scanned(engine, released)
    if key not in second.schema.names or key not in first.schema.names:
        return second, first
    if kind is not None and released.types.get(key) != kind:
        second = scanned(engine, replace(released, types={**released.types, key: kind}))
    return engine.with_record_ids(second, key, seed), engine.with_record_ids(first, key, seed)


def _by_position(engine: Engine, released: Source, original: Source, seed: Seed) -> tuple[Any, Any]:
    from privpipe.engines.readers.source_facts import POSITION, positioned

    tables = [positioned(engine.frames.held(released)), positioned(engine.frames.held(original))]
    if tables[0].num_rows != tables[1].num_rows:
        raise DataError(
            f"the tables cannot be aligned by position: one has {tables[0].num_rows:,} records, the original "
            f"{tables[1].num_rows:,}; align by a record_id"
        )
    sides = []
    for table, source in zip(tables, (released, original), strict=True):
        found = scanned(engine, Source(data=table, types=source.types))
        found = engine.with_record_ids(found, POSITION, seed)
        sides.append(engine.select(found, [name for name in found.schema.names if name != POSITION]))
    return sides[0], sides[1]


def recoveries_beside_original(
    engine: Engine, finished: Source, original: Any, policy: Policy, align: Align, roles: Roles, rules: JudgingRules
) -> Recoveries:
    """What released columns reveal about transformed ones; where records cannot be paired, that they cannot.

    No guarantee requires these pairs, so tables that do not fit together are not an error, and no seed is needed: a
    constant fixes the records by which a large table is sampled.
    """
    from privpipe.judging.recovery import Recoveries, recoveries

    seed = Seed.public("privpipe/recovery")
    try:
        released, first = aligned(engine, finished, read_as_source(original, policy), policy, align, seed)
    except (DataError, UnsupportedError):
        return Recoveries(unpaired=True)
    if not (released.has_record_ids and first.has_record_ids):
        return Recoveries(unpaired=True)
    return recoveries(engine, released, first, roles, rules, RunKey.of(seed, "", "").attacks())


NO_MATCH = "the records of the release were not all found in the original's order."


def reads_positions(policy: Policy) -> bool:
    """Whether an entry of the policy needs positions."""
    return any(entry.way.of_positions for entry in policy.entries)


def finished_positions(
    policy: Policy, released: Source, original: Source, align: Literal["record_id", "position"]
) -> RowPositions | str:
    """Of the rows of a finished table and its original, as in their files or frames."""
    from privpipe.engines.readers.source_facts import POSITION, positioned

    seed = Seed.from_os()
    key = policy.record_id
    try:
        last, first = positioned(released), positioned(original)
    except UnsupportedError as error:
        return f"{error}."
    names = [name for name in last.schema.names if name not in (POSITION, key)]
    positions = np.arange(last.num_rows)
    if align == "position":
        places = positions
    elif key is None or key not in last.schema.names or key not in first.schema.names:
        return "needs the original together with the release, aligned by record id, or by position."
    else:
        places = found_at(row_hashes(first, [key], seed), row_hashes(last, [key], seed))
        if (places < 0).any():
            return NO_MATCH
    return RowPositions(
        classes=group_numbers(row_hashes(last, names, seed)),
        released=positions,
        original=places,
        ordered=_in_order(last, names),
    )


def row_hashes(table: pa.Table, names: Sequence[str], seed: Seed) -> Ints:
    import pyarrow as pa

    from privpipe.judging.release_memory import row_texts
    from privpipe.kernels.ids.record_ids import content_hash

    return content_hash(pa.table(row_texts(table, names)), seed)


def found_at(ids: Ints, asked: Ints) -> Ints:
    from privpipe.judging.release_memory import places_of

    return places_of(ids, asked)


def group_numbers(hashes: Ints) -> Ints:
    from privpipe.kernels.grouping.word_groups import group_rows

    return group_rows(hashes)[0]


def _in_order(table: pa.Table, names: Sequence[str]) -> bool:
    import pyarrow.compute as pc

    if not names or not table.num_rows:
        return True
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    return bool((np.diff(order.to_numpy().astype(np.int64)) == 1).all())
