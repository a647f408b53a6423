"""The ledger that a policy declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.release_history import HistoryMeasure
from privpipe.errors import UsageError

__all__ = ["NOT_JUDGED", "ONE", "DeclaredLedger", "history_entries", "kept_apart", "named_ledger"]

NOT_JUDGED = "complementary releases were not judged: no ledger and no earlier release is declared"
ONE = (
    "a policy keeps one ledger, with one key, one normalise, one sensitive column and one set of quasi_identifiers; "
    "the entries name several"
)


@dataclass(frozen=True, kw_only=True)
class DeclaredLedger:
    """Where a policy's ledger lies and how it is kept.

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


def named_ledger(entries: Iterable[Guarantee]) -> DeclaredLedger | None:
    """The ledger of a policy's entries; one, kept alike by every entry that names it.

    Raises
    ------
    UsageError
        Two ledgers, or one that is kept in two ways.
    """
    named = [entry for entry in history_entries(entries) if entry.ledger is not None]
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


def _classes(entry: HistoryMeasure) -> tuple[str | None, tuple[str, ...] | None]:
    return next(iter(entry.sensitive_columns()), None), entry.quasi_identifiers
