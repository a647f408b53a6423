"""The page on which settings of a policy are compared and one is chosen: its data as plain values, and its HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from privpipe.blocks.public_edition import PublicRules
from privpipe.reporting.entry_rows import entry_class, without_few
from privpipe.reporting.officer.charts import Mark, bar, scatter
from privpipe.reporting.officer.languages import Messages, Numbers
from privpipe.reporting.officer.page import template
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.officer.wording import Wording

if TYPE_CHECKING:
    from markupsafe import Markup

    from privpipe.reporting.officer.languages import Language
    from privpipe.reporting.run_comparison import Point, RiskUtilityMap

__all__ = ["ExplorerData", "ShownSetting", "answer_page", "explorer_page"]


CATALOGUE_NAME = re.compile(r"[a-z_]+")
CALLED = {"cell_loss": "quality"}


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
        None where they were not to be had; a figure of few records counts as the most that they could be.
    few_risk, few_loss : bool
        Whether they are based on too few records to be shown.
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
    few_loss: bool = False
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
        Records that a figure must be based on.
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
        axes = tuple(
            {name: weight for name, weight in weights.items() if weight > 0}
            for weights in (found.risk_weights, found.loss_weights)
        )
        settings = tuple(
            replace(_shown(at, point, report, axes, threshold), setting=dict(setting), unbeaten=at in front)
            for at, (point, setting, report) in enumerate(zip(found.points, shown, reports, strict=True))
        )
        return cls(
            name=name,
            threshold=threshold,
            settings=tuple(replace(each, current=at == current) for at, each in enumerate(settings)),
            risk=tuple(axes[0]),
            loss=tuple(axes[1]),
            space=space,
        )


def _shown(
    at: int, point: Point, report: ReportData | None, axes: Sequence[Mapping[str, float]], least: int
) -> ShownSetting:
    records = 0 if report is None else report.records["released"] or 0
    (risk, few_risk), (loss, few_loss) = (_mean(point.figures, weights, records, least) for weights in axes)
    suppressed = point.suppressed_records
    few = suppressed is not None and 0 < suppressed < least
    return ShownSetting(
        number=at + 1,
        setting=point.setting,
        outcome=point.outcome,
        risk=risk,
        loss=loss,
        few_risk=few_risk,
        few_loss=few_loss,
        suppressed=None if few else suppressed,
        few_suppressed=few,
        reason=without_few(point.reason, least),
        report=report,
    )


def _mean(
    figures: Mapping[str, float | None], weights: Mapping[str, float], records: int, least: int
) -> tuple[float | None, bool]:
    """The mean of some figures, and whether one rests on few records: the others would give it away."""
    total, few = 0.0, False
    for name, weight in weights.items():
        figure = figures.get(name)
        if figure is None:
            return None, False
        if _rests_on_few(name, figure, records, least):
            figure, few = least / records, True
        total += weight * figure
    return total, few


def _rests_on_few(name: str, figure: float, records: int, least: int) -> bool:
    found = CATALOGUE_NAME.match(name)
    entry = entry_class(CALLED.get(found[0], found[0])) if found else None
    if not records or (entry is not None and not entry.counts_records()):
        return False
    return PublicRules(columns=frozenset(), least=least).reported(figure, records) is None


def explorer_page(data: ExplorerData, lang: Language = "en") -> str:
    """The page of settings that were tried.

    Parameters
    ----------
    data : ExplorerData
    lang : {"en", "de", "fr", "es"}
    """
    messages, numbers = Messages.of(lang), Numbers(lang)
    reports = [each.report for each in data.settings if each.report is not None]
    first = Wording(replace(reports[0], space=data.space, threshold=data.threshold), messages, numbers)
    return template("officer/explorer.html.j2").render(
        data=data,
        lang=lang,
        t=messages.text,
        has=messages.has,
        n=numbers.number,
        pct=numbers.percent,
        say=first,
        says={each.number: Wording(each.report, messages, numbers) for each in data.settings if each.report},
        called=lambda each: called(each.setting),
        chart=_chart(data, messages, numbers),
        bar=bar,
    )


def answer_page(said: str, detail: str, lang: Language = "en") -> str:
    """The page that follows a choice.

    Parameters
    ----------
    said : str
        Key of what happened: ``written`` or ``refused``.
    detail : str
        The lines that changed, or why nothing was written.

    Examples
    --------
    >>> "Nothing was written" in answer_page("refused", "the file changed")
    True
    """
    return template("officer/explorer_answer.html.j2").render(
        lang=lang, t=Messages.of(lang).text, said=said, lines=detail.splitlines()
    )


def called(setting: Mapping[str, Any]) -> str:
    """A setting in a few words.

    Examples
    --------
    >>> called({"age": 1, "zip": 2})
    'age: 1, zip: 2'
    """
    return ", ".join(f"{place}: {value}" for place, value in setting.items())


def _chart(data: ExplorerData, messages: Messages, numbers: Numbers) -> Markup | None:
    """Risk and loss of the settings; None where none has both."""
    drawn = [each for each in data.settings if each.risk is not None and each.loss is not None]
    if not drawn:
        return None
    marks = [
        Mark(
            x=each.loss or 0.0,
            y=each.risk or 0.0,
            kind="chosen" if each.current else "near" if each.unbeaten else "other",
            title=_title(each, messages, numbers),
        )
        for each in drawn
    ]
    legend = [("chosen", "explore.current"), ("near", "point.unbeaten"), ("other", "point.beaten")]
    axes = (messages.text("axis.loss"), messages.text("axis.risk"))
    names = [(kind, messages.text(key)) for kind, key in legend]
    return scatter(messages.text("tried.chart"), axes, marks, names)


def _title(each: ShownSetting, messages: Messages, numbers: Numbers) -> str:
    sides = ((each.loss, each.few_loss), (each.risk, each.few_risk))
    loss, risk = (f"{'< ' if few else ''}{numbers.number(value)}" for value, few in sides)
    said = f"{messages.text('axis.loss')} {loss}, {messages.text('axis.risk')} {risk}"
    return f"{messages.text('explore.setting', number=each.number)} ({called(each.setting)}): {said}"
