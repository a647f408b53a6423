"""Suppress whole failing classes of the table as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Facts, Primitives
from privpipe.transforms.base import Kind, StageContext, StagePlan, Transformer
from privpipe.transforms.suppression.budget import suppress_failing

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["SuppressRecords"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressRecords(Transformer):
    """Remove every record whose class fails a guarantee, within a budget over the whole table.

    Class-based guarantees go first, in rounds where they are judged on several sets of quasi-identifiers;
    then sample-based ones remove further classes by ascending size, as few as suffice.

    Parameters
    ----------
    suppress_at_most : float
        Share of the stage's input that may go, in [0, 1], in records.
    whole : {"records", "households"}, optional
        households: where one member goes, all go, and what is left is judged again until nothing more goes; the
        households that fail `household_k_anonymity` go too. Default: households where the guarantees count them.

    Notes
    -----
    Source: Samarati, IEEE TKDE 13(6), 2001 (record suppression).

    Examples
    --------
    >>> SuppressRecords(suppress_at_most=0.05)
    SuppressRecords(suppress_at_most=0.05)
    """

    taxon: ClassVar[Kind] = "non-perturbative"
    columns_rule: ClassVar[Any] = "none"
    suppresses: ClassVar[bool] = True
    serves: ClassVar[tuple[str, ...]] = ("persons", "population", "wildcard", "labels")
    preserves: ClassVar[str] = "the values of every record that stays"
    reveals: ClassVar[str] = "that the records which went were in small or uneven classes"
    source: ClassVar[str] = "Samarati, IEEE TKDE 13(6), 2001"

    suppress_at_most: Annotated[float, Ge(0), Le(1), Doc("share of the records that may be removed")] = 0.0

    whole: Annotated[
        Literal["records", "households"] | None,
        Doc("what goes at once; left out: households where a guarantee is over them, else records"),
    ] = None

    def needs_keys(self) -> tuple[str, ...]:
        return ("household_id",) if self.whole == "households" else ()

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        return StagePlan(name=self.name(), parameters=self.parameters())

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        return self.learn(engine, table, context)  # nothing learnt shapes a value, and the checks are made again

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        whole = context.counts_households if self.whole is None else self.whole == "households"
        return suppress_failing(
            engine, table, context, self.suppress_at_most, serves=self.serves, whole=table if whole else None
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(suppress_at_most=0.0), cls(suppress_at_most=0.3), cls(suppress_at_most=1.0, whole="records")]
