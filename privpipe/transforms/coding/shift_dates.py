"""Shifting dates: all dates of a person move by one secret number of days."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.blocks.marks import Columns
from privpipe.draws.stream import key_id, read_key, require_key_place
from privpipe.errors import DataError, UsageError
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.numeric_columns import refuse_nulls, require_numeric, unit_range, whole_numbers

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["ShiftDates"]

DAY = 86_400_000_000


@dataclass(frozen=True, kw_only=True, repr=False)
class ShiftDates(Transformer):
    """Move all dates of one person by one whole number of days, in -days .. days without 0.

    Intervals between the dates of a person, and their order, are exact; weekday and season are not. The number
    follows from the key and the policy's `person_id`, else from the record's id (a record without a person too), so
    all stages and releases with one key move a person alike. A timestamp keeps its time of day (in UTC where it has a
    zone).

    Parameters
    ----------
    columns : tuple of str
        Dates or timestamps.
    days : int
        At least 1.
    key : mapping
        ``{from_env: NAME}`` or ``{from_file: PATH}``; at least 32 bytes.
    nulls : {"keep", "refuse"}

    Examples
    --------
    >>> ShiftDates(columns=["admitted"], days=30, key={"from_env": "DATES_KEY"}).days
    30
    """

    taxon = "perturbative"
    preserves = "intervals between, and order of, the dates of a person; the time of day"
    reveals = "each date to within 2 * days; anyone who knows one date of a person knows all of them, in every release"
    source = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012; HMAC, RFC 2104"

    columns: Annotated[tuple[str, ...], Columns(), Doc("dates and timestamps, moved together")]
    days: Annotated[int, Ge(1), Le(36525), Doc("most days that a person's dates move, either way")]
    key: Annotated[
        dict[str, str], Doc("where the key is kept: {from_env: NAME} or {from_file: PATH}; at least 32 bytes")
    ] = field(repr=False)
    nulls: Annotated[Literal["keep", "refuse"], Doc("keep leaves missing values; refuse makes them an error")] = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", checked_columns("ShiftDates", self.columns))
        require_key_place("ShiftDates", self.key)

    def key_place(self) -> Mapping[str, str] | None:
        return self.key

    def request(self, context: StageContext) -> FactsRequest:
        require_numeric(self.columns, context)
        for column in self.columns:
            kind = column_type_of(context.schema.field(column).type)
            if kind not in ("date", "timestamp"):
                raise DataError(f"{context.place}: column {column!r} is {kind}, not a date; declare `type: date`")
        return FactsRequest(nulls=self.columns)

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        if self.nulls == "refuse":
            for column, count in facts.nulls.items():
                refuse_nulls(column, count, context)
        detail: dict[str, Any] = {
            "key_id": context.keyed(key_id(read_key("ShiftDates", self.key))),
            "person": _person(context),
            "nulls": dict(facts.nulls),
            "warnings": ["weekdays and seasons are not kept"],
        }
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        # The checks are made again; the key stays the plan's, which `run` compares with.
        return replace(plan, detail={**self.learn(engine, table, context).detail, "key_id": plan.detail["key_id"]})

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        key = read_key("ShiftDates", self.key)
        if plan.detail["key_id"] != context.keyed(key_id(key)):
            raise UsageError(f"{context.place}: the key is not the one the plan was made with")
        if plan.detail["person"] != _person(context):
            raise UsageError(f"{context.place}: the plan was made for another person_id")
        derived = hmac.new(key, b"privpipe/shift_dates/1", hashlib.sha256).digest()
        return engine.map_rows(
            table, Shifted(self.columns, self.days, _person(context), derived, context.place), table.schema
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(columns=("born",), days=30, key={"from_env": "PRIVPIPE_TEST_KEY"})]


def _person(context: StageContext) -> str | None:
    return context.person if context.person in context.schema.names else None


@dataclass(frozen=True)
class Shifted:
    """The stage with its key: travels to workers inside a function, never as a literal of a query."""

    columns: tuple[str, ...]
    days: int
    person: str | None
    key: bytes = field(repr=False)
    place: str
    """The place of the stage, for errors: a cluster applies a stage when a later one reads its rows."""

    def __call__(self, rows: RowBlock) -> RowBlock:
        from privpipe.kernels.columns.cell_words import scaled_numbers

        days = self._days(rows)
        for column in self.columns:
            array = rows.column(column)
            values, gaps, _ = scaled_numbers(array, column)
            missing = np.zeros(len(values), np.bool_) if gaps is None else gaps
            unit = DAY if column_type_of(array.type) == "timestamp" else 1
            moved = np.where(missing, 0, values + days * unit)
            low, high = unit_range(array.type)
            beyond = int(((moved < low) | (moved > high)).sum())
            if beyond:
                raise DataError(
                    f"{self.place}: shifting carries {beyond:,} cells of column {column!r} beyond the years 1 to 9999; "
                    "correct them, or shift by fewer days"
                )
            rows = rows.replace(column, whole_numbers(moved, missing, array.type))
        return rows

    def _days(self, rows: RowBlock) -> Ints:
        from privpipe.draws import Seed, Stream
        from privpipe.hierarchies import canonical_text
        from privpipe.kernels.ids.record_ids import declared_id

        ids = rows.record_ids
        if self.person is not None:
            column = rows.column(self.person)
            texts = canonical_text(column, column_type_of(column.type))
            known = texts.is_valid().to_numpy(zero_copy_only=False)
            ids = np.where(known[:, None], declared_id(texts, Seed(self.key)), ids)
        drawn = Stream(self.key[:16]).integers(ids, 2 * self.days)
        return np.where(drawn < self.days, drawn - self.days, drawn - self.days + 1)
