"""`init`: the first policy of a table, tried until a method keeps enough of the data; `--aggregate`: of its tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from privpipe.border import bordered
from privpipe.drafting.column_profiles import ProfiledTable, profile_table
from privpipe.drafting.draft import (
    SCHEMA_FILE,
    Asked,
    column_lines,
    draft_policy,
    person_lines,
    place_of,
    proposals,
    source_keys,
)
from privpipe.drafting.guarantees import PurposeName, purpose_of
from privpipe.drafting.guesses import is_age, standing_of
from privpipe.drafting.methods import Candidate, Method, candidates, flow
from privpipe.drafting.profile import NUMBERS, Profile
from privpipe.drafting.questions import Question, answers_of, questions
from privpipe.drafting.roles import Planned, person_key, planned
from privpipe.drafting.source_formats import made_up_names
from privpipe.drafting.trials import MOST_RECORDS, SECONDS, Choice, Clock, Trial, chosen_method, loaded, sample_of
from privpipe.drafting.use_figures import lost_of_uses
from privpipe.engines import open_engine
from privpipe.errors import DataError, SinkError
from privpipe.policy import Policy
from privpipe.policy.uses import Use

__all__ = ["Drafter", "aggregate_policy", "init"]


@dataclass(frozen=True)
class Drafter:
    """A table and the options of the draft that is wanted.

    Parameters
    ----------
    table : ProfiledTable
    home : Path
        The folder the policy will be in.
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

    @property
    def made_up(self) -> bool:
        """Whether the names of columns are none of the table's."""
        source = self.table.source
        return not source.header and tuple(source.columns) == made_up_names(len(self.table.profiles))

    def answered(self, given: Mapping[str, str]) -> Drafter:
        """The same with answers, by the keys of the questions."""
        made = self._planned(Method())
        answers = answers_of(given, made.guesses, self._k(made))
        return replace(self, asked=replace(self.asked, answers=answers))

    def text(
        self,
        *,
        seconds: float,
        tell: Callable[[str], None] = lambda step: None,
        missed: Callable[[str], None] = lambda stages: None,
    ) -> str:
        """The policy, with the method that keeps most of a sample.

        Parameters
        ----------
        seconds : float
            CPU seconds that trials may take.
        tell : callable, optional
            Called with each step.
        missed : callable, optional
            Called with each method that there was no time for.
        """
        method = Method()
        if self.asked.suggest and self._planned(method).hierarchies:
            clock = Clock(seconds, tell)
            method = self._chosen(clock)
            for stages in clock.untried:
                missed(stages)
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
        return planned(
            self.table.profiles,
            self.table.relations,
            self.asked.answers,
            left_out=method.left_out,
            revealing=method.revealing,
        )

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
        """Quasi-identifiers, the most dispensable one first: unknown ones, then what every user asks for last."""
        made = self._planned(replace(Method(), left_out=tuple(left_out)))
        some = [each for each in self.table.profiles if made.guesses[each.name].role == "quasi_identifier"]
        ranked = sorted(
            some, key=lambda each: (not made.guesses[each.name].unknown, standing_of(each.name), -each.distinct)
        )
        return [each.name for each in ranked]


def _lost(uses: Sequence[Use], trial: Trial) -> float:
    return 1.0 if trial.paired is None else lost_of_uses(uses, trial.paired)


