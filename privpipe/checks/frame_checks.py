"""Checks of a frame by a policy or by entries without a document; arguments are checked before a row is read."""

from __future__ import annotations

import functools
import logging
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import PurePath
from typing import Any, Literal, Self, TypeVar, Unpack, get_args, overload

import pyarrow as pa

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.guarantee import CheckOptions
from privpipe.blocks.verdict import binding
from privpipe.border import bordered
from privpipe.compiled import passed_over
from privpipe.engines import Source
from privpipe.engines.base.frame_kinds import is_evaluated, known_as_held
from privpipe.engines.base.frames import (
    Held,
    arrow_of,
    as_handed,
    at_hand,
    frame_like,
    is_local_frame,
    is_pandas_on_spark,
    made_like,
)
from privpipe.engines.base.logical_types import CARRIED
from privpipe.engines.base.return_forms import ReturnForm
from privpipe.engines.lakes import pinned
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.judging import Assessment
from privpipe.judging.rules import UndeclaredRule, undeclared_rule
from privpipe.policy import Policy
from privpipe.policy.catalogues import is_entry_name, named_entries
from privpipe.policy.secret import secret_given
from privpipe.policy.specs import FrameSpec, SourceSpec
from privpipe.roles import NullRule, Roles, require_empty_rule, roles_of_call
from privpipe.running.finished_table import judge_table
from privpipe.running.frame_policies import hierarchy_specs, policy_around
from privpipe.running.run_context import OpenedEngine, pinned_tables, scanned

__all__ = ["Check", "assess", "check", "checked", "held_frame", "judge_frame", "judged_alone"]


KNOWN = tuple(CheckOptions.__annotations__)


@dataclass(frozen=True, kw_only=True)
class Check:
    """Entries and the options around them.

    Parameters
    ----------
    guarantees, measures : tuple of Guarantee
        With a threshold, and without.
    roles : Roles
    undeclared : {"refuse", "note"}
        What becomes of a column without a role.
    given : mapping
        The options that were given.
    """

    guarantees: tuple[Guarantee, ...]
    measures: tuple[Guarantee, ...]
    roles: Roles
    undeclared: UndeclaredRule
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, entries: Any, options: Mapping[str, Any]) -> Self:
        """The entries and options of a call.

        Raises
        ------
        UsageError
            No entry, something that is none, an unknown option, or one of another kind.
        """
        asked = named_entries(entries, "guarantees")
        if not asked or not all(isinstance(each, Guarantee) for each in asked):
            raise UsageError("give a policy, a model or measure, or a list of them, as in [KAnonymity(k=5)]")
        for name in options:
            if name not in KNOWN:
                raise UsageError(f"unknown option {name!r}{did_you_mean(name, KNOWN)}; known: {', '.join(KNOWN)}")
        given = {name: value for name, value in options.items() if value is not None}
        if given.get("nulls", "own_value") not in get_args(NullRule):
            raise UsageError(f"nulls must be one of {', '.join(get_args(NullRule))}")
        require_empty_rule(given.get("empty"))
        roles = _with_own(roles_of_call(given), asked)
        _require_keys(asked, roles)
        _require_population(asked, given)
        asked = tuple(entry.with_roles(roles).beside("population" in given) for entry in asked)
        return cls(
            guarantees=tuple(entry for entry in asked if entry.is_gate()),
            measures=tuple(entry for entry in asked if not entry.is_gate()),
            roles=roles,
            undeclared=undeclared_rule(given.get("undeclared"), whole="roles" in given),
            given=given,
        )

    def only(self, judged: Assessment) -> Verdict:
        """The verdict of a check by one entry; that of `no_identifiers` where the frame holds an identifier."""
        return judged.verdicts[0] if self.guarantees else judged.measures[-1]

    def policy(self, columns: Sequence[str]) -> Policy:
        """The policy for a frame with these columns.

        Raises
        ------
        DataError
            A column that an option or an entry names is not in the frame.
        """
        for entry in (*self.guarantees, *self.measures):
            for name in (*(entry.quasi_identifiers or ()), *(entry.own_columns() or ()), *entry.record_columns()):
                if name not in columns:
                    raise DataError(f"{entry.name()}: column {name!r} is not in the frame{did_you_mean(name, columns)}")
        values = {
            name: self.given[name]
            for name in ("record_id", "person_id", "household_id", "nulls", "empty")
            if name in self.given
        }
        return policy_around(
            columns,
            roles=self.roles,
            undeclared=self.undeclared,
            hierarchies=hierarchy_specs(self.given.get("hierarchies")),
            guarantees=self.guarantees,
            measures=self.measures,
            population=_population(self.given.get("population")),
            suppression_mark=self.given.get("mark"),
            seed=secret_given(self.given["seed"]) if "seed" in self.given else None,
            **values,
        )


