"""Languages of the report: the catalogue of texts, numbers and dates, and sentences of a verdict found again in it."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from importlib.resources import files
from string import Formatter
from typing import Any, Literal, Self, get_args

from privpipe.errors import UsageError

__all__ = [
    "LANGUAGES",
    "REPORT_VERSION",
    "Language",
    "Messages",
    "Noted",
    "Numbers",
    "by_gravity",
    "catalogue",
    "is_grave",
    "language_of",
    "noted",
]


Language = Literal["en", "de", "fr", "es"]
LANGUAGES: tuple[Language, ...] = ("en", "de", "fr", "es")
REPORT_VERSION = 1
"""Of `report.json` in a private record, and of `ReportData`."""


def language_of(asked: str | None, policy: Mapping[str, Any]) -> Language:
    """The language that is asked for, else the one that a policy's document names for its reports, else English.

    Raises
    ------
    UsageError
        Another language is asked for.

    Examples
    --------
    >>> language_of(None, {"report": {"lang": "de"}}), language_of("fr", {})
    ('de', 'fr')
    """
    if asked is not None and asked not in LANGUAGES:
        raise UsageError(f"lang must be one of {', '.join(get_args(Language))}, not {asked!r}")
    report = policy.get("report")
    named = report.get("lang") if isinstance(report, Mapping) else None
    return next((lang for lang in LANGUAGES if lang == (asked or named)), "en")


@functools.cache
def catalogue(lang: Language) -> Mapping[str, str]:
    """All texts of a language by key: of pages, of notes, and the attackers that entries guard against."""
    folder = files(__package__).joinpath("texts")
    found: dict[str, str] = {}
    for name in (f"{lang}.json", f"notes.{lang}.json", f"guards.{lang}.json"):
        found |= json.loads(folder.joinpath(name).read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Messages:
    """The texts of one language.

    Parameters
    ----------
    lang : {"en", "de", "fr", "es"}

    Examples
    --------
    >>> Messages.of("en").text("role.identifier")
    'identifier'
    """

    lang: Language
    texts: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, lang: Language) -> Self:
        """The catalogue of a language."""
        return cls(lang, catalogue(lang))

    def text(self, key: str, **given: Any) -> str:
        """The text of a key with what it refers to filled in.

        Raises
        ------
        KeyError
            No such text, or something that it refers to was not given.
        """
        return self.texts[key].format_map(given) if given else self.texts[key]

    def has(self, key: str) -> bool:
        """Whether the catalogue has a separate text for a key."""
        return key in self.texts


THIN = "\u202f"
"""The narrow space that does not break."""
SIGNS: dict[str, tuple[str, str]] = {"en": (",", "."), "de": (".", ","), "fr": (THIN, ","), "es": (".", ",")}
DATES = {"en": "{day} {month} {year}", "de": "{day}. {month} {year}", "fr": "{day} {month} {year}"}
DATES["es"] = "{day} de {month} de {year}"
MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}
LEAST_GROUPED = {"es": 10_000}
"""From where digits are grouped; Spanish groups no four digits."""


@dataclass(frozen=True)
class Numbers:
    """Writes numbers in one language.

    Parameters
    ----------
    lang : {"en", "de", "fr", "es"}
    """

    lang: Language

    def number(self, value: Any, digits: int = 4) -> str:
        """A count in full, another number with so many significant digits.

        Examples
        --------
        >>> [Numbers(lang).number(30162) for lang in ("en", "de", "es")]
        ['30,162', '30.162', '30.162']
        >>> Numbers("es").number(4162), Numbers("de").number(0.012345), Numbers("fr").number(-3.0)
        ('4162', '0,01235', '-3')
        >>> Numbers("en").number(1e-06)
        '0.000001'
        """
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(value)
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if float(value).is_integer() and abs(value) < 1e15:
            return self._signed(f"{int(value):,}")
        if abs(value) >= 10 ** (digits - 1):
            return self._signed(f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.{digits}g}")
        text = f"{value:.{digits}g}"
        return self._signed(f"{Decimal(text):f}" if "e" in text else text)

    def loss(self, value: float) -> str:
        """A loss in thousandths, which is as much as one can mean.

        Examples
        --------
        >>> [Numbers("en").loss(value) for value in (3.8e-08, 0.0, 0.25049, 1.0)]
        ['< 0.001', '0', '0.25', '1']
        """
        return self._signed("< 0.001") if 0 < value < 0.0005 else self.number(round(value, 3))

    def percent(self, share: Any) -> str:
        """A share in per cent, with two significant digits below 10 %.

        Examples
        --------
        >>> [Numbers("de").percent(share).replace("\u00a0", " ") for share in (0.2, 0.0123, 0, 1)]
        ['20 %', '1,2 %', '0 %', '100 %']
        """
        value = float(share) * 100
        if value == 0 or abs(value - 100) < 1e-12:
            text = f"{value:.0f}"
        elif abs(value) < 10:
            text = f"{value:.2g}"
        else:
            text = f"{value:.1f}".removesuffix(".0")
            text = "> 99.9" if text == "100" and value < 100 else text
        return self._signed(text) + "\u00a0%"

    def date(self, text: str) -> str:
        """A moment in ISO 8601 as a date with its time, in UTC.

        Examples
        --------
        >>> Numbers("de").date("2026-11-23T09:05:00+00:00")
        '23. November 2026, 09:05 UTC'
        """
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return text
        month = MONTHS[self.lang].split()[moment.month - 1]
        return f"{DATES[self.lang].format(day=moment.day, month=month, year=moment.year)}, {moment:%H:%M} UTC"

    def written(self, text: str) -> str:
        """A number of an English sentence as the language writes it.

        Examples
        --------
        >>> Numbers("de").written("1,204.5"), Numbers("en").written("12.5 %")
        ('1.204,5', '12.5 %')
        """
        return self._signed(text)

    def _signed(self, text: str) -> str:
        """The text of a number with the separators of the language."""
        groups, point = SIGNS[self.lang]
        whole = text.partition(".")[0].lstrip("-> ").replace(",", "")
        if whole.isdigit() and int(whole) < LEAST_GROUPED.get(self.lang, 0):
            groups = ""
        return text.replace(",", "\0").replace(".", point).replace("\0", groups)


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
    >>> from privpipe.reporting.officer.languages import Messages
    >>> from privpipe.reporting.officer.languages import Numbers
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


GRAVE = (
    *("insecure", "no_keys", "one_class", "idle", "near_unique", "recovered", "shows_values", "alone"),
    *("unjudged", "unpaired", "persons", "links", "together", "joins", "formulas", "undeclared", "perturbed"),
)
"""Kinds of notes by how much they give away, the first words of their names in the catalogue."""


def is_grave(sentence: str) -> bool:
    """Whether a note is of one of these kinds.

    Examples
    --------
    >>> is_grave("no guarantee looks at the sensitive column 'ill'"), is_grave("base distribution of 'a': the original")
    (True, False)
    """
    return _gravity(sentence) < len(GRAVE)


def _gravity(sentence: str) -> int:
    """The place of a note among the kinds; of all others, as many as there are kinds."""
    known = _forms() if len(sentence) <= LONGEST else ()
    key = next((key.removeprefix("note.") for key, form in known if form.fullmatch(sentence)), "")
    return next((at for at, kind in enumerate(GRAVE) if key.startswith(kind)), len(GRAVE))


def by_gravity(sentences: Sequence[str]) -> list[str]:
    """Notes, those that give most away first; as they were among equals.

    Examples
    --------
    >>> by_gravity(["base distribution of 'ill': the original", "no guarantee looks at the sensitive column 'ill'"])
    ["no guarantee looks at the sensitive column 'ill'", "base distribution of 'ill': the original"]
    """
    return sorted(sentences, key=_gravity)


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
    """What a sentence refers to, as the language writes it."""
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
