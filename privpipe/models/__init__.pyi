"""Types of this room, made from the catalogue by `python -m tests.typing.stubs`; a test compares."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from privpipe.blocks import Catalogue
from privpipe.models.attribute.alpha_k_anonymity import AlphaKAnonymity as _AlphaKAnonymity
from privpipe.models.attribute.base_distribution import BaseDatabase, BaseFile, BaseNamed
from privpipe.models.attribute.basic_beta_likeness import BasicBetaLikeness as _BasicBetaLikeness
from privpipe.models.attribute.delta_disclosure import DeltaDisclosure as _DeltaDisclosure
from privpipe.models.attribute.distinct_l_diversity import DistinctLDiversity as _DistinctLDiversity
from privpipe.models.attribute.enhanced_beta_likeness import EnhancedBetaLikeness as _EnhancedBetaLikeness
from privpipe.models.attribute.entropy_l_diversity import EntropyLDiversity as _EntropyLDiversity
from privpipe.models.attribute.p_sensitive_k_anonymity import PSensitiveKAnonymity as _PSensitiveKAnonymity
from privpipe.models.attribute.recursive_cl_diversity import RecursiveCLDiversity as _RecursiveCLDiversity
from privpipe.models.attribute.t_closeness import TCloseness as _TCloseness
from privpipe.models.economic.journalist_profitability import JournalistProfitability as _JournalistProfitability
from privpipe.models.economic.prosecutor_profitability import ProsecutorProfitability as _ProsecutorProfitability
from privpipe.models.identity.average_risk import AverageRisk as _AverageRisk
from privpipe.models.identity.estimated_k_map import EstimatedKMap as _EstimatedKMap
from privpipe.models.identity.household_k_anonymity import HouseholdKAnonymity as _HouseholdKAnonymity
from privpipe.models.identity.k_anonymity import KAnonymity as _KAnonymity
from privpipe.models.identity.k_map import KMap as _KMap
from privpipe.models.identity.km_anonymity import KmAnonymity as _KmAnonymity
from privpipe.models.identity.no_identifiers import NoIdentifiers as _NoIdentifiers
from privpipe.models.identity.population_uniqueness import PopulationUniqueness as _PopulationUniqueness
from privpipe.models.identity.sample_uniqueness import SampleUniqueness as _SampleUniqueness
from privpipe.models.identity.strict_average_risk import StrictAverageRisk as _StrictAverageRisk
from privpipe.models.identity.whole_households import WholeHouseholds as _WholeHouseholds
from privpipe.models.membership.delta_presence import DeltaPresence as _DeltaPresence
from privpipe.models.process.differential_privacy import DifferentialPrivacy as _DifferentialPrivacy
from privpipe.models.process.integral_privacy import IntegralPrivacy as _IntegralPrivacy
from privpipe.models.process.integral_privacy import StatisticQuery

CATALOGUE: Catalogue

class NoIdentifiers(_NoIdentifiers):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
    ) -> None: ...

class KAnonymity(_KAnonymity):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        k: int | None = ...,
        alone_at_most: float | None = ...,
    ) -> None: ...

class HouseholdKAnonymity(_HouseholdKAnonymity):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        k: int | None = ...,
    ) -> None: ...

class WholeHouseholds(_WholeHouseholds):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        at_most: int = ...,
    ) -> None: ...

class KMap(_KMap):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        k: int | None = ...,
    ) -> None: ...

class EstimatedKMap(_EstimatedKMap):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        k: int | None = ...,
        population_size: int,
        significance: float,
        estimator: Literal["poisson", "zero_truncated_poisson"] = ...,
    ) -> None: ...

class KmAnonymity(_KmAnonymity):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        k: int | None = ...,
        m: int,
        columns: list[str] | tuple[str, ...] | None = ...,
        items: str | None = ...,
        separator: str | None = ...,
    ) -> None: ...

class AverageRisk(_AverageRisk):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        at_most: float | None = ...,
    ) -> None: ...

class StrictAverageRisk(_StrictAverageRisk):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        at_most: float | None = ...,
        highest: float,
        records_at_risk: float = ...,
    ) -> None: ...

class SampleUniqueness(_SampleUniqueness):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        at_most: float | None = ...,
    ) -> None: ...

class PopulationUniqueness(_PopulationUniqueness):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        at_most: float | None = ...,
        population_size: int,
        estimator: Literal["dankar", "pitman", "zayatz", "snb"] = ...,
    ) -> None: ...

class DistinctLDiversity(_DistinctLDiversity):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        column: str,
        l: int | None = ...,
    ) -> None: ...

class EntropyLDiversity(_EntropyLDiversity):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        column: str,
        l: float | None = ...,
        estimator: Literal["shannon", "grassberger"] = ...,
    ) -> None: ...

class RecursiveCLDiversity(_RecursiveCLDiversity):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        column: str,
        l: int,
        c: float | None = ...,
    ) -> None: ...

class PSensitiveKAnonymity(_PSensitiveKAnonymity):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        k: int | None = ...,
        p: int | None = ...,
        columns: list[str] | tuple[str, ...] | None = ...,
    ) -> None: ...

class AlphaKAnonymity(_AlphaKAnonymity):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        k: int | None = ...,
        alpha: float | None = ...,
        column: str | None = ...,
        values: Sequence[str | int | float] | None = ...,
    ) -> None: ...

class TCloseness(_TCloseness):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        column: str,
        t: float | None = ...,
        distance: Literal["equal", "ordered", "hierarchical"] = ...,
        order: Literal["text"] | Sequence[str | int | float] | None = ...,
        hierarchy: Mapping[str, Any] | None = ...,
        base: Literal["original", "released"]
        | BaseFile
        | Mapping[str, Any]
        | BaseDatabase
        | Mapping[str, Any]
        | BaseNamed
        | Mapping[str, Any] = ...,
    ) -> None: ...

class DeltaDisclosure(_DeltaDisclosure):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        column: str,
        delta: float | None = ...,
        absent: Literal["present_only", "strict"] = ...,
        base: Literal["original", "released"]
        | BaseFile
        | Mapping[str, Any]
        | BaseDatabase
        | Mapping[str, Any]
        | BaseNamed
        | Mapping[str, Any] = ...,
    ) -> None: ...

class BasicBetaLikeness(_BasicBetaLikeness):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        column: str,
        beta: float | None = ...,
        base: Literal["original", "released"]
        | BaseFile
        | Mapping[str, Any]
        | BaseDatabase
        | Mapping[str, Any]
        | BaseNamed
        | Mapping[str, Any] = ...,
    ) -> None: ...

class EnhancedBetaLikeness(_EnhancedBetaLikeness):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        column: str,
        beta: float | None = ...,
        base: Literal["original", "released"]
        | BaseFile
        | Mapping[str, Any]
        | BaseDatabase
        | Mapping[str, Any]
        | BaseNamed
        | Mapping[str, Any] = ...,
    ) -> None: ...

class DeltaPresence(_DeltaPresence):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        min: float = ...,
        max: float | None = ...,
    ) -> None: ...

class ProsecutorProfitability(_ProsecutorProfitability):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        publisher_benefit: float = ...,
        publisher_loss: float = ...,
        adversary_gain: float = ...,
        adversary_cost: float = ...,
        no_attack: bool = ...,
    ) -> None: ...

class JournalistProfitability(_JournalistProfitability):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        over: Literal["records", "persons", "households"] | None = ...,
        publisher_benefit: float = ...,
        publisher_loss: float = ...,
        adversary_gain: float = ...,
        adversary_cost: float = ...,
        no_attack: bool = ...,
    ) -> None: ...

class DifferentialPrivacy(_DifferentialPrivacy):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        epsilon: float,
        delta: float,
    ) -> None: ...

class IntegralPrivacy(_IntegralPrivacy):
    def __init__(
        self,
        *,
        quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
        severity: Literal["fail", "warn"] = ...,
        k: int | None = ...,
        query: StatisticQuery | Mapping[str, Any],
        changes: int = ...,
    ) -> None: ...
