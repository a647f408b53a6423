"""Evidence of changes to a published manifest.

Checksums, seals, commitments, and the chain of a sink's releases.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privpipe.draws import Seed
from privpipe.errors import SinkError
from privpipe.running.plan import document_digest

if TYPE_CHECKING:
    from privpipe.sinks.target import Target

__all__ = [
    "CHAIN_START",
    "MANIFEST_VERSION",
    "Chain",
    "chain_entry",
    "chain_of",
    "core_digest",
    "document_hashes",
    "input_commitment",
    "link_of",
    "manifest_checksum",
    "manifest_seal",
    "plan_commitment",
    "sealed",
]


MANIFEST_VERSION = 1


def sealed(manifest: Mapping[str, Any], seed: Seed | None) -> dict[str, Any]:
    """The manifest with its checksum, and where there is a declared seed with its seal.

    Parameters
    ----------
    seed : Seed or None
        None: one was drawn for the run, and no one could check a seal.

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
    """Of all but itself and the checksum, bound to the run: without the seed no one can make it."""
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


CHAIN_START = "0" * 64
"""Used as the link before the first one."""
OWN_LINK = "link"


@dataclass(frozen=True)
class Chain:
    """What a sink has published until now.

    Parameters
    ----------
    previous : mapping or None
        Run id of the release before, and the hash of its public manifest.
    releases : tuple of mapping
        An entry of each release before, oldest first.
    """

    previous: Mapping[str, Any] | None = None
    releases: tuple[Mapping[str, Any], ...] = ()

    def run_of(self, batch: str | None) -> str | None:
        """The run that published a batch; None: there is none.

        Examples
        --------
        >>> Chain(releases=({"run_id": "r", "batch": "2026-01-31"},)).run_of("2026-01-31")
        'r'
        """
        found = (str(entry["run_id"]) for entry in self.releases if batch is not None and entry.get("batch") == batch)
        return next(found, None)

    def to_dict(self) -> dict[str, Any]:
        """The keys of a manifest that hold it."""
        return {
            "previous": None if self.previous is None else dict(self.previous),
            "releases_before": [dict(entry) for entry in self.releases],
        }


def chain_of(place: Target) -> Chain:
    """The chain that a new release of a sink continues.

    Raises
    ------
    SinkError
        The manifest of the published release is damaged or was changed: a chain that went on from it would hide that.
    """
    if place.current() is None:
        return Chain()
    text = place.document("manifest")
    if text is None:
        raise SinkError(
            f"the release that stands at {place.name!r} has no manifest, so no release can follow it; move it away "
            "to begin a new chain"
        )
    try:
        manifest = json.loads(text)
        if manifest.get("manifest_version") is None:  # of a version that kept no chain
            return Chain(previous={"run_id": str(manifest["run_id"]), "manifest_sha256": _text_digest(text)})
        if manifest["checksum"] != manifest_checksum(manifest):
            raise ValueError("changed")
        before = [dict(entry) for entry in manifest["releases_before"]]
        entry = chain_entry(manifest, text)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise SinkError(
            f"the manifest of the release that stands at {place.name!r} is damaged or was changed, so no release can "
            "follow it; `privpipe verify` says what is wrong; move the release away to begin a new chain"
        ) from None
    previous = {"run_id": entry["run_id"], "manifest_sha256": entry["manifest_sha256"]}
    return Chain(previous, (*before, entry))


def chain_entry(manifest: Mapping[str, Any], text: bytes) -> dict[str, Any]:
    """What later manifests say of a release: when, under which policies, with which verdict, who signed.

    Parameters
    ----------
    text : bytes
        The manifest as it was published.
    """
    before = list(manifest["releases_before"])
    officer, signed = manifest.get("officer_policy"), manifest.get("sign_off")
    entry = {
        "run_id": str(manifest["run_id"]),
        "created": str(manifest["created"]),
        "name": str(manifest["name"]),
        "policy_hash": str(manifest["policy_hash"]),
        "officer_policy_hash": None if officer is None else str(officer["hash"]),
        "verdict": str(manifest["verdict"]),
        "records": int(manifest["output"]["records"]),
        "signed_by": [] if signed is None else [str(each["name"]) for each in signed["signatures"]],
        "manifest_sha256": _text_digest(text),
        **({"batch": str(manifest["batch"])} if manifest.get("batch") is not None else {}),
        "before": str(before[-1][OWN_LINK]) if before else CHAIN_START,
    }
    return {**entry, OWN_LINK: link_of(entry)}


def link_of(entry: Mapping[str, Any]) -> str:
    """The hash of an entry, with that of the one before in it.

    Examples
    --------
    >>> link_of({"run_id": "a", "before": CHAIN_START}) == link_of({"run_id": "b", "before": CHAIN_START})
    False
    """
    told = {name: value for name, value in entry.items() if name != OWN_LINK}
    return _text_digest(json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())


def _text_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
    """To the whole plan of a run, which is in the private record."""
    return _commitment(seed, "privpipe/plan/2", run_id, digest)


def _commitment(seed: Seed, purpose: str, *parts: str) -> str:
    """Without the seed no one can try contents against it."""
    return "hmac-sha256:" + seed.bound(purpose, *parts).hex()
