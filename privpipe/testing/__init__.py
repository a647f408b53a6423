"""The conformance kit: hostile tables, an oracle, what an engine, model or plug-in must pass, and attacks."""

from __future__ import annotations

from privpipe.testing.catalogue import catalogue_problems
from privpipe.testing.class_claims import Claim, merging_claims, suppression_claim, threshold_claim
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
from privpipe.testing.oracle import Classes, Expected, has_oracle, oracle, oracle_of
from privpipe.testing.people import People, people
from privpipe.testing.plain_engine import PlainEngine, histogram_of
from privpipe.testing.release_attacks import Finding, Published
from privpipe.testing.small import block_of, facts_of, judged
from privpipe.testing.splitting import splitting_problems
from privpipe.testing.stages import first_outcome, stage_problems
from privpipe.testing.two_releases import TwoReleases, two_releases

__all__ = [
    "GAPS",
    "HOSTILE_TABLES",
    "Case",
    "Claim",
    "Classes",
    "Conformance",
    "Expected",
    "Finding",
    "Gap",
    "HostileTable",
    "Nonconforming",
    "People",
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
    "first_outcome",
    "has_oracle",
    "histogram_of",
    "judged",
    "many_values",
    "merging_claims",
    "oracle",
    "oracle_of",
    "people",
    "splitting_problems",
    "stage_problems",
    "suppression_claim",
    "threshold_claim",
    "two_releases",
]
