"""Find what HIPAA Safe Harbor would have removed: 18 kinds of identifiers, by column name and by value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.reporting.safe_harbor_kinds import KINDS, NAMES, PATTERNS, QUASI_KINDS, Pattern

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.blocks import Histogram
    from privpipe.engines import Engine

__all__ = ["Finding", "kinds_in_column", "kinds_in_table", "safe_harbor"]

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
        Records whose value looks like it, of those with a value; 0 where only the name speaks for it.
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
    """Kinds that a column name speaks of; the longest phrase wins.

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
    """Texts and integers as trimmed text; nothing for what no pattern speaks of."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    return None


def _matches(named: set[str], texts: pa.Array | None, *, unique: bool) -> Iterator[tuple[Pattern, NDArray[np.bool_]]]:
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


def _over_89(values: pa.Array) -> NDArray[np.bool_]:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
    looks = pc.match_substring_regex(texts, r"^[0-9]{2,3}(\.0*)?$").to_numpy(zero_copy_only=False)
    ages = np.array([float(text.as_py()) if fits else 0.0 for text, fits in zip(texts, looks, strict=True)])
    return (ages > OLDEST_SHOWN) & (ages <= OLDEST)
