"""Privacy models: small pure functions over blocks of whole classes. No model depends on an engine."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.entry import Catalogue

CATALOGUE = Catalogue(
    "privpipe.models",
    "privacy model",
    {
        "NoIdentifiers": "identity.no_identifiers",
        "KAnonymity": "identity.k_anonymity",
        "HouseholdKAnonymity": "identity.households",
        "WholeHouseholds": "identity.households",
        "KMap": "identity.k_map",
        "EstimatedKMap": "identity.k_map",
        "KmAnonymity": "identity.km_anonymity",
        "AverageRisk": "identity.average_risk",
        "StrictAverageRisk": "identity.average_risk",
        "SampleUniqueness": "identity.sample_uniqueness",
        "PopulationUniqueness": "identity.population_uniqueness",
        "DistinctLDiversity": "attribute.l_diversity",
        "EntropyLDiversity": "attribute.l_diversity",
        "RecursiveCLDiversity": "attribute.l_diversity",
        "PSensitiveKAnonymity": "attribute.p_sensitive_k_anonymity",
        "AlphaKAnonymity": "attribute.alpha_k_anonymity",
        "TCloseness": "attribute.t_closeness",
        "DeltaDisclosure": "attribute.delta_disclosure",
        "BasicBetaLikeness": "attribute.beta_likeness",
        "EnhancedBetaLikeness": "attribute.beta_likeness",
        "DeltaPresence": "membership.delta_presence",
        "ProsecutorProfitability": "economic.profitability",
        "JournalistProfitability": "economic.profitability",
        "DifferentialPrivacy": "process.differential_privacy",
        "IntegralPrivacy": "process.integral_privacy",
    },
    other_names={"l_diversity": "distinct_l_diversity"},
)

__all__ = sorted(("CATALOGUE", *CATALOGUE.class_names))


def __getattr__(name: str) -> Any:
    return CATALOGUE.attribute(name)


def __dir__() -> list[str]:
    return CATALOGUE.attributes()
