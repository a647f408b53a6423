"""The matrix of what is generalized and what is suppressed, each cell with the stage that serves it.

AG: one level a column. CG: a cell may have its own level. TS, AS, CS: whole records, whole columns, cells are removed.

Source: Ciriani, De Capitani di Vimercati, Foresti, Samarati, k-Anonymity, Springer 2007.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privpipe.errors import UnsupportedError

__all__ = ["APPROACHES", "Approach", "approach_of"]


@dataclass(frozen=True)
class Approach:
    """One cell of the matrix.

    Parameters
    ----------
    stage : str
        The stage of the policy that serves it.
    algorithm : str
        How, in words.
    options : mapping
        What the short form stands for, in that stage.
    also : tuple of str
        Other stages that serve it.
    """

    stage: str
    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()


APPROACHES: Mapping[str, Approach | str] = {
    "AG_TS": Approach("generalize", "optimal lattice search; whole failing classes are removed"),
    "AG_AS": Approach("generalize", "lattice search without suppression: a column at its root is removed"),
    "AG_CS": Approach("generalize", "best-first over the levels; cells of failing classes are blanked"),
    "AG_": Approach("generalize", "optimal lattice search without suppression"),
    "CG_TS": Approach("mondrian", "multidimensional recoding with labels", also=("local_recoding",)),
    "CG_AS": Approach("mondrian", "as CG_: a column of root labels is removed", also=("local_recoding",)),
    "CG_CS": Approach("mondrian", "as CG_: a suppressed cell is a root label", also=("local_recoding",)),
    "CG_": Approach("mondrian", "multidimensional recoding to common ancestors", also=("local_recoding",)),
    "_TS": Approach("suppress_records", "every record of a failing class is removed", also=("generalize",)),
    "_AS": Approach("generalize", "lattice of raw or removed columns", {"roots_only": True}),
    "_CS": Approach("suppress_cells", "local suppression", {"method": "greedy"}),
    "_": "nothing is transformed, so there is no stage: assess the table as it is",
}
"""The cell, or why no stage serves it."""


def approach_of(name: str, stage: str, place: str) -> Approach:
    """The approach of a name in a stage.

    Raises
    ------
    UnsupportedError
        No stage serves it, or another one does: the message says which.

    Examples
    --------
    >>> approach_of("_AS", "generalize", "transform[0].generalize").algorithm
    'lattice of raw or removed columns'
    """
    found = APPROACHES[name]
    if isinstance(found, str):
        raise UnsupportedError(f"{place}: approach {name}: {found}")
    if stage not in (found.stage, *found.also):
        stages = " or ".join(f"`{each}`" for each in (found.stage, *found.also))
        raise UnsupportedError(f"{place}: approach {name} ({found.algorithm}) is served by the stage {stages}")
    return found
