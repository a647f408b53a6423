"""Readers of what a run wrote: each input is edits, and what was changed and not sealed again must not be accepted."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import privpipe as pp
from privpipe.compiled import load
from privpipe.errors import DataError, PrivpipeError, SignOffMissing, SinkError, UsageError
from privpipe.ledger import Ledger
from privpipe.ledger.chain import read_chain
from privpipe.ledger.entry import MAGIC, Seal
from privpipe.ledger.folder import canonical
from privpipe.record import history, verify
from privpipe.reporting.export_formats import FORMATS, exported
from privpipe.reporting.officer.page import comparison_page
from privpipe.reporting.report import report
from privpipe.reporting.run_comparison import compare_runs
from privpipe.reporting.run_documents import RunDocuments
from privpipe.running.officers import approvals
from privpipe.running.plan import BESIDE, canonical_json, document_digest
from privpipe.running.published_release import process_beside, read_release
from privpipe.running.release_memory import KeyHistory
from privpipe.running.run_documents import chain_of, manifest_checksum, manifest_seal
from privpipe.running.waiting_runs import read_request
from privpipe.scheduled.job import published_at
from privpipe.signing import statement_digest
from privpipe.sinks.records import document_text
from privpipe.sinks.target import LocalTarget
from tests.fuzzing.edits import Edits, edited, fewer_edits, more_edits
from tests.fuzzing.readers import Reader, Wrong
from tests.fuzzing.world import KEY, World, world

__all__ = ["document_readers"]

Sealed = Callable[[Any, World], bytes]


@dataclass(frozen=True, kw_only=True)
class Written:
    """A document of a run, and what reads it.

    Parameters
    ----------
    path : callable
        Where it lies.
    read : callable
        Reads it there; whether it is as a run wrote it, or None where nothing proves that.
    sealed : callable
        Its bytes with checksums and seals made again.
    told : callable
        What of its bytes counts: others with the same are no change.
    """

    path: Callable[[World], Path]
    read: Callable[[World], bool | None]
    sealed: Sealed
    told: Callable[[bytes], Any] = bytes


def _tried(written: Written, data: bytes, place: Path) -> None:
    del place
    here, edits = world(), Edits.read(data)
    path = written.path(here)
    before = path.read_bytes()
    head, document, rows = _parts(before)
    changed = edited(document, edits.values)
    text = before if changed == document and not edits.values else head(_plain(changed)) + rows
    if edits.sealed:
        with suppress(ValueError, TypeError, LookupError, AttributeError, OverflowError):
            text = written.sealed(changed, here)
    text = edits.on_bytes(text)
    path.write_bytes(text)
    try:
        sound = written.read(here)
        if sound and not edits.sealed and written.told(text) != written.told(before):
            raise Wrong("it was changed, and nothing said so")
        if sound is False:
            raise UsageError("it was told to be broken")  # `verify` tells what others raise
    except PrivpipeError:
        if text == before:
            raise Wrong("it was not changed, and is refused") from None
        raise
    finally:
        path.write_bytes(before)


@cache
def _ready(written: Written) -> None:
    """Make the world, and compile what a sound document needs: a compiler takes more steps than any input may."""
    load()
    _tried(written, Edits().written(), Path())


def _plain(document: Any) -> bytes:
    return (json.dumps(document, sort_keys=True, indent=2) + "\n").encode()


def _parts(data: bytes) -> tuple[Callable[[bytes], bytes], Any, bytes]:
    """The document in a file: all of it, or the header of a ledger's entry with the rows behind it."""
    if not data.startswith(MAGIC):
        return bytes, json.loads(data), b""
    start = len(MAGIC) + 8
    length = int.from_bytes(data[len(MAGIC) : start], "big")
    return (
        lambda text: MAGIC + len(text).to_bytes(8, "big") + text,
        json.loads(data[start : start + length]),
        data[start + length :],
    )


def _after(errors: tuple[type[PrivpipeError], ...], *calls: Callable[[], Any]) -> None:
    """Make every call; then raise what one of them may not raise, else the first error."""
    raised: list[PrivpipeError] = []
    for call in calls:
        try:
            call()
        except PrivpipeError as error:
            raised.append(error)
    for error in sorted(raised, key=lambda error: isinstance(error, errors)):
        raise error


