"""`ReportData`: all that the officer's report says of a run, as plain values; a page is a function of it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from privpipe.blocks.public_rules import LEAST_REPORTED
from privpipe.blocks.verdict import plain
from privpipe.reporting.entry_rows import entry_class, own_parameters, parameter_text
from privpipe.reporting.officer.column_rows import ColumnRow, column_rows
from privpipe.reporting.officer.judged_rows import JudgedRow, judged_row, without_few
from privpipe.reporting.officer.languages import REPORT_VERSION
from privpipe.reporting.officer.sign_off import sign_off_of
from privpipe.reporting.officer.solution_space import other_searches, solution_space
from privpipe.reporting.run_comparison import compare_runs
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["ReportData", "State"]

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
        Records that a figure must rest on.
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
        ``state``: ``waiting``, ``signed`` or empty, where nobody asked for one; ``required``: persons or roles;
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
            warnings=tuple(row["name"] for row in verdict["guarantees"] if _warns(row)),
            sign_off=signatures,
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole as plain JSON values."""
        found: dict[str, Any] = plain(asdict(self))
        return found


def _in_order(found: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """By column, as they are released."""
    return {name: found[name] for name in columns if name in found}


def _warns(row: Mapping[str, Any]) -> bool:
    return row.get("severity") == "warn" and row.get("outcome") != "pass"


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
    """What differs from the release before, figure by figure, few records apart."""
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
