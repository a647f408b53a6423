"""Gates over one set of columns: how well it distinguishes records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import SizeModel
from privpipe.blocks.marks import KeyColumns, OwnColumns

__all__ = ["ColumnSetMeasure"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnSetMeasure(SizeModel):
    """A figure of the classes that `columns` form.

    `columns` may be of any role. They are the keys of the entry, so a search, a suite and a judgement count the same.
    """

    threshold_field = "at_most"
    protects_nobody_at = 1

    columns: Annotated[OwnColumns, Doc("the set of columns, of any role; left out: all quasi-identifiers")] = None
    at_most: Annotated[float | None, Ge(0), Le(1)] = None

    quasi_identifiers: Annotated[KeyColumns, Doc("the same as `columns`; give one of the two")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns(as_keys=True)
