"""An officer's policy: what jobs must meet at least, and who signs their releases.

A loosening in a job is reported with its place in both policies.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from privpipe.blocks import ClassModel, Guarantee
from privpipe.blocks.marks import SensitiveColumn, Stricter
from privpipe.blocks.parameters import marked, parameters_of
from privpipe.blocks.verdict import plain
from privpipe.errors import PolicyError, Problem, UsageError, did_you_mean
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.cell_strictness import looser_cells
from privpipe.policy.grammar import OFFICER, OFFICER_COLUMN, SIGN_OFF, SIGNER, VERSION
from privpipe.policy.plain_values import Place, Report, decoded, from_yaml, shown
from privpipe.policy.sections import read_keys
from privpipe.roles import Roles
from privpipe.signing import PublicKey, same_person
from privpipe.tables.entries import CellGuarantee

__all__ = [
    "PINNED",
    "AskedGuarantee",
    "HeldJob",
    "OfficerPolicy",
    "SignOffRule",
    "Signer",
    "loosenings",
    "pinned_officer",
    "presets",
    "read_officer",
    "require_tighter",
]


PINNED = "PRIVPIPE_OFFICER_POLICY"
"""Variable that names the officer's policy of a machine or a scheduler: every release is held to it."""
BESIDE_ENTRY = ("reason", "source")
EACH = "each sensitive column"


@dataclass(frozen=True)
class AskedGuarantee:
    """A guarantee that jobs must have, at least.

    Parameters
    ----------
    place : Place
        Where it is in the officer's policy.
    kind : type of Guarantee
    parameters : mapping
        As stated; where the entry is about one sensitive column and names none, it is asked of each.
    reason, source : str
        Why this threshold, and where it comes from.
    """

    place: Place
    kind: type[Guarantee]
    parameters: Mapping[str, Any]
    reason: str = ""
    source: str = ""

    @property
    def of_each(self) -> str:
        """The parameter that each sensitive column of a job takes in turn, or nothing."""
        names = marked(self.kind, SensitiveColumn)
        named = names[0] if names == ("column",) else ""
        return named if named and self.parameters.get(named) is None and _is_required(self.kind, named) else ""


@dataclass(frozen=True)
class Signer:
    """A person who may sign."""

    name: str
    key: PublicKey


@dataclass(frozen=True)
class SignOffRule:
    """Whose approval a release waits for.

    Parameters
    ----------
    by : tuple of Signer
    two_persons : bool
        Whether two of them must approve; else one.
    valid_days : int
        For so long an approval holds after it was made.
    """

    by: tuple[Signer, ...]
    two_persons: bool = False
    valid_days: int = 90

    def to_dict(self) -> dict[str, Any]:
        """As a manifest names it."""
        return {
            "by": [signer.name for signer in self.by],
            "two_persons": self.two_persons,
            "valid_days": self.valid_days,
        }


@dataclass(frozen=True, kw_only=True)
class OfficerPolicy:
    """What an officer asks of jobs; what it leaves out, it does not ask.

    Parameters
    ----------
    name : str
    file : str
        Path, or name of a preset.
    hash : str
        SHA-256 of the document as canonical JSON: layout, comments and order of keys do not count.
    guarantees : tuple of AskedGuarantee
    roles : mapping of column to role
        A column of that name is protected so or more.
    values : mapping
        `nulls`, `undeclared`, `seed`, `suppress_at_most`, `allow_insecure_seed`, as far as stated.
    sign_off : SignOffRule or None
    lines : mapping of place to line
    """

    name: str
    file: str
    hash: str
    guarantees: tuple[AskedGuarantee, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    sign_off: SignOffRule | None = None
    lines: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)

    def located(self, place: Place) -> str:
        """A place with file and line, for errors."""
        around = place
        while around and shown(around) not in self.lines:
            around = around[:-1]
        line = self.lines.get(shown(around))
        return f"{self.file}: {shown(place)}" if line is None else f"{self.file}:{line}: {shown(place)}"

    def to_dict(self) -> dict[str, str]:
        """What a manifest states about it."""
        return {"name": self.name, "hash": self.hash}


def presets() -> dict[str, str]:
    """The officer's policies that come with this package, by name.

    Examples
    --------
    >>> list(presets())
    ['internal', 'public_use', 'research_use']
    """
    home = resources.files("privpipe.policy") / "presets"
    found = {each.name.removesuffix(".yaml"): each for each in home.iterdir() if each.name.endswith(".yaml")}
    return {name: found[name].read_text(encoding="utf-8") for name in sorted(found)}


