"""SafePub: sample, generalize by a scheme fixed beforehand, suppress small classes; differentially private."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassQuery, Primitives, RowBlock
from privpipe.blocks.arrays import Bools
from privpipe.blocks.marks import Levels
from privpipe.errors import DataError, NoSolutionError, UsageError, did_you_mean
from privpipe.kernels.process_proofs import MOST_EPSILON
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.recoding.generalize_stage import how_given
from privpipe.transforms.recoding.labelling import (
    RecodingStage,
    declared,
    hierarchies_of,
    is_recoded,
    labels_at,
    texts_of,
)
from privpipe.transforms.suppression.class_failures import KeysDropped

if TYPE_CHECKING:
    from privpipe.draws import Draws, Stream
    from privpipe.hierarchies import Hierarchy

__all__ = ["HARMLESS_BEFORE", "Safepub", "process_of"]

HARMLESS_BEFORE = ("drop_identifiers", "pseudonymise")
"""Stages before sampling that treat each record by itself, whatever the others are."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Safepub(RecodingStage):
    """Draw each record at a rate, generalize to given levels and suppress every class below a size, both by epsilon.

    The sampling rate beta = 1 - exp(-epsilon) and the least class size k(epsilon, delta) make the whole
    (epsilon, delta)-differentially private for the quasi-identifiers. The stage leaves a record of itself in the
    plan, which the guarantee `differential_privacy` judges.

    Parameters
    ----------
    epsilon : float
        In (0, 15].
    delta : float
        In (0, 1); below one over the number of records.
    levels : mapping of column to int
        Level of each quasi-identifier with a hierarchy; 0, or left out: the raw value. Choose them without looking
        at the data.

    Raises
    ------
    UsageError
        While planning: a level above a hierarchy, or a hierarchy that is made from the data.
    NoSolutionError
        While running: no class is large enough.

    Notes
    -----
    Any number of records may be suppressed. Classes are those over all quasi-identifiers: other columns that are
    released next to them are not covered. The draw is as secret as the seed. Each further release of the same data
    adds up epsilon and delta.

    Examples
    --------
    >>> Safepub(epsilon=1.0, delta=1e-5, levels={"age": 2})
    Safepub(epsilon=1.0, delta=1e-05, levels={'age': 2})
    """

    columns_rule = "none"
    suppresses = True
    needs_draws = True
    forbids_counts = True
    preserves = "truth: every label covers the value it stands for; shares, up to sampling"
    reveals = "little more of any one person than a release without the person would"
    source = (
        "Bild, Kuhn, Prasser, SafePub, PoPETs 2018(1); Li, Qardaji, Su, On sampling, anonymization, and "
        "differential privacy, ASIACCS 2012"
    )

    epsilon: Annotated[
        float,
        Gt(0),
        Le(MOST_EPSILON),
        Doc("how much likelier any result may become by one person's record, as an exponent"),
    ]
    delta: Annotated[
        float, Gt(0), Lt(1), Doc("chance that more than that is lost; below one over the number of records")
    ]
    levels: Annotated[
        dict[str, Annotated[int, Ge(0)]],
        Levels(),
        Doc("level of each quasi-identifier, 0 for the raw value; chosen without looking at the data"),
    ] = field(default_factory=dict)

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        from privpipe.kernels.process_proofs import safepub_parameters

        columns = self._columns(context)
        hierarchies, _ = hierarchies_of(engine, table, columns, context)
        for column, hierarchy in hierarchies.items():
            _require_fixed(column, self.levels[column], hierarchy, context)
        beta, k = safepub_parameters(float(self.epsilon), float(self.delta))
        return StagePlan(
            name=self.name(),
            parameters=self.parameters(),
            detail={
                "levels": {column: self.levels[column] for column in columns},
                "recoded": [name for name in columns if is_recoded(hierarchies[name], self.levels[name])],
                "classes_over": list(context.roles.quasi_identifiers),
                "process": {
                    "epsilon": float(self.epsilon),
                    "delta": float(self.delta),
                    "beta": beta,
                    "k": k,
                    "scheme": _scheme(self.levels, columns, context),
                    "data_independent": True,
                    "beside": [*context.roles.sensitive, *context.roles.insensitive, *context.released_identifiers],
                },
            },
        )

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        """Levels and the record of the process, which was fixed before the data; never how many were drawn."""
        process = {name: value for name, value in detail.get("process", {}).items() if name != "drawn"}
        return {"levels": dict(detail.get("levels", {})), "process": process}

    def recoded_at_all(self, context: StageContext) -> list[str]:
        return [name for name in self._columns(context) if self.levels[name]]

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        columns, process = self._columns(context), plan.detail["process"]
        if _scheme(self.levels, columns, context) != process["scheme"]:
            raise DataError(f"{context.place}: the plan was made with other levels or hierarchies")
        drawn = self.entering(engine, table, draws)
        recoded = self._recoded(engine, drawn, plan, columns, context)
        keys = tuple(context.roles.quasi_identifiers)
        kept = engine.keep_classes(recoded, ClassQuery(keys=keys), _AtLeast(int(process["k"])))
        if not engine.count(kept):
            raise NoSolutionError(
                f"{context.place}: every class has fewer than {process['k']:,} of the records drawn; it takes coarser "
                "levels, more records, or a larger epsilon or delta"
            )
        return kept

    def entering(self, engine: Primitives, table: Any, draws: Draws) -> Any:
        from privpipe.kernels.process_proofs import sampling_rate

        return engine.map_rows(table, _Sampled.at(sampling_rate(float(self.epsilon)), draws.of("")), table.schema)

    def recorded(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws) -> StagePlan:
        drawn = engine.count(self.entering(engine, table, draws))
        process = {**plan.detail["process"], "drawn": drawn}
        return replace(plan, detail={**plan.detail, "process": process})

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        return self.learn(engine, table, context)

    def shaping(self, plan: StagePlan) -> Mapping[str, Any]:
        return {}  # the sample is drawn before anything is learnt

    def _columns(self, context: StageContext) -> tuple[str, ...]:
        held = [name for name in context.roles.quasi_identifiers if name in context.hierarchies]
        for column in self.levels:
            if column not in held:
                raise UsageError(
                    f"{context.place}: {column!r} is not a quasi-identifier with a hierarchy"
                    f"{did_you_mean(column, held)}; {how_given(column, context)}"
                )
        if not context.roles.quasi_identifiers:
            raise UsageError(f"{context.place}: no quasi-identifier is declared, so there are no classes")
        return tuple(name for name in held if name in self.levels)

    def _recoded(
        self, engine: Primitives, table: Any, plan: StagePlan, columns: tuple[str, ...], context: StageContext
    ) -> Any:
        import pyarrow as pa

        hierarchies, values = hierarchies_of(engine, table, columns, context)
        codebooks = {}
        for column in columns:
            codes = hierarchies[column].encode(texts_of(values[column], context, column))
            known = codes >= 0
            if not known.all():
                unknown = pa.table({column: values[column].filter(pa.array(~known))})
                table = engine.map_rows(table, KeysDropped.of((column,), unknown), table.schema)
            if column in plan.detail["recoded"]:
                labels = labels_at(hierarchies[column], self.levels[column], codes[known])
                codebooks[column] = (values[column].filter(pa.array(known)), labels)
        return engine.recode(table, codebooks) if codebooks else table

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(epsilon=1.0, delta=1e-3), cls(epsilon=2, delta=1e-6, levels={})]


