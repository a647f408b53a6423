"""Figures of the levels alone: height, and a table of the user's own."""

from __future__ import annotations

from privpipe.blocks.quality_spec import penalties_of
from privpipe.kernels.quality.by_column import ColumnModel, Floats

__all__ = ["HeightModel", "StaticModel"]


class HeightModel(ColumnModel):
    """u = v: how many steps a column went up. Source: Samarati, IEEE TKDE 13(6), 2001 (absolute distance)."""

    def figure(self, at: int, level: int, lost: Floats, suppressed: int) -> float:
        return self.least(at, level)

    def least(self, at: int, level: int) -> float:
        return float(level)


class StaticModel(HeightModel):
    """u = penalty of the column's level, by the user's table."""

    def prepare(self) -> None:
        columns = self.table.columns
        self._penalties = [
            penalties_of(self.spec, column, hierarchy.height, columns)
            for column, hierarchy in zip(columns, self.table.hierarchies, strict=True)
        ]

    def least(self, at: int, level: int) -> float:
        return float(self._penalties[at][level])
