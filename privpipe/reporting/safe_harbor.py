"""Identifiers that HIPAA Safe Harbor would have removed: 18 kinds, found by column name and by value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privpipe.blocks.arrays import Bools

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.blocks import Histogram
    from privpipe.engines import Engine

__all__ = [
    "KINDS",
    "NAMES",
    "PATTERNS",
    "QUASI_KINDS",
    "Finding",
    "Pattern",
    "kinds_in_column",
    "kinds_in_table",
    "safe_harbor",
]


KINDS: Mapping[str, str] = {
    "name": "names",
    "geographic": "geographic subdivisions smaller than a state",
    "date": "dates other than years, and ages over 89",
    "phone": "telephone numbers",
    "fax": "fax numbers",
    "email": "e-mail addresses",
    "ssn": "social security numbers",
    "medical_record": "medical record numbers",
    "health_plan": "health plan beneficiary numbers",
    "account": "account numbers",
    "licence": "certificate and licence numbers",
    "vehicle": "vehicle identifiers and licence plates",
    "device": "device identifiers and serial numbers",
    "url": "web addresses",
    "ip": "IP addresses",
    "biometric": "biometric identifiers",
    "photo": "full-face photographs",
    "other": "any other unique number, characteristic or code",
}
"""45 CFR 164.514(b)(2)(i)(A) to (R), in that order."""
QUASI_KINDS = ("geographic", "date")
"""Kinds that can be coarsened instead of removed."""

NAMES: Mapping[str, str] = {
    "name": "full name,first name,last name,family name,given name,maiden name,patient name,middle name,surname,"
    "forename,firstname,lastname,fullname,nickname,initials",
    "geographic": "zip,zipcode,postcode,postal,address,addr,street,city,town,county,district,precinct,municipality,"
    "parish,village,latitude,longitude,lat,lon,lng,geocode,census tract",
    "date": "date,dob,birthdate,birthday,born,date of birth,admission,admitted,discharge,discharged,deceased,died,"
    "date of death",
    "phone": "phone,telephone,mobile,cell,tel,phone number",
    "fax": "fax,fax number,telefax",
    "email": "email,e mail,mail,email address,mail address",
    "ssn": "ssn,social security,social security number",
    "medical_record": "mrn,medical record,record number,chart number,patient id,patient number,medical record number",
    "health_plan": "health plan,beneficiary,member id,subscriber,insurance,insurance number,policy number,medicare,"
    "medicaid,mbi",
    "account": "account,account number,iban,credit card,card number,bank account",
    "licence": "licence,license,certificate,passport,dea,npi,driver license,licence number,license number",
    "vehicle": "vehicle,vin,plate,licence plate,license plate,number plate",
    "device": "device,serial,imei,mac,mac address,udi,serial number,device id,implant",
    "url": "url,website,homepage,web page,link,uri",
    "ip": "ip,ip address",
    "biometric": "biometric,fingerprint,retina,iris scan,voiceprint,faceprint,palm print",
    "photo": "photo,photograph,picture,portrait,image,face",
    "other": "id,ids,uuid,guid,user id,username,login,barcode,subject id,study id,person id",
}
"""Words of a column's name, in order, by kind."""


def _digits(text: str) -> list[int]:
    return [int(character) for character in text if character.isdigit()]


def _luhn(text: str) -> bool:
    doubled = [digit * 2 if at % 2 else digit for at, digit in enumerate(reversed(_digits(text)))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _card(text: str) -> bool:
    digits = "".join(map(str, _digits(text)))
    return (len(digits) != 15 or digits[:2] in ("34", "37")) and _luhn(digits)


def _imei(text: str) -> bool:
    return text[:2] not in ("34", "37") and _luhn(text)


def _iban(text: str) -> bool:
    compact = text.replace(" ", "").upper()
    return int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % 97 == 1


def _dea(text: str) -> bool:
    digits = _digits(text)
    return (sum(digits[0:6:2]) + 2 * sum(digits[1:6:2])) % 10 == digits[6]


def _vin(text: str) -> bool:
    values = dict(zip("0123456789ABCDEFGHJKLMNPRSTUVWXYZ", map(int, "012345678912345678123457923456789"), strict=True))
    weights = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)
    rest = sum(values[letter] * weight for letter, weight in zip(text.upper(), weights, strict=True)) % 11
    return text[8].upper() == ("X" if rest == 10 else str(rest))


