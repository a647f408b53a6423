"""The ledger of releases: chained entries, so that a loss or a change is noticed."""

from __future__ import annotations

from privpipe.ledger.ledger import Ledger
from privpipe.policy.ledgers import NOT_JUDGED, DeclaredLedger, history_entries, named_ledger

__all__ = ["NOT_JUDGED", "DeclaredLedger", "Ledger", "history_entries", "named_ledger"]
