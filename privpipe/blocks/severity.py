"""What follows where a guarantee does not hold: a refusal, or a warning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol, TypeVar

__all__ = ["Severity", "binding"]

Severity = Literal["fail", "warn"]


class _Binds(Protocol):
    @property
    def binds(self) -> bool: ...


G = TypeVar("G", bound=_Binds)


def binding(guarantees: Iterable[G]) -> tuple[G, ...]:
    """Those that refuse a release, in their order: what a search must meet.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> binding([KAnonymity(k=5), KAnonymity(k=11, severity="warn")])
    (KAnonymity(k=5),)
    """
    return tuple(guarantee for guarantee in guarantees if guarantee.binds)
