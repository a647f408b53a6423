"""Risk and utility measures: reported, or demanded by a threshold."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.catalogue import Catalogue

CATALOGUE = Catalogue(
    "privpipe.measures",
    "measure",
    {
        "AttributeRisk": "risk.attribute_risk",
        "Distinction": "risk.distinction",
        "Separation": "risk.separation",
        "RiskyCells": "risk.risky_cells",
        "ProsecutorRisk": "risk.prosecutor_risk",
        "JournalistRisk": "risk.journalist_risk",
        "MarketerRisk": "risk.marketer_risk",
        "FileUniqueness": "risk.file_uniqueness",
        "HomogeneityAttack": "risk.homogeneity_attack",
        "AttributeInference": "risk.attribute_inference",
        "BackgroundKnowledgeAttack": "risk.background_knowledge_attack",
        "RankIntervalDisclosure": "risk.rank_interval_disclosure",
        "SdIntervalDisclosure": "risk.sd_interval_disclosure",
        "RecordLinkage": "risk.record_linkage",
        "IndividualRisk": "risk.individual_risk",
        "LoglinearRisk": "risk.loglinear_risk",
        "SpecialUniques": "risk.special_uniques",
        "ProbabilisticLinkage": "risk.probabilistic_linkage",
        "LearnedLinkage": "risk.learned_linkage",
        "TransparencyAttack": "risk.transparency_attack",
        "InformationLoss": "utility.information_loss",
        "ComplementaryRelease": "risk.complementary_release",
        "RepeatedNoise": "risk.repeated_noise",
        "UnsortedMatching": "risk.unsorted_matching",
        "MembershipAttack": "risk.membership_attack",
        "ClosestRecord": "risk.closest_record",
        "RobustIntervalRisk": "risk.robust_interval_risk",
        "Recovery": "risk.recovery",
        "Downcoding": "risk.downcoding",
        "MinimalityAttack": "risk.minimality_attack",
        "Quality": "utility.quality",
    },
)

__all__ = sorted(("CATALOGUE", *CATALOGUE.class_names))


def __getattr__(name: str) -> Any:
    if name in CATALOGUE.class_names:
        return CATALOGUE.of_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
