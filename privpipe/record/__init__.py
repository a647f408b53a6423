"""The record of releases, read back: verified, and listed."""

from __future__ import annotations

from privpipe.record.checks import Check, Verification, verify
from privpipe.record.history import History, history, prune

__all__ = ["Check", "History", "Verification", "history", "prune", "verify"]