@bordered
def init(
    data: Any,
    *,
    out: str | PurePath | None = None,
    purpose: PurposeName = "research",
    uses: Sequence[str] = (),
    seconds: float = SECONDS,
    progress: Callable[[str], None] | None = None,
) -> Policy:
    """Draft a policy for a table: roles, hierarchies, thresholds and the method that keeps most of a sample.

    The guesses are a start, not a decision: read every line, and the reasons in the comments of `out`.

    Parameters
    ----------
    data : path or frame
        CSV, Parquet, JSON or Excel; or a pandas, polars, pyarrow or DuckDB frame, which the policy does not name.
    out : path, optional
        Write the policy here, with the reason of every guess.
    purpose : {"internal", "research", "public"}
        Thresholds, the strictest for public use.
    uses : sequence of str
        What the data is for, as in ``regression of income on age``; methods are compared by it.
    seconds : float
        CPU seconds for trying methods.
    progress : callable, optional
        Called with the name of each step.

    Raises
    ------
    UsageError, DataError
    SinkError
        `out` cannot be written.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import privpipe as pp
    >>> people = pa.table({"age": [20 + at % 60 for at in range(400)], "sex": ["f", "m"] * 200})
    >>> policy = pp.init(people, purpose="internal")
    >>> policy.roles.quasi_identifiers, policy.apply(people).num_rows
    (('age', 'sex'), 400)
    """
    from privpipe.engines.base.frames import at_hand

    given = str(data) if isinstance(data, str | PurePath) else at_hand(data, "init")
    home = Path(out).absolute().parent if out is not None else Path.cwd()
    asked = Asked(purpose=purpose_of(purpose), uses=tuple(uses))
    text = Drafter(profile_table(given), home, asked).text(seconds=seconds, tell=progress or (lambda step: None))
    if out is not None:
        try:
            Path(out).write_text(text, encoding="utf-8")
        except OSError as error:
            raise SinkError(f"cannot write {str(out)!r}: {error.strerror}") from None
        return Policy.load(str(out))
    return loaded(text, home)


LEAST_COUNT, LEAST_SUMMED, PERCENT = 10, 3, 10
MOST_LABELS, FEW_NUMBERS = 30, 12
MOST_DIMENSIONS, MOST_SUMS = 3, 3
MOST_CELLS = 3_000
OPEN_ROLES = ("quasi_identifier", "sensitive", "insensitive")


@dataclass(frozen=True)
class Dimensions:
    """Columns of the tables, with the levels of those that have a hierarchy."""

    names: tuple[str, ...]
    levels: dict[str, list[int]]


def aggregate_policy(table: ProfiledTable, home: Path, asked: Asked | None = None) -> str:
    """The text of a policy that publishes counts, and sums of amounts, of a table of records.

    Raises
    ------
    DataError
        No column has few values, so that none can be a dimension.
    """
    asked = asked or Asked()
    made = planned(table.profiles, table.relations, asked.answers)
    found = _dimensions(table.profiles, made)
    if not found.names:
        raise DataError(
            f"no column has 2 to {MOST_LABELS} values, by which records could be counted; draft a policy without "
            "--aggregate, or put values into groups before"
        )
    sums = _sums(table.profiles, made, found.names)
    place = place_of(table.source)
    stem = re.sub(r"\W+", "-", Path(place).stem).strip("-") or "table"
    person = asked.answers.person_of(person_key(table.profiles, made.guesses))
    kept = {name: spec for name, spec in made.hierarchies.items() if name in found.levels}
    lines = [
        f"# yaml-language-server: $schema={SCHEMA_FILE}",
        "# Written by `privpipe init --aggregate`. Roles and dimensions are guesses: read every line.",
        "version: 1",
        f"name: {flow(stem)}",
        *([f"source: {flow(source_keys(table.source, table.profiles, home))}"] if place else []),
        *(person_lines(person) if person else []),
        "columns:",
        *column_lines(table.profiles, replace(made, hierarchies=kept)),
        *_transform(found, sums, wandering=person is not None and _wanders(table, person, found.names)),
        *_guarantees(sums),
        f"sink: {flow({'path': f'published/{stem}', 'format': 'parquet'})}",
    ]
    text = "\n".join(lines) + "\n"
    loaded(text, home)
    return text


