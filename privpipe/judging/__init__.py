"""Judge a table by guarantees and measures on any engine."""

from __future__ import annotations

from privpipe.judging.assessment import SCHEMA_VERSION, Assessment
from privpipe.judging.judging import assess
from privpipe.judging.rules import Composite, Gate, Judged, JudgingRules

__all__ = ["SCHEMA_VERSION", "Assessment", "Composite", "Gate", "Judged", "JudgingRules", "assess"]
