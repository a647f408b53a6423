"""``privpipe compare``: settings of a policy, or two finished runs, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli import arguments
from privpipe.cli.arguments import EngineOption, JsonOption, ProgressOption, loaded
from privpipe.cli.console import plain_cell, print_json, print_table, progress, put, say
from privpipe.errors import SinkError, UsageError
from privpipe.html_tables import figure

if TYPE_CHECKING:
    from privpipe.reporting.run_comparison import Point, RiskUtilityMap, RunComparison
    from privpipe.reporting.run_documents import RunDocuments

__all__ = ["compare"]


def compare(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="POLICY | RUN RUN", help="A policy with --grid, or two released folders or private records."
        ),
    ],
    grid: Annotated[
        Path | None,
        typer.Option(
            "--grid", metavar="FILE", help="Places of the policy, each with a list of values.", show_default=False
        ),
    ] = None,
    risk: Annotated[
        list[str] | None,
        typer.Option(
            "--risk",
            metavar="NAME",
            help="A measure that counts as risk: an entry of the policy, or any other as NAME:parameter=value,...; "
            "left out, all measures of risk that the policy has.",
            show_default=False,
        ),
    ] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option(
            "--loss",
            metavar="NAME",
            help="A measure that counts as loss, likewise: cell_loss, information_loss.il1s, ...; left out, the first "
            "that the policy has.",
            show_default=False,
        ),
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Try the methods that may meet a policy's guarantees on a sample.")
    ] = False,
    engine: EngineOption = None,
    lines: ProgressOption = False,
    json: JsonOption = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write two private records side by side as a page.", show_default=False
        ),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(
            "--lang",
            metavar="L",
            help="Language of that page: en, de, fr or es; left out, the first run's policy's.",
            show_default=False,
            autocompletion=arguments.report_languages,
        ),
    ] = None,
) -> None:
    """Compare risk and loss of several settings or runs.

    With --grid, every combination of values is staged and judged on the same sample of records, and nothing is
    published: the Pareto-optimal points, the smallest loss under each guarantee, and the score (loss + risk) / 2.
    With --suggest, the methods that may meet the guarantees, by what the policy's `uses:` lose, else its cells.
    With two released folders, or the folders of their private records, their figures from these documents; with --html
    as a page of verdicts, risks by intruder, class sizes and loss by column, masked as the report is.
    """
    if html is not None and (suggest or grid is not None):
        raise UsageError("--html requires two runs")
    if lang is not None and html is None:
        raise UsageError("--lang requires --html, the page of two runs")
    if suggest:
        if len(what) != 1 or grid or risk or loss or engine:
            raise UsageError("--suggest takes one policy and no other option but --json")
        _suggest(Path(what[0]), json=json)
        return
    if grid is None:
        if len(what) != 2:
            raise UsageError("compare takes a policy with --grid FILE, or the folders of two runs")
        if risk or loss or engine:
            raise UsageError("--risk, --loss and --engine require --grid")
        _runs(*what, json=json, html=html, lang=lang)
        return
    if len(what) != 1:
        raise UsageError("--grid varies one policy; give one")
    _grid(Path(what[0]), grid, risk or [], loss or [], engine, lines=lines, json=json)


def _grid(
    policy: Path, grid: Path, risk: list[str], loss: list[str], engine: str | None, *, lines: bool, json: bool
) -> None:
    from privpipe.running.settings_grid import compare_grid, read_grid, settings_of

    rules, places = loaded(policy), read_grid(grid)
    with progress(len(settings_of(places)), lines=lines) as tell:
        found = compare_grid(rules, places, risk=risk, loss=loss, engine=engine, progress=tell)
    if json:
        print_json(found.to_dict())
        return
    _show_map(found)
    say("Nothing was published.")


def _suggest(policy: Path, *, json: bool) -> None:
    from privpipe.drafting.trials import suggested

    rules = loaded(policy)
    with progress() as tell:
        found = suggested(rules, tell=tell)
    if json:
        print_json({"methods": found})
        return
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    uses = [str(use) for use in rules.uses]
    for name in ("loss of cells", *uses, "suppressed", "records", "seconds", "method"):
        table.add_column(plain_cell(name), overflow="fold")
    for row in found:
        told = "cannot meet the guarantees" if row["loss"] is None else figure(row["loss"])
        own = [figure(row["uses"].get(use)) for use in uses]
        share = [figure(row["suppressed"]), f"{row['records']:,}", figure(row["seconds"])]
        table.add_row(*(plain_cell(text) for text in (told, *own, *share, "; ".join(row["stages"]))))
    print_table(table)
    say("Tried on a sample; nothing was published.")


def _show_map(found: RiskUtilityMap) -> None:
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    names = [*found.risk_weights, *(name for name in found.loss_weights if name not in found.risk_weights)]
    places = list(found.points[0].setting)
    columns = ["", *_last_steps(places), *names, "risk", "loss", "score", "outcome"]
    for name in columns:
        table.add_column(plain_cell(name), overflow="fold")
    front = set(found.front)
    for at, point in enumerate(found.points):
        table.add_row(*(plain_cell(text) for text in _row(point, names, pareto=at in front)))
    print_table(table)
    put("* no other point has less risk and less loss")
    put(f"risk = {_weighted(found.risk_weights)}; loss = {_weighted(found.loss_weights)}; score = (loss + risk) / 2")
    for gate, place in found.smallest_loss.items():
        met = "met by no point" if place is None else f"{_setting(found.points[place])}, {_loss(found.points[place])}"
        put(f"smallest loss under {gate}: {met}")
    for point in found.points:
        if point.reason:
            put(f"{_setting(point)}: {point.reason}")


def _last_steps(places: list[str]) -> list[str]:
    """Heads for a narrow table: the last step of each place, the place itself where two end in the same step."""
    ends = [place.rpartition(".")[2] for place in places]
    return [end if ends.count(end) == 1 else place for end, place in zip(ends, places, strict=True)]


def _row(point: Point, names: list[str], *, pareto: bool) -> list[str]:
    settings = [_value(value) for value in point.setting.values()]
    figures = [figure(point.figures.get(name)) for name in names]
    summary = [figure(point.risk), figure(point.loss), figure(point.score), point.outcome.upper().replace("_", " ")]
    return ["*" if pareto else "", *settings, *figures, *summary]


def _weighted(weights: Any) -> str:
    parts = [(weight, f"{name} / 100" if "sse_sst" in name else name) for name, weight in weights.items()]
    return " + ".join(f"{weight:.4g} {name}" for weight, name in parts if weight > 0)


def _setting(point: Point) -> str:
    return ", ".join(f"{place} = {_value(value)}" for place, value in point.setting.items())


def _loss(point: Point) -> str:
    return f"loss {figure(point.loss)}, risk {figure(point.risk)}"


def _value(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _runs(left: str, right: str, *, json: bool, html: Path | None, lang: str | None) -> None:
    from privpipe.reporting.run_comparison import compare_runs
    from privpipe.reporting.run_documents import RunDocuments

    runs = RunDocuments.read(left), RunDocuments.read(right)
    found = compare_runs(*runs)
    if html is not None:
        _write_page(html, *runs, lang)
    if json:
        print_json(found.to_dict())
        return
    _show_runs(found)


def _write_page(html: Path, left: RunDocuments, right: RunDocuments, lang: str | None) -> None:
    from privpipe.reporting.officer.page import comparison_page

    text = comparison_page(left, right, lang)
    try:
        html.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SinkError(f"cannot write {str(html)!r}: {error.strerror}") from None
    say(f"COMPARED: {html}")


def _show_runs(found: RunComparison) -> None:
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    for name in ("", *found.names, "difference"):
        table.add_column(plain_cell(name))
    for name, pair in found.about.items():
        table.add_row(*(plain_cell(text) for text in (name.replace("_", " "), *map(_shown, pair), "")))
    for place, pair in found.settings.items():
        table.add_row(*(plain_cell(text) for text in (place, *map(_shown, pair), "")))
    for row in found.figures:
        sides = [
            f"{figure(value)} {outcome}".strip() if outcome else ""
            for value, outcome in ((row.left, row.left_outcome), (row.right, row.right_outcome))
        ]
        table.add_row(*(plain_cell(text) for text in (row.entry, *sides, figure(row.difference))))
    print_table(table)


def _shown(value: Any) -> str:
    return figure(value) if value is None or isinstance(value, int | float) else _value(value)
