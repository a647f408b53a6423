"""The conformance kit: hostile tables, an oracle, what an engine, model or plug-in must pass, and attacks."""

from __future__ import annotations

from privpipe.testing.catalogue import catalogue_problems
from privpipe.testing.conformance import (
    Case,
    Conformance,
    Nonconforming,
    Report,
    cases,
    conformance,
    examples_of,
)
from privpipe.testing.gaps import GAPS, Gap
from privpipe.testing.hostile import HostileTable, many_values
from privpipe.testing.hostile_tables import HOSTILE_TABLES
from privpipe.testing.oracle import ORACLES, Classes, Expected, oracle
from privpipe.testing.plain_engine import PlainEngine, histogram_of
from privpipe.testing.release_attacks import Finding, Published
from privpipe.testing.small import block_of, facts_of, judged
from privpipe.testing.two_releases import TwoReleases, two_releases

__all__ = [
    "GAPS",
    "HOSTILE_TABLES",
    "ORACLES",
    "Case",
    "Classes",
    "Conformance",
    "Expected",
    "Finding",
    "Gap",
    "HostileTable",
    "Nonconforming",
    "PlainEngine",
    "Published",
    "Report",
    "TwoReleases",
    "block_of",
    "cases",
    "catalogue_problems",
    "conformance",
    "examples_of",
    "facts_of",
    "histogram_of",
    "judged",
    "many_values",
    "oracle",
    "two_releases",
]
