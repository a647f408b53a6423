"""What an engine is asked to add up for cells of a table, and how contributors are coded."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from privpipe.errors import DataError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CODE_DIGITS",
    "MOST_SUM",
    "RECORDS",
    "AggregateMeasure",
    "AggregateQuery",
    "Ranks",
    "beyond_words",
    "contributor_code",
    "hmac_pads",
    "missing_persons",
    "other_weights",
]

MOST_SUM = 9.2e18
"""Sums of absolute values of a whole table that leave every sum of a cell within 64 bits."""

RECORDS = "__privpipe_records"
"""Records of a contributor in a cell, as a column of contributions."""
CODE_DIGITS = 15
"""Hexadecimal digits of a contributor's code: below 2^60, so that no engine's integers overflow."""
BLOCK = 64


@dataclass(frozen=True, kw_only=True)
class AggregateMeasure:
    """A column to add up.

    Parameters
    ----------
    column : str
        int64; a null contributes nothing.
    product : str, optional
        int64 column of weight times value, null where `column` is.
    waived : str, optional
        int64 column, 1 for records whose contributor waives protection, else 0; all its records must.
    once : bool
        The same in all records of a contributor, and counted once: a weight.
    squares : bool
        The squares of contributions are added up too.
    """

    column: str
    product: str | None = None
    waived: str | None = None
    once: bool = False
    squares: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads."""
        return tuple(self.roles.values())

    @property
    def roles(self) -> dict[str, str]:
        """Those columns by what they are: `value`, `product`, `waived`."""
        found = {"value": self.column, "product": self.product, "waived": self.waived}
        return {role: name for role, name in found.items() if name is not None}


@dataclass(frozen=True, kw_only=True)
class AggregateQuery:
    """Cells of one combination of keys.

    Parameters
    ----------
    keys : tuple of str
        Cells are their combinations; none: one cell of all records.
    measures : tuple of AggregateMeasure
    person : str, optional
        Column that distinguishes contributors (text, integer, date or truth value, no null); default: each record.
    unique : bool
        Each row is all that its contributor has in its cell.
    gathered : bool
        Rows of a contributor are in one place: the table came from `Engine.contributions`.
    records : str, optional
        int64 column: how many records a row represents; default 1.
    largest : int
        How many of the largest absolute contributions are wanted.
    secret : bytes
        Key of the contributors' codes.
    """

    keys: tuple[str, ...]
    measures: tuple[AggregateMeasure, ...] = ()
    person: str | None = None
    unique: bool = False
    gathered: bool = False
    records: str | None = None
    largest: int = 3
    secret: bytes = field(default=b"privpipe", repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that it reads, each once."""
        own = [name for name in (self.person, self.records) if name is not None]
        return tuple(dict.fromkeys([*self.keys, *own, *(each for one in self.measures for each in one.columns)]))

    @property
    def added(self) -> dict[str, str]:
        """What is known of one contributor in one cell, by name, and how it is added: "once" if all records agree.

        A waiver holds where all records of the contributor have it.
        """
        found = {RECORDS: "sum"}
        for measure in self.measures:
            for column in measure.columns:
                found[column] = "once" if measure.once else ("min" if column == measure.waived else "sum")
        return found

    def require(self, schema: pa.Schema) -> None:
        """Refuse columns that a table lacks, and persons that have no text.

        Raises
        ------
        DataError
        """
        import pyarrow.types as pt

        for name in self.columns:
            if name not in schema.names:
                raise DataError(f"column {name!r} is not in the table{did_you_mean(name, schema.names)}")
        if self.person is not None:
            kind = schema.field(self.person).type
            if not any(test(kind) for test in (pt.is_string, pt.is_int64, pt.is_date32, pt.is_boolean)):
                raise DataError(
                    f"person column {self.person!r} is of type {kind}; give it as integers or texts, so that a "
                    "person is the same on every engine"
                )


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Which contributions of a cell are wanted, in the order of their values; ranks start from 0.

    Parameters
    ----------
    kind : {"first", "last", "commonest", "window"}
        ``commonest``: the least of the values that most contributors have.
    numerator, offset, denominator : int
        A window begins at rank floor((numerator (N - 1) + offset) / denominator) of N contributors with a value.
    width : int
        Ranks of the window; those that do not exist are left out.

    Examples
    --------
    The three in the middle of eleven: the median and its neighbours.

    >>> Ranks(kind="window", numerator=1, offset=-2, denominator=2, width=3).start(11)
    4
    """

    kind: Literal["first", "last", "commonest", "window"]
    numerator: int = 0
    offset: int = 0
    denominator: int = 1
    width: int = 1

    def start(self, number: int) -> int:
        """Rank at which the window of so many contributors begins."""
        return (self.numerator * (number - 1) + self.offset) // self.denominator


def hmac_pads(secret: bytes) -> tuple[bytes, bytes]:
    """The inner and outer key blocks of HMAC-SHA256, for engines that have SHA-256 alone.

    Examples
    --------
    >>> inner, outer = hmac_pads(b"key")
    >>> made = hashlib.sha256(outer + hashlib.sha256(inner + b"text").digest()).hexdigest()
    >>> made == hmac.new(b"key", b"text", hashlib.sha256).hexdigest()
    True
    """
    key = hashlib.sha256(secret).digest() if len(secret) > BLOCK else secret
    block = key.ljust(BLOCK, b"\0")
    return bytes(each ^ 0x36 for each in block), bytes(each ^ 0x5C for each in block)


def contributor_code(secret: bytes, contributor: str) -> int:
    """The keyed code of a contributor, from 1 to 2^60.

    Examples
    --------
    >>> 1 <= contributor_code(b"key", "7") <= 2**60
    True
    """
    digest = hmac.new(secret, contributor.encode(), hashlib.sha256).hexdigest()
    return int(digest[:CODE_DIGITS], 16) + 1


def missing_persons(person: str, count: int) -> DataError:
    """What is wrong with persons that have no value."""
    return DataError(f"person column {person!r} has {count:,} missing values; a record needs a person to be counted by")


def beyond_words(column: str) -> DataError:
    """What is wrong with sums that 64 bits may not hold."""
    return DataError(
        f"column {column!r}: sums exceed integers of 64 bits in the unit of its decimals; declare fewer `decimals`, "
        "or larger units"
    )


def other_weights(column: str, count: int) -> DataError:
    """What is wrong with a property of persons that their records disagree about."""
    return DataError(
        f"column {column!r}: {count:,} times the records of one person in one cell differ in it; give each person one "
        "weight"
    )
