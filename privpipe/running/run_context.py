"""What every step of a run works with: engine, policy, seed, rules for values, and tables, each read at one version."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import privpipe
from privpipe import plugins
from privpipe.blocks.marks import FilePath
from privpipe.blocks.parameters import marked, parameters_of
from privpipe.draws import Seed
from privpipe.engines import Engine, Source, engine_for, open_engine
from privpipe.engines.base import format_said
from privpipe.engines.base.frames import is_connection
from privpipe.engines.base.logical_types import CARRIED
from privpipe.engines.lakes import is_lake, pinned
from privpipe.engines.readers.files import elsewhere, left_out, left_out_note
from privpipe.engines.readers.text_forms import TextForm
from privpipe.engines.readers.unjudged_content import unjudged_files, unjudged_note
from privpipe.engines.stores import refuse_credentials
from privpipe.errors import DataError, PrivpipeError, UsageError, did_you_mean
from privpipe.judging import JudgingRules
from privpipe.judging.rules import Gate
from privpipe.models.attribute.base_distribution import BaseFile
from privpipe.policy import Policy
from privpipe.policy.specs import KEEPS_KEYS, SourceSpec, located, suppresses
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.blocks import Histogram

__all__ = [
    "WHOLE_COURSE",
    "Course",
    "OpenedEngine",
    "RunContext",
    "compared_columns",
    "finished_population",
    "finished_source",
    "is_path",
    "judging_rules",
    "left_out_notes",
    "named",
    "no_progress",
    "pinned_tables",
    "population_beside",
    "raw_population",
    "read_as_source",
    "require_there",
    "run_columns",
    "scanned",
    "seed_of",
    "source_of",
    "unjudged_notes",
    "untyped_columns",
    "versions_at_work",
    "versions_read",
    "withholds_counts",
    "without_others",
]


Progress = Callable[[str], None]


def no_progress(step: str) -> None:
    """Receives a step and ignores it."""


def seed_of(policy: Policy) -> Seed:
    """The policy's seed; one drawn by the system if it names none."""
    return policy.seed.resolve() if policy.seed else Seed.from_os()


@dataclass(frozen=True)
class RunContext:
    """The engine, the policy and the seed of a run.

    Parameters
    ----------
    engine : Engine
    policy : Policy
    seed : Seed
    progress : callable, optional
        Receives the name of each step, from `privpipe.progress.watched`; an exception from it ends the run.
    releases : bool
        Whether identifiers go, as from every release; a stage over a frame leaves those that it is not about.
    carried : tuple of str
        Columns that stay next to the released ones until the release is judged: keys of related tables.
    """

    engine: Engine
    policy: Policy
    seed: Seed = field(repr=False)
    progress: Progress = field(default=no_progress, repr=False)
    releases: bool = True
    carried: tuple[str, ...] = ()

    @property
    def generalized_population(self) -> bool:
        """Whether the policy's population is generalized as the release is."""
        return self.policy.population is not None and self.policy.population.generalized


@dataclass(frozen=True, kw_only=True)
class Course:
    """Where a run begins and ends.

    Parameters
    ----------
    dry_run : bool
        Up to publishing, in a place that is gone afterwards.
    resume : str, optional
        A run that waited for its sign-off is published, byte for byte.
    batch : str, optional
        What the sink's chain of releases has under this key is not published again.
    """

    dry_run: bool = False
    resume: str | None = None
    batch: str | None = None


WHOLE_COURSE = Course()


def withholds_counts(policy: Policy) -> bool:
    """Whether a model or a stage of the policy forbids counts of the source; their number may be a hidden cell."""
    return policy.tables is not None or any(entry.forbids_counts for entry in (*policy.entries, *policy.transform))


