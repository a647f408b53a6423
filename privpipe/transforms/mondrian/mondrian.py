"""Mondrian, with the search that plans it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privpipe.blocks import Primitives
from privpipe.transforms.base import StageContext, StagePlan
from privpipe.transforms.mondrian.planner import plan
from privpipe.transforms.mondrian.stage import MondrianStage

__all__ = ["Mondrian"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Mondrian(MondrianStage):
    """Cut the table in two, again and again, while both halves meet the guarantees; each part has labels of its own.

    Every guarantee over classes is met by both sides of every cut, and judged again on the released labels, which
    neighbouring parts may share. A quasi-identifier that is judged and not among the columns stays as it is: the
    table is first divided by its values.

    Where the guarantees count persons (households), a side of a cut holds whoever has a record there, so that somebody
    may be on both. Tables of up to 50 million combinations of values and persons are served.

    Beside a raw `population:` everybody of it falls into one part too, in mode strict: labels cover the values of the
    table and of the population there, and a part counts those of the population who get its labels. The population
    must have every column that is cut or judged; cuts lie between values of the table.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: every quasi-identifier that has a hierarchy. Others may be named: of numbers, dates and timestamps
        intervals are released, of other values sets.
    k : int, optional
        Least size of a part; it can only be stricter than the guarantees, and counts as they do.
    mode : {"strict", "relaxed"}
        strict: equal values stay together. relaxed: the records of the middle value may be divided, in the order of
        their keyed ids, which is the same on every engine; serves tables of up to 50 million records.
    score : {"width", "loss"}
        Where to cut: the widest column nearest its median, or what lowers the loss most.
    labels : {"cells", "values"}
        What an interval shows: the bounds of the cuts, or the least and greatest value present (also of a population).
    lookahead : {0, 1}
        1: a part of which no cut passes may be cut all the same, where each side passes or has a cut of its own whose
        sides do. For k, l and t nothing changes: what fails them has a part that does, however it is cut. It serves
        delta_disclosure with `present_only`, models of plug-ins that are neither hereditary nor convex, and entropy
        l-diversity, t-closeness and the like in persons.

    Notes
    -----
    Source: LeFevre, DeWitt, Ramakrishnan, ICDE 2006. A column with a hierarchy is cut in the order of its leaves
    and released as the lowest common ancestor of the values present. A range that takes in missing values and others
    is released as ``*``. Labels of one column may overlap (``north`` and ``*``): who reads them alone finds more of a
    population than are counted.

    Examples
    --------
    >>> Mondrian(k=5)
    Mondrian(k=5)
    >>> Mondrian(columns=["age", "income"], labels="values").columns
    ('age', 'income')
    """

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        return plan(engine, table, self, context)