def _with_own(roles: Roles, entries: Sequence[Guarantee]) -> Roles:
    """The sensitive columns that entries name themselves need no further role."""
    named = dict.fromkeys(name for entry in entries for name in entry.sensitive_columns())
    for name in named:
        if name in roles.columns and roles.of(name) != "sensitive":
            raise UsageError(f"{name!r} is given as {roles.of(name)} and an entry counts it as a sensitive column")
    more = [name for name in named if name not in roles.columns]
    return replace(roles, sensitive=(*roles.sensitive, *more)) if more else roles


def _require_keys(entries: Sequence[Guarantee], roles: Roles) -> None:
    if roles.quasi_identifiers:
        return
    for entry in entries:
        if entry.quasi_identifiers is None and entry.way.over_classes and entry.own_columns() is None:
            raise UsageError(
                f"{entry.name()} forms classes and no quasi-identifier is given, so every table would pass: give "
                "quasi_identifiers=[...] the columns by which a person could be recognised"
            )


def _require_population(entries: Sequence[Guarantee], given: Mapping[str, Any]) -> None:
    for entry in entries:
        if entry.needs_population and "population" not in given:
            raise UsageError(f"{entry.name()} needs population=, the table of all persons it could be about")


def _population(given: Any) -> SourceSpec | None:
    if given is None:
        return None
    if isinstance(given, str | PurePath):
        return SourceSpec(path=str(given), generalized=True)
    return FrameSpec(frame=at_hand(given, "assess, population="), generalized=True)


F = TypeVar("F")
Named = Guarantee | str | Mapping[str, Any]
Entries = Policy | PathLike[str] | Named | list[Guarantee] | Sequence[Named]
OF_POLICIES = ("original", "align", "engine")
REFUSED = "Do not release this frame."
NOTHING = Policy.of_fields(name="frame", columns={}, guarantees=())
log = logging.getLogger("privpipe.checks")


@bordered
def assess(
    data: Any,
    policy: Entries,
    *,
    allow_empty: bool = False,
    **options: Unpack[CheckOptions],
) -> Assessment:
    """Judge a table by a policy's guarantees and measures, or by single entries.

    Parameters
    ----------
    data : path or frame
        Parquet, CSV, JSON, or a pandas, polars, pyarrow, DuckDB, Ibis, Dask or Spark frame. None: the policy's source.
        By a policy about related tables, a mapping of their names to frames or paths.
    policy : Policy, path or mapping; or an entry, or a list of them
        All entries share one count. An entry may be given as in a policy: ``{"k_anonymity": {"k": 5}}``, or its name.
    allow_empty : bool
        Let a table with only suppressed records pass.
    options : see `CheckOptions`
        With a policy: `original`, `align` and `engine`. With entries, all of them.

    Returns
    -------
    Assessment
        Also when it fails; `raise_if_failed()` raises.

    Raises
    ------
    UsageError, DataError, EngineError

    Notes
    -----
    By a policy or by `roles`, a column without a role is an error (`undeclared: note` makes it a note), and a table
    that is passed is judged as finished: a column whose role is `identifier` is a fail, first among the verdicts.
    The policy's own source is raw by nature; its identifiers are noted. Where only `quasi_identifiers` (and
    `sensitive`) are given, the other columns are noted and taken as insensitive. Named index levels are columns.

    A lazy frame is evaluated once for the whole judgement; `checked` gives the very rows that were judged.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> frame = pd.DataFrame({"zip": ["081", "081", "082"]})
    >>> pp.assess(frame, [pp.models.KAnonymity(k=2)], quasi_identifiers=["zip"]).verdicts[0].observed
    1
    >>> policy = {
    ...     "version": 1,
    ...     "columns": {"zip": {"role": "quasi_identifier"}},
    ...     "guarantees": [{"k_anonymity": {"k": 2}}],
    ... }
    >>> pp.assess(frame, policy).passed
    False
    """
    policy = _entries_of(policy)
    if isinstance(policy, Policy | str | PathLike | Mapping):
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in OF_POLICIES:
                raise UsageError(f"{name}= is for checks by entries; the policy states it itself")
        from privpipe.running.verbs import assess as assess_by_policy

        handed = data if isinstance(data, Mapping) else at_hand(data, "assess")
        return assess_by_policy(handed, policy, allow_empty=allow_empty, **given)  # type: ignore[arg-type]
    return judge_frame(data, Check.of(policy, options), allow_empty=allow_empty)


