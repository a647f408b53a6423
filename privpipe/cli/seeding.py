"""``privpipe seed``: a fresh secret."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from privpipe.cli.console import say
from privpipe.errors import SinkError, UsageError

__all__ = ["seed"]

BYTES = 32


def seed(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write it here, readable by you alone, and never over a file that is there.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print a fresh seed of 256 bits, as 64 hex digits.

    A policy names where it is kept: `seed: {from_env: NAME}` or `seed: {from_file: PATH}`. Who has it can undo the
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
