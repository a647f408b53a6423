"""Noise: additive (uncorrelated, correlated) and multiplicative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, FactsRequest, RowBlock
from privpipe.blocks.entry import require_number
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import Kind, RowTransformer, StageContext, StagePlan, require_columns
from privpipe.transforms.numeric import masked_type, require_finite, require_numeric, written

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["AddNoise"]

RANK_CUT = 1e-12


@dataclass(frozen=True, kw_only=True, repr=False)
class AddNoise(RowTransformer):
    """Add keyed normal noise, or multiply by keyed lognormal noise of mean 1.

    * uncorrelated: y = x + sqrt(k) sd z. Means and covariances are kept in expectation, variances grow by 1 + k.
    * correlated: the noise has the covariance of the columns, so correlations are kept in expectation; exactly
      collinear columns are served. A record with a null in any of the columns is left as it is.
    * multiplicative: y = x e with E(e) = 1, Var(e) = k, e > 0: zeros and signs stay.

    Parameters
    ----------
    columns : tuple of str
        Numbers, dates (in days) or timestamps (in microseconds).
    kind : {"uncorrelated", "correlated", "multiplicative"}
    variance_ratio : float, optional
        k > 0, variance of the noise in variances of the column.
    relative_sd : float, optional
        Instead: its square is k.
    keep_zeros : bool
        0 stays 0 (a structural zero); an intruder then knows which values are true.
    clip : (float, float) or "domain", optional
        Bounds of the result; `domain` takes the observed range, which is itself a disclosure.
    bias_correct : bool
        correlated only: shrink back to the original covariance (Kim).
    round : bool
        Whole numbers, half to even; an integer column then stays one.
    nulls : {"keep", "refuse"}

    Notes
    -----
    Source: Kim, ASA Survey Research Methods, 1986; Hundepool et al., Statistical Disclosure Control, Wiley 2012.
    The ratio is public: who knows it can take the variance away, not the noise.

    Examples
    --------
    >>> AddNoise(columns=("income",), variance_ratio=0.1).ratio
    0.1
    """

    taxon: ClassVar[Kind] = "perturbative"
    needs_draws: ClassVar[bool] = True
    preserves: ClassVar[str] = "means in expectation; correlations when correlated"
    reveals: ClassVar[str] = "the variance of the noise; zeros, when they are kept"
    about: ClassVar[Mapping[str, str]] = {
        "columns": "numeric columns to mask",
        "kind": "uncorrelated, correlated or multiplicative",
        "variance_ratio": "variance of the noise in variances of the column, above 0",
        "relative_sd": "instead of variance_ratio: its square root",
        "keep_zeros": "leave zeros as they are",
        "clip": "bounds of the result: [lo, hi] or domain",
        "bias_correct": "correlated noise only: give the original covariance back",
        "round": "round to whole numbers",
        "nulls": "keep leaves missing values; refuse makes them an error",
    }
    source: ClassVar[str] = "Kim, ASA Survey Research Methods, 1986"

    columns: tuple[str, ...]
    kind: Literal["uncorrelated", "correlated", "multiplicative"] = "uncorrelated"
    variance_ratio: float | None = None
    relative_sd: float | None = None
    keep_zeros: bool = False
    clip: tuple[float, float] | Literal["domain"] | None = None
    bias_correct: bool = False
    round: bool = False
    nulls: Literal["keep", "refuse"] = "keep"

    def __post_init__(self) -> None:
        require_columns("AddNoise", self.columns)
        if (self.variance_ratio is None) == (self.relative_sd is None):
            raise UsageError("AddNoise: give variance_ratio or relative_sd, one of the two")
        for name in ("variance_ratio", "relative_sd"):
            if getattr(self, name) is not None:
                require_number("AddNoise", name, getattr(self, name), above=0)
        if isinstance(self.clip, tuple) and not self.clip[0] < self.clip[1]:
            raise UsageError("AddNoise: clip must be [lo, hi] with lo below hi")
        if self.bias_correct and self.kind != "correlated":
            raise UsageError("AddNoise: bias_correct goes with kind: correlated")

    @property
    def ratio(self) -> float:
        """k, the variance ratio."""
        return self.variance_ratio if self.variance_ratio is not None else (self.relative_sd or 0.0) ** 2

    def request(self, context: StageContext) -> FactsRequest:
        require_numeric(self.columns, context)
        return FactsRequest(moments=self.columns, products=self.kind == "correlated")

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        moments = {column: facts.moments[column] for column in self.columns}
        require_finite(moments, context)
        for column, figures in moments.items():
            if self.nulls == "refuse" and figures.nulls:
                raise DataError(f"{context.place}: column {column!r} has {figures.nulls:,} missing values")
        detail: dict[str, Any] = {
            "sd": {column: facts.sd(column) for column in self.columns},
            "nulls": {column: figures.nulls for column, figures in moments.items()},
            "constant": [column for column in self.columns if facts.sd(column) == 0],
        }
        if self.kind == "correlated" and facts.covariance is not None:
            detail["factor"] = covariance_factor(facts.covariance).tolist()
            detail["mean"] = {column: figures.mean for column, figures in moments.items()}
        if self.clip == "domain":
            detail["bounds"] = {column: [figures.minimum, figures.maximum] for column, figures in moments.items()}
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        for column in self.columns:
            at = schema.get_field_index(column)
            schema = schema.set(at, schema.field(at).with_type(masked_type(schema.field(at), self.round)))
        return schema

    def apply(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        values = {column: rows[column] for column in self.columns}
        masked = self._correlated(values, rows, plan, draws) if self.kind == "correlated" else None
        for column, x in values.items():
            y = masked[column] if masked else self._single(column, x, rows, plan, draws)
            if self.keep_zeros:
                y = np.where(x == 0, 0.0, y)
            y = self._clipped(column, y, plan)
            target = masked_type(rows.schema.field(column), self.round)
            rows = rows.replace(column, written(y, target, rounded=self.round))
        return rows

    def _single(
        self, column: str, x: NDArray[np.float64], rows: RowBlock, plan: StagePlan, draws: Draws
    ) -> NDArray[np.float64]:
        # A stream a column: one more column leaves the noise of the others alone.
        z = draws.of(column).normal(rows.record_ids)
        if plan.detail["sd"][column] == 0:
            return x
        if self.kind == "multiplicative":
            t = np.sqrt(np.log1p(self.ratio))
            return np.asarray(x * np.exp(t * z - t * t / 2))
        return np.asarray(x + np.sqrt(self.ratio) * plan.detail["sd"][column] * z)

    def _correlated(
        self, values: dict[str, NDArray[np.float64]], rows: RowBlock, plan: StagePlan, draws: Draws
    ) -> dict[str, NDArray[np.float64]]:
        factor = np.array(plan.detail["factor"])
        z = np.stack([draws.of(column).normal(rows.record_ids) for column in self.columns], axis=1)
        # Summed term by term, in a fixed order: a matrix product may round differently from block to block.
        noise = sum((z[:, [at]] * factor[:, at] for at in range(len(self.columns))), np.zeros_like(z))
        complete = ~np.isnan(np.stack(list(values.values()), axis=1)).any(axis=1)
        masked = {}
        for at, (column, x) in enumerate(values.items()):
            y = x + np.sqrt(self.ratio) * noise[:, at]
            if self.bias_correct:
                mean = plan.detail["mean"][column]
                y = mean + (y - mean) / np.sqrt(1.0 + self.ratio)
            masked[column] = np.where(complete, y, x)
        return masked

    def _clipped(self, column: str, y: NDArray[np.float64], plan: StagePlan) -> NDArray[np.float64]:
        if self.clip is None:
            return y
        low, high = plan.detail["bounds"][column] if self.clip == "domain" else self.clip
        return np.clip(y, low, high)

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income",), variance_ratio=0.1),
            cls(columns=("income",), relative_sd=0.5, kind="multiplicative", keep_zeros=True),
            cls(columns=("income", "age"), variance_ratio=0.2, kind="correlated", bias_correct=True),
            cls(columns=("age",), variance_ratio=0.1, round=True, clip=(0.0, 99.0)),
        ]


def covariance_factor(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A with A A' = the covariance, by eigenvalues of the correlation matrix; served when it is singular.

    Eigenvalues below 1e-12 of the largest are taken as 0, so exactly collinear columns keep their identities.
    A column without variance gets a row of zeros. Signs are fixed, so equal input gives equal bits.

    Examples
    --------
    >>> factor = covariance_factor(np.array([[4.0, 2.0], [2.0, 1.0]]))
    >>> (factor @ factor.T).round(9).tolist()
    [[4.0, 2.0], [2.0, 1.0]]
    """
    sd = np.sqrt(np.diag(covariance))
    scale = np.where(sd > 0, sd, 1.0)
    correlation = covariance / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(correlation)
    values = np.where(values < RANK_CUT * values.max(initial=0.0), 0.0, values)
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
    return np.asarray(sd[:, None] * (vectors * signs) * np.sqrt(values))
