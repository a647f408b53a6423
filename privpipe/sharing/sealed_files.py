"""Files of a shared run: signed by the holder who sends them, and encrypted to the one who may read them."""

from __future__ import annotations

import base64
import binascii
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privpipe.errors import DataError, SinkError, UsageError
from privpipe.private_files import sync_folder
from privpipe.signing import PublicKey, SigningKey

__all__ = ["Letter", "SealingKey", "deliver", "opened", "sealed", "verified"]

KIND = "x25519"
PURPOSE = b"privpipe share 1\n"
SEAL, DERIVE = b"privpipe share seal 1\n", b"privpipe share sealing key 1"
LENGTH = 32
MOST_HEADER = 4096
NEEDED = "shares need the cryptography library: pip install 'privpipe[sign]'"


@dataclass(frozen=True)
class SealingKey:
    """An X25519 public key.

    Examples
    --------
    >>> SealingKey.of("x25519 " + "A" * 42 + "E=").line
    'x25519 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE='
    """

    raw: bytes

    @classmethod
    def of(cls, text: str) -> SealingKey:
        """The key of a line as `privpipe key holder` prints it.

        Raises
        ------
        UsageError
        """
        parts = text.split()
        try:
            raw = base64.b64decode(parts[1], validate=True) if len(parts) == 2 and parts[0] == KIND else b""
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != LENGTH:
            raise UsageError(f"a key for sealing is a line `{KIND} ...`, as `privpipe key holder` prints it")
        return cls(raw)

    @classmethod
    def from_private(cls, key: SigningKey) -> SealingKey:
        """The public sealing key that belongs to a holder's private key."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return cls(_private(key).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    @property
    def line(self) -> str:
        """As a run document has it."""
        return f"{KIND} {base64.b64encode(self.raw).decode()}"


@dataclass(frozen=True, kw_only=True)
class Letter:
    """What a file is: signed, and part of the key under which it is encrypted.

    Parameters
    ----------
    nonce, run : str
        Of the run, and the digest of its document.
    kind : {"share", "sum"}
    sender, to : str
        Holders; `to` is empty for all.
    """

    nonce: str
    run: str
    kind: str
    sender: str
    to: str

    @property
    def name(self) -> str:
        """Its file."""
        return f"{self.sender}-to-{self.to}.share" if self.kind == "share" else f"{self.sender}.sum"

    @property
    def text(self) -> str:
        """What a message calls it."""
        return f"the {'share' if self.kind == 'share' else 'partial sum'} from {self.sender!r}" + (
            f" to {self.to!r}" if self.to else ""
        )


def sealed(letter: Letter, body: bytes, key: SigningKey, seal: SealingKey | None) -> bytes:
    """A file: a line of JSON, and the body; encrypted where it is to one holder alone.

    Raises
    ------
    UsageError
        The cryptography library is missing, or the key is one under which nothing is secret.
    """
    header: dict[str, Any] = {**vars(letter)}
    if seal is not None:
        try:
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        except ImportError:
            raise UsageError(NEEDED) from None
        once = X25519PrivateKey.generate()
        header["ephemeral"] = SealingKey(once.public_key().public_bytes_raw()).line
        body = _cipher(once, seal.raw, once.public_key().public_bytes_raw(), seal.raw).encrypt(
            bytes(12), body, _canonical(header)
        )
    signature = key.sign(PURPOSE + _canonical(header) + b"\n" + body)
    return _canonical({**header, "signature": base64.b64encode(signature).decode()}) + b"\n" + body


def opened(path: Path, letter: Letter, by: PublicKey, key: SigningKey | None) -> bytes:
    """The body of a file; `key` decrypts it where it is to one holder alone.

    Raises
    ------
    DataError
        It is missing, of another run, from another holder, or was altered.
    """
    header, body = verified(path, letter, by)
    if not letter.to:
        return body
    if key is None:
        raise UsageError(f"{letter.text} is encrypted: give the key of {letter.to!r}")
    from cryptography.exceptions import InvalidTag

    private, once = _private(key), SealingKey.of(header["ephemeral"])
    try:
        cipher = _cipher(private, once.raw, once.raw, private.public_key().public_bytes_raw())
        return bytes(cipher.decrypt(bytes(12), body, _canonical(header)))
    except (InvalidTag, UsageError):
        raise DataError(f"{letter.text} cannot be decrypted with this key ({path.name})") from None


def verified(path: Path, letter: Letter, by: PublicKey) -> tuple[dict[str, Any], bytes]:
    """The signed header and the body of a file, as it was sent; raises as `opened`."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{letter.text} is missing ({path.name}): all holders take part, or nothing is added") from None
    except OSError as error:
        raise SinkError(f"{letter.text} cannot be read: {error.strerror}") from None
    head, _, body = data.partition(b"\n")
    try:
        header: Any = json.loads(head) if len(head) <= MOST_HEADER else None
        signature = base64.b64decode(header["signature"], validate=True)
        if head != _canonical(header):
            raise ValueError("another spelling")
        del header["signature"]
        sent = {name: header[name] for name in vars(letter)}
        if letter.to:
            SealingKey.of(header["ephemeral"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, UsageError):
        raise DataError(f"{letter.text} is not a file of `privpipe share`, or was altered ({path.name})") from None
    if sent["nonce"] != letter.nonce:
        raise DataError(f"{letter.text} is of another run: its nonce is not that of the run document ({path.name})")
    if sent["run"] != letter.run:
        raise DataError(
            f"{letter.text} was made under another version of the run document ({path.name}); all holders use one"
        )
    if sent != vars(letter):
        raise DataError(f"{path.name} is a repeated or renamed file, and not {letter.text}")
    if not by.verifies(signature, PURPOSE + _canonical(header) + b"\n" + body):
        raise DataError(f"{letter.text} was altered: its signature does not hold ({path.name})")
    return header, body


def deliver(path: Path, data: bytes, mode: int) -> bool:
    """Write a file whole and on the disk, and never over one that is there; whether it was not there.

    Raises
    ------
    SinkError
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        for left in path.parent.glob(f".{path.name}.*.new"):  # of a step that was killed
            left.unlink(missing_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(new, path)
        except FileExistsError:
            return False
        finally:
            with suppress(FileNotFoundError):
                new.unlink()
        sync_folder(path.parent)
    except OSError as error:
        raise SinkError(f"cannot write {str(path)!r}: {error.strerror}") from None
    return True


def _private(key: SigningKey) -> Any:
    """The X25519 key that follows from a holder's private key, so that one file holds both."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    seed = HKDF(algorithm=SHA256(), length=LENGTH, salt=None, info=DERIVE).derive(key.key.private_bytes_raw())
    return X25519PrivateKey.from_private_bytes(seed)


def _cipher(private: Any, public: bytes, ephemeral: bytes, recipient: bytes) -> Any:
    """The cipher of one file: its key serves once, so that its nonce may be constant."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise UsageError("a key for sealing is a point under which nothing is secret") from None
    derived = HKDF(algorithm=SHA256(), length=LENGTH, salt=ephemeral + recipient, info=SEAL).derive(shared)
    return ChaCha20Poly1305(derived)


def _canonical(header: dict[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
