"""Types of this room, made from the catalogue by `python -m tests.typing.stubs`; a test compares."""

from collections.abc import Mapping, Sequence
from typing import Literal

from privpipe.blocks import Catalogue
from privpipe.measures.risk.algorithm.downcoding import Downcoding as _Downcoding
from privpipe.measures.risk.algorithm.minimality_attack import MinimalityAttack as _MinimalityAttack
from privpipe.measures.risk.attribute.attribute_inference import AttributeInference as _AttributeInference
from privpipe.measures.risk.attribute.background_knowledge_attack import (
    BackgroundKnowledgeAttack as _BackgroundKnowledgeAttack,
)
from privpipe.measures.risk.attribute.correct_attribution import CorrectAttribution as _CorrectAttribution
from privpipe.measures.risk.attribute.homogeneity_attack import HomogeneityAttack as _HomogeneityAttack
from privpipe.measures.risk.attribute.rank_interval_disclosure import RankIntervalDisclosure as _RankIntervalDisclosure
from privpipe.measures.risk.attribute.recovery import Recovery as _Recovery
from privpipe.measures.risk.attribute.robust_interval_risk import RobustIntervalRisk as _RobustIntervalRisk
from privpipe.measures.risk.attribute.sd_interval_disclosure import SdIntervalDisclosure as _SdIntervalDisclosure
from privpipe.measures.risk.criteria.inference_attack import InferenceAttack as _InferenceAttack
from privpipe.measures.risk.criteria.linkability_attack import LinkabilityAttack as _LinkabilityAttack
from privpipe.measures.risk.criteria.singling_out_attack import SinglingOutAttack as _SinglingOutAttack
from privpipe.measures.risk.identity.attribute_risk import AttributeRisk as _AttributeRisk
from privpipe.measures.risk.identity.distinction import Distinction as _Distinction
from privpipe.measures.risk.identity.file_uniqueness import FileUniqueness as _FileUniqueness
from privpipe.measures.risk.identity.household_uniqueness import HouseholdUniqueness as _HouseholdUniqueness
from privpipe.measures.risk.identity.individual_risk import IndividualRisk as _IndividualRisk
from privpipe.measures.risk.identity.journalist_risk import JournalistRisk as _JournalistRisk
from privpipe.measures.risk.identity.loglinear_risk import LoglinearRisk as _LoglinearRisk
from privpipe.measures.risk.identity.marketer_risk import MarketerRisk as _MarketerRisk
from privpipe.measures.risk.identity.prosecutor_risk import ProsecutorRisk as _ProsecutorRisk
from privpipe.measures.risk.identity.risky_cells import RiskyCells as _RiskyCells
from privpipe.measures.risk.identity.separation import Separation as _Separation
from privpipe.measures.risk.identity.special_uniques import SpecialUniques as _SpecialUniques
from privpipe.measures.risk.linkage.learned_linkage import LearnedLinkage as _LearnedLinkage
from privpipe.measures.risk.linkage.probabilistic_linkage import ProbabilisticLinkage as _ProbabilisticLinkage
from privpipe.measures.risk.linkage.record_linkage import RecordLinkage as _RecordLinkage
from privpipe.measures.risk.linkage.transparency_attack import TransparencyAttack as _TransparencyAttack
from privpipe.measures.risk.linkage.unsorted_matching import UnsortedMatching as _UnsortedMatching
from privpipe.measures.risk.membership.closest_record import ClosestRecord as _ClosestRecord
from privpipe.measures.risk.membership.membership_attack import MembershipAttack as _MembershipAttack
from privpipe.measures.risk.membership.replicated_uniques import ReplicatedUniques as _ReplicatedUniques
from privpipe.measures.risk.releases.complementary_release import ComplementaryRelease as _ComplementaryRelease
from privpipe.measures.risk.releases.repeated_noise import RepeatedNoise as _RepeatedNoise
from privpipe.measures.utility.information_loss import InformationLoss as _InformationLoss
from privpipe.measures.utility.quality import Quality as _Quality

CATALOGUE: Catalogue

class AttributeRisk(_AttributeRisk):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        max_dim: int = ...,
        max_sets: int = ...,
    ) -> None: ...

class Distinction(_Distinction):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
    ) -> None: ...

class Separation(_Separation):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
    ) -> None: ...

class RiskyCells(_RiskyCells):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        threshold: int = ...,
        max_dim: int = ...,
        at_most: float | None = ...,
    ) -> None: ...

class ProsecutorRisk(_ProsecutorRisk):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        at_most: float | None = ...,
        figure: Literal["highest", "average", "at_risk"] = ...,
        threshold: float = ...,
    ) -> None: ...

class JournalistRisk(_JournalistRisk):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        at_most: float | None = ...,
        figure: Literal["highest", "average", "at_risk"] = ...,
        threshold: float = ...,
    ) -> None: ...