def judging_rules(policy: Policy, base: dict[str, Histogram] | None = None) -> JudgingRules:
    """The policy's rules for reading values; records that are drawn from a model are of no person."""
    refused = [name for name, column in policy.columns.items() if column.nulls == "refuse"]
    return JudgingRules(
        nulls=policy.nulls,
        refuse_nulls=tuple(refused),
        wildcard=policy.wildcard,
        person=None if policy.draws_records else policy.person_id,
        household=None if policy.draws_records else policy.household_id,
        mark=policy.suppression_mark,
        base=base or {},
        hierarchies=policy.hierarchies,
        versions=policy.versions,
        empty=policy.empty,
        gate=Gate(
            undeclared="note" if policy.undeclared == "note" else "refuse",
            metadata=policy.metadata,
            notes=True,
            pseudonyms=policy.pseudonyms,
        ),
    )


def versions_at_work(engine: Engine, policy: Policy) -> dict[str, str]:
    """Versions of this package, of the engine's libraries, and of the distributions whose plug-ins are in use."""
    builders = [spec.builder for spec in policy.hierarchies.values()]
    used = (engine, *policy.transform, *policy.guarantees, *policy.measures, *builders)
    return {
        "privpipe": privpipe.__version__,
        "python": platform.python_version(),
        **plugins.versions_of(used),
        **engine.resources.versions,
    }


def is_path(data: Any) -> bool:
    """Whether data is in files, or is given as a `Source`; None is the policy's own source.

    Examples
    --------
    >>> is_path("adult.csv"), is_path([])
    (True, False)
    """
    return data is None or isinstance(data, str | PurePath | Source)


class OpenedEngine:
    """The requested engine: a given one stays open, a named one is opened and closed.

    A DuckDB connection represents the embedded engine under its limits: frames and tables are read through it, and the
    work is done in a database of our own, so that nothing of the caller's changes.

    Parameters
    ----------
    engine : str, Engine or DuckDB connection, optional
    data : path or frame
        States which engine is native, where none is requested.
    policy : Policy
        Gives the engine of paths, and the options of each.
    holds : bool
        Whether lazy frames are evaluated once for all that reads them, and released at the end. What a caller gets
        back must not be computed from them then.
    """

    def __init__(self, engine: Any, data: Any, policy: Policy, *, holds: bool = True) -> None:
        self._holds = holds
        self._connection = engine if is_connection(engine) else None
        if self._connection is not None:
            self._given, self._name, self._place = None, "embedded", ""
            self._options: Mapping[str, Any] = _limits(engine)
            return
        if not (engine is None or isinstance(engine, str | Engine)):
            raise UsageError(f"engine: give a name, an engine or a DuckDB connection, not {type(engine).__name__}")
        self._given = engine if isinstance(engine, Engine) else None
        name = engine if isinstance(engine, str) else None
        if name is None:
            name = policy.engine if is_path(data) or data is policy else engine_for(data)
        self._name, self._options = name, policy.engines.get(name, {})
        self._place = policy.located(f"engines.{name}") if self._options else ""

    def __enter__(self) -> Engine:
        try:
            self._engine = self._given or open_engine(self._name, self._options)
        except UsageError as error:
            raise UsageError(f"{self._place}: {error}" if self._place else str(error)) from None
        if self._connection is not None:
            from privpipe.engines.embedded.engine import EmbeddedEngine

            if isinstance(self._engine, EmbeddedEngine):
                self._engine.connection = self._connection
        self._holding = self._engine.frames.holding() if self._holds else nullcontext()
        self._holding.__enter__()
        return self._engine

    def __exit__(self, *details: object) -> None:
        try:
            self._holding.__exit__(None, None, None)
        finally:
            if self._given is None:
                self._engine.close()


def _limits(connection: Any) -> dict[str, Any]:
    """The limits of a caller's connection, as options of the embedded engine."""
    query = "SELECT current_setting('threads'), current_setting('memory_limit')"
    threads, memory = connection.cursor().execute(query).fetchone()
    return {"threads": int(threads), "memory_limit": str(memory)}


Read = TypeVar("Read")


