"""A run in the formats of other tools."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.errors import Refused, UsageError
from privpipe.reporting.export_formats import FORMATS, exported
from privpipe.reporting.run_documents import RunDocuments

Document = dict[str, Any]


@pytest.fixture
def released(document: Document) -> str:
    document["guarantees"].append({"k_anonymity": {"k": 5000, "severity": "warn"}})
    return pp.release(document).path


@pytest.fixture
def refused(document: Document, place: Path) -> str:
    document["transform"] = []
    with pytest.raises(Refused):
        pp.release(document)
    records = place / "published" / ".people.privpipe" / "records"
    return str(next(path for path in records.iterdir() if not (path / "manifest.json").exists()))


def test_junit_has_a_case_for_each_guarantee(released: str) -> None:
    suite = ElementTree.fromstring(exported(released, "junit"))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "0", "0")
    assert [case.get("name") for case in suite][1:3] == [
        "k_anonymity(k=5)",
        "distinct_l_diversity(column=illness, l=2)",
    ]
    assert "WARNING" in (suite[3].findtext("system-out") or "")


def test_junit_shows_a_failure(refused: str) -> None:
    suite = ElementTree.fromstring(exported(refused, "junit"))[0]
    assert suite.get("failures") == str(len(suite.findall("testcase/failure"))) != "0"


def test_junit_reports_a_column_that_lost_too_much(released: str) -> None:
    verdict = {**RunDocuments.read(released).verdict, "passed": False, "alarms": ["'age' lost all that it told"]}
    suite = ElementTree.fromstring(FORMATS["junit"](RunDocuments("x", verdict)))[0]
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["utility"]
    assert (suite.get("tests"), suite.get("failures")) == ("5", "1")


def test_markdown_is_a_table(refused: str) -> None:
    text = exported(refused, "markdown")
    assert text.startswith("### :x: people: refused")
    assert ":x: | k\\_anonymity(k=5)" in text
    assert "| at least 5 |" in text


def test_markdown_of_a_release_shows_warnings(released: str) -> None:
    text = exported(released, "markdown")
    assert text.startswith("### :white_check_mark: people: passed with warnings")
    assert ":warning:" in text


@pytest.mark.parametrize("name", ["a|b", "<img src=x>", "[x](http://y)", "@team", "# x", "`x`"])
def test_markdown_makes_no_markup_of_names(released: str, name: str, tmp_path: Path) -> None:
    found = RunDocuments.read(released)
    verdict = {**copy.deepcopy(dict(found.verdict)), "name": name}
    text = FORMATS["markdown"](RunDocuments("x", verdict)).splitlines()[0]
    assert not re.search(r"(?<!\\)[|<`@\[]", text)


def test_prometheus_is_its_text_format(released: str) -> None:
    lines = exported(released, "prometheus").splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    shape = r'[a-z_]+\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\} -?[0-9.e+-]+'
    assert all(re.fullmatch(shape, line) for line in samples)
    assert 'privpipe_passed{release="people"} 1' in samples
    assert 'privpipe_warnings{release="people"} 1' in samples
    assert len({line.rpartition(" ")[0] for line in samples}) == len(samples)
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(typed) == len(set(typed))
    order = [re.split(r"[{ ]", line)[0] for line in samples]
    assert [name for at, name in enumerate(order) if at == 0 or order[at - 1] != name] == typed


def test_openlineage_names_inputs_outputs_and_columns(released: str, document: Document) -> None:
    event = json.loads(exported(released, "openlineage"))
    assert event["eventType"] == "COMPLETE"
    assert event["inputs"][0]["name"] == Path(document["source"]["path"]).name  # a public record names no folder
    facets = event["outputs"][0]["facets"]
    assert set(facets) == {"privpipe_verdict", "dataQualityAssertions", "schema", "columnLineage"}
    fields = facets["columnLineage"]["fields"]
    masked = {name: field["inputFields"][0]["transformations"][0]["masking"] for name, field in fields.items()}
    assert masked == {"age": True, "town": False, "illness": False} or masked == {
        "age": True,
        "town": True,
        "illness": False,
    }
    assert "name" not in fields
    assert all({"_producer", "_schemaURL"} <= set(facet) for facet in facets.values())


def test_openlineage_of_a_refusal_fails(refused: str) -> None:
    assert json.loads(exported(refused, "openlineage"))["eventType"] == "FAIL"


@pytest.mark.parametrize("format", FORMATS)
def test_no_format_holds_a_value(released: str, format: str, tmp_path: Path) -> None:
    text = exported(released, format)
    assert "Quokkaville" not in text
    done = CliRunner().invoke(app, ["export", released, "--format", format, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out").read_text() == text
    assert [path.name for path in tmp_path.glob(".*new")] == []


def test_an_unknown_format_is_an_error(released: str) -> None:
    with pytest.raises(UsageError, match="junit"):
        exported(released, "junitt")
