"""Identifiers are never released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from privpipe.blocks import Facts, Primitives
from privpipe.transforms.base import Kind, StageContext, StagePlan, Transformer

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["DropIdentifiers"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DropIdentifiers(Transformer):
    """Remove every column with the role identifier that no `pseudonymise` stage names.

    The runner does so by itself before the first stage; written out, the stage documents it. A key that the
    run still needs (a person's) stays inside until the release is written.

    Examples
    --------
    >>> DropIdentifiers.name(), DropIdentifiers().parameters()
    ('drop_identifiers', {})
    """

    taxon: ClassVar[Kind] = "non-perturbative"
    columns_rule: ClassVar[Any] = "none"
    preserves: ClassVar[str] = "every other column"
    reveals: ClassVar[str] = "nothing"

    @property
    def keeps_places(self) -> bool:
        return True

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        kept = {*context.released_identifiers, *context.held_columns}
        dropped = [name for name in context.roles.identifiers if name not in kept]
        return StagePlan(name=self.name(), detail={"dropped": dropped})

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        return {"dropped": list(detail.get("dropped", ()))}  # by the policy's roles

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        return self.learn(engine, table, context)  # nothing learnt shapes a value, and the checks are made again

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        dropped = set(plan.detail["dropped"])
        return engine.select(table, [name for name in table.schema.names if name not in dropped])

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls()]
