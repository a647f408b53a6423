"""Guess the role and the type of a column; every guess comes with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privpipe.roles import ColumnType, Role

if TYPE_CHECKING:
    from privpipe.reporting.safe_harbor import Finding

__all__ = [
    "CODE",
    "LEADING_ZERO",
    "MISSING",
    "Guess",
    "Profile",
    "column_disclosure",
    "guess_role",
    "guess_type",
    "suggest_hierarchy",
    "word_set",
    "words_of",
]

MISSING = ("", "?", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", ".")
ALMOST_ALL = 0.95
FEW_RECORDS = 20
MUCH_SEPARATION = 0.9


def word_set(*lines: str) -> frozenset[str]:
    """The words of some lines."""
    return frozenset(" ".join(lines).split())


# Whole words of a name split at anything but letters: 'DateOfBirth' has date, of, birth.
WORDS: Mapping[Role, frozenset[str]] = {
    "identifier": word_set(
        "id ids uuid guid ssn nin passport licence license iban account email mail phone telephone mobile fax name",
        "firstname lastname surname forename address street ip url username login mrn nhs insurance plate",
    ),
    "sensitive": word_set(
        "diagnosis disease illness condition disorder symptom treatment medication drug therapy hiv icd pregnancy",
        "disability religion belief union party orientation gene genome conviction crime offence income salary wage",
        "earnings debt wealth credit balance grade score",
    ),
    "quasi_identifier": word_set(
        "age birth born birthday dob birthdate yob year sex gender zip zipcode postcode postal city town municipality",
        "county district region state province country nationality citizenship nation native race ethnicity ethnic",
        "language marital married status education degree school occupation profession job employer workclass work",
        "industry sector relationship family household children height weight admission discharge date",
    ),
}
TYPED: tuple[tuple[ColumnType, re.Pattern[str]], ...] = (
    ("integer", re.compile(r"[+-]?(0|[1-9]\d{0,17})")),
    ("number", re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")),
    ("boolean", re.compile(r"true|false", re.IGNORECASE)),
    ("date", re.compile(r"\d{4}-\d\d-\d\d")),
    ("timestamp", re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?")),
)
LEADING_ZERO = re.compile(r"[+-]?0\d+")
FEW_WORDS = 3
MOST_WORDS = 8
CODE = re.compile(r"[0-9A-Za-z-]+")


@dataclass(frozen=True)
class Profile:
    """What was seen of a column; no value of it.

    Parameters
    ----------
    name : str
    type : ColumnType
    records, missing, distinct : int
        Records, those without a value, and distinct values.
    null_values : tuple of str
        Texts of a fixed list that stand for a missing value here.
    spread : float
        Largest less least value, of numbers; 0 elsewhere.
    code_length : int
        Length of the values when all are codes of one length, else 0.
    separation : float
        Share of record pairs that differ in the column.
    counts : tuple of int
        Records of each value, a missing one too; empty for more values than a class could show.
    words : float
        Mean number of words of distinct texts; 0 elsewhere.
    findings : tuple of Finding
        Kinds of identifiers that HIPAA Safe Harbor would have removed.
    """

    name: str
    type: ColumnType
    records: int
    missing: int
    distinct: int
    null_values: tuple[str, ...] = ()
    spread: float = 0.0
    code_length: int = 0
    separation: float = 0.0
    counts: tuple[int, ...] = ()
    words: float = 0.0
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Guess:
    """A role and why; `unknown`: nothing speaks for one, and the cautious one was taken."""

    role: Role
    reason: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    unknown: bool = False


def guess_type(values: Sequence[str]) -> tuple[ColumnType, tuple[str, ...]]:
    """The narrowest type all texts have, and the texts that seem to mean a missing value.

    Texts with a leading zero are codes, not numbers.

    Examples
    --------
    >>> guess_type(["39", "50", "?"]), guess_type(["01069", "80331"])
    (('integer', ('?',)), ('text', ()))
    """
    missing = tuple(value for value in MISSING if value in set(values))
    present = [value for value in values if value not in missing]
    if not present:
        return "text", missing
    if not any(LEADING_ZERO.fullmatch(value) for value in present):
        for name, pattern in TYPED:
            if all(pattern.fullmatch(value) for value in present):
                return name, missing
    return "text", tuple(value for value in missing if value in ("", "?"))


def guess_role(profile: Profile) -> Guess:
    """What the column is for, by its name, then by how many values it has."""
    share = profile.distinct / profile.records if profile.records else 0.0
    unique = share >= ALMOST_ALL and profile.records >= FEW_RECORDS and profile.type in ("text", "integer")
    seen = f"{profile.distinct:,} distinct values in {profile.records:,} records"
    seen_as = [finding for finding in profile.findings if finding.by != "name"]
    direct = [finding for finding in seen_as if not finding.coarsens]
    if direct:
        return Guess("identifier", f"looks like {' and '.join(map(str, direct))}")
    if profile.distinct <= 1:
        return Guess("insensitive", "holds a single value")
    if unique:
        return Guess("identifier", f"nearly unique: {seen}")
    for role, word in _named_roles(profile):
        return Guess(role, f"by its name ({word}); {seen}")
    if seen_as:
        return Guess("quasi_identifier", f"looks like {' and '.join(map(str, seen_as))}; {seen}")
    cautious = f"not recognised, and somebody may know it; insensitive if nobody can; {seen}"
    return Guess("quasi_identifier", cautious, unknown=True)


def _named_roles(profile: Profile) -> Iterator[tuple[Role, str]]:
    """Roles that a word of the name speaks for, and that word."""
    words = words_of(profile.name)
    # 'country_name' names no person, and a handful of values identifies nobody.
    weak = profile.distinct < FEW_RECORDS or WORDS["quasi_identifier"].intersection(words)
    for role, known in WORDS.items():
        found = [word for word in words if word in known]
        if found and not (role == "identifier" and weak):
            yield role, found[0]


def words_of(name: str) -> list[str]:
    """The words of a column name, in lower case.

    Examples
    --------
    >>> words_of("DateOfBirth"), words_of("native-country")
    (['date', 'of', 'birth'], ['native', 'country'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def column_disclosure(profile: Profile, role: Role) -> str:
    """What the column alone gives away, if it is much; a warning where it is released as it is.

    Source: Motwani, Xu, Finding Quasi-Identifiers, VLDB SDM workshop, 2007 (separation).

    Examples
    --------
    >>> column_disclosure(Profile("hours", "integer", 1000, 0, 90, separation=0.912), "insensitive")
    'WARNING: alone it tells 91.2 % of all pairs of records apart; insensitive only if nobody can know it'
    """
    if role == "identifier" or profile.separation <= MUCH_SEPARATION:
        return ""
    found = f"alone it tells {100 * profile.separation:.1f} % of all pairs of records apart"
    return f"WARNING: {found}; insensitive only if nobody can know it" if role == "insensitive" else found


def suggest_hierarchy(profile: Profile) -> dict[str, Any] | None:
    """A builder that needs no list of values; of words the most frequent stay, or all do where there are few.

    Examples
    --------
    >>> suggest_hierarchy(Profile("age", "integer", 1000, 0, 73, spread=73))
    {'intervals': {'widths': [5, 10, 20]}}
    >>> suggest_hierarchy(Profile("zip", "text", 1000, 0, 90, code_length=5))
    {'redact': {'keep': 'left'}}
    """
    if profile.type in ("date", "timestamp"):
        return {"dates": {"levels": ["month", "year", "decade"]}}
    if profile.type in ("integer", "number", "decimal") and profile.spread > 0:
        return {"intervals": {"widths": _widths(profile.spread, least=2 if profile.type == "integer" else 0)}}
    if profile.type == "text" and profile.code_length > 1:
        return {"redact": {"keep": "left"}}
    if profile.distinct > FEW_WORDS:
        return {"frequency_groups": {"keep": _halves(min(MOST_WORDS, profile.distinct // 2))}}
    return {"priority": {"levels": 1}} if profile.distinct else None


def _halves(most: int) -> list[int]:
    """The number, its half and so on, down to two."""
    return [most >> level for level in range(most.bit_length()) if most >> level >= 2]


def _widths(spread: float, *, least: float) -> list[int | float]:
    """A round width that makes some twenty intervals, doubled until a few are left."""
    wanted = max(spread / 20, least)
    unit = 10.0
    while unit > wanted:
        unit /= 10
    while unit * 10 <= wanted:
        unit *= 10
    first = next(unit * step for step in (1, 2, 5, 10) if unit * step >= wanted)
    widths = [first]
    while widths[-1] * 4 < spread and len(widths) < 4:
        widths.append(widths[-1] * 2)
    return [int(width) if float(width).is_integer() else float(f"{width:.12g}") for width in widths]
