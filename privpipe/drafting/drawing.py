"""The hierarchy that people would draw for a column, by what was seen of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privpipe.drafting.naming import is_age, is_nominal, is_zip
from privpipe.drafting.profile import Profile

__all__ = ["FEW_NUMBERS", "suggest_hierarchy"]

AGE_STEPS = (5, 10, 20)
OLDEST = 90
"""Ages from here on are one group: HIPAA Safe Harbor has them pooled."""
FEW_NUMBERS = 12
MANY_NUMBERS = 30
FEW_WORDS = 3
MOST_KEPT = 24
FEWEST_IN_TAIL = 0.02
CUTS = (16, 8, 4, 2)
MOST_LEVELS = 4
CALENDAR = ("month", "quarter", "year", "decade")
POSTAL = (10, 100, 1000)


def suggest_hierarchy(profile: Profile) -> dict[str, Any] | None:
    """A builder that needs no list of values, or one of a known scale.

    Ages by bands of 5, 10 and 20 years with the oldest in one group; few numbers as they are, then in twos, with the
    rare end in one group; skewed amounts by quantiles at round numbers; other numbers by round bands; dates by the
    calendar; a known scale of words and codes with an order by neighbours; other words by how frequent they are.

    Examples
    --------
    >>> suggest_hierarchy(Profile("age", "integer", 1000, 0, 73, spread=73, top=92))
    {'bands': {'steps': [5, 10, 20], 'highest': 90}}
    >>> suggest_hierarchy(Profile("zip", "text", 1000, 0, 90, code_length=5))
    {'redact': {'keep': 'left'}}
    """
    if profile.type in ("date", "timestamp"):
        return {"dates": {"levels": list(CALENDAR)}}
    if profile.type in ("integer", "number", "decimal") and profile.spread > 0:
        return _of_numbers(profile)
    return _of_words(profile)


def _of_numbers(profile: Profile) -> dict[str, Any]:
    if is_zip(profile) and profile.type == "integer":
        return {"intervals": {"widths": list(POSTAL)}}
    if is_nominal(profile) and profile.distinct <= MOST_KEPT * 2:
        return _by_frequency(profile)
    if is_age(profile):
        return {"bands": {"steps": list(AGE_STEPS), **_top(profile, AGE_STEPS[0], OLDEST)}}
    if profile.type == "integer" and profile.distinct <= FEW_NUMBERS and profile.spread < 2 * FEW_NUMBERS:
        return _few_numbers(profile)
    if profile.skewed and profile.distinct > MANY_NUMBERS:
        return {"quantiles": {"counts": list(CUTS), "round": "auto"}}
    return {"bands": {"steps": _steps(profile.spread, least=2 if profile.type == "integer" else 0)}}


def _of_words(profile: Profile) -> dict[str, Any] | None:
    if profile.scale and profile.distinct > FEW_WORDS:
        return {"groups": {"order": list(profile.scale), "sizes": _pairs(profile.distinct)}}
    if profile.type == "text" and profile.by_text and profile.distinct > FEW_WORDS:
        return {"groups": {"order": "text", "sizes": _pairs(profile.distinct)}}
    if profile.type == "text" and profile.code_length > 1 and profile.distinct > MOST_KEPT:
        return {"redact": {"keep": "left"}}
    if profile.distinct > FEW_WORDS:
        return _by_frequency(profile)
    return {"priority": {"levels": 1}} if profile.distinct else None


def _by_frequency(profile: Profile) -> dict[str, Any]:
    if profile.distinct <= FEW_WORDS:
        return {"priority": {"levels": 1}}
    return {"frequency_groups": {"keep": _falling(min(MOST_KEPT, -(-2 * profile.distinct // 3)))}}


def _few_numbers(profile: Profile) -> dict[str, Any]:
    if profile.distinct <= FEW_WORDS:
        return {"priority": {"levels": 1}}
    return {"bands": {"steps": [1, 2] if profile.tail else [2, 4], **_top(profile, 1, None)}}


def _top(profile: Profile, step: int, most: int | None) -> dict[str, int]:
    """Where the top is coded: the last multiple of the step with enough records above it."""
    if not profile.tail and most is None:
        return {}
    found = int(profile.tail // step * step) if profile.tail else most
    bound = min(found, most) if found is not None and most is not None else found
    return {"highest": bound} if bound is not None and bound < profile.top else {}


def _falling(most: int) -> list[int]:
    """The number, two thirds of it and so on, down to two.

    Examples
    --------
    >>> _falling(9)
    [9, 6, 4, 2]
    """
    found = [most]
    while found[-1] > 2:
        found.append(max(2, 2 * found[-1] // 3))
    return found


def _pairs(distinct: int) -> list[list[int]]:
    """Neighbours by two and two, as long as three groups are left.

    Examples
    --------
    >>> _pairs(16)
    [[2], [2]]
    """
    found = [[2]]
    while distinct > 2 * 2 ** (len(found) + 1):
        found.append([2])
    return found


def _steps(spread: float, *, least: float) -> Sequence[int | float]:
    """A round step that makes some twenty bands, doubled until a few are left."""
    wanted = max(spread / 20, least)
    unit = 10.0
    while unit > wanted:
        unit /= 10
    while unit * 10 <= wanted:
        unit *= 10
    first = next(unit * step for step in (1, 2, 5, 10) if unit * step >= wanted)
    steps = [first]
    while steps[-1] * 4 < spread and len(steps) < MOST_LEVELS:
        steps.append(steps[-1] * 2)
    return [int(step) if float(step).is_integer() else float(f"{step:.12g}") for step in steps]