def _ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Pattern:
    """How values of a kind look.

    Parameters
    ----------
    kind : str
    regex : str
    least : float
        Share of the records with a value that must look so.
    holds : callable, optional
        A check of what the expression matched, such as a check digit.
    named : bool
        Counts only under a name of the kind: too many harmless values look so.
    unique : bool
        Counts only where nearly every record has a unique value.
    """

    kind: str
    regex: str
    least: float
    holds: Callable[[str], bool] | None = None
    named: bool = False
    unique: bool = False


_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_WAY = "(street|st|avenue|ave|road|rd|lane|ln|drive|dr|boulevard|blvd|court|ct|way|place|pl|strasse|straße)"
_MBI = "[1-9][AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-?[AC-HJKMNP-RT-Y][AC-HJKMNP-RT-Y0-9][0-9]-?[AC-HJKMNP-RT-Y]{2}"

PATTERNS: tuple[Pattern, ...] = (
    # Found inside longer texts too: one in a remark is enough to reveal who it is about.
    Pattern("email", r"(?i)[a-z0-9._%+-]+@[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}", 0),
    Pattern("url", r"(?i)\b(https?|ftp)://\S+|^www\.[a-z0-9-]+\.\S+", 0),
    Pattern("ssn", r"(^|[^0-9-])[0-8][0-9]{2}-[0-9]{2}-[0-9]{4}($|[^0-9-])", 0),
    Pattern("ssn", r"^[0-8][0-9]{8}$", 0.5, named=True),
    Pattern(
        "phone", r"^(\+?1[ .-]?)?(\([0-9]{3}\) ?|[0-9]{3}[ .-])[0-9]{3}[ .-][0-9]{4}( ?(x|ext\.?) ?[0-9]+)?$", 0.02
    ),
    Pattern("phone", r"^\+[1-9][0-9]{0,2}[ ./()-]?([0-9][ ./()-]{0,2}){6,14}$", 0.02),
    Pattern("phone", r"^\+?[0-9]{7,15}$", 0.5, named=True),
    Pattern("ip", r"^([0-9]{1,3}\.){3}[0-9]{1,3}$|^[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*$", 0.02, _ip),
    Pattern("date", r"^[12][0-9]{3}[-/.][01]?[0-9][-/.][0-3]?[0-9]([ T].*)?$", 0.02),
    Pattern("date", r"^[0-3]?[0-9][-/.][0-3]?[0-9][-/.][12][0-9]{3}( .*)?$|^[0-3]?[0-9]/[0-3]?[0-9]/[0-9]{2}$", 0.02),
    Pattern("date", rf"(?i)^[0-3]?[0-9][ .-]+{_MONTH}[ ,.-]+[0-9]{{2,4}}$|^{_MONTH} [0-3]?[0-9],? [0-9]{{4}}$", 0.02),
    Pattern("date", r"^(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$", 0.95),
    Pattern("geographic", r"^[0-9]{5}-[0-9]{4}$", 0.02),
    Pattern("geographic", r"^[0-9]{5}$", 0.5, named=True),
    Pattern("geographic", r"^([A-Z]{1,2}[0-9][A-Z0-9]? ?[0-9][A-Z]{2}|[A-Z][0-9][A-Z] ?[0-9][A-Z][0-9])$", 0.5),
    Pattern("geographic", rf"(?i)^[0-9]+[a-z]? .*\b{_WAY}\b|\b{_WAY}\.? [0-9]+[a-z]?$", 0.02),
    Pattern("name", r"^(Dr|Mr|Mrs|Ms|Prof)\.? \p{Lu}", 0.02),
    Pattern("name", r"^\p{Lu}[\p{L}'-]+,? (\p{Lu}\.? )?\p{Lu}[\p{L}'-]+$", 0.8, unique=True),
    Pattern("medical_record", r"(?i)^(mrn|mr|pat|pid)[-#: ]?[0-9]{4,}$", 0.02),
    Pattern("medical_record", r"^[0-9A-Za-z-]{5,}$", 0.5, named=True, unique=True),
    Pattern("health_plan", rf"^{_MBI}[0-9]{{2}}$|^{_MBI}-?[0-9]{{2}}$", 0.02),
    Pattern("account", r"(?i)^[a-z]{2}[0-9]{2}( ?[a-z0-9]{4}){2,7}( ?[a-z0-9]{1,4})?$", 0.02, _iban),
    Pattern("account", r"^[3-6][0-9]{3}([ -]?[0-9]{4}){3}$|^3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}$", 0.5, _card),
    Pattern("licence", r"^[A-Z]{2}[0-9]{7}$", 0.5, _dea),
    Pattern("vehicle", r"(?i)^[a-hj-npr-z0-9]{8}[0-9x][a-hj-npr-z0-9]{8}$", 0.5, _vin),
    Pattern("device", r"(?i)^([0-9a-f]{2}[:-]){5}[0-9a-f]{2}$", 0.02),
    Pattern("device", r"^[0-9]{15}$", 0.5, _imei),
    Pattern("biometric", r"(?i)\.(wsq|an2|eft|fmr|iso19794)$", 0.02),
    Pattern("photo", r"(?i)\.(jpe?g|png|heic|tiff?|bmp)$|^data:image/", 0.02),
    Pattern("other", r"(?i)^\{?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?$", 0.02),
    Pattern("other", r"^[A-Za-z]{1,4}[-_]?[0-9]{4,}$", 0.95, unique=True),
)


