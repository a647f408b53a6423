"""Keyed hashes of a ledger: they chain its entries and identify the secret it was begun with."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from privpipe.draws import Seed
from privpipe.draws.secret import read_key

__all__ = ["Seal"]

CHAIN = b"privpipe/ledger/chain/2"
COMMITMENT = b"privpipe/commitment/1"


@dataclass(frozen=True, repr=False)
class Seal:
    """Keyed hashes under a ledger's secret.

    The secret is the declared key followed by the ledger's salt; without a key it is the salt alone, which lies beside
    the entries: the chain then proves that nothing was damaged or lost by accident, and nothing against somebody
    who can write the folder, for they can make it anew. The records of the sinks still show that it is another.

    Parameters
    ----------
    secret : bytes

    Examples
    --------
    >>> seal = Seal(b"a secret")
    >>> seal.link(b"one") == seal.link(b"one"), seal.link(b"one") == seal.link(b"two")
    (True, False)
    >>> seal
    Seal(secret)
    """

    secret: bytes = field(repr=False)

    def __repr__(self) -> str:
        return "Seal(secret)"

    @classmethod
    def of(cls, key: Mapping[str, str] | None, salt: str) -> Seal:
        """The seal of a ledger with this salt.

        Raises
        ------
        UsageError
            The key is not where it is said to be, or too short.
        """
        own = read_key("ledger", key) if key is not None else b""
        return cls(own + bytes.fromhex(salt))

    @property
    def seed(self) -> Seed:
        """What keys the hashes of persons, classes and values."""
        return Seed(self.secret)

    def link(self, content: bytes) -> str:
        """The keyed hash of some bytes, in hex."""
        found = self.begin()
        found.update(content)
        return found.hexdigest()

    def begin(self) -> hmac.HMAC:
        """A link to be fed piece by piece."""
        key = hmac.new(self.secret, CHAIN, hashlib.sha256).digest()
        return hmac.new(key, digestmod=hashlib.sha256)

    def genesis(self, ledger: str) -> str:
        """The link before the first entry."""
        return self.link(b"genesis " + ledger.encode())

    def commitment(self) -> str:
        """What shows later that a secret is this one."""
        return "hmac-sha256:" + hmac.new(self.secret, COMMITMENT, hashlib.sha256).hexdigest()
