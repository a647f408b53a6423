"""Every command of the first pages runs, in their order: a first release, an officer's first review, a sign-off."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privpipe.cli import app
from privpipe.reporting.report import browser
from tests.record.conftest import base_document, place

from .page_blocks import blocks

pytestmark = pytest.mark.deep

__all__ = ["place"]

PROJECT = Path(__file__).resolve().parents[2]
RUN_ID = re.compile(r"\b20\d{6}T\d{6}Z-[0-9a-f]{8}\b")
GUARANTEES = [{"k_anonymity": {"k": 11}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}]
MEASURES = [{"prosecutor_risk": {}}, {"information_loss": {"measure": "ncp"}}]


class Reader:
    """Someone who types what a page says, in the folder where she is."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.code, self.typed, self.said = folder, 0, 0, ""

    def follow(self, page: str) -> None:
        for body in blocks(PROJECT / page, "console"):
            self.follow_block(body)

    def follow_block(self, body: str) -> None:
        told = [line.split(" #")[0].rstrip() for line in body.replace("\\\n", " ").splitlines()]
        prompted = any(line.startswith("$ ") for line in told)
        for at, line in enumerate(told):
            if not prompted or line.startswith("$ "):
                self.type(line.removeprefix("$ "), told[at + 1] if prompted and at + 1 < len(told) else "")

    def type(self, line: str, said: str) -> None:
        """One command, and what the page says that it says, as far as the first word."""
        if line == "echo $?":
            assert said == str(self.code)
            self.code = 0
            return
        assert self.code == 0, "a command failed, and the page does not say so"
        words = shlex.split(self.named(line))
        if words[0] == "pip":
            return
        assert words[0] == "privpipe"
        out = words[words.index(">") + 1] if ">" in words else None
        if "--pdf" in words and browser() is None:
            return
        done = CliRunner().invoke(app, words[1 : words.index(">") if out else None])
        self.code, self.typed = done.exit_code, self.typed + 1
        self.said = done.stdout
        assert self.code in (0, 7), done.stderr
        if said and not said.startswith("$ "):
            assert said.split()[0] in done.output
        if out:
            (self.folder / out).write_text(done.stdout, encoding="utf-8")

    def named(self, line: str) -> str:
        """The line with the run that there is instead of the page's."""
        found = [path.name.removesuffix(".waiting") for path in self.folder.glob("published/.*.privpipe/records/2*")]
        return RUN_ID.sub(lambda _: max(found), line)


@pytest.fixture
def reader(place: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return Reader(place)


def policy(place: Path, name: str, **changes: Any) -> None:
    document = base_document(place)
    document.update(name=name, measures=MEASURES, sink={"path": str(place / "published" / name)}, **changes)
    (place / "release.yaml").write_text(json.dumps(document))


def test_a_first_release(reader: Reader) -> None:
    shutil.copytree(
        PROJECT / "pipelines", reader.folder / "pipelines", ignore=shutil.ignore_patterns("published", "records")
    )
    reader.follow("docs/start.md")
    assert reader.typed == 1
    assert (reader.folder / "pipelines/adult/published/adult/_privpipe/report.html").is_file()


def test_a_first_review(reader: Reader) -> None:
    policy(reader.folder, "adult")
    (reader.folder / "grid.yaml").write_text('"guarantees[0].k_anonymity.k": [3, 5]\n')
    reader.follow("docs/how-to/report.md")
    assert reader.typed >= 6
    assert "k_anonymity.k" in (reader.folder / "review.html").read_text(encoding="utf-8")


def test_a_sign_off(reader: Reader) -> None:
    pytest.importorskip("cryptography")
    from privpipe.signing import new_key

    policy(reader.folder, "visits", policy="clinic.yaml", guarantees=GUARANTEES)
    page = PROJECT / "docs/how-to/sign-off.md"
    keys, rest = blocks(page, "console")
    reader.follow_block(keys)
    lines = iter((reader.said.strip(), new_key(reader.folder / "bo").line))
    (text,) = (body for body in blocks(page, "text") if "sign_off:" in body)
    (reader.folder / "clinic.yaml").write_text(re.sub(r"ssh-ed25519 [^}]+", lambda _: next(lines), text))
    reader.follow_block(rest)
    assert reader.typed == 6
    assert (reader.folder / "published/visits/_privpipe/manifest.json").is_file()
