"""The release runner: stage beside the target, judge what was written, publish in one move, judge again."""

from __future__ import annotations

import hashlib
import json
import logging
import platform
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import privpipe
from privpipe.assess import Assessment, assess
from privpipe.blocks.verdict import plain
from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source, Written
from privpipe.engines.base.fingerprint import fingerprint
from privpipe.engines.base.stamps import require_stamps, stamps_of
from privpipe.errors import EngineError, UsageError
from privpipe.release.aligning import attack_order, reads_pairs
from privpipe.release.ledger import NOT_JUDGED, history_entries
from privpipe.release.plan import Plan
from privpipe.release.population import population_beside
from privpipe.release.positions import reads_positions, run_positions
from privpipe.release.remembering import Remembering
from privpipe.release.remote import RemoteTarget, is_remote
from privpipe.release.rerun import Rerun
from privpipe.release.staging import Staged, attach, run_stages
from privpipe.release.target import METADATA, LocalTarget, Target
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    from privpipe.release.policy import Policy

__all__ = [
    "STEPS",
    "ReleaseResult",
    "judge_written",
    "release_with",
    "sink_format",
    "sink_order",
    "source_of",
    "stages_of",
    "target_of",
]

log = logging.getLogger("privpipe.release")
STEPS = ("scan", "stage", "write", "judge", "publish", "judge again", "done")
"""What `progress` is told, in this order (before each step)."""


@dataclass(frozen=True, kw_only=True)
class ReleaseResult:
    """A published release.

    Parameters
    ----------
    path : str
        Where it is read.
    run_id : str
    assessment : Assessment
        Of the published files.
    plan : Plan
    manifest : mapping
        What stands in `manifest.json`.
    """

    path: str
    run_id: str
    assessment: Assessment
    plan: Plan
    manifest: Mapping[str, Any]

    @property
    def verdict_document(self) -> dict[str, Any]:
        """The verdict document, as published."""
        return self.assessment.to_dict()


