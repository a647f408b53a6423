"""Entries that compare two tables, given tables that have nothing in common: none of them may pass."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Guarantee, Verdict
from privpipe.draws import Seed, Stream
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import PrivpipeError
from privpipe.judging import JudgingRules, assess
from privpipe.judging.gate import Gate
from privpipe.judging.verdicts import compares_tables
from privpipe.roles import Roles
from privpipe.testing.people import people
from privpipe.testing.stages import keys_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NOTHING_IN_COMMON", "comparison_problems"]

RECORD_ID = "__record"
TEXTS, NUMBERS = ("age", "zip", "town", "sex"), ("age", "income", "weight")
"""Quasi-identifiers of the two settings: texts, the number among them written as text, and numbers."""


def _relabelled(rows: pa.Table, share: int) -> pa.Table:
    """Of five values `share` replaced by labels that nothing explains."""
    import pyarrow as pa

    labels = [f"group {at % 4}" for at in range(rows.num_rows)]
    columns = {}
    for name in rows.column_names:
        own = rows[name].to_pylist()
        columns[name] = pa.array([labels[at] if at % 5 < share else own[at] for at in range(rows.num_rows)])
    return pa.table(columns)


def _blanked(rows: pa.Table, share: int) -> pa.Table:
    """Of five values `share` missing."""
    import pyarrow as pa

    missing = np.arange(rows.num_rows) % 5 < share
    columns = {name: pa.array(rows[name].to_pylist(), rows[name].type, mask=missing) for name in rows.column_names}
    return pa.table(columns)


@dataclass(frozen=True, kw_only=True)
class Strange:
    """An original, the columns that are compared by, and a release that has nothing to be compared by.

    Parameters
    ----------
    keys : tuple of str
        Quasi-identifiers.
    texts : bool
        Whether the original holds all values as texts.
    made : callable
        Makes the release.
    others : bool
        Whether the release is of other records: no id of it is in the original.
    """

    keys: tuple[str, ...]
    made: Callable[[pa.Table], pa.Table]
    texts: bool = False
    others: bool = False


NOTHING_IN_COMMON: Mapping[str, Strange] = {
    "labels that mean nothing": Strange(keys=TEXTS, texts=True, made=partial(_relabelled, share=5)),
    "labels of which most mean nothing": Strange(keys=TEXTS, texts=True, made=partial(_relabelled, share=3)),
    "texts that are missing": Strange(keys=TEXTS, texts=True, made=partial(_blanked, share=5)),
    "numbers that are missing": Strange(keys=NUMBERS, made=partial(_blanked, share=5)),
    "numbers of which most are missing": Strange(keys=NUMBERS, made=partial(_blanked, share=3)),
    "other records": Strange(keys=TEXTS, texts=True, made=partial(_relabelled, share=5), others=True),
}
"""Releases that have nothing, or less than half, in common with what they are compared with."""


def comparison_problems(
    entry: Guarantee, engine: Engine | str = "embedded", *, releases: Sequence[str] = tuple(NOTHING_IN_COMMON)
) -> list[str]:
    """What an entry that compares two tables says over releases that it cannot compare, one line for each pass.

    The original is the population, the holdout and the earlier release as well. An error of the package is as good as
    an ERROR verdict. An entry that has no ERROR verdict over any of them says so: it was refused each time, and nothing
    is known of its figure.

    Parameters
    ----------
    entry : Guarantee
        One that compares the release with another table; other entries have nothing to compare.
    engine : Engine or str
    releases : sequence of str
        Of `NOTHING_IN_COMMON`.

    Examples
    --------
    >>> from privpipe.measures import CorrectAttribution
    >>> comparison_problems(CorrectAttribution(column="illness", columns=["age"], at_most=1.0))
    []
    """
    if isinstance(engine, str):
        with open_engine(engine) as opened:
            return comparison_problems(entry, opened, releases=releases)
    if not compares_tables(entry):
        raise ValueError(f"{entry.name()} judges one table and compares it with no other")
    verdicts: dict[str, Verdict | PrivpipeError] = {}
    with tempfile.TemporaryDirectory() as folder, keys_of(entry):
        for name in releases:
            verdicts[name] = _verdict(entry, engine, NOTHING_IN_COMMON[name], Path(folder))
    judged = {name: found for name, found in verdicts.items() if isinstance(found, Verdict)}
    problems = [f"{entry!r} passes over {name}: {found.reason}" for name, found in judged.items() if found.passed]
    if not judged and not entry.needs_population:  # a count with a population is refused as a whole
        problems.append(f"{entry!r} is refused over each: {next(iter(verdicts.values()))}")
    return problems


def _verdict(entry: Guarantee, engine: Engine, strange: Strange, folder: Path) -> Verdict | PrivpipeError:
    import pyarrow as pa

    rows = people().rows.drop_columns(["name", "born"])
    if strange.texts:
        rows = pa.table({name: rows[name].cast(pa.string()) for name in rows.column_names})
    released = strange.made(rows)
    names, seed = tuple(rows.column_names), Seed(bytes(16))
    tables = []
    for table, prefix in ((rows, ""), (released, "other " if strange.others else "")):
        ids = pa.array([f"{prefix}{at:03d}" for at in range(rows.num_rows)])
        tables.append(
            engine.with_record_ids(engine.scan(Source(data=table.append_column(RECORD_ID, ids))), RECORD_ID, seed)
        )
    rules = JudgingRules(order=Stream(bytes(16)), household="household", released=names, gate=Gate(columns=names))
    roles = Roles(
        quasi_identifiers=strange.keys,
        sensitive=("illness",),
        insensitive=tuple(name for name in names if name not in (*strange.keys, "illness")),
    )
    try:
        found = assess(
            engine,
            tables[1],
            guarantees=[_placed(entry, rows, folder)],
            roles=roles,
            rules=rules,
            original=tables[0],
            population=engine.scan(Source(data=rows)),
        )
    except PrivpipeError as error:
        return error
    return found.verdicts[-1]


def _placed(entry: Guarantee, rows: pa.Table, folder: Path) -> Guarantee:
    """The entry with the records of the original in every table that it names, each in a file of its name."""
    import pyarrow.parquet as pq

    named: dict[str, Any] = {}
    for name, value in vars(entry).items():
        if isinstance(value, str) and value.endswith(".csv"):
            named[name] = str(folder / f"{name}.parquet")
    if getattr(entry, "earlier", ()):
        named["earlier"] = (str(folder / "earlier.parquet"),)
    for place in named.values():
        pq.write_table(rows, place if isinstance(place, str) else place[0])
    return replace(entry, **named)
