"""The ledger that a policy's entries name, and how it is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.release_history import HistoryMeasure
from privpipe.errors import UsageError

if TYPE_CHECKING:
    from privpipe.policy.tables import TableRelease
    from privpipe.tables.entries import UnionGuarantee

__all__ = ["NOT_JUDGED", "ONE", "DeclaredLedger", "history_entries", "kept_apart", "named_ledger"]


NOT_JUDGED = "complementary releases were not judged: no ledger and no earlier release is declared"


ONE = (
    "a policy keeps one ledger, with one key, one normalise, one sensitive column and one set of quasi_identifiers; "
    "the entries name several"
)


ONE_FOR_TABLES = "a policy keeps one ledger, with one key and one normalise; the guarantees on tables name several"


@dataclass(frozen=True, kw_only=True)
class DeclaredLedger:
    """Where a policy's ledger is and how it is kept.

    Parameters
    ----------
    path : str
    key : mapping, optional
        Where the key of persons is kept.
    normalise : tuple of str
        What is done to the keys of persons before they are compared.
    sensitive : str, optional
        Column whose values are remembered.
    quasi_identifiers : tuple of str, optional
        Columns that form the classes; None: all of the policy.
    """

    path: str
    key: Mapping[str, str] | None = None
    normalise: tuple[str, ...] = ()
    sensitive: str | None = None
    quasi_identifiers: tuple[str, ...] | None = None


def history_entries(entries: Iterable[Guarantee]) -> tuple[HistoryMeasure, ...]:
    """The entries over several releases among those of a policy."""
    return tuple(entry for entry in entries if isinstance(entry, HistoryMeasure))


def kept_apart(one: HistoryMeasure, other: HistoryMeasure) -> bool:
    """Whether two entries name two ledgers, or one that is kept in two ways."""
    if (one.ledger, one.key, set(one.normalise)) != (other.ledger, other.key, set(other.normalise)):
        return True
    return one.forms_classes and other.forms_classes and _classes(one) != _classes(other)


def named_ledger(entries: Iterable[Guarantee], tables: TableRelease | None = None) -> DeclaredLedger | None:
    """The ledger of a policy's entries; one, with the same settings in every entry that names it.

    Parameters
    ----------
    entries : iterable of Guarantee
    tables : TableRelease, optional
        What the policy states about tables, whose guarantees may name one.

    Raises
    ------
    UsageError
        Two ledgers, or one that is kept in two ways.
    """
    named = [entry for entry in history_entries(entries) if entry.ledger is not None]
    if tables is not None:
        return _ledger_of_tables(tables)
    if not named:
        return None
    if any(kept_apart(one, other) for one in named for other in named):
        raise UsageError(ONE)
    first = next((entry for entry in named if entry.forms_classes), named[0])
    sensitive, keys = _classes(first) if first.forms_classes else (None, None)
    return DeclaredLedger(
        path=str(first.ledger),
        key=first.key,
        normalise=first.normalise,
        sensitive=sensitive,
        quasi_identifiers=keys,
    )


def _ledger_of_tables(tables: TableRelease) -> DeclaredLedger | None:
    from privpipe.tables.entries import UnionGuarantee

    named = [each for each in tables.guarantees if isinstance(each, UnionGuarantee) and each.ledger is not None]
    if not named:
        return None
    first = named[0]
    if any(_kept(each) != _kept(first) for each in named):
        raise UsageError(ONE_FOR_TABLES)
    return DeclaredLedger(path=str(first.ledger), key=first.key, normalise=first.normalise)


def _kept(entry: UnionGuarantee) -> tuple[Any, ...]:
    return entry.ledger, entry.key, frozenset(entry.normalise)


def _classes(entry: HistoryMeasure) -> tuple[str | None, tuple[str, ...] | None]:
    return next(iter(entry.sensitive_columns()), None), entry.quasi_identifiers
