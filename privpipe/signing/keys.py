"""Keys, and the statements that are signed with them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import stat
import struct
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from privpipe.errors import SinkError, UsageError

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


KIND = "ssh-ed25519"
LENGTH = 32
SMALL_ORDER = frozenset(
    bytes.fromhex(point)
    for point in (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    )
)
"""Points of small order and their other spellings: one signature fits many texts under them."""
NEEDED = "signatures need the cryptography library: pip install 'privpipe[sign]'"


@dataclass(frozen=True)
class PublicKey:
    """An Ed25519 public key; two spellings of one key are equal.

    Parameters
    ----------
    raw : bytes
        Its 32 bytes.

    Examples
    --------
    >>> line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0CrzAUrCVuBFXvcdo/Tmtjt5PKOjdAzG40ywuvDm6Z officer@desk"
    >>> PublicKey.of(line).line == " ".join(line.split()[:2])
    True
    """

    raw: bytes

    @classmethod
    def of(cls, text: str) -> PublicKey:
        """The key of a line as in ``id_ed25519.pub``, with or without a comment.

        Raises
        ------
        UsageError
            Another kind of key, or none.
        """
        parts = text.split()
        if len(parts) < 2 or parts[0] != KIND:
            raise UsageError(f"a public key is a line `{KIND} AAAA...`, as in a .pub file; other kinds are not taken")
        try:
            blob = base64.b64decode(parts[1], validate=True)
        except (binascii.Error, ValueError):
            raise UsageError("the public key is not base64 text") from None
        head = struct.pack(">I", len(KIND)) + KIND.encode() + struct.pack(">I", LENGTH)
        raw = blob[len(head) :]
        if blob[: len(head)] != head or len(raw) != LENGTH:
            raise UsageError("the public key is damaged: it is not the 32 bytes of an Ed25519 key")
        if raw[:-1] + bytes([raw[-1] & 0x7F]) in SMALL_ORDER:
            raise UsageError("the public key is a point under which anyone can sign")
        return cls(raw)

    @property
    def line(self) -> str:
        """As OpenSSH writes it, without a comment."""
        blob = struct.pack(">I", len(KIND)) + KIND.encode() + struct.pack(">I", LENGTH) + self.raw
        return f"{KIND} {base64.b64encode(blob).decode()}"

    @property
    def fingerprint(self) -> str:
        """As ``ssh-keygen -l`` shows it."""
        blob = base64.b64decode(self.line.split()[1])
        return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the owner of the private key signed these bytes.

        Raises
        ------
        UsageError
            The cryptography library is missing.
        """
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError:
            raise UsageError(NEEDED) from None
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, repr=False)
class SigningKey:
    """A private key, in memory alone."""

    key: Any = field(repr=False)

    def __repr__(self) -> str:
        return "SigningKey(secret)"

    @property
    def public(self) -> PublicKey:
        """The key that proves its signatures."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return PublicKey(self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def sign(self, message: bytes) -> bytes:
        """The signature of these bytes: 64 bytes."""
        return bytes(self.key.sign(message))


def new_key(path: Path, password: str | None = None) -> PublicKey:
    """Make a key: the private one at `path` (PKCS #8, mode 0600), the public line next to it with ``.pub``.

    Parameters
    ----------
    password : str, optional
        Encrypts the private file.

    Raises
    ------
    UsageError
        A file is there, or the cryptography library is missing.
    SinkError
        The files cannot be written.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise UsageError(NEEDED) from None
    beside = path.with_name(path.name + ".pub")
    if os.path.lexists(path) or os.path.lexists(beside):
        raise UsageError(f"{str(path)!r} or its .pub exists and is not overwritten: a lost key cannot be made again")
    key = Ed25519PrivateKey.generate()
    sealing: Any = serialization.NoEncryption()
    if password:
        sealing = serialization.BestAvailableEncryption(password.encode())
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealing)
    public = SigningKey(key).public
    _write(path, text, 0o600)
    _write(beside, f"{public.line}\n".encode(), 0o644)
    return public


def read_private(path: Path, password: str | None = None) -> SigningKey:
    """The private key of a file: PKCS #8 as `new_key` writes it, or OpenSSH's ``id_ed25519``.

    Raises
    ------
    UsageError
        No such file, one that others can read, another kind of key, or the password is missing or wrong.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key
    except ImportError:
        raise UsageError(NEEDED) from None
    try:
        found = path.stat()
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"the key {str(path)!r} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode) or stat.S_IMODE(found.st_mode) & 0o077:
        raise UsageError(f"the key {str(path)!r} can be read by others; `chmod 600` it, and think who has read it")
    load: Any = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in text else load_pem_private_key
    try:
        key = load(text, password.encode() if password else None)
    except TypeError:
        need = "needs no password" if password else "needs its password"
        raise UsageError(f"the key {str(path)!r} {need} (PRIVPIPE_KEY_PASSWORD, or asked for on a terminal)") from None
    except UnsupportedAlgorithm:
        raise UsageError(
            f"the key {str(path)!r} is encrypted in OpenSSH's own way, which needs bcrypt: pip install bcrypt"
        ) from None
    except ValueError:  # its text may quote the file
        raise UsageError(f"the key {str(path)!r} cannot be read: no key, or the password is wrong") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"the key {str(path)!r} is of another kind than Ed25519; make one with `privpipe key`")
    return SigningKey(key)


def same_person(name: str) -> str:
    """What two spellings of one name have in common.

    Examples
    --------
    >>> same_person("A.  Officer") == same_person("a. officer ")
    True
    """
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", name)).strip().casefold()


def _write(path: Path, text: bytes, mode: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise SinkError(f"cannot write {str(path)!r}: {error.strerror}") from None


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
        raise UsageError("this is not a signature of a sign-off, or of another version") from None


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("no time zone")
    return found.astimezone(UTC)
