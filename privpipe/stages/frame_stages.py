"""Stages over one frame, on the runner of a policy.

Arguments are checked before a row is read; columns and row order are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np

from privpipe.blocks import Guarantee
from privpipe.border import callers_own
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.engines.base.contract import counted_fingerprint, fingerprint_text
from privpipe.engines.base.conversion import typing_of
from privpipe.engines.base.frame_kinds import index_names, is_evaluated, under_index, with_index_columns
from privpipe.engines.base.frames import (
    arrow_of,
    as_handed,
    at_hand,
    frame_like,
    is_local_frame,
    is_unordered,
    made_like,
    taken_from,
)
from privpipe.engines.base.logical_types import CARRIED, check_record_ids, is_carried
from privpipe.engines.base.return_forms import ReturnForm
from privpipe.engines.readers.files import require_stamps, stamps_of
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.hierarchies import HierarchySpec
from privpipe.judging.column_loss import LossTable
from privpipe.judging.release_memory import collected_rows, places_of
from privpipe.kernels.ids.record_ids import content_hash, declared_id, ordinals, record_id, sum_of_hashes
from privpipe.policy import Policy, SecretSpec
from privpipe.policy.catalogues import named_entries
from privpipe.policy.secret import secret_given
from privpipe.roles import NullRule, Roles, require_empty_rule, roles_of_call
from privpipe.running.attached_source import require_no_refused_null
from privpipe.running.frame_policies import hierarchy_specs, policy_around
from privpipe.running.places import return_form
from privpipe.running.plan import Plan
from privpipe.running.report_figures import lost_columns
from privpipe.running.run_context import OpenedEngine, RunContext, no_progress, scanned
from privpipe.running.staging import Staged, run_stages
from privpipe.transforms.base import Transformer
from privpipe.transforms.face import StageOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.blocks.arrays import Ints

__all__ = ["Asked", "Held", "StageOver", "laid_back"]


KNOWN = tuple(StageOptions.__annotations__)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a stage over a frame.

    Parameters
    ----------
    roles : Roles
    hierarchies : mapping of column to HierarchySpec
    guarantees : tuple of Guarantee
    seed : SecretSpec, optional
        None: drawn from the system.
    values : mapping
        record_id, person_id, household_id, nulls, mark and empty, where they are given.
    engine, progress : see `StageOptions`
    """

    roles: Roles = field(default_factory=Roles)
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    guarantees: tuple[Guarantee, ...] = ()
    seed: SecretSpec | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    engine: Any = None
    progress: Any = no_progress

    @classmethod
    def of(cls, owner: str, options: Mapping[str, Any]) -> Self:
        """The options that a call gave to a stage, or to several.

        Raises
        ------
        UsageError
            An unknown option, or a value of another kind.
        """
        given = {name: value for name, value in options.items() if value is not None}
        for name in options:
            if name not in KNOWN:
                raise UsageError(
                    f"{owner}: unknown option {name!r}{did_you_mean(name, KNOWN)}; known: {', '.join(KNOWN)}"
                )
        roles = roles_of_call(given)
        if given.get("nulls", "own_value") not in get_args(NullRule):
            raise UsageError(f"nulls must be one of {', '.join(get_args(NullRule))}")
        require_empty_rule(given.get("empty"))
        return cls(
            roles=roles,
            hierarchies=hierarchy_specs(given.get("hierarchies")),
            guarantees=_guarantees(given.get("guarantees", ()), roles),
            seed=secret_given(given.get("seed")),
            values={
                name: given[name]
                for name in ("record_id", "person_id", "household_id", "nulls", "mark", "empty")
                if name in given
            },
            engine=given.get("engine"),
            progress=given.get("progress", no_progress),
        )

    def policy(self, stages: Sequence[Transformer], columns: Sequence[str]) -> Policy:
        """The policy for a frame with these columns.

        Raises
        ------
        DataError
            A column with a role, or one that an option names, is not in the frame.
        """
        renamed = {"suppression_mark" if name == "mark" else name: value for name, value in self.values.items()}
        return policy_around(
            columns,
            roles=self.roles,
            hierarchies=self.hierarchies,
            transform=tuple(stages),
            guarantees=self.guarantees,
            seed=self.seed,
            **renamed,
        )


def _guarantees(given: Any, roles: Roles) -> tuple[Guarantee, ...]:
    entries = named_entries(given, "guarantees")
    if entries is None or not all(isinstance(entry, Guarantee) for entry in entries):
        raise UsageError("guarantees must be a list of models, as in [KAnonymity(k=5)]")
    for entry in entries:
        if not entry.is_gate():
            raise UsageError(f"guarantees: {entry.name()} has no threshold to work for")
    return tuple(entry.with_roles(roles) for entry in entries)


