"""A release is verified, and whatever is changed in it is found."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.errors import Refused, SinkError, UsageError
from privpipe.record import Verification, history, verify
from privpipe.running.plan import document_digest
from privpipe.running.run_documents import sealed

Document = dict[str, Any]


def broken(found: Verification) -> set[str]:
    return {check.name for check in found.broken}


def outcomes(found: Verification) -> dict[str, str]:
    return {check.name: check.outcome for check in found.checks}


@pytest.fixture
def released(document: Document) -> Path:
    return Path(pp.release(document).path)


def manifest_of(released: Path) -> Path:
    return released / "_privpipe" / "manifest.json"


def rewritten(released: Path, change: Callable[[Document], None], *, checksum: bool = False) -> None:
    """The manifest with a change; with its checksum made again, as someone who knows the format would."""
    path = manifest_of(released)
    found = json.loads(path.read_text())
    change(found)
    if checksum:
        found = {**found, "checksum": sealed(found, None)["checksum"]}
    path.write_text(json.dumps(found, sort_keys=True, indent=2, ensure_ascii=False) + "\n")


def test_a_release_as_it_was_published_is_sound(released: Path, document: Document) -> None:
    policy = pp.Policy.from_dict(document)
    found = verify(str(released), policy=policy)
    assert found.sound
    assert set(outcomes(found).values()) == {"holds"}
    assert {"manifest", "files", "verdict", "plan", "policy", "chain", "seal", "seed", "commitments"} <= set(
        outcomes(found)
    )


@pytest.mark.parametrize("lang", ["en", "de"])
def test_a_page_that_was_changed_is_found(document: Document, lang: str) -> None:
    released = Path(pp.release({**document, "report": {"lang": lang}}).path)
    page = released / "_privpipe" / "report.html"
    assert outcomes(verify(str(released)))["report"] == "holds"
    page.write_bytes(page.read_bytes().replace(b"</h1>", b"!</h1>", 1))
    assert broken(verify(str(released))) == {"report"}
    page.unlink()
    page.symlink_to("verdict.json")
    assert broken(verify(str(released))) == {"report"}
    page.unlink()
    assert "report" not in outcomes(verify(str(released)))


def test_what_is_not_at_hand_is_said(released: Path, place: Path, tmp_path: Path) -> None:
    found = verify(str(released), records=tmp_path / "nowhere")
    assert found.sound
    assert {name for name, outcome in outcomes(found).items() if outcome == "not_checked"} == {
        "policy file",
        "private record",
        "seed",
    }
    with pytest.raises(UsageError, match="not a directory"):
        verify(str(place / "nothing"))


@pytest.mark.parametrize(
    "name", ["part-00000.parquet", *(f"_privpipe/{x}.json" for x in ("manifest", "plan", "verdict"))]
)
def test_every_region_of_every_file_is_held(released: Path, name: str, tmp_path: Path) -> None:
    path = released / name
    whole = path.read_bytes()
    for part in range(24):
        at = part * (len(whole) - 1) // 23
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert not verify(str(released), records=tmp_path / "nowhere").sound, f"byte {at} of {name}"
    path.write_bytes(whole[:-1])
    assert not verify(str(released), records=tmp_path / "nowhere").sound
    path.write_bytes(whole)
    assert verify(str(released)).sound
    path.unlink()
    assert not verify(str(released)).sound


def test_files_that_no_one_judged_are_found(released: Path) -> None:
    (released / "part-00001.parquet").write_bytes(b"more rows")
    assert broken(verify(str(released))) == {"files"}
    (released / "part-00001.parquet").unlink()
    (released / "deeper").mkdir()
    (released / "deeper" / "rows.csv").write_text("a")
    assert broken(verify(str(released))) == {"files"}
    (released / "deeper" / "rows.csv").unlink()
    (released / "_privpipe" / "letter.txt").write_text("a")
    assert broken(verify(str(released))) == {"documents"}


def test_a_part_file_that_is_a_link_is_found(released: Path, tmp_path: Path) -> None:
    part = released / "part-00000.parquet"
    part.rename(tmp_path / "elsewhere")
    part.symlink_to(tmp_path / "elsewhere")
    assert broken(verify(str(released))) == {"files"}


CHANGES: dict[str, Callable[[Document], None]] = {
    "policy": lambda m: m["policy"]["guarantees"][0]["k_anonymity"].update(k=2),
    "engine": lambda m: m.update(engine="spark"),
    "warnings": lambda m: m.update(verdict="passed_with_warnings"),
    "records": lambda m: m["output"].update(records=m["output"]["records"] + 1),
    "solver": lambda m: m.update(solver={"name": "highs", "package": "scipy", "version": "1"}),
    "seed": lambda m: m.update(seed_commitment="hmac-sha256:" + "0" * 64),
    "previous": lambda m: m.update(previous={"run_id": "20250101T000000Z-00000000", "manifest_sha256": "0" * 64}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_manifest_is_found_by_its_checksum(released: Path, name: str, tmp_path: Path) -> None:
    rewritten(released, CHANGES[name])
    assert "manifest" in broken(verify(str(released), records=tmp_path / "nowhere"))


@pytest.mark.parametrize("name", CHANGES)
def test_who_makes_the_checksum_again_lacks_seed_and_record(
    released: Path, document: Document, name: str, tmp_path: Path
) -> None:
    rewritten(released, CHANGES[name], checksum=True)
    assert "private record" in broken(verify(str(released)))
    by_seed = verify(str(released), policy=pp.Policy.from_dict(document), records=tmp_path / "nowhere")
    assert broken(by_seed) & {"seal", "seed"}


def test_a_policy_with_another_threshold_is_found_even_with_new_hashes(released: Path, tmp_path: Path) -> None:
    def loosened(manifest: Document) -> None:
        CHANGES["policy"](manifest)
        manifest["policy_hash"] = document_digest(manifest["policy"])

    rewritten(released, loosened, checksum=True)
    found = verify(str(released), records=tmp_path / "nowhere")
    assert {"policy", "verdict of the manifest"} <= broken(found)


def test_the_policy_file_is_compared(released: Path, document: Document) -> None:
    document["guarantees"][0]["k_anonymity"]["k"] = 3
    assert broken(verify(str(released), policy=pp.Policy.from_dict(document))) == {"policy file"}


def test_releases_are_chained_and_a_cut_chain_is_found(document: Document, tmp_path: Path) -> None:
    first = pp.release(document)
    document["guarantees"][0]["k_anonymity"]["k"] = 6
    second, third = pp.release(document), pp.release(document)
    released = Path(third.path)
    manifest = json.loads(manifest_of(released).read_text())
    assert manifest["previous"]["run_id"] == second.run_id
    listed = history(third.path)
    assert [row["run_id"] for row in listed.releases] == [first.run_id, second.run_id, third.run_id]
    assert [row["policy_changed"] for row in listed.releases] == [False, True, False]
    assert listed.problems == ()
    cuts: list[Callable[[Document], None]] = [
        lambda m: m["releases_before"].pop(0),
        lambda m: m["releases_before"].pop(),
        lambda m: m["releases_before"][0].update(policy_hash="0" * 64),
        lambda m: m["releases_before"].reverse(),
        lambda m: m.update(previous=None),
    ]
    whole = manifest_of(released).read_bytes()
    for cut in cuts:
        rewritten(released, cut, checksum=True)
        assert "chain" in broken(verify(str(released), records=tmp_path / "nowhere"))
        assert history(third.path).problems
        manifest_of(released).write_bytes(whole)


def test_refused_runs_are_listed_where_their_records_can_be_read(document: Document, tmp_path: Path) -> None:
    pp.release(document)
    document["transform"] = []
    time.sleep(1.1)  # runs are ordered by whole seconds
    with pytest.raises(Refused):
        pp.release(document)
    target = document["sink"]["path"]
    assert [row["verdict"] for row in history(target).releases] == ["passed", "refused"]
    assert [row["verdict"] for row in history(target, records=tmp_path / "nowhere").releases] == ["passed"]


def test_a_release_does_not_follow_one_whose_manifest_was_changed(released: Path, document: Document) -> None:
    before = released.resolve()
    rewritten(released, CHANGES["engine"])
    with pytest.raises(SinkError, match="changed"):
        pp.release(document)
    assert released.resolve() == before


def test_an_older_release_put_in_place_of_the_newest_is_found(document: Document, tmp_path: Path) -> None:
    import shutil

    released = Path(pp.release(document).path)
    shutil.copytree(released.resolve(), tmp_path / "kept")
    pp.release(document)
    home = released.resolve()
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "kept", home)
    assert broken(verify(str(released))) == {"newest release"}


def test_a_remote_release_is_verified_and_chained(document: Document) -> None:
    pytest.importorskip("fsspec")
    document["sink"] = {"path": "memory://record/people"}
    first, second = pp.release(document), pp.release(document)
    assert verify("memory://record/people").sound
    assert [row["run_id"] for row in history("memory://record/people").releases] == [first.run_id, second.run_id]


def test_public_documents_hold_no_value_that_occurs_once(released: Path) -> None:
    for path in (released / "_privpipe").iterdir():
        assert "Quokkaville" not in path.read_text()