def scanned(engine: Engine, source: Source) -> Any:
    """The table of a source.

    Raises
    ------
    DataError
        As `Engine.scan`, with the source's own name in front where the message lacks it.
    """
    return named(source, lambda: engine.scan(source))


def named(source: Source, read: Callable[[], Read]) -> Read:
    """What is read from a source; a `DataError` gets the source's name as prefix if its message lacks it."""
    try:
        return read()
    except DataError as error:
        name = PurePath(str(source.data)).name if source.is_path else ""
        if not name or name in str(error):
            raise
        error.args = (f"{name}: {error}",)
        raise


def run_columns(names: Sequence[str], policy: Policy) -> list[str]:
    """The columns of a source that a run reads: without those that the policy does not name, if it drops them."""
    return [name for name in names if policy.undeclared != "drop" or name in policy.columns]


def without_others(engine: Engine, table: Any, policy: Policy) -> Any:
    """The table of a source with only these columns."""
    names = list(table.schema.names)
    kept = run_columns(names, policy)
    return table if kept == names or not kept else engine.select(table, kept)


def left_out_notes(policy: Policy, **sources: Source | None) -> tuple[str, ...]:
    """Files in the folders of sources that are not read, one note per source by its part in the run."""
    if policy.population is not None:
        sources = {**sources, "population": policy.population.to_source({}, policy.base_dir)}
    found = {part: left_out(source) for part, source in sources.items() if source is not None}
    return tuple(f"{part}: {left_out_note(names)}" for part, names in found.items() if names)


def unjudged_notes(source: Source) -> tuple[str, ...]:
    """A note on how many unjudged files readers get with a finished table; none if there are none."""
    found = unjudged_files(source)
    return (unjudged_note(found),) if found else ()


def read_as_source(data: Any, policy: Policy, **said: Any) -> Source:
    """A path is read as the policy's source is (format, delimiter) or as `said` gives it, a frame unchanged.

    What a path shows of itself (its ending, a Delta log) goes before the policy's `format`. A Delta table is read at
    the version that it has now.
    """
    if isinstance(data, Source):
        return replace(data, types=policy.source_types) if is_lake(data) and not data.types else data
    if not isinstance(data, str | PurePath):
        return Source(data=data, types=policy.source_types)
    refuse_credentials(str(data))
    described = policy.source.to_source(policy.source_types, policy.base_dir) if policy.source else None
    if described is None or not described.is_path:
        return pinned(Source(data=str(data), types=policy.source_types, **said))
    if described.format is not None and format_said(str(data)) is None:
        said = {"format": described.format, **said}
    found = Source(data=str(data), types=policy.source_types, **said)
    if found.resolved_format != described.resolved_format:
        return pinned(found)
    if str(data) != described.data and Path(data).absolute() != _own_path(policy):
        described = replace(described, version=None, timestamp=None)  # of another table
    return pinned(replace(described, data=str(data), **said))


def finished_source(data: Any, policy: Policy, **said: Any) -> Source:
    """A table to be judged unchanged: the policy's own sink as it was written, all else as the policy's source is read.

    The policy declares how its own source is written (encoding, decimal sign, footer); any other table is plain UTF-8.
    Only sensitive columns, weights and households keep their declared type: quasi-identifiers may have become labels,
    and a column that no guarantee counts may be gone.
    """
    if isinstance(data, Source) and (data.types or not is_lake(data)):
        return data
    entries = policy.entries
    kept = {*policy.roles.sensitive, *(column for entry in entries for column in entry.record_columns())}
    types = {name: kind for name, kind in policy.source_types.items() if name in kept or kind == CARRIED}
    if isinstance(data, Source):
        return replace(data, types=types)
    if not isinstance(data, str | PurePath):
        return Source(data=data, types=types)
    sink = policy.sink
    if sink is not None and sink.is_folder:
        target = sink.target(policy.base_dir)
        if str(data) == target or Path(data).absolute() == Path(target):
            escaped = sink.escapes_formulas
            own = Source(
                data=str(data),
                quoted_nulls=False,
                escaped_formulas=escaped,
                types=types,
                **{"format": sink.format, **said},
            )
            return pinned(own)
        if not said.get("format") and not format_said(str(data)) and Path(data).is_dir():
            said = {**said, "format": sink.file_format}
    found = read_as_source(data, policy, **said)
    # A footer of the raw files would take records of a finished table from the judgement.
    if Path(data).absolute() != _own_path(policy):
        found = replace(found, form=TextForm(), sheet=None, partitions=())
    return replace(found, types=types)


