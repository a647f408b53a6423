"""``privpipe verify``, ``history``, ``fetch``, ``export`` and ``report``: finished runs, read back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from privpipe.cli import arguments
from privpipe.cli.arguments import JsonOption, loaded
from privpipe.cli.console import plain_cell, print_json, print_table, put, say, write_text
from privpipe.errors import DataError, UsageError

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["export", "fetch", "history", "report", "verify"]


RecordsOption = Annotated[
    Path | None,
    typer.Option(
        "--records",
        metavar="DIR",
        help="Folder of the private records; left out, the one in the sink's work area.",
        show_default=False,
    ),
]
PLACE = "A released folder, the path or URL of a sink, or the policy file that names the sink (databases, Iceberg)."
SIGNS = {"holds": "ok", "broken": "BROKEN", "not_checked": "-"}


def verify(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help=PLACE)],
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="The job's policy: compared with the release; with its seed the seal and commitments are recomputed.",
            show_default=False,
        ),
    ] = None,
    officer: Annotated[
        str | None,
        typer.Option(
            "--officer-policy",
            metavar="FILE",
            help="The officer's policy, or a preset: what was required, and whose signatures count.",
            show_default=False,
        ),
    ] = None,
    records: RecordsOption = None,
    private: Annotated[
        bool,
        typer.Option("--private", help="Prove audits of tables again, from the witnesses of the private record."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Recompute a release's record, and say what does not match.

    Files, documents, hashes, the chain of releases and signatures; with the policy's seed and the private record also
    what only the owner can check. Nothing is changed. Exit code 3 when anything is broken.
    """
    from privpipe.policy.officer import read_officer
    from privpipe.record import verify as verified

    found = verified(
        release,
        policy=None if policy is None else loaded(policy),
        officer=None if officer is None else read_officer(officer, Path.cwd()),
        records=records,
        private=private,
    )
    if json:
        print_json(found.to_dict())
    else:
        for check in found.checks:
            put(f"{SIGNS[check.outcome]:6}  {check.name}: {check.about}")
    if not found.sound:
        raise DataError(f"{len(found.broken)} of {len(found.checks)} checks are broken: do not use this release")
    left = sum(check.outcome == "not_checked" for check in found.checks)
    say(f"SOUND: run {found.run_id}" + (f"; {left} checks need files that are not available" if left else ""))