class Held:
    """A frame that a stage runs over: as a source, and as it was for the way back.

    Parameters
    ----------
    frame : path or frame
        One that can be read once is read here, and once.
    place : str
        Where it was passed.
    named : collection of str
        Columns that stages and options name. Where an index level is among them the index is columns until the frame
        is returned.

    Raises
    ------
    DataError
        Such an index has a level without a name, which would be lost.
    """

    def __init__(self, frame: Any, place: str, named: Collection[str] = ()) -> None:
        self.handed = frame
        levels = index_names(frame)
        self.index = levels if set(levels) & set(named) - set(frame.columns if levels else ()) else []
        if None in self.index:
            raise DataError("an index level is named and another has no name; name all of them, or reset_index()")
        frame = with_index_columns(frame) if self.index else frame
        frame = at_hand(frame, place, index=False)
        self.like = None if isinstance(frame, str | PurePath | Source) else frame
        self.rows: pa.Table | None = None
        if self.like is not None and is_local_frame(frame) and not is_unordered(frame):
            found = arrow_of(frame)
            self.rows = found.read_all() if hasattr(found, "read_all") else found
        data = str(frame) if isinstance(frame, PurePath) else frame
        self.source = data if isinstance(data, Source) else Source(data=data if self.rows is None else self.rows)

    def carry(self, found: pa.Schema, read: Collection[str]) -> None:
        """Carry columns that nothing reads and that have no logical type through unchanged.

        Parameters
        ----------
        found : pyarrow.Schema
            The source's own.
        read : collection of str
            Columns that a stage reads, or a role says are looked at.
        """
        carried = {each.name: CARRIED for each in found if is_carried(each.type) and each.name not in read}
        self.source = replace(self.source, types={**self.source.types, **carried})

    def hold(self, engine: Engine) -> None:
        """Evaluate a lazy frame, so that what is learnt and what is returned come from the same rows."""
        if self.like is not None and not is_evaluated(self.source.data):
            held = engine.frames.hold(self.source.data, lasting=True).rows
            self.source = Source(data=held)
            self.like = held if self.on_cluster else self.like

    @property
    def on_cluster(self) -> bool:
        """Whether it is a frame that is lazy, and is where a cluster put it."""
        return self.like is not None and not is_local_frame(self.like)

    def numbered(self, engine: Engine) -> tuple[Any, Ints]:
        """The rows as a table of the engine, and their positions as ids, which must not key draws."""
        rows = self._logical()
        ids = np.zeros((rows.num_rows, 2), np.int64)
        ids[:, 1] = np.arange(rows.num_rows)
        return engine.given(rows, ids), ids

    def identified(self, engine: Engine, column: str | None, seed: Seed) -> tuple[Any, Ints, str]:
        """The rows as a table of the engine, the ids that any engine gives them, and the fingerprint of the table.

        Raises
        ------
        DataError
            The column is not there, or not unique and complete.
        """
        rows = self._logical()
        words = content_hash(rows, seed)
        ids = record_id(words, ordinals(words), seed) if column is None else _declared_ids(rows, column, seed)
        return engine.given(rows, ids), ids, fingerprint_text(sum_of_hashes(words))

    def _logical(self) -> pa.Table:
        import pyarrow as pa

        rows = self.rows
        return pa.Table.from_batches([typing_of(rows.schema, self.source.types).convert(rows)])  # type: ignore[union-attr]


def _declared_ids(rows: pa.Table, column: str, seed: Seed) -> Ints:
    import pyarrow.compute as pc

    if column not in rows.column_names:
        raise DataError(f"column {column!r} is not in the table{did_you_mean(column, rows.column_names)}")
    key = rows.column(column)
    present = len(key) - key.null_count
    check_record_ids(column, len(key), key.null_count, present - pc.count_distinct(key, mode="only_valid").as_py())
    return declared_id(key, seed)


def laid_back(
    engine: Engine,
    table: Any,
    held: Held,
    ids: Ints | None,
    *,
    keeps_places: bool,
    form: ReturnForm,
) -> Any:
    """The table after a stage as a frame of the kind that went in.

    Rows of a local frame keep their order, without those that were removed; new rows come in keyed order. A frame of
    a cluster stays lazy.

    Parameters
    ----------
    ids : ndarray of int64, optional
        Of the rows of a local frame, in their order, as the table before the stage had them.
    """
    out = as_handed(_laid_back(engine, table, held, ids, keeps_places, form), held.handed, form.labels)
    return under_index(out, held.index)


def _laid_back(engine: Engine, table: Any, held: Held, ids: Ints | None, keeps_places: bool, form: ReturnForm) -> Any:
    if held.rows is None or ids is None:
        if held.on_cluster:
            return engine.collect(table, like=held.like, form=form, order="places" if keeps_places else "any")
        return engine.collect(table, like=made_like(held.like, held.handed), form=form)
    names = list(table.schema.names)
    if not engine.count(table):
        return frame_like(engine.collect(table), held.like, form)
    rows, found = collected_rows(engine, table, names)
    if np.array_equal(found, ids):
        return taken_from(held.like, held.rows, rows, None)
    places = places_of(ids, found)
    if (places < 0).any():
        return frame_like(rows.take(np.lexsort((found[:, 1], found[:, 0]))), held.like, form)
    order = np.full(len(ids), -1, np.int64)
    order[places] = np.arange(len(places))
    kept = np.flatnonzero(order >= 0)
    return taken_from(held.like, held.rows, rows.take(order[kept]), None if len(kept) == len(ids) else kept)


