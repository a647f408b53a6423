"""Numbers and dates as people of a language write them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privpipe.reporting.officer.languages import Language

__all__ = ["Numbers"]

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
        """A count in full, another number with so many digits that tell.

        Examples
        --------
        >>> [Numbers(lang).number(30162) for lang in ("en", "de", "es")]
        ['30,162', '30.162', '30.162']
        >>> Numbers("es").number(4162), Numbers("de").number(0.012345), Numbers("fr").number(-3.0)
        ('4162', '0,01235', '-3')
        """
        if isinstance(value, bool) or not isinstance(value, int | float):
            return str(value)
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if float(value).is_integer() and abs(value) < 1e15:
            return self._signed(f"{int(value):,}")
        if abs(value) >= 10 ** (digits - 1):
            return self._signed(f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.{digits}g}")
        return self._signed(f"{value:.{digits}g}")

    def percent(self, share: Any) -> str:
        """A share in per cent, with two digits that tell below 10 %.

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