NEARLY_ALL = 0.95
FEW_RECORDS = 20
OLDEST_SHOWN = 89
OLDEST = 130
PHRASES = sorted(
    ((phrase, kind) for kind, phrases in NAMES.items() for phrase in phrases.split(",")),
    key=lambda pair: -len(pair[0].split()),
)


@dataclass(frozen=True)
class Finding:
    """A kind of identifier that a column seems to hold; no value of it.

    Parameters
    ----------
    column : str
    kind : str
        A key of `KINDS`.
    by : {"name", "value", "both"}
        What gave it away.
    share : float
        Records whose value looks like it, of those with a value; 0 where only the name suggests it.
    """

    column: str
    kind: str
    by: Literal["name", "value", "both"]
    share: float = 0.0

    @property
    def coarsens(self) -> bool:
        """Whether values of the kind can be made coarser instead of being removed."""
        return self.kind in QUASI_KINDS

    def __str__(self) -> str:
        """One clause for a comment.

        Examples
        --------
        >>> str(Finding("contact", "email", "value", 0.004)), str(Finding("city", "geographic", "name"))
        ('e-mail addresses (under 1 % of values)', 'geographic subdivisions smaller than a state (by its name)')
        """
        seen = f"{self.share:.0%} of values".replace("%", " %") if self.share >= 0.01 else "under 1 % of values"
        return f"{KINDS[self.kind]} ({'by its name' if self.by == 'name' else seen})"


def safe_harbor(data: Any, *, engine: str | Engine = "embedded") -> list[Finding]:
    """What a table holds of the 18 kinds of 45 CFR 164.514(b)(2), to help with choosing roles.

    It looks at column names and at the distinct values of each column, on the driver. A column in which nothing was
    found may identify all the same.

    Parameters
    ----------
    data : path or frame
    engine : {"embedded", "dask", "spark"} or Engine
        Counts the values; one that is given stays open.

    Returns
    -------
    list of Finding
        In column order, then in the order of the rule.

    Examples
    --------
    >>> import pyarrow as pa
    >>> frame = pa.table({"contact": ["a@example.org", "call back"], "age": [93, 40], "city": ["Ulm", "Bonn"]})
    >>> for finding in safe_harbor(frame):
    ...     print(finding.column, finding.kind, finding.by, finding.share)
    contact email value 0.5
    age date value 0.5
    city geographic name 0.0
    """
    from privpipe.engines import Source, open_engine
    from privpipe.engines.base.frames import at_hand

    data = at_hand(data, "safe_harbor")
    with open_engine(engine) if isinstance(engine, str) else nullcontext(engine) as running:
        return kinds_in_table(running, running.scan(data if isinstance(data, Source) else Source(data=data)))


