"""Local recoding, with the search that plans it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privpipe.blocks import Primitives
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.local_recoding.planner import plan
from privpipe.transforms.local_recoding.stage import LocalRecodingStage

__all__ = ["LocalRecoding"]


@dataclass(frozen=True, kw_only=True, repr=False)
class LocalRecoding(LocalRecodingStage):
    """Generalize to one vector of levels after the other, and keep at each the classes that pass among what is left.

    What no vector can keep is suppressed, within the limit. The guarantees are judged again over all of them
    together, for classes of different vectors may get the same labels.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: every quasi-identifier that has a hierarchy.
    method : {"sweep", "rounds"}
        `sweep` walks all vectors of levels in the order of what they lose. `rounds` searches for the best vector again
        and again; it also serves guarantees over some quasi-identifiers alone or over all classes together, and
        lattices of more than 200,000 vectors, for which `sweep` takes it by itself.
    share : float, optional
        What a vector must keep, in [0, 1]: under `sweep` of all records (default 0; 0.01 gives short plans), under
        `rounds` of what it got, above 0 (default 0.05); a round that does not is tried again with suppression dearer.
    gs_factor : float
        Under `rounds`, in [0, 1], of the first round; below 0.5 suppression is cheap, above it generalization is.
    suppress_at_most : float
        Share of the records that may be suppressed in the end, in [0, 1].

    Notes
    -----
    What a vector loses is the loss of the whole table at it. Source: Xu et al., KDD 2006 (local recoding); Iyengar,
    KDD 2002 (loss).

    Examples
    --------
    >>> LocalRecoding(suppress_at_most=0.05)
    LocalRecoding(suppress_at_most=0.05)
    """

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        return plan(engine, table, self, context)
