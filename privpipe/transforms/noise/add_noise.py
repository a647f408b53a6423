"""Noise: additive (uncorrelated, correlated), multiplicative and orthogonal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.arrays import Floats
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import RowTransformer, StageContext, StagePlan, checked_columns
from privpipe.transforms.numeric_columns import (
    clip_bounds,
    counted_nulls,
    factor_of,
    masked_schema,
    masked_type,
    refuse_nulls,
    require_numeric,
    require_summable,
    with_others_restored,
    written,
)
from privpipe.transforms.outliers import OutlierCuts, require_alone, with_cuts
from privpipe.transforms.shared_draws import SameWithin, refuse_apart
from privpipe.transforms.strata import ByStratum, SmallStrata, Strata, checked_by, figures_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["AddNoise", "require_rotatable"]


MOST_TOGETHER = 32
MOST_RATIO = 1.6  # blocks of eight hold seven eighths of a variance, and move by less than twice that


def require_rotatable(columns: Sequence[str], ratio: float) -> None:
    """Refuse parameters and tables for which no rotation of blocks works.

    Raises
    ------
    UsageError
    """
    if len(columns) > MOST_TOGETHER:
        raise UsageError(f"AddNoise: orthogonal noise takes at most {MOST_TOGETHER} columns in one stage")
    if ratio > MOST_RATIO:
        raise UsageError(
            f"AddNoise: orthogonal noise takes a variance_ratio of at most {MOST_RATIO}: it keeps the covariance, so "
            "it can move records no further than an exchange of independent ones does"
        )


Noise = Literal["uncorrelated", "correlated", "multiplicative", "orthogonal"]


@dataclass(frozen=True, kw_only=True, repr=False)
class AddNoise(RowTransformer):
    """Add keyed normal noise, multiply by keyed lognormal noise of mean 1, or rotate blocks of records at random.

    * uncorrelated: y = x + sqrt(k) sd z. Means and covariances are kept in expectation, variances grow by 1 + k.
    * correlated: the noise has the covariance of the columns, so correlations are kept in expectation; exactly
      collinear columns are served. It is learnt from the records with a value in each of the columns; every
      value is masked, also of a record that misses others.
    * multiplicative: y = x e with E(e) = 1, Var(e) = k, e > 0: zeros and signs stay.
    * orthogonal: Y = T X within blocks of records in keyed order, T orthogonal with T 1 = 1 and nearer to the identity
      for smaller k: sums and the whole covariance matrix are kept exactly, and the mean square of Y - X is k variances
      of the column on average. Records that miss the same values share blocks.

    Parameters
    ----------
    columns : tuple of str
        Numbers, dates (in days) or timestamps (in microseconds).
    kind : {"uncorrelated", "correlated", "multiplicative", "orthogonal"}
    variance_ratio : float, optional
        k > 0, variance of the noise in variances of the column; orthogonal: at most 1.6.
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
    block : int
        orthogonal only: records of a block, 8 to 512; the last has up to twice as many.
    nulls : {"keep", "refuse"}
    by : tuple of str
        Strata; each has its own deviation, covariance and blocks.
    small_strata : {"refuse", "suppress", "merge"}
        A stratum needs two values of a column, three for orthogonal noise.
    same_within : {"household_id", "person_id"}, optional
        Rows of one household (or person) draw alike for equal values; the plan states in how many a column differs.
    outliers : float, optional
        q in [0.5, 1), as 0.975: noise only for outliers, in each of the columns; other records keep their values to
        the bit. A record is an outlier when a value lies more than sqrt(chi2(1, q)) scales from the column's median, or
        its squared robust distance over the columns exceeds chi2(r, q). A scale is 1.4826 times the median absolute
        deviation; a column of whose values most are equal is measured by its standard deviation and takes no part in
        the distance. Centre and scatter are the minimum covariance determinant (FAST-MCD, re-weighted) of the records
        with a value in each column; r is its rank, and a record off a plane that holds most records is far. A record
        that misses a value is judged by those it has. Where fewer than 2 (s + 1) records are complete in s columns,
        all are outliers. Noise is scaled by the deviation of all values; cuts are those of the stratum, from its
        20,000 records of smallest keyed id.

    Notes
    -----
    The ratio is public: anyone who knows it can remove the variance, not the noise. Noise is drawn for a record and its
    value (orthogonal: for the table): under an unchanged plan an unchanged value keeps its noise in every release, and
    a changed one draws afresh. A deviation that is learnt again changes all noise; freeze the plan to keep it.

    Examples
    --------
    >>> AddNoise(columns=("income",), variance_ratio=0.1).ratio
    0.1
    """

    taxon = "perturbative"
    needs_draws = True
    preserves = "means in expectation; correlations when correlated; sums and covariances exactly when orthogonal"
    reveals = "the variance of the noise; zeros, when they are kept; who is not an outlier, when only these are masked"
    source = (
        "Kim, ASA Survey Research Methods, 1986; Hundepool et al., Statistical Disclosure Control, Wiley "
        "2012; Ting, Fienberg, Trottini, Int. J. Information and Computer Security 2, 2008 (orthogonal); "
        "Templ, Kowarik, Meindl, J. Statistical Software 67(4), 2015 (outliers); Rousseeuw, Van Driessen, "
        "Technometrics 41(3), 1999 (FAST-MCD)"
    )

    columns: Annotated[tuple[str, ...], Columns(), Doc("numeric columns to mask")]
    kind: Annotated[Noise, Doc("uncorrelated, correlated, multiplicative or orthogonal")] = "uncorrelated"
    variance_ratio: Annotated[float | None, Gt(0), Doc("variance of the noise in variances of the column, above 0")] = (
        None
    )
    relative_sd: Annotated[float | None, Gt(0), Doc("instead of variance_ratio: its square root")] = None
    keep_zeros: Annotated[bool, Doc("leave zeros unchanged")] = False
    clip: Annotated[tuple[float, float] | Literal["domain"] | None, Doc("bounds of the result: [lo, hi] or domain")] = (
        None
    )
    bias_correct: Annotated[bool, Doc("correlated noise only: give the original covariance back")] = False
    round: Annotated[bool, Doc("round to whole numbers")] = False
    block: Annotated[int, Ge(8), Le(512), Doc("orthogonal noise only: records of a block, 8 to 512")] = 64
    nulls: Annotated[Literal["keep", "refuse"], Doc("keep leaves missing values; refuse makes them an error")] = "keep"
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns whose combinations have their own noise scale")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata without records enough: refuse, suppress or merge")] = "refuse"
    same_within: Annotated[
        SameWithin | None, Doc("whose rows draw alike: household_id or person_id; left out, each record for itself")
    ] = None
    outliers: Annotated[
        float | None, Ge(0.5), Lt(1), Doc("mask only outliers: those beyond this quantile of distance, as 0.975")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", checked_columns("AddNoise", self.columns))
        object.__setattr__(self, "by", checked_by("AddNoise", self.by, self.columns, self.small_strata))
        if (self.variance_ratio is None) == (self.relative_sd is None):
            raise UsageError("AddNoise: give variance_ratio or relative_sd, one of the two")
        if self.clip is not None and self.clip != "domain":
            object.__setattr__(self, "clip", clip_bounds("AddNoise", self.clip))
        if self.bias_correct and self.kind != "correlated":
            raise UsageError("AddNoise: bias_correct requires kind: correlated")
        if self.kind == "orthogonal":
            require_rotatable(self.columns, self.ratio)
        apart = self.kind == "orthogonal" or (self.kind == "correlated" and len(self.columns) > 1)
        refuse_apart("AddNoise", self.same_within, {"by": self.by, f"kind: {self.kind}": apart})
        if self.outliers is not None:
            require_alone(self.kind, self.bias_correct, self.same_within)
        if self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)

    @property
    def ratio(self) -> float:
        """k, the variance ratio."""
        return self.variance_ratio if self.variance_ratio is not None else (self.relative_sd or 0.0) ** 2

    @property
    def links_releases(self) -> bool:
        return self.outliers is not None  # the others keep their values

    def noise_ratio(self) -> float | None:
        if self.kind == "orthogonal":
            return None
        return 0.0 if self.outliers is not None else self.ratio  # records within have none

    @property
    def keeps_places(self) -> bool:
        return self.kind != "orthogonal"  # whose blocks take records from everywhere

    def request(self, context: StageContext) -> FactsRequest:
        require_numeric(self.columns, context)
        return FactsRequest(moments=self.columns, products=self.kind == "correlated")

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        if self.by:
            plan, strata = self._learn_strata(engine, table, context)
        else:
            plan, strata = super().learn(engine, table, context), Strata()
        if self.outliers is not None:
            return with_cuts(plan, engine, table, strata, self.columns, self.outliers)
        if self.kind != "orthogonal":
            return plan
        from privpipe.transforms.noise.orthogonal_noise import NullPatterns, strengths

        patterns = NullPatterns.learn(engine, table, strata, self.columns, context)
        found = strengths(patterns, self.block, self.ratio)
        return replace(plan, detail={**plan.detail, "blocks": patterns.to_list(), "strengths": found})

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        if self.nulls == "refuse":
            for column in self.columns:
                refuse_nulls(column, facts.moments[column].nulls, context)
        detail = self._figures(facts, context)
        nulls = {column: facts.moments[column].nulls for column in self.columns}
        warnings = self._warnings(detail["constant"])
        shown = {
            **detail,
            "nulls": nulls,
            "warnings": warnings,
            "confidential": self.kind == "correlated" or self.outliers is not None,
        }
        if self.clip == "domain":
            shown["warning"] = warnings[0]
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=shown)

    def _learn_strata(self, engine: Primitives, table: Any, context: StageContext) -> tuple[StagePlan, Strata]:
        from privpipe.kernels.exact_sums import ExactMoments

        request = self.request(context)
        least = 3 if self.kind == "orthogonal" else 2
        strata = Strata.learn(engine, table, self.by, self.columns, context, least=least, small=self.small_strata)
        learnt = ExactMoments(self.columns, request.products)
        sums = engine.reduce_rows(table, (*self.by, *self.columns), ByStratum(strata, learnt), Facts())
        figures, constant = [], set()
        for number in range(len(strata)):
            moments, covariance = learnt.finish(sums[number] if sums else None)
            facts = Facts(records=strata.records[number], moments=moments, covariance=covariance)
            figures.append(self._figures(facts, context))
            constant.update(figures[-1]["constant"])
        nulls = {column: sum(strata.records) - sum(strata.known[column]) for column in self.columns}
        if self.nulls == "refuse":
            for column, count in nulls.items():
                refuse_nulls(column, count, context)
        detail = {
            "strata": strata.to_dict(),
            "by_stratum": figures,
            "nulls": nulls,
            "warnings": self._warnings(sorted(constant)),
            "confidential": self.kind == "correlated" or self.outliers is not None,
        }
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail), strata

    def _figures(self, facts: Facts, context: StageContext) -> dict[str, Any]:
        """What one stratum needs."""
        found: dict[str, Any] = {
            "sd": {column: facts.sd(column) for column in self.columns},
            "constant": [column for column in self.columns if facts.sd(column) == 0],
        }
        if self.kind == "orthogonal" or self.outliers is not None:
            for column in self.columns:
                require_summable(column, facts.moments[column].minimum, facts.moments[column].maximum, context.place)
        if self.kind == "correlated":
            found["factor"] = factor_of(facts, self.columns, context.place).tolist()
            moments = {column: facts.moments[column] for column in self.columns}
            found["mean"] = {column: figures.mean if figures.records else None for column, figures in moments.items()}
        return found

    def _warnings(self, constant: list[str]) -> list[str]:
        found = ["results are clipped to the observed range, which discloses its ends"] if self.clip == "domain" else []
        if self.clip is not None and not found:
            found.append("clipping biases means towards the middle of the bounds")
        if self.outliers is not None:
            found.append("records that are not outliers are released unchanged")
        if constant:
            found.append(f"{', '.join(map(repr, constant))}: without variance, so unchanged")
        if self.kind == "orthogonal" and (self.clip is not None or self.keep_zeros or self.round):
            found.append("clipping, kept zeros and rounding leave sums and covariances only nearly as they were")
        return found

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        if self.kind == "orthogonal":
            return super().carried(engine, table, plan, context)
        require_numeric(self.columns, context)
        constant = sorted({column for each in figures_of(plan)[1] for column in each["constant"]})
        if constant:
            raise DataError(
                f"{context.place}: {', '.join(map(repr, constant))} had no variance when the plan was made and "
                "would be released unchanged; make a new plan"
            )
        nulls = counted_nulls(engine, table, self.columns, self.nulls, context)
        return replace(plan, detail={**plan.detail, "nulls": nulls})

    def draws_within(self) -> SameWithin | None:
        return self.same_within

    def draws_by_value(self) -> bool:
        return self.kind != "orthogonal"

    def shaping(self, plan: StagePlan) -> Mapping[str, Any]:
        if self.kind == "orthogonal":
            return super().shaping(plan)
        strata, figures = figures_of(plan)
        # A factor holds no deviation, only which columns stay unchanged; means are needed to remove the bias.
        names = (
            ["constant"]
            if self.kind == "multiplicative"
            else ["sd", *(["factor"] if self.kind == "correlated" else [])]
        )
        names += ["mean"] if self.bias_correct else []
        names += ["outliers"] if self.outliers is not None else []
        shown = [{name: each[name] for name in names} for each in figures]
        return {"strata": strata.assignment(), "figures": shown}

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        return masked_schema(schema, self.columns, self.round)

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        if self.clip == "domain":
            # Looked up now and kept to the run: a plan must not hold the ends of the data.
            moments = engine.facts(table, FactsRequest(moments=self.columns)).moments
            ends = {column: (moments[column].minimum, moments[column].maximum) for column in self.columns}
            plan = replace(plan, detail={**plan.detail, "ends": ends})
        if self.kind != "orthogonal":
            return super().run(engine, table, plan, draws, context)
        from privpipe.transforms.noise.orthogonal_noise import Finished, NullPatterns, Rotated, rotated

        strata, figures = figures_of(plan)
        patterns = NullPatterns.from_list(strata, self.columns, plan.detail["blocks"])
        varying = tuple(frozenset(self.columns) - frozenset(each["constant"]) for each in figures)
        stream = draws.of("/".join(self.columns))
        made = Rotated(patterns, plan.detail["strengths"], self.block, varying, Finished(self, plan), stream)
        return rotated(engine, table, made, self.released_schema(table.schema, plan))

    def apply_block(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        strata, figures = figures_of(plan)
        rows, numbers = strata.kept(rows)
        from privpipe.kernels.ids.value_draws import value_normals

        masked = {column: np.array(rows[column]) for column in self.columns}
        # Noise that goes into each of the columns is drawn for all their values together.
        bound = {column: self.columns if self.kind == "correlated" else (column,) for column in self.columns}
        normals = {column: value_normals(draws.of(column), rows, bound[column]) for column in self.columns}
        outlying = np.zeros(len(rows), np.bool_)
        for number, each in enumerate(figures):
            here = np.flatnonzero(numbers == number) if strata.by else slice(None)
            x, z = ({name: values[here] for name, values in all_.items()} for all_ in (masked, normals))
            if self.outliers is not None:
                outlying[here] = OutlierCuts.from_dict(each["outliers"]).outlying(x)
            for column, y in self._masked(x, z, each).items():
                masked[column][here] = y
        if self.outliers is None:
            return self.finished(rows, masked, plan)
        made = {column: np.where(outlying, y, np.nan) for column, y in masked.items()}
        return with_others_restored(self.finished(rows, made, plan), rows, self.columns, outlying)

    def _masked(
        self, x: Mapping[str, Floats], z: Mapping[str, Floats], figures: Mapping[str, Any]
    ) -> dict[str, Floats]:
        """The noisy values of one stratum."""
        correlated = self._correlated(z, figures) if self.kind == "correlated" else {}
        found = {}
        for column, values in x.items():
            if figures["sd"][column] == 0:
                continue
            found[column] = (
                self._shrunk(values + correlated[column], column, figures)
                if correlated
                else self._single(values, z[column], figures["sd"][column])
            )
        return found

    def finished(self, rows: RowBlock, masked: Mapping[str, Floats], plan: StagePlan) -> RowBlock:
        """Zeros kept, bounds held, and the result in its released type."""
        for column, y in masked.items():
            x = rows[column]
            if self.keep_zeros:
                y = np.where(x == 0, x, y)
            if self.clip is not None:
                y = np.clip(y, *(plan.detail["ends"][column] if self.clip == "domain" else self.clip))
            target = masked_type(rows.schema.field(column), self.round)
            rows = rows.replace(column, written(y, target, column=column, rounded=self.round))
        return rows

    def _single(self, x: Floats, z: Floats, sd: float) -> Floats:
        with np.errstate(over="ignore"):  # values beyond float64 are refused where they are written
            if self.kind == "multiplicative":
                t = np.sqrt(np.log1p(self.ratio))
                return np.asarray(x * np.exp(t * z - t * t / 2))
            return np.asarray(x + np.sqrt(self.ratio) * sd * z)

    def _correlated(self, normals: Mapping[str, Floats], figures: Mapping[str, Any]) -> dict[str, Floats]:
        """sqrt(k) A z by column; drawn for every record, so that a missing cell leaves no other unmasked."""
        noise = {}
        for column, row in zip(self.columns, figures["factor"], strict=True):
            # Added up term by term: a matrix product may round differently from block to block.
            terms = [z * float(weight) for z, weight in zip(normals.values(), row, strict=True)]
            noise[column] = np.sqrt(self.ratio) * sum(terms[1:], terms[0])
        return noise

    def _shrunk(self, y: Floats, column: str, figures: Mapping[str, Any]) -> Floats:
        if not self.bias_correct:
            return y
        mean = figures["mean"][column]
        return np.asarray(mean + (y - mean) / np.sqrt(1.0 + self.ratio))

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income",), variance_ratio=0.1),
            cls(columns=("income",), relative_sd=0.5, kind="multiplicative", keep_zeros=True),
            cls(columns=("income", "age"), variance_ratio=0.2, kind="correlated", bias_correct=True),
            cls(columns=("age",), variance_ratio=0.1, round=True, clip=(0.0, 99.0)),
            cls(columns=("income", "age"), variance_ratio=0.3, kind="orthogonal", block=8),
            cls(columns=("income", "age"), variance_ratio=0.5, outliers=0.975),
        ]
