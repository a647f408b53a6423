"""What makes a change of a manifest show: its checksum, and a seal that only the seed can make."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from privpipe.draws import Seed
from privpipe.running.plan import document_digest

__all__ = ["MANIFEST_VERSION", "core_digest", "document_hashes", "manifest_checksum", "manifest_seal", "sealed"]

MANIFEST_VERSION = 1


def sealed(manifest: Mapping[str, Any], seed: Seed | None) -> dict[str, Any]:
    """The manifest with its checksum, and where there is a declared seed with its seal.

    Parameters
    ----------
    seed : Seed or None
        None: one was drawn for the run, and nobody could check a seal.

    Examples
    --------
    >>> made = sealed({"run_id": "r"}, None)
    >>> made["seal"], made["checksum"] == manifest_checksum({**made, "run_id": "s"})
    (None, False)
    """
    sealed_one = {**manifest, "seal": None if seed is None else manifest_seal(seed, manifest)}
    return {**sealed_one, "checksum": manifest_checksum(sealed_one)}


def manifest_checksum(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of a manifest as canonical JSON, without its checksum."""
    return _digest(manifest, "checksum")


def core_digest(manifest: Mapping[str, Any]) -> str:
    """The same also without seal and signatures: what is signed, before there are any."""
    return _digest(manifest, "checksum", "seal", "sign_off")


def manifest_seal(seed: Seed, manifest: Mapping[str, Any]) -> str:
    """Of all but itself and the checksum, bound to the run: without the seed nobody can make it."""
    told = _digest(manifest, "checksum", "seal")
    return "hmac-sha256:" + seed.bound("privpipe/manifest/1", str(manifest["run_id"]), told).hex()


def document_hashes(texts: Mapping[str, str]) -> dict[str, str]:
    """SHA-256 of documents by name, as they are written.

    Examples
    --------
    >>> document_hashes({"verdict": "{}"})["verdict"][:8]
    '44136fa3'
    """
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(texts.items())}


def _digest(manifest: Mapping[str, Any], *without: str) -> str:
    return document_digest({name: value for name, value in manifest.items() if name not in without})