def _own_path(policy: Policy) -> Path | None:
    """Where the policy's own source is."""
    if policy.source is None or not policy.source.path:
        return None
    return Path(located(policy.source.path, policy.base_dir)).absolute()


def untyped_columns(source: Source, policy: Policy) -> tuple[str, ...]:
    """Columns that the policy declares as no text and a file without types gives as text."""
    if not source.is_path or source.resolved_format != "csv":
        return ()
    return tuple(name for name, kind in policy.types.items() if kind != "text" and name not in source.types)


PARTS = ("source", "original", "population")


def pinned_tables(policy: Policy) -> Policy:
    """The policy with the versions that its Delta and Iceberg tables have now, and the releases; its digest stays."""
    found = {part: _pinned(spec, policy) for part in PARTS if (spec := getattr(policy, part)) is not None}
    changed: dict[str, Any] = {part: spec for part, spec in found.items() if spec is not getattr(policy, part)}
    beside = {path: version for path in _paths_beside(policy).values() if (version := _version(path)) is not None}
    if beside and not policy.versions:
        changed["versions"] = beside
    return policy.replaced(**changed) if changed else policy


def _paths_beside(policy: Policy) -> dict[str, str]:
    """By place, the paths of tables that entries name: base distributions, earlier releases, holdouts."""
    found = {}
    for section in ("guarantees", "measures"):
        for at, entry in enumerate(getattr(policy, section)):
            place = f"{section}[{at}].{entry.name()}"
            base = entry.base_distribution() if entry.needs_base else None
            if isinstance(base, BaseFile):
                found[f"{place}.base"] = base.file
            for name in marked(type(entry), FilePath):
                value = getattr(entry, name)
                for number, path in enumerate(value if isinstance(value, tuple) else ()):
                    found[f"{place}.{name}[{number}]"] = path
                if isinstance(value, str) and value not in parameters_of(type(entry))[name].marked(FilePath).words:
                    found[f"{place}.{name}"] = value
    return found


def _version(path: str) -> int | None:
    """The current version of a Delta table; None for anything else, or if its reader is not installed."""
    try:
        return pinned(Source(data=path)).version
    except PrivpipeError:
        return None  # reported by the scan


def _pinned(spec: SourceSpec, policy: Policy) -> SourceSpec:
    before = spec.to_source({}, policy.base_dir)
    if before.is_path and spec.format == "delta" and "://" in str(before.data) and policy.engine == "spark":
        return spec  # which only its session may reach
    try:
        after = pinned(before)
    except PrivpipeError:
        return spec  # reported by the scan, where this part is read at all
    if after is before:
        return spec
    if spec.iceberg is not None:
        return replace(spec, iceberg=after.data)
    if after.resolved_format != "delta":
        return replace(spec, path=str(after.data), format=after.format)
    return replace(spec, format="delta", version=after.version, timestamp=after.timestamp)


def versions_read(policy: Policy) -> dict[str, Any]:
    """The version of a Delta table or the snapshot of an Iceberg table that each part of a run was read at."""
    found = {}
    for part in PARTS:
        spec = getattr(policy, part)
        if spec is not None and spec.version is not None:
            found[part] = {"version": spec.version}
        elif spec is not None and spec.iceberg is not None:
            found[part] = {"snapshot": spec.iceberg.snapshot}
    for place, path in _paths_beside(policy).items():
        if path in policy.versions:
            found[place] = {"version": policy.versions[path]}
    return found


