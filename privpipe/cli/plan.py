"""``privpipe plan`` and ``privpipe transform``: make a plan, inspect it, predict its cost, apply it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli.arguments import EngineOption, JsonOption, PolicyArgument, ProgressOption, loaded
from privpipe.cli.console import print_json, progress, put, say, write_text
from privpipe.cli.gate import show_alarms, show_lost
from privpipe.errors import SinkError, UsageError
from privpipe.html_tables import figure

if TYPE_CHECKING:
    from privpipe.judging.column_loss import LossTable
    from privpipe.policy import Policy
    from privpipe.running import Plan

__all__ = ["plan", "show_cost", "transform"]


def show_cost(policy: Policy, *, engine: str | None, rows: int | None, json: bool) -> None:
    """Predict the cost of a release and print it."""
    from privpipe.running.release_cost import plan_cost

    cost = plan_cost(policy, engine=engine, rows=rows)
    document = cost.to_dict()
    if json:
        print_json(document)
        return
    put(
        f"{cost.engine}: {cost.rows:,} rows, {cost.columns} columns, some {document['combinations']:,} combinations of "
        "quasi-identifiers"
    )
    for name, amount, terms in cost.rows_shown():
        put(f"  {name:<9} {amount:>9}{f'  ({terms})' if terms else ''}")
    if cost.seconds is not None:
        put(f"at least {cost.seconds:,.0f} s on {cost.workers} processors that are busy all the time")
    for line in cost.unknown:
        put(f"not in it: {line}")
    say("PREDICTED, nothing was run: the figures come from a model and an estimate of distinct values (docs/scale.md)")


def plan(
    policy: PolicyArgument,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the plan here (JSON).", show_default=False)
    ] = None,
    engine: EngineOption = None,
    json: JsonOption = False,
    explore: Annotated[
        bool, typer.Option("--explore", help="List what other valid levels cost in loss and leave in risk.")
    ] = False,
    losses: Annotated[
        bool,
        typer.Option(
            "--losses/--no-losses",
            help="Count what each column loses, for which the stages are applied to the whole table; on a large one "
            "that takes longer than the search.",
        ),
    ] = True,
    lines: ProgressOption = False,
    cost: Annotated[
        bool,
        typer.Option(
            "--cost",
            help="Make no plan: predict what a release will read, shuffle, spill, write, hold and take in CPU seconds.",
        ),
    ] = False,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows", min=1, metavar="N", help="With --cost: for this many rows of the same kind.", show_default=False
        ),
    ] = None,
) -> None:
    """Plan every stage, and print or write the plan.

    Printed it is for people: stages, parameters, levels, what a search looked at, what each column loses. With --out it
    is also written as `privpipe transform` and `privpipe release --plan` take it.
    A plan holds levels, windows and counts, no record and no secret. It still discloses more of the source than a
    release does: keep it private. Exit code 6 when nothing within the limits meets the guarantees.
    With --cost the source is read once, no stage runs, and estimates are printed: counts and sizes, no value.
    """
    if rows is not None and not cost:
        raise UsageError("--rows is the number of rows for which --cost predicts; give --cost too")
    if cost:
        if out is not None or explore:
            raise UsageError("--cost makes no plan: leave out --out and --explore")
        show_cost(loaded(policy), engine=engine, rows=rows, json=json)
        return
    from privpipe.running.verbs import plan as decide

    rules = loaded(policy)
    with progress(len(rules.transform), lines=lines) as tell:
        made = decide(None, rules, engine=engine, progress=tell, losses=losses)
    if out is not None:
        write_text(out, made.to_json())
    if json:
        print_json({**made.to_dict(), **({} if made.lost is None else made.lost.documents())})
    else:
        _summarise(made, rules)
    if explore and not json:
        _explored(made)
    if out is not None:
        say(f"PLANNED: {out}")
    elif not json:
        say("PLANNED, not written: --out FILE keeps the plan. No guarantee was judged; `privpipe release` does that.")


def transform(
    policy: PolicyArgument,
    plan: Annotated[
        Path, typer.Option("--plan", metavar="FILE", help="A plan made by `privpipe plan`.", show_default=False)
    ],
    target: Annotated[
        str, typer.Option("--target", metavar="DIR", help="An empty or new folder to write into.", show_default=False)
    ],
    engine: EngineOption = None,
    lines: ProgressOption = False,
    json: JsonOption = False,
) -> None:
    """Apply a plan and write the result, UNJUDGED.

    Never writes to the policy's sink: only `privpipe release` publishes.
    """
    from privpipe.policy.specs import require_one_table

    rules = loaded(policy)
    require_one_table(rules, "transform")
    folder = _unjudged_target(target, rules)
    records, lost = _written(rules, _read(plan, rules), folder, engine, lines=lines)
    if json:
        print_json({"target": str(folder), "records": records, "judged": False, **lost.documents()})
    else:
        show_alarms(lost)
        show_lost(lost)
    say(f"WRITTEN, NOT JUDGED: {records:,} records in {folder}; `privpipe validate` judges them")


def _summarise(plan: Plan, policy: Policy) -> None:
    from privpipe.blocks.public_edition import shown_parameters
    from privpipe.policy.plain_values import written

    show_alarms(plan.lost)
    put(f"{plan.records:,} records, {len(plan.stages)} stages: {', '.join(s.name for s in plan.stages) or 'none'}")
    for at, (table, stage) in enumerate(_stages(policy), 1):
        chosen = shown_parameters(type(stage), written(stage)[stage.name()])
        put(f"{at}. {table}{stage.name()}{f' ({chosen})' if chosen else ''}: {stage.summary()}")
    for column, level in plan.levels.items():
        put(f"  {column}: level {level}")
    for step in plan.of_set if plan.tables else ():
        figures = [
            (name, step.detail[name])
            for name in ("suppressed_persons", "persons_capped", "rows_removed")
            if name in step.detail
        ]
        for name, value in figures:
            put(f"{step.name}: {figure(value)} {name.replace('_', ' ')}")
    # Of related tables, figures of one of them would be taken for those of the set.
    shown = plan if not plan.tables else replace(plan, stages=plan.of_set, tables={})
    found = {
        "suppressed records": plan.suppressed_records if not plan.tables else None,
        "loss": shown.loss,
        "optimal": shown.optimal,
        "nodes checked": shown.nodes_checked,
    }
    for name, value in found.items():
        if value is not None:
            put(f"{name}: {figure(value)}")
    if plan.optimal is False and plan.lower_bound is not None and isinstance(plan.loss, float):
        gap = plan.loss - plan.lower_bound
        put(f"not proved optimal: no choice loses less than {figure(plan.lower_bound)}, a gap of {figure(gap)}")
    if plan.lost is None:
        put("what each column loses was not counted")
    show_lost(plan.lost)


def _stages(policy: Policy) -> list[tuple[str, Any]]:
    """The stages in the order of the plan, of related tables with the table before the name."""
    if policy.related is None:
        return [("", stage) for stage in policy.transform]
    of_tables = [(f"{name}: ", stage) for name, own in policy.related.tables.items() for stage in own.transform]
    return [*of_tables, *(("", stage) for stage in policy.related.stages)]


def _explored(plan: Plan) -> None:
    """The valid vectors of levels that are Pareto-optimal in loss and average risk among those seen."""
    for stage in plan.stages:
        front = stage.detail.get("front")
        if not front:
            continue
        put(f"\n{stage.name}: loss against risk, of {figure(stage.detail['solutions_seen'])} valid vectors seen")
        put(f"{'loss':>12}  {'average risk':>12}  {'highest risk':>12}  {'suppressed':>10}  levels")
        for each in front:
            levels = ", ".join(f"{column} {level}" for column, level in each["levels"].items())
            loss = figure(each["loss"][0] if isinstance(each["loss"], list) else each["loss"])
            risks = f"{figure(each['average_risk']):>12}  {figure(each['highest_risk']):>12}"
            put(f"{loss:>12}  {risks}  {each['suppressed_records']:>10,}  {levels}")


def _read(path: Path, policy: Policy) -> Plan:
    from privpipe.running.plan import read_plan

    plan: Plan = read_plan(path, policy)
    if policy.seed is not None and not plan.made_with(policy.seed.resolve()):
        raise UsageError("the plan was made with another seed: set the one it was made with, or plan again")
    return plan


def _unjudged_target(target: str, policy: Policy) -> Path:
    """The folder, once it is neither the sink nor anything else that holds files."""
    if "://" in target:
        raise UsageError("--target must be a local folder: unjudged data stays here")
    folder = Path(os.path.abspath(target))
    if policy.sink is not None and policy.sink.is_folder:
        sink = Path(os.path.realpath(policy.sink.target(policy.base_dir)))
        real = Path(os.path.realpath(folder))
        if real == sink or sink in real.parents or real in sink.parents:
            raise UsageError(
                "--target overlaps the policy's sink: unjudged data never goes there; use `privpipe release`"
            )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--target {str(folder)!r} is not empty; name a new folder")
    return folder


def _written(policy: Policy, plan: Plan, folder: Path, engine: str | None, *, lines: bool) -> tuple[int, LossTable]:
    from privpipe.engines import open_engine
    from privpipe.private_files import make_public, public_modes
    from privpipe.progress import watched
    from privpipe.running.attached_source import attach
    from privpipe.running.places import write_rows
    from privpipe.running.report_figures import lost_columns
    from privpipe.running.run_context import RunContext, pinned_tables, seed_of, source_of
    from privpipe.running.staging import run_stages
    from privpipe.sinks.target import formula_notes, sink_faults

    name = engine or policy.engine
    shown = progress(len(plan.stages) + 1, lines=lines)
    with open_engine(name, policy.engines.get(name, {})) as running, shown as told, watched(told) as tell:
        context = RunContext(running, pinned_tables(policy), seed_of(policy), tell)
        staged = run_stages(context, attach(context, source_of(context.policy)), plan=plan)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"--target {str(folder)!r} cannot be written: {error.strerror}") from None
        tell("write")
        for note in formula_notes(running, policy, staged.table):
            say(f"note: {note}")
        records = write_rows(context, staged, folder).records
        with sink_faults(folder, "the files may be incomplete"):
            make_public(folder, public_modes(folder))
        return records, lost_columns(context, staged)
