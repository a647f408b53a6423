"""Runs between verdict and publication.

The bytes of a run that waits for a signature are copied, hashed and compared with what was approved.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.draws import Seed
from privpipe.engines import Written
from privpipe.errors import DataError, PrivpipeError, SignOffMissing, SinkError, UnsupportedError, UsageError
from privpipe.judging import Assessment
from privpipe.private_files import private_folder, require_ours, sync_folder, write_private
from privpipe.reporting import run_documents
from privpipe.running.officers import approvals, statement_of, target_mark
from privpipe.running.plan import Plan, canonical_json, plan_digest
from privpipe.running.release_result import ReleaseResult
from privpipe.running.report_figures import RunReport
from privpipe.running.run_documents import finished, input_commitment, plan_commitment
from privpipe.running.staging import Staged
from privpipe.signing import Signature, read_signature, statement_digest
from privpipe.sinks.records import PrivateRecords, document_text
from privpipe.sinks.target import METADATA, Target, sink_faults

if TYPE_CHECKING:
    from privpipe.policy import Policy
    from privpipe.policy.officer import SignOffRule
    from privpipe.sinks.target import Rows

__all__ = [
    "ENDING",
    "PAGE",
    "HeldRun",
    "Ready",
    "add_signatures",
    "copied",
    "drop_stale",
    "file_digest",
    "hashes_below",
    "held_run",
    "names_held",
    "read_request",
    "require_files",
    "require_staged",
    "require_waitable",
    "wait_if_asked",
]


@dataclass(frozen=True)
class Ready:
    """A release that was judged and has not been published; `folder` holds its staged files and public documents."""

    staged: Staged
    judged: Assessment
    written: Written
    private: Mapping[str, Mapping[str, Any]]
    public: Mapping[str, Mapping[str, Any]]
    report: RunReport
    folder: Path

    def result(self, place: Target) -> ReleaseResult:
        """What is reported of it."""
        return ReleaseResult(
            path="",
            run_id=str(self.judged.run["run_id"]),
            assessment=self.judged,
            plan=self.staged.plan,
            manifest=self.private["manifest"],
            public=self.public,
            target=place.name,
        )


PAGE = "report.html"
PIECE = 1 << 20
Documents = Mapping[str, Mapping[str, Any]]


def require_staged(hashes: Mapping[str, str], statement: Mapping[str, Any], public: Documents) -> None:
    """Refuse where a folder does not hold the approved files and the documents of the run."""
    data = {name: found for name, found in hashes.items() if not name.startswith(f"{METADATA}/")}
    require_files(data, statement)
    expected = {
        f"{METADATA}/{name}.json": hashlib.sha256(document_text(document).encode()).hexdigest()
        for name, document in public.items()
    }
    told = {f"{METADATA}/{name}.json": statement[f"{name}_sha256"] for name in ("verdict", "plan")}
    documents = {name: found for name, found in hashes.items() if name not in data}
    if documents != expected or any(expected[name] != told[name] for name in told):
        raise SignOffMissing("the staged documents are not those that were to be approved; nothing was published")


def require_files(hashes: Mapping[str, str], statement: Mapping[str, Any]) -> None:
    """Refuse other files than the approved ones.

    Raises
    ------
    SignOffMissing
    """
    if dict(hashes) != {str(file["name"]): file["sha256"] for file in statement["files"]}:
        raise SignOffMissing("the staged files are not those that were to be approved; nothing was published")


def hashes_below(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a folder by its path in it; of a link that it is one."""
    return {
        path.relative_to(folder).as_posix(): file_digest(path)
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    }


def names_held(folder: Path) -> list[str]:
    """What of a staged folder waits: all but the public page, which is made again with the signatures."""
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if not path.is_dir())
    return [name for name in names if name != f"{METADATA}/{PAGE}"]


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    if path.is_symlink():
        return "a link"
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def copied(source: Path, target: Path, names: Iterable[str]) -> dict[str, str]:
    """Copy files into private ones, and hash the copies; the bytes are read once."""
    hashes = {}
    for name in names:
        path = target / name
        if not path.resolve().is_relative_to(target.resolve()):
            raise SignOffMissing("a file of the run is outside of it; nothing was published")
        private_folder(path.parent)
        digest = hashlib.sha256()
        reading = os.open(source / name, os.O_RDONLY | os.O_NOFOLLOW)
        writing = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(reading, "rb") as old, os.fdopen(writing, "wb") as new:
            while piece := old.read(PIECE):
                digest.update(piece)
                new.write(piece)
            new.flush()
            os.fsync(new.fileno())
        hashes[name] = digest.hexdigest()
    return hashes


ENDING = ".waiting"
REQUEST = "request.json"
JUDGED = ("guarantees", "measures", "records", "suppressed_records", "classes", "passed", "built_in")
"""What must be judged the same again."""


def require_waitable(policy: Policy, place: Target) -> None:
    """Refuse runs that cannot wait, before anything is staged.

    Raises
    ------
    UsageError
        No seed is declared: the staged rows could not be proved again.
    UnsupportedError
        What readers read is not the files that are staged, so that no one could sign it.
    """
    if _rule(policy) is None:
        return
    if policy.tables is not None:
        raise UnsupportedError(
            "the officer's policy asks for a sign-off, and a release of tables cannot wait for one: sign tables of "
            "other jobs by hand after `privpipe validate`, or ask the officer for a policy of tables without `sign_off`"
        )
    if policy.seed is None:
        raise UsageError(
            "the officer's policy asks for a sign-off, and while a release waits its draws must stay what they are: "
            "declare a `seed:` (`privpipe seed` makes one)"
        )
    if not place.publishes_files:
        raise UnsupportedError(
            f"the officer's policy asks for a sign-off, and a release into the table {place.name!r} cannot wait: what "
            "is read there is not the staged files. Publish files, and load them from there"
        )


def wait_if_asked(home: Path, policy: Policy, place: Target, ready: Ready) -> None:
    """Keep a staged run until it is signed, where the officer's policy requires that; else nothing.

    Parameters
    ----------
    home : Path
        Of the private records.

    Raises
    ------
    SignOffMissing
        It waits.
    SinkError
        Its bytes cannot be kept.
    """
    rule = _rule(policy)
    if rule is None or policy.seed is None:
        return
    run_id = str(ready.public["manifest"]["run_id"])
    statement = statement_of(ready.public["manifest"], target_mark(policy.seed.resolve(), run_id, place.name))
    making, kept = home / f"{run_id}.making", home / f"{run_id}{ENDING}"
    with sink_faults(place.name):
        for old in home.glob("*.making"):  # of a run that was killed; the sink's lock is held
            shutil.rmtree(old, ignore_errors=True)
        for each in (making, making / "private", making / "signatures"):
            private_folder(each)
        hashes = copied(ready.folder, making / "files", names_held(ready.folder))
        for name, document in ready.private.items():
            write_private(making / "private" / f"{name}.json", document_text(document))
        request = {"sign_off_version": 1, "asked": rule.to_dict(), "statement": statement}
        write_private(making / REQUEST, document_text(request))
        page = ready.report.waiting_page(ready.private, request, str(kept))
        if page is not None:
            write_private(making / PAGE, page)
        require_staged(hashes, statement, ready.public)
        os.rename(making, kept)
        sync_folder(home)
    place.refuse(run_id)
    names = ", ".join(signer.name for signer in rule.by)
    raise SignOffMissing(
        f"run {run_id} is staged, and passed; it waits until {1 + rule.two_persons} of {names} approve it "
        f"(`privpipe sign {kept} --as NAME --decision approve`, then `privpipe release POLICY --continue {run_id}`). "
        "Nothing was published.",
        ready.judged,
        str(kept),
    )


