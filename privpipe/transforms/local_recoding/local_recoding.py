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

    What no vector can keep is suppressed, within the limit, or merged with what was kept. The guarantees are judged
    again over all of them together, for classes of different vectors or groups may get the same labels.

    Where the guarantees count persons, somebody with several records in a class counts once. Where they count
    households, those of whom a record is suppressed leave as a whole, within the limit.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: every quasi-identifier that has a hierarchy.
    method : {"sweep", "search", "rounds"}
        `sweep` walks all vectors of levels in the order of what they lose. `search` goes on from there: it regroups
        combinations of values, a few groups at a time, and labels each group by its lowest common ancestors; it loses
        less, takes longer and serves lattices of any size. `rounds` searches for the best vector again and again; it
        also serves guarantees over some quasi-identifiers alone or over all classes together, and the sweep's lattices
        of more than 200,000 vectors: for these the others take it by themselves. The plan says which one was taken.
    share : float, optional
        What a vector must keep, in [0, 1]: under `sweep` of all records (default 0; 0.01 gives short plans), under
        `rounds` of what it got, above 0 (default 0.05); a round that does not is tried again with suppression dearer.
    steps : int
        Under `search`, at least 1: steps for each combination of values. Fewer than 4,096 combinations are searched as
        long as so many.
    block : int
        Under `search`, at least 2: combinations of values that are regrouped together. A larger table is cut into
        blocks, as `mondrian` cuts it.
    gs_factor : float
        Under `rounds`, in [0, 1], of the first round; below 0.5 suppression is cheap, above it generalization is.
    rest : {"suppress", "merge"}
        What becomes of the classes that violate in the end. `merge` unites each, the smallest first, with the class
        whose union loses least, under the least common labels of their members, until all meet the guarantees; unions
        dearer than suppressing only where these lose less in the end, or where more is left than may be suppressed. It
        never suppresses or loses more than `suppress`. Guarantees over some quasi-identifiers alone or over all classes
        leave their rest to suppression. Adult, k = 10, share 0.01: 0 records suppressed in place of 282, loss .0475 in
        place of .0504, in .9 CPU seconds in place of .4; under t-closeness of .4, 0 in place of 536, .1600 in place of
        .1672.
    suppress_at_most : float
        Share of the records that may be suppressed in the end, in [0, 1].

    Notes
    -----
    What a vector loses is the loss of the whole table at it. What `search` draws is public and the same for every
    seed: it hides nothing, and the plan is a function of the counts. Source: Xu et al., KDD 2006 (local recoding);
    Iyengar, KDD 2002 (loss).

    Examples
    --------
    >>> LocalRecoding(suppress_at_most=0.05)
    LocalRecoding(suppress_at_most=0.05)
    """

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        return plan(engine, table, self, context)
