"""A release waits for its sign-off, and exactly what was approved is published."""

from __future__ import annotations

import html
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import privpipe as pp
from privpipe.cli import app
from privpipe.errors import DataError, PolicyError, SignOffMissing, SinkError, UnsupportedError, UsageError
from privpipe.record import history, verify
from privpipe.running import waiting_runs
from privpipe.signing import PublicKey, Signature, SigningKey, new_key, read_private, signed, statement_digest
from privpipe.sinks.target import LocalTarget

pytest.importorskip("cryptography")
Document = dict[str, Any]


class Desk:
    """A job, its officer's policy, and persons with keys."""

    def __init__(self, place: Path, document: Document) -> None:
        self.place, self.document = place, document
        self.keys = {name: self.key(name) for name in ("Ada", "Bo", "Eve")}
        self.rule: Document = {"by": [self.signer("Ada"), self.signer("Bo")]}
        self.write()

    def key(self, name: str) -> SigningKey:
        new_key(self.place / name)
        return read_private(self.place / name)

    def signer(self, name: str) -> Document:
        return {"name": name, "key": self.keys[name].public.line}

    def write(self) -> None:
        officer = {"guarantees": [{"k_anonymity": {"k": 5}}], "sign_off": self.rule}
        (self.place / "officer.yaml").write_text(json.dumps(officer))
        self.policy = self.place / "release.yaml"
        self.policy.write_text(json.dumps({**self.document, "policy": "officer.yaml"}))

    def stage(self) -> Path:
        with pytest.raises(SignOffMissing) as missing:
            pp.release(self.policy)
        assert missing.value.assessment.passed
        return Path(missing.value.waiting)

    def sign(self, folder: Path, name: str, **said: Any) -> Signature:
        statement = waiting_runs.read_request(folder)["statement"]
        key = said.pop("key", self.keys[name])
        told = {
            "name": name,
            "key": key.public,
            "decision": "approve",
            "statement": statement_digest(statement),
            "signed_at": datetime.now(UTC).replace(microsecond=0),
        }
        made = signed(key, Signature(**{**told, **said}))
        path = folder / "signatures" / f"{len(list((folder / 'signatures').iterdir()))}.json"
        path.write_text(json.dumps(made.to_dict()))
        return made

    def go_on(self, folder: Path) -> Any:
        return pp.release(self.policy, resume=str(folder))

    @property
    def target(self) -> Path:
        return Path(self.document["sink"]["path"])

    def published(self) -> bool:
        return os.path.lexists(self.target)


@pytest.fixture
def desk(place: Path, document: Document) -> Desk:
    return Desk(place, document)


@pytest.fixture
def waits(desk: Desk) -> Path:
    return desk.stage()


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def refused(desk: Desk, folder: Path, match: str, kind: type[Exception] = SignOffMissing) -> None:
    with pytest.raises(kind, match=match):
        desk.go_on(folder)
    assert not desk.published()


def test_a_release_waits_and_what_was_approved_is_published(desk: Desk, waits: Path) -> None:
    assert not desk.published()
    staged = bytes_of(waits / "files")
    refused(desk, waits, "1 of Ada, Bo must approve, and 0 did")
    desk.sign(waits, "Ada", comment="fine")
    result = desk.go_on(waits)
    assert bytes_of(desk.target) == staged
    assert result.run_id == waits.name.removesuffix(".waiting")
    assert not waits.exists()
    manifest = json.loads((desk.target / "_privpipe/manifest.json").read_text())
    assert [each["name"] for each in manifest["sign_off"]["signatures"]] == ["Ada"]
    found = verify(str(desk.target), policy=pp.Policy.load(desk.policy))
    assert found.sound
    assert {check.outcome for check in found.checks} == {"holds"}
    assert [row["signed_by"] for row in history(str(desk.target)).releases] == [["Ada"]]
    pp_second = desk.stage()
    desk.sign(pp_second, "Bo")
    desk.go_on(pp_second)
    assert [row["signed_by"] for row in history(str(desk.target)).releases] == [["Ada"], ["Bo"]]
    assert verify(str(desk.target), policy=pp.Policy.load(desk.policy)).sound


