"""What a public document says of a secret or of the source: hashes under the seed, bound to one run."""

from __future__ import annotations

import hashlib
import hmac
import json

from privpipe.draws import Seed

__all__ = ["commitment", "input_commitment", "plan_commitment", "plan_key"]


def commitment(seed: Seed, purpose: str, *parts: str) -> str:
    """HMAC-SHA256 under the seed of a purpose and its parts; without the seed nobody can try contents against it.

    Examples
    --------
    >>> seed = Seed(b"0123456789abcdef")
    >>> commitment(seed, "input", "run 1", "9f86d0") == commitment(seed, "input", "run 2", "9f86d0")
    False
    """
    message = json.dumps([purpose, *parts], separators=(",", ":"))
    return "hmac-sha256:" + hmac.new(seed.secret, message.encode(), hashlib.sha256).hexdigest()


def input_commitment(seed: Seed, run_id: str, fingerprint: str) -> str:
    """To the source of a run: it shows later what was released, and links no two runs of it."""
    return commitment(seed, "privpipe/input/2", run_id, fingerprint)


def plan_commitment(seed: Seed, run_id: str, digest: str) -> str:
    """To the whole plan of a run, which stands in the private record."""
    return commitment(seed, "privpipe/plan/2", run_id, digest)


def plan_key(seed: Seed) -> bytes:
    """What keys the hashes of source content that a plan holds: the same for every run, so that a plan can be used."""
    return seed.key("plan hashes")
