"""A policy, and what of it may be shown."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from privpipe.blocks import Guarantee
from privpipe.blocks.marks import FilePath
from privpipe.blocks.parameters import marked
from privpipe.blocks.verdict import binding
from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.engines.base.logical_types import CARRIED
from privpipe.hierarchies import HierarchySpec
from privpipe.html_tables import cut
from privpipe.judging.rules import OthersRule, UndeclaredRule
from privpipe.policy.secret import SecretSpec
from privpipe.policy.specs import (
    ColumnSpec,
    DriftSpec,
    FailingSpec,
    PlanSpec,
    ReportSpec,
    RetentionSpec,
    SinkSpec,
    SourceSpec,
    Utility,
    drawing_stage,
    roles_of,
)
from privpipe.roles import ColumnType, EmptyRule, NullRule, Roles
from privpipe.wired import room_above

if TYPE_CHECKING:
    from privpipe.policy.objects import PolicyOptions
    from privpipe.policy.officer import OfficerPolicy
    from privpipe.policy.related import RelatedRelease
    from privpipe.policy.tables import TableRelease
    from privpipe.policy.uses import Use
    from privpipe.relations.guarantees import JointGuarantee
    from privpipe.relations.set_stages import SetStage
    from privpipe.transforms.base import Transformer

__all__ = ["PATH_KEYS", "QUERIED", "Policy", "without_folders", "without_paths", "without_queries"]

PATH_KEYS = ("path", "file", "from_file", "database", "policy", "records", "plan")
"""Keys of a policy that name files, whatever section they are in."""
QUERIED = ("source", "population", "original")
"""Sections of a policy that may hold a query."""


def without_queries(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with `true` instead of each query: a condition may name a person, a comment a folder.

    No hash replaces it either: anyone who knows the organisation's tables could try values until one fits.

    Examples
    --------
    >>> without_queries({"source": {"database": "visits.db", "query": "SELECT * FROM v WHERE name <> 'Ann'"}})
    {'source': {'database': 'visits.db', 'query': True}}
    """
    shown = dict(document)
    for section in QUERIED:
        spec = document.get(section)
        if isinstance(spec, Mapping) and "query" in spec:
            shown[section] = {**spec, "query": True}
    if isinstance(tables := document.get("tables"), Mapping):
        shown["tables"] = {name: without_queries(own) for name, own in tables.items() if isinstance(own, Mapping)}
    return shown


def without_folders(value: Any, keys: Collection[str] = PATH_KEYS) -> Any:
    """The document with the last part of each absolute path under these keys in its place; relative ones stay.

    Examples
    --------
    >>> without_folders({"source": {"path": "/home/anna/visits.csv"}, "sink": {"path": "published/visits"}})
    {'source': {'path': 'visits.csv'}, 'sink': {'path': 'published/visits'}}
    >>> without_folders({"database": "sqlite:////home/anna/visits.db"}), without_folders({"path": "s3://lake/visits"})
    ({'database': 'sqlite:///visits.db'}, {'path': 's3://lake/visits'})
    """
    if isinstance(value, Mapping):
        return {key: _named(each, keys) if key in keys else without_folders(each, keys) for key, each in value.items()}
    return [without_folders(each, keys) for each in value] if isinstance(value, list) else value


ENTRIES = ("transform", "guarantees", "measures")


