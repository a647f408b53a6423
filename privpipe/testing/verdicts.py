"""What must hold for every entry that judges.

The same verdict however the tables are arranged, and no pass over tables that have nothing in common.
"""

from __future__ import annotations

import tempfile
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks import Guarantee, Verdict
from privpipe.draws import Seed, Stream
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import PrivpipeError
from privpipe.judging import JudgingRules, assess
from privpipe.judging.assessment import compares_tables
from privpipe.judging.rules import Gate
from privpipe.policy import Policy
from privpipe.roles import Roles
from privpipe.running.attached_source import attach
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages
from privpipe.testing.people import COLUMNS, People, few_classes, people
from privpipe.testing.stages import PARTITIONS, SEEDS, keys_of, written_in_parts

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NOTHING_IN_COMMON", "SETTINGS", "Judging", "Setting", "comparison_problems", "verdict_problems"]


NUMBERS: Mapping[str, Mapping[str, Any]] = {
    name: {"role": "quasi_identifier"} if name in ("age", "income") else {"role": "insensitive"}
    for name in ("age", "income", "zip", "weight")
} | {name: COLUMNS[name] for name in ("name", "household", "illness")}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A table, and the stages that make the release of it which is judged.

    Parameters
    ----------
    table : callable
        Makes the `People`.
    stages : tuple of mapping
        The policy's `transform:`.
    population : bool
        Whether the records are a sample of a population that is at hand.
    """

    table: Callable[[], People]
    stages: tuple[Mapping[str, Any], ...]
    population: bool = False


def _numbers() -> People:
    rows = people(80, seed=8).rows
    return People(rows=rows.select(list(NUMBERS)), columns=NUMBERS)


def _one_number() -> People:
    table = _numbers()
    return replace(table, columns={**NUMBERS, "income": {"role": "insensitive"}})


def _families() -> People:
    table = people(240, seed=3)
    columns = {**COLUMNS, "household": {"role": "identifier"}}
    # The key stays with the run as far as the policy asks for households.
    asked = ({"k_anonymity": {"k": 2, "over": "households"}}, *table.guarantees[1:])
    return replace(table, columns=columns, guarantees=asked, settings={"household_id": "household"})


SWAP = {"rank_swap": {"columns": ["income"], "p": 0.2}}
SETTINGS: Mapping[str, Setting] = {
    "labels": Setting(
        table=people, stages=(SWAP, {"generalize": {"levels": {"age": 2, "zip": 2, "town": 1}}}), population=True
    ),
    "numbers": Setting(table=_numbers, stages=({"rank_swap": {"columns": ["age", "income"], "p": 0.2}},)),
    "one number": Setting(table=_one_number, stages=({"add_noise": {"columns": ["age"], "variance_ratio": 0.1}},)),
    "households": Setting(table=_families, stages=({"generalize": {"levels": {"zip": 2, "age": 3, "town": 1}}},)),
    "a private process": Setting(table=few_classes, stages=({"safepub": {"epsilon": 1.0, "delta": 0.001}},)),
}
"""An entry is tried on the first of these in which it has a figure."""


@dataclass
class Judging:
    """Releases made once for each engine and each way of dealing out the rows, judged by any entry.

    Parameters
    ----------
    folder : Path
        Where the tables are; also those that parameters of examples name (``others.csv``, ``census.csv``).
    settings : mapping of name to Setting
    """

    folder: Path
    settings: Mapping[str, Setting] = field(default_factory=lambda: SETTINGS)
    _released: dict[tuple[str, str, int], Any] = field(default_factory=dict, repr=False)
    _first: dict[tuple[str, str], tuple[str, Verdict]] = field(default_factory=dict, repr=False)

    def judged(self, entries: Sequence[Guarantee], engine: Engine, setting: str, parts: int = 0) -> list[Verdict]:
        """The verdicts of some entries over a release of a setting.

        Parameters
        ----------
        parts : int
            Files among which rows and population are dealt out in a shuffled order; 0: unchanged.

        Raises
        ------
        PrivpipeError
            The setting does not serve an entry.
        """
        key = (engine.name, setting, parts)
        if key not in self._released:
            self._released[key] = self._release(engine, setting, parts)
        staged = self._released[key]
        released = tuple(staged.table.schema.names)
        found = assess(
            engine,
            staged.table if staged.counted is None else staged.counted,
            guarantees=(),
            measures=[self._placed(entry) for entry in entries],
            roles=staged.roles,
            rules=replace(
                staged.rules,
                stages=tuple(staged.plan.to_dict()["stages"]),
                order=Stream(bytes(16)),
                released=released,
                gate=replace(staged.rules.gate, columns=released),
            ),
            original=staged.original,
            released=staged.table,
            population=staged.population,
        )
        return list(found.measures)

    def first(self, entry: Guarantee, engine: Engine) -> tuple[str, Verdict]:
        """The setting in which the entry has a figure, or else a verdict, and that verdict.

        Raises
        ------
        LookupError
            No setting serves it.
        """
        key = (engine.name, repr(entry))
        if key not in self._first:
            self._first[key] = self._first_of(entry, engine)
        return self._first[key]

    def _first_of(self, entry: Guarantee, engine: Engine) -> tuple[str, Verdict]:
        refusals: list[str] = []
        without: list[tuple[str, Verdict]] = []
        for name in self.settings:
            try:
                (verdict,) = self.judged([entry], engine, name)
            except PrivpipeError as error:
                refusals.append(f"{name}: {type(error).__name__}: {error}")
                continue
            if _has_figure(verdict):
                return name, verdict
            without.append((name, verdict))
        if without:
            return without[0]
        raise LookupError(f"no setting serves {entry!r}: " + "; ".join(refusals))

    def _release(self, engine: Engine, setting: str, parts: int) -> Any:
        made = self.settings[setting]
        table = made.table()
        seed = self.folder / "seed"
        if not seed.exists():
            seed.touch(mode=0o600)
            seed.write_text(SEEDS[0], encoding="utf-8")
        document = {**table.document, "transform": list(made.stages), "seed": {"from_file": str(seed)}}
        policy = Policy.from_dict(document, base_dir=self.folder)
        secret = policy.seed.resolve()  # type: ignore[union-attr]
        context = RunContext(engine, policy, secret)
        original = attach(context, self._source(table.rows, setting, parts, policy))
        population = None
        if made.population:
            population = engine.scan(self._source(_population(table), f"population of {setting}", parts, policy))
        return run_stages(context, original, population=population)

    def _source(self, rows: Any, name: str, parts: int, policy: Policy) -> Source:
        if not parts:
            return Source(data=rows, types=policy.types)
        return Source(data=str(written_in_parts(rows, self.folder / f"{name}-{parts}", parts)), types=policy.types)

    def _placed(self, entry: Guarantee) -> Guarantee:
        """The entry with the tables that its examples name where they are."""
        import pyarrow.csv

        named = {name: value for name, value in vars(entry).items() if isinstance(value, str) and value[-4:] == ".csv"}
        for value in named.values():
            if not (self.folder / value).exists():
                pyarrow.csv.write_csv(people(90, seed=11).rows, self.folder / value)
        places: dict[str, Any] = {name: str(self.folder / value) for name, value in named.items()}
        return replace(entry, **places)


def verdict_problems(
    entry: Guarantee,
    engine: Engine | str = "embedded",
    *,
    partitions: Sequence[int] = PARTITIONS,
    judging: Judging | None = None,
) -> list[str]:
    """What is wrong with a model or measure that judges a release, one line per fault; empty when it conforms.

    The release of a small table is judged together with its original, its population and its process, the rows dealt
    out to several files in another order each time; verdicts are compared to the last bit.

    Parameters
    ----------
    entry : Guarantee
    engine : Engine or str
    partitions : sequence of int
    judging : Judging, optional
        Keeps releases from entry to entry.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from privpipe.measures import RecordLinkage
    >>> verdict_problems(RecordLinkage(at_most=0.5, columns=["income"]), partitions=[3])
    []
    """
    if isinstance(engine, str):
        with open_engine(engine) as opened:
            return verdict_problems(entry, opened, partitions=partitions, judging=judging)
    if judging is None:
        with tempfile.TemporaryDirectory() as folder:
            return verdict_problems(entry, engine, partitions=partitions, judging=Judging(Path(folder)))
    with keys_of(entry):
        try:
            setting, first = judging.first(entry, engine)
        except LookupError as error:
            return [str(error)]
        problems = [] if _has_figure(first) else [f"no setting has a figure for it: {first.reason}"]
        if not is_of(first.observed, entry.observes):
            problems.append(f"it observes {type(first.observed).__name__}, but declares {entry.observes}")
        for parts in partitions:
            (found,) = judging.judged([entry], engine, setting, parts)
            problems += [
                f"{fault} in {parts} partitions and another order" for fault in verdict_differences(first, found)
            ]
    return problems


def verdict_differences(one: Verdict, other: Verdict) -> list[str]:
    """What two verdicts say otherwise, to the last bit."""
    first, second = one.to_dict(), other.to_dict()
    return [f"{name} differs" for name in first if repr(first[name]) != repr(second[name])]


def is_of(figure: Any, declared: Any) -> bool:
    """Whether a figure is of the type that an entry declares; none at all is of any.

    Examples
    --------
    >>> is_of(2, float), is_of(0.5, int), is_of({"k": 2}, dict[str, float])
    (True, False, True)
    """
    if figure is None or declared is Any:
        return True
    if isinstance(declared, types.UnionType):
        return any(is_of(figure, each) for each in typing.get_args(declared))
    if typing.get_origin(declared) is dict:
        _, values = typing.get_args(declared)
        return isinstance(figure, dict) and all(
            values is Any or (value is not None and is_of(value, values)) for value in figure.values()
        )
    return isinstance(figure, (int, float) if declared is float else declared)


def _has_figure(verdict: Verdict) -> bool:
    return verdict.observed is not None and verdict.outcome != "error"


def _population(table: People) -> Any:
    import pyarrow as pa

    return pa.concat_tables([table.rows, people(300, seed=9).rows])


RECORD_ID = "__record"
TEXTS, NUMERIC_COLUMNS = ("age", "zip", "town", "sex"), ("age", "income", "weight")
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
    "numbers that are missing": Strange(keys=NUMERIC_COLUMNS, made=partial(_blanked, share=5)),
    "numbers of which most are missing": Strange(keys=NUMERIC_COLUMNS, made=partial(_blanked, share=3)),
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
