"""The command line: ``privpipe --help``."""

from __future__ import annotations

from privpipe.cli.collector import seldom

# What is loaded here is kept: the collector would look at it three times by its own thresholds.
with seldom():
    from privpipe.cli.app import app, main

__all__ = ["app", "main"]