class HouseholdUniqueness(_HouseholdUniqueness):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        at_most: float | None = ...,
    ) -> None: ...

class MarketerRisk(_MarketerRisk):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        at_most: float | None = ...,
        population: bool = ...,
    ) -> None: ...

class FileUniqueness(_FileUniqueness):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        at_most: float | None = ...,
        if_no_uniques: Literal["error", "pass"] = ...,
    ) -> None: ...

class HomogeneityAttack(_HomogeneityAttack):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        column: str,
        at_most: float | None = ...,
        certainty: float = ...,
    ) -> None: ...

class AttributeInference(_AttributeInference):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        column: str,
        at_most: float | None = ...,
        gain: bool = ...,
    ) -> None: ...

class CorrectAttribution(_CorrectAttribution):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        column: str,
        at_most: float | None = ...,
        figure: Literal["disco", "tcap", "dcap"] = ...,
        exclude_majority: bool = ...,
    ) -> None: ...

class BackgroundKnowledgeAttack(_BackgroundKnowledgeAttack):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        column: str,
        at_most: float | None = ...,
        exclude_values: int | None = ...,
        insiders: int | None = ...,
        certainty: float = ...,
    ) -> None: ...

class RankIntervalDisclosure(_RankIntervalDisclosure):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        percent: float = ...,
        joint: Literal["each", "all", "any"] = ...,
        at_most: float | None = ...,
    ) -> None: ...

class SdIntervalDisclosure(_SdIntervalDisclosure):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        percent: float = ...,
        joint: Literal["each", "all", "any"] = ...,
        at_most: float | None = ...,
        sd: Literal["original", "released"] = ...,
    ) -> None: ...

class RecordLinkage(_RecordLinkage):
    def __init__(
        self,
        *,
        direction: Literal["both", "from_intruder", "from_released"] = ...,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
        metric: Literal["euclidean", "gower", "mahalanobis"] | None = ...,
        standardise: Literal["own", "original"] = ...,
        assignment: Literal["nearest", "one_to_one", "both"] = ...,
        ties: Literal["fractional", "strict", "any"] = ...,
        sample: int | None = ...,
        confidence: float = ...,
        block_by: list[str] | tuple[str, ...] = ...,
        knows: Literal["curve"] | Mapping[str, int] | None = ...,
    ) -> None: ...

class IndividualRisk(_IndividualRisk):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        weight: str,
        at_most: float | None = ...,
        figure: Literal["mean", "max", "share_above"] = ...,
        threshold: float = ...,
        household: str | None = ...,
        threshold_for: float | None = ...,
        method: Literal["exact", "approximate"] = ...,
        alpha: float = ...,
    ) -> None: ...

class LoglinearRisk(_LoglinearRisk):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        weight: str,
        formula: str,
        at_most: float | None = ...,
        figure: Literal["tau1", "tau2"] = ...,
        method: Literal["default", "ce", "pml"] = ...,
        bound: int | None = ...,
        max_cells: int = ...,
        if_no_uniques: Literal["error", "pass"] = ...,
    ) -> None: ...

class SpecialUniques(_SpecialUniques):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        max_size: int | None = ...,
        at_most: float | None = ...,
        figure: Literal["share", "dis_mean", "dis_max"] = ...,
        dis_fraction: float = ...,
        score: Literal["original", "weighted"] = ...,
    ) -> None: ...

class ProbabilisticLinkage(_ProbabilisticLinkage):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
        agreement: Mapping[str, str | Mapping[str, float | Sequence[float]]] = ...,
        false_match: float = ...,
        false_non_match: float = ...,
        block_by: list[str] | tuple[str, ...] = ...,
        sample: int | None = ...,
        confidence: float = ...,
        parameters: Literal["estimated", "known"] = ...,
        accept_unconverged: bool = ...,
    ) -> None: ...

class LearnedLinkage(_LearnedLinkage):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
        distance: Literal["weighted_mean", "owa", "bilinear", "choquet"] = ...,
        method: Literal["exact", "heuristic"] = ...,
        form: Literal["none", "nonnegative", "semidefinite"] = ...,
        submodular: bool = ...,
        sample: int | None = ...,
        confidence: float = ...,
        time_limit_s: float = ...,
    ) -> None: ...

class TransparencyAttack(_TransparencyAttack):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
        method: Literal["rank_swap", "microaggregation"] | None = ...,
        p: float | Literal["from_plan"] = ...,
        nearest: int = ...,
        sample: int | None = ...,
        confidence: float = ...,
    ) -> None: ...

class InformationLoss(_InformationLoss):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        holdout: str | None = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        measure: str,
        at_most: float | None = ...,
        target: str | None = ...,
        model: str | None = ...,
        by: str | None = ...,
        k: int | None = ...,
    ) -> None: ...

