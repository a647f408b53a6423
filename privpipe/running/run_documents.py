"""The documents of a run in both editions, and the notes of its verdict."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import privpipe
from privpipe import plugins
from privpipe.blocks.public_edition import LEAST_REPORTED, PublicRules
from privpipe.blocks.verdict import Verdict, plain
from privpipe.draws import Seed
from privpipe.engines import Engine, Written
from privpipe.engines.base.batches import in_order
from privpipe.errors import UsageError
from privpipe.judging import Assessment
from privpipe.kernels.integer_programs import NAME, PACKAGE
from privpipe.running.plan import Plan, document_digest
from privpipe.running.release_chain import (
    MANIFEST_VERSION,
    Chain,
    document_hashes,
    input_commitment,
    plan_commitment,
    sealed,
)
from privpipe.running.run_context import RunContext, judging_rules, withholds_counts
from privpipe.running.staging import Staged
from privpipe.running.tables_read import versions_read
from privpipe.sinks.local import METADATA
from privpipe.sinks.records import document_text
from privpipe.transforms.base import RowTransformer, Transformer

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = [
    "INSECURE",
    "finished",
    "linking_notes",
    "output_of",
    "public_rules",
    "require_publishable_seed",
    "run_documents",
    "run_header",
    "seed_notes",
    "solver_at_work",
    "value_notes",
    "versions_at_work",
    "write_public",
]


def solver_at_work(policy: Policy) -> dict[str, str] | None:
    """Its name and the version of the package that brings it; None where no entry solves integer programs."""
    if not any(entry.solves_programs() for entry in (*policy.transform, *policy.entries)):
        return None
    return {"name": NAME, "package": PACKAGE, "version": importlib.metadata.version(PACKAGE)}


Documents = dict[str, dict[str, Any]]
NO_CHAIN = Chain()
NOTHING_KNOWN: Mapping[str, Any] = {}
HASHED_AT_ONCE = 2
"""Files, each by a separate thread: one thread takes a second for 1.5 GB."""


def public_rules(policy: Policy, columns: Sequence[str]) -> PublicRules:
    """What the public documents of a release of these columns may contain.

    The least number of records that is reported is the largest k that the policy asks of k-anonymity, else 5.
    """
    asked = [int(entry.demanded() or 1) for entry in policy.binding if entry.name() == "k_anonymity"]
    rules = judging_rules(policy)
    return PublicRules(
        columns=frozenset(columns),
        person=rules.person,
        household=rules.household,
        least=max(asked, default=LEAST_REPORTED),
        counts=not withholds_counts(policy),
    )


def run_header(engine: Engine, policy: Policy, plan: Plan, run_id: str) -> dict[str, Any]:
    """What every private document of a run begins with."""
    return {
        "run_id": run_id,
        "name": policy.name,
        "policy_hash": policy.digest(),
        "plan_hash": plan.digest,
        "engine": engine.name,
        "versions": versions_at_work(engine, policy),
        "nulls": policy.nulls,
        "suppression_mark": policy.suppression_mark,
    }


def versions_at_work(engine: Engine, policy: Policy) -> dict[str, str]:
    """Versions of this package, of the engine's libraries, and of the distributions whose plug-ins are in use."""
    builders = [spec.builder for spec in policy.hierarchies.values()]
    used = (engine, *policy.transform, *policy.guarantees, *policy.measures, *builders)
    return {
        "privpipe": privpipe.__version__,
        "python": platform.python_version(),
        **plugins.versions_of(used),
        **engine.resources.versions,
    }


def _versions(policy: Policy) -> dict[str, Any]:
    found = versions_read(policy)
    return {"versions": found} if found else {}


def _queries(policy: Policy) -> dict[str, Any]:
    found = policy.queries()
    return {"queries": found} if found else {}


def output_of(staged: Staged, files: Sequence[Path], written: Written) -> dict[str, Any]:
    """What was written: records, columns, and files with their hashes."""
    paths = sorted(files)
    hashes = in_order(_sha256, paths, HASHED_AT_ONCE)
    return {
        "records": written.records,
        "suppressed_records": staged.suppressed_records,
        "columns": list(staged.table.schema.names),
        "files": [
            {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}
            for path, digest in zip(paths, hashes, strict=True)
        ],
    }


