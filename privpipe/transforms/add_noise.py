"""Noise: additive (uncorrelated, correlated) and multiplicative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.entry import require_choice, require_number
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import Kind, RowTransformer, StageContext, StagePlan, checked_columns
from privpipe.transforms.numeric import masked_schema, masked_type, refuse_nulls, require_numeric, written

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["AddNoise"]

Noise = Literal["uncorrelated", "correlated", "multiplicative"]
RANK_CUT = 1e-12


@dataclass(frozen=True, kw_only=True, repr=False)
class AddNoise(RowTransformer):
    """Add keyed normal noise, or multiply by keyed lognormal noise of mean 1.

    * uncorrelated: y = x + sqrt(k) sd z. Means and covariances are kept in expectation, variances grow by 1 + k.
    * correlated: the noise has the covariance of the columns, so correlations are kept in expectation; exactly
      collinear columns are served. It is learnt from the records with a value in each of the columns; every
      value is masked, also of a record that misses others.
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
    kind: Noise = "uncorrelated"
    variance_ratio: float | None = None
    relative_sd: float | None = None
    keep_zeros: bool = False
    clip: tuple[float, float] | Literal["domain"] | None = None
    bias_correct: bool = False
    round: bool = False
    nulls: Literal["keep", "refuse"] = "keep"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", checked_columns("AddNoise", self.columns))
        if (self.variance_ratio is None) == (self.relative_sd is None):
            raise UsageError("AddNoise: give variance_ratio or relative_sd, one of the two")
        for name in ("variance_ratio", "relative_sd"):
            if getattr(self, name) is not None:
                require_number("AddNoise", name, getattr(self, name), above=0)
        require_choice("AddNoise", "kind", self.kind, get_args(Noise))
        require_choice("AddNoise", "nulls", self.nulls, ("keep", "refuse"))
        if self.clip is not None and self.clip != "domain":
            object.__setattr__(self, "clip", _bounds(self.clip))
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
        if self.nulls == "refuse":
            for column, figures in moments.items():
                refuse_nulls(column, figures.nulls, context)
        detail: dict[str, Any] = {
            "sd": {column: facts.sd(column) for column in self.columns},
            "nulls": {column: figures.nulls for column, figures in moments.items()},
            "constant": [column for column in self.columns if facts.sd(column) == 0],
        }
        if self.kind == "correlated":
            detail["factor"] = self._factor(facts, context).tolist()
            detail["mean"] = {column: figures.mean if figures.records else None for column, figures in moments.items()}
        if self.clip == "domain":
            detail["warning"] = "results are clipped to the observed range, which discloses its ends"
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        return masked_schema(schema, self.columns, self.round)

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        if self.clip == "domain":
            # Looked up now and kept to the run: a plan must not hold the ends of the data.
            moments = engine.facts(table, FactsRequest(moments=self.columns)).moments
            ends = {column: (moments[column].minimum, moments[column].maximum) for column in self.columns}
            plan = replace(plan, detail={**plan.detail, "ends": ends})
        return super().run(engine, table, plan, draws, context)

    def apply(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        values = {column: rows[column] for column in self.columns}
        # A stream a column: one more column leaves the noise of the others alone.
        normals = {column: draws.of(column).normal(rows.record_ids) for column in self.columns}
        correlated = self._correlated(normals, plan) if self.kind == "correlated" else {}
        for column, x in values.items():
            if plan.detail["sd"][column] == 0:
                y = x
            elif correlated:
                y = self._shrunk(x + correlated[column], column, plan)
            else:
                y = self._single(x, normals[column], plan.detail["sd"][column])
            if self.keep_zeros:
                y = np.where(x == 0, x, y)
            if self.clip is not None:
                y = np.clip(y, *(plan.detail["ends"][column] if self.clip == "domain" else self.clip))
            target = masked_type(rows.schema.field(column), self.round)
            rows = rows.replace(column, written(y, target, column=column, rounded=self.round))
        return rows

    def _single(self, x: NDArray[np.float64], z: NDArray[np.float64], sd: float) -> NDArray[np.float64]:
        if self.kind == "multiplicative":
            t = np.sqrt(np.log1p(self.ratio))
            return np.asarray(x * np.exp(t * z - t * t / 2))
        return np.asarray(x + np.sqrt(self.ratio) * sd * z)

    def _correlated(self, normals: dict[str, NDArray[np.float64]], plan: StagePlan) -> dict[str, NDArray[np.float64]]:
        """sqrt(k) A z by column; drawn for every record, so that a missing cell leaves no other unmasked."""
        noise = {}
        for column, row in zip(self.columns, plan.detail["factor"], strict=True):
            # Added up term by term: a matrix product may round differently from block to block.
            terms = [z * float(weight) for z, weight in zip(normals.values(), row, strict=True)]
            noise[column] = np.sqrt(self.ratio) * sum(terms[1:], terms[0])
        return noise

    def _shrunk(self, y: NDArray[np.float64], column: str, plan: StagePlan) -> NDArray[np.float64]:
        if not self.bias_correct:
            return y
        mean = plan.detail["mean"][column]
        return np.asarray(mean + (y - mean) / np.sqrt(1.0 + self.ratio))

    def _factor(self, facts: Facts, context: StageContext) -> NDArray[np.float64]:
        covariance = facts.covariance
        if covariance is not None and not np.isnan(covariance).any():
            return covariance_factor(covariance)
        if any(facts.sd(column) for column in self.columns):
            raise DataError(
                f"{context.place}: fewer than two records have a value in each of "
                f"{', '.join(map(repr, self.columns))}, so there is no correlation to keep; use kind: uncorrelated"
            )
        return np.zeros((len(self.columns), len(self.columns)))

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income",), variance_ratio=0.1),
            cls(columns=("income",), relative_sd=0.5, kind="multiplicative", keep_zeros=True),
            cls(columns=("income", "age"), variance_ratio=0.2, kind="correlated", bias_correct=True),
            cls(columns=("age",), variance_ratio=0.1, round=True, clip=(0.0, 99.0)),
        ]


def _bounds(clip: Any) -> tuple[float, float]:
    if not isinstance(clip, list | tuple) or len(clip) != 2:
        raise UsageError("AddNoise: clip must be [lo, hi] or domain")
    for bound in clip:
        require_number("AddNoise", "clip", bound)
    if not clip[0] < clip[1]:
        raise UsageError("AddNoise: clip must be [lo, hi] with lo below hi")
    return clip[0], clip[1]


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
