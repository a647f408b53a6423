"""What every step of a run works with: the engine, the policy and the seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from privpipe.draws import Seed
from privpipe.engines import Engine

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["RunContext", "no_progress", "seed_of"]

Progress = Callable[[str], None]


def no_progress(step: str) -> None:
    """Told of a step, and nobody watches."""


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
        Told the name of each step, from `privpipe.progress.watched`; what it raises ends the run.
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
