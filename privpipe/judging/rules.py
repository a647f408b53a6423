"""How values are read while a table is judged, whatever the guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from privpipe.blocks import Facts, Histogram
from privpipe.blocks.way import Over
from privpipe.judging.gate import Gate
from privpipe.roles import EmptyRule, NullRule

if TYPE_CHECKING:
    from privpipe.blocks import FilePair, Guarantee
    from privpipe.blocks.file_pair import RowPositions
    from privpipe.blocks.release_history import ReleaseHistory
    from privpipe.draws import Stream
    from privpipe.hierarchies import HierarchySpec

__all__ = ["JudgingRules"]


@dataclass(frozen=True, kw_only=True)
class JudgingRules:
    """How values are read, whatever the guarantee.

    Parameters
    ----------
    nulls : {"own_value", "wildcard", "refuse"}
        How a missing quasi-identifier matches.
    refuse_nulls : tuple of str
        Sensitive columns in which a missing value is an error.
    wildcard : str, optional
        Under `nulls: wildcard` a text that matches anything, as a missing value does.
    person : str, optional
        Column that distinguishes persons: they are counted instead of records.
    household : str, optional
        Column that distinguishes households, for entries that count them.
    mark : str
        A record of which nothing is left but this text counts as suppressed: every released column carries it, or is
        missing where it cannot hold text.
    released : tuple of str, optional
        The released columns; default: all of the judged table.
    untyped : tuple of str
        Columns declared as no text that are read as text, from a file without types.
    base : mapping of column to Histogram
        Base distributions given by a run: S over the records that entered the suppressing stage.
    entered : mapping of column to Facts
        The same, and the number, where persons or households are counted by that column.
    records : int, optional
        Records that entered the suppressing stage, given by a run; default: those of the judged table.
    hierarchies : mapping of column to HierarchySpec
        Declared ones.
    process : mapping, optional
        Record that a stage left of itself, for guarantees of a process rather than of a table.
    stages : tuple of mapping
        The release's own plan, for attacks that know it: of each stage name, parameters and detail.
    order : Stream, optional
        Keyed order of records, by which the attacked ones are sampled.
    histories : mapping of ledger to ReleaseHistory
        What the ledgers of entries over several releases remember, with this release's own rows.
    positions : RowPositions or str, optional
        Where records are in the files and were in the original, for entries that read positions, or why it is not
        known.
    models : tuple of Guarantee
        What the release must meet, for attacks on the search that worked for it.
    rerun : callable, optional
        The run's stages once more with other values in a column, for the same.
    gate : Gate
        How the table's columns are looked at, whatever the guarantees.
    allow_empty : bool
        Let a table of suppressed records alone pass vacuously; never set by a release.
    empty : {"refuse", "pass"}
        Whether a table without a record is an error, or passes with a note: nothing of it can disclose anything.
    versions : mapping of path to int
        Of Delta tables that entries name, as the run pinned them.
    """

    nulls: NullRule = "own_value"
    refuse_nulls: tuple[str, ...] = ()
    wildcard: str | None = None
    person: str | None = None
    household: str | None = None
    mark: str = "*"
    released: tuple[str, ...] | None = None
    untyped: tuple[str, ...] = ()
    base: Mapping[str, Histogram] = field(default_factory=dict)
    entered: Mapping[str | None, Facts] = field(default_factory=dict)
    records: int | None = None
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    process: Mapping[str, Any] | None = None
    stages: tuple[Mapping[str, Any], ...] = ()
    order: Stream | None = field(default=None, repr=False)
    histories: Mapping[str, ReleaseHistory] = field(default_factory=dict, repr=False)
    positions: RowPositions | str | None = field(default=None, repr=False)
    models: tuple[Guarantee, ...] = ()
    rerun: Callable[[FilePair, str, Sequence[Any]], str] | None = field(default=None, repr=False)
    gate: Gate = field(default_factory=Gate)
    allow_empty: bool = False
    empty: EmptyRule = "refuse"
    versions: Mapping[str, int] = field(default_factory=dict)

    def unit(self, entry: Guarantee) -> str | None:
        """The column by which those that an entry counts are distinguished; None: it counts records."""
        return {None: self.person, "persons": self.person, "households": self.household}.get(entry.counts_over())

    @property
    def counted(self) -> Over:
        """What is counted by `person`, for sentences."""
        if self.person is None:
            return "records"
        return "households" if self.person == self.household else "persons"

    def counting(self, unit: str | None) -> JudgingRules:
        """The same rules for entries that count by another column, with what entered the run counted so."""
        if unit == self.person:
            return self
        known = self.entered.get(unit)
        if known is None:
            return replace(self, person=unit, base={}, records=None)
        return replace(self, person=unit, base=known.histograms, records=known.records if known.records >= 0 else None)
