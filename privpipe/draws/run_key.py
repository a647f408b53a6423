"""The key of one run; row orders and other draws that could link two releases are derived from it."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from privpipe.draws.seed import Seed
from privpipe.draws.stream import Stream

__all__ = ["RunKey"]


@dataclass(frozen=True, repr=False)
class RunKey:
    """R = HMAC-SHA256(seed, ["privpipe/run/2", policy digest, source fingerprint]).

    The same source, policy and seed give the same orders on every engine; anything else gives independent ones.

    Parameters
    ----------
    key : bytes
        Thirty-two bytes. Use `RunKey.of`.

    Examples
    --------
    >>> one = RunKey.of(Seed.insecure(42), "policy", "source")
    >>> one.rows() == RunKey.of(Seed.insecure(42), "policy", "another source").rows(), one
    (False, RunKey(secret))
    """

    key: bytes = field(repr=False)

    def __repr__(self) -> str:
        return "RunKey(secret)"

    @classmethod
    def of(cls, seed: Seed, policy_digest: str, source: str) -> RunKey:
        """The key of a policy's run over a source.

        Parameters
        ----------
        seed : Seed
        policy_digest : str
            As `Policy.digest` gives it.
        source : str
            The keyed fingerprint of the source.
        """
        return cls(seed.bound("privpipe/run/2", policy_digest, source))

    def rows(self, plan: str = "") -> Stream:
        """The order in which released rows are written, and what else there is to a layout.

        Parameters
        ----------
        plan : str
            Digest of the plans of the stages, so that what policy and source do not contain (a hierarchy's file, a
            frozen plan, a key) parts two releases as well.
        """
        return self._stream(f"rows/{plan}")

    def attacks(self) -> Stream:
        """The order of records by which the attacked ones are sampled: the same for every measure and setting."""
        return self._stream("attacks")

    def _stream(self, purpose: str) -> Stream:
        return Stream(hmac.new(self.key, purpose.encode(), hashlib.sha256).digest()[:16])
