"""The secret from which every draw of a run follows."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import dataclass, field

from privpipe.border import bordered
from privpipe.errors import UsageError

__all__ = ["MOST_INTEGER_BITS", "Seed"]

MOST_INTEGER_BITS = 2048
"""Of a seed that is an integer: its text is its decimal digits, which Python writes of so many in any setting."""


@bordered
@dataclass(frozen=True, repr=False)
class Seed:
    """A secret seed; neither its repr nor an error shows it.

    Parameters
    ----------
    secret : bytes
        At least one byte. Use `Seed.of`, which refuses what is easily guessed, for text and integers.

    Examples
    --------
    >>> Seed.insecure(42) == Seed.insecure("42") == Seed.insecure(b"42")
    True
    >>> Seed.insecure("spring release")
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
            Of another type, empty, or of fewer than 128 bits (see `privpipe.draws.strength`).
        """
        from privpipe.draws.strength import require_strong

        found = cls.insecure(value)
        require_strong(found.secret)
        return found

    @classmethod
    def insecure(cls, value: str | int | bytes) -> Seed:
        """The seed of any text, integer or bytes, however easily it is guessed: for demonstrations and tests.

        Raises
        ------
        UsageError
            Of another type, or empty.
        """
        if isinstance(value, bool) or not isinstance(value, str | int | bytes):
            raise UsageError(f"a seed is a text or an integer, not {type(value).__name__}")
        if isinstance(value, int) and value.bit_length() > MOST_INTEGER_BITS:
            raise UsageError(
                f"a seed that is an integer has at most {MOST_INTEGER_BITS:,} bits; give it as text or bytes"
            )
        return cls(value if isinstance(value, bytes) else str(value).encode())

    @classmethod
    def public(cls, label: str) -> Seed:
        """A constant that everybody knows: hashes under it are as public as what they are of."""
        return cls(label.encode())

    @classmethod
    def from_os(cls) -> Seed:
        """A fresh seed of 256 bits from the operating system."""
        return cls(os.urandom(32))

    def commitment(self, salt: str) -> str:
        """A hash that shows later which seed was used, to who has the seed; two with different salts link nothing.

        Parameters
        ----------
        salt : str
            The id of the run; of a plan made outside a run, a salt of its own that stands beside the commitment.

        Examples
        --------
        >>> Seed.insecure(42).commitment("run")[:18]
        'hmac-sha256:eff117'
        """
        return "hmac-sha256:" + self.bound("privpipe/commitment/2", salt).hex()

    def bound(self, purpose: str, *parts: str | int) -> bytes:
        """Thirty-two bytes bound to a purpose and to all of these parts: HMAC-SHA256 of their JSON list.

        Examples
        --------
        >>> seed = Seed.insecure(42)
        >>> seed.bound("a", "b", "cd") == seed.bound("a", "bc", "d")
        False
        """
        message = json.dumps([purpose, *parts], separators=(",", ":"))
        return hmac.new(self.secret, message.encode(), hashlib.sha256).digest()

    def key(self, label: str) -> bytes:
        """Sixteen bytes for one purpose: the start of HMAC-SHA256(seed, "privpipe/draws/1/" + label)."""
        return hmac.new(self.secret, f"privpipe/draws/1/{label}".encode(), hashlib.sha256).digest()[:16]