def history(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=PLACE)],
    records: RecordsOption = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove private records that `retention:` of the policy does not keep.")
    ] = False,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", help="With --prune: keep the newest N.", show_default=False)
    ] = None,
    days: Annotated[
        int | None,
        typer.Option("--days", metavar="N", help="With --prune: keep those of the last N days.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List a target's releases: verdicts, policies, who signed.

    They are listed in the order of publication; the last one is the one that readers read. Runs that were refused, and
    how columns of the source changed, are listed where the private records can be read. Exit code 3 when the chain is
    broken.
    """
    from privpipe.record import history as listed

    if prune:
        _prune(target, records, keep, days)
    elif keep is not None or days is not None:
        raise UsageError("--keep and --days require --prune")
    found = listed(target, records)
    if json:
        print_json(found.to_dict())
    else:
        print_table(_table(found.releases))
    if found.problems:
        raise DataError("the chain of releases is broken: " + "; ".join(found.problems))


def _prune(target: str, records: Path | None, keep: int | None, days: int | None) -> None:
    from privpipe.policy.specs import RetentionSpec
    from privpipe.record import prune

    try:
        retention = None if keep is None and days is None else RetentionSpec(keep=keep, days=days)
    except UsageError as error:
        raise UsageError(f"--prune {error}") from None
    say(f"{len(prune(target, retention, records)):,} private records were removed")


def _table(rows: Iterable[Mapping[str, Any]]) -> Table:
    from rich.table import Table

    table = Table("run", "created", "verdict", "records", "policy", "officer's policy", "signed by", "source")
    for row in rows:
        cells = (
            f"{row['run_id']}{' (current)' if row['current'] else ''}",
            row["created"],
            row["verdict"],
            f"{row['records']:,}",
            _hash(row["policy_hash"], row["policy_changed"]),
            _hash(row["officer_policy_hash"], row["officer_policy_changed"]),
            ", ".join(row["signed_by"]),
            "; ".join(f"{what}: {', '.join(names)}" for what, names in (row["source_changes"] or {}).items()),
        )
        table.add_row(*map(plain_cell, cells))
    return table


def _hash(value: str | None, changed: bool) -> str:
    return "" if value is None else f"{value[:12]}{' (changed)' if changed else ''}"


def fetch(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="A sink: s3://, gs://, abfs:// or a folder.", show_default=False)
    ],
    to: Annotated[
        Path, typer.Option("--to", metavar="FOLDER", help="Where to put it; must be absent, or an earlier fetch.")
    ],
    json: JsonOption = False,
) -> None:
    """Copy the published release of a sink to a folder.

    It is found by the pointer or link of the sink, and each file must have the SHA-256 that the public manifest lists:
    else nothing is changed, and the exit code is 3. The folder is switched in one step; fetching again replaces it.
    """
    from privpipe.running.published_release import fetch as fetched

    found = fetched(url, to)
    if json:
        print_json(found.to_dict())
        return
    put(f"{found.path}: release {found.run_id}, {len(found.files):,} files{'' if found.changed else ', as before'}")


def export(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A released folder, the folder of a private record, or a verdict file.")
    ],
    format: Annotated[str, typer.Option("--format", metavar="F", help="junit, markdown, openlineage or prometheus.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write it here, atomically, instead of to stdout.", show_default=False
        ),
    ] = None,
) -> None:
    """Export a finished run for other tools.

    From its documents alone, never from the data.
    JUnit XML and GitHub-flavoured Markdown of the verdict, Prometheus' text format, or an OpenLineage event with the
    verdict and the lineage of columns. Of a private record it shows private figures: export the release for readers.
    """
    from privpipe.reporting.export_formats import exported

    text = exported(run, format)
    if out is None:
        put(text, end="")
        return
    new = out.with_name(f".{out.name}.new")  # a collector never reads a half
    write_text(new, text)
    os.replace(new, out)
    say(f"EXPORTED: {out}")


Lang = Literal["en", "de", "fr", "es"]


def report(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A released folder, the folder of a private record or of a run that waits, or a verdict file.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write it here instead of stdout.", show_default=False),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="markdown or html; left out, taken from --out, else markdown.",
            show_default=False,
            autocompletion=arguments.report_formats,
        ),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(
            "--lang",
            metavar="L",
            help="Language of the page: en, de, fr or es; left out, the policy's.",
            show_default=False,
            autocompletion=arguments.report_languages,
        ),
    ] = None,
    pdf: Annotated[
        Path | None,
        typer.Option(
            "--pdf",
            metavar="FILE",
            help="Print the page here, by a browser or a library that is installed.",
            show_default=False,
        ),
    ] = None,
    tried: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE",
            help="What `compare POLICY --grid FILE --json` printed: settings tried, for the internal edition.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Report on a finished run.

    From its documents alone, never from the data; the report states whether they are the public or the private edition.
    HTML is the officer's report, by which a release is approved; Markdown is a short text. What rests on few records is
    shown as such.
    """
    from privpipe.reporting.report import report as write

    if format not in (None, "markdown", "html"):
        raise UsageError(f"--format must be markdown or html, not {format!r}")
    text = write(
        run,
        out,
        format=cast(Literal["markdown", "html"] | None, format),
        lang=cast(Lang | None, lang),
        pdf=pdf,
        tried=tried,
    )
    if out is None and pdf is None:
        put(text, end="")
    for made in (out, pdf):
        if made is not None:
            say(f"REPORTED: {made}")
