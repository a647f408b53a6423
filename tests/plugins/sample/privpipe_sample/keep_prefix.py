"""Texts cut down to their first characters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import Primitives, RowBlock
from privpipe.blocks.marks import Columns
from privpipe.errors import DataError
from privpipe.transforms.base import Kind, RowTransformer, StageContext, StagePlan, checked_columns

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["KeepPrefix"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KeepPrefix(RowTransformer):
    """Replace each text by its first characters.

    Parameters
    ----------
    columns : tuple of str
        Texts; a missing one stays missing.
    characters : int
        At least 1.

    Examples
    --------
    >>> KeepPrefix(columns=["zip"], characters=2).characters
    2
    """

    taxon: ClassVar[Kind] = "non-perturbative"
    preserves: ClassVar[str] = "the first characters"
    reveals: ClassVar[str] = "the first characters"
    source: ClassVar[str] = "the tests of privpipe"

    columns: Annotated[tuple[str, ...], Columns(), Doc("text columns")]
    characters: Annotated[int, Ge(1), Doc("how many are kept")]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", checked_columns("KeepPrefix", self.columns))

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        import pyarrow as pa

        for name in self.columns:
            if not pa.types.is_string(context.schema.field(name).type):
                raise DataError(f"{context.place}: column {name!r} is not text; keep_prefix cuts texts")
        return super().learn(engine, table, context)

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        return self.learn(engine, table, context)

    def apply_block(self, rows: RowBlock, plan: StagePlan, draws: Draws) -> RowBlock:
        import pyarrow.compute as pc

        for name in self.columns:
            rows = rows.replace(name, pc.utf8_slice_codeunits(rows.column(name), 0, self.characters))
        return rows

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(columns=("zip",), characters=2), cls(columns=("zip", "sex"), characters=1)]