def process_of(stages: Sequence[Mapping[str, Any] | StagePlan]) -> Mapping[str, Any] | None:
    """The record that a `safepub` stage left in a plan, or None.

    Its scheme counts as independent of the data only where nothing before it looked at the data as a whole.

    Examples
    --------
    >>> stage = StagePlan(name="safepub", detail={"process": {"k": 9, "data_independent": True}})
    >>> process_of([StagePlan(name="microaggregate"), stage])
    {'k': 9, 'data_independent': False}
    """
    before: list[str] = []
    for stage in stages:
        name, detail = (stage.name, stage.detail) if isinstance(stage, StagePlan) else (stage["name"], stage["detail"])
        if isinstance(found := detail.get("process"), Mapping):
            harmless = all(other in HARMLESS_BEFORE for other in before)
            return {**found, "data_independent": found.get("data_independent") is True and harmless}
        before.append(str(name))
    return None


def _require_fixed(column: str, level: int, hierarchy: Hierarchy, context: StageContext) -> None:
    """A scheme that was fixed before looking at the data: levels that exist, labels that no other record changes."""
    from privpipe.hierarchies.redact import Redact

    if level > hierarchy.height:
        raise UsageError(
            f"{context.place}: level {level} of {column!r} is above its hierarchy, whose last level is "
            f"{hierarchy.height}"
        )
    builder = context.hierarchies[column].builder
    by_longest = isinstance(builder, Redact) and builder.length is None
    if level and (hierarchy.data_dependent or by_longest):
        how = "; declare how long its values are: redact: {length: ...}" if by_longest else ", such as a file"
        raise UsageError(
            f"{context.place}: the hierarchy of {column!r} is made from the values at hand, and differential privacy "
            f"needs one that was fixed before looking at them{how}"
        )


def _scheme(levels: Mapping[str, int], columns: Sequence[str], context: StageContext) -> str:
    """SHA-256 of levels and hierarchies as declared; it contains nothing from the data."""
    parts = {name: [levels[name], declared(context.hierarchies[name], context.types.get(name))] for name in columns}
    text = json.dumps({"keys": list(context.roles.quasi_identifiers), "columns": parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class _AtLeast:
    """Classes of at least a number of records."""

    size: int

    def __call__(self, block: ClassBlock) -> Bools:
        large: Bools = block.sizes >= self.size
        return large


@dataclass(frozen=True)
class _Sampled:
    """Keeps the records whose word is below a bound: never more than the rate, to the last bit."""

    bound: int
    stream: Stream = field(repr=False)

    @classmethod
    def at(cls, rate: float, stream: Stream) -> Self:
        """At a rate in (0, 1)."""
        return cls(int(Fraction(rate) * 2**64), stream)

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(self.stream.words(rows.record_ids) < np.uint64(self.bound)))
