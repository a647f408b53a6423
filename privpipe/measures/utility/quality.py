"""What a recoded release has lost, by the quality models that searches minimise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks.file_pair import DistinctPair, DistinctPairMeasure
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import OptionalNumber, Stricter
from privpipe.blocks.quality_spec import (
    DEFAULT_AGGREGATES,
    Aggregate,
    Attacker,
    LossSpec,
    QualityName,
    checked_quality,
    require_columns_of,
)
from privpipe.blocks.verdict import Verdict
from privpipe.errors import PrivpipeError, UsageError
from privpipe.tolerance import at_most

if TYPE_CHECKING:
    from privpipe.measures.utility.recoded_release import Recoded

__all__ = ["Quality"]

COUNT = "__privpipe_count"
SIZES = ("average_class_size", "c_avg")
PENALTIES = ("ncp", "gcp", "cell_loss")
BY_CLASSES = ("discernibility", "aecs")
BY_VALUES = ("entropy", "entropy_monotonic", "normalized_entropy", "kl_divergence")
OWN = ("compat", "attacker", "publisher_benefit", "publisher_loss", "adversary_gain", "adversary_cost", "penalties")


class _Name(str):
    """A quality model's name where every entry has its catalogue name: called, it gives that."""

    __slots__ = ()

    def __call__(self) -> str:
        return "quality"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler(str)


LOSS = _Name("loss")


