"""The documents of a run in both editions, sealed, and the chain of a sink's releases that shows any change of them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.blocks.public_edition import LEAST_REPORTED, PublicRules
from privpipe.blocks.verdict import Verdict, plain
from privpipe.draws import Seed
from privpipe.engines import Engine, Written
from privpipe.engines.base.batches import in_order
from privpipe.errors import SinkError, UsageError
from privpipe.judging import Assessment
from privpipe.kernels.integer_programs import NAME, PACKAGE
from privpipe.running.plan import Plan, document_digest
from privpipe.running.run_context import RunContext, judging_rules, versions_at_work, versions_read, withholds_counts
from privpipe.running.staging import Staged
from privpipe.sinks.records import document_text, file_hash
from privpipe.sinks.target import METADATA
from privpipe.transforms.base import RowTransformer, Transformer

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.sinks.target import Target

__all__ = [
    "CHAIN_START",
    "INSECURE",
    "MANIFEST_VERSION",
    "Chain",
    "chain_entry",
    "chain_of",
    "core_digest",
    "document_hashes",
    "finished",
    "input_commitment",
    "link_of",
    "linking_notes",
    "manifest_checksum",
    "manifest_seal",
    "output_of",
    "plan_commitment",
    "public_rules",
    "require_publishable_seed",
    "run_documents",
    "run_header",
    "sealed",
    "seed_notes",
    "solver_at_work",
    "value_notes",
    "write_public",
]


MANIFEST_VERSION = 1


def sealed(manifest: Mapping[str, Any], seed: Seed | None) -> dict[str, Any]:
    """The manifest with its checksum, and where there is a declared seed with its seal.

    Parameters
    ----------
    seed : Seed or None
        None: one was drawn for the run, and no one could check a seal.

    Examples
    --------
    >>> made = sealed({"run_id": "r"}, None)
    >>> made["seal"], made["checksum"] == manifest_checksum({**made, "run_id": "s"})
    (None, False)
    """
    sealed_one = {**manifest, "seal": None if seed is None else manifest_seal(seed, manifest)}
    return {**sealed_one, "checksum": manifest_checksum(sealed_one)}


def manifest_checksum(manifest: Mapping[str, Any]) -> str:
    """SHA-256 of a manifest as canonical JSON, without its checksum."""
    return _digest(manifest, "checksum")


def core_digest(manifest: Mapping[str, Any]) -> str:
    """The same also without seal and signatures: the signed part."""
    return _digest(manifest, "checksum", "seal", "sign_off")


def manifest_seal(seed: Seed, manifest: Mapping[str, Any]) -> str:
    """Of all but itself and the checksum, bound to the run: without the seed no one can make it."""
    told = _digest(manifest, "checksum", "seal")
    return "hmac-sha256:" + seed.bound("privpipe/manifest/1", str(manifest["run_id"]), told).hex()


def document_hashes(texts: Mapping[str, str]) -> dict[str, str]:
    """SHA-256 of documents by name, as written.

    Examples
    --------
    >>> document_hashes({"verdict": "{}"})["verdict"][:8]
    '44136fa3'
    """
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(texts.items())}


def _digest(manifest: Mapping[str, Any], *without: str) -> str:
    return document_digest({name: value for name, value in manifest.items() if name not in without})


CHAIN_START = "0" * 64
"""Used as the link before the first one."""
OWN_LINK = "link"


@dataclass(frozen=True)
class Chain:
    """What a sink has published until now.

    Parameters
    ----------
    previous : mapping or None
        Run id of the release before, and the hash of its public manifest.
    releases : tuple of mapping
        An entry of each release before, oldest first.
    """

    previous: Mapping[str, Any] | None = None
    releases: tuple[Mapping[str, Any], ...] = ()

    def run_of(self, batch: str | None) -> str | None:
        """The run that published a batch; None: there is none.

        Examples
        --------
        >>> Chain(releases=({"run_id": "r", "batch": "2026-01-31"},)).run_of("2026-01-31")
        'r'
        """
        found = (str(entry["run_id"]) for entry in self.releases if batch is not None and entry.get("batch") == batch)
        return next(found, None)

    def to_dict(self) -> dict[str, Any]:
        """The keys of a manifest that hold it."""
        return {
            "previous": None if self.previous is None else dict(self.previous),
            "releases_before": [dict(entry) for entry in self.releases],
        }


def chain_of(place: Target) -> Chain:
    """The chain that a new release of a sink continues.

    Raises
    ------
    SinkError
        The manifest of the published release is damaged or was changed: a chain that went on from it would hide that.
    """
    if place.current() is None:
        return Chain()
    text = place.document("manifest")
    if text is None:
        raise SinkError(
            f"the release published at {place.name!r} has no manifest, so no release can follow it; move it away "
            "to begin a new chain"
        )
    try:
        manifest = json.loads(text)
        if manifest.get("manifest_version") is None:  # of a version that kept no chain
            return Chain(previous={"run_id": str(manifest["run_id"]), "manifest_sha256": _text_digest(text)})
        if manifest["checksum"] != manifest_checksum(manifest):
            raise ValueError("changed")
        before = [dict(entry) for entry in manifest["releases_before"]]
        entry = chain_entry(manifest, text)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise SinkError(
            f"the manifest of the release published at {place.name!r} is damaged or was changed, so no release can "
            "follow it; `privpipe verify` shows what is wrong; move the release away to begin a new chain"
        ) from None
    previous = {"run_id": entry["run_id"], "manifest_sha256": entry["manifest_sha256"]}
    return Chain(previous, (*before, entry))


def chain_entry(manifest: Mapping[str, Any], text: bytes) -> dict[str, Any]:
    """What later manifests say of a release: when, under which policies, with which verdict, who signed.

    Parameters
    ----------
    text : bytes
        The manifest as it was published.
    """
    before = list(manifest["releases_before"])
    officer, signed = manifest.get("officer_policy"), manifest.get("sign_off")
    entry = {
        "run_id": str(manifest["run_id"]),
        "created": str(manifest["created"]),
        "name": str(manifest["name"]),
        "policy_hash": str(manifest["policy_hash"]),
        "officer_policy_hash": None if officer is None else str(officer["hash"]),
        "verdict": str(manifest["verdict"]),
        "records": int(manifest["output"]["records"]),
        "signed_by": [] if signed is None else [str(each["name"]) for each in signed["signatures"]],
        "manifest_sha256": _text_digest(text),
        **({"batch": str(manifest["batch"])} if manifest.get("batch") is not None else {}),
        "before": str(before[-1][OWN_LINK]) if before else CHAIN_START,
    }
    return {**entry, OWN_LINK: link_of(entry)}


def link_of(entry: Mapping[str, Any]) -> str:
    """The hash of an entry, with that of the one before in it.

    Examples
    --------
    >>> link_of({"run_id": "a", "before": CHAIN_START}) == link_of({"run_id": "b", "before": CHAIN_START})
    False
    """
    told = {name: value for name, value in entry.items() if name != OWN_LINK}
    return _text_digest(json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())


def _text_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def input_commitment(seed: Seed, run_id: str, fingerprint: str) -> str:
    """To the source of a run: it shows later what was released, and links no two runs of it.

    Examples
    --------
    >>> seed = Seed(b"0123456789abcdef")
    >>> input_commitment(seed, "run 1", "9f86d0") == input_commitment(seed, "run 2", "9f86d0")
    False
    """
    return _commitment(seed, "privpipe/input/2", run_id, fingerprint)


def plan_commitment(seed: Seed, run_id: str, digest: str) -> str:
    """To the whole plan of a run, which is in the private record."""
    return _commitment(seed, "privpipe/plan/2", run_id, digest)


def _commitment(seed: Seed, purpose: str, *parts: str) -> str:
    """Without the seed no one can try contents against it."""
    return "hmac-sha256:" + seed.bound(purpose, *parts).hex()


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

    The least number of records that is reported is the largest k that the policy requires of k-anonymity, else 5.
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


def _versions(policy: Policy) -> dict[str, Any]:
    found = versions_read(policy)
    return {"versions": found} if found else {}


def _queries(policy: Policy) -> dict[str, Any]:
    found = policy.queries()
    return {"queries": found} if found else {}


def output_of(staged: Staged, files: Sequence[Path], written: Written) -> dict[str, Any]:
    """What was written: records, columns, and files with their hashes."""
    paths = sorted(files)
    hashes = in_order(file_hash, paths, HASHED_AT_ONCE)
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
        Key of the publication, where the caller gives one: the manifest has it, and the chain of later ones.
    source : mapping
        What the private manifest states about the source's columns.
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
    """The documents with sealed manifests; the private one has the hash of each public document as written."""
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


INSECURE = (
    "the seed is insecure: anyone who guesses it can undo noise, swaps and the order of rows; such a release is only "
    "for demonstrations and tests"
)


def require_publishable_seed(policy: Policy) -> None:
    """A guessable seed publishes only where the policy allows it.

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
    """A note that the seed is insecure; it is the first of a verdict."""
    return (INSECURE,) if _is_insecure(policy) else ()


def linking_notes(policy: Policy, *, frozen: bool) -> tuple[str, ...]:
    """Columns by which two releases can be joined: stages give them the same values in both.

    Quasi-identifiers are left out: anyone who knows a person joins by them anyway.

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
    """The key under which the stage gives a record the same result again; None: it draws for each release."""
    if stage.links_releases:
        return "" if stage.key_place() is None else " under its key"
    return " under this plan" if frozen else None


def _is_insecure(policy: Policy) -> bool:
    return policy.seed is not None and policy.seed.within == "insecure"