@overload
def check(
    frame: Any, entries: Entries, *, hold: Literal[False] = False, **options: Unpack[CheckOptions]
) -> Assessment: ...


@overload
def check(frame: F, entries: Entries, *, hold: Literal[True], **options: Unpack[CheckOptions]) -> F: ...


@bordered
def check(frame: Any, entries: Entries, *, hold: bool = False, **options: Unpack[CheckOptions]) -> Any:
    """Judge a frame as `assess` does, and raise where a guarantee does not hold: for a line in a job.

    Of a lazy frame (Spark, Dask, a DuckDB relation, a polars LazyFrame, a dataset) it judges one evaluation. Anyone who
    writes the frame afterwards evaluates it again, and where a source has changed, or the plan is not deterministic,
    writes rows that were not judged: use what `hold` gives, or `checked`.

    Parameters
    ----------
    frame : frame
        As of `assess`; or finished tables of cells.
    entries : as the `policy` of `assess`
    hold : bool
        Return the frame that was judged, of the same kind, with its rows held where they are.
    **options : see `CheckOptions`

    Returns
    -------
    Assessment, or the frame

    Raises
    ------
    Refused
        It carries the assessment.
    UsageError
        Also where no entry has a threshold, or all of them only warn, so that nothing could fail; a path, which cannot
        be held.
    UnsupportedError
        The rows are to be held and cannot be: a Spark session that allows no checkpoints.

    Examples
    --------
    >>> import pandas as pd
    >>> import privpipe as pp
    >>> frame = pd.DataFrame({"zip": ["081", "081", "082", "082"]})
    >>> pp.check(frame, pp.models.KAnonymity(k=2), quasi_identifiers=["zip"]).passed
    True
    >>> import duckdb
    >>> drawn = duckdb.sql("SELECT (random() * 100)::INTEGER // 1000 AS age FROM range(4)")
    >>> pp.check(drawn, pp.models.KAnonymity(k=2), quasi_identifiers=["age"], hold=True).fetchall()
    [(0,), (0,), (0,), (0,)]
    """
    entries = _entries_of(entries)
    if "privpipe.tables.table" in sys.modules:  # else the frame cannot be a table of cells
        from privpipe.running.table_frames import check_tables, is_table

        if is_table(frame):
            return check_tables(frame, entries, options)
    _require_gates(entries)
    if not hold:
        _say_once(frame)
        return assess(frame, entries, **options).raise_if_failed(REFUSED)
    return _passed(frame, *held_frame(frame, options.get("engine")), entries, options)


@bordered
@contextmanager
def checked(frame: F, entries: Entries, **options: Unpack[CheckOptions]) -> Iterator[F]:
    """The frame that `check` judged, for the length of a `with` statement: the same rows, however often it is used.

    A lazy frame is evaluated once and its rows are held where they are: of a Spark frame in a checkpoint (in the
    checkpoint directory, where the session has one, else on the executors' disks), of a Dask frame in the memory of
    its workers or of this process, of a DuckDB relation or a dataset in a file of this process without a name. They
    are let go of at the end. Rows that are lost with an executor or a worker make a later use fail; they never come
    back as others. A frame that is not lazy is returned unchanged.

    Parameters
    ----------
    frame : frame
    entries : as of `check`
    options : see `CheckOptions`

    Yields
    ------
    frame
        Of the kind of `frame`; a DataFrame for a polars LazyFrame.

    Raises
    ------
    Refused, UsageError, UnsupportedError
        As `check`.

    Examples
    --------
    >>> import duckdb
    >>> import privpipe as pp
    >>> people = duckdb.sql("SELECT (random() * 100)::INTEGER // 1000 AS age FROM range(4)")
    >>> with pp.checked(people, pp.models.KAnonymity(k=2), quasi_identifiers=["age"]) as safe:
    ...     len(safe)
    4
    """
    rows, held = _held_and_passed(frame, bordered(_entries_of)(entries), options)
    try:
        yield rows
    finally:
        bordered(held.release)()


