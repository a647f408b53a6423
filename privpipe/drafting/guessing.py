"""Guess the role and the type of a column; every guess comes with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from privpipe.drafting.naming import is_person_name, word_set, words_of
from privpipe.drafting.profile import Guess, Profile
from privpipe.roles import ColumnType, Role

__all__ = [
    "CODE",
    "LEADING_ZERO",
    "MISSING",
    "column_disclosure",
    "guess_role",
    "guess_type",
]

MISSING = ("", "?", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", ".")
ALMOST_ALL = 0.95
FEW_RECORDS = 20
MUCH_SEPARATION = 0.9


# Whole words of a name split at anything but letters: 'DateOfBirth' has date, of, birth.
WORDS: Mapping[Role, frozenset[str]] = {
    "identifier": word_set(
        "id ids uuid guid ssn nin passport licence license iban account email mail phone telephone mobile fax name",
        "firstname lastname surname forename address street ip url username login mrn nhs plate imei vin",
        "nachname vorname anschrift strasse telefon nom prenom adresse apellido nombre direccion telefono cognome",
    ),
    "sensitive": word_set(
        "diagnosis disease illness condition disorder symptom treatment medication drug therapy hiv icd pregnancy",
        "disability religion religious relig denom belief union party partyid politics polviews vote orientation gene",
        "genome conviction crime offence income rincome salary wage wages earnings debt wealth credit balance score",
        "einkommen gehalt lohn revenu salaire ingreso ingresos renta reddito diagnose diagnostic maladie krankheit",
    ),
    "quasi_identifier": word_set(
        "age ages birth born birthday dob birthdate yob year sex gender zip zipcode postcode postal city town",
        "municipality county district region state province country nationality citizenship nation native race",
        "ethnicity ethnic hispanic afam black white language marital married status single education degree school",
        "hschool college schooling occupation profession job employer employed workclass work industry sector nace",
        "relationship relat family household children kids siblings height admission discharge date neighborhood",
        "neighbourhood precinct smsa urban rural urbrur seniority experience home homeownership housing veteran",
        "birthplace hsize hhsize famsize hhcivil widow divorced",
        "alter edad eta idade leeftijd geschlecht sexe sexo sesso genere geslacht wohnort gemeinde bundesland staat",
        "region plz postleitzahl departement commune ville pays provincia municipio ciudad pais comune citta",
        "familienstand estado civil bildung beruf ausbildung profession etudes diplome estudios profesion ocupacion ",
        "nationalitaet staatsangehoerigkeit nacionalidad nationalite geburtsdatum geburtsjahr",
        "naissance nacimiento nascita",
    ),
}
CODES: Mapping[str, tuple[Role, str]] = {
    "db040": ("quasi_identifier", "region"),
    "rb080": ("quasi_identifier", "year of birth"),
    "pb140": ("quasi_identifier", "year of birth"),
    "rb090": ("quasi_identifier", "sex"),
    "pb150": ("quasi_identifier", "sex"),
    "pb190": ("quasi_identifier", "marital status"),
    "pb220a": ("quasi_identifier", "citizenship"),
    "pb210": ("quasi_identifier", "country of birth"),
    "pe040": ("quasi_identifier", "education"),
    "pl030": ("quasi_identifier", "activity status"),
    "pl031": ("quasi_identifier", "activity status"),
    "pl051": ("quasi_identifier", "occupation"),
    "ph010": ("sensitive", "health"),
}
"""Variables of EU-SILC, whose names are no words."""
TYPED: tuple[tuple[ColumnType, re.Pattern[str]], ...] = (
    ("integer", re.compile(r"[+-]?(0|[1-9]\d{0,17})")),
    ("number", re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")),
    ("boolean", re.compile(r"true|false", re.IGNORECASE)),
    ("date", re.compile(r"\d{4}-\d\d-\d\d")),
    ("timestamp", re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?")),
)
LEADING_ZERO = re.compile(r"[+-]?0\d+")
CODE = re.compile(r"[0-9A-Za-z-]+")


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
    named = is_person_name(profile.name) or bool(WORDS["identifier"].intersection(words_of(profile.name)))
    given_out = profile.even or named
    counted = profile.type == "text" or (profile.type == "integer" and given_out)
    unique = share >= ALMOST_ALL and profile.records >= FEW_RECORDS and counted
    seen = f"{profile.distinct:,} distinct values in {profile.records:,} records"
    seen_as = [finding for finding in profile.findings if finding.by != "name"]
    direct = [finding for finding in seen_as if not finding.coarsens]
    if direct:
        return Guess("identifier", f"looks like {' and '.join(map(str, direct))}")
    if profile.distinct <= 1:
        return Guess("insensitive", "holds a single value")
    if unique:
        row = profile.type == "integer" and profile.spread == profile.records - 1 == profile.distinct - 1
        return Guess("identifier", "a row number" if row else f"nearly unique: {seen}")
    for role, word in _named_roles(profile):
        return Guess(role, f"by its name ({word}); {seen}")
    if seen_as:
        return Guess("quasi_identifier", f"looks like {' and '.join(map(str, seen_as))}; {seen}")
    cautious = f"not recognised, and somebody may know it; insensitive if nobody can; {seen}"
    return Guess("quasi_identifier", cautious, unknown=True)


def _named_roles(profile: Profile) -> Iterator[tuple[Role, str]]:
    """Roles that a word of the name speaks for, and that word."""
    words = words_of(profile.name)
    if coded := CODES.get(profile.name.strip().lower()):
        yield coded
    # 'country_name' names no person, and a handful of values identifies nobody.
    weak = profile.distinct < FEW_RECORDS or WORDS["quasi_identifier"].intersection(words)
    for role, known in WORDS.items():
        found = [word for word in words if word in known]
        if found and not (role == "identifier" and weak):
            yield role, found[0]


def column_disclosure(profile: Profile, role: Role) -> str:
    """What the column alone gives away, if it is much; a warning where it is released as it is.

    Source: Motwani, Xu, Finding Quasi-Identifiers, VLDB SDM workshop, 2007 (separation).

    Examples
    --------
    >>> column_disclosure(Profile("hours", "integer", 1000, 0, 90, separation=0.912), "insensitive")
    'WARNING: alone it tells 91.2 % of all pairs of records apart; insensitive only if nobody can know it'
    """
    if role in ("identifier", "drop") or profile.separation <= MUCH_SEPARATION:
        return ""
    found = f"alone it tells {100 * profile.separation:.1f} % of all pairs of records apart"
    return f"WARNING: {found}; insensitive only if nobody can know it" if role == "insensitive" else found
