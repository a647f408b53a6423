"""What a job's policy may not do under an officer's: every loosening, with both places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from privpipe.blocks import ClassModel, Guarantee
from privpipe.blocks.marks import Stricter
from privpipe.blocks.parameters import marked, parameters_of
from privpipe.blocks.verdict import plain
from privpipe.errors import PolicyError, Problem
from privpipe.policy.officer import AskedGuarantee, OfficerPolicy
from privpipe.policy.places import Place, shown
from privpipe.roles import Roles

__all__ = ["HeldJob", "loosenings", "require_tighter"]

AS_PROTECTED: Mapping[str, tuple[str, ...]] = {
    "identifier": ("identifier", "drop"),
    "drop": ("drop", "identifier"),
    "quasi_identifier": ("quasi_identifier", "identifier", "drop"),
    "sensitive": ("sensitive", "identifier", "drop"),
    "insensitive": ("insensitive", "sensitive", "quasi_identifier", "identifier", "drop"),
    "carried": ("carried", "identifier", "drop"),
}
"""Roles that protect a column as another does, or more. Quasi-identifiers and sensitive columns are judged by other
guarantees, so that neither of the two stands for the other."""


@dataclass(frozen=True, kw_only=True)
class HeldJob:
    """What of a job's policy is compared.

    Parameters
    ----------
    guarantees : sequence of (Place, Guarantee)
    stages : sequence of (Place, Transformer)
    roles : Roles
    values : mapping
        Keys of the top level, as stated.
    file : str or None
    lines : mapping of place to line
    """

    guarantees: Sequence[tuple[Place, Guarantee]]
    stages: Sequence[tuple[Place, Any]]
    roles: Roles
    values: Mapping[str, Any]
    file: str | None = None
    lines: Mapping[str, int] = field(default_factory=dict)

    def problem(self, place: Place, message: str) -> Problem:
        """Something wrong at a place of the job."""
        around = place
        while around and shown(around) not in self.lines:
            around = around[:-1]
        return Problem(shown(place), message, self.file, self.lines.get(shown(around)))


def loosenings(job: HeldJob, officer: OfficerPolicy) -> list[Problem]:
    """Everything by which a job falls below an officer's policy; empty: it only tightens.

    Each message names the place in the officer's policy besides that in the job's.
    """
    return [
        *_values(job, officer),
        *_columns(job, officer),
        *_suppression(job, officer),
        *(problem for asked in officer.guarantees for problem in _guarantee(job, officer, asked)),
    ]


def require_tighter(job: HeldJob, officer: OfficerPolicy) -> None:
    """Refuse a job that falls below.

    Raises
    ------
    PolicyError
        Every loosening.
    """
    found = loosenings(job, officer)
    if found:
        raise PolicyError(sorted(found, key=lambda problem: problem.line or 0))


def _values(job: HeldJob, officer: OfficerPolicy) -> Iterator[Problem]:
    nulls, seed = job.values.get("nulls", "own_value"), job.values.get("seed")
    if "nulls" in officer.values and nulls not in (officer.values["nulls"], "refuse"):
        yield job.problem(("nulls",), f"is {nulls}; {_asks(officer, ('nulls',))} {officer.values['nulls']}")
    for name in ("undeclared", "metadata"):
        if job.values.get(name, "refuse") == "note" and officer.values.get(name, "refuse") == "refuse":
            yield job.problem((name,), f"is note; {_asks(officer, (name,))} refuse")
    if officer.values.get("seed") == "required" and seed is None:
        yield job.problem((), f"declares no seed; {_asks(officer, ('seed',))} one")
    insecure = job.values.get("allow_insecure_seed", False)
    if insecure and not officer.values.get("allow_insecure_seed", False):
        place = ("allow_insecure_seed",)
        yield job.problem(place, f"lets a guessable seed publish, which {_allows(officer, place)}")


def _columns(job: HeldJob, officer: OfficerPolicy) -> Iterator[Problem]:
    roles = {
        **dict.fromkeys(job.roles.quasi_identifiers, "quasi_identifier"),
        **dict.fromkeys(job.roles.sensitive, "sensitive"),
        **dict.fromkeys(job.roles.insensitive, "insensitive"),
        **dict.fromkeys(job.roles.identifiers, "identifier"),
        **dict.fromkeys(job.roles.dropped, "drop"),
        **dict.fromkeys(job.roles.carried, "carried"),
    }
    folded = {name.casefold(): role for name, role in officer.roles.items()}
    for name, role in roles.items():
        asked = folded.get(name.casefold())
        if asked is not None and role not in AS_PROTECTED[asked]:
            place = ("columns", name, "role")
            yield job.problem(place, f"is {role}; {_asks(officer, place)} {' or '.join(AS_PROTECTED[asked])}")


def _suppression(job: HeldJob, officer: OfficerPolicy) -> Iterator[Problem]:
    most = officer.values.get("suppress_at_most")
    for place, stage in job.stages:
        limit = getattr(stage, "suppress_at_most", None) or 0.0  # left out: no record is suppressed
        if most is not None and limit > most:
            yield job.problem(
                (*place, "suppress_at_most"), f"is {limit}; {_asks(officer, ('suppress_at_most',))} {most} at the most"
            )


def _guarantee(job: HeldJob, officer: OfficerPolicy, asked: AskedGuarantee) -> Iterator[Problem]:
    each = job.roles.sensitive if asked.of_each else (None,)
    for column in each:
        parameters = dict(asked.parameters) if column is None else {**asked.parameters, asked.of_each: column}
        wanted = asked.kind.build(parameters).with_roles(job.roles)
        yield from _met(job, officer, asked, wanted)


def _met(job: HeldJob, officer: OfficerPolicy, asked: AskedGuarantee, wanted: Guarantee) -> Iterator[Problem]:
    """Nothing where a guarantee of the job asks for as much, else what is nearest to it."""
    least: tuple[Place, list[tuple[str, str]]] | None = None
    for place, guarantee in job.guarantees:
        if type(guarantee) is not type(wanted) or guarantee.sensitive_columns() != wanted.sensitive_columns():
            continue
        looser = list(_looser(guarantee, wanted, job))
        if not looser:
            return
        if least is None or len(looser) < len(least[1]):
            least = (place, looser)
    why = f": {asked.reason}" if asked.reason else ""
    if least is None:
        yield job.problem(
            ("guarantees",), f"lacks {wanted!r}, which {_location(officer, asked.place)} asks for; add it{why}"
        )
        return
    for name, said in least[1]:
        yield job.problem(
            (*least[0], name), f"{said}; {_asks(officer, (*asked.place, name))} {_wanted(wanted, name)}{why}"
        )


def _looser(guarantee: Guarantee, wanted: Guarantee, job: HeldJob) -> Iterator[tuple[str, str]]:
    """Parameters by which a guarantee asks for less than another, and what they are."""
    for name, parameter in parameters_of(type(wanted)).items():
        has_mark = name in marked(type(wanted), Stricter)
        direction = parameter.marked(Stricter).direction if has_mark else "equal"
        mine, other = getattr(guarantee, name), getattr(wanted, name)
        if direction == "names":
            fine = _covers(mine, other, job.roles, finer=_finer_is_stricter(wanted, job))
        elif direction in ("larger", "smaller"):
            fine = other is None or (mine is not None and (mine >= other if direction == "larger" else mine <= other))
        elif direction == "fail":
            fine = mine == "fail" or other == mine
        else:
            fine = plain(mine) == plain(other)
        if not fine:
            yield name, f"is {_told(mine)}"


def _finer_is_stricter(wanted: Guarantee, job: HeldJob) -> bool:
    """Whether what holds in classes over more columns holds in those over some of them."""
    over = wanted.counts_over()
    records = over == "records" or (over is None and job.values.get("person_id") is None)
    return isinstance(wanted, ClassModel) and wanted.passes_merged(records=records)


def _covers(mine: Sequence[str] | None, other: Sequence[str] | None, roles: Roles, *, finer: bool) -> bool:
    """Whether classes over some columns are those over others, or, where that asks for more, finer ones."""
    has, asked = (set(roles.quasi_identifiers if names is None else names) for names in (mine, other))
    return has >= asked if finer else has == asked


def _wanted(wanted: Guarantee, name: str) -> str:
    mark = marked(type(wanted), Stricter)
    direction = parameters_of(type(wanted))[name].marked(Stricter).direction if name in mark else "equal"
    words = {"larger": "at least ", "smaller": "at most ", "names": "at least "}
    return words.get(direction, "") + _told(getattr(wanted, name))


def _told(value: Any) -> str:
    return "left out" if value is None else str(plain(value))


def _location(officer: OfficerPolicy, place: Place) -> str:
    return f"the officer's policy ({officer.located(place)})"


def _asks(officer: OfficerPolicy, place: Place) -> str:
    return f"{_location(officer, place)} asks for"


def _allows(officer: OfficerPolicy, place: Place) -> str:
    return f"{_location(officer, place)} does not allow"