def read_officer(named: str, base_dir: Path, catalogues: Catalogues | None = None) -> OfficerPolicy:
    """The officer's policy of a file or of a preset.

    Parameters
    ----------
    named : str
        A preset's name, else a path; relative ones start at `base_dir`.

    Raises
    ------
    PolicyError
        Everything that is wrong with it.
    """
    texts = presets()
    if named in texts:
        text, file = texts[named], named
    else:
        file = os.path.normpath(base_dir / named)
        try:
            text = decoded(Path(file).read_bytes(), file, "officer's policy")
        except (OSError, ValueError) as error:
            reason = "does not exist" if isinstance(error, FileNotFoundError) else type(error).__name__
            near = (
                "" if "/" in named or "." in named else did_you_mean(named, texts) or f"; presets: {', '.join(texts)}"
            )
            raise PolicyError([Problem("", f"the officer's policy cannot be read: {reason}{near}", file)]) from None
    document, report = from_yaml(text, file)
    found = read_keys(report, document, (), OFFICER)
    if found.get("version", VERSION) != VERSION:
        report.wrong(("version",), f"is {found['version']}; this privpipe reads version {VERSION}")
    guarantees = _guarantees(report, found.get("guarantees", []), catalogues or Catalogues.shipped())
    roles = _roles(report, found.get("columns", {}))
    rule = _sign_off(report, found["sign_off"]) if "sign_off" in found else None
    report.raise_if_wrong()
    kept = ("nulls", "undeclared", "metadata", "seed", "suppress_at_most", "allow_insecure_seed")
    return OfficerPolicy(
        name=str(found.get("name", Path(file).stem)),
        file=file,
        hash=_hash(document),
        guarantees=guarantees,
        roles=roles,
        values={name: found[name] for name in kept if name in found},
        sign_off=rule,
        lines={shown(place): line for place, line in report.lines.items()},
    )


def pinned_officer() -> OfficerPolicy | None:
    """The officer's policy that the environment names; `NAME@sha256:HEX` accepts only that content.

    Raises
    ------
    PolicyError
        It cannot be read, or has another hash.
    """
    named = os.environ.get(PINNED, "")
    if not named:
        return None
    path, _, pin = named.partition("@sha256:")
    found = read_officer(path, Path.cwd())
    if pin and pin != found.hash:
        raise PolicyError(
            [Problem("", f"the officer's policy has the hash {found.hash}, and {PINNED} asks for {pin}", found.file)]
        )
    return found


