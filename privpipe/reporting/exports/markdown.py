"""A verdict as GitHub-flavoured Markdown, for a pull request or the summary of a job."""

from __future__ import annotations

import re
from typing import Any

from privpipe.blocks.verdict import warning_of
from privpipe.errors import escaped
from privpipe.html_tables import figure
from privpipe.reporting.exports.rows import called, judged_rows, name_of
from privpipe.reporting.officer.judged_rows import asked_in_words
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["markdown"]

SIGNS = {"pass": ":white_check_mark:", "fail": ":x:", "error": ":boom:"}


def markdown(run: RunDocuments) -> str:
    """The text; what was a name is shown as it is and makes no markup.

    Examples
    --------
    >>> row = {"name": "k_anonymity", "parameters": {"k": 5}, "outcome": "pass", "severity": "fail", "observed": 7}
    >>> verdict = {"guarantees": [row], "measures": [], "passed": True, "name": "a|b"}
    >>> markdown(RunDocuments("verdict.json", verdict)).splitlines()[0]
    '### :white_check_mark: a\\\\|b: passed'
    """
    verdict = run.verdict
    rows = judged_rows(run)
    warnings = [warning_of(row) for row in rows if warning_of(row)]
    passed = verdict.get("passed") is True
    word = ("passed with warnings" if warnings else "passed") if passed else "refused"
    lines = [
        f"### {SIGNS['pass' if passed else 'fail']} {_text(name_of(run))}: {word}",
        "",
        "| | guarantee | observed | asked |",
        "|---|---|---|---|",
    ]
    for row in rows:
        sign = ":warning:" if warning_of(row) else SIGNS.get(row["outcome"], ":grey_question:")
        cells = (called(row), _figure(row.get("observed")), asked_in_words(row, _figure(row.get("threshold"))))
        lines.append(f"| {sign} | " + " | ".join(map(_text, cells)) + " |")
    told = [f"{_text(row['name'])}: {_text(row.get('reason', ''))}" for row in rows if row["outcome"] != "pass"]
    told += [_text(str(each)) for each in verdict.get("alarms", ())]
    lines += ["", *(f"- {each}" for each in told)] if told else []
    counts = [
        f"{verdict[name]:,} {what}"
        for name, what in (("records", "records"), ("suppressed_records", "suppressed"), ("classes", "classes"))
        if isinstance(verdict.get(name), int)
    ]
    about = [*counts, *(f"{what} `{_code(verdict.get(key))}`" for what, key in ABOUT if verdict.get(key))]
    return "\n".join([*lines, "", " · ".join(about)]).rstrip() + "\n"


ABOUT = (("run", "run_id"), ("policy", "policy_hash"))


def _text(value: Any) -> str:
    """Text without markup: HTML, links, mentions and table bars escaped."""
    plain = escaped(str(value))
    return re.sub(r"([\\`*_{}\[\]<>|~#!@])", r"\\\1", plain)


def _code(value: Any) -> str:
    return re.sub(r"[^\w.:-]", "", escaped(str(value)))


def _figure(value: Any) -> str:
    return "" if value is None else str(figure(value))
