"""Attacks whose success on the originals is laid beside their success on others: what the three have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge, Gt, Le, Lt
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Stricter
from privpipe.blocks.table_files import TableFiles, TableMeasure
from privpipe.kernels.linkage.attack_figures import Figure
from privpipe.tolerance import at_most

if TYPE_CHECKING:
    from privpipe.kernels.linkage.attack_figures import AttackFigures

__all__ = ["ControlledAttack"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ControlledAttack(TableMeasure):
    """An attack on a release, its success compared with what it finds of others, or with a guess."""

    threshold_field: ClassVar[str | None] = "at_most"
    observes: ClassVar[object] = dict[str, Any]
    protects_nobody_at: ClassVar[float | None] = 1

    at_most: Annotated[
        float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest figure (its upper limit) that is tolerated")
    ] = None
    figure: Annotated[
        Figure | None,
        Stricter("equal"),
        Doc("excess over the holdout, gain over guessing, or success; left out: excess with a holdout, else success"),
    ] = None
    confidence: Annotated[float, Gt(0), Lt(1), Stricter("larger"), Doc("of the limits that are compared")] = 0.95

    @property
    def compared(self) -> Figure:
        """The figure that the threshold is compared with."""
        return self.figure or ("success" if self.holdout is None else "excess")

    def unjudgeable(self, files: TableFiles) -> str:
        """Why there is nothing to attack, or nothing."""
        if not files.released.num_rows:
            return "the release holds no row"
        if not files.original.num_rows:
            return "there is no record to attack"
        if self.compared == "excess" and (files.holdout is None or not files.holdout.num_rows):
            return "the excess needs a holdout of records that the release was not made from"
        return ""

    def verdict(
        self, found: AttackFigures, beside: Mapping[str, Any], did: str, broken: str = "", notes: tuple[str, ...] = ()
    ) -> Verdict:
        """The verdict on the figures of an attack, with others beside them.

        Parameters
        ----------
        did : str
            What the attack did, as the rest of a sentence that begins with "this attack".
        broken : str
            Why it proves nothing, or nothing.
        notes : tuple of str
        """
        figure = self.compared
        estimate, limit = found.observed(figure), found.compared(figure)
        observed: dict[str, Any] = {
            "figure": figure,
            "estimate": estimate,
            "upper": limit,
            **shown(found),
            **beside,
        }
        if limit is None:
            broken = broken or "the attack succeeds on every record of the holdout: nothing is left to exceed"
        if broken:
            return Verdict(self, observed, "error", self.demanded(), reason=f"{broken}.")
        passed = not self.is_gate() or bool(at_most(limit, self.at_most))  # type: ignore[arg-type]
        asked = f", asked at most {short(self.at_most)}" if self.is_gate() else ""
        return Verdict(
            self,
            observed,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=(
                f"{figure} of at least {short(estimate)}, upper {self.confidence:g} limit {short(limit)}{asked}: this "
                f"attack {did}; " + "; ".join((_beside(found), *notes)) + "."
            ),
        )

    def not_judged(self, reason: str, observed: Mapping[str, Any] | None = None) -> Verdict:
        """An error, never a pass."""
        return Verdict(
            self, None if observed is None else dict(observed), "error", self.demanded(), reason=f"{reason}."
        )


def shown(found: AttackFigures) -> dict[str, Any]:
    """All three figures with their limits, also those that are not compared."""
    return {
        "success": found.success,
        "success_upper": found.upper,
        "control": found.control,
        "control_lower": found.lower,
        "naive": found.naive,
        "excess": found.excess,
        "excess_upper": found.excess_upper,
        "gain": found.observed("gain"),
        "gain_upper": found.compared("gain"),
    }


def _beside(found: AttackFigures) -> str:
    control = "" if found.control is None else f", {short(found.control)} on the holdout"
    return f"it succeeds on {short(found.success)} of the originals{control}, a guess on {short(found.naive)}"
