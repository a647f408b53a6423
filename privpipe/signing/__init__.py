"""Signatures under releases: Ed25519 keys, and what they sign."""

from __future__ import annotations

from privpipe.signing.keys import (
    Decision,
    PublicKey,
    Signature,
    SigningKey,
    new_key,
    read_private,
    read_signature,
    same_person,
    signed,
    statement_digest,
)

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