class ComplementaryRelease(_ComplementaryRelease):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        ledger: str | None = ...,
        key: Mapping[str, str] | None = ...,
        normalise: list[str] | tuple[str, ...] = ...,
        earlier: list[str] | tuple[str, ...] = ...,
        k: int | None = ...,
        presence: Literal["known", "unknown"] = ...,
        sensitive: str | None = ...,
        l: int = ...,
    ) -> None: ...

class RepeatedNoise(_RepeatedNoise):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        ledger: str | None = ...,
        key: Mapping[str, str] | None = ...,
        normalise: list[str] | tuple[str, ...] = ...,
        columns: list[str] | tuple[str, ...],
        at_least: float | None = ...,
        changed: Literal["apart", "averaged"] = ...,
    ) -> None: ...

class UnsortedMatching(_UnsortedMatching):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        at_most: float | None = ...,
    ) -> None: ...

class MembershipAttack(_MembershipAttack):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        holdout: str | None = ...,
        at_most: float | None = ...,
        sample: int | None = ...,
        confidence: float = ...,
        score: Literal["closest", "density", "both"] = ...,
        reference: str | None = ...,
        radius: float = ...,
        false_positive_rate: float = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
    ) -> None: ...

class ClosestRecord(_ClosestRecord):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        holdout: str | None = ...,
        at_least: float | None = ...,
        figure: Literal["ratio", "closer", "copies"] = ...,
        at_most: float | None = ...,
        confidence: float = ...,
        sample: int | None = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
    ) -> None: ...

class ReplicatedUniques(_ReplicatedUniques):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
        holdout: str | None = ...,
    ) -> None: ...

class SinglingOutAttack(_SinglingOutAttack):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        holdout: str | None = ...,
        at_most: float | None = ...,
        figure: Literal["excess", "gain", "success"] | None = ...,
        confidence: float = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        mode: Literal["multivariate", "univariate"] = ...,
        size: int = ...,
        attacks: int | None = ...,
        if_no_predicates: Literal["error", "pass"] = ...,
    ) -> None: ...

class LinkabilityAttack(_LinkabilityAttack):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        holdout: str | None = ...,
        at_most: float | None = ...,
        figure: Literal["excess", "gain", "success"] | None = ...,
        confidence: float = ...,
        sample: int | None = ...,
        targets: Literal["all", "outliers"] = ...,
        outlier_share: float = ...,
        known: Sequence[list[str] | tuple[str, ...]],
        neighbours: int = ...,
    ) -> None: ...

class InferenceAttack(_InferenceAttack):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        holdout: str | None = ...,
        at_most: float | None = ...,
        figure: Literal["excess", "gain", "success"] | None = ...,
        confidence: float = ...,
        sample: int | None = ...,
        targets: Literal["all", "outliers"] = ...,
        outlier_share: float = ...,
        column: str,
        columns: list[str] | tuple[str, ...] | None = ...,
        guess: Literal["nearest", "model", "both"] = ...,
        tolerance: Mapping[str, float] | None = ...,
        model: Literal["logistic", "tree"] = ...,
        by_value: bool = ...,
    ) -> None: ...

class RobustIntervalRisk(_RobustIntervalRisk):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
        k: float = ...,
        k2: float = ...,
        figure: Literal["inside", "isolated"] = ...,
        estimator: Literal["mcd", "classical"] = ...,
    ) -> None: ...

class Recovery(_Recovery):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
        pairs: bool = ...,
        max_distinct: float = ...,
        min_group: int = ...,
    ) -> None: ...

class Downcoding(_Downcoding):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        at_most: float | None = ...,
        prior: str = ...,
        k: int | None = ...,
    ) -> None: ...

class MinimalityAttack(_MinimalityAttack):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
        column: str,
        at_most: float | None = ...,
        worlds: int = ...,
    ) -> None: ...

class Quality(_Quality):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        name: Literal[
            "loss",
            "precision",
            "precision_monotonic",
            "entropy",
            "entropy_monotonic",
            "normalized_entropy",
            "discernibility",
            "discernibility_monotonic",
            "aecs",
            "height",
            "ambiguity",
            "kl_divergence",
            "entropy_based",
            "publisher_payout",
            "static",
            "classification",
            "average_class_size",
            "c_avg",
            "ncp",
            "gcp",
            "cell_loss",
        ] = ...,
        aggregate: Literal["geometric_mean", "arithmetic_mean", "sum", "max", "rank"] | None = ...,
        gs_factor: float = ...,
        weights: Mapping[str, float] | None = ...,
        compat: Literal["arx"] | None = ...,
        attacker: Literal["prosecutor", "journalist"] | None = ...,
        publisher_benefit: float | None = ...,
        publisher_loss: float | None = ...,
        adversary_gain: float | None = ...,
        adversary_cost: float | None = ...,
        penalties: Mapping[str, list[float]] | None = ...,
        response: str | None = ...,
        k: int | None = ...,
        at_most: float | None = ...,
    ) -> None: ...
