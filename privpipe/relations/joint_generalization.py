"""Generalization of related tables together: one vector of levels over the quasi-identifiers of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.errors import NoSolutionError, UsageError
from privpipe.relations.joint_levels import Checked, JointLevels, climbed, described, least_loss
from privpipe.relations.related_rows import counts_of, without_persons
from privpipe.relations.set_stages import RelatedSet, SetStage
from privpipe.tolerance import floor_share

__all__ = ["GeneralizeJointly"]


@dataclass(frozen=True, kw_only=True, repr=False)
class GeneralizeJointly(SetStage):
    """Replace values of all tables by labels of their hierarchies, by the one vector of levels that loses least.

    Parameters
    ----------
    search : {"optimal", "bottom_up"}
        All vectors, or a walk from the finest one up, which ends at one that meets the guarantees and claims no
        optimum.
    suppress_at_most : float
        Share of the persons, in [0, 1], that may go with all their rows; by default nobody.

    Raises
    ------
    NoSolutionError
        No vector meets the guarantees; the message has the number of persons that would have to go.

    Notes
    -----
    Columns are the quasi-identifiers with a hierarchy that the stages of their table left as they are. The loss is
    that of `generalize` for each table, suppressed rows and all, as a mean weighted by cells. Under
    `joint_k_anonymity` alone, levels that fail rule out all finer ones; under other guarantees every vector that
    would lose less than the best is looked at.

    Examples
    --------
    >>> GeneralizeJointly(suppress_at_most=0.02)
    GeneralizeJointly(suppress_at_most=0.02)
    """

    threat = "Persons whom few others match in what an intruder knows, over all tables."
    choose = "`optimal`; `bottom_up` where there are many vectors of levels and large tables."

    search: Annotated[Literal["optimal", "bottom_up"], Doc("the best vector of levels, or a walk up to one")] = (
        "optimal"
    )
    suppress_at_most: Annotated[float, Ge(0), Le(1), Doc("share of the persons that may be removed")] = 0.0

    def run(self, tables: RelatedSet) -> RelatedSet:
        search = self._search(tables)
        persons, allowed = search.census.persons, search.allowed
        found = least_loss(search) if self.search == "optimal" else climbed(search)
        if found is None:
            top = search.check(search.top, whole=True).gone.num_rows
            raise NoSolutionError(
                f"{self.name()}: no levels meet the joint guarantees with at most {allowed:,} of {persons:,} "
                f"persons suppressed; at the coarsest levels {top:,} would have to go: raise `suppress_at_most`, or "
                "cap rows before"
            )
        proved = {"optimal": self.search == "optimal", "vectors": search.size, "vectors_checked": search.checked}
        return self._after(tables, search, found, proved)

    def follow(self, tables: RelatedSet, planned: Mapping[str, int]) -> RelatedSet:
        """The tables at the levels of a plan; persons of groups that fail there go, as far as they may.

        Raises
        ------
        UsageError
            The levels are of other columns, or above those that the hierarchies have here.
        NoSolutionError
            More persons would have to go than may.
        """
        search = self._search(tables)
        names = list(described(search, search.top))
        if sorted(planned) != sorted(names):
            raise UsageError(
                f"{self.name()}: the plan has levels of {', '.join(sorted(planned)) or 'no column'}, and the tables of "
                f"{', '.join(sorted(names))}; make a new plan"
            )
        levels = tuple(planned[name] for name in names)
        for name, level, column in zip(names, levels, search.columns, strict=True):
            if level not in column.allowed:
                raise UsageError(f"{self.name()}: {name} has no level {level} in its hierarchy here; make a new plan")
        found = search.check(levels, whole=True)
        if not search.is_within(found):
            raise NoSolutionError(
                f"{self.name()}: at the levels of the plan {found.gone.num_rows:,} of {search.census.persons:,} "
                f"persons would have to go, and {search.allowed:,} may: make a new plan, or raise `suppress_at_most`"
            )
        return self._after(tables, search, found, {})

    def _search(self, tables: RelatedSet) -> JointLevels:
        census = tables.related.census()
        allowed = floor_share(self.suppress_at_most, census.persons)
        search = JointLevels.of(tables.related, tables.demanded(self.name()), tables.contexts, census, allowed)
        if not search.columns:
            raise UsageError(
                f"{self.name()}: no table has a quasi-identifier with a `hierarchy:` that its own stages left as it is"
            )
        return search

    def _after(self, tables: RelatedSet, search: JointLevels, found: Checked, proved: Mapping[str, Any]) -> RelatedSet:
        after = search.recoded(found.levels)
        after = without_persons(after, found.gone) if found.gone.num_rows else after
        return tables.after(
            after,
            name=self.name(),
            levels=described(search, found.levels),
            loss=found.loss,
            **proved,
            persons=search.census.persons,
            suppressed_persons=found.gone.num_rows,
            rows_before=counts_of(tables.related),
            rows_after=counts_of(after),
        )

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        return {"levels": dict(detail.get("levels", {}))}  # the labels are in the data

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(search="bottom_up", suppress_at_most=0.1)]