def without_secrets(document: Mapping[str, Any], secret: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """The document without parameters of entries that no public document shows.

    Parameters
    ----------
    secret : mapping of str to collection of str
        Names of such parameters, by the name of the entry.

    Examples
    --------
    >>> without_secrets({"guarantees": [{"p_percent": {"at_least": 10, "tables": ["t"]}}]}, {"p_percent": ["at_least"]})
    {'guarantees': [{'p_percent': {'tables': ['t']}}]}
    """
    return {section: _unsecret(value, secret) if section in ENTRIES else value for section, value in document.items()}


def _unsecret(entries: Any, secret: Mapping[str, Collection[str]]) -> Any:
    if not isinstance(entries, list):
        return entries
    return [
        {
            name: {key: each for key, each in given.items() if key not in secret.get(name, ())}
            if isinstance(given, Mapping)
            else given
            for name, given in entry.items()
        }
        if isinstance(entry, Mapping)
        else entry
        for entry in entries
    ]


def without_paths(value: Any, keys: Collection[str]) -> Any:
    """The document without what is under these keys, wherever they are.

    Examples
    --------
    >>> without_paths({"source": {"path": "visits.csv", "format": "csv"}}, PATH_KEYS)
    {'source': {'format': 'csv'}}
    """
    if isinstance(value, Mapping):
        return {key: without_paths(each, keys) for key, each in value.items() if key not in keys}
    return [without_paths(each, keys) for each in value] if isinstance(value, list) else value


def _named(value: Any, keys: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_named(each, keys) for each in value]
    if not isinstance(value, str):
        return without_folders(value, keys)
    scheme, found, place = value.partition("://")
    if found and scheme != "file":  # an address with no host is of a file, as in sqlite:////home/anna/visits.db
        return f"{scheme}:///{PurePosixPath(place).name}" if place.startswith("/") else value
    path = value.removeprefix("file://")
    if path.startswith("~") or PurePosixPath(path).is_absolute():
        return PurePosixPath(path).name or value
    return PureWindowsPath(path).name if PureWindowsPath(path).is_absolute() else value


F = TypeVar("F")
DIGEST_SIGNS = 12
LONGEST_NAME = 40
UNTOLD = ("engines", "records", "retention", "failing")
WHERE = ("engine", "sink", "source")
WARNINGS = ("utility", "report", "uses", "empty", "drift")
ABOVE = ("policy",)
REPORTED = ("measures",)
SHOWN = (
    *("name", "columns", "roles", "hierarchies", "transform", "guarantees", "measures", "tables", "related", "uses"),
    *("source", "original", "population", "sink", "engine", "record_id", "person_id", "household_id", "nulls", "seed"),
    *("load", "from_dict", "apply", "release", "to_yaml", "digest", "document", "file", "warnings"),
)
"""What `dir` lists: what a policy says, and what a caller does with it. The rest serves the rooms above."""


@bordered
@dataclass(frozen=True, kw_only=True, init=False)
class Policy:
    """A checked policy: of a YAML file (`load`), of a mapping (`from_dict`), or of Python objects.

    From objects it is written as a document and read as any other, with the same checks. A column that a stage or an
    entry names and that has no role is insensitive. Relative paths start at `base_dir`. Hierarchy files, data and
    secrets are not touched before they are needed.

    Parameters
    ----------
    name : str
    roles : Roles or mapping of columns to roles
        Left out of a policy about related tables, which has `tables` and `relations` (see `PolicyOptions`).
    hierarchies : mapping of column to Hierarchy, builder mapping or path of a CSV file
    transform : sequence of Transformer
        Stages, in order. Entries may also be given as in a document: ``{"k_anonymity": {"k": 5}}``.
    guarantees, measures : sequence of Guarantee
        With a threshold, which are judged; without, which are reported. Of related tables, joint ones over the set.
    seed : Seed, text or bytes of at least 128 bits, or a place such as ``{"from_env": NAME}``
        A seed that is passed is kept only in memory: the document has ``{from_env: PRIVPIPE_SEED}``.
    options : see `PolicyOptions`

    Raises
    ------
    PolicyError
        Everything wrong at once, each with the argument it is in.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> from privpipe.transforms import Generalize
    >>> visits = Policy(
    ...     roles=Roles(quasi_identifiers=["zip"]),
    ...     hierarchies={"zip": {"redact": {"keep": "left"}}},
    ...     transform=[Generalize(search="optimal")],
    ...     guarantees=[KAnonymity(k=2)],
    ... )
    >>> import pandas as pd
    >>> sorted(visits.apply(pd.DataFrame({"zip": ["081", "082"]}))["zip"])
    ['08*', '08*']
    >>> policy = Policy.from_dict({
    ...     "columns": {"age": {"role": "quasi_identifier"}},
    ...     "guarantees": [{"k_anonymity": {"k": 5}}],
    ... })
    >>> policy.guarantees, policy.roles.quasi_identifiers
    ((KAnonymity(k=5),), ('age',))
    >>> from privpipe.relations import JointKAnonymity
    >>> patients = {"roles": Roles(identifiers=["id"], quasi_identifiers=["town"]), "key": "id"}
    >>> visits = {"roles": Roles(identifiers=["patient"], quasi_identifiers=["ward"])}
    >>> lead = [{"from": "visits.patient", "to": "patients"}]
    >>> tables = {"patients": patients, "visits": visits}
    >>> Policy(tables=tables, relations=lead, guarantees=[JointKAnonymity(k=2)]).related.tree.root
    'patients'
    """

    version: int = 1
    name: str
    columns: Mapping[str, ColumnSpec]
    guarantees: tuple[Guarantee, ...]
    transform: tuple[Transformer, ...] = ()
    measures: tuple[Guarantee, ...] = ()
    tables: TableRelease | None = None
    related: RelatedRelease | None = None
    source: SourceSpec | None = None
    population: SourceSpec | None = None
    original: SourceSpec | None = None
    sink: SinkSpec | None = None
    records: str | None = None
    retention: RetentionSpec | None = None
    failing: FailingSpec | None = None
    engine: str = "embedded"
    engines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    record_id: str | None = None
    person_id: str | None = None
    household_id: str | None = None
    nulls: NullRule = "own_value"
    wildcard: str | None = None
    undeclared: OthersRule = "refuse"
    drift: DriftSpec = field(default_factory=DriftSpec)
    metadata: UndeclaredRule = "refuse"
    empty: EmptyRule = "refuse"
    suppression_mark: str = "*"
    plan: PlanSpec | None = None
    utility: Utility = field(default_factory=Utility)
    report: ReportSpec = field(default_factory=ReportSpec)
    uses: tuple[Use, ...] = ()
    seed: SecretSpec | None = None
    versions: Mapping[str, int] = field(default_factory=dict, repr=False)
    allow_insecure_seed: bool = False
    officer: OfficerPolicy | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)
    file: str | None = field(default=None, compare=False)
    base_dir: Path = field(default=Path(), repr=False, compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    outer: str = field(default="", repr=False, compare=False)
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __init__(
        self,
        *,
        name: str = "policy",
        roles: Roles | Mapping[str, Any] | None = None,
        hierarchies: Mapping[str, Any] | None = None,
        transform: Sequence[Transformer | SetStage | str | Mapping[str, Any]] = (),
        guarantees: Sequence[Guarantee | JointGuarantee | str | Mapping[str, Any]] = (),
        measures: Sequence[Guarantee | JointGuarantee | str | Mapping[str, Any]] = (),
        seed: Seed | str | bytes | Mapping[str, Any] | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        from privpipe.policy.objects import read_objects

        given = {
            "name": name,
            "roles": roles,
            "hierarchies": hierarchies,
            "transform": transform,
            "guarantees": guarantees,
            "measures": measures,
            "seed": seed,
        }
        self._hold(read_objects(given, options))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The policy of a YAML file.

        Parameters
        ----------
        path : path

        Raises
        ------
        PolicyError
            Everything wrong with it at once, each with its path and line.
        UnsupportedError
            Nothing in it is wrong, but something is not supported yet.
        """
        from privpipe.policy.rules import read_file

        return cls.of_fields(**read_file(path))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any], base_dir: str | os.PathLike[str] | None = None) -> Self:
        """The policy of a Python mapping with the keys of the YAML file; raises what `load` raises.

        Parameters
        ----------
        document : mapping
        base_dir : path, optional
            Where relative paths start; default: where the program runs.
        """
        from privpipe.policy.rules import read_mapping

        return cls.of_fields(**read_mapping(document, base_dir))

    @classmethod
    def of_fields(cls, **fields: Any) -> Self:
        """A policy of fields that are known to be sound; nothing is checked."""
        policy = cls.__new__(cls)
        policy._hold(fields)
        return policy

    def _hold(self, given: Mapping[str, Any]) -> None:
        for each in fields(self):
            value = given[each.name] if each.name in given else _default(each)
            value = value.of_policies(self.of_fields) if each.name == "related" and value is not None else value
            object.__setattr__(self, each.name, value)

    def replaced(self, **changes: Any) -> Self:
        """The same policy with other fields; nothing is checked, and the document stays."""
        return self.of_fields(**{each.name: getattr(self, each.name) for each in fields(self)} | changes)

    def apply(self, frame: F, *, engine: Any = None, progress: Callable[[str], None] | None = None) -> F:
        """Stages, then the gate: returns the frame that may be released, of the same kind, its rows in a new order.

        A lazy frame is evaluated once. The rows that are returned are those that were judged: of a Spark frame in a
        checkpoint (in the checkpoint directory, where the session has one, else on the executors' disks), of a Dask
        frame in the memory of its workers or of this process. Rows that are lost with an executor or a worker make a
        later use of the frame fail; they never come back as others.

        Parameters
        ----------
        frame : path, or pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark frame
            A path gives a pyarrow Table.
        engine : str, Engine or DuckDB connection, optional
            Default: the one the frame is native to.
        progress : callable, optional
            Called with the name of each step.

        Raises
        ------
        Refused
            A guarantee does not hold; it carries the assessment, and nothing comes back.
        UnsupportedError
            A Spark session allows no checkpoints, so the rows that were judged could not be held; use `release`.
        UsageError, DataError, NoSolutionError
        """
        found: F = room_above("running").apply_policy(self, frame, engine=engine, progress=progress)
        return found

    def release(
        self,
        frame: Any = None,
        target: str | PurePath | None = None,
        *,
        engine: Any = None,
        plan: Any = None,
        progress: Callable[[str], None] | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Stage, write, judge what was written, publish; see `privpipe.release`.

        Parameters
        ----------
        frame : path or frame, optional
            Instead of the policy's `source`.
        target : str or path, optional
            Publish here instead of the policy's `sink`.
        dry_run : bool
            Do all of it and publish nothing.

        Returns
        -------
        ReleaseResult
        """
        return room_above("running").release_frame(
            self, frame, target=target, engine=engine, plan=plan, progress=progress, dry_run=dry_run
        )

    def to_yaml(self) -> str:
        """The document as YAML: a job reads it with `Policy.load`, and its digest is the same.

        A secret is never in it: a seed that was passed is expected in the environment variable that it names.
        """
        from privpipe.policy.objects import to_yaml, without_secret

        return to_yaml(without_secret(self.document))

    @cached_property
    def entries(self) -> tuple[Guarantee, ...]:
        """Guarantees and measures, in the order in which they are judged."""
        return (*self.guarantees, *self.measures)

    @cached_property
    def binding(self) -> tuple[Guarantee, ...]:
        """The guarantees of severity `fail`: what a search must meet, and what a release is refused by."""
        return binding(self.guarantees)

    @cached_property
    def roles(self) -> Roles:
        """The role of every column."""
        return roles_of(self.columns)

    @cached_property
    def pseudonyms(self) -> tuple[str, ...]:
        """Columns that a `pseudonymise` stage releases: identifiers in the source, none afterwards."""
        return tuple(
            column for stage in self.transform if stage.taxon == "identifiers" for column in stage.masked_columns()
        )

    @cached_property
    def draws_records(self) -> bool:
        """Whether the released rows are drawn from a model: then they are of no person and of no household."""
        return drawing_stage(self.transform, self.columns) is not None

    @cached_property
    def released_roles(self) -> Roles:
        """The role of every column of a finished table: pseudonyms, and what a stage adds, are insensitive."""
        roles = self.roles
        made = [n for stage in self.transform for n in stage.made_columns() if n not in roles.columns]
        made += [name for name in roles.identifiers if name in self.pseudonyms]
        return replace(
            roles,
            identifiers=[name for name in roles.identifiers if name not in self.pseudonyms],
            insensitive=[*roles.insensitive, *made],
        )

    @property
    def types(self) -> dict[str, ColumnType]:
        """Declared types, by column."""
        return {name: column.type for name, column in self.columns.items() if column.type is not None}

    @property
    def source_types(self) -> dict[str, str]:
        """Declared types of a source's columns; those that nothing looks into are read whatever type they have."""
        unread = ("carried", "drop", "identifier")
        carried = {name: CARRIED for name, each in self.columns.items() if each.role in unread and each.type is None}
        return {**carried, **self.types}

    @property
    def hierarchies(self) -> dict[str, HierarchySpec]:
        """Declared hierarchies, by column."""
        return {name: column.hierarchy for name, column in self.columns.items() if column.hierarchy is not None}

    def __dir__(self) -> list[str]:
        return sorted(SHOWN)

    def __repr__(self) -> str:
        if self.related is not None:
            what = f"{len(self.related.tables)} tables, {len(self.related.guarantees)} joint guarantees"
            return f"Policy({cut(self.name, LONGEST_NAME)!r}, {what})"
        of_tables: tuple[Sequence[Any], Sequence[Any]] = ((), ())
        if self.tables is not None:
            of_tables = ((self.tables.aggregate, *self.tables.stages), self.tables.guarantees)
        counts = {
            "columns": self.columns,
            "stages": (*self.transform, *of_tables[0]),
            "guarantees": (*self.guarantees, *of_tables[1]),
            "measures": self.measures,
        }
        said = ", ".join(f"{len(items)} {name}" for name, items in counts.items())
        return f"Policy({cut(self.name, LONGEST_NAME)!r}, {said})"

    def _repr_html_(self) -> str:
        from privpipe.policy.policy_page import policy_page

        about = {
            "engine": self.engine,
            "record id": self.record_id,
            "person id": self.person_id,
            "household id": self.household_id,
            "missing values": self.nulls,
            "columns without a role": self.undeclared,
            "seed": None if self.seed is None else self.seed.whereabouts,
            "digest": self.digest()[:DIGEST_SIGNS],
        }
        return policy_page(self.name, self.columns, self.transform, (self.guarantees, self.measures), about)

    def public_document(self) -> dict[str, Any]:
        """The document as a manifest may carry it.

        Of a seed in the document, only that there is one. Options of engines, and where and how long private
        records are kept, are left out: they may name machines or hold credentials, and no result depends on them. So
        are the reasons of columns, which are free text, the folders of absolute paths, and of a query all but that
        there is one.
        """
        shown = without_folders(without_queries(self._told()), self._path_keys())
        secret = {} if self.tables is None else self.tables.secrets()
        own = () if self.related is None else self.related.tables.values()
        for policy in (self, *own):
            secret |= {each.name(): each.withheld for each in (*policy.entries, *policy.transform) if each.withheld}
        within = shown.get("tables")
        if isinstance(within, Mapping):
            shown = {**shown, "tables": {name: without_secrets(each, secret) for name, each in within.items()}}
        return without_secrets(shown, secret)

    def queries(self) -> dict[str, str]:
        """The text of each query, by the section it is in; for private documents."""
        asked = {name: getattr(self, name) for name in QUERIED}
        return {
            name: each.database.query for name, each in asked.items() if each and each.database and each.database.query
        }

    def _told(self) -> dict[str, Any]:
        """The public document with absolute paths as they were written."""
        public = copy.deepcopy({key: value for key, value in self.document.items() if key not in UNTOLD})
        each = [public, *(public["tables"].values() if isinstance(public.get("tables"), dict) else ())]
        for column in (column for own in each for column in (own.get("columns") or {}).values()):
            if isinstance(column, dict):
                column.pop("reason", None)
        if self.seed is not None and self.seed.within is not None:
            public["seed"] = {self.seed.within: True}
        return public

    def digest(self) -> str:
        """SHA-256, in hex, of the public document as canonical JSON: layout, comments, order of keys do not count.

        Neither does `plan:`, so that a plan fits the policy that it is frozen into.
        """
        return _sha256(self.public_document(), "plan")

    def run_digest(self) -> str:
        """SHA-256 of the policy without where it reads, runs and publishes, what it reports, when it warns, what it is
        held to and where its files are: what rows are, and in which order, depends on none of these.
        """
        without = (*WHERE, *REPORTED, *WARNINGS, *ABOVE)
        told = self._told()
        if self.undeclared == "drop":  # what is dropped before it is looked at shapes no row
            told.pop("undeclared", None)
        own = {name: value for name, value in told.items() if name not in without}
        return _sha256(without_paths(own, self._path_keys()))

    def _path_keys(self) -> set[str]:
        of_cells = () if self.tables is None else self.tables.guarantees
        own = () if self.related is None else self.related.tables.values()
        stages = [stage for policy in (self, *own) for stage in (*policy.entries, *policy.transform)]
        return {*PATH_KEYS, *(name for entry in (*stages, *of_cells) for name in marked(type(entry), FilePath))}

    def place_of(self, stage: int) -> str:
        """Where a stage is in the document, as in ``transform[1].generalize``."""
        return f"transform[{stage}].{self.transform[stage].name()}"

    def located(self, place: str) -> str:
        """A place with the file and line it is written in, for errors: ``release.yaml:14: transform[1].generalize``."""
        line, whole = self.lines.get(place), f"{self.outer}.{place}" if self.outer else place
        return whole if self.file is None or line is None else f"{self.file}:{line}: {whole}"

    def located_stage(self, stage: int) -> str:
        """Where a stage is written, for errors."""
        return self.located(self.place_of(stage))


def _default(each: Field[Any]) -> Any:
    if each.default_factory is not MISSING:
        return each.default_factory()
    if each.default is MISSING:
        raise TypeError(f"a policy needs {each.name}")
    return each.default


def _sha256(document: Mapping[str, Any], *without: str) -> str:
    counted = {name: value for name, value in document.items() if name not in without}
    canonical = json.dumps(counted, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
