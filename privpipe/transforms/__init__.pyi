"""Types of this room, made from the catalogue by `python -m tests.typing.stubs`; a test compares."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from privpipe.blocks import Catalogue
from privpipe.blocks.quality_spec import LossSpec
from privpipe.transforms.coding.bottom_code import BottomCode as _BottomCode
from privpipe.transforms.coding.round import Round as _Round
from privpipe.transforms.coding.shift_dates import ShiftDates as _ShiftDates
from privpipe.transforms.coding.top_code import TopCode as _TopCode
from privpipe.transforms.identifiers.drop_identifiers import DropIdentifiers as _DropIdentifiers
from privpipe.transforms.identifiers.pseudonymise import Pseudonymise as _Pseudonymise
from privpipe.transforms.local_recoding.local_recoding import LocalRecoding as _LocalRecoding
from privpipe.transforms.local_suppression.stage import ByRisk, CellBudget, Combination
from privpipe.transforms.local_suppression.suppress_cells import SuppressCells as _SuppressCells
from privpipe.transforms.microaggregation.fuzzy_microaggregate import FuzzyMicroaggregate as _FuzzyMicroaggregate
from privpipe.transforms.microaggregation.microaggregate import Microaggregate as _Microaggregate
from privpipe.transforms.microaggregation.parameters import SensitiveRule
from privpipe.transforms.mondrian.mondrian import Mondrian as _Mondrian
from privpipe.transforms.noise.add_noise import AddNoise as _AddNoise
from privpipe.transforms.noise.pram import Pram as _Pram
from privpipe.transforms.noise.pram import TransitionMatrix
from privpipe.transforms.recoding.generalize import Generalize as _Generalize
from privpipe.transforms.recoding.stage import SearchBudget
from privpipe.transforms.sampling.safepub import Safepub as _Safepub
from privpipe.transforms.sampling.sample import Sample as _Sample
from privpipe.transforms.suppression.suppress_records import SuppressRecords as _SuppressRecords
from privpipe.transforms.swapping.rank_swap import RankSwap as _RankSwap
from privpipe.transforms.swapping.record_swap import RecordSwap as _RecordSwap
from privpipe.transforms.synthesis.marginal_model import Domain
from privpipe.transforms.synthesis.shuffle import Shuffle as _Shuffle
from privpipe.transforms.synthesis.synthesize import Synthesize as _Synthesize
from privpipe.transforms.synthesis.tree_rules import SynthesisRule

CATALOGUE: Catalogue

class Generalize(_Generalize):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        search: Literal["optimal", "minimal", "datafly", "bottom_up", "top_down", "genetic"] | None = ...,
        levels: Mapping[str, int] | None = ...,
        loss: LossSpec | Mapping[str, Any] = ...,
        suppress_at_most: float | None = ...,
        criteria: Sequence[
            Literal[
                "minimum_suppression", "minimum_absolute_distance", "minimum_relative_distance", "maximum_distribution"
            ]
        ]
        | None = ...,
        minimal: Literal["one", "all"] = ...,
        mark: bool = ...,
        roots_only: bool = ...,
        approach: Literal["AG_TS", "AG_AS", "AG_CS", "AG_", "CG_TS", "CG_AS", "CG_CS", "CG_", "_TS", "_AS", "_CS", "_"]
        | None = ...,
        budget: SearchBudget | Mapping[str, Any] = ...,
    ) -> None: ...

class Mondrian(_Mondrian):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        k: int | None = ...,
        mode: Literal["strict", "relaxed"] = ...,
        score: Literal["width", "loss"] = ...,
        labels: Literal["cells", "values"] = ...,
        lookahead: int = ...,
    ) -> None: ...

class LocalRecoding(_LocalRecoding):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        method: Literal["sweep", "search", "rounds"] = ...,
        share: float | None = ...,
        steps: int = ...,
        block: int = ...,
        gs_factor: float = ...,
        rest: Literal["suppress", "merge"] = ...,
        suppress_at_most: float = ...,
    ) -> None: ...

class SuppressRecords(_SuppressRecords):
    def __init__(
        self, *, suppress_at_most: float = ..., whole: Literal["records", "households"] | None = ...
    ) -> None: ...

class Safepub(_Safepub):
    def __init__(self, *, epsilon: float, delta: float, levels: Mapping[str, int] = ...) -> None: ...

class SuppressCells(_SuppressCells):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        k: int | None = ...,
        method: Literal["greedy", "optimal"] = ...,
        weights: Mapping[str, float] = ...,
        order: list[str] | tuple[str, ...] | None = ...,
        by: list[str] | tuple[str, ...] = ...,
        combinations: Sequence[Combination | Mapping[str, Any]] = ...,
        by_risk: ByRisk | Mapping[str, Any] | None = ...,
        alone_at_most: float = ...,
        along: Mapping[str, list[str] | tuple[str, ...]] = ...,
        suppress_at_most: float = ...,
        budget: CellBudget | Mapping[str, Any] = ...,
    ) -> None: ...

class Microaggregate(_Microaggregate):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | Sequence[list[str] | tuple[str, ...]],
        k: int | Sequence[int],
        method: Literal["mdav", "v_mdav", "univariate", "fixed"] = ...,
        refine: Literal["none", "descent", "search", "proof"] | None = ...,
        iterations: int | Literal["auto"] = ...,
        gamma: float = ...,
        block: int | Literal["auto"] = ...,
        passes: int | Literal["auto"] = ...,
        aggregate: Literal["mean", "median", "trimmed_mean", "weighted_mean", "mode", "medoid"] = ...,
        trim: float = ...,
        weight: str | None = ...,
        distance: Literal["euclidean", "gower"] = ...,
        order: Mapping[str, list[str] | tuple[str, ...]] | None = ...,
        weights: Mapping[str, float] | None = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
        sensitive: SensitiveRule | Mapping[str, Any] | None = ...,
        keep_ties: bool = ...,
        nulls: Literal["refuse", "keep", "own_group"] | None = ...,
        round: bool = ...,
        ties: Literal["keyed", "position"] = ...,
    ) -> None: ...

class FuzzyMicroaggregate(_FuzzyMicroaggregate):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        k: int,
        neighbours: int = ...,
        fuzziness: float = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
        nulls: Literal["refuse", "keep", "own_group"] | None = ...,
        round: bool = ...,
    ) -> None: ...

class RankSwap(_RankSwap):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        p: float | None = ...,
        keep_correlation: float | None = ...,
        keep_mean: float | None = ...,
        partner: Literal["unswapped", "content", "skip"] = ...,
        kind: Literal["window", "buckets", "distribution"] = ...,
        buckets: int = ...,
        top: float = ...,
        bottom: float = ...,
        segment: int | Literal["auto"] | None = ...,
        nulls: Literal["keep", "refuse"] = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
    ) -> None: ...

class RecordSwap(_RecordSwap):
    def __init__(
        self,
        *,
        areas: list[str] | tuple[str, ...],
        rate: float = ...,
        similar: list[str] | tuple[str, ...] | Sequence[list[str] | tuple[str, ...]] = ...,
        risk_variables: list[str] | tuple[str, ...] | None = ...,
        k: int | Sequence[int] = ...,
        risk: str | list[str] | tuple[str, ...] | None = ...,
        threshold: float | None = ...,
        household: str | None = ...,
        along: list[str] | tuple[str, ...] = ...,
        without_donor: Literal["keep", "refuse"] = ...,
    ) -> None: ...

class AddNoise(_AddNoise):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        kind: Literal["uncorrelated", "correlated", "multiplicative", "orthogonal"] = ...,
        variance_ratio: float | None = ...,
        relative_sd: float | None = ...,
        keep_zeros: bool = ...,
        clip: tuple[float, float] | Literal["domain"] | None = ...,
        bias_correct: bool = ...,
        round: bool = ...,
        block: int = ...,
        nulls: Literal["keep", "refuse"] = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
        same_within: Literal["household_id", "person_id"] | None = ...,
        outliers: float | None = ...,
    ) -> None: ...

class Pram(_Pram):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        diagonal: float | tuple[float, float] = ...,
        alpha: float = ...,
        matrix: TransitionMatrix | Mapping[str, Any] | None = ...,
        invariant: bool = ...,
        spread: Literal["even", "adjacent"] = ...,
        joint: bool = ...,
        forbid: Sequence[list[str] | tuple[str, ...]] = ...,
        nulls: Literal["keep", "refuse", "own_value"] = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
        same_within: Literal["household_id", "person_id"] | None = ...,
    ) -> None: ...

class Shuffle(_Shuffle):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        given: list[str] | tuple[str, ...] = ...,
        nulls: Literal["keep", "refuse"] = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
    ) -> None: ...

class Synthesize(_Synthesize):
    def __init__(
        self,
        *,
        method: Literal["cart", "copula", "marginals"] = ...,
        columns: list[str] | tuple[str, ...] | Literal["all"] | None = ...,
        given: list[str] | tuple[str, ...] = ...,
        order: list[str] | tuple[str, ...] | Literal["entropy", "gain", "table"] = ...,
        min_leaf: int = ...,
        learn_on: int = ...,
        rules: Sequence[SynthesisRule | Mapping[str, Any]] = ...,
        zeros: Literal["found", "declared"] = ...,
        scores: Literal["optimal", "frequency"] = ...,
        levels: Mapping[str, list[str] | tuple[str, ...]] = ...,
        epsilon: float | None = ...,
        delta: float | None = ...,
        unit: Literal["record", "person"] = ...,
        most_records: int = ...,
        domains: Mapping[str, Domain | Mapping[str, Any]] = ...,
        records: int | Literal["same"] = ...,
        max_categories: int = ...,
        smoothing: Literal["histogram"] = ...,
        bins: int = ...,
        min_count: int = ...,
        rare: Literal["other", "drop"] = ...,
        nulls: Literal["keep", "refuse", "model"] | None = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
    ) -> None: ...

class TopCode(_TopCode):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        at: int | float | str | None = ...,
        quantile: float | None = ...,
        distance: float | None = ...,
        replace: Literal["threshold", "mean", "label"] = ...,
        label: str | None = ...,
        at_least: int = ...,
        round: bool = ...,
        nulls: Literal["keep", "refuse"] = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
    ) -> None: ...

class BottomCode(_BottomCode):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        at: int | float | str | None = ...,
        quantile: float | None = ...,
        distance: float | None = ...,
        replace: Literal["threshold", "mean", "label"] = ...,
        label: str | None = ...,
        at_least: int = ...,
        round: bool = ...,
        nulls: Literal["keep", "refuse"] = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
    ) -> None: ...

class Round(_Round):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        base: float,
        mode: Literal["nearest", "random", "down"] = ...,
        nulls: Literal["keep", "refuse"] = ...,
    ) -> None: ...

class Sample(_Sample):
    def __init__(
        self,
        *,
        fraction: float | None = ...,
        records: int | None = ...,
        by: list[str] | tuple[str, ...] = ...,
        weight: str | None = ...,
        same_within: Literal["household_id", "person_id"] | None = ...,
    ) -> None: ...

class ShiftDates(_ShiftDates):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        days: int,
        key: Mapping[str, str],
        nulls: Literal["keep", "refuse"] = ...,
    ) -> None: ...

class DropIdentifiers(_DropIdentifiers):
    def __init__(self) -> None: ...

class Pseudonymise(_Pseudonymise):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...],
        key: Mapping[str, str],
        domain: str,
        length: int = ...,
        canonical: Literal["typed", "text"] = ...,
    ) -> None: ...
