"""The page of settings: as the officer's report without a script, and with a button for each setting that holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from privpipe.reporting.officer.charts import Mark, bar, scatter
from privpipe.reporting.officer.messages import Messages
from privpipe.reporting.officer.numbers import Numbers
from privpipe.reporting.officer.templates import template
from privpipe.reporting.officer.wording import Wording

if TYPE_CHECKING:
    from markupsafe import Markup

    from privpipe.reporting.explorer.explorer_data import ExplorerData, ShownSetting
    from privpipe.reporting.officer.languages import Language

__all__ = ["answer_page", "explorer_page"]


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
    return template("explorer/page.html.j2").render(
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
    return template("explorer/answer.html.j2").render(
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
        Mark(x=each.loss or 0.0, y=each.risk or 0.0, kind=_kind(each), title=_title(each, messages, numbers))
        for each in drawn
    ]
    legend = [("chosen", "explore.current"), ("near", "point.unbeaten"), ("other", "point.beaten")]
    axes = (messages.text("axis.loss"), messages.text("axis.risk"))
    names = [(kind, messages.text(key)) for kind, key in legend]
    return scatter(messages.text("tried.chart"), axes, marks, names)


def _kind(each: ShownSetting) -> str:
    return "chosen" if each.current else "near" if each.unbeaten else "other"


def _title(each: ShownSetting, messages: Messages, numbers: Numbers) -> str:
    sides = ((each.loss, each.few_loss), (each.risk, each.few_risk))
    loss, risk = (f"{'< ' if few else ''}{numbers.number(value)}" for value, few in sides)
    said = f"{messages.text('axis.loss')} {loss}, {messages.text('axis.risk')} {risk}"
    return f"{messages.text('explore.setting', number=each.number)} ({called(each.setting)}): {said}"
