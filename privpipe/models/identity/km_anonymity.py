"""k^m-anonymity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Annotated, Any, Self

from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts, Tally, Verdict
from privpipe.blocks.marks import Items, LeastNumber, OwnColumns, Stricter
from privpipe.blocks.way import ITEMS
from privpipe.errors import UsageError

__all__ = ["KmAnonymity"]

MOST_PROJECTIONS = 1000


@dataclass(frozen=True, kw_only=True, repr=False)
class KmAnonymity(ClassModel):
    """Any `m` quasi-identifiers or items that an intruder knows are shared by `k` records; observed = least number.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the least number is reported.
    m : int
        At least 1: how many quasi-identifiers, or items, are known at once. As many quasi-identifiers as there are,
        or more: `k_anonymity`.
    columns : tuple of str, optional
        The quasi-identifiers; default: all of the policy.
    items : str, optional
        Instead of `columns`, a set-valued column, such as what a person bought: a list of texts, as Parquet and
        frames hold it, or a text of items between separators. Order and repetition mean nothing; items are compared
        exactly, blanks and case included. An empty or missing set has no item and is not a combination.
    separator : str, optional
        What stands between two items of a text. Left out: a JSON array of texts is the set of them, other texts
        are split at commas.
    quasi_identifiers : tuple of str, optional
        The same as `columns`.

    Raises
    ------
    UsageError
        More than 1,000 sets of m quasi-identifiers: each is counted by itself.

    Notes
    -----
    Combinations of fewer than m quasi-identifiers are shared by more records, so those of m suffice. Of items, those
    of m suffice and the records of fewer than m, which are checked whole: every record that holds all of a
    combination's items counts for it.
    `failing_classes` counts combinations over all sets; a record may be in several, so failing records are counted
    only where there is a single set.

    Examples
    --------
    >>> model = KmAnonymity(k=2, m=2)
    >>> model.key_sets(("age", "sex", "zip"))
    (('age', 'sex'), ('age', 'zip'), ('sex', 'zip'))
    >>> KmAnonymity(k=2, m=2, items="basket").way.name
    'items'
    """

    threshold_field = "k"
    protects_nobody_at = 1
    hereditary = True
    convex = True
    observes = int
    source = "Terrovitis, Mamoulis, Kalnis, Privacy-preserving anonymization of set-valued data, PVLDB 1(1), 2008"
    threat = "An intruder who knows a few of a person's quasi-identifiers, not all of them, finds the record."
    formula = (
        "min over all sets of m quasi-identifiers, and classes over each, of n_c >= k; of items: min over sets of up "
        "to m items in a record of the records that hold them"
    )
    choose = (
        "m = 2 or 3: what a neighbour or a colleague knows. Milder than k_anonymity, for tables of many "
        "quasi-identifiers that no attacker knows together."
    )

    k: Annotated[
        LeastNumber, Doc("least number of records that share each combination of m quasi-identifiers or items")
    ] = None
    m: Annotated[
        int, Ge(1), Stricter("larger"), Doc("how many quasi-identifiers, or items, an attacker knows of a person")
    ]
    columns: Annotated[OwnColumns, Doc("the quasi-identifiers; left out: all")] = None
    items: Annotated[
        str | None,
        Items(),
        Stricter("equal"),
        Doc("instead: a column of sets of items, such as a person's purchases: lists, or texts"),
    ] = None
    separator: Annotated[str | None, Stricter("equal"), Doc("what separates two items of a text; default: a comma")] = (
        None
    )

    def __post_init__(self) -> None:
        self._check_items()
        if self.columns is not None:
            if isinstance(self.columns, str) or not self.columns:
                raise UsageError("KmAnonymity: columns must be a list of at least one column name")
            if self.quasi_identifiers is not None and tuple(self.quasi_identifiers) != tuple(self.columns):
                raise UsageError("KmAnonymity: columns and quasi_identifiers are the same thing; write one of them")
            object.__setattr__(self, "columns", tuple(self.columns))
            object.__setattr__(self, "quasi_identifiers", self.columns)
        super().__post_init__()

    def _check_items(self) -> None:
        if self.items is None:
            if self.separator is not None:
                raise UsageError("KmAnonymity: separator has no effect without items, the column it is in")
            return
        if self.columns is not None or self.quasi_identifiers is not None:
            raise UsageError("KmAnonymity: give items or columns, not both: an attacker knows the one or the other")
        if self.separator is not None and (not isinstance(self.separator, str) or not self.separator):
            raise UsageError("KmAnonymity: separator must be a text of at least one character")
        # The form decides what is read: items are not classes.
        object.__setattr__(self, "way", ITEMS)

    def key_sets(self, keys: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        if self.items is not None:
            return ()
        known = min(self.m, len(keys))
        sets = math.comb(len(keys), known)
        if sets > MOST_PROJECTIONS:
            raise UsageError(
                f"km_anonymity: {len(keys):,} quasi-identifiers have {sets:,} sets of {known:,}, more than the "
                f"{MOST_PROJECTIONS:,} that are counted; lower m, or name fewer columns"
            )
        return tuple(combinations(keys, known))

    def across(self, tallies: Sequence[Tally]) -> Tally:
        together = tallies[0]
        for tally in tallies[1:]:
            together = self.merge(together, tally)
        return replace(together, records=tallies[0].records, sums={"sets": len(tallies)})

    def least_size(self) -> int:
        return self.k or 1

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        return block.sizes

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        verdict = super().judge(observed, facts)
        if self.items is None and observed.sums.get("sets", 1) == 1:
            return verdict
        return replace(verdict, failing_records=None, failing_share=None)

    def reason(self, observed: Tally, facts: Facts) -> str:
        sets = observed.sums.get("sets", 1)
        if sets == 1 and self.items is None:
            return super().reason(observed, facts)
        asked = "" if self.k is None else f", required at least {self.k:,}"
        if self.items is None:
            over = f"over {sets:,} sets of {self.m:,} quasi-identifiers"
        elif not observed.classes:
            return f"no record has an item in {self.items!r}."
        else:
            over = f"over combinations of up to {self.m:,} items of {self.items!r}"
        fails = (
            f"all {observed.classes:,} combinations meet it"
            if not observed.failing_classes
            else f"{observed.failing_classes:,} of {observed.classes:,} combinations fail"
        )
        note = self.unattainable(observed.records, facts) if observed.failing_classes else ""
        return "; ".join(part for part in (f"{self.seen(observed)}{asked}", over, fails, note) if part) + "."

    @classmethod
    def examples(cls) -> list[Self]:
        relational = [cls(m=1), cls(k=1, m=1), cls(k=2, m=1), cls(k=2, m=2), cls(k=5, m=9)]
        return [*relational, cls(m=2, items="illness"), cls(k=2, m=2, items="illness", separator="u")]
