"""Guesses of the role and the type of a column from its name, in several languages, and from its values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from privpipe.drafting.profile import Guess, Profile
from privpipe.roles import ColumnType, Role

__all__ = [
    "BODY_SIZES",
    "CODE",
    "INDEX",
    "LEADING_ZERO",
    "MISSING",
    "calendar_part",
    "column_disclosure",
    "guess_role",
    "guess_type",
    "is_age",
    "is_birth",
    "is_date",
    "is_household_name",
    "is_nominal",
    "is_person_name",
    "is_place_on_earth",
    "is_weight_name",
    "is_zip",
    "likeliest_sensitive",
    "scale_of",
    "standing_of",
    "word_set",
    "words_of",
]


def word_set(*lines: str) -> frozenset[str]:
    """The words of some lines."""
    return frozenset(" ".join(lines).split())


AGES = word_set(
    "age ages aged alter edad eta idade leeftijd alder wiek ika kor vek aldur yas",
    "ageof ageyears ageinyears ageyrs lebensalter",
)
OLDEST_POSSIBLE = 130
ZIPS = word_set("zip zipcode postcode postal plz postleitzahl cap cp codepostal postnummer pincode")
NOMINAL = word_set(
    "sex gender geschlecht sexe sexo genre race ethnicity ethnic ethnie nation nationality citizenship country land",
    "pays pais state province region county district city town municipality precinct religion relig faith party",
    "language langue sprache marital married civil status occupation job profession beruf industry sector nace isco",
    "relationship relat location place area code type kind class category group id birthplace workclass employer roof",
    "wall walls water fuel tenure home housing",
)
COUNTS = word_set("number num count size children persons people rooms cars visits years months days hours times n no")
WEIGHTS = word_set(
    "weight weights weighting wgt wgts wt wts pweight fweight aweight fnlwgt finalwgt poids ponderation ponderacion",
    "gewicht gewichtung hochrechnung hochrechnungsfaktor peso pesi pesos pond ponderador waga vikt vaegt vagt paino",
    "gewichten inflator expansion grossing blowup",
)
INDEX = "index"
"""What a column is called whose name is empty, as `to_csv` of pandas writes the numbers of rows."""
ROW_NUMBERS = re.compile(rf"(?i)({INDEX}|level)(_\d+)?|unnamed: ?\d+|row_?names?")
CODED_WEIGHT = re.compile(
    r"(?i)(fnl?wgt|final_?w(gh?)?t|p?er_?wt|hh_?wt|p?wgtp\d*|wt[a-z]*|[a-z]*wt(ssall|ss|nr|all|mec|int)|"
    r"[a-z]*_?wgt\d*|rb05\d|rb06\d|pb04\d|pb06\d|db090|dw?eight|pspwght|pweight|asecwt|iwght|w_?final|raking)"
)
"""Names that surveys give their weights: EU-SILC, ESS, IPUMS, NHANES and others."""
BODIES = word_set("body birth kg lb lbs height wt71 wt82 baby mother before after pounds kilos ht bmi loss gain car")
BODY_SIZES = word_set("height ht bmi stature taille groesse")
"""Next to one of these a weight is that of a body."""
HOUSEHOLDS = word_set(
    "household households hh hhid hhno hhnr hnr serial serialno family dwelling haushalt hogar vivienda menage foyer",
    "couple famiglia huishouden domicilio agregado gospodarstwo husstand hushall",
)
PERSONS = word_set(
    "person persons patient subject participant respondent individual customer client member employee student pid",
    "personid patid idpers persnr kunde paciente persona personne",
)
HOUSEHOLD_KEY = re.compile(r"(?i)(d|h|r)b030|hid|h?h_?(id|nr|no|num)|idhog|ori_hid|hidp?|serial")
PERSON_KEY = re.compile(r"(?i)rb030|pb030|pid|p_?id|idpers|patid|seqn")
BIRTHS = word_set(
    "dob birth birthdate birthday born yob geburtsdatum geburtsjahr naissance nacimiento nascita bi bdate"
)
BORN = re.compile(
    r"(?i)(?<!new)(?<!still)(?<!un)born|birth(?=$|_?(date|day|year|yr|month))|(date|day|year|yr|month|of)_?birth|"
    r"geb(urts)?_?(jahr|datum|tag|monat)|(ann?ee|date|jour|mois)_?(de_?)?naiss|naiss(ance)?(_?(ann?ee|date))?$|"
    r"(fecha|f|ano|anio|mes|dia)_?(de_?)?nac|(anno|data|mese)_?(di_?)?nasc|geboorte_?(jaar|datum)"
)
"""Births in names that are written in one word: yearborn, birthyr, gebjahr, anneenaiss, fechanac, annonasc."""
PARTS: Mapping[str, frozenset[str]] = {
    "year": word_set("year yr yyyy jahr annee an ano anio anno jaar"),
    "quarter": word_set("quarter qtr quartal trimestre trimester kwartaal"),
    "month": word_set("month mo mon mth mm monat mois mes mese maand"),
    "iso_week": word_set("week wk isoweek woche kw semaine semana settimana"),
    "day": word_set("day dd mday dayofmonth tag jour dia giorno dag"),
    "day_of_year": word_set("yday doy dayofyear jahrestag"),
    "day_of_week": word_set("weekday wday dow dayofweek wochentag"),
    "hour": word_set("hour hr hh stunde heure hora ora uur"),
    "minute": word_set("minute min minuto"),
}
"""Words for parts of dates, by the function that takes the part."""
PLACES = word_set("lat lon lng long latitude longitude easting northing geocode gps coordinates coordinate")
SEXES = word_set("sex gender geschlecht sexe sexo sesso genere")
WANTED = word_set(
    "education region state race ethnicity marital occupation job country year income citizenship nationality employed",
    "bildung ausbildung bundesland beruf etudes diplome estudios ocupacion hsize household",
)
CODED = {"db040": "region", "rb090": "sex", "pb220a": "citizenship", "pe040": "education", "pl030": "job"}
SCALES: tuple[tuple[str, ...], ...] = (
    ("very low", "low", "medium", "high", "very high"),
    ("very low", "low", "moderate", "high", "very high"),
    ("very low", "low", "average", "high", "very high"),
    ("very poor", "poor", "fair", "average", "good", "very good", "excellent"),
    ("very bad", "bad", "fair", "good", "very good"),
    ("never", "rarely", "sometimes", "often", "very often", "always"),
    ("never", "almost never", "seldom", "sometimes", "often", "usually", "always"),
    ("not at all", "a little", "slightly", "somewhat", "moderately", "very", "extremely"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("strongly disagree", "disagree", "neither agree nor disagree", "agree", "strongly agree"),
    ("very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"),
    ("none", "mild", "moderate", "severe", "critical"),
    ("xs", "s", "m", "l", "xl", "xxl"),
    ("tiny", "small", "medium", "large", "huge"),
    ("none", "primary", "secondary", "tertiary"),
    ("none", "elementary", "lower secondary", "upper secondary", "bachelor", "master", "doctorate"),
    (
        *("preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "hs-grad", "some-college"),
        *("assoc-voc", "assoc-acdm", "bachelors", "masters", "prof-school", "doctorate"),
    ),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    (
        *("january", "february", "march", "april", "may", "june"),
        *("july", "august", "september", "october", "november", "december"),
    ),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("child", "teenager", "young adult", "adult", "middle-aged", "senior"),
    ("daily", "weekly", "monthly", "quarterly", "yearly"),
)
"""Words that have an order whatever table they are in."""


def words_of(name: str) -> list[str]:
    """The words of a column name, in lower case.

    Examples
    --------
    >>> words_of("DateOfBirth"), words_of("native-country"), words_of("ageOFocc")
    (['date', 'of', 'birth'], ['native', 'country'], ['age', 'of', 'occ'])
    """
    plain = re.sub(r"(?<=[a-z])OF(?=[a-z])", "Of", name)
    plain = re.sub(r"(?<=Of)[a-z]", lambda found: found[0].upper(), plain) if plain != name else plain
    return [word.lower() for word in re.findall(r"[^\W\d_]+", _spaced(plain))]


def _spaced(name: str) -> str:
    return re.sub(r"(?<=[^\W\d_A-Z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][^\W\d_A-Z])", " ", name)


def is_age(profile: Profile) -> bool:
    """Whether a number is the age of a person in years: by its name, and as high as people grow old.

    Examples
    --------
    >>> is_age(Profile("Alter", "integer", 90, 0, 60, spread=80, top=95))
    True
    """
    likely = 20 <= profile.spread <= OLDEST_POSSIBLE and profile.bottom >= -1 and profile.top <= OLDEST_POSSIBLE
    return bool(AGES.intersection(words_of(profile.name))) and likely


def is_zip(profile: Profile) -> bool:
    """Whether a column holds postal codes, by its name."""
    return bool(ZIPS.intersection(words_of(profile.name)))


def is_nominal(profile: Profile) -> bool:
    """Whether whole numbers represent categories without an order, by the name."""
    words = words_of(profile.name)
    return profile.type == "integer" and bool(NOMINAL.intersection(words)) and not COUNTS.intersection(words)


def is_birth(profile: Profile) -> bool:
    """Whether a column holds days or years of birth, by its name and type.

    Examples
    --------
    >>> [is_birth(Profile(name, "integer", 90, 0, 60)) for name in ("yearborn", "gebjahr", "birthweight", "newborns")]
    [True, True, False, False]
    """
    named = BIRTHS.intersection(words_of(profile.name)) or BORN.search(profile.name.strip())
    return bool(named) and profile.type in ("integer", "date", "timestamp")


def is_date(profile: Profile) -> bool:
    """Whether a column holds days or moments."""
    return profile.type in ("date", "timestamp")


def calendar_part(name: str) -> str:
    """The part of a date that a column is called by; nothing of one whose name has a word of another kind.

    Examples
    --------
    >>> calendar_part("month"), calendar_part("birth_year"), calendar_part("Monat"), calendar_part("years_married")
    ('month', 'year', 'month', '')
    """
    words = words_of(name)
    known = [part for word in words for part, some in PARTS.items() if word in some]
    rest = {word for word in words if not any(word in some for some in PARTS.values())}
    return known[0] if known and rest <= {"of", "the", "date", "time", *BIRTHS} else ""


def is_household_name(name: str) -> bool:
    """Whether a column is called as the number of a household is.

    Examples
    --------
    >>> is_household_name("db030"), is_household_name("Haushalt"), is_household_name("house")
    (True, True, False)
    """
    return bool(HOUSEHOLDS.intersection(words_of(name))) or HOUSEHOLD_KEY.fullmatch(name.strip()) is not None


def is_person_name(name: str) -> bool:
    """Whether a column is called as the number of a person is.

    Examples
    --------
    >>> is_person_name("patient_id"), is_person_name("rb030"), is_person_name("persons")
    (True, True, False)
    """
    words = set(words_of(name))
    numbered = words & {"id", "ids", "nr", "no", "number", "key", "code"}
    alone = len(words) == 1 and bool(words & {*PERSONS, "id"} - {"persons"})
    return bool(words & PERSONS and numbered) or alone or PERSON_KEY.fullmatch(name.strip()) is not None


def is_place_on_earth(profile: Profile) -> bool:
    """Whether a number is a coordinate, by its name and range."""
    small = profile.type != "integer" and not profile.whole and profile.bottom >= -180 and profile.top <= 180
    return bool(PLACES.intersection(words_of(profile.name))) and small


def is_weight_name(name: str) -> bool:
    """Whether a column is called as the weight of a survey is, and not as that of a body.

    Examples
    --------
    >>> is_weight_name("rb050"), is_weight_name("Gewicht_final"), is_weight_name("birth weight")
    (True, True, False)
    """
    words = set(words_of(name))
    named = bool(words & WEIGHTS) or CODED_WEIGHT.fullmatch(name.strip()) is not None
    return named and not words & BODIES


def standing_of(name: str) -> int:
    """How much a column is asked for by those who use a table: ages, sexes and places most.

    Examples
    --------
    >>> standing_of("age") > standing_of("education") > standing_of("neighborhood")
    True
    """
    words = {*words_of(name)} | {CODED.get(name.lower(), "")}
    return sum(bool(words & some) << at for at, some in enumerate((WANTED, AGES | SEXES)))


def scale_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The texts in the order of a known scale that has them all; nothing where none has.

    Examples
    --------
    >>> scale_of(["Often", "Never", "Always", "Sometimes"])
    ('Never', 'Sometimes', 'Often', 'Always')
    """
    plain = {_plain(text): text for text in texts}
    if len(plain) != len(texts):
        return ()
    for scale in SCALES:
        if set(plain) <= set(scale):
            return tuple(plain[word] for word in _within(scale, plain))
    return ()


