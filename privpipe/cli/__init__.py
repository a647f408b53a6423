"""The command line: ``privpipe --help``."""

from __future__ import annotations

import gc

# A process of its own, which loads much that it keeps and makes few cycles: the collector looks at what was loaded
# three times in a short run by its own thresholds, a sixth of a second in all.
gc.set_threshold(200_000, 20, 20)

from privpipe.cli.app import app, main  # noqa: E402 - what is loaded here is what is searched

__all__ = ["app", "main"]
