"""One draw for all rows of a household or person, instead of one per record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from privpipe.blocks import ClassBlock, ClassQuery, Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed
from privpipe.errors import DataError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SameWithin", "Together", "refuse_apart", "together_of", "varying"]


SameWithin = Literal["household_id", "person_id"]
OWN_IDS = ("__privpipe_own_id_hi", "__privpipe_own_id_lo")
UNITS = {"household_id": "households", "person_id": "persons"}


class Keyed(Protocol):
    """The part of a stage's context that shows who lives together."""

    @property
    def household(self) -> str | None:
        """Column of households."""

    @property
    def person(self) -> str | None:
        """Column of persons."""

    @property
    def schema(self) -> pa.Schema:
        """Columns that enter the stage."""

    @property
    def place(self) -> str:
        """The position of the stage in the policy."""


@dataclass(frozen=True)
class Together:
    """Rows with the id of their household (or person) instead of their own, which they get back.

    A draw is keyed by an id, so all rows of a household draw alike. A row without a household keeps its own id.

    Parameters
    ----------
    column : str
        The column that distinguishes households.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = RowBlock(pa.record_batch({"home": ["a", "b", "a", None]}), np.arange(8).reshape(4, 2))
    >>> ids = Together("home").ids(rows)
    >>> bool((ids[0] == ids[2]).all()), bool((ids[0] == ids[1]).all()), ids[3].tolist()
    (True, False, [6, 7])
    """

    column: str

    def ids(self, rows: RowBlock) -> Ints:
        """The id that keys the draws of each row, shape (n, 2)."""
        from privpipe.hierarchies import canonical_text
        from privpipe.kernels.ids.record_ids import declared_id
        from privpipe.roles import column_type_of

        column = rows.column(self.column)
        texts = canonical_text(column, column_type_of(column.type))
        known = texts.is_valid().to_numpy(zero_copy_only=False)
        # No secret: draws are keyed by the seed, whatever ids they are of.
        return np.where(known[:, None], declared_id(texts, Seed.public("privpipe/same within")), rows.record_ids)

    def lent(self, rows: RowBlock) -> RowBlock:
        """The rows under the ids that key their draws, with their original ids."""
        import pyarrow as pa

        batch = rows.batch
        for at, name in enumerate(OWN_IDS):
            batch = batch.append_column(name, pa.array(rows.record_ids[:, at], pa.int64()))
        return RowBlock(batch, self.ids(rows))

    @staticmethod
    def returned(rows: RowBlock) -> RowBlock:
        """The rows, as many as are left, under their own ids again."""
        own = [rows.column(name).to_numpy(zero_copy_only=False) for name in OWN_IDS]
        return RowBlock(rows.drop(OWN_IDS).batch, np.column_stack(own).astype(np.int64, copy=False))


@dataclass(frozen=True)
class _Varying:
    """In how many classes each column has several values."""

    columns: tuple[str, ...]

    def measure(self, block: ClassBlock, facts: Facts) -> dict[str, int]:
        return {name: int((np.diff(block.cells[name].offsets) > 1).sum()) for name in self.columns}

    def merge(self, left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
        return {name: left[name] + right[name] for name in self.columns}


def together_of(same_within: SameWithin | None, context: Keyed) -> Together | None:
    """Who draws together, or None where every record draws for itself.

    Raises
    ------
    UsageError
        The policy names no column that distinguishes them.
    DataError
        The column is gone.
    """
    if same_within is None:
        return None
    column = context.household if same_within == "household_id" else context.person
    if column is None:
        raise UsageError(f"{context.place}: same_within needs `{same_within}`, the column that distinguishes them")
    if column not in context.schema.names:
        raise DataError(
            f"{context.place}: {same_within} column {column!r} is not in the table that enters the stage, so "
            "no records can draw together"
        )
    return Together(column)


def varying(
    engine: Primitives, table: Any, same_within: SameWithin | None, columns: Sequence[str], context: Keyed
) -> dict[str, int]:
    """In how many households each of these columns has several values; a missing value is one."""
    together = together_of(same_within, context)
    if together is None:
        return {}
    names = tuple(columns)
    query = ClassQuery(keys=(together.column,), columns=names)
    return engine.reduce_classes(table, query, _Varying(names), Facts()) or dict.fromkeys(names, 0)


def refuse_apart(owner: str, same_within: SameWithin | None, apart: dict[str, object]) -> None:
    """Refuse parameters under which members would differ although they draw alike.

    Parameters
    ----------
    apart : mapping
        Text for the error, and whether it is so.

    Raises
    ------
    UsageError
    """
    for text, so in apart.items():
        if same_within is not None and so:
            raise UsageError(
                f"{owner}: same_within cannot be had with {text}: {UNITS[same_within]} of one value would get several"
            )