@bordered
def _held_and_passed(frame: Any, entries: Entries, options: Any) -> tuple[Any, Held]:
    """What `checked` does before the block of the caller begins."""
    _require_gates(entries)
    native, held = held_frame(frame, options.get("engine"))
    return _passed(frame, native, held, entries, options), held


def _entries_of(given: Any) -> Any:
    """Entries that are given by name or as in a policy, read; a policy as it is."""
    by_name = isinstance(given, str | Mapping) and is_entry_name(given, "guarantees")
    if by_name or isinstance(given, type | list | tuple):
        return named_entries(given, "guarantees")
    return given


def _require_gates(entries: Any) -> None:
    if isinstance(entries, Guarantee | list | tuple):
        own = (entries,) if isinstance(entries, Guarantee) else entries
        gates = [entry for entry in own if isinstance(entry, Guarantee) and entry.is_gate()]
        if own and not gates:
            raise UsageError("none of the entries has a threshold, so the check could not fail; give one, as in k=5")
        if gates and not binding(gates):
            raise UsageError("every entry only warns, so the check could not fail; give one of severity fail")


def held_frame(frame: Any, engine: Any = None) -> tuple[Any, Held]:
    """The frame as engines read it, and its rows, evaluated."""
    if frame is None or isinstance(frame, str | PurePath | Source | Mapping):
        raise UsageError(
            "a path, the name of a table or several tables are not a frame whose rows can be held: read it first, or "
            "publish it by `privpipe.release`, which judges the files that it writes"
        )
    found = at_hand(frame, "checked", index=is_pandas_on_spark(frame))
    if is_evaluated(found):
        return found, Held(found)
    with OpenedEngine(engine, found, NOTHING, holds=False) as running:
        held = running.frames.hold(found, lasting=True)
    return found, Held(known_as_held(held.rows), held.release)


def _passed(frame: Any, native: Any, held: Held, entries: Entries, options: Any) -> Any:
    """The held rows as a frame of the kind that was passed, once they are judged."""
    with held.unless_refused():
        assess(held.rows, entries, **options).raise_if_failed(REFUSED)
    made = frame_like(held.rows, made_like(native, frame)) if isinstance(held.rows, pa.Table) else held.rows
    return known_as_held(as_handed(made, frame, ReturnForm.labels_of(secrets.token_hex(8))))


def _say_once(frame: Any) -> None:
    if not is_evaluated(frame):
        _say(type(frame).__module__.partition(".")[0])


@functools.cache
def _say(library: str) -> None:
    log.warning(
        "pp.check judged one evaluation of a lazy frame (%s): using the frame evaluates it again, and gives other rows "
        "where a source changed or the plan is not deterministic; use the frame that pp.checked(...) gives",
        library,
    )


@bordered
def judged_alone(entry: Guarantee, frame: Any, options: Mapping[str, Any]) -> Verdict:
    """See `CheckFace.assess`."""
    asked = Check.of(entry, options)
    return asked.only(judge_frame(frame, asked))


def judge_frame(data: Any, asked: Check, *, allow_empty: bool = False) -> Assessment:
    """Judge a frame, or a path, by entries."""
    if data is None:
        raise UsageError("give a frame or a path to judge")
    frame = at_hand(data, "assess")
    if is_local_frame(frame) and is_evaluated(frame):
        frame = arrow_of(frame)  # once: it is read for its columns, and to be counted
    with passed_over(), OpenedEngine(asked.given.get("engine"), frame, NOTHING) as engine:
        unread = dict.fromkeys((*asked.roles.carried, *asked.roles.unreleased), CARRIED)
        source = frame if isinstance(frame, Source) else Source(data=frame, types=unread)
        source = pinned(source) if source.is_path else source
        policy = pinned_tables(asked.policy(scanned(engine, source).schema.names))
        align = asked.given.get("align", "record_id")
        original = at_hand(asked.given.get("original"), "assess, original=")
        return judge_table(engine, frame, policy, original, align, allow_empty=allow_empty)