def release_with(
    engine: Engine,
    policy: Policy,
    *,
    target: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> ReleaseResult:
    """Stage, judge and publish the policy's source on an engine.

    Raises
    ------
    Refused
        A guarantee does not hold over the written files; it carries the assessment.
    NoSolutionError, DataError, UsageError, EngineError
        Nothing was published, and what was published before is untouched.
    """
    tell = progress or (lambda step: None)  # what it raises ends the run like any error: nothing is published then
    seed = policy.seed.resolve() if policy.seed else Seed.from_os()
    run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    with target_of(policy, target) as place, Remembering(policy, place) as memory:
        tell("scan")
        source = source_of(policy)
        stamps = stamps_of(source)
        original = attach(engine, source, policy, seed)
        generalized = policy.population is not None and policy.population.generalized
        population = None if generalized else population_beside(engine, policy, original)
        tell("stage")
        staged = run_stages(engine, original, policy, seed, population=population, progress=tell)
        if generalized:
            staged = replace(staged, population=population_beside(engine, policy, staged.table))
        tell("write")
        folder = place.stage(run_id)
        written = engine.write(staged.table, str(folder), sink_format(policy), sink_order(seed))
        tell("judge")
        header = _header(engine, policy, staged.plan, run_id)
        memory.gather(engine, staged.original, staged.table, staged.roles)
        rerun = Rerun(engine, policy, staged.original, seed)
        staged = replace(staged, rules=replace(staged.rules, histories=memory.histories, rerun=rerun))
        judged = judge_written(engine, policy, staged, folder, written, seed).within(**header)
        if not judged.passed:
            place.refuse(run_id, judged.to_dict())
            judged.raise_if_failed()
        manifest = _manifest(engine, policy, staged, folder, written, seed, header)
        require_stamps(stamps)
        _write_metadata(folder, judged, manifest)
        tell("publish")
        memory.prepare(run_id)
        try:
            path = place.publish(run_id)
        except BaseException:  # also when interrupted: the sink says whether the rename came first
            memory.settle()
            raise
        try:
            tell("judge again")
            again = judge_written(engine, policy, staged, place.published(run_id), written, seed).within(**header)
            if again.to_dict() != judged.to_dict():
                raise EngineError("the published files do not read back as they were judged; the release was withdrawn")
            tell("done")
        except BaseException:  # whatever stopped it, nobody judged what readers now see
            place.withdraw(run_id)
            memory.settle()
            raise
        memory.settle()
    return ReleaseResult(path=path, run_id=run_id, assessment=again, plan=staged.plan, manifest=manifest)


def source_of(policy: Policy) -> Source:
    """The policy's source, for a scan.

    Raises
    ------
    UsageError
        The policy names none.
    """
    if policy.source is None:
        raise UsageError("the policy has no `source:`; give one, or hand the data over in Python")
    return policy.source.to_source(policy.types, policy.base_dir)


def sink_format(policy: Policy) -> Any:
    """Format of the released files."""
    return policy.sink.format if policy.sink else "parquet"


def target_of(policy: Policy, target: str | None) -> Target:
    """The place to publish to: `target`, else the policy's sink."""
    path = target or (policy.sink.path if policy.sink else None)
    if path is None:
        raise UsageError("nowhere to publish to: give a `sink:` in the policy, or --target")
    if is_remote(path):
        return RemoteTarget(path)
    # A path of the policy starts at the policy file, one of the command line where the user stands.
    return LocalTarget(Path(path) if target else policy.base_dir / path)


def sink_order(seed: Seed) -> Any:
    """The keyed order in which released rows are written."""
    return Draws(seed, -1, "publish").of("order")


def judge_written(
    engine: Engine, policy: Policy, staged: Staged, folder: Path, written: Written, seed: Seed
) -> Assessment:
    """Judge the files, not the frame they came from; by that frame only to count persons the files do not tell apart.

    Then the files are proved to hold the very same records.
    """
    types = {field.name: column_type_of(field.type) for field in staged.table.schema}
    files = Source(data=str(folder), format=sink_format(policy), types=types, quoted_nulls=False)
    table = engine.scan(files)
    if list(table.schema.names) != list(staged.table.schema.names):
        raise EngineError("the written files do not have the columns of the release")
    paired = reads_pairs(policy)
    if (staged.counted is not None or paired) and fingerprint(engine, table, seed) != fingerprint(
        engine, staged.table, seed
    ):
        raise EngineError("the written files do not hold the records that were staged")
    positions = None
    if reads_positions(policy):
        positions = run_positions(engine, policy, source_of(policy), staged.table, files, seed, sink_order(seed))
    if staged.counted is not None:
        table = staged.counted
    judged = assess(
        engine,
        table,
        guarantees=policy.guarantees,
        measures=policy.measures,
        roles=staged.roles,
        rules=replace(staged.rules, stages=stages_of(staged.plan), order=attack_order(seed), positions=positions),
        original=staged.original,
        released=staged.table if paired else None,
        population=staged.population,
    )
    if judged.records + judged.suppressed_records != written.records:
        raise EngineError(
            f"{written.records:,} records were written but {judged.records + judged.suppressed_records:,} were judged"
        )
    notes = judged.notes if history_entries(policy) else (*judged.notes, NOT_JUDGED)
    return replace(judged, suppressed_records=judged.suppressed_records + staged.suppressed_records, notes=notes)


def stages_of(plan: Plan) -> tuple[Mapping[str, Any], ...]:
    """The stages of a plan as attacks read them: methods and parameters are public."""
    stages: tuple[Mapping[str, Any], ...] = tuple(plan.to_dict()["stages"])
    return stages


def _header(engine: Engine, policy: Policy, plan: Plan, run_id: str) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "name": policy.name,
        "policy_hash": policy.digest(),
        "plan_hash": plan.digest,
        "engine": engine.name,
        "versions": {"privpipe": privpipe.__version__, "python": platform.python_version(), **engine.versions()},
        "nulls": policy.nulls,
        "suppression_mark": policy.suppression_mark,
    }


def _manifest(
    engine: Engine,
    policy: Policy,
    staged: Staged,
    folder: Path,
    written: Written,
    seed: Seed,
    header: Mapping[str, Any],
) -> dict[str, Any]:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return {
        **header,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "policy": plain(policy.public_document()),
        "plan": staged.plan.to_dict(),
        "seed_commitment": seed.commitment(),
        "input": {"records": staged.plan.records, "fingerprint": fingerprint(engine, staged.original, seed)},
        "output": {
            "records": written.records,
            "suppressed_records": staged.suppressed_records,
            "columns": list(staged.table.schema.names),
            "files": [{"name": path.name, "bytes": path.stat().st_size, "sha256": _sha256(path)} for path in files],
        },
    }


def _write_metadata(folder: Path, judged: Assessment, manifest: Mapping[str, Any]) -> None:
    home = folder / METADATA
    home.mkdir()
    for name, document in (("verdict.json", judged.to_dict()), ("manifest.json", manifest)):
        text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
        (home / name).write_text(text + "\n", encoding="utf-8")
    (home / "plan.json").write_text(json.dumps(manifest["plan"], sort_keys=True, indent=2) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