def _content(data: bytes) -> Any:
    with suppress(ValueError, RecursionError):
        return json.dumps(json.loads(data), sort_keys=True)
    return data


def _plan_content(data: bytes) -> Any:
    with suppress(ValueError, RecursionError, AttributeError):
        return json.dumps({name: v for name, v in json.loads(data).items() if name not in BESIDE}, sort_keys=True)
    return data


def _statement(data: bytes) -> Any:
    """What a signature is of: the rest is for people; the target is keyed, and proved on publication."""
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        return json.dumps({**json.loads(data)["statement"], "target": None}, sort_keys=True)
    return data


def _plan(here: World) -> bool:
    plan = pp.Plan.from_json((here.records / "plan.json").read_bytes().decode("utf-8", "replace"), here.policy)
    repr((plan.levels, plan.loss, plan.suppressed_records, plan.optimal, plan.nodes_checked, plan.digest))
    plan.public_dict()
    plan._repr_html_()
    return True


def _applied(here: World) -> bool:
    plan = pp.Plan.from_json((here.records / "plan.json").read_bytes().decode("utf-8", "replace"), here.policy)
    pp.transform(str(here.home / "people.csv"), plan)
    return True


def _checksummed(document: Any, here: World) -> bytes:
    told = {name: value for name, value in document.items() if name not in ("checksum", *BESIDE)}
    return canonical_json({**told, "checksum": document_digest(told)}).encode()


def _verified(here: World) -> bool:
    release = str(here.release)
    sound = verify(release, policy=here.policy).sound
    process_beside(here.release)
    published_at(release)
    _after(
        (DataError, SinkError, UsageError),
        partial(history, release),
        partial(_told, here.release),
        partial(chain_of, LocalTarget(here.release)),
        partial(read_release, release),
    )
    return sound


def _sealed_manifest(document: Any, here: World) -> bytes:
    assert here.policy.seed is not None
    made = {**document, "seal": manifest_seal(here.policy.seed.resolve(), document)}
    return document_text({**made, "checksum": manifest_checksum(made)}).encode()


def _recorded(here: World) -> bool:
    sound = verify(str(here.release), policy=here.policy, records=here.records.parent).sound
    history(str(here.release), here.records.parent)
    _after((UsageError,), partial(_told, here.records))
    return sound


def _report(here: World) -> None:
    _told(here.records)


def _told(home: Path) -> None:
    """Everything that is written of a run; texts can be written as files."""
    run = RunDocuments.read(str(home))
    texts = [report(home), report(home, format="html"), report(home, format="html", lang="de")]
    texts += [exported(str(home), form) for form in FORMATS]
    compare_runs(run, run).to_dict()
    if run.edition != "public":
        texts.append(comparison_page(run, run))
    "".join(texts).encode()


def _ledger(here: World) -> bool:
    with Ledger(here.ledger, KEY, reading=True, place=LocalTarget(here.release)) as opened:
        opened.releases()
    return True


def _entry(here: World) -> Path:
    return sorted(here.ledger.glob("*/*.entry"))[1]


def _sealed_head(document: Any, here: World) -> bytes:
    told = {name: value for name, value in document.items() if name not in ("seal", "checksum")}
    told["seal"] = Seal.of(KEY, told["salt"]).link(canonical(told))
    return canonical({**told, "checksum": sha256(canonical(told)).hexdigest()})


def _sealed_entry(document: Any, here: World) -> bytes:
    chain = read_chain(here.ledger, KEY)
    assert chain.seal is not None
    rows = _parts(_entry(here).read_bytes())[2][:-32]
    header = canonical(document)
    body = MAGIC + len(header).to_bytes(8, "big") + header + rows
    return body + bytes.fromhex(chain.seal.link(body))


def _sealed_witness(document: Any, here: World) -> bytes:
    told = {name: value for name, value in document.items() if name != "checksum"}
    return canonical({**told, "checksum": sha256(canonical(told)).hexdigest()})


def _keys(here: World) -> None:
    assert here.policy.seed is not None
    KeyHistory(LocalTarget(here.release).state, here.policy.seed.resolve())._read()


