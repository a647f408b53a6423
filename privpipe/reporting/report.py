"""Reports of finished runs: a short one in Markdown, and pages as text, HTML or PDF."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from privpipe.blocks.verdict import warning_of
from privpipe.border import bordered
from privpipe.errors import SinkError, UsageError, escaped
from privpipe.reporting.entry_rows import (
    FEW,
    FEWEST_SHOWN,
    asked_in_words,
    entry_class,
    own_parameters,
    parameter_text,
    public_figure,
)
from privpipe.reporting.officer.languages import Language, Numbers, language_of
from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.report_data import ReportData, sign_off_of
from privpipe.reporting.run_documents import TRIED, RunDocuments, misshapen
from privpipe.reporting.table_pages import page_of_run

__all__ = [
    "BROWSERS",
    "LOST_HEAD",
    "ReportFormat",
    "alarm_lines",
    "browser",
    "lost_rows",
    "lost_text",
    "release_report",
    "report",
    "write_pdf",
]


LOST_HEAD = ("column", "role", "what was done", "labels", "changed", "blanked", "loss", "measured by", "alarm")


def alarm_lines(document: Mapping[str, Any]) -> list[str]:
    """The alarms of a document, a line each.

    Examples
    --------
    >>> alarm_lines({"alarms": ["`town` has one label left of 7"]})
    ['ALARM: `town` has one label left of 7']
    """
    return [f"ALARM: {alarm}" for alarm in document.get("alarms") or ()]


def lost_rows(table: Mapping[str, Any], *, exact: bool = True) -> list[tuple[str, ...]]:
    """A row of cells a column, under `LOST_HEAD`.

    Parameters
    ----------
    table : mapping
        `column_loss` of a private verdict document.
    exact : bool
        Whether shares of fewer than 5 records are shown unmasked.

    Examples
    --------
    >>> town = {"column": "town", "role": "sensitive", "done": ["pram"], "labels_before": 7, "labels_after": 6}
    >>> table = {"records": 100, "columns": [{**town, "changed": 0.25, "blanked": 0.01, "loss": 0.5}]}
    >>> lost_rows(table, exact=False)
    [('town', 'sensitive', 'pram', '7 -> 6', '25 %', '< 5 records', '0.5', '', '')]
    """
    records = int(table.get("records") or 0)
    return [
        (
            str(row["column"]),
            str(row["role"]),
            ", ".join(row.get("done") or ()) or "-",
            _labels(row),
            _share(row.get("changed"), records, exact),
            _share(row.get("blanked"), records, exact),
            "-" if row.get("loss") is None else Numbers("en").loss(row["loss"]),
            str(row.get("measured_by") or ""),
            str(row.get("alarm") or "").upper(),
        )
        for row in table.get("columns") or ()
    ]


def lost_text(table: Mapping[str, Any]) -> str:
    """What the figures are based on, in a sentence."""
    if table.get("withheld"):
        return "A model of the policy forbids counts of the source: nothing is compared with it."
    if table.get("records") is None:
        return "Released records cannot be paired with those of the source: only labels are compared."
    of = "all" if table.get("whole", True) else "a sample"
    return (
        f"Shares and losses are of {of} of the released records compared with their originals ({table['records']:,}). "
        "A loss is 0 where all is kept and 1 where nothing is."
    )


def _labels(row: Mapping[str, Any]) -> str:
    before, after = row.get("labels_before"), row.get("labels_after")
    if after is None:
        return "-"
    return f"{after:,}" if before is None else f"{before:,} -> {after:,}"


def _share(value: float | None, records: int, exact: bool) -> str:
    if value is None:
        return "-"
    shown = public_figure(value, records)
    return f"{100 * value:.3g} %" if exact or not shown.startswith("<") else shown


JUDGED_HEAD = ("guarantee", "parameters", "observed", "required", "outcome", "failing records")
ReportFormat = Literal["markdown", "html"]

MARKDOWN = """\
# {{ title }}
{% for alarm in alarms %}
**{{ alarm|cell }}**
{% endfor %}
{%- for warning in warnings %}
**{{ warning|cell }}**
{% endfor %}
{{ verdict }}

| | |
|---|---|
{% for name, value in about -%}
| {{ name|cell }} | {{ value|cell }} |
{% endfor %}
{% for table in tables %}
## {{ table.title }}

{{ table.text }}

