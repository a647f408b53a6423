"""Upper bounds on the strength of a seed: one that is too short, or plainly a pattern, is refused."""

from __future__ import annotations

import math
import re

from privpipe.errors import UsageError

__all__ = ["LEAST_BITS", "most_bits", "require_strong"]

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
