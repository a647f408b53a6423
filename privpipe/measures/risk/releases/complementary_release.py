"""Several releases about the same persons, taken together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import FilePath, LeastNumber, SensitiveColumn, Stricter
from privpipe.blocks.release_history import EarlierTables, HistoryMeasure, ReleaseHistory, ReleaseRows
from privpipe.blocks.verdict import least
from privpipe.errors import UsageError
from privpipe.tolerance import at_least

if TYPE_CHECKING:
    from privpipe.measures.risk.releases.joined_releases import Joined

__all__ = ["ComplementaryRelease"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ComplementaryRelease(HistoryMeasure):
    """Smallest group of persons that this release and the earlier ones together do not split.

    Parameters
    ----------
    ledger : str, optional
        Folder that keeps, as keyed hashes, who was in which class of each release; it changes only when a
        release is published. As secret as the original, and never inside the sink.
    key : {"from_env": NAME} or {"from_file": PATH}, optional
        Key of these hashes, the same for all releases: persons are followed by `person_id`, else `record_id`. Without
        it combinations of original quasi-identifiers are followed, a lower bound.
    normalise : tuple of {"trim", "casefold", "nfc"}
        What is done to a person's key before it is hashed: surrounding spaces go, case goes, Unicode is composed.
        Nothing unless given: " Ann" and "ann" are two persons then. A ledger keeps the one it was begun with.
    earlier : list of str
        Instead of a ledger: earlier releases as published, where nothing else is left of them.
    k : int, optional
        Least such group. Left out (under `measures:`), it is reported.
    presence : {"known", "unknown"}
        Whether the intruder knows who was in which release; known is the worst case.
    sensitive : str, optional
        A sensitive column: each combined class must also hold `l` values, and `l` must remain to an attacker who
        intersects the values of all classes a person was in. Of persons with several values the sets are counted, as
        `distinct_l_diversity` does.
    l : int
        For `sensitive`.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    The class of a person with several records is the multiset of their classes. By released tables alone it passes
    only if every two classes that overlap are one inside the other and the smaller one has `k` records; who was in
    which release cannot be judged then. Data of other holders cannot be judged by anyone.

    Labels are read by the column's hierarchy, as ranges and as codes with masked characters; a text that both tables
    have is a value. A label that nothing explains overlaps every other, and where more than half of the records bear
    such labels in a column, the outcome is an error.

    Examples
    --------
    >>> from privpipe.blocks.release_history import ReleaseRows
    >>> words = lambda *codes: np.array([[code, code] for code in codes])
    >>> one = ReleaseRows(words(1, 2, 3), words(7, 7, 7), np.ones(3, dtype=np.int64))
    >>> two = ReleaseRows(words(1, 2, 4), words(8, 8, 8), np.ones(3, dtype=np.int64))
    >>> history = ReleaseHistory(current=two, earlier=(one,))
    >>> for presence in ("known", "unknown"):
    ...     verdict = ComplementaryRelease(ledger="ledger", k=2, presence=presence).judge_history(history)
    ...     print(verdict.outcome, verdict.observed)
    fail {'k': 1, 'releases': 2, 'below': 1}
    pass {'k': 3, 'releases': 2, 'below': 0}
    """

    threshold_field = "k"
    direction = "at_least"
    protects_nobody_at = 1
    observes = dict[str, Any]
    source = "Sweeney, IJUFKS 10(5), 2002; Ganta, Kasiviswanathan, Smith, KDD 2008; Xiao, Tao, SIGMOD 2007"
    threat = "An intruder combines this release with earlier ones: each alone is safe, together they split groups."
    formula = "min over persons of those with the same classes in all releases >= k"
    choose = "The k of the release itself; where recodings refine one another nothing is lost."

    earlier: Annotated[
        tuple[str, ...], FilePath(), Stricter("equal"), Doc("earlier releases as published, instead of a ledger")
    ] = ()
    k: Annotated[LeastNumber, Doc("least group of persons that all releases together leave unsplit")] = None
    presence: Annotated[
        Literal["known", "unknown"],
        Stricter("equal"),
        Doc("known or unknown: whether the intruder knows who was in which release"),
    ] = "known"
    sensitive: Annotated[
        str | None,
        SensitiveColumn(),
        Stricter("equal"),
        Doc("sensitive column whose values the releases together must not give away"),
    ] = None
    l: Annotated[int, Ge(1), Stricter("larger"), Doc("values that must be left of it")] = 2

    ledger: Annotated[
        str | None,
        FilePath(),
        Stricter("equal"),
        Doc("folder that remembers who was in which class of each release; secret"),
    ] = None
    key: Annotated[
        dict[str, str] | None,
        Stricter("equal"),
        Doc("{from_env: NAME} or {from_file: PATH}, the same for all releases; left out: no persons are followed"),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "ComplementaryRelease"
        if isinstance(self.earlier, str) or not all(isinstance(path, str) and path for path in self.earlier):
            raise UsageError(f"{owner}: earlier must be a list of paths")
        object.__setattr__(self, "earlier", tuple(self.earlier))
        if (self.ledger is None) == (not self.earlier):
            raise UsageError(f"{owner}: give a ledger, or else the earlier releases; one of the two")
        if self.key is not None and self.ledger is None:
            raise UsageError(f"{owner}: key is for a ledger")
        if self.sensitive is not None and self.ledger is None:
            raise UsageError(f"{owner}: sensitive is judged only by a ledger")

    def earlier_tables(self) -> tuple[str, ...]:
        return self.earlier

    def judge_history(self, history: ReleaseHistory) -> Verdict:
        from privpipe.kernels.classes.joins import combined_sizes, signatures

        releases = (*history.earlier, history.current)
        if not len(history.current):
            return self.not_judged("no record to judge")
        codes, weights, numbers = signatures(
            [rows.units for rows in releases],
            [rows.classes for rows in releases],
            [rows.records for rows in releases],
            persons=history.persons,
        )
        sizes = combined_sizes(codes, weights, presence_known=self.presence == "known")
        here = codes[:, -1] >= 0
        smallest = int(sizes[here].min())
        short_of = sizes < (self.k or 0)
        below = int((weights[:, -1] * (here & short_of)).sum())
        observed = {"k": smallest, "releases": len(releases), "below": below}
        if self.sensitive is not None:
            observed |= self._values(history, codes, numbers)
        return self._verdict(observed, history)

    def _values(self, history: ReleaseHistory, codes: Ints, numbers: Ints) -> dict[str, int]:
        from privpipe.kernels.classes.joins import values_within
        from privpipe.kernels.grouping.word_groups import group_rows

        releases = (*history.earlier, history.current)
        cuts = np.cumsum([0, *map(len, releases)])
        told = [rows.values for rows in releases if rows.values is not None]
        places = group_rows(np.concatenate(told))[0]
        held: list[tuple[Ints, Ints] | None] = []
        start = 0
        for release, rows in enumerate(releases):
            if rows.values is None:
                held.append(None)
                continue
            own = numbers[cuts[release] : cuts[release + 1]]
            held.append((codes[own, release], places[start : start + len(rows)]))
            start += len(rows)
        here = codes[:, -1] >= 0
        current = history.current.values
        own = np.zeros((0, 2), np.int64) if current is None else current
        within = values_within(codes, numbers[cuts[-2] :], own, persons=history.persons)
        left = self._left(codes, releases, held)[here]
        changed = left == 0
        figures = {"l": int(within[here].min()), "values_changed": int(changed.sum())}
        if not changed.all():
            figures["values_left"] = int(left[~changed].min())
        return figures

    @staticmethod
    def _left(codes: Ints, releases: Sequence[ReleaseRows], held: Sequence[tuple[Ints, Ints] | None]) -> Ints:
        """Values left of each unit; 0: they changed.

        Another column of the same ledger has nothing in common with this one, and must not pass for a change: the
        values of each column are compared with the new ones by themselves as well.
        """
        from privpipe.kernels.classes.joins import values_left

        now, names = releases[-1].sensitive, dict.fromkeys(rows.sensitive for rows in releases)
        found = [values_left(codes, held)]
        for name in names if len(names) > 1 else ():
            own = [each if rows.sensitive in (name, now) else None for rows, each in zip(releases, held, strict=True)]
            found.append(values_left(codes, own))
        most = np.iinfo(np.int64).max
        least = np.min([np.where(left == 0, most, left) for left in found], axis=0)
        return np.where(least == most, 0, least).astype(np.int64)

    def _verdict(self, observed: dict[str, int], history: ReleaseHistory) -> Verdict:
        enough = self.k is None or bool(at_least(observed["k"], self.k))
        told = self.sensitive is None or min(observed["l"], observed.get("values_left", self.l)) >= self.l
        asked = f", required at least {self.k:,}" if self.k is not None else ""
        what = "persons" if history.persons else "records (by original quasi-identifiers: a lower bound)"
        values = ""
        if self.sensitive is not None:
            least = min(observed["l"], observed.get("values_left", observed["l"]))
            values = f"; at least {least:,} values of {self.sensitive!r} are left, required {self.l:,}"
        return Verdict(
            self,
            observed,
            outcome="pass" if not self.is_gate() or (enough and told) else "fail",
            threshold=self.demanded(),
            failing_records=observed["below"] if self.is_gate() and history.persons is False else None,
            reason=(
                f"{observed['releases']:,} releases together leave groups of {observed['k']:,} {what}{asked}, presence "
                f"{self.presence}{values}; releases of other holders cannot be judged."
            ),
        )

    def judge_tables(self, tables: EarlierTables) -> Verdict:
        from privpipe.measures.risk.releases.joined_releases import joined

        found = [joined(tables, at) for at in range(len(tables.earlier))]
        if any(each is None for each in found):
            return self.not_judged("the tables have too many classes to compare each with each; use a ledger")
        return self._joined_verdict([each for each in found if each is not None])

    def _joined_verdict(self, pairs: list[Joined]) -> Verdict:
        crossing = sum(each.crossing for each in pairs)
        smallest = 0 if crossing else min(each.smallest for each in pairs)
        linked = max(each.linked for each in pairs)
        observed = {
            "k": smallest,
            "releases": len(pairs) + 1,
            "crossing": crossing,
            "linked": linked,
            "joined_k": min((each.joined_k for each in pairs if each.joined_k), default=None),
        }
        passed = not self.is_gate() or (not crossing and bool(at_least(smallest, self.k or 0)))
        asked = f", required at least {self.k:,}" if self.k is not None else ""
        how = (
            f"{crossing:,} pairs of classes overlap, neither inside the other, so nothing can be promised"
            if crossing
            else f"all classes that overlap are one inside the other, the smallest of {smallest:,} records"
        )
        return Verdict(
            self,
            observed,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=(
                f"{how}{asked}; at least {short(linked)} of the rows are linked to one earlier row by what they share. "
                "Who was in which release, and releases of other holders, cannot be judged."
            ),
            compared=least(part for each in pairs for part in each.compared),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(ledger="ledger", k=5),
            cls(ledger="ledger", key={"from_env": "PRIVPIPE_LEDGER_KEY"}, k=2, presence="unknown", sensitive="illness"),
            cls(earlier=("published/2024",)),
        ]