def _dimensions(profiles: Sequence[Profile], made: Planned) -> Dimensions:
    """The first few columns with few values, or with bands; known quasi-identifiers before others."""
    names: list[str] = []
    levels: dict[str, list[int]] = {}
    cells = 1
    order = sorted(
        profiles,
        key=lambda each: OPEN_ROLES.index(made.guesses[each.name].role) if _is_open(each, made) else 9,
    )
    for profile in order:
        own = _labels(profile, made) if _is_open(profile, made) else None
        if own is None or len(names) == MOST_DIMENSIONS or cells * own[0] > MOST_CELLS:
            continue
        names.append(profile.name)
        cells *= own[0]
        if own[1]:
            levels[profile.name] = own[1]
    return Dimensions(tuple(names), levels)


def _is_open(profile: Profile, made: Planned) -> bool:
    return made.guesses[profile.name].role in OPEN_ROLES


def _labels(profile: Profile, made: Planned) -> tuple[int, list[int]] | None:
    """About how many labels a column has as a dimension, and the levels of its hierarchy; None if it is none."""
    if is_age(profile) and "bands" in made.hierarchies.get(profile.name, {}):
        return 20, [2, 3]
    most = FEW_NUMBERS if profile.type in NUMBERS else MOST_LABELS
    if profile.type in ("date", "timestamp") or not 2 <= profile.distinct <= most or profile.fractions:
        return None
    return profile.distinct + 1 + (profile.missing > 0), []


def _sums(profiles: Sequence[Profile], made: Planned, dims: Sequence[str]) -> list[Profile]:
    """Columns of amounts, none of which is negative."""
    found = [
        profile
        for profile in profiles
        if profile.type in NUMBERS
        and _is_open(profile, made)
        and profile.name not in dims
        and profile.distinct > FEW_NUMBERS
        and profile.bottom >= 0
        and not is_age(profile)
        and made.guesses[profile.name].role != "quasi_identifier"
    ]
    return found[:MOST_SUMS]


def _wanders(table: ProfiledTable, person: str, dims: Sequence[str]) -> bool:
    """Whether records of one person may be in several cells: some dimension is not the same in all of them."""
    return not set(dims) <= set(table.relations.keys.get(person, dims))


def _transform(found: Dimensions, sums: Sequence[Profile], *, wandering: bool) -> Iterator[str]:
    own: dict[str, Any] = {"by": list(found.names)}
    if found.levels:
        own["levels"] = found.levels
    yield "transform:"
    yield "  # Each combination of labels is a cell, with all totals; a person counts once in each."
    yield "  - aggregate:"
    yield "      tables:"
    yield f"        counts: {flow({**own, 'responses': ['count']})}"
    if sums:
        responses = [{"sum": each.name, **({"decimals": 2} if each.type == "number" else {})} for each in sums]
        yield f"        sums: {flow({**own, 'responses': responses})}"
    if wandering:
        yield "      # Persons have records in several cells: one of each is kept, chosen by a key. Counts add up then,"
        yield "      # and hiding few cells is enough. Left out, all records count, and little can be published."
        yield "      contribution_bound: 1"
    yield "  # Hides cells that the guarantees call unsafe, and others so that none can be subtracted from totals."
    yield "  - suppress_table: {method: auto}"


def _guarantees(sums: Sequence[Profile]) -> Iterator[str]:
    yield "guarantees:"
    yield f"  # Outputs of research: a count rests on at least {LEAST_COUNT} persons (ACRO); 3 in official statistics."
    yield f"  - minimum_frequency: {flow({'at_least': LEAST_COUNT, 'tables': ['counts']})}"
    if sums:
        yield f"  # A sum rests on at least {LEAST_SUMMED}, for of two persons each knows the other's share."
        yield f"  - minimum_frequency: {flow({'at_least': LEAST_SUMMED, 'tables': ['sums']})}"
        yield f"  # No contributor can estimate the largest contribution to within {PERCENT} % of it (ACRO)."
        yield f"  - p_percent: {flow({'at_least': PERCENT, 'tables': ['sums']})}"
    yield "  # No hidden cell follows from totals, signs, or what a contributor knows, in all tables together."
    yield "  - table_audit: {}"
