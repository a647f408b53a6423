"""What tables under differential privacy have cost each source, kept in a ledger's folder and written before noise."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from privpipe.errors import DataError, Refused, SinkError, UsageError
from privpipe.private_files import flush_new, locked, private_folder
from privpipe.tables.private_noise import Paid, Spend

__all__ = ["FOLDER", "SpendBook"]

FOLDER = "spends"
"""Within the folder of a ledger."""
HEAD, LOCK = "head.json", "lock"
START = "0" * 64
DAMAGED = (
    "private_table: the spends kept in the ledger are damaged ({why}); restore them, for what was spent is not known, "
    "and nothing is drawn"
)


@dataclass(frozen=True)
class SpendBook:
    """Spends of all sources, one file each, chained by their hashes.

    Amounts of one source and unit add up exactly. A file counts from the moment that it is written, whatever becomes of
    the run: what a run that was killed may have shown is spent.

    Parameters
    ----------
    ledger : Path
        A local folder; spends are kept in `FOLDER` of it.

    Examples
    --------
    >>> import tempfile
    >>> book = SpendBook(Path(tempfile.mkdtemp()))
    >>> paid = book.spend("visits", Spend("epsilon", Fraction(3, 4)), Fraction(1))
    >>> paid.left, book.spent("visits", "epsilon"), book.spent("others", "epsilon")
    (Fraction(3, 4), Fraction(3, 4), Fraction(0, 1))
    >>> book.spend("visits", Spend("epsilon", Fraction(1, 2)), Fraction(1))
    Traceback (most recent call last):
    ...
    privpipe.errors.Refused: private_table: it costs epsilon 0.5, and 0.25 of 1 is left. Nothing was published
    """

    ledger: Path

    @property
    def folder(self) -> Path:
        """Where the spends are."""
        return self.ledger / FOLDER

    def spent(self, source: str, unit: str) -> Fraction:
        """What a source has spent.

        Raises
        ------
        UsageError
            Of another unit: the two do not add up.
        DataError
            A spend is missing, or was changed.
        """
        return _added(self._read(), source, unit)

    def spend(self, source: str, spend: Spend, limit: Fraction) -> Paid:
        """Write a spend, and give what pays for its noise.

        Raises
        ------
        Refused
            Less than it is left of the limit; nothing was written.
        UsageError, DataError
            As `spent`.
        SinkError
            It cannot be written, or another run is writing.
        """
        if not spend.amount > 0:
            raise UsageError("private_table: spend more than 0")
        private_folder(self.folder)
        with os.fdopen(locked(self.folder / LOCK, "the book of spends of private_table")):
            kept = self._read()
            left = limit - _added(kept, source, spend.unit)
            if spend.amount > left:
                cost, some, all_of_it = (float(each) for each in (spend.amount, max(left, Fraction(0)), limit))
                raise Refused(
                    f"private_table: it costs {spend.unit} {cost:g}, and {some:g} of {all_of_it:g} is left. "
                    "Nothing was published"
                )
            number = len(kept) + 1
            data = _document(
                number=number,
                previous=_digest(kept[-1][1]) if kept else START,
                source=source,
                unit=spend.unit,
                amount=str(spend.amount),
                limit=str(limit),
                time=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            try:
                flush_new(self._file(number), data)
                flush_new(self.folder / HEAD, _document(number=number, tip=_digest(data)))
            except OSError as error:
                raise SinkError(f"private_table: the spend cannot be written: {error.strerror}") from None
        return Paid(spend.unit, spend.amount)

    def _file(self, number: int) -> Path:
        return self.folder / f"spend-{number:08}.json"

    def _read(self) -> list[tuple[Mapping[str, Any], bytes]]:
        """Every spend, proved link by link."""
        try:
            names = {place.name for place in self.folder.iterdir()}
            kept: list[tuple[Mapping[str, Any], bytes]] = []
            previous = START
            while (path := self._file(len(kept) + 1)).name in names:
                data = path.read_bytes()
                document = json.loads(data)
                if document["number"] != len(kept) + 1 or document["previous"] != previous:
                    raise DataError(DAMAGED.format(why="one does not follow on another"))
                if not Fraction(document["amount"]) > 0:
                    raise DataError(DAMAGED.format(why="one is of nothing"))
                previous = _digest(data)
                kept.append((document, data))
            spends = sum(name.startswith("spend-") and name.endswith(".json") for name in names)
            head = json.loads((self.folder / HEAD).read_bytes()) if HEAD in names else {"number": 0, "tip": START}
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SinkError(f"private_table: the spends cannot be read: {error.strerror}") from None
        except (ValueError, LookupError, TypeError, RecursionError, ArithmeticError):
            raise DataError(DAMAGED.format(why="one is no spend")) from None
        # A run that was killed between its spend and the head has spent.
        tips: dict[Any, Any] = {len(kept): previous, len(kept) - 1: kept[-1][0]["previous"] if kept else START}
        if spends != len(kept) or tips.get(head.get("number")) != head.get("tip"):
            raise DataError(DAMAGED.format(why="some are missing"))
        return kept


def _added(kept: list[tuple[Mapping[str, Any], bytes]], source: str, unit: str) -> Fraction:
    own = [each for each, _ in kept if each["source"] == source]
    if any(each["unit"] != unit for each in own):
        raise UsageError(
            f"private_table: the ledger counts what this source spent in another unit than {unit}, and the two do not "
            "add up; keep one mechanism for a source"
        )
    return sum((Fraction(each["amount"]) for each in own), start=Fraction(0))


def _document(**fields: Any) -> bytes:
    return (json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n").encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
