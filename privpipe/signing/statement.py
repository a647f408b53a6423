"""A signature under a release: who decided what of which bytes, when, and until when that holds."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from privpipe.errors import UsageError
from privpipe.signing.keys import PublicKey, SigningKey

__all__ = ["Decision", "Signature", "read_signature", "signed", "statement_digest"]

Decision = Literal["approve", "changes", "reject"]
VERSION = 1
PURPOSE = b"privpipe sign-off 1\n"
"""No other text is signed under it, so that no other signature of the key is one of these."""
SKEW = timedelta(minutes=5)
"""By which clocks of two machines may differ."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One person's decision on one run.

    Parameters
    ----------
    name : str
        As the officer's policy has it.
    key : PublicKey
    decision : {"approve", "changes", "reject"}
    statement : str
        Hash of what was decided on; see `statement_digest`.
    signed_at : datetime
    expires : datetime or None
    comment : str
    signature : bytes
    """

    name: str
    key: PublicKey
    decision: Decision
    statement: str
    signed_at: datetime
    expires: datetime | None = None
    comment: str = ""
    signature: bytes = b""

    @property
    def message(self) -> bytes:
        """The signed bytes."""
        told = {name: value for name, value in self.to_dict().items() if name != "signature"}
        return PURPOSE + json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @property
    def holds(self) -> bool:
        """Whether its key made it, over all that it says."""
        return self.key.verifies(self.signature, self.message)

    def ends(self, valid_days: int) -> datetime:
        """When it is no longer valid: at the time that it states, and after so many days at the latest."""
        latest = self.signed_at + timedelta(days=valid_days)
        return latest if self.expires is None else min(latest, self.expires)

    def valid_at(self, moment: datetime, valid_days: int) -> bool:
        """Whether it was made before that moment and had not ended."""
        return self.signed_at <= moment + SKEW and moment < self.ends(valid_days)

    def to_dict(self) -> dict[str, Any]:
        """As it is written in a file and in a manifest."""
        return {
            "sign_off_version": VERSION,
            "name": self.name,
            "key": self.key.line,
            "decision": self.decision,
            "comment": self.comment,
            "signed_at": self.signed_at.isoformat(timespec="seconds"),
            "expires": None if self.expires is None else self.expires.isoformat(timespec="seconds"),
            "statement": self.statement,
            "signature": base64.b64encode(self.signature).decode(),
        }


def signed(key: SigningKey, unsigned: Signature) -> Signature:
    """The same with the signature of a key.

    Raises
    ------
    UsageError
        It names another key.
    """
    if key.public != unsigned.key:
        raise UsageError("a signature names the key that made it, and no other")
    return Signature(**{**vars(unsigned), "signature": key.sign(unsigned.message)})


def statement_digest(statement: Mapping[str, Any]) -> str:
    """SHA-256 of what is signed for, as canonical JSON.

    Examples
    --------
    >>> statement_digest({"run_id": "a", "files": []}) == statement_digest({"files": [], "run_id": "a"})
    True
    """
    text = json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_signature(document: Any) -> Signature:
    """A signature from its document; whether it holds is another question.

    Raises
    ------
    UsageError
        It has another shape, or is of another version.
    """
    try:
        known = {"sign_off_version", "name", "key", "decision", "comment", "signed_at", "expires", "statement"}
        if set(document) != known | {"signature"} or document["sign_off_version"] != VERSION:
            raise ValueError("another version")
        if document["decision"] not in get_args(Decision):
            raise ValueError("an unknown decision")
        texts = ("name", "comment", "statement")
        if not all(isinstance(document[name], str) for name in texts):
            raise TypeError("no text")
        expires = document["expires"]
        found = Signature(
            **{name: document[name] for name in texts},
            key=PublicKey.of(document["key"]),
            decision=document["decision"],
            signed_at=_moment(document["signed_at"]),
            expires=None if expires is None else _moment(expires),
            signature=base64.b64decode(document["signature"], validate=True),
        )
        if found.to_dict() != document:  # what is signed is what is written, in one spelling
            raise ValueError("another spelling")
        return found
    except (LookupError, TypeError, ValueError, AttributeError, binascii.Error, UsageError):
        raise UsageError("this is no signature of a sign-off, or of another version") from None


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("no time zone")
    return found.astimezone(UTC)
