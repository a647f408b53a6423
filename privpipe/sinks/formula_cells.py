"""Released texts that spreadsheet programs would run as formulas: noted, escaped or refused, as the sink says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from privpipe.blocks import Facts, RowBlock
from privpipe.engines import Engine
from privpipe.engines.readers.text_forms import formula_cells
from privpipe.errors import DataError

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["escapes_formulas", "formula_notes"]

WHAT = "begin with =, +, -, @ or a tab, which spreadsheet programs run as formulas"


@dataclass(frozen=True)
class CountFormulas:
    """Cells of each column that a spreadsheet takes for formulas."""

    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> Mapping[str, int]:
        return {name: formula_cells(block.column(name)).true_count for name in self.columns}

    def merge(self, left: Mapping[str, int], right: Mapping[str, int]) -> Mapping[str, int]:
        return {name: left[name] + right[name] for name in self.columns}


def escapes_formulas(policy: Policy) -> bool:
    """Whether the sink puts an apostrophe before such texts."""
    return policy.sink is not None and policy.sink.escapes_formulas


def formula_notes(engine: Engine, policy: Policy, table: Any) -> tuple[str, ...]:
    """What the verdict says of such cells and names of columns in a CSV release; nothing where there are none.

    Raises
    ------
    DataError
        There are some, and the sink says `formula_cells: refuse`.
    """
    sink = policy.sink
    if sink is None or sink.format != "csv":
        return ()
    found = [*_in_cells(engine, table), *_in_names(table.schema.names)]
    if not found:
        return ()
    listed = ", ".join(found)
    if sink.formula_cells == "refuse":
        raise DataError(
            f"{listed} {WHAT}, and the sink says `formula_cells: refuse`; change the labels, or write `escape`"
        )
    if sink.formula_cells == "escape":
        return (f"{listed} {WHAT}: they are written behind an apostrophe",)
    return (f"{listed} {WHAT}; `formula_cells: escape` or `refuse` in the sink keeps them from it",)


def _in_cells(engine: Engine, table: Any) -> list[str]:
    texts = tuple(field.name for field in table.schema if pa.types.is_string(field.type))
    counted = (engine.reduce_rows(table, texts, CountFormulas(texts), Facts()) or {}) if texts else {}
    return [f"{count:,} cell{'s' if count != 1 else ''} of column {name!r}" for name, count in counted.items() if count]


def _in_names(names: Sequence[str]) -> list[str]:
    formulas = formula_cells(pa.array(names)).to_pylist()
    return [f"the name of column {name!r}" for name, formula in zip(names, formulas, strict=True) if formula]
