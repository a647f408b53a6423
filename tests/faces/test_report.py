"""`pp.report` writes what ``privpipe report`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.errors import SinkError, UsageError


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("report")
    policy = pp.Policy(roles=pp.Roles(quasi_identifiers=["zip"]), guarantees=[pp.models.KAnonymity(k=2)])
    return policy.release(pd.DataFrame({"zip": ["08*", "08*", "09*", "09*"]}), str(folder / "public"))


def test_the_command_line_and_python_write_the_same(released: Any, tmp_path: Path) -> None:
    text = pp.report(released)
    assert "Every guarantee holds." in text
    assert text == pp.report(released.path) == pp.report(Path(released.path))
    assert text == CliRunner().invoke(app, ["report", released.path]).stdout
    page = pp.report(released, tmp_path / "a.html")
    assert page.startswith("<!doctype html>")
    assert CliRunner().invoke(app, ["report", released.path, "--out", str(tmp_path / "b.html")]).exit_code == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes() == page.encode()
    assert pp.report(released, format="html") == page


def test_the_function_stays_when_its_room_is_imported() -> None:
    import privpipe.reporting.report

    assert callable(privpipe.report)


def test_wrong_calls_are_refused(released: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a finished run"):
        pp.report(tmp_path)
    with pytest.raises(UsageError, match="no DataFrame"):
        pp.report(pd.DataFrame())
    with pytest.raises(UsageError, match="markdown or html"):
        pp.report(released, format="pdf")  # type: ignore[arg-type]
    with pytest.raises(SinkError, match="cannot write"):
        pp.report(released, tmp_path / "no" / "a.md")
