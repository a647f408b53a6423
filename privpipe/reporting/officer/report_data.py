"""`ReportData`: what the officer's report shows of a run, its columns and its signatures, as plain values.

A page is a function of it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from privpipe.blocks.marks import Columns, Levels
from privpipe.blocks.public_edition import LEAST_REPORTED, PublicRules
from privpipe.blocks.verdict import plain
from privpipe.judging.notes import stage_names
from privpipe.reporting.entry_rows import (
    JudgedRow,
    entry_class,
    judged_row,
    own_parameters,
    parameter_text,
    without_few,
)
from privpipe.reporting.officer.charts import other_searches, solution_space
from privpipe.reporting.officer.languages import REPORT_VERSION
from privpipe.reporting.run_comparison import compare_runs
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["ColumnRow", "ReportData", "State", "column_rows", "sign_off_of", "waiting_sign_off"]


@dataclass(frozen=True, kw_only=True)
class ColumnRow:
    """One column of the source, or one that a stage made.

    Parameters
    ----------
    name, role : str
    released : bool
    done : tuple of (str, int or None)
        Stages that touched it, in order, with the level where they set one.
    labels_before, labels_after : int or None
    changed, blanked, loss : float or None
    few : tuple of str
        Which of these shares rest on too few records to be shown.
    measured_by, alarm : str
    reason : str
        What the policy states about its role; never public.
    """

    name: str
    role: str
    released: bool
    done: tuple[tuple[str, int | None], ...] = ()
    labels_before: int | None = None
    labels_after: int | None = None
    changed: float | None = None
    blanked: float | None = None
    loss: float | None = None
    few: tuple[str, ...] = ()
    measured_by: str = ""
    alarm: str = ""
    reason: str = ""


def column_rows(run: RunDocuments, least: int) -> tuple[ColumnRow, ...]:
    """Released columns in their order, then the others; of a verdict alone none.

    Parameters
    ----------
    run : RunDocuments
    least : int
        Records that a share must rest on.
    """
    declared = run.policy.get("columns", {})
    roles = {
        str(name): str(each.get("role", "insensitive")) if isinstance(each, Mapping) else "insensitive"
        for name, each in (declared.items() if isinstance(declared, Mapping) else ())
    }
    released = list(run.manifest.get("output", {}).get("columns", run.report.get("columns", [])))
    table = run.verdict.get("column_loss") or {}
    lost = {str(each["column"]): each for each in table.get("columns") or ()}
    roles |= {name: str(each["role"]) for name, each in lost.items() if name not in roles}
    names = list(dict.fromkeys((*released, *roles)))
    keys = [name for name, role in roles.items() if role == "quasi_identifier"]
    rules = PublicRules(columns=frozenset(), least=least)
    reasons = run.report.get("reasons") or {} if run.edition != "public" else {}
    found = []
    for name in names:
        own, records = lost.get(name, {}), int(table.get("records") or 0)
        shares = {each: own.get(each) for each in ("changed", "blanked")}
        shown = {each: rules.reported(value, records) for each, value in shares.items()}
        found.append(
            ColumnRow(
                name=name,
                role=roles.get(name, "insensitive"),
                released=name in released,
                done=_done(name, run.stages, keys) if name in released else (),
                labels_before=own.get("labels_before"),
                labels_after=own.get("labels_after"),
                **shown,
                loss=own.get("loss"),
                few=tuple(each for each, value in shares.items() if value != shown[each]),
                measured_by=str(own.get("measured_by") or ""),
                alarm=str(own.get("alarm") or ""),
                reason=" ".join(str(reasons.get(name, "")).split()),
            )
        )
    return tuple(found)


BY_RECORD = ("drop_identifiers", "sample", "suppress_records")


def _done(column: str, stages: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> tuple[tuple[str, int | None], ...]:
    """The stages that touched a column; a level of 0 touched nothing."""
    found: list[tuple[str, int | None]] = []
    for stage in stages:
        name, levels = str(stage["name"]), stage.get("detail", {}).get("levels")
        if name in BY_RECORD:
            continue
        if isinstance(levels, Mapping):
            if levels.get(column):
                found.append((name, int(levels[column])))
            continue
        named = stage_names(stage, Columns) or stage_names(stage, Levels)
        every = stage.get("parameters", {}).get("columns") == "all" or name == "synthesize"
        if every or column in (named or keys):
            found.append((name, None))
    return tuple(found)


COLUMNS = ("name", "role", "time", "decision", "signature")
DECIDED = {"approve": "approved", "reject": "rejected"}


def sign_off_of(run: RunDocuments, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What is known of the signatures of a run, with every key.

    Parameters
    ----------
    given : mapping, optional
        Instead of what the documents of the run say.

    Examples
    --------
    >>> from privpipe.reporting.run_documents import RunDocuments
    >>> made = {"name": "Ada", "decision": "approve", "signed_at": "2026-01-02T03:04:05+00:00", "signature": "c2ln"}
    >>> told = sign_off_of(RunDocuments("a", {}, {"sign_off": {"signatures": [made]}}))
    >>> told["state"], told["signed"][0]["decision"]
    ('signed', 'approved')
    """
    found = given if given is not None else _told(run)
    return {
        "state": str(found.get("state") or ""),
        "required": [str(role) for role in found.get("required") or ()],
        "persons": int(found.get("persons") or 0),
        "valid_days": int(found.get("valid_days") or 0),
        "commands": [str(line) for line in found.get("commands") or ()],
        "signed": [{name: str(each.get(name) or "") for name in COLUMNS} for each in found.get("signed") or ()],
    }


