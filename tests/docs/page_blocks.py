"""Fenced blocks of a page, and how they are run: as one program, in a folder and a process of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEAD = re.compile(r"\A---\n(.*?)^---$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, kind: str) -> list[str]:
    """Bodies of the blocks of one kind, in their order."""
    return [body for label, body in FENCE.findall(page.read_text(encoding="utf-8")) if label.strip() == kind]


def said(page: Path, key: str) -> str:
    """A value of the page's head (`marker`: what its blocks need; `blocks: compiled`: they cannot run); or nothing."""
    head = HEAD.match(page.read_text(encoding="utf-8"))
    lines = dict(line.split(": ", 1) for line in head[1].splitlines()) if head else {}
    return lines.get(key, "")


def run(code: str, folder: Path) -> str:
    """What a program prints; it must end well."""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout
