"""What can be recomputed of a release, and its verification: by any reader, by its owner, and of its signatures."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import privpipe
from privpipe.blocks.marks import FilePath
from privpipe.blocks.parameters import marked
from privpipe.blocks.public_edition import last_name
from privpipe.border import bordered
from privpipe.draws import Seed
from privpipe.errors import PrivpipeError, SignOffMissing, UsageError
from privpipe.policy import Policy
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.officer import OfficerPolicy, pinned_officer
from privpipe.record.released import Released, opened_release
from privpipe.record.table_proofs import ProofFault, proved_again
from privpipe.reporting.officer.languages import LANGUAGES
from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.output_schemas import output_schema
from privpipe.reporting.run_documents import PUBLISHED, VERDICT, RunDocuments, misshapen
from privpipe.reporting.table_pages import holds_cells, page_of_release
from privpipe.running.officers import approvals, statement_of
from privpipe.running.plan import document_digest, plan_digest
from privpipe.running.run_documents import (
    CHAIN_START,
    MANIFEST_VERSION,
    document_hashes,
    input_commitment,
    link_of,
    manifest_checksum,
    manifest_seal,
    plan_commitment,
)
from privpipe.signing import read_signature, statement_digest
from privpipe.sinks.records import document_text, file_hash

__all__ = [
    "Check",
    "Verification",
    "broken",
    "chain_problems",
    "holds",
    "manifest_fault",
    "owner_checks",
    "public_checks",
    "sign_off_checks",
    "unchecked",
    "verify",
]


Outcome = Literal["holds", "broken", "not_checked"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Parameters
    ----------
    name : str
    outcome : {"holds", "broken", "not_checked"}
        `not_checked`: what it would take is not at hand.
    about : str
        One sentence; never a data value.
    """

    name: str
    outcome: Outcome
    about: str


@dataclass(frozen=True)
class Verification:
    """What was recomputed of a release.

    Parameters
    ----------
    release : str
    run_id : str or None
    checks : tuple of Check
    """

    release: str
    run_id: str | None
    checks: tuple[Check, ...]

    @property
    def broken(self) -> tuple[Check, ...]:
        """What does not match."""
        return tuple(check for check in self.checks if check.outcome == "broken")

    @property
    def sound(self) -> bool:
        """Whether nothing that was checked is broken.

        Examples
        --------
        >>> Verification("published/adult", None, (holds("files", "5 files"), broken("chain", "a gap"))).sound
        False
        """
        return not self.broken

    def to_dict(self) -> dict[str, Any]:
        """The document of `privpipe verify --json`."""
        return {
            "release": self.release,
            "run_id": self.run_id,
            "sound": self.sound,
            "checks": [{"check": each.name, "outcome": each.outcome, "about": each.about} for each in self.checks],
        }


def holds(name: str, about: str) -> Check:
    """What matches."""
    return Check(name, "holds", about)


def broken(name: str, about: str) -> Check:
    """What does not."""
    return Check(name, "broken", about)


def unchecked(name: str, about: str) -> Check:
    """What could not be looked at."""
    return Check(name, "not_checked", about)


Document = Mapping[str, Any]


def owner_checks(released: Released, manifest: Document, policy: Policy | None) -> Iterator[Check]:
    """Each check; what is not available is reported."""
    private = released.private(str(manifest["run_id"]))
    yield _job(manifest, private, policy)
    yield from _record(released, manifest, private)
    yield from _seed(manifest, private, policy)


def _job(manifest: Document, private: Document | None, policy: Policy | None) -> Check:
    if policy is None:
        return unchecked("policy file", "give it (--policy) to compare it with the policy of the release")
    if policy.digest() != manifest["policy_hash"]:
        return broken("policy file", "it is not the policy that was released under")
    queries = policy.queries()
    if not queries:
        return holds("policy file", "it has the hash of the manifest")
    # The public policy, and so its hash, shows of a query only that there is one.
    if private is None:
        return holds("policy file", "it has the hash of the manifest; its query is compared with a private record")
    known = private["input"].get("queries") if isinstance(private.get("input"), Mapping) else None
    if known != queries:
        return broken("policy file", "its query is not the one of the private record")
    return holds("policy file", "it has the hash of the manifest, and the query of the private record")


def _record(released: Released, manifest: Document, private: Document | None) -> Iterator[Check]:
    if private is None:
        yield unchecked("private record", "there is none at hand (--records)")
        return
    if private.get("checksum") != manifest_checksum(private):
        yield broken("private record", "its manifest was changed: the checksum does not fit")
        return
    texts = {name: text.decode("utf-8", "replace") for name, text in released.texts.items()}
    expected, found = private.get("public_documents", {}), document_hashes(texts)
    wrong = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
    if wrong:
        yield broken("private record", f"public documents that are not those it knows: {', '.join(wrong)}")
    else:
        yield holds("private record", "the public documents are those that were published")
    follower = _follower(released, str(manifest["run_id"]))
    if follower is not None:
        yield broken("newest release", f"run {follower} was published after the one that is here")


def _follower(released: Released, run_id: str) -> str | None:
    """A run of the records that followed this one at its sink."""
    home = released.records
    for path in sorted(home.glob("*/manifest.json")) if home is not None else ():
        other = path.parent.name
        if home is not None and any(home.glob(f"{other}.*.pending")):
            continue  # it is not known yet whether it was published
        previous = (released.private(other) or {}).get("previous") or {}
        if previous.get("run_id") == run_id:
            return other
    return None


def _seed(manifest: Document, private: Document | None, policy: Policy | None) -> Iterator[Check]:
    if policy is None or policy.seed is None:
        yield unchecked("seed", "no policy with a seed is at hand; with it the seal and all commitments are recomputed")
        return
    seed = policy.seed.resolve()
    yield from _sealed(manifest, seed)
    run_id = str(manifest["run_id"])
    if private is None:
        yield unchecked("commitments", "those to the plan and to the source need the private record (--records)")
        return
    committed = {
        "plan": (manifest["private_plan"], plan_commitment(seed, run_id, plan_digest(private["plan"]))),
        "source": (
            manifest["input"]["fingerprint"],
            input_commitment(seed, run_id, str(private["input"]["fingerprint"])),
        ),
    }
    wrong = [name for name, (said, made) in committed.items() if not hmac.compare_digest(str(said), made)]
    if wrong:
        yield broken("commitments", f"to another {' and '.join(wrong)} than the private record holds")
    else:
        yield holds("commitments", "to the plan and the source of the private record")


def _sealed(manifest: Document, seed: Seed) -> Iterator[Check]:
    run_id = str(manifest["run_id"])
    if not hmac.compare_digest(str(manifest["seed_commitment"]), seed.commitment(run_id)):
        yield broken("seed", "the release was made with another seed, or its commitment was changed")
        return
    yield holds("seed", "the release commits to it")
    made = manifest_seal(seed, manifest)
    if hmac.compare_digest(str(manifest["seal"]), made):
        yield holds("seal", "who wrote the manifest had the seed, and nothing was changed since")
    else:
        yield broken("seal", "the manifest was changed, or written without the seed")


def _audits(released: Released, manifest: Document) -> Iterator[Check]:
    """Audits of tables, proved again without what found the proofs."""
    proofs = released.private(str(manifest["run_id"]), "proofs")
    if proofs is None:
        yield unchecked("audits of tables", "the private record at hand, if any, holds no proofs of audits (--records)")
        return
    try:
        sensitive, audits = proved_again(proofs, released.files())
    except ProofFault as fault:
        yield broken("audits of tables", str(fault))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError) as error:
        yield broken("audits of tables", f"the proofs have another shape than a run writes ({type(error).__name__})")
    else:
        yield holds("audits of tables", f"{sensitive:,} unsafe figures of {audits} audits were proved to stay hidden")


LANGUAGE = re.compile(rb'<html lang="([a-z]+)"')


def public_checks(released: Released, manifest: Document) -> Iterator[Check]:
    """Each check, in the order in which one rests on another.

    Parameters
    ----------
    manifest : mapping
        As `manifest_fault` let it pass.
    """
    yield _checksum(released, manifest)
    yield from _files(released, manifest)
    yield from _documents(released, manifest)
    yield _policy(manifest)
    yield _plan(released, manifest)
    yield _verdict(released, manifest)
    yield from _page(released, manifest)
    yield _chain(manifest)


def manifest_fault(manifest: Document | None) -> str:
    """Why a public manifest cannot be looked into, or nothing."""
    if manifest is None:
        return "there is no manifest, or it is not a document"
    if manifest.get("manifest_version") != MANIFEST_VERSION:
        return f"the manifest has no version {MANIFEST_VERSION}: another version of privpipe wrote it"
    schema = output_schema("manifest")
    missing = sorted(set(schema["required"]) - set(manifest))
    unknown = sorted(set(manifest) - set(schema["properties"]))
    if missing or unknown:
        return f"the manifest lacks {missing}" if missing else f"the manifest has unknown keys: {unknown}"
    return misshapen(manifest, PUBLISHED)


def chain_problems(manifest: Document) -> list[str]:
    """What does not fit between a release and those before it."""
    try:
        return list(_unlinked(list(manifest["releases_before"]), manifest["previous"]))
    except (LookupError, TypeError, AttributeError) as error:
        return [f"it cannot be read ({type(error).__name__})"]


def _checksum(released: Released, manifest: Document) -> Check:
    as_written = released.texts["manifest"] == document_text(manifest).encode()
    if as_written and manifest["checksum"] == manifest_checksum(manifest):
        return holds("manifest", "the checksum fits what it holds")
    return broken("manifest", "the checksum does not fit what it holds: the manifest was changed")


def _files(released: Released, manifest: Document) -> Iterator[Check]:
    listed = {str(file["name"]): file for file in manifest["output"]["files"]}
    there = released.files()
    if released.folder is None:  # never by what the manifest states about itself
        where = str(manifest["output"].get("table") or "of the sink")
        yield unchecked("files", f"the rows are in the table {where}; `privpipe validate` judges them")
        return
    wrong = [f"{name} is missing" for name in listed if name not in there]
    wrong += [f"{name} is not of the release" for name in there if name not in listed]
    for name in sorted(set(listed) & set(there)):
        path = there[name]
        if os.path.islink(path) or not path.is_file():
            wrong.append(f"{name} is not a file")
        elif path.stat().st_size != listed[name]["bytes"] or file_hash(path) != listed[name]["sha256"]:
            wrong.append(f"{name} was changed")
    if wrong:
        yield broken("files", "; ".join(wrong))
    else:
        yield holds("files", f"{len(listed):,} files have the hashes of the manifest, and there is no other")


def _documents(released: Released, manifest: Document) -> Iterator[Check]:
    for name, expected in sorted(manifest["documents"].items()):
        text = released.texts.get(name)
        if text is None:
            yield broken(name, f"{name}.json is missing")
        elif hashlib.sha256(text).hexdigest() != expected:
            yield broken(name, f"{name}.json was changed")
        else:
            yield holds(name, f"{name}.json has the hash of the manifest")
    if strange := released.strange():
        yield broken("documents", f"not of the release: {', '.join(strange)}")


def _policy(manifest: Document) -> Check:
    counted = {name: value for name, value in manifest["policy"].items() if name != "plan"}
    if document_digest(counted) == manifest["policy_hash"] == manifest["plan"].get("policy_digest"):
        return holds("policy", f"the policy in the manifest has the hash {manifest['policy_hash'][:12]}")
    return broken("policy", "the policy in the manifest does not have its hash, or the plan is of another")


def _plan(released: Released, manifest: Document) -> Check:
    plan = released.parsed("plan")
    if plan is None:
        return broken("plan of the manifest", "plan.json is not a document")
    if document_digest(plan) == document_digest(manifest["plan"]) == manifest["plan_hash"]:
        return holds("plan of the manifest", "it is plan.json, and has its hash")
    return broken("plan of the manifest", "it is not plan.json, or does not have its hash")


def _verdict(released: Released, manifest: Document) -> Check:
    verdict = released.parsed("verdict")
    wrong = "verdict.json is not a document" if verdict is None else misshapen(verdict, VERDICT)
    if verdict is None or wrong:
        return broken("verdict of the manifest", wrong)
    for name in ("run_id", "name", "policy_hash", "plan_hash", "engine", "nulls"):
        if verdict.get(name) != manifest[name]:
            return broken("verdict of the manifest", f"{name} is another in the verdict")
    if verdict.get("passed") is not True or any(
        row["severity"] == "fail" and row["outcome"] != "pass" for row in verdict["guarantees"]
    ):
        return broken("verdict of the manifest", "the verdict is not a pass")
    told = [[row[key] for key in ("name", "parameters", "severity", "outcome")] for row in manifest["guarantees"]]
    rows = [*verdict.get("built_in", ()), *verdict["guarantees"]]
    if [[row[key] for key in ("name", "parameters", "severity", "outcome")] for row in rows] != told:
        return broken("verdict of the manifest", "the guarantees of the verdict are not those of the manifest")
    unjudged = _unjudged(manifest["policy"].get("guarantees", []), rows)
    if unjudged:
        return broken("verdict of the manifest", f"guarantees of the policy that were not judged: {unjudged}")
    return holds("verdict of the manifest", f"{len(rows)} guarantees, with the parameters of the policy, all held")


def _page(released: Released, manifest: Document) -> Iterator[Check]:
    """Whether the page is the one that these documents make, in the language that it is in."""
    page, verdict = released.page(), released.parsed("verdict")
    if page is None or verdict is None:
        return
    said = LANGUAGE.search(page[:200])
    lang = next((each for each in LANGUAGES if said is not None and said[1] == each.encode()), LANGUAGES[0])
    try:
        run = RunDocuments(str(verdict.get("run_id", "")), verdict, manifest, {})
        if not holds_cells(manifest):
            made = report_page(ReportData.of(run), lang).encode()
        elif released.folder is None:
            yield unchecked("report", "the page draws tables whose files are not on this machine")
            return
        else:
            made = page_of_release(released.folder, verdict, manifest).encode()
    except (PrivpipeError, OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        yield broken("report", f"the documents make no page ({type(error).__name__})")
        return
    if made == page:
        yield holds("report", "report.html is the page of these documents")
    elif manifest["versions"].get("privpipe") != privpipe.__version__:
        yield unchecked("report", "another version of privpipe made the page; that version can make it again")
    else:
        yield broken("report", "report.html is not the page of these documents")


def _unjudged(asked: Any, rows: list[Document]) -> list[str]:
    """Guarantees of a policy that have no row with their parameters."""
    left = list(rows)
    missing = []
    for item in asked:
        [(name, parameters)] = item.items()
        found = next((row for row in left if row["name"] == name and _within(parameters or {}, row)), None)
        if found is None:
            missing.append(str(name))
        else:
            left.remove(found)
    return missing


def _within(parameters: Document, row: Document) -> bool:
    """Whether a row has the plain parameters of a policy; nested ones and defaults are filled in by the entry."""
    said = {**row["parameters"], "severity": row["severity"]}
    kinds = (room[row["name"]] for room in Catalogues.shipped().of("guarantees") if row["name"] in room)
    paths = {name for kind in kinds for name in marked(kind, FilePath)}
    return all(
        _same_path(value, said.get(name)) if name in paths else said.get(name) == value
        for name, value in parameters.items()
        if isinstance(value, int | float | str | bool)
    )


def _same_path(written: Any, read: Any) -> bool:
    """Whether an entry's path is the policy's: its last name, or, in older releases, all of it as the run saw it."""
    if written == read or not (isinstance(written, str) and isinstance(read, str)):
        return bool(written == read)
    if read == last_name(written):
        return True
    down = os.path.normpath(written).split(os.sep)
    below = down[next((at for at, step in enumerate(down) if step != os.pardir), len(down)) :]
    return not os.path.isabs(written) and read.split(os.sep)[-len(below) :] == below


def _chain(manifest: Document) -> Check:
    problems = chain_problems(manifest)
    if problems:
        return broken("chain", "; ".join(problems))
    before = manifest["releases_before"]
    if manifest["previous"] is None:
        return holds("chain", "the first release of its sink")
    return holds("chain", f"follows {manifest['previous']['run_id']}; {len(before):,} releases before, each linked")


def _unlinked(before: list[Document], previous: Document | None) -> Iterator[str]:
    link = CHAIN_START
    for entry in before:
        if entry["before"] != link:
            yield f"{entry['run_id']} does not follow the release before it"
        if link_of(entry) != entry["link"]:
            yield f"what is reported of {entry['run_id']} was changed"
        link = str(entry["link"])
    if len({entry["run_id"] for entry in before}) != len(before):
        yield "a release is in it twice"
    last = before[-1] if before else None
    if last is not None and (
        previous is None or any(previous[name] != last[name] for name in ("run_id", "manifest_sha256"))
    ):
        yield "the release before is another than the last of those that are listed"


def sign_off_checks(manifest: Document, officer: OfficerPolicy | None) -> Iterator[Check]:
    """Each check; only the officer's policy states which keys to trust."""
    yield from _officer(manifest, officer)
    block = manifest["sign_off"]
    if block is None:
        if officer is not None and officer.sign_off is not None:
            yield broken("sign-off", "the officer's policy asks for one, and the release has none")
        return
    if manifest["officer_policy"] is None:
        yield broken("sign-off", "there is one, and no officer's policy that asks for it")
        return
    statement = block["statement"]
    if statement != statement_of(manifest, str(statement.get("target"))):
        yield broken("sign-off", "what was signed is not this release")
        return
    try:
        yield from _signatures(block, statement_digest(statement), officer)
    except UsageError as error:  # the library is missing, or what was signed has another shape
        yield unchecked("sign-off", str(error))


def _officer(manifest: Document, officer: OfficerPolicy | None) -> Iterator[Check]:
    said = manifest["officer_policy"]
    if officer is None:
        if said is not None:
            yield unchecked(
                "officer's policy", "give it (--officer-policy): it states what was required, and whose keys count"
            )
        return
    if said is None:
        yield broken("officer's policy", "the release was held to none")
    elif said["hash"] != officer.hash:
        yield broken("officer's policy", "it is not the one that the release was held to")
    else:
        yield holds("officer's policy", "it is the one that the release was held to")


def _signatures(block: Document, digest: str, officer: OfficerPolicy | None) -> Iterator[Check]:
    found = [read_signature(each) for each in block["signatures"]]
    for each in found:
        name = f"signature of {each.name}"
        if each.statement != digest or not each.holds:
            yield broken(name, "it is not of this release, was changed, or was made with another key")
        else:
            yield holds(name, f"{each.decision}, {each.signed_at:%Y-%m-%d}, by the key {each.key.fingerprint}")
    if officer is None or officer.sign_off is None:
        yield unchecked("sign-off", "the officer's policy decides whether these persons may sign (--officer-policy)")
        return
    checked = datetime.fromisoformat(block["checked_at"])
    if checked > datetime.now(UTC) + timedelta(minutes=5):
        yield broken("sign-off", "it was checked in the future")
        return
    try:
        valid = approvals(officer.sign_off, digest, block["signatures"], checked)
    except SignOffMissing as missing:
        yield broken("sign-off", str(missing))
        return
    now = datetime.now(UTC)
    ended = [each.name for each in valid if not each.valid_at(now, officer.sign_off.valid_days)]
    since = f"; expired since: {', '.join(ended)}" if ended else ""
    yield holds("sign-off", f"approved by {', '.join(each.name for each in valid)} when it was published{since}")


@bordered
def verify(
    release: str,
    *,
    policy: Policy | None = None,
    officer: OfficerPolicy | None = None,
    records: Path | None = None,
    private: bool = False,
) -> Verification:
    """What of a release still is as it was published.

    Parameters
    ----------
    release : str
        The path or URL of a release or of a sink.
    policy : Policy, optional
        The one that it was released under; its seed shows what only the owner can check.
    officer : OfficerPolicy, optional
        The one that it was held to; default: that of the policy, else the one that the environment names.
    records : Path, optional
        Folder of the private records; left out, the one in the sink's work area where it can be read.
    private : bool
        Whether audits of tables are proved again from the private record.

    Raises
    ------
    UsageError
        Nothing is published there.
    """
    if officer is None:
        officer = policy.officer if policy is not None and policy.officer is not None else pinned_officer()
    with opened_release(release, records) as found:
        manifest = found.parsed("manifest")
        run_id = None if manifest is None else manifest.get("run_id")
        return Verification(
            release, None if run_id is None else str(run_id), tuple(_checked(found, policy, officer, private))
        )


def _checked(found: Released, policy: Policy | None, officer: OfficerPolicy | None, private: bool) -> Iterator[Check]:
    manifest = found.parsed("manifest")
    fault = manifest_fault(manifest)
    if manifest is None or fault:
        yield broken("manifest", fault)
        return
    every = (
        public_checks(found, manifest),
        sign_off_checks(manifest, officer),
        owner_checks(found, manifest, policy),
        _audits(found, manifest) if private else (),
    )
    for checks in every:
        try:
            yield from checks
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # Whatever has another shape was not written by a run; the text of the error may quote it.
            yield broken("manifest", f"a document has another shape than a run writes ({type(error).__name__})")
