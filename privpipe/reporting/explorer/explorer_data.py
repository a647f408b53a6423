"""`ExplorerData`: all that the page of settings shows, as plain values; nothing that rests on few records."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from privpipe.blocks.public_rules import PublicRules
from privpipe.reporting.entry_rows import entry_class
from privpipe.reporting.officer.judged_rows import without_few
from privpipe.reporting.officer.report_data import ReportData

if TYPE_CHECKING:
    from privpipe.reporting.risk_utility import Point, RiskUtilityMap

__all__ = ["ExplorerData", "ShownSetting"]

CATALOGUE_NAME = re.compile(r"[a-z_]+")


@dataclass(frozen=True, kw_only=True)
class ShownSetting:
    """A setting that was tried.

    Parameters
    ----------
    number : int
        From 1.
    setting : mapping of str to value
    outcome : {"pass", "fail", "error", "no_solution"}
    risk, loss : float or None
        None where they were not to be had; a risk of few records is the most that they could be.
    few_risk : bool
        Whether the risk rests on too few records to be shown.
    suppressed : int or None
    few_suppressed : bool
    unbeaten, current : bool
        Whether no other has less risk and less loss; whether it is the policy's.
    reason : str
        Why there is no figure.
    report : ReportData or None
    """

    number: int
    setting: Mapping[str, Any]
    outcome: str
    risk: float | None = None
    loss: float | None = None
    few_risk: bool = False
    suppressed: int | None = None
    few_suppressed: bool = False
    unbeaten: bool = False
    current: bool = False
    reason: str = ""
    report: ReportData | None = field(default=None, repr=False)

    @property
    def may_be_chosen(self) -> bool:
        """Whether it meets every guarantee."""
        return self.outcome == "pass"


@dataclass(frozen=True, kw_only=True)
class ExplorerData:
    """What the page of settings shows.

    Parameters
    ----------
    name : str
        Of the policy.
    threshold : int
        Records that a figure must rest on.
    settings : tuple of ShownSetting
    risk, loss : tuple of str
        The figures that risk and loss are means of.
    space : mapping or None
        See `solution_space`.
    """

    name: str
    threshold: int
    settings: tuple[ShownSetting, ...]
    risk: tuple[str, ...]
    loss: tuple[str, ...]
    space: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls,
        name: str,
        found: RiskUtilityMap,
        reports: Sequence[ReportData | None],
        *,
        shown: Sequence[Mapping[str, Any]],
        current: int | None,
        space: Mapping[str, Any] | None,
        threshold: int,
    ) -> Self:
        """A map of settings, with the report of each.

        Parameters
        ----------
        shown : sequence of mapping
            What each setting is called by.
        """
        front = set(found.front)
        weighed = tuple(each for each, weight in found.risk_weights.items() if weight > 0)
        settings = tuple(
            _shown(at, point, setting, report, weighed, threshold, unbeaten=at in front, current=at == current)
            for at, (point, setting, report) in enumerate(zip(found.points, shown, reports, strict=True))
        )
        return cls(
            name=name, threshold=threshold, settings=settings, risk=weighed, loss=tuple(found.loss_weights), space=space
        )


def _shown(
    at: int,
    point: Point,
    setting: Mapping[str, Any],
    report: ReportData | None,
    weighed: Sequence[str],
    least: int,
    *,
    unbeaten: bool,
    current: bool,
) -> ShownSetting:
    records = 0 if report is None else report.records["released"] or 0
    few = any(_rests_on_few(name, point.figures.get(name), records, least) for name in weighed)
    suppressed = point.suppressed_records
    few_suppressed = suppressed is not None and 0 < suppressed < least
    return ShownSetting(
        number=at + 1,
        setting=dict(setting),
        outcome=point.outcome,
        risk=None if point.risk is None else max(point.risk, least / records) if few else point.risk,
        loss=point.loss,
        few_risk=few,
        suppressed=None if few_suppressed else suppressed,
        few_suppressed=few_suppressed,
        unbeaten=unbeaten,
        current=current,
        reason=without_few(point.reason, least),
        report=report,
    )


def _rests_on_few(name: str, figure: float | None, records: int, least: int) -> bool:
    found = CATALOGUE_NAME.match(name)
    entry = entry_class(found[0]) if found else None
    if figure is None or (entry is not None and not entry.counts_records()):
        return False
    return PublicRules(columns=frozenset(), least=least).reported(figure, records) is None
