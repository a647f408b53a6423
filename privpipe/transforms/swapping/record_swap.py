"""Targeted record swapping: whole households exchange their areas, those at risk first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import Primitives
from privpipe.blocks.arrays import Bools
from privpipe.blocks.marks import ColumnNames, Columns, Household
from privpipe.errors import NoSolutionError, UsageError
from privpipe.tolerance import at_most, floor_share
from privpipe.transforms.base import StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.strata import require_present, units_of
from privpipe.transforms.swapping.homes import Asked, Homes, read_homes, rows_moved

if TYPE_CHECKING:
    from privpipe.draws import Draws
    from privpipe.kernels.households import HouseholdSwaps

__all__ = ["RecordSwap"]

OWNER = "RecordSwap"
AFTERWARDS = ("swapped", "suppressed_records")


@dataclass(frozen=True, kw_only=True, repr=False)
class RecordSwap(Transformer):
    """Exchange the areas of whole households: those at risk in an area, and others up to a rate.

    A household is at high risk at a level when a member shares its combination of `risk_variables` with fewer than
    `k` records of its area of that level. From the coarsest level to the finest, each such household exchanges its
    areas of all levels with a donor from another area of the level: a household of as many records that agrees in a
    similarity profile and was not swapped before. At the finest level more households are drawn, until each area has
    its share of the rate. Households and donors are drawn with a probability in proportion to their risk, one over
    the records like the rarest member. So every area keeps its number of households, of records, and of households
    of each size.

    Parameters
    ----------
    areas : tuple of str
        Columns of areas, from coarse to fine; an area is identified by its column and those before it. All are swapped.
    rate : float
        Share of the households to be swapped, donors counted too; 0: only those at high risk. It is reached except for
        rounding and a lack of donors, and exceeded where high risk requires more.
    similar : tuple of str, or tuple of tuples
        Similarity profiles: lists of columns in which a donor agrees, tried one after the other. One list is one
        profile; none: donors agree only in size.
    risk_variables : tuple of str, optional
        Columns by which a person may be found; a missing value is one more value. Default: the quasi-identifiers that
        are not swapped.
    k : int or tuple of int
        Least number of equal records in an area, one number or one per level; 1: no household must be swapped. Where
        the policy distinguishes persons, of different persons.
    risk : str or tuple of str, optional
        Instead of counts: a column of risks at least 0, or one per level; the largest of the members is the
        household's. A household of risk 0 is never swapped.
    threshold : float, optional
        With `risk`: the risk above which a record is at high risk; left out, no household must be swapped.
    household : str, optional
        Column that distinguishes households; default: the policy's `household_id`.
    along : tuple of str
        Columns of households that go along with the areas, such as finer areas; in a policy also `with`.
    without_donor : {"keep", "refuse"}
        Whether a household that had to be swapped across the finest areas and found no donor stays where it is (the
        plan counts them), or the stage has no solution.

    Notes
    -----
    The rows of all households, without their members, are held on the driver. Which households exchanged with each
    other is never revealed. Swapping hides *where* a rare household lives; its other values stay true.

    Examples
    --------
    >>> RecordSwap(areas=["region", "town"], rate=0.02, similar=[["tenure"]], household="home")
    RecordSwap(areas=('region', 'town'), rate=0.02, similar=(('tenure',),), household='home')
    """

    taxon = "perturbative"
    needs_draws = True
    spelt = {"with": "along"}
    preserves = (
        "numbers of households and records of each area, by size and similarity profile; everything but the areas"
    )
    reveals = "that a household of this kind lives in each area; where households that are not swapped live"
    draws_apart = "swaps households as a whole already"
    source = "Shlomo, Tudor, Groom, Data swapping for protecting census tables, PSD 2010; sdcMicro's `recordSwap`"
    formula = "swap if min over members of #(records of the area alike) < k; then up to rate x households"
    choose = (
        "rate .02 to .10; k 3. Profiles from strict to loose (type and tenure, then type, then only size), so that "
        "rare households find donors. A coarse first level with a small k keeps long moves few."
    )

    areas: Annotated[tuple[str, ...], Columns(), Doc("columns of areas to swap, from coarse to fine")]
    rate: Annotated[float, Ge(0), Le(1), Doc("share of the households to be swapped, donors included")] = 0.05
    similar: Annotated[
        tuple[str, ...] | tuple[tuple[str, ...], ...],
        ColumnNames(),
        Doc("lists of columns in which a donor must agree, tried in order; none: only size"),
    ] = ()
    risk_variables: Annotated[
        tuple[str, ...] | None, ColumnNames(), Doc("columns by which a person may be found; default: quasi-identifiers")
    ] = None
    k: Annotated[
        Annotated[int, Ge(1)] | tuple[Annotated[int, Ge(1)], ...],
        Doc("fewer records alike in an area are a high risk: one number, or one a level"),
    ] = 3
    risk: Annotated[
        str | tuple[str, ...] | None, ColumnNames(), Doc("instead of counts: a column of risks, or one a level")
    ] = None
    threshold: Annotated[float | None, Ge(0), Doc("with risk: a risk above it is high")] = None
    household: Annotated[
        str | None, Household(), Doc("column that distinguishes households; default: the policy's household_id")
    ] = None
    along: Annotated[tuple[str, ...], ColumnNames(), Doc("columns of households that go along with the areas")] = ()
    without_donor: Annotated[
        Literal["keep", "refuse"], Doc("households at high risk that find no donor: keep them in place, or refuse")
    ] = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("areas", "along", "risk_variables"):
            given = getattr(self, name)
            if given is not None and (given != () or name == "areas"):
                object.__setattr__(self, name, checked_columns(OWNER, given))
        object.__setattr__(self, "similar", _profiles(self.similar))
        if isinstance(self.k, list | tuple):
            object.__setattr__(self, "k", tuple(self.k))
        if isinstance(self.risk, list | tuple):
            object.__setattr__(self, "risk", tuple(self.risk))
        self._check_levels()
        moved = {*self.areas, *self.along}
        if len(moved) < len(self.areas) + len(self.along):
            raise UsageError(f"{OWNER}: a column of along is among areas already")
        for name, columns in (("risk_variables", self.risk_variables or ()), ("risk", self._risks())):
            if both := sorted(moved & set(columns)):
                raise UsageError(f"{OWNER}: {name} names {both[0]!r}, which is swapped")
        if self.household in moved | set(self.risk_variables or ()):
            raise UsageError(f"{OWNER}: {self.household!r} distinguishes households, and is neither swapped nor a risk")

    def _check_levels(self) -> None:
        for name in ("k", "risk"):
            given = getattr(self, name)
            if isinstance(given, tuple) and len(given) != len(self.areas):
                raise UsageError(f"{OWNER}: {name} has {len(given)} entries for {len(self.areas)} levels of areas")
        if self.risk is not None and self.risk_variables is not None:
            raise UsageError(f"{OWNER}: give risk_variables or risk, not both")
        if self.threshold is not None and self.risk is None:
            raise UsageError(f"{OWNER}: threshold requires risk; with counts, k decides")

    def _risks(self) -> tuple[str, ...]:
        return () if self.risk is None else (self.risk,) if isinstance(self.risk, str) else self.risk

    @property
    def keeps_places(self) -> bool:
        return True

    def needs_keys(self) -> tuple[str, ...]:
        return () if self.household is not None else ("household_id",)

    def masked_columns(self) -> tuple[str, ...]:
        return (*self.areas, *self.along)

    def drawn_columns(self) -> tuple[str, ...]:
        return ("",)

    @property
    def permutes(self) -> bool:
        return True

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        asked = self._asked(context)
        homes = read_homes(engine, table, asked, context.place)
        detail = {
            "household": asked.household,
            "risk_variables": list(asked.keys),
            "households": len(homes),
            "records": int(homes.sizes.sum()),
            "areas": [len(np.unique(homes.areas[:, level])) for level in range(len(self.areas))],
            "at_high_risk": self._high(homes).sum(axis=0).tolist(),
            "to_swap": 2 * (floor_share(self.rate, len(homes)) // 2),
            **({"persons": list(asked.persons)} if asked.persons else {}),
        }
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def _asked(self, context: StageContext) -> Asked:
        household = self.household or context.household
        if household is None:
            raise UsageError(
                f"{context.place}: nothing distinguishes households; declare `household_id`, or give household"
            )
        keys: tuple[str, ...] = () if self.risk is not None else self.risk_variables or ()
        if self.risk is None and self.risk_variables is None:
            beside = {*self.masked_columns(), household}
            keys = tuple(name for name in context.roles.quasi_identifiers if name not in beside)
        asked = self._reading(household, keys, () if self.risk is not None else units_of(context))
        require_present(asked.named, context)
        return asked

    def _reading(self, household: str, keys: tuple[str, ...], persons: tuple[str, ...]) -> Asked:
        return Asked(household, self.areas, self.along, _profiles(self.similar), keys, self._risks(), persons)

    def _high(self, homes: Homes) -> Bools:
        """Whether each household must be swapped across the areas of each level."""
        if self.risk is not None:
            limit = np.inf if self.threshold is None else self.threshold
            return ~np.asarray(at_most(homes.risk, limit), dtype=np.bool_)
        alike = np.rint(np.divide(1, homes.risk, out=np.zeros(homes.risk.shape), where=homes.risk > 0))
        return np.asarray(alike < np.array(self.k), dtype=np.bool_)

    def _swaps(self, homes: Homes, draws: Draws) -> HouseholdSwaps:
        from privpipe.kernels.households import Swapping, swap_quotas, swapped_households

        stream, levels = draws.of(""), len(self.areas)
        order = stream.child("areas")
        start = float(order.uniform(np.zeros((1, 2), np.int64))[0])
        finest = np.bincount(homes.areas[:, -1], minlength=len(homes.area_ids))
        swaps = floor_share(self.rate, len(homes)) // 2
        return swapped_households(
            Swapping(
                areas=homes.areas,
                kinds=homes.kinds,
                risk=homes.risk,
                high=self._high(homes),
                quotas=swap_quotas(finest, swaps, order.arrange(homes.area_ids), start),
                chosen=-np.log(stream.uniform(homes.ids)),
                offered=np.column_stack([-np.log(stream.uniform(homes.ids, 1 + level)) for level in range(levels)]),
            )
        )

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        homes, found = self._made(engine, table, plan, draws, context.place)
        lone = found.without_donor[-1]
        if lone and self.without_donor == "refuse":
            raise NoSolutionError(
                f"{context.place}: {lone:,} of {len(homes):,} households are at high risk and find no donor; give a "
                "looser similarity profile at the end of `similar`, or set `without_donor: keep`"
            )
        return engine.map_rows(table, rows_moved(homes, found.partner, plan.detail["household"]), table.schema)

    def recorded(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws) -> StagePlan:
        homes, found = self._made(engine, table, plan, draws, self.name())
        moved = found.partner >= 0
        swapped = {
            "households": int(moved.sum()),
            "records": int(homes.sizes[moved].sum()),
            "share": float(moved.mean()) if len(homes) else 0.0,
            "required": list(found.required),
            "without_donor": list(found.without_donor),
            "swaps_at_high_risk": list(found.swaps[:-1]),
            "swaps_drawn": found.swaps[-1],
            "swaps_missing": found.missing,
        }
        return replace(plan, detail={**plan.detail, "swapped": swapped})

    def _made(
        self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, place: str
    ) -> tuple[Homes, HouseholdSwaps]:
        told = plan.detail
        asked = self._reading(told["household"], tuple(told["risk_variables"]), tuple(told.get("persons", ())))
        homes = read_homes(engine, table, asked, place)
        return homes, self._swaps(homes, draws)

    def shaping(self, plan: StagePlan) -> Mapping[str, Any]:
        return {name: figure for name, figure in plan.detail.items() if name not in AFTERWARDS}

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(areas=("town", "zip"), rate=0.3, risk_variables=("sex",), k=2, household="household"),
            cls(areas=("zip",), rate=0.2, similar=(("illness",), ()), risk="weight", household="household"),
            cls(areas=("town",), rate=0.0, k=40, along=("zip",), household="household"),
        ]

    @classmethod
    def example_table(cls) -> dict[str, Any]:
        """Households in two levels of areas, for the kit of stages."""
        import pyarrow as pa

        rng = np.random.default_rng(11)
        home = np.repeat(np.arange(60), rng.integers(1, 4, 60))
        area, n = rng.integers(0, 6, 60)[home], len(home)
        rows = {
            "household": [f"house {at}" for at in home],
            "town": [("Ashford", "Barrow", "Crewe")[at // 2] for at in area],
            "zip": [f"{at // 2}{at}" for at in area],
            "illness": [("flu", "cold")[at % 2] for at in home],
            "sex": rng.choice(["f", "m"], n),
            "weight": np.round(rng.uniform(0, 9, n), 1),
            "age": rng.integers(18, 60, n),
        }
        columns = {name: {"role": "insensitive"} for name in rows}
        hierarchy = {"intervals": {"start": 0, "widths": [10, 20, 40]}}
        columns["age"] = {"role": "quasi_identifier", "hierarchy": hierarchy}  # type: ignore[dict-item]
        columns["illness"] = {"role": "sensitive"}
        return {"rows": pa.table(rows), "columns": columns}


def _profiles(similar: Any) -> tuple[tuple[str, ...], ...]:
    """Lists of columns, also of a single one; an empty one among several means only size."""
    if not isinstance(similar, list | tuple):
        raise UsageError(f"{OWNER}: similar must be a list of column names, or a list of such lists")
    flat = bool(similar) and isinstance(similar[0], str)
    if any(isinstance(names, str) != flat or not isinstance(names, str | list | tuple) for names in similar):
        raise UsageError(f"{OWNER}: similar must be a list of column names, or a list of such lists")
    lists = (similar,) if flat else similar
    return tuple(checked_columns(OWNER, names) if names else () for names in lists)