@dataclass(frozen=True, kw_only=True, repr=False)
class Quality(DistinctPairMeasure):
    """What generalization and suppression have cost, by a quality model; small figures are good.

    observed = the model's figure; under the aggregate ``rank`` and the name ``ncp`` one figure per column.

    Parameters
    ----------
    name : str
        A quality model of `generalize`, or ``average_class_size`` (n' / K), ``c_avg`` (n' / (K k)), ``gcp`` (mean
        weighted penalty of a cell, any mixture of levels), ``ncp`` (the same a column), ``cell_loss`` (loss by the
        label of each cell).
    aggregate, gs_factor, weights, compat, attacker, penalties, response
        As in the `loss` of `generalize`.
    publisher_benefit, publisher_loss, adversary_gain, adversary_cost : float, optional
        As in the `loss` of `generalize`.
    k : int, optional
        Of `c_avg`.
    at_most : float, optional
        Left out (under `measures:`), the figure is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Evaluated on the distinct combinations of the release compared with those of the original. Without an original, or
    where the release is not a recoding of it by whole classes (other stages changed it as well), on the labels alone:
    enough for all models but the entropies and kl_divergence, which are errors then. The original's records need no
    ids.

    Examples
    --------
    >>> Quality(name="c_avg", k=5, at_most=3.0)
    Quality(name='c_avg', k=5, at_most=3.0)
    """

    observes = float | dict[str, float]
    source = "Iyengar, KDD 2002; Bayardo, Agrawal, ICDE 2005; Xu et al., KDD 2006; Ghinita et al., VLDB 2007"
    threat = "A release is so coarse that it is of no use; this is not a privacy figure."
    formula = "the loss that the stage generalize minimises, over the release, <= at_most"
    choose = (
        "loss runs from 0 (raw) to 1 (nothing left); below 0.3 most analyses of single columns survive. gcp compares "
        "releases made by different methods."
    )

    name: Annotated[
        Literal[QualityName, "average_class_size", "c_avg", "ncp", "gcp", "cell_loss"],
        Stricter("equal"),
        Doc("a quality model of generalize, average_class_size, c_avg, ncp, gcp or cell_loss"),
    ] = LOSS  # type: ignore[assignment]
    aggregate: Annotated[
        Aggregate | None, Stricter("equal"), Doc("how the columns' figures become one; left out: the model's own")
    ] = None
    gs_factor: Annotated[
        float, Ge(0), Le(1), Stricter("equal"), Doc("below 0.5 suppression is cheap, above it generalization is")
    ] = 0.5
    weights: Annotated[
        dict[str, Annotated[float, Ge(0)]] | None,
        Stricter("equal"),
        Doc("weight of each column, 1 unless given; divided by the largest"),
    ] = None
    compat: Annotated[Literal["arx"] | None, Stricter("equal"), Doc("of kl_divergence: arx sums one term a record")] = (
        None
    )
    attacker: Annotated[Attacker | None, Stricter("equal"), Doc("of publisher_payout: prosecutor or journalist")] = None
    publisher_benefit: Annotated[
        float | None, Ge(0), Stricter("equal"), Doc("of publisher_payout: what an unchanged record is worth")
    ] = None
    publisher_loss: Annotated[
        float | None,
        Ge(0),
        Stricter("equal"),
        Doc("of publisher_payout: what a successful attack on a record costs the publisher"),
    ] = None
    adversary_gain: Annotated[
        float | None, Ge(0), Stricter("equal"), Doc("of publisher_payout: what a successful attack brings the attacker")
    ] = None
    adversary_cost: Annotated[
        float | None, Ge(0), Stricter("equal"), Doc("of publisher_payout: what an attempt costs the attacker")
    ] = None
    penalties: Annotated[
        dict[str, list[float]] | None, Stricter("equal"), Doc("of static: the figure of each level of each column")
    ] = None
    response: Annotated[str | None, Stricter("equal"), Doc("of classification: the column that is predicted")] = None
    k: Annotated[OptionalNumber, Doc("of c_avg: the required size of class")] = None
    at_most: Annotated[float | None, Ge(0), Stricter("smaller"), Doc("largest figure that passes")] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _Name(self.name))
        super().__post_init__()
        if str(self.name) in (*SIZES, *PENALTIES):
            self._check_other()
        else:
            checked_quality("Quality", "", self)
        if (self.k is None) is (str(self.name) == "c_avg"):
            raise UsageError("Quality: k belongs to c_avg, which needs it")
        if self.at_most is not None and (self.aggregate == "rank" or str(self.name) == "ncp"):
            raise UsageError("Quality: a figure a column has no threshold; leave at_most out, or aggregate it")

    def _check_other(self) -> None:
        given = [own for own in (*OWN, "response") if getattr(self, own) is not None]
        given += ["gs_factor"] * (self.gs_factor != 0.5)
        given += ["weights"] * bool(self.weights and str(self.name) not in ("gcp", "cell_loss"))
        given += ["aggregate"] * (self.aggregate is not None and str(self.name) != "cell_loss")
        if given:
            raise UsageError(f"Quality: {given[0]} is not a parameter of the quality model {self.name!s}")

    def columns_read(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        return keys if self.response in (None, *keys) else (*keys, str(self.response))

    def judge_tables(self, pair: DistinctPair) -> Verdict:
        from privpipe.measures.utility.recoded_release import NotRecoded

        try:
            if str(self.name) in SIZES:
                return self._of_sizes(pair)
            return self._of_penalties(pair) if str(self.name) in PENALTIES else self._of_model(pair)
        except NotRecoded as error:
            if str(self.name) in BY_CLASSES:
                return self._of_sizes(pair)  # classes need no levels
            return self.not_judged(f"{error}")

    def _of_sizes(self, pair: DistinctPair) -> Verdict:
        names = [COUNT if name == "__count" else name for name in pair.released.column_names]
        classes = pair.released.rename_columns(names).group_by(list(pair.keys)).aggregate([(COUNT, "sum")])
        sizes = np.asarray(classes[f"{COUNT}_sum"].to_numpy(), dtype=np.float64)
        kept, records = int(sizes.sum()), _records(pair)
        told = f"{len(sizes):,} classes of {kept:,} records; {records - kept:,} of {records:,} records suppressed"
        if str(self.name) == "discernibility":
            return self._verdict(float((sizes * sizes).sum()) + float(records) * (records - kept), told)
        if str(self.name) == "aecs":
            weighted = self.spec().s * len(sizes) + self.spec().g * (records > kept)
            return self._verdict(records / weighted if weighted else float("inf"), told)
        return self._verdict(kept / len(sizes) / (self.k or 1), told)

    def _of_penalties(self, pair: DistinctPair) -> Verdict:
        from privpipe.kernels.quality.model import aggregated
        from privpipe.measures.utility.recoded_release import NotRecoded, cell_losses, certainty_penalties

        kept, records = int(np.asarray(pair.released["__count"].to_numpy()).sum()), _records(pair)
        by_cell = str(self.name) == "cell_loss"
        found = cell_losses(pair, records) if by_cell else certainty_penalties(pair, records)
        told = f"{records - kept:,} of {records:,} records suppressed"
        spec = LossSpec(weights=self.weights or {}, aggregate=self.aggregate if by_cell else "arithmetic_mean")
        try:
            require_columns_of(spec, list(found))
        except UsageError as error:
            raise NotRecoded(str(error)) from None
        weighted = spec.weights_of(list(found)) * np.array(list(found.values()))
        if str(self.name) == "ncp" or spec.aggregate == "rank":
            return self._verdict(dict(zip(found, weighted.tolist(), strict=True)), told)
        return self._verdict(float(aggregated(weighted[None, :], spec.aggregate or "geometric_mean")[0, 0]), told)

    def _of_model(self, pair: DistinctPair) -> Verdict:
        from privpipe.kernels.quality import quality_model
        from privpipe.measures.utility.recoded_release import NotRecoded, recoded

        spec = self.spec()
        found = recoded(pair, None if self.response in (None, *pair.keys) else self.response)
        if _needs_original(spec, found.table.unknown) and not found.values_known:
            raise NotRecoded(
                f"{spec.name} needs the original to compare with, changed by nothing but levels and suppressed classes"
            )
        try:
            model = quality_model(found.table, spec)
        except PrivpipeError as error:
            raise NotRecoded(str(error)) from None
        (figure, *more), columns = model.exact(found.levels, found.gone)
        score = self._score(model, found.table, figure) if found.values_known and not more else None
        notes = [*_figure_notes(model, found, spec.name, figure, score), *_suppression_notes(pair, found)]
        if spec.aggregate == "rank":
            weighted = spec.weights_of(found.table.columns) * np.array(columns)
            return self._verdict(dict(zip(found.table.columns, weighted.tolist(), strict=True)), *notes)
        return self._verdict(figure, *notes)

    def spec(self) -> LossSpec:
        """The quality model with its parameters, as a search has it."""
        own = {name: getattr(self, name) for name in (*OWN, "response")}
        aggregate = self.aggregate or DEFAULT_AGGREGATES.get(str(self.name))
        return LossSpec(
            name=str(self.name),  # type: ignore[arg-type]
            aggregate=aggregate,
            gs_factor=self.gs_factor,
            weights=self.weights or {},
            **own,
        )

    def _score(self, model: Any, table: Any, figure: float) -> float | None:
        from privpipe.kernels.quality import normalised_score

        everything = np.ones(len(table.codes), dtype=np.bool_)
        raw = [0] * len(table.columns)
        top = [hierarchy.height for hierarchy in table.hierarchies]
        least, most = model.exact(raw, ~everything)[0][0], model.exact(top, everything)[0][0]
        return normalised_score(figure, least, most)

    def _verdict(self, figure: Any, *notes: str) -> Verdict:
        infinite = isinstance(figure, float) and not np.isfinite(figure)
        passed = not self.is_gate() or (not infinite and bool(at_most(figure, self.at_most)))  # type: ignore[arg-type]
        seen = "a figure a column" if isinstance(figure, Mapping) else short(figure)
        return Verdict(
            self,
            None if infinite else figure,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason="; ".join((f"observed {seen}{self.asked}", *notes)) + ".",
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(at_most=0.4),
            cls(name="discernibility", at_most=0.0),
            cls(name="precision", aggregate="rank", weights={"zip": 2.0}),
            cls(name="gcp", at_most=1.0),
            cls(name="c_avg", k=2, at_most=2.0),
        ]


def _needs_original(spec: LossSpec, unknown: int) -> bool:
    """Whether the figure depends on values that labels, or records suppressed unseen, do not show."""
    if spec.name in BY_VALUES:
        return True
    return unknown > 0 and (spec.name == "discernibility_monotonic" or (spec.name == "loss" and spec.s < 1))


def _figure_notes(model: Any, found: Recoded, name: str, figure: float, score: float | None) -> list[str]:
    """The figure on other scales."""
    notes = []
    if name == "publisher_payout":
        notes.append(f"payout {short(float(model.payout(found.levels, found.gone)))}")
    if name == "ambiguity" and 0 < figure < float("inf"):
        notes.append(f"log10 {np.log10(figure):.6g}")
    if score is not None:
        notes.append(f"score {score:.4g} (1 for the raw table, 0 for nothing but suppressed records)")
    return notes


def _suppression_notes(pair: DistinctPair, found: Recoded) -> list[str]:
    """How many records were suppressed, as far as the tables show."""
    suppressed = int(found.table.rows.counts[found.gone].sum()) + found.table.unknown
    counted = found.values_known or pair.records is not None or pair.original is not None
    notes = [f"{suppressed:,} of {found.table.records:,} records suppressed"] if counted or suppressed else []
    if not found.values_known:
        notes.append("by the labels of the release alone" + ("" if counted else ", whatever was suppressed"))
    return notes


def _records(pair: DistinctPair) -> int:
    """N, as far as the given tables show it: suppressed records included."""
    kept = int(np.asarray(pair.released["__count"].to_numpy()).sum())
    before = 0 if pair.original is None else int(np.asarray(pair.original["__count"].to_numpy()).sum())
    return max(kept + pair.marked, pair.records or 0, before)