@dataclass(frozen=True)
class HeldRun:
    """A run that waited, with signatures that approve it.

    Parameters
    ----------
    folder : Path
    run_id : str
    statement : mapping
        What was signed.
    private, public : mapping of str to mapping
        Its documents.
    signatures : tuple of Signature
    asked : mapping
        The rule, as the manifest names it.
    """

    folder: Path
    run_id: str
    statement: Mapping[str, Any]
    private: Documents
    public: Documents
    signatures: tuple[Signature, ...]
    asked: Mapping[str, Any]

    def plan(self, policy: Policy) -> Plan:
        """The plan by which it was staged."""
        return Plan.from_json(json.dumps(self.private["plan"]), policy)

    def require_source(self, fingerprint: str) -> None:
        """Refuse a source that is not the staged one.

        Raises
        ------
        DataError
        """
        if fingerprint != self.private["manifest"]["input"]["fingerprint"]:
            raise DataError(
                f"the source has changed since run {self.run_id} was staged, so the approved files cannot be judged "
                "again; nothing was published. Stage the release again, and name a version of a table that moves on"
            )

    def lay(self, folder: Path) -> Written:
        """Copy the data files to where they are published from; exactly the copied bytes are hashed.

        Raises
        ------
        SignOffMissing
            They are not the bytes that were approved.
        """
        named = [str(file["name"]) for file in self.statement["files"]]
        hashes = copied(self.folder / "files", folder, named)
        require_files(hashes, self.statement)
        return Written(int(self.public["manifest"]["output"]["records"]), tuple(named))

    def require_verdict(self, verdict: Mapping[str, Any]) -> None:
        """Refuse where the files are judged otherwise than when they were approved.

        Raises
        ------
        SinkError
        """
        before = self.private["verdict"]
        differ = [name for name in JUDGED if canonical_json(before.get(name)) != canonical_json(verdict.get(name))]
        if differ:
            raise SinkError(
                f"the staged files of run {self.run_id} are not judged as they were ({', '.join(differ)}); nothing was "
                "published. Stage the release again"
            )

    def documents(self, seed: Seed) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
        """Its private and public documents, with the signatures in the manifests."""
        sign_off = {
            "asked": dict(self.asked),
            "statement": dict(self.statement),
            "checked_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "signatures": [each.to_dict() for each in self.signatures],
        }
        private, public = (
            {name: dict(document) for name, document in documents.items()} for documents in (self.private, self.public)
        )
        for documents in (private, public):
            documents["manifest"]["sign_off"] = sign_off
        return finished(private, public, seed)

    def require_published(self, folder: Rows) -> None:
        """Refuse where a folder does not hold exactly the approved files.

        Raises
        ------
        SignOffMissing
        """
        if not isinstance(folder, Path):
            raise UnsupportedError("rows read in a table are not a file that was approved")
        data = {name: each for name, each in hashes_below(folder).items() if not name.startswith(f"{METADATA}/")}
        require_files(data, self.statement)


def held_run(home: Path, named: str, policy: Policy, place: Target, previous: Mapping[str, Any] | None) -> HeldRun:
    """The run that waits, once everything known of it is proved and it is approved.

    Parameters
    ----------
    home : Path
        Of the private records.
    named : str
        Its run id, or the folder in which it waits.
    previous : mapping or None
        What the sink's chain now ends with.

    Raises
    ------
    UsageError
        No such run waits; or policy, officer's policy or target are others than when it was staged.
    SignOffMissing
        It is not approved, or its bytes are not those that were approved.
    SinkError
        Another release was published since.
    """
    folder = home / f"{Path(named).name.removesuffix(ENDING)}{ENDING}"
    statement, private, public = _read(folder)
    manifest, run_id = public["manifest"], str(public["manifest"]["run_id"])
    if folder.name != f"{run_id}{ENDING}" or private["manifest"]["run_id"] != run_id:
        raise SignOffMissing(f"the run that waits in {folder.name!r} is another one; nothing was published")
    rule = _rule(policy)
    if policy.seed is None or rule is None or policy.officer is None:
        raise UsageError("no officer's policy asks for a sign-off now; stage the release again")
    _require_policies(manifest, policy)
    mark = target_mark(policy.seed.resolve(), run_id, place.name)
    if statement != statement_of(manifest, mark):
        raise SignOffMissing(
            f"what waits as run {run_id} is not what was staged for {place.name!r}; nothing was published"
        )
    if (manifest["previous"] or {}) != (dict(previous) if previous else {}):
        raise SinkError(
            f"another release was published to {place.name!r} since run {run_id} was staged; readers would go back. "
            "Stage the release again"
        )
    require_staged(hashes_below(folder / "files"), statement, public)
    _require_committed(policy.seed.resolve(), private, manifest)
    documents = _signatures(folder)
    signatures = approvals(rule, statement_digest(statement), documents, datetime.now(UTC))
    return HeldRun(folder, run_id, statement, private, public, signatures, rule.to_dict())


def add_signatures(policy: Policy, place: Target, named: str, files: Iterable[Path]) -> None:
    """Put signatures next to a run that waits.

    Raises
    ------
    UsageError
        A file holds none, or no such run waits.
    """
    folder = PrivateRecords.of(policy, place).home / f"{Path(named).name.removesuffix(ENDING)}{ENDING}"
    if not folder.is_dir():
        raise UsageError(f"no run waits as {named!r}")
    for file in files:
        try:
            document = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError):
            raise UsageError(f"{str(file)!r} is not a signature") from None
        read_signature(document)
        text = document_text(document)
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        if not (folder / "signatures" / f"{name}.json").exists():
            with sink_faults(place.name):
                write_private(folder / "signatures" / f"{name}.json", text)