def _asked(here: World) -> bool:
    read_request(here.waiting)
    return True


def _signed(here: World) -> bool:
    assert here.officer.sign_off is not None
    try:
        document = json.loads((here.home / "signature.json").read_bytes())
    except (ValueError, RecursionError):
        document = None
    statement = statement_digest(read_request(here.waiting)["statement"])
    return len(approvals(here.officer.sign_off, statement, [document], datetime.now(UTC))) == 1


def _beside(name: str) -> Callable[[World], Path]:
    return lambda here: here.release / "_privpipe" / f"{name}.json"


def _unsealed(document: Any, here: World) -> bytes:
    return document_text(document).encode()


WRITTEN: dict[str, tuple[Written, tuple[str, ...], tuple[type[PrivpipeError], ...]]] = {
    "plan": (
        Written(path=lambda here: here.records / "plan.json", read=_plan, sealed=_checksummed, told=_plan_content),
        ("running/plan.py", "html_tables.py", "transforms/base", "blocks/shown_parameters.py"),
        (UsageError,),
    ),
    "applied": (
        Written(path=lambda here: here.records / "plan.json", read=_applied, sealed=_checksummed, told=_plan_content),
        ("running/", "transforms/", "hierarchies/"),
        (UsageError, DataError),
    ),
    "manifest": (
        Written(path=_beside("manifest"), read=_verified, sealed=_sealed_manifest),
        ("record/", "running/", "reporting/", "scheduled/"),
        (UsageError, DataError, SinkError),
    ),
    "verdict": (
        Written(path=_beside("verdict"), read=_verified, sealed=_unsealed),
        ("record/", "running/", "reporting/", "scheduled/"),
        (UsageError, DataError),
    ),
    "public_plan": (
        Written(path=_beside("plan"), read=_verified, sealed=_unsealed),
        ("record/", "running/", "reporting/", "scheduled/"),
        (UsageError, DataError),
    ),
    "record": (
        # Nothing holds the bytes of a private record, which no one else reads: its checksum is of what it says.
        Written(
            path=lambda here: here.records / "manifest.json", read=_recorded, sealed=_sealed_manifest, told=_content
        ),
        ("record/", "reporting/"),
        (UsageError,),
    ),
    "report": (
        Written(path=lambda here: here.records / "report.json", read=_report, sealed=_unsealed),
        ("reporting/",),
        (UsageError,),
    ),
    "ledger": (
        Written(path=lambda here: here.ledger / "ledger.json", read=_ledger, sealed=_sealed_head),
        ("ledger/",),
        (DataError, UsageError),
    ),
    "entry": (Written(path=_entry, read=_ledger, sealed=_sealed_entry), ("ledger/",), (DataError, UsageError)),
    "witness": (
        Written(
            path=lambda here: LocalTarget(here.release).state / "ledger.json", read=_ledger, sealed=_sealed_witness
        ),
        ("ledger/",),
        (DataError, UsageError),
    ),
    "keys": (
        Written(path=lambda here: LocalTarget(here.release).state / "keys.json", read=_keys, sealed=_unsealed),
        ("running/release_memory.py",),
        (DataError,),
    ),
    "request": (
        Written(path=lambda here: here.waiting / "request.json", read=_asked, sealed=_unsealed, told=_statement),
        ("running/waiting_runs.py", "running/officers.py"),
        (UsageError, SignOffMissing),
    ),
    "signature": (
        Written(path=lambda here: here.home / "signature.json", read=_signed, sealed=_unsealed, told=_content),
        ("signing/", "running/officers.py"),
        (SignOffMissing,),
    ),
}


def _document(written: Written) -> Any:
    return _parts(written.path(world()).read_bytes())[1]


def document_readers() -> tuple[Reader, ...]:
    """The readers of all of them."""
    return tuple(
        Reader(
            name=name,
            rooms=rooms,
            read=partial(_tried, written),
            errors=errors,
            mutate=lambda data, queue, draw, written=written: more_edits(
                Edits.read(data), _document(written), draw
            ).written(),
            first=(Edits().written(), Edits(sealed=True).written()),
            smaller=fewer_edits,
            ready=partial(_ready, written),
        )
        for name, (written, rooms, errors) in WRITTEN.items()
    )
