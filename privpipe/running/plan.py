"""The plan of a run: its decisions.

A plan is small, serialisable, auditable and the same on every engine; it can be frozen for later runs of a policy.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.blocks.public_edition import shown_parameters
from privpipe.blocks.verdict import plain
from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.errors import UsageError
from privpipe.html_tables import Table, html_tables, short_list
from privpipe.judging.column_loss import LossTable
from privpipe.transforms.base import StagePlan

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = [
    "PLAN_VERSION",
    "PUBLIC_EDITION",
    "READABLE",
    "DrawnIn",
    "Plan",
    "canonical_json",
    "document_digest",
    "frozen_plan",
    "plan_digest",
    "plan_key",
    "read_plan",
    "released_columns",
    "require_fitting",
    "require_same_columns",
]


PLAN_VERSION = 2
READABLE = (1, 2)
DIGEST_SIGNS = 12
SALTED = ("seed_commitment", "seed_salt", "checksum")
OF_COLUMNS = ("dropped", "levels")
"""Figures of a stage by column."""
BESIDE = ("alarms", "column_loss")
"""What `privpipe plan --json` prints next to a plan and is not part of it."""
PUBLIC_EDITION = (
    "this is the public edition of a plan, which shows too little to be applied: give the plan of the private record "
    "(`records:` in the policy, else records/ in the sink's work area)"
)


def canonical_json(document: Any) -> str:
    """JSON with sorted keys and no blanks, so that equal documents have equal bytes.

    Examples
    --------
    >>> canonical_json({"b": 1, "a": [1.5, None]})
    '{"a":[1.5,null],"b":1}'
    """
    return json.dumps(plain(document), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def document_digest(document: Any) -> str:
    """SHA-256 of a document as canonical JSON.

    Examples
    --------
    >>> document_digest({"b": 1, "a": 2}) == document_digest({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()


def plan_digest(document: Mapping[str, Any]) -> str:
    """`Plan.digest` of a complete plan in a file."""
    return document_digest({name: value for name, value in document.items() if name not in (*SALTED, *BESIDE)})


@dataclass(frozen=True, kw_only=True)
class DrawnIn:
    """The run that draws hang on: the one in which a plan was learnt.

    Parameters
    ----------
    policy : str
        As `Policy.run_digest` gives it.
    source : str
        The keyed fingerprint of its source.
    inputs : str
        Digest of the other inputs that shape its rows.
    """

    policy: str = ""
    source: str = ""
    inputs: str = ""


@bordered
@dataclass(frozen=True, kw_only=True)
class Plan:
    """The plans of all stages of a policy over one table.

    Parameters
    ----------
    policy_digest : str
        SHA-256 of the policy the plan was made for.
    records : int
        Records that entered the first stage.
    stages : tuple of StagePlan
        In policy order, implicit stages left out.
    seed_commitment : str
        Hash that commits to the seed without disclosing it.
    seed_salt : str
        The salt of that hash: the id of the run, or a drawn one.
    source : str
        The keyed fingerprint of the table.
    version : int
        Of the document. The stages of a plan of version 1 draw only by the seed and their parameters.
    drawn : DrawnIn
        The run whose draws a release under this plan repeats.
    columns : mapping of str to str
        The role of each column that is released.
    frozen : bool
        Whether the plan was given to the run that it is of.
    hash_key : bytes
        What keys the hashes of the stages' details, where no seed is declared that would give it again.
    tables : mapping of str to Plan
        Of related tables, the plan of each; `stages` then holds theirs, one table after the other, and after them those
        over the set.
    policy : Policy or None
        The policy itself; not part of the JSON.
    lost : LossTable or None
        What each column loses by it, if the table it was made of is available; not part of the JSON either.
    """

    policy_digest: str
    records: int
    stages: tuple[StagePlan, ...]
    seed_commitment: str = field(default="", compare=False)
    seed_salt: str = field(default="", compare=False)
    source: str = ""
    version: int = PLAN_VERSION
    drawn: DrawnIn = field(default_factory=lambda: DrawnIn())
    columns: Mapping[str, str] = field(default_factory=dict)
    frozen: bool = False
    hash_key: bytes = field(default=b"", repr=False)
    tables: Mapping[str, Plan] = field(default_factory=dict, repr=False)
    policy: Policy | None = field(default=None, repr=False, compare=False)
    lost: LossTable | None = field(default=None, repr=False, compare=False)

    @property
    def levels(self) -> dict[str, int]:
        """Generalization level of each column, over all stages that set one; of related tables, of ``table.column``."""
        levels: dict[str, int] = {}
        for name, own in self.tables.items():
            levels |= {f"{name}.{column}": level for column, level in own.levels.items()}
        for stage in self.of_set if self.tables else self.stages:
            levels.update(stage.detail.get("levels", {}))
        return levels

    @property
    def of_set(self) -> tuple[StagePlan, ...]:
        """The stages over the set of related tables."""
        return self.stages[sum(len(own.stages) for own in self.tables.values()) :]

    @property
    def loss(self) -> float | list[float] | None:
        """Loss of the last stage that searched, by the quality model of its parameters."""
        return self._last("loss")  # type: ignore[no-any-return]

    @property
    def suppressed_records(self) -> int:
        """Records left out, over all stages."""
        return sum(int(stage.detail.get("suppressed_records", 0)) for stage in self.stages)

    @property
    def optimal(self) -> bool | None:
        """Whether the last search proved its optimum; None when nothing was searched."""
        return self._last("optimal")  # type: ignore[no-any-return]

    @property
    def lower_bound(self) -> float | None:
        """A proved lower bound of the loss (its first figure) over all that the last search could choose.

        The loss itself where it is proved to be optimal; None where nothing is known.
        """
        return self._last("lower_bound")  # type: ignore[no-any-return]

    @property
    def nodes_checked(self) -> int | None:
        """Lattice nodes the last search looked at."""
        return self._last("nodes_checked")  # type: ignore[no-any-return]

    def made_with(self, seed: Seed) -> bool:
        """Whether the plan commits to this seed."""
        return hmac.compare_digest(self.seed_commitment.encode(), seed.commitment(self.seed_salt).encode())

    @property
    def digest(self) -> str:
        """SHA-256 of the whole plan as canonical JSON, the salted commitment left out: equal plans of two runs have
        equal ones.
        """
        return plan_digest(self._document())

    def __repr__(self) -> str:
        names = short_list([stage.name for stage in self.stages])
        return f"Plan({len(self.stages)} stages: {names or 'none'}; policy {self.policy_digest[:DIGEST_SIGNS]})"

    def _repr_html_(self) -> str:
        # A notebook is often passed on, so it shows only the public edition.
        stages = Table(
            head=("stage", "name", "parameters", "learnt"),
            rows=[(at, stage.name, *_told(stage.public())) for at, stage in enumerate(self.stages, 1)],
        )
        about = [("policy", self.policy_digest[:DIGEST_SIGNS]), ("plan", self.digest[:DIGEST_SIGNS])]
        return html_tables("Plan", stages, Table(rows=about), notes=["What else was learnt is private: `to_json`."])

    def public_dict(self) -> dict[str, Any]:
        """The public edition: methods, parameters, and the detail that each transformer makes public."""
        stages = [stage.public() for stage in self.stages]
        return {
            "plan_version": self.version,
            "edition": "public",
            "policy_digest": self.policy_digest,
            "stages": [_stage_dict(stage) for stage in stages],
        }

    def to_dict(self) -> dict[str, Any]:
        """The whole plan as plain JSON values: no data value among them, yet much that shows the source."""
        document = self._document()
        return {**document, "checksum": document_digest(document)}

    def _document(self) -> dict[str, Any]:
        return {
            "plan_version": self.version,
            "edition": "private",
            "policy_digest": self.policy_digest,
            "records": self.records,
            "seed_commitment": self.seed_commitment,
            "seed_salt": self.seed_salt,
            "source": self.source,
            **self._of_draws(),
            **({"hash_key": self.hash_key.hex()} if self.hash_key else {}),
            **({"tables": {name: own._of_table() for name, own in self.tables.items()}} if self.tables else {}),
            "stages": [_stage_dict(stage) for stage in self.stages],
        }

    def _of_table(self) -> dict[str, Any]:
        """What a plan of related tables holds of one of them, next to its stages."""
        return {
            "records": self.records,
            "source": self.source,
            "stages": len(self.stages),
            **({"hash_key": self.hash_key.hex()} if self.hash_key else {}),
            **self._of_draws(),
        }

    def _of_draws(self) -> dict[str, Any]:
        if self.version == 1:
            return {}
        return {"drawn": asdict(self.drawn), "columns": dict(self.columns), "frozen": self.frozen}

    def to_json(self) -> str:
        """The plan as indented JSON text."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, policy: Policy | None = None) -> Plan:
        """Read a plan back.

        Raises
        ------
        UsageError
            Not a plan, another version, damaged, or made for another policy.
        """
        try:
            document: Mapping[str, Any] = json.loads(text)
            if document.get("edition") == "public":
                raise UsageError(PUBLIC_EDITION)
            sound = document.get("checksum") == _checksum(document)
            version = document["plan_version"]
            stages = tuple(
                StagePlan(name=stage["name"], parameters=stage["parameters"], detail=stage["detail"])
                for stage in document["stages"]
            )
            if not all(_is_stage(stage) for stage in stages):
                raise TypeError("a stage of another shape")
            hash_key = bytes.fromhex(str(document.get("hash_key", "")))
            digest, records = str(document["policy_digest"]), int(document["records"])
            columns = {str(name): str(role) for name, role in dict(document.get("columns", {})).items()}
            drawn, frozen = DrawnIn(), False
            if version == PLAN_VERSION:
                drawn, frozen = DrawnIn(**document["drawn"]), bool(document["frozen"])
            tables = {str(name): _table_fields(own) for name, own in dict(document.get("tables", {})).items()}
            if sum(own["stages"] for own in tables.values()) > len(stages):
                raise TypeError("more stages of tables than there are")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise UsageError(f"this is not a privpipe plan: {type(error).__name__}") from None
        if version not in READABLE:
            raise UsageError(f"the plan has version {version}, this privpipe reads versions 1 to {PLAN_VERSION}")
        if not sound:
            raise UsageError(
                "the plan is damaged or was edited: its checksum does not match its content; make a new one with "
                "`privpipe plan`"
            )
        if policy is not None and policy.digest() != digest:
            raise UsageError("the plan was made for another policy: make a new one with `privpipe plan`")
        whole = cls(
            policy_digest=digest,
            records=records,
            stages=stages,
            seed_commitment=str(document.get("seed_commitment", "")),
            seed_salt=str(document.get("seed_salt", "")),
            source=str(document.get("source", "")),
            version=version,
            drawn=drawn,
            columns=columns,
            frozen=frozen,
            hash_key=hash_key,
            policy=policy,
        )
        return replace(whole, tables=_tables_of(whole, tables)) if tables else whole

    def _last(self, name: str) -> Any:
        for stage in reversed(self.stages):
            if name in stage.detail:
                return stage.detail[name]
        return None


def _table_fields(own: Mapping[str, Any]) -> dict[str, Any]:
    """What a document holds of one of related tables."""
    if not isinstance(own["stages"], int) or own["stages"] < 0:
        raise TypeError("an invalid number of stages")
    return {
        "records": int(own["records"]),
        "source": str(own["source"]),
        "stages": own["stages"],
        "hash_key": bytes.fromhex(str(own.get("hash_key", ""))),
        "drawn": DrawnIn(**own["drawn"]),
        "columns": {str(name): str(role) for name, role in dict(own["columns"]).items()},
        "frozen": bool(own["frozen"]),
    }


def _tables_of(whole: Plan, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Plan]:
    """The plan of each of related tables, with its part of the stages."""
    found, before = {}, 0
    for name, own in tables.items():
        stages = whole.stages[before : before + own["stages"]]
        before += own["stages"]
        found[name] = replace(whole, **{**own, "stages": tuple(_without_table(name, each) for each in stages)})
    return found


def _without_table(name: str, stage: StagePlan) -> StagePlan:
    """The stage as in the plan of its table."""
    if stage.parameters.get("table") != name:
        raise UsageError(f"the plan is damaged: a stage of table {name!r} is of another")
    return replace(stage, parameters={key: each for key, each in stage.parameters.items() if key != "table"})


def _is_stage(stage: StagePlan) -> bool:
    """Whether the record of every stage has its shape; the stage itself checks the rest of a detail."""
    if not isinstance(stage.name, str) or not all(isinstance(each, dict) for each in (stage.parameters, stage.detail)):
        return False
    levels, suppressed = stage.detail.get("levels", {}), stage.detail.get("suppressed_records", 0)
    return isinstance(levels, dict) and all(type(number) is int for number in (*levels.values(), suppressed))


def _checksum(document: Mapping[str, Any]) -> str:
    return document_digest({name: value for name, value in document.items() if name not in ("checksum", *BESIDE)})


def _told(stage: StagePlan) -> tuple[str, str]:
    from privpipe.relations import STAGES
    from privpipe.transforms import CATALOGUE

    kind = CATALOGUE.get(stage.name) or STAGES.get(stage.name)
    parameters, detail = plain(stage.parameters), plain(stage.detail)
    return shown_parameters(kind, parameters), shown_parameters(None, detail, OF_COLUMNS)


def _stage_dict(stage: StagePlan) -> dict[str, Any]:
    return {"name": stage.name, "parameters": plain(stage.parameters), "detail": plain(stage.detail)}


def read_plan(path: str | Path, policy: Policy | None = None) -> Plan:
    """The plan of a JSON file.

    Parameters
    ----------
    policy : Policy, optional
        The one it must have been made for.

    Raises
    ------
    UsageError
        The file cannot be read, or holds no plan of this version (or policy).
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the plan {str(path)!r}: {type(error).__name__}") from None
    return Plan.from_json(text, policy)


def frozen_plan(policy: Policy, given: Plan | str | Path | None) -> Plan | None:
    """The plan that is given, else the one that the policy names under `plan:`; None: stages learn again."""
    if isinstance(given, Plan):
        return given
    if given is not None:
        return read_plan(given)
    return None if policy.plan is None else read_plan(policy.plan.target(policy.base_dir))


def released_columns(policy: Policy) -> dict[str, str]:
    """The role of each column that the policy releases."""
    roles = policy.released_roles
    return {name: roles.of(name) for name in roles.columns if name not in roles.unreleased}


def require_same_columns(plan: Plan, policy: Policy) -> None:
    """Refuse a plan that was made for a policy which releases other columns, or gives them other roles.

    Releases under one plan can be joined by the values that its stages draw for, so each may show only what the others
    show. A plan of version 1 does not state what was released under it.

    Raises
    ------
    UsageError
        It names the first column that differs.
    """
    here = released_columns(policy)
    for name in sorted({*plan.columns, *here}) if plan.version > 1 and plan.columns else ():
        before, now = plan.columns.get(name, "not released"), here.get(name, "not released")
        if before != now:
            raise UsageError(
                f"the frozen plan does not fit: column {name!r} is {now} in the policy and {before} in the plan; "
                "releases under one plan can be joined, so all of them show the same columns in the same roles: make a "
                "new plan for this policy"
            )


def require_fitting(plan: Plan, policy: Policy, seed: Seed) -> None:
    """Refuse a plan that was made for other stages, parameters or released columns, or with another seed.

    The rest of the policy may differ: guarantees are judged over what is written, whatever the plan was made for.

    Raises
    ------
    UsageError
        It names the first stage that differs, and the first parameter.
    """
    if policy.seed is not None and not plan.made_with(seed):
        raise UsageError("the plan was made with another seed than the policy's; make a new plan, or restore the seed")
    own = {} if policy.related is None else policy.related.tables
    if set(own) != set(plan.tables):
        here, there = (", ".join(names) or "one table" for names in (own, plan.tables))
        raise UsageError(
            f"the frozen plan does not fit: the policy is about {here}, and the plan about {there}; make a new plan"
        )
    for name, each in own.items():
        require_fitting(plan.tables[name], each, seed)
    if policy.related is not None:
        stated = [(stage.name(), stage.parameters()) for stage in policy.related.stages]
    else:
        require_same_columns(plan, policy)
        stated = [(stage.name(), stage.stated_parameters()) for stage in policy.transform]
    _require_same_stages(plan.of_set, stated, policy)


def _require_same_stages(
    planned: Sequence[StagePlan], stated: Sequence[tuple[str, Mapping[str, Any]]], policy: Policy
) -> None:
    for at, (made, (name, _)) in enumerate(zip(planned, stated, strict=False)):
        if name != made.name:
            raise UsageError(
                f"the frozen plan does not fit: {policy.located(f'transform[{at}].{name}')} is {made.name} in the "
                "plan; make a new plan"
            )
    if len(stated) != len(planned):
        raise UsageError(
            f"the frozen plan does not fit: it has {len(planned)} stages, the policy {len(stated)}; make a new plan"
        )
    for at, (made, (name, parameters)) in enumerate(zip(planned, stated, strict=True)):
        wanted, found = plain(parameters), plain(made.parameters)
        for parameter in sorted({*wanted, *found}):
            if wanted.get(parameter) != found.get(parameter):
                raise UsageError(
                    f"the frozen plan does not fit: {policy.located(f'transform[{at}].{name}')}.{parameter} is another "
                    "in the plan; make a new plan, or take the parameter back"
                )


def plan_key(seed: Seed) -> bytes:
    """What keys the hashes of source content that a plan holds: the same for every run, so that a plan can be used."""
    return seed.key("plan hashes")
