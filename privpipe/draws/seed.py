"""The secret from which every draw of a run follows."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, field

from privpipe.errors import UsageError

__all__ = ["Seed"]


@dataclass(frozen=True, repr=False)
class Seed:
    """A secret seed; neither its repr nor an error shows it.

    Parameters
    ----------
    secret : bytes
        At least one byte. Use `Seed.of` for text and integers.

    Examples
    --------
    >>> Seed.of(42) == Seed.of("42") == Seed.of(b"42")
    True
    >>> Seed.of("spring release")
    Seed(secret)
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or not self.secret:
            raise UsageError("a seed must hold at least one byte; give a text or an integer")

    def __repr__(self) -> str:
        return "Seed(secret)"

    @classmethod
    def of(cls, value: str | int | bytes) -> Seed:
        """The seed of a text (its UTF-8 bytes), an integer (in decimal) or raw bytes.

        Raises
        ------
        UsageError
            Of another type, or empty.
        """
        if isinstance(value, bool) or not isinstance(value, str | int | bytes):
            raise UsageError(f"a seed is a text or an integer, not {type(value).__name__}")
        return cls(value if isinstance(value, bytes) else str(value).encode())

    @classmethod
    def from_os(cls) -> Seed:
        """A fresh seed of 256 bits from the operating system."""
        return cls(os.urandom(32))

    def commitment(self) -> str:
        """A hash to publish: it shows later which seed was used, and tells nothing of a long one.

        A guessable seed (a year, a small integer) can be found by trying; `from_os` cannot.

        Examples
        --------
        >>> Seed.of(42).commitment()[:18]
        'hmac-sha256:cf1116'
        """
        return "hmac-sha256:" + hmac.new(self.secret, b"privpipe/commitment/1", hashlib.sha256).hexdigest()

    def key(self, label: str) -> bytes:
        """Sixteen bytes for one purpose: the start of HMAC-SHA256(seed, "privpipe/draws/1/" + label)."""
        return hmac.new(self.secret, f"privpipe/draws/1/{label}".encode(), hashlib.sha256).digest()[:16]
