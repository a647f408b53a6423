"""Risk and utility measures: reported, or demanded by a threshold."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.entry import Catalogue

CATALOGUE = Catalogue(
    "privpipe.measures",
    "measure",
    {
        "AttributeRisk": "risk.identity.attribute_risk",
        "Distinction": "risk.identity.attribute_risk",
        "Separation": "risk.identity.attribute_risk",
        "RiskyCells": "risk.identity.risky_combinations",
        "ProsecutorRisk": "risk.identity.reidentification_risk",
        "JournalistRisk": "risk.identity.reidentification_risk",
        "HouseholdUniqueness": "risk.identity.reidentification_risk",
        "MarketerRisk": "risk.identity.reidentification_risk",
        "FileUniqueness": "risk.identity.reidentification_risk",
        "HomogeneityAttack": "risk.attribute.class_inference",
        "AttributeInference": "risk.attribute.class_inference",
        "CorrectAttribution": "risk.attribute.correct_attribution",
        "BackgroundKnowledgeAttack": "risk.attribute.class_inference",
        "RankIntervalDisclosure": "risk.attribute.interval_disclosure",
        "SdIntervalDisclosure": "risk.attribute.interval_disclosure",
        "RecordLinkage": "risk.linkage.record_linkage",
        "KConcealment": "risk.linkage.k_concealment",
        "KConfusion": "risk.linkage.k_confusion",
        "IndividualRisk": "risk.identity.individual_risk",
        "LoglinearRisk": "risk.identity.loglinear_risk",
        "SpecialUniques": "risk.identity.risky_combinations",
        "ProbabilisticLinkage": "risk.linkage.probabilistic_linkage",
        "LearnedLinkage": "risk.linkage.learned_linkage",
        "TransparencyAttack": "risk.linkage.transparency_attack",
        "InformationLoss": "utility.information_loss",
        "ComplementaryRelease": "risk.releases.complementary_release",
        "RepeatedNoise": "risk.releases.repeated_noise",
        "UnsortedMatching": "risk.linkage.unsorted_matching",
        "MembershipAttack": "risk.membership.membership_attack",
        "ClosestRecord": "risk.membership.closest_record",
        "ReplicatedUniques": "risk.membership.replicated_uniques",
        "SinglingOutAttack": "risk.criteria.singling_out_attack",
        "LinkabilityAttack": "risk.criteria.linkability_attack",
        "InferenceAttack": "risk.criteria.inference_attack",
        "RobustIntervalRisk": "risk.attribute.interval_disclosure",
        "Recovery": "risk.attribute.recovery",
        "ResultPrivacy": "risk.attribute.result_privacy",
        "Downcoding": "risk.algorithm.downcoding",
        "MinimalityAttack": "risk.algorithm.minimality_attack",
        "Quality": "utility.quality",
    },
)

__all__ = sorted(("CATALOGUE", *CATALOGUE.class_names))


def __getattr__(name: str) -> Any:
    return CATALOGUE.attribute(name)


def __dir__() -> list[str]:
    return CATALOGUE.attributes()
