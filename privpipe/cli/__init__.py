"""The command line: ``privpipe --help``."""

from __future__ import annotations

from privpipe.cli.app import app, main

__all__ = ["app", "main"]
