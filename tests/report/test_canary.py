"""A marked table: none of its marks leaves the house, by whatever a release writes, prints, logs or exports."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.errors import Refused
from privpipe.reporting.export_formats import FORMATS, exported
from tests.report.conftest import CANARY, RARE_INCOME, document

MARKS = (CANARY, str(RARE_INCOME), f"{RARE_INCOME:,}", "REASONED")


def marked(home: Path, name: str, **changes: Any) -> dict[str, Any]:
    """A policy whose released columns hold no rare value: names, towns and rare illnesses are marked."""
    found = document(home, sink={"path": str(home / name / "people")}, **changes)
    columns = {**found["columns"], "income": {"role": "drop"}}
    columns["name"] = {**columns["name"], "reason": "REASONED: names one patient"}
    return {**found, "columns": columns}


def require_unmarked(texts: dict[str, str]) -> None:
    assert [(what, mark) for what, text in texts.items() for mark in MARKS if mark in text] == []


def test_no_mark_is_public_logged_printed_or_exported(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    result = pp.release(marked(home, "canary"))
    public = {path.name: path.read_text(encoding="utf-8") for path in Path(result.path, "_privpipe").iterdir()}
    assert {"manifest.json", "plan.json", "report.html", "verdict.json"} <= public.keys()
    exports = {form: exported(result.path, form) for form in FORMATS}
    assert "openlineage" in exports
    runner = CliRunner()
    told = {}
    for command in ("report", "verify", "history"):
        done = runner.invoke(app, [command, result.path])
        assert done.exit_code == 0, done.stderr
        told[command] = done.output
    require_unmarked({**public, **exports, **told, "log": caplog.text, "shown": repr(result) + repr(result.assessment)})


def test_no_mark_is_in_a_refusal(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(Refused) as caught:
        pp.release(marked(home, "canary-refused", transform=[]))
    exports = {form: exported(caught.value.record, form) for form in FORMATS}
    page = Path(caught.value.record, "report.html").read_text(encoding="utf-8").replace("REASONED", "")
    require_unmarked({**exports, "page": page, "error": str(caught.value), "log": caplog.text})