def _within(scale: Iterable[str], words: Iterable[str]) -> list[str]:
    held = set(words)
    return [word for word in scale if word in held]


def _plain(text: str) -> str:
    return re.sub(r"[\s_]+", " ", text.strip().strip(".").lower())


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
        "genome conviction crime offence income rincome inc salary wage wages earnings debt wealth credit balance",
        "einkommen gehalt lohn revenu salaire ingreso ingresos renta reddito diagnose diagnostic maladie krankheit",
        "score death dead died deceased mortality survival severity relapse recurrence metastasis metastases remission",
        "cancer tumor tumour carcinoma stroke diabetes diabetic asthma infection infected premie miscarriage abortion",
        "tod verstorben schweregrad befund deces gravite muerte fallecido gravedad morte deceduto",
        "cholesterol chol hdl ldl triglycerides albumin bilirubin bili creatinine creat hemoglobin haemoglobin hgb",
        "hba1c glucose insulin platelet platelets leukocytes leucocytes systolic diastolic sbp dbp protime mspike",
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
MEASURES = word_set(
    "satisfaction distance times training involvement rate rating change trend since per last zufriedenheit entfernung"
)
"""Next to one of these a word is what is measured: DistanceFromHome is no home, TrainingTimesLastYear no year."""
OUTCOMES = word_set("status outcome result event")
OF_OUTCOMES = word_set("vital final clinical patient test loan disease treatment follow up at end censoring")
"""A name of these words alone is an outcome, and no marital status."""
LIKELY = word_set(
    "smoke smoker smoking alcohol drink drinks drinking affairs arrested fraud default delinq delinquency claim claims",
    "visits hospital insurance premium expend expenditure expenses spending savings cost charges amount price revenue",
    "deny denied approved profit tax fee loan loans rent value gpa",
    "marks test pass passed attrition left churn target class label method",
    "stage grade therapy symptoms risk opinion view views attitude satisfaction happy happiness health",
)
"""Words of what is often sensitive and as often is not: asked about where nothing else is sensitive."""
BALANCES = word_set("life work")
"""With one of these a balance is no account's."""
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
"""Variables of EU-SILC, whose names are not words."""
TYPED: tuple[tuple[ColumnType, re.Pattern[str]], ...] = (
    ("integer", re.compile(r"[+-]?(0|[1-9]\d{0,17})(\.0)?")),
    ("number", re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")),
    ("boolean", re.compile(r"true|false", re.IGNORECASE)),
    ("date", re.compile(r"\d{4}-\d\d-\d\d")),
    ("timestamp", re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?")),
)
LEADING_ZERO = re.compile(r"[+-]?0\d+")
CODE = re.compile(r"[0-9A-Za-z-]+")


def guess_type(values: Sequence[str]) -> tuple[ColumnType, tuple[str, ...]]:
    """The narrowest type all texts have, and the texts that seem to mean a missing value.

    Texts with a leading zero are codes, not numbers; ``1.0`` is how pandas writes the whole numbers of a column with
    gaps.

    Examples
    --------
    >>> guess_type(["39", "50.0", "?"]), guess_type(["01069", "80331"])
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
    given_out = named or (profile.even and _is_numbering(profile))
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
    if profile.type == "integer" and ROW_NUMBERS.fullmatch(profile.name.strip()):
        return Guess("drop", "an index of rows, which holds no data")
    for role, word in _named_roles(profile):
        return Guess(role, f"by its name ({word}); {seen}")
    if seen_as:
        return Guess("quasi_identifier", f"looks like {' and '.join(map(str, seen_as))}; {seen}")
    cautious = f"not recognised, and an attacker may know it; insensitive if none can; {seen}"
    return Guess("quasi_identifier", cautious, unknown=True)


NUMBERED = 20
"""How much wider than the number of its values the range of numbers is that were given out."""


def _is_numbering(profile: Profile) -> bool:
    """Whether even numbers may have been given out or drawn as keys: dense, or all of as many digits; no amounts."""
    if WORDS["sensitive"].intersection(words_of(profile.name)) or profile.bottom < 0:
        return False
    digits = len(str(int(profile.bottom))) == len(str(int(profile.top)))
    return digits or profile.spread <= NUMBERED * profile.distinct


def likeliest_sensitive(profiles: Sequence[Profile], guesses: Mapping[str, Guess], *, named: bool = False) -> str:
    """The column that is sensitive most likely where none was taken for it; nothing where none may be.

    By a word of its name, else the last column of a few values that nothing is known of: tables end with what is
    studied.

    Parameters
    ----------
    named : bool
        Whether a word of its name has to suggest it.

    Examples
    --------
    >>> people = [Profile("age", "integer", 90, 0, 60), Profile("smoker", "boolean", 90, 0, 2)]
    >>> likeliest_sensitive(people, {each.name: guess_role(each) for each in people})
    'smoker'
    """
    open_ = [each for each in profiles if guesses[each.name].role in ("quasi_identifier", "insensitive")]
    unknown = [each for each in open_ if guesses[each.name].unknown and each.distinct > 1]
    suggested = [each for each in unknown if LIKELY.intersection(words_of(each.name))]
    few = [each for each in unknown if each.distinct <= FEW_RECORDS]
    return next((some[-1].name for some in ((suggested,) if named else (suggested, few, unknown)) if some), "")


def _named_roles(profile: Profile) -> Iterator[tuple[Role, str]]:
    """Roles that a word of the name suggests, and that word."""
    words = words_of(profile.name)
    if coded := CODES.get(profile.name.strip().lower()):
        yield coded
    if OUTCOMES.intersection(words) and set(words) <= OUTCOMES | OF_OUTCOMES:
        yield "sensitive", f"{' '.join(words)}, an outcome"
    # 'country_name' does not name a person, and a handful of values identifies no one.
    weak = profile.distinct < FEW_RECORDS or WORDS["quasi_identifier"].intersection(words)
    for role, known in WORDS.items():
        found = [word for word in words if word in known]
        if role == "quasi_identifier" and MEASURES.intersection(words):
            continue
        if "balance" in words and BALANCES.intersection(words):
            continue
        if found and not (role == "identifier" and weak):
            yield role, found[0]


def column_disclosure(profile: Profile, role: Role) -> str:
    """What the column alone reveals, if it is much; a warning where it is released unchanged.

    Source: Motwani, Xu, Finding Quasi-Identifiers, VLDB SDM workshop, 2007 (separation).

    Examples
    --------
    >>> column_disclosure(Profile("hours", "integer", 1000, 0, 90, separation=0.912), "insensitive")
    'WARNING: alone it distinguishes 91.2 % of all pairs of records; insensitive only if no attacker can know it'
    """
    if role in ("identifier", "drop") or profile.separation <= MUCH_SEPARATION:
        return ""
    found = f"alone it distinguishes {100 * profile.separation:.1f} % of all pairs of records"
    return f"WARNING: {found}; insensitive only if no attacker can know it" if role == "insensitive" else found
