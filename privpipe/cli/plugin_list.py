"""``privpipe plugins``: what installed distributions add, and whether it is sound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from privpipe.cli.arguments import JsonOption
from privpipe.cli.console import print_json, put, say
from privpipe.errors import UsageError

if TYPE_CHECKING:
    from privpipe.plugins import PlugIn

__all__ = ["plug_in_of", "plugins", "tell_left_out"]


COLUMNS = ("group", "name", "distribution", "version", "state")


def plugins(json: JsonOption = False) -> None:
    """List the plug-ins of this environment.

    Each entry, hierarchy builder and engine that an installed distribution declares, with the distribution and whether
    it is sound: imported, of the right class, made for this contract, under a unique name. Exit code 2 when one is
    not; nothing else uses it, and a policy that names it is refused.
    """
    rows = _rows()
    broken = [row for row in rows if row["state"] == "broken"]
    if json:
        print_json({"plugins": rows})
    elif not rows:
        put("no plug-in is installed")
    else:
        for line in _aligned(rows):
            put(line)
    for row in broken:
        say(f"BROKEN: {row['reason']}")
    if broken:
        raise typer.Exit(UsageError.exit_code)


def plug_in_of(group: str, name: str) -> PlugIn | None:
    """The sound plug-in that brings an entry; None for what is built in."""
    from privpipe.plugins import fault, found

    return next((each for each in found() if (each.group, each.name) == (group, name) and not fault(each)), None)


def tell_left_out() -> None:
    """Say on stderr that a list is shorter than what is installed."""
    from privpipe.plugins import fault, found

    broken = [each for each in found() if fault(each)]
    if broken:
        say(f"note: left out {len(broken)} plug-in(s) that are not sound; `privpipe plugins` says why")


def _rows() -> list[dict[str, Any]]:
    from privpipe.plugins import fault, found

    return [
        {
            "group": each.group,
            "name": each.name,
            "distribution": each.distribution,
            "version": each.version,
            "state": "broken" if (reason := fault(each)) else "ok",
            "reason": reason,
        }
        for each in found()
    ]


def _aligned(rows: list[dict[str, Any]]) -> list[str]:
    lines = [list(COLUMNS), *([str(row[name]) for name in COLUMNS] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