| {{ table.head|join(" | ") }} |
|{% for _ in table.head %}---|{% endfor %}
{% for row in table.rows -%}
| {% for value in row %}{{ value|cell }} | {% endfor %}
{% endfor %}
{%- endfor %}
{{ foot }}
"""
EDITIONS = {
    "public": "public: figures that only the source reveals are withheld, and are in the private record",
    "private": "private: not to be given to readers of the release",
}
FOOT = (
    f'Shares and counts that rest on fewer than {FEWEST_SHOWN} records are shown as "{FEW}"; the exact figures '
    "are in the private record. "
    "Attack figures are lower bounds: what the attack named links, not what every attack could."
)


CRITERIA = (
    "Singling out, linkability and inference. Attacks give lower bounds and a pass is not a certificate: the "
    "controller decides case by case, for each release."
)


def release_report(run: RunDocuments) -> str:
    """The report as text.

    No sentence of the verdict document is repeated, since these hold exact figures.

    Parameters
    ----------
    run : RunDocuments

    Examples
    --------
    >>> row = {"name": "k_anonymity", "parameters": {"k": 3}, "observed": 4, "threshold": 3, "outcome": "pass"}
    >>> row |= {"failing_records": 2, "failing_classes": 1}
    >>> run = RunDocuments("a", {"run_id": "a", "records": 90, "passed": True, "guarantees": [row], "measures": []})
    >>> "| k_anonymity | k: 3 | 4 | at least 3 | pass | < 5 records |" in release_report(run)
    True
    """
    from jinja2 import Environment

    environment = Environment(autoescape=False, trim_blocks=False, keep_trailing_newline=True, finalize=_printable)
    environment.filters["cell"] = lambda value: str(value).replace("\n", " ").replace("|", "\\|")
    return environment.from_string(MARKDOWN).render(
        title=f"Release {run.verdict.get('name') or run.name}",
        alarms=alarm_lines(run.verdict),
        warnings=_warnings(run),
        verdict=_outcome(run.verdict) + _waits(run),
        about=_about(run),
        tables=[table for table in _tables(run) if table["rows"]],
        foot=FOOT,
    )


def _printable(value: Any) -> Any:
    """What a page shows of a value: names may hold what turns the direction of reading."""
    return escaped(value) if isinstance(value, str) else value


def _outcome(verdict: Mapping[str, Any]) -> str:
    rows = [row for row in verdict["guarantees"] if row.get("severity") != "warn"]
    if verdict.get("passed"):
        warned = len(verdict["guarantees"]) > len(rows) and any(map(warning_of, verdict["guarantees"]))
        return "Every guarantee that can refuse holds; others only warn." if warned else "Every guarantee holds."
    whole = verdict.get("whole_table") or {"passed": True}
    held = bool(rows) and all(row.get("outcome") == "pass" for row in rows)
    if held and not whole["passed"]:
        return "With the rows that are in the table already a guarantee does not hold: nothing was published."
    if held and verdict.get("alarms"):
        return "Every guarantee holds, but a column lost too much: nothing was published."
    return "A guarantee does not hold: nothing was published."


def _waits(run: RunDocuments) -> str:
    told = sign_off_of(run)
    if told["state"] != "waiting":
        return ""
    asked = f" Nothing is published until {told['persons']} of {', '.join(told['required'])} approve it:"
    return asked + "".join(f"\n\n    {line}" for line in told["commands"])


def _warnings(run: RunDocuments) -> list[str]:
    """What is asked by way of a warning and not met; figures as the table of guarantees shows them."""
    return [
        f"WARNING {row['name']} ({_parameters(row)}): achieved {_observed(row, run)}"
        for row in run.verdict["guarantees"]
        if warning_of(row)
    ]


def _tables(run: RunDocuments) -> list[dict[str, Any]]:
    return [_guarantees(run), _whole(run), _measures(run), _criteria(run), _lost(run), _notes(run), _stages(run)]


def _lost(run: RunDocuments) -> dict[str, Any]:
    table = run.verdict.get("column_loss") or {}
    rows = lost_rows(table, exact=False)
    return {"title": "What was lost", "text": lost_text(table), "head": LOST_HEAD, "rows": rows}


def _about(run: RunDocuments) -> list[tuple[str, str]]:
    verdict, manifest = run.verdict, run.manifest
    files = manifest.get("output", {}).get("files")
    versions = ", ".join(f"{name} {version}" for name, version in verdict.get("versions", {}).items())
    rows = [
        ("run", verdict.get("run_id")),
        ("edition", EDITIONS.get(run.edition, run.edition)),
        ("made", manifest.get("created")),
        ("engine", f"{verdict.get('engine')} ({versions})" if verdict.get("engine") else None),
        ("policy", verdict.get("policy_hash")),
        ("plan", verdict.get("plan_hash")),
        ("records", _count(verdict.get("records"))),
        ("suppressed records", _few(verdict.get("suppressed_records"))),
        ("classes", _count(verdict.get("classes"))),
        ("missing quasi-identifiers", verdict.get("nulls")),
        ("columns", ", ".join(manifest.get("output", {}).get("columns", []))),
        ("files", _count(len(files)) if files is not None else None),
    ]
    return [(name, str(value)) for name, value in rows if value not in (None, "")]


def _guarantees(run: RunDocuments) -> dict[str, Any]:
    text = "What the policy demands, judged over the written files."
    return {"title": "Guarantees", "text": text, "head": JUDGED_HEAD, "rows": _judged(run.verdict["guarantees"], run)}


def _whole(run: RunDocuments) -> dict[str, Any]:
    whole = run.verdict.get("whole_table") or {"guarantees": (), "records": 0}
    text = f"The same over all {whole['records']:,} rows of the table, those of earlier releases among them."
    return {"title": "The whole table", "text": text, "head": JUDGED_HEAD, "rows": _judged(whole["guarantees"], run)}


def _judged(guarantees: Iterable[Mapping[str, Any]], run: RunDocuments) -> list[tuple[str, ...]]:
    return [
        (
            row["name"],
            _parameters(row),
            _observed(row, run),
            asked_in_words(row, public_figure(row.get("threshold"), 0, share=False)),
            f"{row['outcome']} (warning)" if warning_of(row) else row["outcome"],
            _few(row.get("failing_records")),
        )
        for row in guarantees
    ]


def _measures(run: RunDocuments) -> dict[str, Any]:
    rows = [(row["name"], _parameters(row), _observed(row, run)) for row in run.verdict["measures"]]
    text = "Reported, not judged."
    return {"title": "Measures", "text": text, "head": ("measure", "parameters", "observed"), "rows": rows}


def _criteria(run: RunDocuments) -> dict[str, Any]:
    found = [row for row in (*run.verdict["guarantees"], *run.verdict["measures"]) if _is_criterion(row["name"])]
    rows = [(row["name"], _parameters(row), _observed(row, run), row.get("outcome", "measured")) for row in found]
    return {
        "title": "WP216 criteria",
        "text": CRITERIA,
        "head": ("attack", "parameters", "observed", "outcome"),
        "rows": rows,
    }


def _is_criterion(name: str) -> bool:
    return "measures.risk.criteria" in getattr(entry_class(name), "__module__", "")


def _notes(run: RunDocuments) -> dict[str, Any]:
    rows = [(note,) for note in run.verdict.get("notes", ())]
    text = "What a reader of the figures must know."
    return {"title": "Notes", "text": text, "head": ("note",), "rows": rows}


def _stages(run: RunDocuments) -> dict[str, Any]:
    rows = [(str(at), stage["name"], _parameters(stage)) for at, stage in enumerate(run.stages, 1)]
    text = "What was done to the data, in order. Methods and parameters are public; seeds are not."
    return {"title": "Transformations", "text": text, "head": ("stage", "name", "parameters"), "rows": rows}


def _observed(row: Mapping[str, Any], run: RunDocuments) -> str:
    return public_figure(row.get("observed"), int(run.verdict.get("records") or 0), share=_of_records(row["name"]))


def _of_records(name: str) -> bool:
    """Whether the figures of an entry are shares of records."""
    entry = entry_class(name)
    return entry is not None and entry.counts_records()


def _parameters(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {parameter_text(value)}" for name, value in own_parameters(row).items())


def _count(value: Any) -> str | None:
    return None if value is None else f"{value:,}"


def _few(value: Any) -> str:
    if value is None:
        return "-"
    return FEW if 0 < value < FEWEST_SHOWN else f"{value:,}"


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
BROWSER_VARIABLE = "PRIVPIPE_BROWSER"
"""Names another browser of the kind."""
SECONDS = 120
OFFLINE = (
    "--headless",
    "--disable-gpu",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--proxy-server=http://127.0.0.1:9",  # where nothing listens: a page that is printed reaches no network
)
NOT_INSTALLED = (
    "a PDF is printed by a browser (chromium, chrome) or by the library weasyprint, and neither is installed here: "
    f"pip install 'privpipe[report]', name a browser in {BROWSER_VARIABLE}, or print the HTML report from any browser"
)


def browser() -> str | None:
    """The browser that prints: the one that is named, else the first that is installed.

    Examples
    --------
    >>> found = browser()
    >>> found is None or isinstance(found, str)
    True
    """
    named = os.environ.get(BROWSER_VARIABLE)
    return shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)


def write_pdf(page: str, out: str | os.PathLike[str]) -> None:
    """Print a report on A4.

    Parameters
    ----------
    page : str
        From `report_page`.
    out : path

    Raises
    ------
    UsageError
        Nothing that prints is installed.
    SinkError
        It printed nothing, or the file cannot be written.
    """
    found = browser()
    if found is None and importlib.util.find_spec("weasyprint") is None:
        raise UsageError(NOT_INSTALLED)
    # The page may be an internal one: it is in a private folder while it is printed.
    with tempfile.TemporaryDirectory(prefix="privpipe-") as folder:
        source, made = Path(folder, "report.html"), Path(folder, "report.pdf")
        source.write_text(page, encoding="utf-8")
        if found is not None:
            _by_browser(found, source, made, folder)
        else:
            _by_library(source, made)
        if not made.is_file() or not made.read_bytes().startswith(b"%PDF"):
            raise SinkError("the report was not printed; print the HTML report from a browser instead")
        try:
            Path(out).write_bytes(made.read_bytes())
        except OSError as error:
            raise SinkError(f"cannot write {os.fspath(out)!r}: {error.strerror}") from None


def _by_browser(found: str, source: Path, made: Path, folder: str) -> None:
    options = [*OFFLINE, f"--user-data-dir={folder}/profile", "--no-pdf-header-footer"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # it refuses to sandbox for the superuser
        options.append("--no-sandbox")
    try:
        subprocess.run(
            [found, *options, f"--print-to-pdf={made}", source.as_uri()],
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SinkError(f"the browser could not print the report ({type(error).__name__})") from None


def _by_library(source: Path, made: Path) -> None:
    import weasyprint

    weasyprint.HTML(filename=str(source)).write_pdf(str(made))


@bordered
def report(
    run: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    format: Literal["markdown", "html"] | None = None,
    lang: Language | None = None,
    pdf: str | os.PathLike[str] | None = None,
    tried: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    sign_off: Mapping[str, Any] | None = None,
) -> str:
    """A report of a finished run, only from its documents, never from the data.

    HTML is the officer's report: one page without scripts, in the edition of the documents. Markdown is a short text.

    Parameters
    ----------
    run : path or ReleaseResult
        A released folder, the folder of a private record or of a run that waits, or a verdict file. A result represents
        its released folder.
    out : path, optional
        Write the report here too.
    format : {"markdown", "html"}, optional
        Default: by the name of `out`, else markdown.
    lang : {"en", "de", "fr", "es"}, optional
        Of the page. Default: the policy's, else English.
    pdf : path, optional
        Print the page here, by a browser or a library that is installed.
    tried : mapping or path, optional
        What ``privpipe compare POLICY --grid FILE --json`` printed: settings to show in the internal edition.
    sign_off : mapping, optional
        See `ReportData`; left out, what the documents say.

    Returns
    -------
    str
        Figures based on few records are shown as such.

    Raises
    ------
    UsageError
        Nothing of the kind is there, another format or language, or nothing that prints is installed.
    SinkError
        `out` cannot be written.

    Examples
    --------
    >>> report("nowhere")
    Traceback (most recent call last):
    privpipe.errors.UsageError: 'nowhere' is not a finished run: ...
    """
    form = _form(format, out)
    language_of(lang, {})
    path = run if isinstance(run, str | os.PathLike) else getattr(run, "path", None)
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError(
            f"report: give the path of a finished run, or the result of a release, no {type(run).__name__}"
        )
    documents = RunDocuments.read(os.fspath(path))
    language = language_of(lang, documents.policy)
    data = ReportData.of(documents, sign_off=sign_off, tried=_tried(tried))
    page = ""
    if form == "html" or pdf is not None:
        page = page_of_run(os.fspath(path), documents) or report_page(data, language)
    text = page if form == "html" else release_report(documents)
    if pdf is not None:
        write_pdf(page, pdf)
    if out is not None:
        try:
            with open(out, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise SinkError(f"cannot write {os.fspath(out)!r}: {error.strerror}") from None
    return text


def _tried(given: Mapping[str, Any] | str | os.PathLike[str] | None) -> Mapping[str, Any] | None:
    """A risk-utility map as a document."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        found: Any = given
    else:
        try:
            found = json.loads(Path(given).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"the map {os.fspath(given)!r} cannot be read ({type(error).__name__})") from None
    wrong = misshapen(found, TRIED)
    if wrong:
        raise UsageError(f"the map is not what `privpipe compare POLICY --grid FILE --json` prints: {wrong}")
    checked: Mapping[str, Any] = found
    return checked


def _form(format: str | None, out: str | os.PathLike[str] | None) -> ReportFormat:
    if format not in (None, "markdown", "html"):
        raise UsageError(f"format must be markdown or html, not {format!r}")
    by_name = out is not None and PurePath(out).suffix.lower() in (".html", ".htm")
    return "html" if format == "html" or (format is None and by_name) else "markdown"