def drop_stale(home: Path, seed: Seed, target: str, current: str) -> None:
    """Remove runs that wait for this target and can never follow its current release: they hold rows.

    Parameters
    ----------
    seed : Seed
        Under which they were staged; those of another seed stay.
    target, current : str
        Name of the sink, and the run that was published.
    """
    for folder in home.glob(f"*{ENDING}"):
        try:
            statement, _, public = _read(folder)
            run_id, previous = str(statement["run_id"]), public["manifest"]["previous"] or {}
            same = statement["target"] == target_mark(seed, run_id, target)
        except (PrivpipeError, LookupError, TypeError, AttributeError):
            continue
        if same and previous.get("run_id") != current:
            shutil.rmtree(folder, ignore_errors=True)


def read_request(folder: Path) -> Mapping[str, Any]:
    """The statement to be signed, from the folder of a waiting run (whose files are checked) or only from its request.

    Raises
    ------
    UsageError
        There is none.
    SignOffMissing
        The staged files are not those it names.
    """
    try:
        request: Mapping[str, Any] = json.loads((folder / REQUEST if folder.is_dir() else folder).read_bytes())
        strange = run_documents.misshapen(request, run_documents.REQUEST) or request["sign_off_version"] != 1
        if strange or set(request) != {"sign_off_version", "asked", "statement"}:
            raise ValueError("another version")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise UsageError(
            f"{str(folder)!r} is not a waiting run: name the folder that `privpipe release` printed, or its {REQUEST}"
        ) from None
    if folder.is_dir():
        statement, public = request["statement"], _read(folder)[2]
        if statement != statement_of(public["manifest"], str(statement.get("target"))):
            raise SignOffMissing("the request is not of the manifest that is staged; do not sign it")
        require_staged(hashes_below(folder / "files"), statement, public)
    return request


def _rule(policy: Policy) -> SignOffRule | None:
    return None if policy.officer is None else policy.officer.sign_off


def _require_policies(manifest: Mapping[str, Any], policy: Policy) -> None:
    if manifest["policy_hash"] != policy.digest():
        raise UsageError("the policy is not the one that the run was staged under; stage the release again")
    if policy.officer is None or manifest["officer_policy"]["hash"] != policy.officer.hash:
        raise UsageError("the officer's policy is not the one that the run was staged under; stage the release again")


def _require_committed(seed: Seed, private: Documents, manifest: Mapping[str, Any]) -> None:
    """Refuse private documents that the public manifest, which was signed, does not commit to."""
    run_id = str(manifest["run_id"])
    plan = plan_commitment(seed, run_id, plan_digest(private["plan"]))
    source = input_commitment(seed, run_id, str(private["manifest"]["input"]["fingerprint"]))
    if plan != manifest["private_plan"] or source != manifest["input"]["fingerprint"]:
        raise SignOffMissing(
            f"the private documents of run {run_id} were changed; nothing was published. Stage it again"
        )


def _read(folder: Path) -> tuple[Mapping[str, Any], Documents, Documents]:
    """The statement, the private documents and the public ones of a run that waits."""
    if not folder.is_dir():
        raise UsageError(f"no run waits as {folder.name.removesuffix(ENDING)!r}; it may have been published or dropped")
    require_ours(folder)
    homes = {"private": folder / "private", "public": folder / "files" / METADATA}
    try:
        statement = json.loads((folder / REQUEST).read_bytes())["statement"]
        found = {
            kind: {name: json.loads((home / f"{name}.json").read_bytes()) for name in ("manifest", "plan", "verdict")}
            for kind, home in homes.items()
        }
        found["public"]["manifest"]["documents"]["verdict"], found["private"]["manifest"]["input"]["fingerprint"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise SignOffMissing(
            f"the run in {folder.name!r} is damaged ({type(error).__name__}); stage it again"
        ) from None
    return statement, found["private"], found["public"]


def _signatures(folder: Path) -> Iterator[Any]:
    for path in sorted((folder / "signatures").glob("*.json")):
        try:
            yield json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            yield None