def run_documents(
    context: RunContext,
    staged: Staged,
    judged: Assessment,
    *,
    output: Mapping[str, Any],
    chain: Chain = NO_CHAIN,
    batch: str | None = None,
    source: Mapping[str, Any] = NOTHING_KNOWN,
) -> tuple[Documents, Documents]:
    """The private and the public verdict, manifest and plan of a run that passed.

    Parameters
    ----------
    chain : Chain
        Releases before.
    batch : str, optional
        Name of what is published, where the caller gives one: the manifest has it, and the chain of later ones.
    source : mapping
        What the private manifest says of the source's columns.
    """
    policy, seed = context.policy, context.seed
    rules = public_rules(policy, output["columns"])
    plan, public_plan = staged.plan.to_dict(), staged.plan.public_dict()
    run_id, records = str(judged.run["run_id"]), staged.plan.records
    manifest = {
        **judged.run,
        "manifest_version": MANIFEST_VERSION,
        "edition": "private",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "policy": plain(policy.public_document()),
        "plan": plan,
        "seed_commitment": staged.plan.seed_commitment,
        "input": {"records": records, "fingerprint": staged.source, **source, **_versions(policy), **_queries(policy)},
        "output": dict(output),
        "verdict": "passed_with_warnings" if judged.warned else "passed",
        "guarantees": [_asked_of(verdict) for verdict in (*judged.built_in, *judged.verdicts)],
        "solver": solver_at_work(policy),
        "officer_policy": None if policy.officer is None else policy.officer.to_dict(),
        "sign_off": None,
        **({} if batch is None else {"batch": batch}),
        **chain.to_dict(),
    }
    public_hash = document_digest(public_plan)
    verdict = judged.within(plan_hash=public_hash).public_dict(rules)
    texts = {"verdict": document_text(verdict), "plan": document_text(public_plan)}
    public_manifest = {
        **manifest,
        "edition": "public",
        "guarantees": [
            {**row, "parameters": verdict.public_parameters}
            for row, verdict in zip(manifest["guarantees"], (*judged.built_in, *judged.verdicts), strict=True)
        ],
        "plan": public_plan,
        "plan_hash": public_hash,
        "private_plan": plan_commitment(seed, run_id, staged.plan.digest),
        "input": {
            "records": records if rules.counts else None,
            "fingerprint": input_commitment(seed, run_id, staged.source),
        },
        "output": {**output, "suppressed_records": output["suppressed_records"] if rules.counts else None},
        "documents": document_hashes(texts),
    }
    return finished(
        {"verdict": judged.to_dict(), "manifest": manifest, "plan": plan},
        {"verdict": verdict, "manifest": public_manifest, "plan": public_plan},
        seed if policy.seed else None,
    )


def finished(private: Documents, public: Documents, seed: Seed | None) -> tuple[Documents, Documents]:
    """The documents with sealed manifests; the private one knows the hash of each public document as it is written."""
    public = {**public, "manifest": sealed(public["manifest"], seed)}
    texts = {name: document_text(document) for name, document in public.items()}
    manifest = {**private["manifest"], "public_documents": document_hashes(texts)}
    return {**private, "manifest": sealed(manifest, seed)}, public


def _asked_of(verdict: Verdict) -> dict[str, Any]:
    """A guarantee as a manifest names it; the figures are in the verdict."""
    row = verdict.to_dict()
    return {name: row[name] for name in ("name", "parameters", "severity", "outcome")}


def write_public(folder: Path, documents: Mapping[str, Mapping[str, Any]], report: str | None = None) -> None:
    """Write the public documents next to the data, and the page for people where there is one."""
    home = folder / METADATA
    home.mkdir()
    for name, document in documents.items():
        (home / f"{name}.json").write_text(document_text(document), encoding="utf-8")
    if report is not None:
        (home / "report.html").write_text(report, encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


INSECURE = (
    "the seed is insecure: whoever guesses it can undo noise, swaps and the order of rows; such a release is for "
    "demonstrations and tests alone"
)


def require_publishable_seed(policy: Policy) -> None:
    """A guessable seed publishes only where the policy says that it may.

    Raises
    ------
    UsageError
    """
    if _is_insecure(policy) and not policy.allow_insecure_seed:
        raise UsageError(
            f"{policy.located('seed')}: the seed is declared insecure, and nothing is published under it; make one "
            "with `privpipe seed` and name it as {from_env: NAME} or {from_file: PATH}, or write "
            "`allow_insecure_seed: true` for a demonstration"
        )


def seed_notes(policy: Policy) -> tuple[str, ...]:
    """That the seed is insecure; a verdict says so first."""
    return (INSECURE,) if _is_insecure(policy) else ()


def linking_notes(policy: Policy, *, frozen: bool) -> tuple[str, ...]:
    """By which columns two releases can be joined: what stages make of them is the same in both.

    Quasi-identifiers are left out, by which anyone who knows a person joins anyway.

    Parameters
    ----------
    policy : Policy
    frozen : bool
        Whether the stages follow a plan that was given, under which a value that did not change keeps its draws.
    """
    together = tuple(
        f"{policy.place_of(at)} gives rows of one {within.removesuffix('_id')} one value where theirs were equal: a "
        "value that no other has shows which rows belong together, unless it is coarse; household_k_anonymity judges "
        "what that tells"
        for at, stage in enumerate(policy.transform)
        if isinstance(stage, RowTransformer) and (within := stage.draws_within()) is not None
    )
    keys = policy.roles.quasi_identifiers
    return together + tuple(
        f"{policy.place_of(at)} gives an unchanged record the same result in every release{when}: releases that hold "
        f"{', '.join(map(repr, columns))} can be joined by it"
        for at, stage in enumerate(policy.transform)
        if (when := _linking(stage, frozen=frozen)) is not None
        and (columns := [name for name in stage.masked_columns() if name not in keys])
    )


def value_notes(policy: Policy) -> tuple[str, ...]:
    """Which stages and hierarchies release the value of a single record as a figure or label."""
    stages = tuple((policy.place_of(at), stage.shows_values) for at, stage in enumerate(policy.transform))
    used = policy.hierarchies.items() if policy.transform else ()
    drawn = tuple((f"the hierarchy of {name!r}", spec.shows_values) for name, spec in used)
    return tuple(f"{place} shows values of single records: {what}" for place, what in (*stages, *drawn) if what)


def _linking(stage: Transformer, *, frozen: bool) -> str | None:
    """Under what the stage gives a record the same result again; None: it draws for each release."""
    if stage.links_releases:
        return "" if stage.key_place() is None else " under its key"
    return " under this plan" if frozen else None


def _is_insecure(policy: Policy) -> bool:
    return policy.seed is not None and policy.seed.within == "insecure"
