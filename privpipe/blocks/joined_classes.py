"""The class tables of an original and of its release joined by their keys, for counts that pair no records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.comparison import Comparison
from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.marks import Columns
from privpipe.blocks.verdict import Verdict
from privpipe.blocks.way import JOINED_CLASSES, Way
from privpipe.roles import Roles

if TYPE_CHECKING:
    from privpipe.blocks.class_block import ClassBlock
    from privpipe.blocks.primitives import Reduction

__all__ = ["JoinedClassMeasure", "JoinedTables"]


@dataclass(frozen=True, kw_only=True)
class JoinedTables:
    """What was counted over the joined classes; in memory only, never published, never logged.

    Parameters
    ----------
    counts : object
        Of the original with the release, as the entry's reduction counts.
    records, released : int
        Records of the original; rows of the release.
    secrets : ndarray of int64, shape (values,)
        Records of the original with each value of the secret column; values in the order of their text, null last.
    holdout : object, optional
        Of the holdout with the release.
    holdout_records : int
    compared : tuple of Comparison
        Rows of the release with a value that the original has, in the key column with the fewest.
    """

    counts: Any = field(repr=False)
    records: int
    released: int
    secrets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    holdout: Any = field(default=None, repr=False)
    holdout_records: int = 0
    compared: tuple[Comparison, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class JoinedClassMeasure(Guarantee):
    """A measure of two class tables joined by exact keys: of any size, without pairs, hence also of synthetic tables.

    The original is recoded as the release was before keys are compared. Subclasses give `reduction`, over blocks with
    cells of one column that tell the sides and the secret apart, and `judge_joined`.
    """

    way: ClassVar[Way] = JOINED_CLASSES
    threshold_field: ClassVar[str | None] = "at_most"

    compares_numbers: ClassVar[bool] = True
    """Whether numbers that are not in the original leave a row unjudged; False: they show that it is no copy."""

    columns: Annotated[tuple[str, ...] | None, Columns()] = None

    def compared_columns(self, roles: Roles) -> tuple[str, ...]:
        """Columns of the key; default: its `columns`, else all quasi-identifiers."""
        return self.columns or tuple(roles.quasi_identifiers)

    def secret(self) -> str | None:
        """Column whose values are counted within the keys; None: records alone are."""
        return None

    def table_beside(self) -> str | None:
        """Path of a holdout that is joined with the release as the original is."""
        return None

    def reduction(self, secrets: NDArray[np.int64]) -> Reduction[ClassBlock, Any]:
        """What counts a block: code s * values + v for the secret v in the original (s = 0) or the release (s = 1)."""
        raise TypeError(f"{type(self).__name__} joins no classes")

    def judge_joined(self, tables: JoinedTables) -> Verdict:
        """The verdict over the counts."""
        raise TypeError(f"{type(self).__name__} joins no classes")
