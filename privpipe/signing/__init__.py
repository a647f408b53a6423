"""Signatures under releases: Ed25519 keys, and what they sign."""

from __future__ import annotations

from privpipe.signing.keys import PublicKey, SigningKey, new_key, read_private, same_person
from privpipe.signing.statement import Decision, Signature, read_signature, signed, statement_digest

__all__ = [
    "Decision",
    "PublicKey",
    "Signature",
    "SigningKey",
    "new_key",
    "read_private",
    "read_signature",
    "same_person",
    "signed",
    "statement_digest",
]
