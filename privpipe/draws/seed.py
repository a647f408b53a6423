"""Secrets from which draws follow: the seed of a run, keys that outlive one, and upper bounds on their strength."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from privpipe.border import bordered
from privpipe.errors import UsageError, did_you_mean

__all__ = [
    "LEAST_BITS",
    "LEAST_KEY_BYTES",
    "MOST_INTEGER_BITS",
    "Seed",
    "key_id",
    "most_bits",
    "read_key",
    "require_key_place",
    "require_strong",
]


LEAST_BITS = 128
LEAST_DISTINCT = 7  # of 32 random hex digits: one draw in 10^9 has fewer
WORD_BITS = math.log2(7776)  # of a word drawn from a list of 6^5, as passphrases are
ALPHABETS = (
    (re.compile(r"[0-9]+"), 10),
    (re.compile(r"[0-9a-f]+|[0-9A-F]+"), 16),
    (re.compile(r"[a-z]+|[A-Z]+"), 26),
    (re.compile(r"[A-Za-z0-9+/_-]+=*"), 64),
    (re.compile(r"[!-~]+"), 94),
)


def most_bits(secret: bytes) -> float:
    """What these bytes can hold if they were drawn at random in the way they look.

    Text counts by the smallest of these alphabets that has all its characters: decimal and hexadecimal digits,
    letters of one case, base64, printable ASCII. Words with spaces between count as drawn from a list of 7,776; all
    else is bytes. A repetition counts once. This is a bound from above: a sentence from a book is weaker than it
    looks, and only a drawn seed is as strong as it is long.

    Examples
    --------
    >>> [round(most_bits(text.encode())) for text in ("20261122", "abc" * 20, "correct horse battery staple")]
    [16, 5, 52]
    """
    try:
        text = secret.decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not all(character.isprintable() or character.isspace() for character in text):
        return 8.0 * _period(secret) if len(set(secret)) >= LEAST_DISTINCT else 0.0
    words = text.split()
    if len(words) > 1:
        return len(set(words)) * WORD_BITS
    if len(set(text)) < LEAST_DISTINCT:
        return math.log2(max(len(set(text)), 2)) * _period(text)
    size = next(size for pattern, size in ALPHABETS if pattern.fullmatch(text))
    return math.log2(size) * _period(text.rstrip("="))


def require_strong(secret: bytes, owner: str = "the seed") -> None:
    """Refuse what cannot hold 128 bits.

    Raises
    ------
    UsageError
        It names the remedy, never the secret.
    """
    bits = most_bits(secret)
    if bits < LEAST_BITS:
        raise UsageError(
            f"{owner} holds {bits:.0f} bits at the most and needs {LEAST_BITS}: 32 hex digits, 22 base64 characters "
            "or 16 random bytes at the least; `privpipe seed` makes one (for demonstrations and tests: "
            "`seed: {insecure: ...}`)"
        )


def _period(text: str | bytes) -> int:
    """Length of the shortest piece that the whole repeats."""
    doubled: str | bytes = text + text  # type: ignore[operator]
    return doubled.find(text, 1)  # type: ignore[arg-type]


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
            Of another type, empty, or of fewer than 128 bits (see `privpipe.draws.seed`).
        """

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
        """A constant that everyone knows: hashes under it are as public as what was hashed."""
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
            The id of the run; of a plan made outside a run, a separate salt that is kept next to the commitment.

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


LEAST_KEY_BYTES = 32
PLACES = ("from_env", "from_file")


def require_key_place(owner: str, place: object) -> None:
    """Refuse what is not ``{from_env: NAME}`` or ``{from_file: PATH}``; a key in the policy text is not secret.

    Raises
    ------
    UsageError
    """
    if not isinstance(place, Mapping) or len(place) != 1:
        raise UsageError(f"{owner}: key must be {{from_env: NAME}} or {{from_file: PATH}}, never the key itself")
    (where,) = place
    if where not in PLACES:
        raise UsageError(f"{owner}: key has no place {where!r}{did_you_mean(str(where), PLACES)}")


def read_key(owner: str, place: Mapping[str, str]) -> bytes:
    """The key's bytes: UTF-8 of the variable, or the file's content without its line end.

    Raises
    ------
    UsageError
        Not set, unreadable, or shorter than 32 bytes (the message gives the length, never the key).
    """
    ((where, name),) = place.items()
    if where == "from_env":
        key = os.environ.get(name, "").encode()
        if not key:
            raise UsageError(f"{owner}: the environment variable {name} is not set: the key is taken from it")
    else:
        try:
            key = Path(name).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise UsageError(f"{owner}: cannot read the key file {name!r}: {error.strerror}") from None
    if len(key) < LEAST_KEY_BYTES:
        raise UsageError(f"{owner}: the key of {name} has {len(key)} bytes; it needs at least {LEAST_KEY_BYTES}")
    return key


def key_id(key: bytes) -> str:
    """What plans and logs may say of a key: 8 hex digits of HMAC(key, "id").

    Examples
    --------
    >>> len(key_id(b"x" * 32))
    8
    """
    return hmac.new(key, b"id", hashlib.sha256).hexdigest()[:8]
