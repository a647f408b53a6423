"""Whether what a key shows in the release is true of the persons with that key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.file_pair import JoinedClassMeasure, JoinedTables
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import ColumnName, LargestShare, OwnColumns, Stricter
from privpipe.errors import UsageError
from privpipe.kernels.classes.joins import AttributionCounts, attribution_counts
from privpipe.roles import Roles

__all__ = ["CorrectAttribution"]


@dataclass(frozen=True, kw_only=True, repr=False)
class CorrectAttribution(JoinedClassMeasure):
    """Share of original records whose secret the release reveals to anyone who knows their key.

    Parameters
    ----------
    column : str
        The secret: at most 200 values; a missing value counts as one.
    columns : tuple of str, optional
        The key. Default: all quasi-identifiers but the secret.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figures are reported.
    figure : {"disco", "tcap", "dcap"}
        ``disco``: records whose key shows one secret in the release, and it is theirs, of all records. ``tcap``: of
        those whose key shows one secret. ``dcap``: mean share of the rows with their key that show their secret, 0
        where no row has the key.
    exclude_majority : bool
        Leave out the records with the commonest secret of the original (of several the first in order).

    Notes
    -----
    No records are paired, so that synthetic releases are judged too. The original is recoded by the hierarchies where
    the release was; missing values equal one another. Exact counts, no limit. A key that determines the secret by
    nature fills ``disco``: `exclude_majority` takes it out where it is the commonest value, and shows how many records.
    Names differ between papers: the verdict says the fraction. `matched_share` and those after it are shares of all
    records compared, `mean_of_matched` and `disco_of_matched` of those with a row of their key; `disco_homogeneous`
    counts keys of one secret in both tables; `cap_original` and `cap_released` are of each table within itself.

    Examples
    --------
    >>> import numpy as np
    >>> counts = attribution_counts(np.array([0, 2, 5]), np.array([0, 2, 0, 1, 3]), np.array([3, 2, 1, 1, 1]), 2)
    >>> tables = JoinedTables(counts=counts, records=5, released=3, secrets=np.array([4, 1]))
    >>> verdict = CorrectAttribution(column="illness", at_most=0.5).judge_joined(tables)
    >>> verdict.outcome, verdict.observed["disco"], verdict.observed["tcap"], verdict.observed["dcap"]
    ('fail', 0.8, 0.8, 0.8)
    """

    observes = dict[str, Any]
    protects_nobody_at = 1
    source = (
        "Elliot, SYLLS report, 2014; Taub, Elliot, Pampaka, Smith, PSD 2018; Little, Elliot, Allmendinger, "
        "PSD 2022; Raab, Nowok, Dibben, 2024"
    )
    threat = "Someone who knows a person's key reads the secret off the released rows with this key."
    formula = "records whose key shows one secret in the release, and it is theirs / records <= at_most"
    choose = (
        "0.05 for disco, compared with the baselines of the verdict: the commonest secret alone is right that often; "
        "with a key that determines the secret by nature, set exclude_majority."
    )

    column: Annotated[str, ColumnName(), Stricter("equal"), Doc("the secret, of at most 200 values")]
    at_most: Annotated[LargestShare, Doc("largest share that is tolerated")] = None
    figure: Annotated[
        Literal["disco", "tcap", "dcap"],
        Stricter("equal"),
        Doc("disco, tcap or dcap: of all records, of those whose key shows one secret, the mean share"),
    ] = "disco"
    exclude_majority: Annotated[
        bool, Stricter("equal"), Doc("leave out the records with the commonest secret of the original")
    ] = False
    columns: Annotated[OwnColumns, Doc("the key; left out: all quasi-identifiers but the secret")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hold_columns()
        if self.column in (self.columns or ()):
            raise UsageError(f"CorrectAttribution: {self.column!r} is the secret; take it out of columns")

    def compared_columns(self, roles: Roles) -> tuple[str, ...]:
        return tuple(name for name in super().compared_columns(roles) if name != self.column)

    def secret(self) -> str | None:
        return self.column

    def reduction(self, secrets: Ints) -> Attributing:
        commonest = int(secrets.argmax()) if self.exclude_majority and len(secrets) else None
        return Attributing(len(secrets), commonest)

    def judge_joined(self, tables: JoinedTables) -> Verdict:
        found: AttributionCounts = tables.counts
        if found.classes < 2:
            return self.not_judged("no column of the key distinguishes rows")
        if not found.records:
            return self.not_judged("no record is left: all have the commonest secret of the original")
        observed = self._observed(found, tables)
        if observed[self.figure] is None:
            return self.not_judged(
                "the key of no original record shows one secret in the release, so tcap is undefined"
            )
        figure = float(observed[self.figure])
        return self.judged(
            figure,
            observed,
            reason=self._reason(found, tables, figure),
        )

    def _observed(self, found: AttributionCounts, tables: JoinedTables) -> dict[str, Any]:
        n, total = found.records, AttributionCounts.total
        shares = tables.secrets / tables.records
        attributed = total(found.attributed)
        return {
            "disco": found.right / n,
            "tcap": found.right / found.disclosive if found.disclosive else None,
            "dcap": attributed / n,
            "records": n,
            "excluded": tables.records - n,
            "matched": found.matched,
            "disclosive": found.disclosive,
            "right": found.right,
            "matched_share": found.matched / n,
            "disco_homogeneous": found.right_twice / n,
            "mean_of_matched": attributed / found.matched if found.matched else None,
            "disco_of_matched": found.right / found.matched if found.matched else None,
            "baseline_random": float((shares**2).sum()),
            "baseline_mode": float(shares.max()),
            "cap_original": total(found.own) / n,
            "cap_released": total(found.released) / tables.released,
        }

    def _reason(self, found: AttributionCounts, tables: JoinedTables, figure: float) -> str:
        fraction = {
            "disco": f"{found.right:,} of {found.records:,} original records have a key that shows one secret in the "
            "release, and it is theirs",
            "tcap": f"{found.right:,} of {found.disclosive:,} original records whose key shows one secret in the "
            "release have it",
            "dcap": f"the mean over {found.records:,} original records of the share of rows with their key that show "
            f"their secret, {found.matched:,} of them with such a row",
        }[self.figure]
        gone = tables.records - found.records
        without = f"; {gone:,} records with the commonest secret are left out" if self.exclude_majority else ""
        return f"{self.figure} {short(figure)}{self.asked}: {fraction}{without}."

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness"),
            cls(column="illness", columns=("town", "age"), at_most=0.3),
            cls(column="illness", columns=("age",), figure="tcap", at_most=1.0),
            cls(column="illness", columns=("age",), figure="dcap", at_most=0.2, exclude_majority=True),
        ]


@dataclass(frozen=True)
class Attributing:
    """The reduction: counts over blocks whose one column of cells has a code for each secret in either table."""

    values: int
    left_out: int | None = None

    def measure(self, block: ClassBlock, facts: Facts) -> AttributionCounts:
        [cells] = block.cells.values()
        return attribution_counts(cells.offsets, cells.codes, cells.counts, self.values, self.left_out)

    def merge(self, left: AttributionCounts, right: AttributionCounts) -> AttributionCounts:
        return left.merge(right)
