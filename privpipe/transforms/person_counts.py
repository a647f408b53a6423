"""How many different persons some records are of, counted up to a number that is enough.

A threshold that protects means persons where a policy distinguishes them: eight records of one person are one. The
sets are of keyed hashes, cut off at the number that is enough, so that they merge in any order and stay small.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.transforms.base import StageContext

__all__ = ["PersonCounts", "Persons", "person_codes", "units_of"]

Ints = NDArray[np.int64]
Persons = tuple[Ints, ...]
"""Of each unit (persons, households) the hashes of those that occur, ascending; no more than are enough."""


def units_of(context: StageContext) -> tuple[str, ...]:
    """Columns whose different values a threshold counts: persons, and households where a guarantee counts these.

    None where the policy distinguishes neither: records are counted.
    """
    household = context.household if context.counts_households else None
    return tuple(name for name in (context.person, household) if name is not None)


def person_codes(values: pa.RecordBatch | pa.Table, column: str, key: bytes) -> Ints:
    """A keyed hash of the person of each record; two persons of one hash count as one, which is on the safe side.

    Raises
    ------
    DataError
        Records without a person (their number).

    Examples
    --------
    >>> import pyarrow as pa
    >>> codes = person_codes(pa.record_batch({"who": ["a", "b", "a"]}), "who", b"")
    >>> bool(codes[0] == codes[2] != codes[1])
    True
    """
    from privpipe.draws import Seed
    from privpipe.kernels.ids.record_ids import content_hash

    missing = values.column(column).null_count
    if missing:
        raise DataError(
            f"person column {column!r} has {missing:,} missing values; a record needs a person to be counted by"
        )
    seed = Seed(key) if key else Seed.public("privpipe/persons")
    return np.asarray(content_hash(values.select([column]), seed)[:, 0])


@dataclass(frozen=True)
class PersonCounts:
    """Counts the persons of records up to `enough`.

    Parameters
    ----------
    columns : tuple of str
        Those of `units_of`.
    enough : int
        At least 1; from here on it does not matter how many there are.
    key : bytes
        What keys the hashes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> counts = PersonCounts(("who",), 5)
    >>> codes = counts.codes(pa.record_batch({"who": ["a", "a", "b"]}))
    >>> first, second = (counts.of(codes, np.array(places)) for places in ([0, 1], [2]))
    >>> counts.number(first), counts.number(counts.merged(first, second))
    (1, 2)
    """

    columns: tuple[str, ...]
    enough: int
    key: bytes = field(default=b"", repr=False)

    def codes(self, rows: RowBlock | pa.RecordBatch | pa.Table) -> Persons:
        """The person of each record."""
        values: Any = rows.batch if isinstance(rows, RowBlock) else rows
        return tuple(person_codes(values, name, self.key) for name in self.columns)

    def of(self, codes: Persons, places: Ints | NDArray[np.bool_]) -> Persons:
        """The persons of the records at these places."""
        return tuple(np.unique(each[places])[: self.enough] for each in codes)

    def merged(self, left: Persons, right: Persons) -> Persons:
        """The persons of both."""
        return tuple(np.union1d(a, b)[: self.enough] for a, b in zip(left, right, strict=True))

    @staticmethod
    def number(persons: Persons) -> int:
        """How many there are, no more than are enough: of persons and households, the fewer."""
        return min((len(each) for each in persons), default=0)
