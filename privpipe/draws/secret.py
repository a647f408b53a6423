"""A key named by where it is kept, for stages whose key outlives one run."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from pathlib import Path

from privpipe.errors import UsageError, did_you_mean

__all__ = ["LEAST_KEY_BYTES", "key_id", "read_key", "require_key_place"]

LEAST_KEY_BYTES = 32
PLACES = ("from_env", "from_file")


def require_key_place(owner: str, place: object) -> None:
    """Refuse what is not ``{from_env: NAME}`` or ``{from_file: PATH}``; a key in the policy text is no secret.

    Raises
    ------
    UsageError
    """
    if not isinstance(place, Mapping) or len(place) != 1:
        raise UsageError(f"{owner}: key must be {{from_env: NAME}} or {{from_file: PATH}}, never the key itself")
    (where,) = place
    if where not in PLACES:
        raise UsageError(f"{owner}: key has no place {where!r}{did_you_mean(str(where), PLACES)}")


def read_key(owner: str, place: Mapping[str, str]) -> bytes:
    """The key's bytes: UTF-8 of the variable, or the file's content without its line end.

    Raises
    ------
    UsageError
        Not set, unreadable, or shorter than 32 bytes (the message gives the length, never the key).
    """
    ((where, name),) = place.items()
    if where == "from_env":
        key = os.environ.get(name, "").encode()
        if not key:
            raise UsageError(f"{owner}: the environment variable {name} is not set: the key is taken from it")
    else:
        try:
            key = Path(name).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise UsageError(f"{owner}: cannot read the key file {name!r}: {error.strerror}") from None
    if len(key) < LEAST_KEY_BYTES:
        raise UsageError(f"{owner}: the key of {name} has {len(key)} bytes; it needs at least {LEAST_KEY_BYTES}")
    return key


def key_id(key: bytes) -> str:
    """What plans and logs may say of a key: 8 hex digits of HMAC(key, "id").

    Examples
    --------
    >>> len(key_id(b"x" * 32))
    8
    """
    return hmac.new(key, b"id", hashlib.sha256).hexdigest()[:8]