def test_staged_bytes_survive_other_runs(desk: Desk, waits: Path) -> None:
    staged = bytes_of(waits / "files")
    other = desk.stage()
    with LocalTarget(desk.target):
        pass
    assert bytes_of(waits / "files") == staged
    desk.sign(other, "Ada")
    desk.go_on(other)
    assert not waits.exists()  # readers would go back


def test_what_waits_is_private(waits: Path) -> None:
    for path in [waits, *waits.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_published_files_are_as_readable_as_others(desk: Desk, waits: Path) -> None:
    desk.sign(waits, "Ada")
    desk.go_on(waits)
    assert {stat.S_IMODE(path.stat().st_mode) for path in desk.target.glob("*.parquet")} == {0o644}


class TestSignaturesThatDoNotCount:
    def test_a_foreign_key(self, desk: Desk, waits: Path) -> None:
        desk.sign(waits, "Eve")
        refused(desk, waits, "foreign")

    def test_a_trusted_name_with_another_key(self, desk: Desk, waits: Path) -> None:
        desk.sign(waits, "Ada", key=desk.keys["Eve"])
        refused(desk, waits, "foreign")

    def test_a_trusted_key_under_another_name(self, desk: Desk, waits: Path) -> None:
        desk.sign(waits, "Bo", key=desk.keys["Ada"])
        refused(desk, waits, "foreign")

    def test_an_expired_one(self, desk: Desk, waits: Path) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        desk.sign(waits, "Ada", signed_at=now - timedelta(days=2), expires=now - timedelta(days=1))
        refused(desk, waits, "expired")

    def test_one_that_is_older_than_the_officer_allows(self, desk: Desk, waits: Path) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        desk.sign(waits, "Ada", signed_at=now - timedelta(days=91), expires=now + timedelta(days=900))
        refused(desk, waits, "expired")

    def test_the_last_moment_is_the_end_of_it(self, desk: Desk) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        made = Signature(name="Ada", key=desk.keys["Ada"].public, decision="approve", statement="", signed_at=now)
        end = now + timedelta(days=90)
        assert made.valid_at(end - timedelta(microseconds=1), 90)
        assert not made.valid_at(end, 90)

    def test_one_from_the_future(self, desk: Desk, waits: Path) -> None:
        desk.sign(waits, "Ada", signed_at=datetime.now(UTC).replace(microsecond=0) + timedelta(days=1))
        refused(desk, waits, "future")

    def test_one_of_another_run(self, desk: Desk, waits: Path) -> None:
        other = desk.stage()
        desk.sign(other, "Ada")
        shutil.copy(other / "signatures" / "0.json", waits / "signatures")
        refused(desk, waits, "of another run")

    @pytest.mark.parametrize(
        "change",
        [
            {"decision": "approve"},
            {"comment": "more"},
            {"expires": None},
            {"statement": "0" * 64},
            {"name": "Bo"},
            {"signed_at": "2026-01-01T00:00:00+00:00"},
            {"signature": "AAAA"},
            {"more": 1},
        ],
    )
    def test_one_that_was_changed(self, desk: Desk, waits: Path, change: Document) -> None:
        soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        desk.sign(waits, "Ada", decision="reject" if "decision" in change else "approve", expires=soon)
        path = waits / "signatures" / "0.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        refused(desk, waits, "does not hold|another run|foreign|damaged")

    def test_one_over_other_purposes(self, desk: Desk, waits: Path) -> None:
        made = desk.sign(waits, "Ada")
        path = waits / "signatures" / "0.json"
        other = desk.keys["Ada"].sign(made.message.partition(b"\n")[2])
        import base64

        path.write_text(json.dumps({**made.to_dict(), "signature": base64.b64encode(other).decode()}))
        refused(desk, waits, "does not hold")

    def test_no_json(self, desk: Desk, waits: Path) -> None:
        (waits / "signatures" / "0.json").write_text("{")
        refused(desk, waits, "damaged")


def test_whoever_rejects_stops_it_whoever_approves(desk: Desk, waits: Path) -> None:
    desk.sign(waits, "Ada")
    desk.sign(waits, "Bo", decision="reject")
    refused(desk, waits, "Bo rejects")


def test_a_later_decision_replaces_an_earlier_one(desk: Desk, waits: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    desk.sign(waits, "Ada", decision="changes", signed_at=now - timedelta(hours=1))
    refused(desk, waits, "Ada asks for changes")
    desk.sign(waits, "Ada", signed_at=now)
    assert desk.go_on(waits).published


class TestTwoPersons:
    @pytest.fixture
    def desk(self, place: Path, document: Document) -> Desk:
        desk = Desk(place, document)
        desk.rule["two_persons"] = True
        desk.write()
        return desk

    def test_two_must_sign(self, desk: Desk) -> None:
        waits = desk.stage()
        desk.sign(waits, "Ada")
        desk.sign(waits, "Ada")
        refused(desk, waits, "2 of Ada, Bo must approve, and 1 did")
        desk.sign(waits, "Bo")
        assert desk.go_on(waits).published

    @pytest.mark.parametrize("names", [("Ada", "Bo"), ("Ada", "ada")])
    def test_one_person_is_not_two(self, desk: Desk, names: tuple[str, str]) -> None:
        same_key = names == ("Ada", "Bo")
        second = desk.keys["Ada" if same_key else "Bo"].public.line
        desk.rule["by"] = [desk.signer("Ada"), {"name": names[1], "key": f"{second} comment"}]
        desk.write()
        with pytest.raises(PolicyError, match="one key is one person|named twice"):
            pp.release(desk.policy)


class TestOtherBytes:
    """Approved, and then something changes."""

    @pytest.fixture
    def waits(self, desk: Desk) -> Path:
        folder = desk.stage()
        desk.sign(folder, "Ada")
        return folder

    def test_another_data_file(self, desk: Desk, waits: Path) -> None:
        part = waits / "files" / "part-00000.parquet"
        part.write_bytes(part.read_bytes()[::-1])
        refused(desk, waits, "not those that were to be approved")

    def test_one_more_data_file(self, desk: Desk, waits: Path) -> None:
        (waits / "files" / "part-00001.parquet").write_bytes(b"rows")
        refused(desk, waits, "not those that were to be approved")

    def test_a_link_in_place_of_a_file(self, desk: Desk, waits: Path) -> None:
        part = waits / "files" / "part-00000.parquet"
        part.rename(desk.place / "elsewhere")
        part.symlink_to(desk.place / "elsewhere")
        refused(desk, waits, "not those that were to be approved")

    @pytest.mark.parametrize("name", ["verdict", "plan", "manifest"])
    def test_another_public_document(self, desk: Desk, waits: Path, name: str) -> None:
        path = waits / "files" / "_privpipe" / f"{name}.json"
        found = json.loads(path.read_text())
        path.write_text(json.dumps({**found, "run_id": found.get("run_id"), "name": "other"}, indent=2, sort_keys=True))
        refused(desk, waits, "approved|not what was staged")

    def test_another_private_plan(self, desk: Desk, waits: Path) -> None:
        path = waits / "private" / "plan.json"
        found = json.loads(path.read_text())
        found["records"] += 1
        path.write_text(json.dumps(found))
        refused(desk, waits, "private documents")

    def test_another_request(self, desk: Desk, waits: Path) -> None:
        path = waits / "request.json"
        found = json.loads(path.read_text())
        found["statement"]["files"] = []
        path.write_text(json.dumps(found))
        refused(desk, waits, "not what was staged")

    def test_an_unsigned_run_under_the_name_of_a_signed_one(self, desk: Desk, waits: Path) -> None:
        other = desk.stage()
        for name in ("files", "private", "request.json"):
            shutil.move(waits / name, desk.place / f"old-{name}")
            shutil.move(other / name, waits / name)
        refused(desk, waits, "another one")

    def test_another_policy(self, desk: Desk, waits: Path) -> None:
        desk.document["guarantees"][0]["k_anonymity"]["k"] = 6
        desk.write()
        refused(desk, waits, "policy is not the one", UsageError)

    @pytest.mark.parametrize("change", [{"valid_days": 9999}, {"by": "Eve"}, None])
    def test_another_officers_policy(self, desk: Desk, waits: Path, change: Document | None) -> None:
        if change is None:
            (desk.place / "officer.yaml").write_text("{guarantees: []}")
        else:
            desk.rule.update({"by": [desk.signer("Eve")]} if "by" in change else change)
            desk.write()
        refused(desk, waits, "officer's policy", UsageError)

    def test_another_target(self, desk: Desk, waits: Path) -> None:
        other = desk.place / "other" / "people"
        home = other.parent / ".people.privpipe" / "records"
        home.mkdir(parents=True, mode=0o700)
        shutil.copytree(waits, home / waits.name)
        with pytest.raises(SignOffMissing, match="not what was staged for"):
            pp.release(desk.policy, resume=waits.name, target=str(other))
        assert not other.exists()

    def test_another_source(self, desk: Desk, waits: Path) -> None:
        with (desk.place / "people.csv").open("a") as file:
            file.write("new,30,Ashford,flu\n")
        refused(desk, waits, "the source has changed since", DataError)

    def test_files_that_are_swapped_while_they_are_published(
        self, desk: Desk, waits: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The swapped file is sound and judged alike: only its bytes tell."""
        import pyarrow.parquet as pq

        publish = LocalTarget.publish

        def swapped(self: LocalTarget, run_id: str) -> str:
            part = self.stage(run_id) / "part-00000.parquet"
            table = pq.read_table(part)
            part.unlink()
            pq.write_table(table, part, compression="gzip")
            return publish(self, run_id)

        monkeypatch.setattr(LocalTarget, "publish", swapped)
        refused(desk, waits, "not those that were to be approved")

    def test_the_swap_of_the_waiting_file_after_it_was_copied_changes_nothing(
        self, desk: Desk, waits: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        staged, lay = bytes_of(waits / "files"), waiting_runs.HeldRun.lay

        def laid(self: waiting_runs.HeldRun, folder: Path) -> Any:
            written = lay(self, folder)
            (self.folder / "files" / "part-00000.parquet").write_bytes(b"other rows")
            return written

        monkeypatch.setattr(waiting_runs.HeldRun, "lay", laid)
        desk.go_on(waits)
        assert bytes_of(desk.target) == staged

    def test_a_swap_between_the_check_and_the_copy(
        self, desk: Desk, waits: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lay = waiting_runs.HeldRun.lay

        def laid(self: waiting_runs.HeldRun, folder: Path) -> Any:
            (self.folder / "files" / "part-00000.parquet").write_bytes(b"other rows")
            return lay(self, folder)

        monkeypatch.setattr(waiting_runs.HeldRun, "lay", laid)
        refused(desk, waits, "not those that were to be approved")

    def test_a_run_that_was_published_is_not_published_again(self, desk: Desk, waits: Path) -> None:
        kept = desk.place / "kept"
        shutil.copytree(waits, kept)
        desk.go_on(waits)
        shutil.copytree(kept, waits)
        before = desk.target.resolve()
        with pytest.raises(SinkError, match="another release was published"):
            desk.go_on(waits)
        assert desk.target.resolve() == before


def test_a_policy_without_a_seed_cannot_wait(desk: Desk) -> None:
    del desk.document["seed"]
    desk.write()
    with pytest.raises(UsageError, match="declare a `seed:`"):
        pp.release(desk.policy)


def test_a_table_of_a_catalogue_cannot_wait(desk: Desk) -> None:
    class InCatalogue(LocalTarget):
        @property
        def publishes_files(self) -> bool:
            return False

    with pytest.raises(UnsupportedError, match="cannot wait"):
        waiting_runs.require_waitable(pp.Policy.load(desk.policy), InCatalogue(desk.target))


class TestReports:
    def test_of_a_run_that_waits(self, desk: Desk, waits: Path) -> None:
        page = (waits / "report.html").read_text(encoding="utf-8")
        assert page == pp.report(waits, format="html")
        for said in (
            "Waiting for signature",
            "This release waits for: Ada, Bo. This many of them must approve: 1.",
            "an approval ends 90 days after it was made",
            f"privpipe sign {waits} --as NAME --decision approve",
            f"privpipe release POLICY --continue {waits.name.removesuffix('.waiting')}",
        ):
            assert said in page, said
        assert "Internal edition" in page
        assert "1 of Ada, Bo approve it" in pp.report(waits)
        assert not (waits / "files" / "_privpipe" / "report.html").exists()
        assert "Quokkaville" not in page

    def test_of_one_that_was_signed_tell_by_whom(self, desk: Desk, waits: Path) -> None:
        made = desk.sign(waits, "Ada", comment="fine")
        result = desk.go_on(waits)
        for folder in (Path(result.path, "_privpipe"), Path(result.record)):
            page = (folder / "report.html").read_text(encoding="utf-8")
            assert page == pp.report(folder, format="html")
            assert "These persons signed this release before it was published." in page
            row = page.partition('<table class="sign">')[2].partition("</table>")[0]
            assert "<td>Ada</td>" in row
            assert made.signed_at.strftime("%H:%M UTC") in row
            assert made.to_dict()["signature"] in html.unescape(row)
            assert "Published" in page
            assert "Waiting" not in page

    def test_of_a_run_whose_policy_wants_none(self, desk: Desk) -> None:
        desk.document["report"] = {"write": False}
        desk.write()
        folder = desk.stage()
        assert not (folder / "report.html").exists()
        desk.sign(folder, "Ada")
        assert not Path(desk.go_on(folder).path, "_privpipe", "report.html").exists()

    def test_a_page_among_what_waits_is_not_taken(self, desk: Desk, waits: Path) -> None:
        desk.sign(waits, "Ada")
        (waits / "files" / "_privpipe" / "report.html").write_text("other")
        refused(desk, waits, "not those that were to be approved")

    @pytest.mark.parametrize("change", [{"asked": {"by": "Ada"}}, {"statement": None}, {"statement": {}}])
    def test_a_damaged_request_is_reported(self, waits: Path, change: Document) -> None:
        path = waits / "request.json"
        found = json.loads(path.read_text())
        path.write_text(json.dumps({**found, **change}))
        with pytest.raises(UsageError, match="request.json"):
            pp.report(waits)


def test_a_dry_run_waits_for_no_one(desk: Desk) -> None:
    assert not pp.release(desk.policy, dry_run=True).published


def test_a_job_without_the_officers_policy_is_held_by_the_pinned_one(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.policy.write_text(json.dumps(desk.document))
    monkeypatch.setenv("PRIVPIPE_OFFICER_POLICY", str(desk.place / "officer.yaml"))
    folder = desk.stage()
    desk.sign(folder, "Ada")
    assert desk.go_on(folder).published


def test_a_remote_sink_waits_too(desk: Desk) -> None:
    pytest.importorskip("fsspec")
    desk.document["sink"] = {"path": "memory://signed/people"}
    desk.write()
    folder = desk.stage()
    desk.sign(folder, "Ada")
    desk.go_on(folder)
    assert verify("memory://signed/people", policy=pp.Policy.load(desk.policy)).sound


class TestVerify:
    @pytest.fixture
    def released(self, desk: Desk, waits: Path) -> Path:
        desk.sign(waits, "Ada", comment="fine")
        return Path(desk.go_on(waits).path)

    def changed(self, released: Path, change: Callable[[Document], None]) -> None:
        from privpipe.running.run_documents import sealed
        from privpipe.sinks.records import document_text

        path = released / "_privpipe" / "manifest.json"
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(document_text({**manifest, "checksum": sealed(manifest, None)["checksum"]}))

    @pytest.mark.parametrize(
        "change",
        [
            lambda m: m["sign_off"]["signatures"][0].update(comment="finer"),
            lambda m: m["sign_off"]["signatures"][0].update(name="Bo"),
            lambda m: m["sign_off"]["signatures"].clear(),
            lambda m: m.update(sign_off=None),
            lambda m: m["sign_off"]["statement"]["files"][0].update(sha256="0" * 64),
            lambda m: m["sign_off"].update(checked_at="2090-01-01T00:00:00+00:00"),
            lambda m: m["sign_off"].update(checked_at="2020-01-01T00:00:00+00:00"),
            lambda m: m["output"].update(records=7),
            lambda m: m["policy"].update(name="other"),
        ],
    )
    def test_a_changed_signature_or_what_it_signs_is_found(
        self, desk: Desk, released: Path, change: Callable[[Document], None]
    ) -> None:
        self.changed(released, change)
        found = verify(str(released), officer=pp.Policy.load(desk.policy).officer, records=desk.place / "nowhere")
        assert any("sign" in check.name for check in found.broken)

    def test_another_officers_policy_is_found(self, desk: Desk, released: Path) -> None:
        desk.rule["by"] = [desk.signer("Eve")]
        desk.write()
        found = verify(str(released), officer=pp.Policy.load(desk.policy).officer)
        assert {check.name for check in found.broken} == {"officer's policy", "sign-off"}

    def test_without_the_officers_policy_no_one_is_trusted(self, desk: Desk, released: Path) -> None:
        found = {check.name: check.outcome for check in verify(str(released)).checks}
        assert found["signature of Ada"] == "holds"
        assert found["sign-off"] == "not_checked"


class TestCommands:
    def run(self, *arguments: Any, code: int = 0) -> Result:
        done = CliRunner().invoke(app, [str(each) for each in arguments])
        assert done.exit_code == code, done.stderr
        return done

    def test_the_whole_way(self, desk: Desk) -> None:
        waited = self.run("release", desk.policy, code=7)
        assert "WAITING" in waited.stderr
        [folder] = (desk.place / "published" / ".people.privpipe" / "records").glob("*.waiting")
        run_id = folder.name.removesuffix(".waiting")
        self.run("release", desk.policy, "--continue", run_id, code=7)
        key, officer = desk.place / "Ada", desk.place / "officer.yaml"
        approve = ("--decision", "approve", "--key", key)
        self.run("sign", folder, "--as", "Ada", "--decision", "maybe", "--key", key, code=2)
        self.run("sign", folder, "--as", "Eve", *approve, "--officer-policy", officer, code=2)
        self.run("sign", folder, "--as", "Ada", *approve, "--expires", "2001-01-01", code=2)
        out = desk.place / "ada.json"
        self.run("sign", folder / "request.json", "--as", "Ada", *approve, "--out", out)
        self.run("release", desk.policy, "--continue", run_id, "--signature", out)
        self.run("verify", desk.target, "--policy", desk.policy, "--officer-policy", officer)
        assert "Ada" in self.run("history", desk.target).stdout

    def test_staged_files_are_held_to_the_request_before_they_are_signed(self, desk: Desk, waits: Path) -> None:
        (waits / "files" / "part-00000.parquet").write_bytes(b"other")
        self.run("sign", waits, "--as", "Ada", "--decision", "approve", "--key", desk.place / "Ada", code=7)
        assert not list((waits / "signatures").iterdir())

    def test_keys_are_made_and_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("PRIVPIPE_KEY_PASSWORD", "correct horse")
        line = self.run("key", "make", "--password").stdout.strip()
        path = tmp_path / "config" / "privpipe" / "id_ed25519"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert b"ENCRYPTED" in path.read_bytes()
        assert self.run("key", "show").stdout.strip() == line
        assert PublicKey.of(path.with_suffix(".pub").read_text()).line == line
        self.run("key", "make", code=2)
        monkeypatch.setenv("PRIVPIPE_KEY_PASSWORD", "wrong")
        assert "correct" not in self.run("key", "show", code=2).stderr
        path.chmod(0o644)
        assert "chmod" in self.run("key", "show", code=2).stderr

    def test_keys_of_openssh_are_taken(self, tmp_path: Path) -> None:
        if shutil.which("ssh-keygen") is None:
            pytest.skip("no ssh-keygen")
        for kind, code in (("ed25519", 0), ("rsa", 2)):
            path = tmp_path / kind
            subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "x", "-f", path], check=True)
            shown = self.run("key", "show", "--key", path, code=code)
            if code == 0:
                assert shown.stdout.split() == path.with_suffix(".pub").read_text().split()[:2]
                told = subprocess.run(["ssh-keygen", "-l", "-f", path], check=True, capture_output=True, text=True)
                assert shown.stderr.strip() in told.stdout


@pytest.mark.parametrize("raw", [bytes(32), bytes([1]) + bytes(31), bytes([1]) + bytes(30) + b"\x80"])
def test_points_under_which_anybody_can_sign_are_refused(raw: bytes) -> None:
    with pytest.raises(UsageError, match="anyone"):
        PublicKey.of(PublicKey(raw).line)


def test_nothing_secret_is_in_what_is_public_or_told(
    desk: Desk, waits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.sign(waits, "Ada")
    desk.go_on(waits)
    private = (desk.place / "Ada").read_text().splitlines()[1]
    for path in (desk.target / "_privpipe").iterdir():
        text = path.read_text()
        assert "Quokkaville" not in text
        assert private not in text
        assert str(desk.place) not in text.replace(json.dumps(desk.document["source"]["path"]), "").replace(
            json.dumps(desk.document["sink"]["path"]), ""
        )