def _hash(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _guarantees(report: Report, value: Any, catalogues: Catalogues) -> tuple[AskedGuarantee, ...]:
    if not isinstance(value, list):
        report.wrong(("guarantees",), "must be a list of entries, each `- name: {parameters}`, with reason and source")
        return ()
    found = [_guarantee(report, item, ("guarantees", at), catalogues) for at, item in enumerate(value)]
    return tuple(each for each in found if each is not None)


def _guarantee(report: Report, item: Any, place: Place, catalogues: Catalogues) -> AskedGuarantee | None:
    beside = {name: item[name] for name in BESIDE_ENTRY if name in item} if isinstance(item, Mapping) else {}
    entries = [name for name in item if name not in beside] if isinstance(item, Mapping) else []
    if len(entries) != 1 or not isinstance(item[entries[0]], Mapping | None):
        report.wrong(place, "is one entry with its parameters, and next to it `reason:` and `source:`")
        return None
    for name, text in beside.items():
        if not isinstance(text, str):
            report.wrong((*place, name), "must be text")
    name, parameters = entries[0], dict(item[entries[0]] or {})
    kind = next((room[name] for room in catalogues.of("guarantees") if name in room), None)
    if kind is None:
        known = [each for room in catalogues.of("guarantees") for each in room]
        report.wrong((*place, name), f"unknown guarantee{did_you_mean(name, known)}")
        return None
    asked = AskedGuarantee((*place, name), _as_guarantee(kind), parameters, **beside)
    given = {**parameters, asked.of_each: EACH} if asked.of_each else parameters
    for parameter, wrong in kind.problems(given).items():
        report.wrong((*asked.place, *parameter.split(".")) if parameter else asked.place, wrong)
    if kind.withheld:
        report.wrong(
            asked.place,
            "has a threshold that is in no public document, and the hash of an officer's policy is in the manifest, "
            "by which it could be tried out; ask for it in each job",
        )
    elif not issubclass(kind, CellGuarantee) and not kind.problems(given) and not asked.kind.build(given).is_gate():
        report.wrong(asked.place, f"needs its threshold `{asked.kind.threshold_field}`")
    return asked


def _as_guarantee(kind: Any) -> type[Guarantee]:
    found: type[Guarantee] = kind
    return found


def _is_required(kind: Any, name: str) -> bool:
    return any(each.name == name and each.default is dataclasses.MISSING for each in dataclasses.fields(kind))


def _roles(report: Report, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        report.wrong(("columns",), "must be a mapping of column names, as in {age: {role: quasi_identifier}}")
        return {}
    found = {name: read_keys(report, item, ("columns", name), OFFICER_COLUMN) for name, item in value.items()}
    return {name: item["role"] for name, item in found.items() if "role" in item}


def _sign_off(report: Report, value: Any) -> SignOffRule | None:
    place: Place = ("sign_off",)
    found = read_keys(report, value, place, SIGN_OFF)
    if not isinstance(found.get("by"), list):
        report.wrong((*place, "by"), "must be a list of {name: ..., key: ...}")
        return None
    by = [signer for at, item in enumerate(found["by"]) if (signer := _signer(report, item, (*place, "by", at)))]
    for at, signer in enumerate(by):
        for other in by[:at]:
            if same_person(other.name) == same_person(signer.name):
                report.wrong((*place, "by", at), f"{signer.name!r} is named twice")
            if other.key == signer.key:
                report.wrong(
                    (*place, "by", at), f"{signer.name!r} has the key of {other.name!r}: one key is one person"
                )
    two, days = found.get("two_persons", False), found.get("valid_days", 90)
    if len(by) < 1 + two:
        report.wrong((*place, "by"), f"{1 + two} must sign, and {len(by)} may")
    if days < 1:
        report.wrong((*place, "valid_days"), f"must be at least 1, got {days}")
    return SignOffRule(tuple(by), two, days)


def _signer(report: Report, item: Any, place: Place) -> Signer | None:
    found = read_keys(report, item, place, SIGNER)
    if set(found) != {"name", "key"}:
        return None
    try:
        return Signer(" ".join(found["name"].split()), PublicKey.of(found["key"]))
    except UsageError as error:
        report.wrong((*place, "key"), str(error))
        return None


AS_PROTECTED: Mapping[str, tuple[str, ...]] = {
    "identifier": ("identifier", "drop"),
    "drop": ("drop", "identifier"),
    "quasi_identifier": ("quasi_identifier", "identifier", "drop"),
    "sensitive": ("sensitive", "identifier", "drop"),
    "insensitive": ("insensitive", "sensitive", "quasi_identifier", "identifier", "drop"),
    "carried": ("carried", "identifier", "drop"),
}
"""Roles that protect a column as another does, or more. Quasi-identifiers and sensitive columns are judged by other
guarantees, so that neither of the two replaces the other."""


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
    cells : sequence of (Place, CellGuarantee), optional
        Of a job that releases tables of cells, and then no records.
    """

    guarantees: Sequence[tuple[Place, Guarantee]]
    stages: Sequence[tuple[Place, Any]]
    roles: Roles
    values: Mapping[str, Any]
    file: str | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    cells: Sequence[tuple[Place, CellGuarantee]] | None = None

    def problem(self, place: Place, message: str) -> Problem:
        """Something wrong at a place of the job."""
        around = place
        while around and shown(around) not in self.lines:
            around = around[:-1]
        return Problem(shown(place), message, self.file, self.lines.get(shown(around)))


def loosenings(job: HeldJob, officer: OfficerPolicy) -> list[Problem]:
    """Everything by which a job falls below an officer's policy; empty: it only tightens.

    Each message names the place in the officer's policy in addition to that in the job's.
    """
    return [
        *_values(job, officer),
        *_columns(job, officer),
        *_suppression(job, officer),
        *(
            problem
            for asked in officer.guarantees
            if not issubclass(asked.kind, CellGuarantee) and job.cells is None
            for problem in _loosened_guarantee(job, officer, asked)
        ),
        *(_cells(job, officer) if job.cells is not None else ()),
    ]


def _cells(job: HeldJob, officer: OfficerPolicy) -> Iterator[Problem]:
    """What an officer asks of tables: by guarantees on cells, and nothing leaves where there are only others."""
    asked = [each for each in officer.guarantees if issubclass(each.kind, CellGuarantee)]
    if officer.guarantees and not asked:
        yield job.problem(
            ("transform",),
            f"releases tables of cells, and {_location(officer, ('guarantees',))} asks for guarantees on records "
            "alone; an officer who allows tables adds minimum_frequency and table_audit there",
        )
    for each in asked:
        wanted: Any = each.kind.build(dict(each.parameters))
        own = [(place, entry) for place, entry in job.cells or () if type(entry) is type(wanted)]
        looser = [(place, list(looser_cells(entry, wanted))) for place, entry in own]
        if any(not found for _, found in looser):
            continue
        why = f": {each.reason}" if each.reason else ""
        if not looser:
            yield job.problem(
                ("guarantees",), f"lacks {wanted!r}, which {_location(officer, each.place)} asks for; add it{why}"
            )
            continue
        place, nearest = min(looser, key=lambda pair: len(pair[1]))
        for name, said in nearest:
            wish = f"{_asks(officer, (*each.place, name))} {_wanted(wanted, name)}"
            yield job.problem((*place, name), f"{said}; {wish}{why}")


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
                (*place, "suppress_at_most"), f"is {limit}; {_asks(officer, ('suppress_at_most',))} {most} at most"
            )


def _loosened_guarantee(job: HeldJob, officer: OfficerPolicy, asked: AskedGuarantee) -> Iterator[Problem]:
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
