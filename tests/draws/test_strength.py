"""Seeds drawn from an alphabet are taken from the length on at which they hold 128 bits, and no sooner."""

from __future__ import annotations

import math
import random
import string

import pytest

from privpipe.draws.stream import most_bits, require_strong
from privpipe.errors import UsageError

ALPHABETS = {
    "two letters": "xy",
    "six digits": "012345",
    "digits": string.digits,
    "hexadecimal": "0123456789abcdef",
    "one case": string.ascii_lowercase,
    "base64": string.ascii_letters + string.digits + "+/",
    "printable": "".join(map(chr, range(ord("!"), ord("~") + 1))),
    "bytes": "".join(map(chr, range(256))),
}


def drawn(alphabet: str, length: int) -> bytes:
    """Drawn at random, but so that its first characters show the alphabet."""
    rng = random.Random(length)
    shown = alphabet if len(alphabet) < 17 else alphabet[-1] + "".join(rng.sample(alphabet[:-1], 15))
    text = shown + "".join(rng.choice(alphabet) for _ in range(length))
    return text[:length].encode("latin-1")


@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
def test_128_bits_are_enough_and_one_character_less_is_not(alphabet: str) -> None:
    least = math.ceil(128 / math.log2(len(alphabet)))
    require_strong(drawn(alphabet, least))
    assert most_bits(drawn(alphabet, least)) == pytest.approx(least * math.log2(len(alphabet)))
    with pytest.raises(UsageError, match="needs 128"):
        require_strong(drawn(alphabet, least - 1))
