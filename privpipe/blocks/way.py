"""What an entry reads: the ways of judging, and what an entry over classes counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from typing_extensions import Doc

from privpipe.blocks.marks import Stricter
from privpipe.errors import UsageError

__all__ = [
    "BESIDE",
    "CLASSES",
    "COLUMNS",
    "DISTINCT",
    "FACTS",
    "FILES",
    "HISTORY",
    "HOUSEHOLDS",
    "ITEMS",
    "JOINED_CLASSES",
    "KEPT_HOUSEHOLDS",
    "PAIRS",
    "POSITIONS",
    "PROCESS",
    "RECODED_TABLES",
    "WEIGHTS",
    "WHOLE_TABLES",
    "CountedOver",
    "Over",
    "Way",
]


@dataclass(frozen=True, kw_only=True)
class Way:
    """What entries judged in one way read; how they are judged is known where tables are judged.

    Parameters
    ----------
    name : str
        For messages; nothing is decided by it.
    of_table : bool
        A released table shows it by itself; the record of a process is public.
    of_process : bool
        It reads the record that a stage left of itself.
    over_classes : bool
        Its entries measure classes over quasi-identifiers and share one count with all that do.
    classes_alone : bool
        Nothing but the numbers of records and values in the classes decides.
    searched : bool
        Stages that suppress or search work for it.
    over_keys : bool
        It stands over its own quasi-identifiers, or else those of the policy, and an empty list means one class.
    aligned : bool
        Records of the release are paired with those of the original by their ids.
    beside_original : bool
        It looks at the original next to the release and pairs no records.
    in_keyed_order : bool
        Records are sampled from whole tables in an order that the seed fixes.
    of_positions : bool
        It reads where rows stand.
    of_columns : bool
        It reads the names of the columns alone.
    """

    name: str
    of_table: bool = False
    of_process: bool = False
    over_classes: bool = False
    classes_alone: bool = False
    searched: bool = False
    over_keys: bool = False
    aligned: bool = False
    beside_original: bool = False
    in_keyed_order: bool = False
    of_positions: bool = False
    of_columns: bool = False


CLASSES = Way(name="classes", of_table=True, over_classes=True, classes_alone=True, searched=True, over_keys=True)
"""Classes over quasi-identifiers: records, and values of sensitive columns in each."""
PROCESS = Way(name="process", of_table=True, of_process=True, over_classes=True, searched=True)
"""Classes, and the record of the process in ``facts.extra["process"]``."""
WEIGHTS = Way(name="weights", of_table=True, over_classes=True, over_keys=True)
"""Classes with the sum of a weight in each; no search works for it."""
HOUSEHOLDS = Way(name="households", of_table=True, over_keys=True)
"""Compositions of households: how many have each."""
KEPT_HOUSEHOLDS = Way(name="kept households", aligned=True)
"""How many records of each household of the original were released."""
FACTS = Way(name="facts", of_table=True)
"""The judged table's own histograms (`counted_columns`) alone."""
COLUMNS = Way(name="columns", of_table=True, of_columns=True)
"""Names of columns alone."""
DISTINCT = Way(name="distinct", of_table=True)
"""A single `DistinctBlock` of its keys."""
POSITIONS = Way(name="positions", aligned=True, of_positions=True)
"""The positions of records in the released files and in the original."""
ITEMS = Way(name="items", of_table=True)
"""Combinations of items in a set-valued column."""
PAIRS = Way(name="pairs", aligned=True)
"""Records of the release with their originals, block by block."""
FILES = Way(name="files", aligned=True)
"""The same as two whole files on the driver."""
BESIDE = Way(name="beside", aligned=True)
"""Classes over released columns together with those of the original."""
HISTORY = Way(name="releases", over_keys=True, aligned=True)
"""The releases before this one: what a ledger remembers of them, or their tables."""
WHOLE_TABLES = Way(name="whole", beside_original=True, in_keyed_order=True)
"""Whole tables on the driver, no record paired with another."""
RECODED_TABLES = Way(name="tables", beside_original=True)
"""The distinct combinations of release and original."""
JOINED_CLASSES = Way(name="joined classes", beside_original=True)
"""The class tables of release and original, joined by their keys where they lie."""


Over = Literal["records", "persons", "households"]


@dataclass(frozen=True, kw_only=True, repr=False)
class CountedOver:
    """The parameter `over` of entries that count in classes.

    With `over` a class of n members is one of n different records, persons (`person_id`) or households
    (`household_id`), and a value occurs as often as different ones of them have it: one who has two values counts once
    for each. Its share in a class is that of the members who have it. Where values are distinguished (distinct, entropy
    and recursive l-diversity, p-sensitivity) the value of a member is the set of those it has in the class, and a class
    in which all have some value in common is one of a single value.

    Parameters
    ----------
    over : {"records", "persons", "households"}, optional
        Default: persons where the policy has a `person_id`, else records.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> KAnonymity(k=5, over="households").counts_over()
    'households'
    """

    over: Annotated[
        Over | None,
        Stricter("equal"),
        Doc("whom a class counts; left out: persons where the policy has a person_id, else records"),
    ] = None

    def __post_init__(self) -> None:
        """Refuse `over` where a count of anything but records is not defined.

        Raises
        ------
        UsageError
        """
        super().__post_init__()  # type: ignore[misc]  # next to a Guarantee
        if self.over in (None, "records"):
            return
        way: Way = self.way  # type: ignore[attr-defined]
        if self.needs_population or not way.classes_alone:  # type: ignore[attr-defined]
            raise UsageError(f"{type(self).__name__}: counts records, and cannot be had over {self.over}")

    def counts_over(self) -> Over | None:
        """What it counts; None: as the policy does."""
        return self.over
