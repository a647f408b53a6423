"""Commitments in public documents to a secret or the source: hashes under the seed, bound to one run."""

from __future__ import annotations

from privpipe.draws import Seed

__all__ = ["input_commitment", "plan_commitment", "plan_key"]


def input_commitment(seed: Seed, run_id: str, fingerprint: str) -> str:
    """To the source of a run: it shows later what was released, and links no two runs of it.

    Examples
    --------
    >>> seed = Seed(b"0123456789abcdef")
    >>> input_commitment(seed, "run 1", "9f86d0") == input_commitment(seed, "run 2", "9f86d0")
    False
    """
    return _commitment(seed, "privpipe/input/2", run_id, fingerprint)


def plan_commitment(seed: Seed, run_id: str, digest: str) -> str:
    """To the whole plan of a run, which stands in the private record."""
    return _commitment(seed, "privpipe/plan/2", run_id, digest)


def plan_key(seed: Seed) -> bytes:
    """What keys the hashes of source content that a plan holds: the same for every run, so that a plan can be used."""
    return seed.key("plan hashes")


def _commitment(seed: Seed, purpose: str, *parts: str) -> str:
    """Without the seed nobody can try contents against it."""
    return "hmac-sha256:" + seed.bound(purpose, *parts).hex()
