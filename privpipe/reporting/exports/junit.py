"""A verdict as JUnit XML: a test case for each guarantee."""

from __future__ import annotations

from xml.etree import ElementTree

from privpipe.blocks.verdict import warning_of
from privpipe.errors import escaped
from privpipe.reporting.exports.rows import began, called, judged_rows, name_of
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["junit"]


def junit(run: RunDocuments) -> str:
    """The XML text; a warning that is not met is told in the output of a case that passes.

    Examples
    --------
    >>> row = {"name": "k_anonymity", "parameters": {"k": 5}, "outcome": "fail", "severity": "fail", "reason": "k = 1"}
    >>> "<failure" in junit(RunDocuments("verdict.json", {"guarantees": [row], "measures": []}))
    True
    """
    rows = judged_rows(run)
    binding = [row for row in rows if row.get("severity", "fail") == "fail"]
    alarms = [escaped(str(alarm)) for alarm in run.verdict.get("alarms", ())] if not run.verdict.get("passed") else []
    failed = sum(row["outcome"] == "fail" for row in binding)
    lost = bool(alarms) and all(row["outcome"] == "pass" for row in binding)
    suite = ElementTree.Element(
        "testsuite",
        name=name_of(run),
        tests=str(len(rows) + lost),
        failures=str(failed + lost),
        errors=str(sum(row["outcome"] == "error" for row in binding)),
        skipped="0",
    )
    start = began(run)
    if start is not None:
        suite.set("timestamp", f"{start:%Y-%m-%dT%H:%M:%S}")
    home = f"privpipe.{name_of(run)}"
    for row in rows:
        case = ElementTree.SubElement(suite, "testcase", classname=home, name=called(row), time="0")
        told, warning = escaped(str(row.get("reason", ""))), escaped(warning_of(row))
        if warning:
            ElementTree.SubElement(case, "system-out").text = f"WARNING {warning}"
        elif row["outcome"] != "pass":
            kind = "failure" if row["outcome"] == "fail" else "error"
            ElementTree.SubElement(case, kind, message=told, type=escaped(str(row["name"]))).text = told
    if lost:
        case = ElementTree.SubElement(suite, "testcase", classname=f"privpipe.{name_of(run)}", name="utility", time="0")
        ElementTree.SubElement(case, "failure", message="; ".join(alarms), type="utility")
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"
