"""Sentences of a verdict in the reader's language: found again by the English texts of the catalogue."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING

from privpipe.reporting.officer.messages import catalogue

if TYPE_CHECKING:
    from privpipe.reporting.officer.messages import Messages
    from privpipe.reporting.officer.numbers import Numbers

__all__ = ["Noted", "noted"]

LONGEST = 2000
"""Characters of a sentence that is looked for."""
COUNT = r"(?:fewer than )?[\d.,]+"
FORMS = {**dict.fromkeys(("count", "all", "before", "after", "loss", "most"), COUNT)}
FORMS |= dict.fromkeys(("share", "label"), r"[\d.,]+ %")
FORMS |= {"entry": r"\w+", "stages": r"\w+(?:, \w+)*", "done": r"\w+", "unit": r"\w+", "part": r"\w+"}
FIGURE = re.compile(r"(\w+) observed ([^,;]+(?:,\d{3})*)")
NUMBER = re.compile(r"\d[\d.,]*( %)?")


@dataclass(frozen=True)
class Noted:
    """A sentence as a page shows it.

    Parameters
    ----------
    text : str
    english : bool
        Whether it stays English on a page of another language: the catalogue has it not.
    """

    text: str
    english: bool = False


def noted(sentence: str, messages: Messages, numbers: Numbers) -> Noted:
    """A note or an alarm in the language of a page.

    Examples
    --------
    >>> from privpipe.reporting.officer.messages import Messages
    >>> from privpipe.reporting.officer.numbers import Numbers
    >>> noted("`zip` has one label left of 1,204", Messages.of("de"), Numbers("de")).text
    '`zip` hat von 1.204 Werten nur einen behalten'
    >>> noted("made up by a plug-in", Messages.of("de"), Numbers("de")).english
    True
    """
    if messages.lang == "en":
        return Noted(sentence)
    for key, form in _forms() if len(sentence) <= LONGEST else ():
        found = form.fullmatch(sentence)
        if found is not None:
            said = {name: _said(name, text, messages, numbers) for name, text in found.groupdict().items()}
            return Noted(messages.text(key, **said) if said else messages.text(key))
    return Noted(sentence, english=True)


@functools.cache
def _forms() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The English notes as patterns; those that say more come before those that they contain."""
    return tuple((key, re.compile(_pattern(text))) for key, text in catalogue("en").items() if key.startswith("note."))


def _pattern(text: str) -> str:
    parts = []
    for literal, name, _, _ in Formatter().parse(text):
        parts.append(re.escape(literal))
        if name:
            parts.append(f"(?P<{name}>{FORMS.get(name, '.+?')})")
    return "".join(parts)


def _said(name: str, text: str, messages: Messages, numbers: Numbers) -> str:
    """What a sentence speaks of, as the language writes it."""
    few = re.fullmatch(r"fewer than ([\d,]+)", text)
    if few is not None:
        return messages.text("word.fewer", least=numbers.written(few[1]))
    if NUMBER.fullmatch(text):
        return numbers.written(text)
    if name == "figures":
        return FIGURE.sub(lambda found: _figure(found, messages, numbers), text)
    if name in ("columns", "told"):
        return text.replace("` and `", f"`{messages.text('word.and')}`")
    if name in ("entry", "stages"):
        kind = {"entry": "entry", "stages": "stage"}[name]
        return ", ".join(_known(messages, f"{kind}.{each}", each) for each in text.split(", "))
    return _known(messages, f"word.{text}", text) if name in ("done", "unit", "part") else text


def _figure(found: re.Match[str], messages: Messages, numbers: Numbers) -> str:
    value = numbers.written(found[2]) if NUMBER.fullmatch(found[2]) else found[2]
    entry = _known(messages, f"entry.{found[1]}", found[1])
    return messages.text("word.observed", entry=entry, value=value)


def _known(messages: Messages, key: str, otherwise: str) -> str:
    return messages.text(key) if messages.has(key) else otherwise
