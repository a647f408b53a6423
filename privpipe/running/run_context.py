"""What every step of a run works with: engine, policy, seed, rules for values, and how far it goes."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import privpipe
from privpipe import plugins
from privpipe.draws import Seed
from privpipe.engines import Engine, Source, engine_for, open_engine
from privpipe.engines.base.frames import is_connection
from privpipe.errors import UsageError
from privpipe.judging import JudgingRules
from privpipe.judging.rules import Gate
from privpipe.policy import Policy

if TYPE_CHECKING:
    from privpipe.blocks import Histogram

__all__ = [
    "WHOLE_COURSE",
    "Course",
    "OpenedEngine",
    "RunContext",
    "is_path",
    "judging_rules",
    "no_progress",
    "seed_of",
    "versions_at_work",
    "withholds_counts",
]


Progress = Callable[[str], None]


def no_progress(step: str) -> None:
    """Receives a step, and no one watches."""


def seed_of(policy: Policy) -> Seed:
    """The policy's seed; one of the system where it names none."""
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
        Receives the name of each step, from `privpipe.progress.watched`; what it raises ends the run.
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
    """How far a run goes, and where it begins.

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
    """The engine asked for: one given stays open, one named is opened and closed.

    A DuckDB connection represents the embedded engine under its limits: frames and tables are read through it, and the
    work is done in a database of our own, so that nothing of the caller's changes.

    Parameters
    ----------
    engine : str, Engine or DuckDB connection, optional
    data : path or frame
        What states which engine is native, where none is asked for.
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
