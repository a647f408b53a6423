"""Draft a policy for a table, and try methods until one keeps enough of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from privpipe.drafting.asking import Question, answers_of, questions
from privpipe.drafting.choosing import Choice, chosen_method
from privpipe.drafting.draft import Asked, draft_policy, proposals
from privpipe.drafting.methods import Candidate, Method, candidates
from privpipe.drafting.naming import standing_of
from privpipe.drafting.planned import Planned, planned
from privpipe.drafting.profiling import ProfiledTable
from privpipe.drafting.roles import person_key
from privpipe.drafting.surviving import lost_of_uses
from privpipe.drafting.trying import MOST_RECORDS, Clock, Trial, loaded, sample_of
from privpipe.engines import open_engine
from privpipe.policy.uses import Use

__all__ = ["Drafter"]


@dataclass(frozen=True)
class Drafter:
    """A table and what was said of the draft that is wanted.

    Parameters
    ----------
    table : ProfiledTable
    home : Path
        The folder the policy will stand in.
    asked : Asked
    """

    table: ProfiledTable
    home: Path
    asked: Asked

    def questions(self) -> list[Question]:
        """What the table leaves open."""
        made = self._planned(Method())
        person = person_key(self.table.profiles, made.guesses)
        return list(questions(self.table.profiles, made.guesses, self._k(made), person))

    def answered(self, given: Mapping[str, str]) -> Drafter:
        """The same with answers, by the keys of the questions."""
        made = self._planned(Method())
        answers = answers_of(given, made.guesses, self._k(made))
        return replace(self, asked=replace(self.asked, answers=answers))

    def text(self, *, seconds: float, tell: Callable[[str], None] = lambda step: None) -> str:
        """The policy, with the method that keeps most of a sample.

        Parameters
        ----------
        seconds : float
            The time that trials may take.
        tell : callable, optional
            Called with each step.
        """
        method = Method()
        if self.asked.suggest and self._planned(method).hierarchies:
            method = self._chosen(Clock(seconds, tell))
        made = self.draft(method)
        loaded(made, self.home)
        return made

    def draft(self, method: Method) -> str:
        """The text with a method."""
        return draft_policy(
            self.table.source,
            self.table.profiles,
            home=self.home,
            asked=self.asked,
            unsure=self.table.unsure,
            relations=self.table.relations,
            method=method,
        )

    def _planned(self, method: Method) -> Planned:
        return planned(self.table.profiles, self.table.relations, self.asked.answers, left_out=method.left_out)

    def _chosen(self, clock: Clock) -> Method:
        frame: Any = None if isinstance(self.table.source.data, str) else self.table.source.data
        with open_engine("embedded") as engine:
            policy = loaded(self.draft(Method(masked=False)), self.home)
            close = sum(each.name() == "t_closeness" for each in policy.guarantees)
            rows = sample_of(engine, policy, frame, MOST_RECORDS // (1 + close))
            choice = Choice(self.draft, self._methods, self._order)
            if policy.uses:
                uses = policy.uses
                choice = replace(choice, score=partial(_lost, uses), said="What the declared uses lose on a sample")
            return chosen_method(choice, self.home, rows, engine, clock)

    def _methods(self, method: Method) -> Sequence[Candidate]:
        made = self._planned(method)
        profiles = [each for each in self.table.profiles if made.guesses[each.name].role == "quasi_identifier"]
        offered = [each.name for each in proposals(self.table.profiles, made, self.asked)]
        names = [name for name in offered if name not in method.without]
        return list(candidates(profiles, made.hierarchies, names, self._k(made), self.asked.purpose))

    def _k(self, made: Planned) -> int:
        offered = proposals(self.table.profiles, made, self.asked)
        return max(int(each.parameters["k"]) for each in offered if each.name == "k_anonymity")

    def _order(self, left_out: Sequence[str]) -> Sequence[str]:
        """Quasi-identifiers, the one that can be spared first: unknown ones, then what everybody asks for last."""
        made = self._planned(replace(Method(), left_out=tuple(left_out)))
        some = [each for each in self.table.profiles if made.guesses[each.name].role == "quasi_identifier"]
        ranked = sorted(
            some, key=lambda each: (not made.guesses[each.name].unknown, standing_of(each.name), -each.distinct)
        )
        return [each.name for each in ranked]


def _lost(uses: Sequence[Use], trial: Trial) -> float:
    return 1.0 if trial.paired is None else lost_of_uses(uses, trial.paired)