def kinds_in_table(engine: Engine, table: Any) -> list[Finding]:
    """What the columns of an engine's table seem to hold, in their order."""
    from privpipe.blocks import FactsRequest

    found: list[Finding] = []
    for name in table.schema.names:
        histogram = engine.facts(table, FactsRequest(histograms=(name,))).histograms[name]
        found += kinds_in_column(name, histogram)
    return found


def kinds_in_column(name: str, histogram: Histogram) -> list[Finding]:
    """What one column seems to hold, of its name and its distinct values with their counts.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from privpipe.blocks import Histogram
    >>> kinds_in_column("ip", Histogram(pa.array(["10.0.0.1", None]), np.array([3, 1])))
    [Finding(column='ip', kind='ip', by='both', share=1.0)]
    """
    words = _words(name)
    named = kinds_of_name(name)
    shares = _shares(named, histogram, is_age="age" in words or "ages" in words)
    if "fax" in named and "phone" in shares:  # the numbers look the same
        shares["fax"] = shares.pop("phone")
    return [
        Finding(name, kind, "both" if kind in named and share else "value" if share else "name", share)
        for kind in KINDS
        if kind in named or kind in shares
        for share in (shares.get(kind, 0.0),)
    ]


def kinds_of_name(name: str) -> set[str]:
    """Kinds that a column name refers to; the longest phrase wins.

    Examples
    --------
    >>> kinds_of_name("ip_address"), kinds_of_name("DateOfBirth"), kinds_of_name("birth_year"), kinds_of_name("age")
    ({'ip'}, {'date'}, set(), set())
    """
    words = _words(name)
    if words == ["name"]:
        return {"name"}
    left, found = f" {' '.join(words)} ", set()
    for phrase, kind in PHRASES:
        if f" {phrase} " in left:
            left = left.replace(f" {phrase} ", " | ")
            found.add(kind)
    if "year" in words:
        found.discard("date")
    return found


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _shares(named: set[str], histogram: Histogram, *, is_age: bool) -> dict[str, float]:
    """Share of the records with a value that look like each kind, where enough do."""
    import pyarrow as pa

    present = histogram.values.is_valid().to_numpy(zero_copy_only=False)
    values, counts = histogram.values.filter(pa.array(present)), histogram.counts[present]
    records = int(counts.sum())
    if not records:
        return {}
    if pa.types.is_date(values.type) or pa.types.is_timestamp(values.type):
        return {"date": 1.0}
    unique = len(counts) >= NEARLY_ALL * records and records >= FEW_RECORDS
    found: dict[str, float] = {}
    for pattern, matched in _matches(named, _texts(values), unique=unique):
        share = int(counts[matched].sum()) / records
        if share > 0 and share >= pattern.least:
            found[pattern.kind] = max(share, found.get(pattern.kind, 0.0))
    if len(found) > 1 and "other" not in named:  # the rest of the list: only what is nothing else
        found.pop("other", None)
    if is_age and (old := int(counts[_over_89(values)].sum())):
        found["date"] = old / records
    return found


def _texts(values: pa.Array) -> pa.Array | None:
    """Texts and integers as trimmed text; nothing for what no pattern covers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    return None


def _matches(named: set[str], texts: pa.Array | None, *, unique: bool) -> Iterator[tuple[Pattern, Bools]]:
    """Which values look like each pattern that applies."""
    import pyarrow.compute as pc

    if texts is None:
        return
    for pattern in PATTERNS:
        if (pattern.unique and not unique) or (pattern.named and pattern.kind not in named):
            continue
        matched = pc.match_substring_regex(texts, pattern.regex).to_numpy(zero_copy_only=False)
        if pattern.holds is not None:
            for at in np.flatnonzero(matched).tolist():
                matched[at] = pattern.holds(texts[at].as_py())
        yield pattern, matched


def _over_89(values: pa.Array) -> Bools:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    looks = pc.match_substring_regex(texts, r"^[0-9]{2,3}(\.0*)?$").to_numpy(zero_copy_only=False)
    ages = np.array([float(text.as_py()) if fits else 0.0 for text, fits in zip(texts, looks, strict=True)])
    return (ages > OLDEST_SHOWN) & (ages <= OLDEST)
