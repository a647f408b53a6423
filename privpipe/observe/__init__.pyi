"""Types of this room, made from the catalogue by `python -m tests.typing.stubs`; a test compares."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack, overload

from privpipe.blocks.check_face import CheckOptions
from privpipe.models.attribute.base_distribution import BaseDatabase, BaseFile, BaseNamed
from privpipe.models.process.integral_privacy import StatisticQuery
from privpipe.observe.figures import average_risk as average_risk
from privpipe.observe.figures import figures as figures
from privpipe.observe.figures import k_anonymity as k_anonymity
from privpipe.observe.figures import l_diversity as l_diversity
from privpipe.observe.figures import t_closeness as t_closeness
from privpipe.observe.figures import uniqueness as uniqueness

def household_k_anonymity(
    frame: Any, quasi_identifiers: list[str] | tuple[str, ...] | None = ..., /, **options: Unpack[CheckOptions]
) -> int: ...
def k_map(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    **options: Unpack[CheckOptions],
) -> int: ...
def estimated_k_map(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    population_size: int,
    significance: float,
    estimator: Literal["poisson", "zero_truncated_poisson"] = ...,
    **options: Unpack[CheckOptions],
) -> int: ...
def km_anonymity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    m: int,
    columns: list[str] | tuple[str, ...] | None = ...,
    items: str | None = ...,
    separator: str | None = ...,
    **options: Unpack[CheckOptions],
) -> int: ...
def strict_average_risk(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    highest: float,
    records_at_risk: float = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, float]: ...
def sample_uniqueness(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
def population_uniqueness(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    population_size: int,
    estimator: Literal["dankar", "pitman", "zayatz", "snb"] = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
@overload
def distinct_l_diversity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    **options: Unpack[CheckOptions],
) -> int: ...
@overload
def distinct_l_diversity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    column: str,
    **options: Unpack[CheckOptions],
) -> int: ...
@overload
def entropy_l_diversity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    estimator: Literal["shannon", "grassberger"] = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
@overload
def entropy_l_diversity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    column: str,
    estimator: Literal["shannon", "grassberger"] = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
@overload
def recursive_cl_diversity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    l: int,
    **options: Unpack[CheckOptions],
) -> float | None: ...
@overload
def recursive_cl_diversity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    column: str,
    l: int,
    **options: Unpack[CheckOptions],
) -> float | None: ...
@overload
def p_sensitive_k_anonymity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    p: int | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, float]: ...
@overload
def p_sensitive_k_anonymity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    p: int | None = ...,
    columns: list[str] | tuple[str, ...] | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, float]: ...
@overload
def alpha_k_anonymity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    k: int | None = ...,
    values: Sequence[str | int | float] | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, float]: ...
@overload
def alpha_k_anonymity(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    k: int | None = ...,
    column: str | None = ...,
    values: Sequence[str | int | float] | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, float]: ...
@overload
def delta_disclosure(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    absent: Literal["present_only", "strict"] = ...,
    base: Literal["original", "released"]
    | BaseFile
    | Mapping[str, Any]
    | BaseDatabase
    | Mapping[str, Any]
    | BaseNamed
    | Mapping[str, Any] = ...,
    **options: Unpack[CheckOptions],
) -> float | None: ...
@overload
def delta_disclosure(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    column: str,
    absent: Literal["present_only", "strict"] = ...,
    base: Literal["original", "released"]
    | BaseFile
    | Mapping[str, Any]
    | BaseDatabase
    | Mapping[str, Any]
    | BaseNamed
    | Mapping[str, Any] = ...,
    **options: Unpack[CheckOptions],
) -> float | None: ...
@overload
def basic_beta_likeness(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    base: Literal["original", "released"]
    | BaseFile
    | Mapping[str, Any]
    | BaseDatabase
    | Mapping[str, Any]
    | BaseNamed
    | Mapping[str, Any] = ...,
    **options: Unpack[CheckOptions],
) -> float | None: ...
@overload
def basic_beta_likeness(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    column: str,
    base: Literal["original", "released"]
    | BaseFile
    | Mapping[str, Any]
    | BaseDatabase
    | Mapping[str, Any]
    | BaseNamed
    | Mapping[str, Any] = ...,
    **options: Unpack[CheckOptions],
) -> float | None: ...
@overload
def enhanced_beta_likeness(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    base: Literal["original", "released"]
    | BaseFile
    | Mapping[str, Any]
    | BaseDatabase
    | Mapping[str, Any]
    | BaseNamed
    | Mapping[str, Any] = ...,
    **options: Unpack[CheckOptions],
) -> float | None: ...
@overload
def enhanced_beta_likeness(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    column: str,
    base: Literal["original", "released"]
    | BaseFile
    | Mapping[str, Any]
    | BaseDatabase
    | Mapping[str, Any]
    | BaseNamed
    | Mapping[str, Any] = ...,
    **options: Unpack[CheckOptions],
) -> float | None: ...
def delta_presence(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    min: float = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, float]: ...
def integral_privacy(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    query: StatisticQuery | Mapping[str, Any],
    changes: int = ...,
    **options: Unpack[CheckOptions],
) -> int: ...
def attribute_risk(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    max_dim: int = ...,
    max_sets: int = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def distinction(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    columns: list[str] | tuple[str, ...] | None = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
def separation(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    columns: list[str] | tuple[str, ...] | None = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
def risky_cells(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    threshold: int = ...,
    max_dim: int = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def prosecutor_risk(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    over: Literal["records", "persons", "households"] | None = ...,
    figure: Literal["highest", "average", "at_risk"] = ...,
    threshold: float = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
def journalist_risk(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    figure: Literal["highest", "average", "at_risk"] = ...,
    threshold: float = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
def household_uniqueness(
    frame: Any, quasi_identifiers: list[str] | tuple[str, ...] | None = ..., /, **options: Unpack[CheckOptions]
) -> float: ...
def marketer_risk(
    frame: Any, quasi_identifiers: list[str] | tuple[str, ...] | None = ..., /, **options: Unpack[CheckOptions]
) -> float: ...
def file_uniqueness(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    if_no_uniques: Literal["error", "pass"] = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
@overload
def homogeneity_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    certainty: float = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
@overload
def homogeneity_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    column: str,
    certainty: float = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
@overload
def attribute_inference(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    gain: bool = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, float]: ...
@overload
def attribute_inference(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    column: str,
    gain: bool = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, float]: ...
def correct_attribution(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    column: str,
    figure: Literal["disco", "tcap", "dcap"] = ...,
    exclude_majority: bool = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
@overload
def background_knowledge_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    exclude_values: int | None = ...,
    insiders: int | None = ...,
    certainty: float = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
@overload
def background_knowledge_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    column: str,
    exclude_values: int | None = ...,
    insiders: int | None = ...,
    certainty: float = ...,
    **options: Unpack[CheckOptions],
) -> float: ...
def rank_interval_disclosure(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    percent: float = ...,
    joint: Literal["each", "all", "any"] = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def sd_interval_disclosure(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    percent: float = ...,
    joint: Literal["each", "all", "any"] = ...,
    sd: Literal["original", "released"] = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def record_linkage(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    direction: Literal["both", "from_intruder", "from_released"] = ...,
    columns: list[str] | tuple[str, ...] | None = ...,
    metric: Literal["euclidean", "gower", "mahalanobis"] | None = ...,
    standardise: Literal["own", "original"] = ...,
    assignment: Literal["nearest", "one_to_one", "both"] = ...,
    ties: Literal["fractional", "strict", "any"] = ...,
    sample: int | None = ...,
    confidence: float = ...,
    block_by: list[str] | tuple[str, ...] = ...,
    knows: Literal["curve"] | Mapping[str, int] | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def individual_risk(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    weight: str,
    figure: Literal["mean", "max", "share_above"] = ...,
    threshold: float = ...,
    household: str | None = ...,
    threshold_for: float | None = ...,
    method: Literal["exact", "approximate"] = ...,
    alpha: float = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def loglinear_risk(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    weight: str,
    formula: str,
    figure: Literal["tau1", "tau2"] = ...,
    method: Literal["default", "ce", "pml"] = ...,
    bound: int | None = ...,
    max_cells: int = ...,
    if_no_uniques: Literal["error", "pass"] = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def special_uniques(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    max_size: int | None = ...,
    figure: Literal["share", "dis_mean", "dis_max"] = ...,
    dis_fraction: float = ...,
    score: Literal["original", "weighted"] = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def probabilistic_linkage(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    agreement: Mapping[str, str | Mapping[str, float | Sequence[float]]] = ...,
    false_match: float = ...,
    false_non_match: float = ...,
    block_by: list[str] | tuple[str, ...] = ...,
    sample: int | None = ...,
    confidence: float = ...,
    parameters: Literal["estimated", "known"] = ...,
    accept_unconverged: bool = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def learned_linkage(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    distance: Literal["weighted_mean", "owa", "bilinear", "choquet"] = ...,
    method: Literal["exact", "heuristic"] = ...,
    form: Literal["none", "nonnegative", "semidefinite"] = ...,
    submodular: bool = ...,
    sample: int | None = ...,
    confidence: float = ...,
    time_limit_s: float = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def transparency_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    method: Literal["rank_swap", "microaggregation"] | None = ...,
    p: float | Literal["from_plan"] = ...,
    nearest: int = ...,
    sample: int | None = ...,
    confidence: float = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def information_loss(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    holdout: str | None = ...,
    columns: list[str] | tuple[str, ...] | None = ...,
    measure: str,
    target: str | None = ...,
    model: str | None = ...,
    by: str | None = ...,
    k: int | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
@overload
def complementary_release(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    ledger: str | None = ...,
    key: Mapping[str, str] | None = ...,
    normalise: list[str] | tuple[str, ...] = ...,
    earlier: list[str] | tuple[str, ...] = ...,
    presence: Literal["known", "unknown"] = ...,
    l: int = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
@overload
def complementary_release(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    ledger: str | None = ...,
    key: Mapping[str, str] | None = ...,
    normalise: list[str] | tuple[str, ...] = ...,
    earlier: list[str] | tuple[str, ...] = ...,
    presence: Literal["known", "unknown"] = ...,
    l: int = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def repeated_noise(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    ledger: str | None = ...,
    key: Mapping[str, str] | None = ...,
    normalise: list[str] | tuple[str, ...] = ...,
    columns: list[str] | tuple[str, ...],
    changed: Literal["apart", "averaged"] = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def unsorted_matching(
    frame: Any, quasi_identifiers: list[str] | tuple[str, ...] | None = ..., /, **options: Unpack[CheckOptions]
) -> Mapping[str, Any]: ...
def membership_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    holdout: str | None = ...,
    sample: int | None = ...,
    confidence: float = ...,
    score: Literal["closest", "density", "both"] = ...,
    reference: str | None = ...,
    radius: float = ...,
    false_positive_rate: float = ...,
    columns: list[str] | tuple[str, ...] | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def closest_record(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    holdout: str | None = ...,
    figure: Literal["ratio", "closer", "copies"] = ...,
    at_most: float | None = ...,
    confidence: float = ...,
    sample: int | None = ...,
    columns: list[str] | tuple[str, ...] | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def replicated_uniques(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    holdout: str | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def singling_out_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    holdout: str | None = ...,
    figure: Literal["excess", "gain", "success"] | None = ...,
    confidence: float = ...,
    columns: list[str] | tuple[str, ...] | None = ...,
    mode: Literal["multivariate", "univariate"] = ...,
    size: int = ...,
    attacks: int | None = ...,
    if_no_predicates: Literal["error", "pass"] = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def linkability_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    holdout: str | None = ...,
    figure: Literal["excess", "gain", "success"] | None = ...,
    confidence: float = ...,
    sample: int | None = ...,
    targets: Literal["all", "outliers"] = ...,
    outlier_share: float = ...,
    known: Sequence[list[str] | tuple[str, ...]],
    neighbours: int = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def inference_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    holdout: str | None = ...,
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
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def robust_interval_risk(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    k: float = ...,
    k2: float = ...,
    figure: Literal["inside", "isolated"] = ...,
    estimator: Literal["mcd", "classical"] = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def recovery(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    pairs: bool = ...,
    max_distinct: float = ...,
    min_group: int = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def downcoding(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    prior: str = ...,
    k: int | None = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
@overload
def minimality_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None,
    column: str,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    worlds: int = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
@overload
def minimality_attack(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
    columns: list[str] | tuple[str, ...] | None = ...,
    column: str,
    worlds: int = ...,
    **options: Unpack[CheckOptions],
) -> Mapping[str, Any]: ...
def quality(
    frame: Any,
    quasi_identifiers: list[str] | tuple[str, ...] | None = ...,
    /,
    *,
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
    **options: Unpack[CheckOptions],
) -> float | Mapping[str, float]: ...
