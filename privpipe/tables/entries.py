"""Tables of one release, and the base classes of stages for tables and guarantees on cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks.entry import Entry
from privpipe.blocks.public_edition import PublicRules
from privpipe.blocks.release_history import FollowsPersons
from privpipe.blocks.verdict import Demand, Severity, Verdict
from privpipe.border import bordered
from privpipe.errors import UsageError
from privpipe.wired import room_above

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Seed
    from privpipe.tables.aggregation import TableSpec
    from privpipe.tables.table import Table
    from privpipe.tables.table_history import TableHistory

MAX_ATOMS = 5_000_000

__all__ = ["CellGuarantee", "TableSet", "TableStage", "UnionGuarantee", "idle_notes"]


@dataclass(frozen=True, kw_only=True)
class TableSet:
    """Tables by name, with what every stage after `aggregate` and every guarantee may use.

    Parameters
    ----------
    tables : mapping of str to Table
    guarantees : sequence of CellGuarantee
        Those of the policy: they say which cells are unsafe.
    sensitive : tuple of str
        Dimensions with the role `sensitive`.
    joint : Table, optional
        All combinations of the dimensions of several tables, never published: it shows how their
        populations are nested.
    seed : Seed, optional
        Keys random rounding; cell keys were added up under it.
    notes : tuple of str
        Notes of a verdict on the tables.
    steps : tuple of mapping
        For each stage that ran: its name, and what it did; private except for `public`.
    history : TableHistory, optional
        What a ledger remembers of earlier tables; None: no ledger is kept.
    source : str
        By which a budget knows where the records came from.

    Examples
    --------
    >>> TableSet(tables={})
    TableSet(0 tables)
    """

    tables: Mapping[str, Table]
    guarantees: Sequence[CellGuarantee] = ()
    sensitive: tuple[str, ...] = ()
    joint: Table | None = None
    seed: Seed | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    steps: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    history: TableHistory | None = field(default=None, repr=False)
    source: str = field(default="frames", repr=False)

    def __repr__(self) -> str:
        return f"TableSet({len(self.tables)} tables)"

    def chosen(self, names: Sequence[str] | None) -> Mapping[str, Table]:
        """Tables by these names, all without any.

        Raises
        ------
        UsageError
            One is not there.
        """
        for name in names or ():
            if name not in self.tables:
                raise UsageError(f"there is no table {name!r}; there are {', '.join(self.tables)}")
        return self.tables if names is None else {name: self.tables[name] for name in names}

    def having(self, tables: Mapping[str, Table], *notes: str, step: Mapping[str, Any] | None = None) -> Self:
        """The same set with some of its tables replaced."""
        return replace(
            self,
            tables={**self.tables, **tables},
            notes=tuple(dict.fromkeys((*self.notes, *notes))),
            steps=self.steps if step is None else (*self.steps, step),
        )

    def public(self) -> dict[str, pa.Table]:
        """The tables as published."""
        return {name: table.public_table() for name, table in self.tables.items()}


@bordered
@dataclass(frozen=True, kw_only=True, repr=False)
class TableStage(Entry):
    """Something that changes tables of cells: hides, rounds or perturbs figures, without access to records."""

    taxon = "tables"

    @property
    def needs_seed(self) -> bool:
        """Whether its draws must be the same in every release, and so need a seed that is kept."""
        return False

    def counting(self, spec: TableSpec, seed: Seed) -> TableSpec:
        """What is counted for a table that the stage will change."""
        return spec

    def run(self, tables: TableSet) -> TableSet:
        """The tables after the stage.

        Raises
        ------
        NoSolutionError
            What the guarantees ask for cannot be had.
        """
        raise TypeError(f"{type(self).__name__} does not run")

    def apply(self, tables: Any, **options: Any) -> Any:
        """The table after the stage, or tables by name after it.

        Parameters
        ----------
        tables : Table, or mapping of str to Table
        guarantees : sequence of CellGuarantee, optional
            What the stage works for.
        seed : Seed, text, bytes or place, optional
            Keys the draws of the stage.
        sensitive : sequence of str, optional
            Dimensions that are attributes.

        Raises
        ------
        NoSolutionError, UsageError, DataError
        """
        return room_above("running.table_frames").run_stage(self, tables, options)


@bordered
@dataclass(frozen=True, kw_only=True, repr=False)
class CellGuarantee(Demand):
    """Something that a policy requires of the cells of its tables.

    Subclasses give `judge`; those that are `primary` rules say which cells are unsafe by themselves, and so what
    `suppress_table` hides. `withheld` names parameters that no public document shows.
    """

    threshold_field: ClassVar[str] = "at_least"
    withheld: ClassVar[tuple[str, ...]] = ()
    primary: ClassVar[bool] = False
    of_process: ClassVar[bool] = False
    """Whether it judges how tables were made, and no figure."""
    observes: ClassVar[object] = int
    protects_nobody_at: ClassVar[int | None] = None
    """Threshold that all tables meet."""

    tables: Annotated[tuple[str, ...] | None, Doc("names of the tables that are judged; left out: all")] = None
    severity: Annotated[Severity, Doc("`fail`: no release where it does not hold; `warn`: the verdict warns of it")] = (
        "fail"
    )

    @property
    def least(self) -> int:
        """The fewest contributors that it lets a published population have."""
        return 1

    @property
    def reported(self) -> bool:
        """Whether it is reported and never judged, as one of the `measures:` of a policy."""
        return False

    def demanded(self) -> Any:
        """The threshold."""
        return getattr(self, self.threshold_field, None)

    def largest(self) -> int:
        """How many of the largest contributions of a cell it uses."""
        return 0

    def holdings(self) -> tuple[str, ...]:
        """Columns whose values it treats as contributors, instead of persons."""
        return ()

    def around(self) -> int:
        """How many contributions on each side of a rounded quantile it uses."""
        return 0

    def judged_over(self, tables: TableSet) -> Verdict:
        """The verdict on the tables; an error where they have noise of differential privacy, on which rules on true
        figures show more than the noise does.
        """
        noisy = [name for name, table in tables.chosen(self.tables).items() if table.process is not None]
        if noisy and not self.of_process:
            reason = (
                f"{self.name()} does not apply to tables with noise of private_table: it would reveal what true "
                "figures are; ask differential_privacy"
            )
            return self.not_judged(reason)
        return self.judge(tables)

    def judge(self, tables: TableSet) -> Verdict:
        """The verdict on the tables as they will be published.

        Raises
        ------
        UsageError
            It does not apply to these tables.
        """
        raise TypeError(f"{type(self).__name__} judges no tables")

    def discloses_source(self, rules: PublicRules) -> bool:
        """Figures depend on cells that are not published: the public edition shows only outcomes."""
        return True


@dataclass(frozen=True, kw_only=True, repr=False)
class UnionGuarantee(FollowsPersons, CellGuarantee):
    """A guarantee on all published tables together.

    Subclasses judge the tables of a release; with a ledger also every earlier release that it remembers.
    """

    max_atoms: Annotated[
        int, Ge(1), Doc("combinations of cells that persons are in, over all tables; an error beyond")
    ] = MAX_ATOMS

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.ledger is None) != (self.key is None):
            raise UsageError(
                f"{type(self).__name__}: `ledger` and `key` belong together: tables are compared person by person"
            )

    def without_ledger(self, tables: TableSet) -> Verdict | None:
        """An error if a ledger is named but not available, as outside a policy's run; else None."""
        if self.ledger is None or tables.history is not None:
            return None
        why = "the ledger was not read: a run of a policy, or `Policy.apply`, does; leave it out to judge one release"
        return self.not_judged(why)

    def parameters(self) -> dict[str, Any]:
        """As for every entry; ledger parameters only if there is a ledger."""
        own = ("ledger", "key", "normalise", "max_atoms")
        unused = own if self.ledger is None and self.max_atoms == MAX_ATOMS else ()
        return {name: value for name, value in super().parameters().items() if name not in unused}


def idle_notes(guarantees: Sequence[CellGuarantee]) -> tuple[str, ...]:
    """What a reader of the verdicts must know of thresholds that all tables meet."""
    return tuple(
        f"{each.name()} with {each.threshold_field} = {each.demanded()} protects no one"
        for each in guarantees
        if each.protects_nobody_at is not None and each.demanded() == each.protects_nobody_at
    )