def waiting_sign_off(request: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Whose approval a run waits for, how long an approval holds, and the commands to sign and to go on.

    Parameters
    ----------
    request : mapping
        What is to be signed, for a run that waits.
    folder : str
        Where it waits.
    """
    asked, run_id = request["asked"], str(request["statement"]["run_id"])
    return {
        "state": "waiting",
        "required": list(asked["by"]),
        "persons": 1 + bool(asked["two_persons"]),
        "valid_days": asked["valid_days"],
        "commands": [
            f"privpipe sign {shlex.quote(os.path.abspath(folder))} --as NAME --decision approve",
            f"privpipe release POLICY --continue {shlex.quote(run_id)}",
        ],
    }


def _told(run: RunDocuments) -> Mapping[str, Any]:
    """As the request of a run that waits has it, else its manifest."""
    if run.request:
        return waiting_sign_off(run.request, run.path)
    signatures = (run.manifest.get("sign_off") or {}).get("signatures") or ()
    signed = [
        {
            "name": each["name"],
            "time": each["signed_at"],
            "decision": DECIDED.get(each["decision"], each["decision"]),
            "signature": each["signature"],
        }
        for each in signatures
    ]
    return {"state": "signed", "signed": signed} if signed else {}


State = Literal["published", "waiting", "refused", "lost", "judged"]
"""``lost``: refused since a column lost too much; ``judged``: a table that no run published."""
ABOUT = ("engine", "policy_hash", "plan_hash", "nulls", "suppression_mark")


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """What a report shows; no count of records in it is below `threshold` and above 0.

    Parameters
    ----------
    edition : {"public", "private"}
    state : {"published", "waiting", "refused", "lost", "judged"}
    threshold : int
        Records that a figure must be based on.
    run : mapping
        Name, run id, when, engine, versions, hashes, files.
    records : mapping
        released, suppressed, input and classes; None where withheld or few.
    columns : tuple of ColumnRow
    guarantees, measures : tuple of JudgedRow
    stages : tuple of mapping
        Name and parameters, in order.
    classes, risks : mapping or None
    distributions : mapping of column to mapping
    sampled : int or None
        Records that distributions rest on, where these are not all.
    space : mapping or None
        See `solution_space`.
    searches : tuple of mapping
        See `other_searches`.
    tried : mapping or None
        A `RiskUtilityMap` as a document.
    changes : mapping or None
        Against the release before.
    notes, alarms, warnings : tuple of str
    sign_off : mapping
        ``state``: ``waiting``, ``signed`` or empty, where none was required; ``required``: persons or roles;
        ``persons``: how many of them must sign; ``valid_days``: how long an approval holds; ``commands``: how to sign;
        ``signed``: name, role, time, decision and signature of each.
    """

    version: int = REPORT_VERSION
    edition: Literal["public", "private"]
    state: State
    threshold: int
    run: Mapping[str, Any]
    records: Mapping[str, int | None]
    columns: tuple[ColumnRow, ...] = ()
    guarantees: tuple[JudgedRow, ...]
    measures: tuple[JudgedRow, ...] = ()
    stages: tuple[Mapping[str, Any], ...] = ()
    classes: Mapping[str, Any] | None = None
    risks: Mapping[str, Any] | None = None
    distributions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sampled: int | None = None
    space: Mapping[str, Any] | None = None
    searches: tuple[Mapping[str, Any], ...] = ()
    tried: Mapping[str, Any] | None = None
    changes: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sign_off: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        run: RunDocuments,
        *,
        sign_off: Mapping[str, Any] | None = None,
        tried: Mapping[str, Any] | None = None,
    ) -> Self:
        """All that the documents of a run say, in the edition that they are.

        Parameters
        ----------
        run : RunDocuments
        sign_off : mapping, optional
            Instead of what the documents say.
        tried : mapping, optional
            What ``privpipe compare POLICY --grid FILE --json`` printed; for the internal edition.

        Examples
        --------
        >>> row = {"name": "k_anonymity", "parameters": {"k": 3}, "observed": 4, "threshold": 3, "outcome": "pass"}
        >>> verdict = {"run_id": "a", "records": 90, "passed": True, "guarantees": [row], "measures": []}
        >>> data = ReportData.of(RunDocuments("a", verdict))
        >>> data.state, data.guarantees[0].margin
        ('judged', 1.0)
        """
        private = run.edition != "public"
        figures = run.report if private else {}
        least = int(figures.get("threshold") or LEAST_REPORTED)
        verdict, records = run.verdict, int(run.verdict.get("records") or 0)
        signatures = sign_off_of(run, sign_off)
        return cls(
            edition="private" if private else "public",
            state=_state(run, signatures),
            threshold=least,
            run=_about(run, figures),
            records=_counts(run, figures, least),
            columns=column_rows(run, least),
            guarantees=tuple(judged_row(row, records, least) for row in verdict["guarantees"]),
            measures=tuple(judged_row(row, records, least) for row in verdict["measures"]),
            stages=tuple(_stage(stage) for stage in run.stages),
            classes=figures.get("classes"),
            risks=figures.get("risks"),
            distributions=_in_order(figures.get("distributions") or {}, figures.get("columns") or ()),
            sampled=figures.get("sampled"),
            space=solution_space(run.stages, least) if private else None,
            searches=other_searches(run.stages, least) if private else (),
            tried=tried if private else None,
            changes=_changes(run, figures, least),
            notes=tuple(without_few(note, least) for note in verdict.get("notes") or ()),
            alarms=tuple(verdict.get("alarms") or ()),
            warnings=tuple(
                row["name"]
                for row in verdict["guarantees"]
                if row.get("severity") == "warn" and row.get("outcome") != "pass"
            ),
            sign_off=signatures,
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole as plain JSON values."""
        found: dict[str, Any] = plain(asdict(self))
        return found


def _in_order(found: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """By column, as released."""
    return {name: found[name] for name in columns if name in found}


def _state(run: RunDocuments, sign_off: Mapping[str, Any]) -> State:
    verdict = run.verdict
    if not verdict.get("passed"):
        binding = [row for row in verdict["guarantees"] if row.get("severity") != "warn"]
        holds = bool(binding) and all(row.get("outcome") == "pass" for row in binding)
        return "lost" if holds and verdict.get("alarms") else "refused"
    if sign_off.get("state") == "waiting":
        return "waiting"
    return "published" if run.manifest else "judged"


def _about(run: RunDocuments, figures: Mapping[str, Any]) -> dict[str, Any]:
    verdict, manifest = run.verdict, run.manifest
    output = manifest.get("output", {})
    return {
        "name": verdict.get("name") or run.name,
        "run_id": verdict.get("run_id"),
        "created": manifest.get("created") or figures.get("created"),
        **{name: verdict.get(name) for name in ABOUT},
        "versions": dict(verdict.get("versions") or {}),
        "source": manifest.get("input", {}).get("fingerprint") if isinstance(manifest.get("input"), Mapping) else None,
        "seed": manifest.get("seed_commitment"),
        "files": [dict(each) for each in output.get("files") or () if isinstance(each, Mapping)],
    }


def _counts(run: RunDocuments, figures: Mapping[str, Any], least: int) -> dict[str, int | None]:
    verdict = run.verdict
    suppressed = verdict.get("suppressed_records")
    few = suppressed is not None and 0 < suppressed < least
    source = run.manifest.get("input", {}) if isinstance(run.manifest.get("input", {}), Mapping) else {}
    entered = source.get("records", figures.get("input_records"))
    return {
        "released": verdict.get("records"),
        "suppressed": None if few else suppressed,
        "few_suppressed": int(few),
        # It would give few suppressed records away.
        "input": None if few or suppressed is None else entered,
        "classes": verdict.get("classes"),
    }


def _stage(stage: Mapping[str, Any]) -> dict[str, Any]:
    """Name, kind and chosen parameters of a stage, and the levels it set."""
    own = own_parameters(stage)
    levels = stage.get("detail", {}).get("levels")
    return {
        "name": str(stage["name"]),
        "kind": str(getattr(entry_class(str(stage["name"])), "taxon", "")),
        "parameters": ", ".join(f"{name}: {parameter_text(value)}" for name, value in own.items()),
        "levels": {str(name): int(level) for name, level in levels.items()} if isinstance(levels, Mapping) else {},
    }


def _changes(run: RunDocuments, figures: Mapping[str, Any], least: int) -> dict[str, Any] | None:
    """What differs from the release before, figure by figure, except for few records."""
    earlier = figures.get("earlier")
    if not earlier:
        return None
    before = RunDocuments("", earlier["verdict"], {"plan": earlier.get("plan") or {}})
    found = compare_runs(before, RunDocuments("", run.verdict, {"plan": {"stages": run.stages}}))
    rows = []
    for row in found.figures:
        entry = entry_class(row.entry.partition(" ")[0])
        shares = entry is None or entry.counts_records()
        sides = ((row.left, before.verdict), (row.right, run.verdict))
        few = [shares and _rests_on_few(value, verdict, least) for value, verdict in sides]
        rows.append(
            {
                "entry": row.entry,
                "before": None if few[0] else row.left,
                "now": None if few[1] else row.right,
                "few": few,
                "outcomes": [row.left_outcome, row.right_outcome],
            }
        )
    columns = (earlier.get("columns") or [], run.manifest.get("output", {}).get("columns", figures.get("columns", [])))
    return {
        "run_id": before.name,
        "created": earlier.get("created"),
        "records": [before.verdict.get("records"), run.verdict.get("records")],
        "columns_added": [name for name in columns[1] if name not in columns[0]],
        "columns_removed": [name for name in columns[0] if name not in columns[1]],
        "same_policy": before.verdict.get("policy_hash") == run.verdict.get("policy_hash"),
        "settings": {
            place: [parameter_text(value) if value is not None else "" for value in pair]
            for place, pair in found.settings.items()
        },
        "figures": rows,
    }


def _rests_on_few(value: float | None, verdict: Mapping[str, Any], least: int) -> bool:
    return value is not None and 0 < value < 1 and value * int(verdict.get("records") or 0) < least - 1e-9
