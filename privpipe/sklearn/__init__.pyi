"""Types of this room, made from the catalogue by `python -m tests.typing.stubs`; a test compares."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from privpipe.blocks import Guarantee
from privpipe.blocks.quality_spec import LossSpec
from privpipe.draws import Seed
from privpipe.roles import NullRule, Roles
from privpipe.sklearn.estimator import StageEstimator as StageEstimator
from privpipe.transforms.local_suppression.stage import ByRisk, CellBudget, Combination
from privpipe.transforms.microaggregation.parameters import SensitiveRule
from privpipe.transforms.noise.pram import TransitionMatrix
from privpipe.transforms.recoding.stage import SearchBudget
from privpipe.transforms.synthesis.marginal_model import Domain
from privpipe.transforms.synthesis.tree_rules import SynthesisRule

class Generalize(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        search: Literal["optimal", "minimal", "datafly", "bottom_up", "top_down", "genetic"] | None = ...,
        levels: Mapping[str, int] | None = ...,
        loss: LossSpec | Mapping[str, Any] | None = ...,
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
        budget: SearchBudget | Mapping[str, Any] | None = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        policy_mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    search: Literal["optimal", "minimal", "datafly", "bottom_up", "top_down", "genetic"] | None
    levels: Mapping[str, int] | None
    loss: LossSpec | Mapping[str, Any] | None
    suppress_at_most: float | None
    criteria: (
        Sequence[
            Literal[
                "minimum_suppression", "minimum_absolute_distance", "minimum_relative_distance", "maximum_distribution"
            ]
        ]
        | None
    )
    minimal: Literal["one", "all"]
    mark: bool
    roots_only: bool
    approach: (
        Literal["AG_TS", "AG_AS", "AG_CS", "AG_", "CG_TS", "CG_AS", "CG_CS", "CG_", "_TS", "_AS", "_CS", "_"] | None
    )
    budget: SearchBudget | Mapping[str, Any] | None
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    policy_mark: str | None

class Mondrian(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        k: int | None = ...,
        mode: Literal["strict", "relaxed"] = ...,
        score: Literal["width", "loss"] = ...,
        labels: Literal["cells", "values"] = ...,
        lookahead: int = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    k: int | None
    mode: Literal["strict", "relaxed"]
    score: Literal["width", "loss"]
    labels: Literal["cells", "values"]
    lookahead: int
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None

class LocalRecoding(StageEstimator):
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
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    method: Literal["sweep", "search", "rounds"]
    share: float | None
    steps: int
    block: int
    gs_factor: float
    rest: Literal["suppress", "merge"]
    suppress_at_most: float
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None

class SuppressRecords(StageEstimator):
    def __init__(
        self,
        *,
        suppress_at_most: float = ...,
        whole: Literal["records", "households"] | None = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    suppress_at_most: float
    whole: Literal["records", "households"] | None
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None

class Safepub(StageEstimator):
    def __init__(
        self,
        *,
        epsilon: float | None = ...,
        delta: float | None = ...,
        levels: Mapping[str, int] | None = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    epsilon: float | None
    delta: float | None
    levels: Mapping[str, int] | None
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None

class SuppressCells(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        k: int | None = ...,
        method: Literal["greedy", "optimal"] = ...,
        weights: Mapping[str, float] | None = ...,
        order: list[str] | tuple[str, ...] | None = ...,
        by: list[str] | tuple[str, ...] = ...,
        combinations: Sequence[Combination | Mapping[str, Any]] = ...,
        by_risk: ByRisk | Mapping[str, Any] | None = ...,
        alone_at_most: float = ...,
        along: Mapping[str, list[str] | tuple[str, ...]] | None = ...,
        suppress_at_most: float = ...,
        budget: CellBudget | Mapping[str, Any] = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    k: int | None
    method: Literal["greedy", "optimal"]
    weights: Mapping[str, float] | None
    order: list[str] | tuple[str, ...] | None
    by: list[str] | tuple[str, ...]
    combinations: Sequence[Combination | Mapping[str, Any]]
    by_risk: ByRisk | Mapping[str, Any] | None
    alone_at_most: float
    along: Mapping[str, list[str] | tuple[str, ...]] | None
    suppress_at_most: float
    budget: CellBudget | Mapping[str, Any]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None

class Microaggregate(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | Sequence[list[str] | tuple[str, ...]] | None = ...,
        k: int | Sequence[int] | None = ...,
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
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | Sequence[list[str] | tuple[str, ...]] | None
    k: int | Sequence[int] | None
    method: Literal["mdav", "v_mdav", "univariate", "fixed"]
    refine: Literal["none", "descent", "search", "proof"] | None
    iterations: int | Literal["auto"]
    gamma: float
    block: int | Literal["auto"]
    passes: int | Literal["auto"]
    aggregate: Literal["mean", "median", "trimmed_mean", "weighted_mean", "mode", "medoid"]
    trim: float
    weight: str | None
    distance: Literal["euclidean", "gower"]
    order: Mapping[str, list[str] | tuple[str, ...]] | None
    weights: Mapping[str, float] | None
    by: list[str] | tuple[str, ...]
    small_strata: Literal["refuse", "suppress", "merge"]
    sensitive: SensitiveRule | Mapping[str, Any] | None
    keep_ties: bool
    nulls: Literal["refuse", "keep", "own_group"] | None
    round: bool
    ties: Literal["keyed", "position"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class FuzzyMicroaggregate(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        k: int | None = ...,
        neighbours: int = ...,
        fuzziness: float = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
        nulls: Literal["refuse", "keep", "own_group"] | None = ...,
        round: bool = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    k: int | None
    neighbours: int
    fuzziness: float
    by: list[str] | tuple[str, ...]
    small_strata: Literal["refuse", "suppress", "merge"]
    nulls: Literal["refuse", "keep", "own_group"] | None
    round: bool
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class RankSwap(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
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
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    p: float | None
    keep_correlation: float | None
    keep_mean: float | None
    partner: Literal["unswapped", "content", "skip"]
    kind: Literal["window", "buckets", "distribution"]
    buckets: int
    top: float
    bottom: float
    segment: int | Literal["auto"] | None
    nulls: Literal["keep", "refuse"]
    by: list[str] | tuple[str, ...]
    small_strata: Literal["refuse", "suppress", "merge"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class RecordSwap(StageEstimator):
    def __init__(
        self,
        *,
        areas: list[str] | tuple[str, ...] | None = ...,
        rate: float = ...,
        similar: list[str] | tuple[str, ...] | Sequence[list[str] | tuple[str, ...]] = ...,
        risk_variables: list[str] | tuple[str, ...] | None = ...,
        k: int | Sequence[int] = ...,
        risk: str | list[str] | tuple[str, ...] | None = ...,
        threshold: float | None = ...,
        household: str | None = ...,
        along: list[str] | tuple[str, ...] = ...,
        without_donor: Literal["keep", "refuse"] = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    areas: list[str] | tuple[str, ...] | None
    rate: float
    similar: list[str] | tuple[str, ...] | Sequence[list[str] | tuple[str, ...]]
    risk_variables: list[str] | tuple[str, ...] | None
    k: int | Sequence[int]
    risk: str | list[str] | tuple[str, ...] | None
    threshold: float | None
    household: str | None
    along: list[str] | tuple[str, ...]
    without_donor: Literal["keep", "refuse"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None

class AddNoise(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
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
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    kind: Literal["uncorrelated", "correlated", "multiplicative", "orthogonal"]
    variance_ratio: float | None
    relative_sd: float | None
    keep_zeros: bool
    clip: tuple[float, float] | Literal["domain"] | None
    bias_correct: bool
    round: bool
    block: int
    nulls: Literal["keep", "refuse"]
    by: list[str] | tuple[str, ...]
    small_strata: Literal["refuse", "suppress", "merge"]
    same_within: Literal["household_id", "person_id"] | None
    outliers: float | None
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class Pram(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
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
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    diagonal: float | tuple[float, float]
    alpha: float
    matrix: TransitionMatrix | Mapping[str, Any] | None
    invariant: bool
    spread: Literal["even", "adjacent"]
    joint: bool
    forbid: Sequence[list[str] | tuple[str, ...]]
    nulls: Literal["keep", "refuse", "own_value"]
    by: list[str] | tuple[str, ...]
    small_strata: Literal["refuse", "suppress", "merge"]
    same_within: Literal["household_id", "person_id"] | None
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class Shuffle(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        given: list[str] | tuple[str, ...] = ...,
        nulls: Literal["keep", "refuse"] = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    given: list[str] | tuple[str, ...]
    nulls: Literal["keep", "refuse"]
    by: list[str] | tuple[str, ...]
    small_strata: Literal["refuse", "suppress", "merge"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class Synthesize(StageEstimator):
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
        levels: Mapping[str, list[str] | tuple[str, ...]] | None = ...,
        epsilon: float | None = ...,
        delta: float | None = ...,
        unit: Literal["record", "person"] = ...,
        most_records: int = ...,
        domains: Mapping[str, Domain | Mapping[str, Any]] | None = ...,
        records: int | Literal["same"] = ...,
        max_categories: int = ...,
        smoothing: Literal["histogram"] = ...,
        bins: int = ...,
        min_count: int = ...,
        rare: Literal["other", "drop"] = ...,
        nulls: Literal["keep", "refuse", "model"] | None = ...,
        by: list[str] | tuple[str, ...] = ...,
        small_strata: Literal["refuse", "suppress", "merge"] = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    method: Literal["cart", "copula", "marginals"]
    columns: list[str] | tuple[str, ...] | Literal["all"] | None
    given: list[str] | tuple[str, ...]
    order: list[str] | tuple[str, ...] | Literal["entropy", "gain", "table"]
    min_leaf: int
    learn_on: int
    rules: Sequence[SynthesisRule | Mapping[str, Any]]
    zeros: Literal["found", "declared"]
    scores: Literal["optimal", "frequency"]
    levels: Mapping[str, list[str] | tuple[str, ...]] | None
    epsilon: float | None
    delta: float | None
    unit: Literal["record", "person"]
    most_records: int
    domains: Mapping[str, Domain | Mapping[str, Any]] | None
    records: int | Literal["same"]
    max_categories: int
    smoothing: Literal["histogram"]
    bins: int
    min_count: int
    rare: Literal["other", "drop"]
    nulls: Literal["keep", "refuse", "model"] | None
    by: list[str] | tuple[str, ...]
    small_strata: Literal["refuse", "suppress", "merge"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class TopCode(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
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
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    at: int | float | str | None
    quantile: float | None
    distance: float | None
    replace: Literal["threshold", "mean", "label"]
    label: str | None
    at_least: int
    round: bool
    nulls: Literal["keep", "refuse"]
    by: list[str] | tuple[str, ...]
    small_strata: Literal["refuse", "suppress", "merge"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class BottomCode(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
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
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    at: int | float | str | None
    quantile: float | None
    distance: float | None
    replace: Literal["threshold", "mean", "label"]
    label: str | None
    at_least: int
    round: bool
    nulls: Literal["keep", "refuse"]
    by: list[str] | tuple[str, ...]
    small_strata: Literal["refuse", "suppress", "merge"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class Round(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        base: float | None = ...,
        mode: Literal["nearest", "random", "down"] = ...,
        nulls: Literal["keep", "refuse"] = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    base: float | None
    mode: Literal["nearest", "random", "down"]
    nulls: Literal["keep", "refuse"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class Sample(StageEstimator):
    def __init__(
        self,
        *,
        fraction: float | None = ...,
        records: int | None = ...,
        by: list[str] | tuple[str, ...] = ...,
        weight: str | None = ...,
        same_within: Literal["household_id", "person_id"] | None = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    fraction: float | None
    records: int | None
    by: list[str] | tuple[str, ...]
    weight: str | None
    same_within: Literal["household_id", "person_id"] | None
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None

class ShiftDates(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        days: int | None = ...,
        key: Mapping[str, str] | None = ...,
        nulls: Literal["keep", "refuse"] = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        policy_nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    days: int | None
    key: Mapping[str, str] | None
    nulls: Literal["keep", "refuse"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    policy_nulls: NullRule | None
    mark: str | None

class DropIdentifiers(StageEstimator):
    def __init__(
        self,
        *,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None

class Pseudonymise(StageEstimator):
    def __init__(
        self,
        *,
        columns: list[str] | tuple[str, ...] | None = ...,
        key: Mapping[str, str] | None = ...,
        domain: str | None = ...,
        length: int = ...,
        canonical: Literal["typed", "text"] = ...,
        roles: Roles | None = ...,
        hierarchies: Mapping[str, Any] | None = ...,
        guarantees: Sequence[Guarantee] | None = ...,
        seed: Seed | Mapping[str, Any] | None = ...,
        record_id: str | None = ...,
        person_id: str | None = ...,
        household_id: str | None = ...,
        nulls: NullRule | None = ...,
        mark: str | None = ...,
    ) -> None: ...
    columns: list[str] | tuple[str, ...] | None
    key: Mapping[str, str] | None
    domain: str | None
    length: int
    canonical: Literal["typed", "text"]
    roles: Roles | None
    hierarchies: Mapping[str, Any] | None
    guarantees: Sequence[Guarantee] | None
    seed: Seed | Mapping[str, Any] | None
    record_id: str | None
    person_id: str | None
    household_id: str | None
    nulls: NullRule | None
    mark: str | None
