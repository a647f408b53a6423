"""The command line: ``privpipe --help``."""

from __future__ import annotations

import gc

# A process of its own, which loads much that it keeps and makes few cycles: to search for them a hundred times less
# often, before all is loaded, spares a tenth of a short run.
gc.set_threshold(200_000, 20, 20)

from privpipe.cli.app import app, main  # noqa: E402 - what is loaded here is what is searched

__all__ = ["app", "main"]
