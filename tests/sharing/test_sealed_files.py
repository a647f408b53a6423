"""Files of a run: only the holder they are to reads them, and every change is found."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from privpipe.errors import DataError, UsageError
from privpipe.sharing.sealed_files import Letter, SealingKey, deliver, opened, sealed
from privpipe.signing import SigningKey, new_key, read_private

LETTER = Letter(nonce="ab" * 16, run="cd" * 32, kind="share", sender="north", to="south")


@pytest.fixture
def keys(tmp_path: Path) -> tuple[SigningKey, SigningKey, SigningKey]:
    found = []
    for name in ("north", "south", "west"):
        new_key(tmp_path / name)
        found.append(read_private(tmp_path / name))
    return found[0], found[1], found[2]


def test_only_its_reader_opens_it(tmp_path: Path, keys: tuple[SigningKey, SigningKey, SigningKey]) -> None:
    north, south, west = keys
    data = sealed(LETTER, b"secret share", north, SealingKey.from_private(south))
    assert b"secret share" not in data
    path = tmp_path / LETTER.name
    path.write_bytes(data)
    assert opened(path, LETTER, north.public, south) == b"secret share"
    for key in (north, west):
        with pytest.raises(DataError, match="cannot be decrypted"):
            opened(path, LETTER, north.public, key)
    with pytest.raises(UsageError, match="give the key of 'south'"):
        opened(path, LETTER, north.public, None)
    with pytest.raises(DataError, match="signature does not hold"):
        opened(path, LETTER, west.public, south)


def test_every_changed_byte_is_found(tmp_path: Path, keys: tuple[SigningKey, SigningKey, SigningKey]) -> None:
    north, south, _ = keys
    data = sealed(LETTER, b"secret share", north, SealingKey.from_private(south))
    path = tmp_path / LETTER.name
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(DataError):
            opened(path, LETTER, north.public, south)
    for changed in (b"", data[:-1], data + b"x", b"[]\n", b"{}\n", b"\xff", data.partition(b"\n")[0]):
        path.write_bytes(changed)
        with pytest.raises(DataError):
            opened(path, LETTER, north.public, south)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"nonce": "ba" * 16}, "another run: its nonce"),
        ({"run": "dc" * 32}, "another version of the run document"),
        ({"sender": "west"}, "repeated or renamed"),
        ({"to": "west"}, "repeated or renamed"),
        ({"kind": "sum"}, "repeated or renamed"),
    ],
)
def test_a_file_of_elsewhere_is_named(
    tmp_path: Path, keys: tuple[SigningKey, SigningKey, SigningKey], change: dict[str, str], match: str
) -> None:
    north, south, _ = keys
    path = tmp_path / LETTER.name
    path.write_bytes(sealed(replace(LETTER, **change), b"x", north, SealingKey.from_private(south)))
    with pytest.raises(DataError, match=match):
        opened(path, LETTER, north.public, south)


def test_another_spelling_of_the_header_is_refused(
    tmp_path: Path, keys: tuple[SigningKey, SigningKey, SigningKey]
) -> None:
    north, south, _ = keys
    head, _, body = sealed(LETTER, b"x", north, SealingKey.from_private(south)).partition(b"\n")
    path = tmp_path / LETTER.name
    path.write_bytes(json.dumps(json.loads(head)).encode() + b"\n" + body)
    with pytest.raises(DataError, match="is not a file"):
        opened(path, LETTER, north.public, south)


def test_two_files_of_one_share_differ(keys: tuple[SigningKey, SigningKey, SigningKey]) -> None:
    north, south, _ = keys
    seal = SealingKey.from_private(south)
    bodies = {sealed(LETTER, b"x" * 32, north, seal).partition(b"\n")[2] for _ in range(3)}
    assert len(bodies) == 3


@pytest.mark.parametrize("text", ["", "x25519", "x25519 AAAA", "x25519 !!", "ssh-ed25519 AAAA", "x25519 AA AA"])
def test_a_key_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="privpipe key holder"):
        SealingKey.of(text)


def test_a_key_under_which_nothing_is_secret(keys: tuple[SigningKey, SigningKey, SigningKey]) -> None:
    weak = SealingKey.of(f"x25519 {base64.b64encode(bytes(32)).decode()}")
    with pytest.raises(UsageError, match="nothing is secret"):
        sealed(LETTER, b"x", keys[0], weak)


def test_a_file_is_delivered_once(tmp_path: Path) -> None:
    path = tmp_path / "a.share"
    (tmp_path / ".a.share.0123.new").write_bytes(b"of a killed step")
    assert deliver(path, b"first", 0o600)
    assert not deliver(path, b"second", 0o600)
    assert path.read_bytes() == b"first"
    assert [each.name for each in tmp_path.iterdir()] == ["a.share"]
    assert path.stat().st_mode & 0o777 == 0o600
