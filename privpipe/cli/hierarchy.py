"""``privpipe hierarchy``: check, show and write out the hierarchies of a policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli.arguments import EngineOption, JsonOption, PolicyArgument, loaded
from privpipe.cli.console import print_json, say
from privpipe.cli.endings import guarded
from privpipe.errors import HierarchyError, SinkError, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privpipe.hierarchies import Hierarchy
    from privpipe.release import Policy

__all__ = ["commands"]

MOST_LABELS = 20
PARTS_OF_VALUES = ("redact", "priority")  # builders whose labels are values, whole or in part
commands = typer.Typer(help="Check, show and write out the hierarchies of a policy.", no_args_is_help=True)
ColumnArgument = Annotated[str, typer.Argument(metavar="COLUMN", help="A column with a hierarchy.", show_default=False)]
ShowValues = Annotated[
    bool, typer.Option("--show-values", help="Print values of the data too: do not do this where others can read it.")
]


def check(policy: PolicyArgument, engine: EngineOption = None, json: JsonOption = False) -> None:
    """Build every hierarchy of a policy over its source, and say what is wrong with any.

    Exit code 3 when one is ill-formed or lacks values of the data.
    """
    rules = loaded(policy)
    documents, errors = [], []
    for column, made in _each(rules, list(rules.hierarchies), engine):
        if isinstance(made, HierarchyError):
            errors.append(str(made))
            documents.append({"column": column, "error": str(made), "kind": made.kind})
        else:
            documents.append(made.describe())
    if json:
        print_json(documents)
    else:
        for document in documents:
            if "error" not in document:
                print(_line(document))
    if errors:
        raise HierarchyError("\n".join(errors))


def show(
    policy: PolicyArgument,
    column: ColumnArgument,
    engine: EngineOption = None,
    show_values: ShowValues = False,
    json: JsonOption = False,
) -> None:
    """Show the levels of a column's hierarchy and their labels.

    Labels that are made from the data are values of the data: these, and the raw level, need --show-values.
    """
    rules = loaded(policy)
    made = _one(rules, column, engine)
    declared = not made.data_dependent and not set(PARTS_OF_VALUES) & set(rules.hierarchies[column].to_dict())
    shown = [level for level in range(made.height + 1) if show_values or (declared and level > 0)]
    if json:
        print_json({**made.describe(), "labels": {str(level): list(made.labels(level)) for level in shown}})
        return
    print(_line(made.describe()))
    for level, name in enumerate(made.level_names):
        labels = made.labels(level)
        print(f"  level {level} ({name}): {len(labels):,} labels{_some(labels) if level in shown else ''}")


def build(
    policy: PolicyArgument,
    column: ColumnArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The CSV file to write.", show_default=False)],
    delimiter: Annotated[str, typer.Option("--delimiter", help="Between the fields.")] = ";",
    engine: EngineOption = None,
) -> None:
    """Write a column's hierarchy as a CSV file, one line a raw value: keep it as you keep the data."""
    made = _one(loaded(policy), column, engine)
    try:
        made.to_csv(out, delimiter=delimiter)
    except OSError as error:
        raise SinkError(f"cannot write {str(out)!r}: {error.strerror}") from None
    say(f"WRITTEN: {out} ({len(made.values):,} values, {made.height + 1} levels)")


for name, command in (("check", check), ("show", show), ("build", build)):
    commands.command(name)(guarded(command))


def _one(policy: Policy, column: str, engine: str | None) -> Hierarchy:
    if column not in policy.hierarchies:
        known = list(policy.hierarchies)
        raise UsageError(f"column {column!r} has no hierarchy in the policy{did_you_mean(column, known)}")
    [(_, made)] = _each(policy, [column], engine)
    if isinstance(made, HierarchyError):
        raise made
    hierarchy: Hierarchy = made
    return hierarchy


def _each(policy: Policy, columns: list[str], engine: str | None) -> Iterator[tuple[str, Any]]:
    """Each column's hierarchy over the values of the source, or the error that it is; without a source, of no value."""
    from privpipe.hierarchies import canonical_text
    from privpipe.roles import column_type_of

    for column, values, counts, kind in _values(policy, columns, engine):
        type_ = policy.types.get(column) or (None if kind is None else column_type_of(kind))
        try:
            texts = [] if values is None else canonical_text(values, type_, column=column).to_pylist()
            yield column, policy.hierarchies[column].build(texts, counts, type_)
        except HierarchyError as error:
            yield column, error


def _values(policy: Policy, columns: list[str], engine: str | None) -> Iterator[tuple[str, Any, list[int], Any]]:
    """Distinct values, their counts and Arrow type of each column."""
    from privpipe.blocks import FactsRequest
    from privpipe.engines import open_engine
    from privpipe.errors import DataError
    from privpipe.release.run import source_of

    if policy.source is None:
        yield from ((column, None, [], None) for column in columns)
        return
    name = engine or policy.engine
    with open_engine(name, policy.engines.get(name, {})) as running:
        table = running.scan(source_of(policy))
        for column in columns:
            if column not in table.schema.names:
                raise DataError(f"column {column!r} is not in the data{did_you_mean(column, table.schema.names)}")
            histogram = running.facts(table, FactsRequest(histograms=(column,))).histograms[column]
            yield column, histogram.values, histogram.counts.tolist(), table.schema.field(column).type


def _some(labels: tuple[str, ...]) -> str:
    more = f", and {len(labels) - MOST_LABELS:,} more" if len(labels) > MOST_LABELS else ""
    return ": " + ", ".join(labels[:MOST_LABELS]) + more


def _line(document: dict[str, Any]) -> str:
    sizes = " > ".join(f"{level['labels']:,}" for level in document["levels"])
    warned = "".join(f"\n  warning: {text}" for text in document["warnings"])
    return f"{document['column']}: {document['source']}, height {document['height']}, labels {sizes}{warned}"
