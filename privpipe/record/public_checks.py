"""What anybody can recompute of a release, from what stands there alone."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import privpipe
from privpipe.blocks.marks import FilePath
from privpipe.blocks.parameters import marked
from privpipe.blocks.public_parameters import last_name
from privpipe.errors import PrivpipeError
from privpipe.policy.entries import Catalogues
from privpipe.record.checks import Check, broken, holds, unchecked
from privpipe.record.released import Released, file_hash
from privpipe.reporting.document_shapes import PUBLISHED, VERDICT, misshapen
from privpipe.reporting.officer.languages import LANGUAGES
from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.output_schemas import output_schema
from privpipe.reporting.run_documents import RunDocuments
from privpipe.running.plan import document_digest
from privpipe.running.release_chain import CHAIN_START, link_of
from privpipe.running.sealing import MANIFEST_VERSION, manifest_checksum
from privpipe.sinks.records import document_text

__all__ = ["chain_problems", "manifest_fault", "public_checks"]

Document = Mapping[str, Any]
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
        return "there is no manifest, or it is no document"
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
    if released.folder is None:  # never by what the manifest says of itself
        where = str(manifest["output"].get("table") or "of the sink")
        yield unchecked("files", f"the rows stand in the table {where}; `privpipe validate` judges them")
        return
    wrong = [f"{name} is missing" for name in listed if name not in there]
    wrong += [f"{name} is not of the release" for name in there if name not in listed]
    for name in sorted(set(listed) & set(there)):
        path = there[name]
        if os.path.islink(path) or not path.is_file():
            wrong.append(f"{name} is no file")
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
        return broken("plan of the manifest", "plan.json is no document")
    if document_digest(plan) == document_digest(manifest["plan"]) == manifest["plan_hash"]:
        return holds("plan of the manifest", "it is plan.json, and has its hash")
    return broken("plan of the manifest", "it is not plan.json, or does not have its hash")


def _verdict(released: Released, manifest: Document) -> Check:
    verdict = released.parsed("verdict")
    wrong = "verdict.json is no document" if verdict is None else misshapen(verdict, VERDICT)
    if verdict is None or wrong:
        return broken("verdict of the manifest", wrong)
    for name in ("run_id", "name", "policy_hash", "plan_hash", "engine", "nulls"):
        if verdict.get(name) != manifest[name]:
            return broken("verdict of the manifest", f"{name} is another in the verdict")
    if verdict.get("passed") is not True or any(
        row["severity"] == "fail" and row["outcome"] != "pass" for row in verdict["guarantees"]
    ):
        return broken("verdict of the manifest", "the verdict is no pass")
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
        made = report_page(ReportData.of(run), lang).encode()
    except (PrivpipeError, LookupError, TypeError, ValueError, AttributeError) as error:
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
            yield f"what is told of {entry['run_id']} was changed"
        link = str(entry["link"])
    if len({entry["run_id"] for entry in before}) != len(before):
        yield "a release stands in it twice"
    last = before[-1] if before else None
    if last is not None and (
        previous is None or any(previous[name] != last[name] for name in ("run_id", "manifest_sha256"))
    ):
        yield "the release before is another than the last of those that are listed"
