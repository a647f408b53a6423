"""Stages over one frame, on the runner that runs them in a policy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from privpipe.border import callers_own
from privpipe.draws import Seed
from privpipe.engines.base.fingerprint import counted_fingerprint
from privpipe.engines.base.stamps import require_stamps, stamps_of
from privpipe.errors import DataError
from privpipe.judging.column_loss import LossTable
from privpipe.policy import Policy
from privpipe.running.attaching import require_no_refused_null
from privpipe.running.kept_types import return_form
from privpipe.running.losing import lost_columns
from privpipe.running.opened import OpenedEngine
from privpipe.running.plan import Plan
from privpipe.running.reading import scanned
from privpipe.running.run_context import RunContext
from privpipe.running.staging import Staged, run_stages
from privpipe.stages.asked import Asked
from privpipe.stages.frames import Held, laid_back
from privpipe.transforms.base import Transformer

__all__ = ["StageOver"]

NOT_JUDGED = (
    "transform: other rows than those fitted are recoded by the plan and not judged: none is suppressed, and the "
    "guarantees of fit may not hold of them; judge the whole release by pp.check or a policy"
)


class StageOver:
    """Stages, a frame and what was asked; the engine is open inside a `with` statement.

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
        # Rows that meet guarantees are given back as they were judged: the frame is held for them, not for the run.
        self._opened = OpenedEngine(asked.engine, data, nothing, holds=False)

    def __enter__(self) -> Self:
        self._engine = self._opened.__enter__()
        try:
            if self._asked.guarantees:
                self._held.hold(self._engine)
        except BaseException:
            self._opened.__exit__()
            raise
        return self

    def __exit__(self, *details: object) -> None:
        self._opened.__exit__(*details)

    def staged(self, plan: Plan | None = None) -> Staged:
        """The frame after the stages, by a plan of it or of another frame, else by one that they learn."""
        self._schema = self._engine.source_schema(self._held.source)
        self._held.carry(self._schema, self._read)
        self._stamps = stamps_of(self._held.source)
        table = scanned(self._engine, self._held.source)
        policy = self._asked.policy(self._stages, table.schema.names)
        self._context = context = RunContext(
            self._engine, policy, self._seed, callers_own(self._asked.progress), releases=False
        )
        require_no_refused_null(self._engine, table, policy)
        if self._is_bare:
            return run_stages(context, table, source="", records=0, plan=plan, frozen=True)
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
        """Whether the frame stays on its cluster unlooked at: no record is told apart, none goes and none moves."""
        quiet = not any(stage.needs_ids for stage in self._stages)
        return self._held.on_cluster and quiet and self._keeps_places and not self._compared

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
        record = (self._asked.values.get("record_id"), self._seed)
        drawn = any(stage.draws_records(staged.table.schema.names) for stage in self._stages)
        original = None if self._is_bare or drawn else staged.original
        form = return_form(self._schema, staged, self._stages, original=original, whole=self._whole)
        out = laid_back(self._engine, staged.table, self._held, record, keeps_places=self._keeps_places, form=form)
        require_stamps(self._stamps)
        return out