NOT_JUDGED = (
    "transform: other rows than those fitted are recoded by the plan and not judged: none is suppressed, and the "
    "guarantees of fit may not hold of them; judge the whole release by pp.check or a policy"
)


class StageOver:
    """Stages, a frame and the options of the call; the engine is open inside a `with` statement.

    Parameters
    ----------
    stages : sequence of Transformer
        In order.
    frame : path or frame
    asked : Asked
    seed : Seed
    compared : bool
        Whether `lost` is asked for, which compares record by record.
    """

    def __init__(
        self, stages: Sequence[Transformer], frame: Any, asked: Asked, seed: Seed, *, compared: bool = False
    ) -> None:
        self._compared = compared
        self._stages, self._asked, self._seed = tuple(stages), asked, seed
        named = {*self._read, *asked.roles.columns, *asked.hierarchies, *map(str, asked.values.values())}
        self._held = Held(frame, f"{type(self._stages[0]).__name__}.apply", named)
        nothing = Policy.of_fields(name="frame", columns={}, guarantees=())
        data = frame if self._held.like is None else self._held.like
        # Rows that meet guarantees are returned as they were judged: the frame is held for them, not for the run.
        self._opened = OpenedEngine(asked.engine, data, nothing, holds=False)

    def __enter__(self) -> Self:
        self._engine = self._opened.__enter__()
        try:
            if self._asked.guarantees:
                self._held.hold(self._engine)
        except BaseException:  # also an interrupt: without it the engine would stay open
            self._opened.__exit__()
            raise
        return self

    def __exit__(self, *details: object) -> None:
        self._opened.__exit__(*details)

    def staged(self, plan: Plan | None = None, *, lasting: bool = False) -> Staged:
        """The frame after the stages, by a plan of it or of another frame, else by one that they learn.

        Parameters
        ----------
        lasting : bool
            Whether the plan outlives the call, and must record what it was learnt from.
        """
        self._schema = self._engine.frames.schema(self._held.source)
        self._held.carry(self._schema, self._read)
        self._stamps = stamps_of(self._held.source)
        table = scanned(self._engine, self._held.source)
        policy = self._asked.policy(self._stages, table.schema.names)
        self._context = context = RunContext(
            self._engine, policy, self._seed, callers_own(self._asked.progress), releases=False
        )
        require_no_refused_null(self._engine, table, policy)
        self._ids: Ints | None = None
        rows = self._held.rows
        if self._is_bare and rows is None:
            return run_stages(context, table, source="", records=0, plan=plan, frozen=True)
        if self._is_bare and rows is not None and len(rows) and plan is None and not lasting:
            original, self._ids = self._held.numbered(self._engine)
            return run_stages(context, original, source="", records=len(rows))
        if rows is not None:
            original, self._ids, source = self._held.identified(self._engine, policy.record_id, self._seed)
            records = len(rows)
        else:
            original = self._engine.with_record_ids(table, policy.record_id, self._seed)
            records, source = counted_fingerprint(self._engine, original, self._seed)
        if not records and plan is None and policy.empty != "pass":
            raise DataError(
                "the frame has no records: there is nothing to learn from; where a batch may be empty, give "
                'empty="pass" to `apply`'
            )
        other = plan is not None and plan.source != source
        if other and records and policy.guarantees and all(stage.recodes_other_rows for stage in self._stages):
            warnings.warn(NOT_JUDGED, stacklevel=4)
            self._context = context = replace(context, policy=policy.replaced(guarantees=()))
        return run_stages(context, original, source=source, records=records, plan=plan, frozen=other)

    @property
    def _is_bare(self) -> bool:
        """Whether no record is distinguished, none is removed and none moves: a frame stays on its cluster unseen."""
        quiet = not any(stage.needs_ids for stage in self._stages)
        here = self._held.rows is not None
        return (here or (self._held.on_cluster and not self._compared)) and quiet and self._keeps_places

    @property
    def _read(self) -> set[str]:
        """Columns that stages name, or that a role says are looked at."""
        roles = self._asked.roles
        named = {name for stage in self._stages for name in (*stage.named_columns(), *stage.masked_columns())}
        return {*named, *roles.quasi_identifiers, *roles.sensitive}

    @property
    def _keeps_places(self) -> bool:
        return all(stage.keeps_places and not stage.suppresses for stage in self._stages)

    @property
    def _whole(self) -> bool:
        """Whether it is known that no record is left out."""
        return all((stage.keeps_places or stage.permutes) and not stage.suppresses for stage in self._stages)

    def lost(self, staged: Staged) -> LossTable:
        """What each column has lost."""
        return lost_columns(self._context, staged)

    def returned(self, staged: Staged) -> Any:
        """What came out, as a frame of the kind that went in."""
        drawn = any(stage.draws_records(staged.table.schema.names) for stage in self._stages)
        original = None if self._is_bare or drawn else staged.original
        form = return_form(self._schema, staged, self._stages, original=original, whole=self._whole)
        out = laid_back(self._engine, staged.table, self._held, self._ids, keeps_places=self._keeps_places, form=form)
        require_stamps(self._stamps)
        return out
