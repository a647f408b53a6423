"""What every step of a run works with: the engine, the policy, the seed, its rules for values, and how far it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from privpipe.draws import Seed
from privpipe.engines import Engine
from privpipe.judging import JudgingRules
from privpipe.judging.gate import Gate

if TYPE_CHECKING:
    from privpipe.blocks import Histogram
    from privpipe.policy import Policy

__all__ = ["WHOLE_COURSE", "Course", "RunContext", "judging_rules", "no_progress", "seed_of", "withholds_counts"]


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
    """

    engine: Engine
    policy: Policy
    seed: Seed = field(repr=False)
    progress: Progress = field(default=no_progress, repr=False)
    releases: bool = True

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
