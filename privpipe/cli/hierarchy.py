"""``privpipe hierarchy``: check, show and write out hierarchies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli.arguments import EngineOption, JsonOption
from privpipe.cli.console import print_json, put, say
from privpipe.cli.endings import guarded
from privpipe.cli.hierarchy_source import FileOptions, asked_of
from privpipe.errors import HierarchyError, SinkError, UsageError

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = ["commands"]

MOST_LABELS = 20
PARTS_OF_VALUES = ("redact", "priority", "frequency_groups")  # builders whose labels are values, whole or in part
commands = typer.Typer(help="Check, show and write out hierarchies.", no_args_is_help=True)
SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="A policy, a hierarchy file, or a YAML file with what stands under `hierarchy:`.",
        show_default=False,
    ),
]
ColumnArgument = Annotated[
    str | None,
    typer.Argument(metavar="COLUMN", help="A column of the policy, or of --data.", show_default=False),
]
ShowValues = Annotated[
    bool, typer.Option("--show-values", help="Print values of the data too: do not do this where others can read it.")
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="C", help="Between the fields of a hierarchy file: ; unless given.")
]
Header = Annotated[bool, typer.Option("--header", help="The first line of the file names the levels.")]
Type = Annotated[
    str | None, typer.Option("--type", metavar="TYPE", help="Type of the raw values of a file or builder.")
]
AddRoot = Annotated[bool, typer.Option("--add-root", help="Put a level of * above those of the file.")]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="PATH", help="The table with the values, where no policy names it.")
]


def check(
    source: SourceArgument,
    column: ColumnArgument = None,
    delimiter: Delimiter = None,
    header: Header = False,
    type_: Type = None,
    add_root: AddRoot = False,
    data: Data = None,
    engine: EngineOption = None,
    show_values: ShowValues = False,
    json: JsonOption = False,
) -> None:
    """Build hierarchies over their values, and say what is wrong.

    Exit code 3 when one is ill-formed or lacks values of the data; --show-values prints them.
    """
    asked = asked_of(source, _options(delimiter, header, type_, add_root, data, column))
    documents, errors = [], []
    for name, made in (asked if column not in asked.specs else asked.only(str(column))).each(engine):
        if isinstance(made, HierarchyError):
            errors.append(str(made))
            outside = asked.only(name).outside(engine) if show_values and made.kind == "unknown" else []
            documents.append({"column": name, "error": str(made), "kind": made.kind, "outside": outside})
        else:
            documents.append(made.describe())
    if json:
        print_json(documents)
    else:
        for document in documents:
            if "error" not in document:
                put(_line(document))
            elif document["outside"]:
                put(f"{document['column']}: values outside{_some(tuple(document['outside']))}")
    if errors:
        raise HierarchyError("\n".join(errors))


def show(
    source: SourceArgument,
    column: ColumnArgument = None,
    delimiter: Delimiter = None,
    header: Header = False,
    type_: Type = None,
    add_root: AddRoot = False,
    data: Data = None,
    engine: EngineOption = None,
    show_values: ShowValues = False,
    json: JsonOption = False,
) -> None:
    """Show the levels of a hierarchy and their labels.

    Labels that are made from the data are values of the data: these, and the raw level, need --show-values.
    """
    spec, made = asked_of(source, _options(delimiter, header, type_, add_root, data, column)).one(column, engine)
    shown = _shown(spec, made, show_values)
    if json:
        print_json({**made.describe(), "labels": {str(level): list(shown[level]) for level in shown}})
        return
    put(_line(made.describe()))
    for level, name in enumerate(made.level_names):
        put(f"  level {level} ({name}): {len(made.labels(level)):,} labels{_some(shown.get(level))}")


def build(
    source: SourceArgument,
    column: ColumnArgument = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The CSV file to write.", show_default=False)],
    delimiter: Annotated[
        str, typer.Option("--delimiter", metavar="C", help="Between the fields of the file written.")
    ] = ";",
    header: Annotated[bool, typer.Option("--header", help="Write the names of the levels as the first line.")] = False,
    type_: Type = None,
    data: Data = None,
    engine: EngineOption = None,
) -> None:
    """Write a hierarchy as a CSV file.

    It has one line a raw value: keep it as you keep the data.
    """
    _, made = asked_of(source, _options(None, False, type_, False, data, column)).one(column, engine)
    if not made.values:
        raise UsageError(f"{made.source} takes its values from the data: name the COLUMN and its table with --data")
    try:
        made.to_csv(out, delimiter=delimiter, header=header)
    except OSError as error:
        raise SinkError(f"cannot write {str(out)!r}: {error.strerror}") from None
    say(f"WRITTEN: {out} ({len(made.values):,} values, {made.height + 1} levels)")


for name, command in (("check", check), ("show", show), ("build", build)):
    commands.command(name)(guarded(command))


def _options(
    delimiter: str | None, header: bool, type_: str | None, add_root: bool, data: Path | None, column: str | None
) -> FileOptions:
    return FileOptions(
        delimiter=delimiter, header=header, type=type_, add_root=add_root, data=data, column=column or None
    )


def _shown(spec: HierarchySpec, made: Hierarchy, show_values: bool) -> dict[int, tuple[str, ...]]:
    """Labels of the levels that may be told; a label that repeats a raw value is that value."""
    declared = not made.data_dependent and not spec.plugged and not set(PARTS_OF_VALUES) & set(spec.to_dict())
    levels = [level for level in range(made.height + 1) if show_values or (declared and level > 0)]
    raw = set() if show_values else set(made.values)
    return {level: tuple(label for label in made.labels(level) if label not in raw) for level in levels}


def _some(labels: tuple[str, ...] | None) -> str:
    if not labels:
        return ""
    more = f", and {len(labels) - MOST_LABELS:,} more" if len(labels) > MOST_LABELS else ""
    return ": " + ", ".join(labels[:MOST_LABELS]) + more


def _line(document: dict[str, Any]) -> str:
    sizes = " > ".join(f"{level['labels']:,}" for level in document["levels"])
    warned = "".join(f"\n  warning: {text}" for text in document["warnings"])
    unused = document["unused"] or 0
    # Over no data nothing is seen, which says nothing.
    told = [f"{unused:,} values never seen"] if 0 < unused < document["levels"][0]["labels"] else []
    if document["unknown_values"]:
        told.append(f"{document['unknown_values']:,} values outside ({document['unknown_records']:,} records)")
    whose = f"{document['column']}: " if document["column"] else ""
    seen = f", {', '.join(told)}" if told else ""
    return f"{whose}{document['source']}, height {document['height']}, labels {sizes}{seen}{warned}"