def compared_columns(policy: Policy) -> tuple[str, ...]:
    """Quasi-identifiers over which some entry compares with the population; empty when none does."""
    asking = [entry for entry in policy.entries if entry.needs_population]
    found: dict[str, None] = {}
    for entry in asking:
        own = entry.quasi_identifiers
        found.update(dict.fromkeys(policy.roles.quasi_identifiers if own is None else own))
    return tuple(found)


def _needed_columns(policy: Policy) -> tuple[str, ...]:
    """Compared columns, and those that stages need to recode a raw population."""
    found = dict.fromkeys(compared_columns(policy))
    if policy.population is not None and not policy.population.generalized:
        for stage in policy.transform:
            own = stage.population_columns(policy.roles, policy.hierarchies, policy.binding)
            found.update(dict.fromkeys(own))
    return tuple(found)


def require_there(engine: Engine, policy: Policy) -> None:
    """Refuse a population whose file cannot be read, even if nothing uses it; one that is not in a file is not checked.

    Raises
    ------
    DataError
        Nothing there, or no table.
    """
    if policy.population is None:
        return
    source = policy.population.to_source({}, policy.base_dir)
    if source.is_path and not elsewhere(str(source.data)):
        scanned(engine, source)


def population_beside(engine: Engine, policy: Policy, table: Any) -> Any:
    """The population's needed columns in the types of a table; None where nothing compares with it.

    Raises
    ------
    DataError
        A column that the population lacks, or that does not convert.
    """
    asking = any(entry.needs_population for entry in policy.entries)
    if policy.population is None or not asking:
        require_there(engine, policy)
        return None
    columns = _needed_columns(policy)
    found = engine.scan(policy.population.to_source({}, policy.base_dir)).schema.names
    for name in columns:
        if name not in found:
            raise DataError(f"column {name!r} is not in the population{did_you_mean(name, found)}")
    # Typed as the table is: a CSV file of numbers would be text, and never match.
    types = {name: column_type_of(table.schema.field(name).type) for name in columns if name in table.schema.names}
    population = engine.scan(policy.population.to_source(types, policy.base_dir))
    return engine.select(population, columns) if columns else population


def raw_population(engine: Engine, policy: Policy, table: Any) -> Any:
    """The population that stages use in addition to the source.

    None where it is generalized already, and where no stage suppresses for a guarantee that compares with it or makes
    labels that cover it.

    Raises
    ------
    DataError
        A column that the population lacks, or that does not convert.
    """
    require_there(engine, policy)
    asking = any(guarantee.needs_population for guarantee in policy.binding)
    counting = any(suppresses(stage) for stage in policy.transform)
    covering = any(
        stage.population_columns(policy.roles, policy.hierarchies, policy.binding) for stage in policy.transform
    )
    generalized = policy.population is not None and policy.population.generalized
    wanted = (asking and counting) or covering
    return population_beside(engine, policy, table) if wanted and not generalized else None


def finished_population(engine: Engine, policy: Policy, table: Any, *, finished: bool) -> Any:
    """The population for judging a table that this run did not make.

    Raises
    ------
    UsageError
        The table is finished and the population raw: how the table was generalized is not known here.
    """
    raw = policy.population is not None and not policy.population.generalized
    if finished and raw and any(stage.name() not in KEEPS_KEYS for stage in policy.transform):
        asking = [entry.name() for entry in policy.entries if entry.needs_population]
        if asking:
            raise UsageError(
                f"{asking[0]}: the population holds raw values and the judged table is finished; how it was "
                "generalized is not known here: give a population generalized alike and write `generalized: true`"
            )
    return population_beside(engine, policy, table)


def source_of(policy: Policy) -> Source:
    """The policy's source, for a scan.

    Raises
    ------
    UsageError
        The policy names none.
    """
    if policy.source is None:
        raise UsageError("the policy has no `source:`; give one, or hand the data over in Python")
    return policy.source.to_source(policy.source_types, policy.base_dir)
