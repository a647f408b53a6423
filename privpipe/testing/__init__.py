"""The conformance kit: what an engine, a model, a measure or a transformer must pass, and attacks on releases.

Authors of plug-ins run the same checks as the catalogues:

- a transformer: `stage_problems` (the same rows and plan however the input is arranged, others under another seed if it
  draws, the schema that it promises, blocks without rows, plans read back);
- a model or measure that reads classes: `splitting_problems` (figures do not depend on blocks), `threshold_claim` (the
  tolerance), `merging_claims` and `suppression_claim` (what it reports to a search), `conformance` (hostile tables,
  against the oracle next to it);
- whatever judges: `verdict_problems` (the same verdict however the tables are arranged);
- whatever compares two tables: `comparison_problems` (no pass over tables that have nothing in common);
- an engine: `conformance`, and the others with that engine.

An entry brings along, as static methods or in a sibling module ``<module>_oracle``: ``oracle(model, classes)``, and
where needed ``thresholds(rng)`` and ``around(model, observed, facts)``, see `privpipe.blocks.oracle_classes`. A
transformer whose examples name its own columns brings a class method ``example_table()``, see `People`.

Examples
--------
>>> from dataclasses import dataclass
>>> from privpipe.blocks import ClassModel
>>> from privpipe.blocks.oracle_classes import by_class
>>> @dataclass(frozen=True, kw_only=True, repr=False)
... class MinimumSize(ClassModel):
...     threshold_field = "size"
...     hereditary = convex = True
...     size: int | None = None
...
...     def scores(self, block, facts):
...         return block.sizes
...
...     def least_size(self):
...         return self.size or 1
...
...     @staticmethod
...     def oracle(model, classes):
...         sizes = classes.sizes
...         return by_class(classes, sizes, [size >= model.size for size in sizes], min)
>>> model = MinimumSize(size=3)
>>> splitting_problems(model), all(claim.holds for claim in [*merging_claims(model), threshold_claim(model)])
([], True)
>>> conformance(PlainEngine(), models=[model]).failures
{}
"""

from __future__ import annotations

from privpipe.testing.class_blocks import block_of, facts_of, judged
from privpipe.testing.class_claims import Claim, merging_claims, splitting_problems, suppression_claim, threshold_claim
from privpipe.testing.conformance import (
    Case,
    Conformance,
    Nonconforming,
    Report,
    cases,
    catalogue_problems,
    conformance,
    examples_of,
)
from privpipe.testing.gaps import GAPS, Gap
from privpipe.testing.hostile_tables import HOSTILE_TABLES, HostileTable, many_values
from privpipe.testing.oracle import Classes, Expected, has_oracle, oracle, oracle_of
from privpipe.testing.people import People, people
from privpipe.testing.plain_engine import PlainEngine, histogram_of
from privpipe.testing.release_attacks import Finding, Published, TwoReleases, two_releases
from privpipe.testing.stages import first_outcome, stage_problems
from privpipe.testing.verdicts import (
    NOTHING_IN_COMMON,
    SETTINGS,
    Judging,
    Setting,
    comparison_problems,
    verdict_problems,
)

__all__ = [
    "GAPS",
    "HOSTILE_TABLES",
    "NOTHING_IN_COMMON",
    "SETTINGS",
    "Case",
    "Claim",
    "Classes",
    "Conformance",
    "Expected",
    "Finding",
    "Gap",
    "HostileTable",
    "Judging",
    "Nonconforming",
    "People",
    "PlainEngine",
    "Published",
    "Report",
    "Setting",
    "TwoReleases",
    "block_of",
    "cases",
    "catalogue_problems",
    "comparison_problems",
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
    "verdict_problems",
]
