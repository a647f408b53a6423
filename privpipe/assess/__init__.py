"""Judge a table by guarantees and measures on any engine."""

from __future__ import annotations

from privpipe.assess.assessment import SCHEMA_VERSION, Assessment
from privpipe.assess.composite import Composite, Judged
from privpipe.assess.gate import Gate
from privpipe.assess.judging import assess
from privpipe.assess.rules import JudgingRules

__all__ = ["SCHEMA_VERSION", "Assessment", "Composite", "Gate", "Judged", "JudgingRules", "assess"]
