"""What is remembered from release to release, chained so that nothing of it is lost without notice."""

from __future__ import annotations

from privpipe.ledger.ledger import Ledger
from privpipe.policy.declared_ledger import NOT_JUDGED, DeclaredLedger, history_entries, named_ledger

__all__ = ["NOT_JUDGED", "DeclaredLedger", "Ledger", "history_entries", "named_ledger"]
