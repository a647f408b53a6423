"""Quality models: what a vector of levels costs, exactly and as a bound that needs no grouping.

The definitions serve the search, which needs bounds, and the report on a finished release, which does not.
"""

from __future__ import annotations

import importlib

from privpipe.blocks.quality_spec import LossSpec, require_columns_of
from privpipe.errors import UnsupportedError
from privpipe.kernels.quality.model import Forced, QualityModel
from privpipe.kernels.quality.table import CodedTable

__all__ = ["Forced", "QualityModel", "normalised_score", "quality_model"]

MODELS = {
    "loss": "loss:LossModel",
    "precision": "loss:PrecisionModel",
    "precision_monotonic": "loss:MonotonicPrecisionModel",
    "entropy": "entropy:EntropyModel",
    "entropy_monotonic": "entropy:MonotonicEntropyModel",
    "normalized_entropy": "entropy:NormalizedEntropyModel",
    "discernibility": "loss:DiscernibilityModel",
    "discernibility_monotonic": "loss:MonotonicDiscernibilityModel",
    "aecs": "loss:AecsModel",
    "height": "loss:HeightModel",
    "ambiguity": "loss:AmbiguityModel",
    "kl_divergence": "entropy:KlDivergenceModel",
    "entropy_based": "entropy:EntropyBasedModel",
    "publisher_payout": "entropy:PublisherPayoutModel",
    "static": "loss:StaticModel",
    "classification": "loss:ClassificationModel",
}


BY_DOMAIN = ("ambiguity", "kl_divergence", "entropy_based", "publisher_payout")
LARGEST_DOMAIN = 1e300


def quality_model(
    table: CodedTable, spec: LossSpec, *, budget: int | None = None, least_class: int = 1
) -> QualityModel:
    """The model that a policy names, over one table.

    Parameters
    ----------
    table : CodedTable
    spec : LossSpec
    budget : int, optional
        Records that may be suppressed; bounds hold for nodes within it. Default: all.
    least_class : int
        Least number of records of every kept class over all columns, such as the k of a k-anonymity over all of them.
        Bounds hold under this condition.

    Raises
    ------
    UsageError, UnsupportedError
        Parameters that do not fit the table.
    """
    require_columns_of(spec, table.columns)
    for column, hierarchy in zip(table.columns, table.hierarchies, strict=True):
        if spec.name in BY_DOMAIN and hierarchy.domain_size > LARGEST_DOMAIN:
            raise UnsupportedError(
                f"loss.name: {spec.name} counts the values a label may represent, and the domain of {column!r} has "
                "more than float64 holds; use loss, or declare a smaller domain"
            )
    module, name = MODELS[spec.name].split(":")
    model = getattr(importlib.import_module(f"privpipe.kernels.quality.{module}"), name)
    found: QualityModel = model(table, spec, budget, max(1, least_class))
    return found


def normalised_score(value: float, least: float, most: float) -> float | None:
    """1 at the loss of the raw table, 0 at that of a table of suppressed records only; None where the two are equal.

    Examples
    --------
    >>> normalised_score(2.5, 0.0, 10.0), normalised_score(1.0, 1.0, 1.0)
    (0.75, None)
    """
    if not (abs(value) < float("inf") and abs(most) < float("inf")) or most == least:
        return None
    return 1.0 - (value - least) / (most - least)
