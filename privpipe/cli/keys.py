"""``privpipe sign``, ``privpipe key`` and ``privpipe seed``.

Decisions on runs that wait, and the secrets behind them.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from privpipe.cli.console import as_json, guarded, put, say
from privpipe.errors import SinkError, UsageError

if TYPE_CHECKING:
    from privpipe.signing import PublicKey, SigningKey

__all__ = ["KeyOption", "commands", "private_key", "seed", "sign"]


commands = typer.Typer(help="Make and show keys for signing and sharing.", no_args_is_help=True)
KEY_VARIABLE, PASSWORD_VARIABLE = "PRIVPIPE_KEY", "PRIVPIPE_KEY_PASSWORD"
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help=f"A private key: of `privpipe key make`, or OpenSSH's id_ed25519; else ${KEY_VARIABLE}, else your own.",
        show_default=False,
    ),
]


def sign(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="The folder of a run that waits, or its request.json.", show_default=False),
    ],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Who you are, as the officer's policy has it.")],
    decision: Annotated[str, typer.Option("--decision", metavar="D", help="approve, changes or reject.")],
    comment: Annotated[str, typer.Option("--comment", metavar="TEXT", help="Published with the release.")] = "",
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="DATE", help="Until when it holds, as 2027-03-31.", show_default=False),
    ] = None,
    key: KeyOption = None,
    officer: Annotated[
        Path | None,
        typer.Option(
            "--officer-policy",
            metavar="FILE",
            help="Your own copy of the officer's policy: a run that was held to another one is not signed.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write the signature here instead of next to the run.", show_default=False
        ),
    ] = None,
) -> None:
    """Approve a run that waits, ask for changes, or reject it.

    Signs the run id, the policies, the verdict and the hashes of the staged files, which are held to the request first.
    `privpipe release POLICY --continue RUN` publishes exactly these once enough persons approve.
    """
    from privpipe.running.waiting_runs import read_request
    from privpipe.signing import Decision, Signature, read_private, signed, statement_digest

    if decision not in get_args(Decision):
        raise UsageError(f"--decision must be one of {', '.join(get_args(Decision))}, not {decision!r}")
    request = read_request(run)
    statement = request["statement"]
    private = read_private(_key(key), _password())
    if officer is not None:
        _require_officer(officer, statement, name, private.public)
    now = datetime.now(UTC).replace(microsecond=0)
    unsigned = Signature(
        name=" ".join(name.split()),
        key=private.public,
        decision=cast(Decision, decision),
        statement=statement_digest(statement),
        signed_at=now,
        expires=None if expires is None else _end(expires, now),
        comment=comment,
    )
    made = signed(private, unsigned)
    _show(statement)
    place = _place(run, out, made.key.fingerprint)
    _write_new(place, as_json(made.to_dict()))
    if officer is None:
        say(f"held to the officer's policy {statement['officer_policy_hash']}; compare it, or give --officer-policy")
    say(f"SIGNED: {decision} by {made.name} ({made.key.fingerprint}), in {place}")


def make(
    path: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Where; left out, in your own configuration.")
    ] = None,
    password: Annotated[bool, typer.Option("--password", help="Encrypt it; you are asked for the password.")] = False,
) -> None:
    """Make a key for signing.

    The private one goes into a file that you alone can read, the public line next to it with .pub.
    """
    from privpipe.private_files import private_folder
    from privpipe.signing import new_key

    place = path if path is not None else _own()
    if path is None:
        private_folder(place.parent)
    public = new_key(place, _new_password() if password else None)
    print(public.line)
    say(f"WRITTEN: {place} and {place}.pub ({public.fingerprint}); the line above goes into the officer's policy")


def show(key: KeyOption = None) -> None:
    """Print the public line of a key, and its fingerprint to stderr."""
    from privpipe.signing import read_private

    public = read_private(_key(key), _password()).public
    print(public.line)
    say(public.fingerprint)


def holder(key: KeyOption = None) -> None:
    """Print the public keys of a holder, for a run document."""
    from privpipe.sharing import SealingKey

    private = private_key(key)
    print(f"{{sign: {private.public.line}, seal: {SealingKey.from_private(private).line}}}")


def private_key(given: Path | None) -> SigningKey:
    """The private key that a command was given, or else finds."""
    from privpipe.signing import read_private

    return read_private(_key(given), _password())


for each, command in (("make", make), ("show", show), ("holder", holder)):
    commands.command(each)(guarded(command))


def _own() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "privpipe" / "id_ed25519"


def _key(given: Path | None) -> Path:
    if given is not None:
        return given
    named = os.environ.get(KEY_VARIABLE)
    return Path(named) if named else _own()


def _password() -> str | None:
    return os.environ.get(PASSWORD_VARIABLE) or None


def _new_password() -> str:
    found = _password()
    if found is None and sys.stdin.isatty():
        found = str(typer.prompt("password", hide_input=True, confirmation_prompt=True, err=True))
    if not found:
        raise UsageError(f"there is no terminal to ask for the password; set {PASSWORD_VARIABLE}")
    return found


def _require_officer(path: Path, statement: Mapping[str, Any], name: str, key: PublicKey) -> None:
    from privpipe.policy.officer import read_officer
    from privpipe.signing import same_person

    found = read_officer(str(path), Path.cwd())
    if found.hash != statement["officer_policy_hash"]:
        raise UsageError("the run was held to another officer's policy than yours; nothing was signed")
    by = found.sign_off.by if found.sign_off is not None else ()
    if not any(each.key == key and same_person(each.name) == same_person(name) for each in by):
        raise UsageError(f"your officer's policy does not name {name!r} with this key; nothing was signed")


def _end(text: str, now: datetime) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--expires must be a date, as 2027-03-31, not {text!r}") from None
    if len(text) <= len("2027-03-31"):
        found += timedelta(days=1)  # that day included
    found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    if found <= now:
        raise UsageError("--expires is in the past")
    return found


def _place(run: Path, out: Path | None, fingerprint: str) -> Path:
    if out is not None:
        return out
    if not run.is_dir():
        raise UsageError("a request by itself has no place for the signature: give --out, and hand the file back")
    name = "".join(sign for sign in fingerprint.partition(":")[2] if sign.isalnum())[:12]
    return run / "signatures" / f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{name}.json"


def _write_new(path: Path, text: str) -> None:
    from privpipe.errors import SinkError
    from privpipe.private_files import write_private

    try:
        write_private(path, text)
    except OSError as error:
        raise SinkError(f"cannot write {str(path)!r}: {error.strerror}") from None


def _show(statement: Mapping[str, Any]) -> None:
    put(f"run {statement['run_id']} of {statement['name']}")
    for name in ("policy_hash", "officer_policy_hash", "verdict_sha256", "plan_sha256", "manifest"):
        put(f"  {name}: {statement[name]}")
    for file in statement["files"]:
        put(f"  file {file['name']}: {file['bytes']:,} bytes, sha256 {file['sha256']}")


BYTES = 32


def seed(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write it here, readable only by you; an existing file is never overwritten.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print a fresh seed of 256 bits, as 64 hex digits.

    A policy names where it is kept: `seed: {from_env: NAME}` or `seed: {from_file: PATH}`. Its holder can undo the
    noise of every release made under it.
    """
    fresh = secrets.token_hex(BYTES)
    if out is None:
        print(fresh)
        return
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(
            f"{str(out)!r} exists and is not overwritten: a seed that is lost cannot be made again"
        ) from None
    except OSError as error:
        raise SinkError(f"cannot write {str(out)!r}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(fresh + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise SinkError(f"cannot write {str(out)!r}: {error.strerror}") from None
    say(f"WRITTEN: {out}; name it in a policy as `seed: {{from_file: {out}}}`")
