"""``privpipe hierarchy``: check, show and write out hierarchies, from a policy or a hierarchy file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli.arguments import EngineOption, JsonOption
from privpipe.cli.console import guarded, print_json, put, say
from privpipe.errors import HierarchyError, SinkError, UsageError, did_you_mean

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy, HierarchySpec
    from privpipe.policy import Policy

__all__ = ["Asked", "FileOptions", "asked_of", "commands"]


DOCUMENTS = (".yaml", ".yml", ".json")


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """What the command line states about a source that is not a policy.

    Parameters
    ----------
    delimiter, header, type, add_root : of a hierarchy file, and the type of its raw values.
    data : Path, optional
        The table whose column the hierarchy is for.
    column : str, optional
        That column.
    """

    delimiter: str | None = None
    header: bool = False
    type: str | None = None
    add_root: bool = False
    data: Path | None = None
    column: str | None = None

    def given(self) -> list[str]:
        """Names of the options that were."""
        names = {"delimiter": "--delimiter", "header": "--header", "type": "--type", "add_root": "--add-root"}
        return [option for name, option in names.items() if getattr(self, name)] + (["--data"] if self.data else [])


@dataclass(frozen=True)
class Asked:
    """Hierarchies by column, each with its type, and where their values come from.

    Parameters
    ----------
    specs : mapping of column to HierarchySpec
    types : mapping of column to declared type
    policy : Policy, optional
        Whose source holds the values.
    data : Path, optional
        Instead: a table.
    """

    specs: Mapping[str, HierarchySpec]
    types: Mapping[str, str] = field(default_factory=dict)
    policy: Policy | None = None
    data: Path | None = None

    def one(self, column: str | None, engine: str | None) -> tuple[HierarchySpec, Hierarchy]:
        """The hierarchy of a column, which may be left out where there is one only.

        Raises
        ------
        UsageError
            The column is missing, or has none.
        HierarchyError
            It is ill-formed, or lacks values of the data.
        """
        if column is None and len(self.specs) != 1:
            raise UsageError(f"name the column whose hierarchy is meant: {', '.join(self.specs)}")
        name = next(iter(self.specs)) if column is None else column
        if name not in self.specs:
            raise UsageError(f"column {name!r} has no hierarchy in the policy{did_you_mean(name, self.specs)}")
        [(_, made)] = self.only(name).each(engine)
        if isinstance(made, HierarchyError):
            raise made
        return self.specs[name], made

    def only(self, column: str) -> Asked:
        """The same for one column."""
        return replace(self, specs={column: self.specs[column]})

    def each(self, engine: str | None) -> Iterator[tuple[str, Any]]:
        """Each column's hierarchy over the values of the data, or the error that it is; without data, of no value."""
        from privpipe.hierarchies import canonical_text
        from privpipe.roles import column_type_of

        for column, spec, values, counts, kind in self._values(engine):
            type_ = self.types.get(column) or (None if kind is None else column_type_of(kind))
            try:
                texts = [] if values is None else canonical_text(values, type_, column=column).to_pylist()
                yield column, spec.build(texts, counts, type_)
            except HierarchyError as error:
                yield column, error

    def outside(self, engine: str | None) -> list[str]:
        """Values of the data that a column's hierarchy lacks, in order: data values, for eyes that may see them."""
        from privpipe.hierarchies import canonical_text
        from privpipe.roles import column_type_of

        [(column, spec, values, counts, kind)] = self._values(engine)
        type_ = self.types.get(column) or column_type_of(kind)
        texts = canonical_text(values, type_, column=column).to_pylist()
        made = replace(spec, options=replace(spec.options, unknown="suppress")).build(texts, counts, type_)
        return [text for text, code in zip(texts, made.encode(texts).tolist(), strict=True) if code < 0]

    def _values(self, engine: str | None) -> Iterator[tuple[str, HierarchySpec, Any, list[int], Any]]:
        """What declares the hierarchy of each column, its distinct values, their counts and Arrow type."""
        from privpipe.blocks import FactsRequest
        from privpipe.engines import Source, open_engine
        from privpipe.errors import DataError
        from privpipe.running.attached_source import with_columns_read
        from privpipe.running.run_context import source_of

        policy = self.policy
        if self.data is None and (policy is None or policy.source is None):
            yield from ((column, spec, None, [], None) for column, spec in self.specs.items())
            return
        name = engine or (policy.engine if policy is not None else "embedded")
        with open_engine(name, policy.engines.get(name, {}) if policy is not None else {}) as running:
            source = Source(data=str(self.data)) if self.data is not None else source_of(policy)  # type: ignore[arg-type]
            table = running.scan(source)
            for column in self.specs:
                if column not in table.schema.names:
                    raise DataError(f"column {column!r} is not in the data{did_you_mean(column, table.schema.names)}")
                histogram = running.facts(table, FactsRequest(histograms=(column,))).histograms[column]
                [spec] = with_columns_read(running, table, {column: self.specs[column]}, self.types).values()
                yield column, spec, histogram.values, histogram.counts.tolist(), table.schema.field(column).type


def asked_of(path: Path, options: FileOptions) -> Asked:
    """What a path holds: YAML and JSON are a policy (they have `columns:`) or a builder, anything else is a file.

    Raises
    ------
    UsageError
        Neither, or options that do not go with it.
    """
    from privpipe.hierarchies import HierarchySpec

    column = options.column or ""
    if options.data is not None and not column:
        raise UsageError("--data needs the name of the COLUMN whose values the hierarchy is for")
    if path.suffix.lower() in DOCUMENTS:
        document = _document(path)
        if "columns" in document or "version" in document:
            return _of_policy(path, options)
        spec = HierarchySpec.from_mapping(document, path.parent, column=column)
    else:
        given: dict[str, Any] = {"file": path.name, "delimiter": options.delimiter or ";", "header": options.header}
        spec = HierarchySpec.from_mapping({**given, "add_root": options.add_root}, path.parent, column=column)
    spec.check_type(options.type)
    types = {} if options.type is None else {column: options.type}
    return Asked({column: spec}, types, data=options.data)


def _of_policy(path: Path, options: FileOptions) -> Asked:
    from privpipe.cli.arguments import loaded

    if given := options.given():
        raise UsageError(f"{given[0]} is for a hierarchy file or a builder; a policy states it itself")
    policy = loaded(path)
    if not policy.hierarchies:
        raise UsageError(f"no column of {path.name!r} has a `hierarchy:`")
    return Asked(policy.hierarchies, policy.types, policy=policy)


def _document(path: Path) -> Mapping[str, Any]:
    """A YAML or JSON mapping, without looking further."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        found = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {error.strerror}") from None
    except (YAMLError, UnicodeDecodeError):
        # The policy reader shows where it is wrong.
        return {"version": None}
    if not isinstance(found, Mapping):
        raise UsageError(f"{path.name!r} holds neither a policy nor the value of `hierarchy:`")
    return found


MOST_LABELS = 20
PARTS_OF_VALUES = ("redact", "priority", "frequency_groups")  # builders whose labels are values, whole or in part
commands = typer.Typer(help="Check, show and write out hierarchies.", no_args_is_help=True)
SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="A policy, a hierarchy file, or a YAML file with the value of `hierarchy:`.",
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
    """Labels of the levels that may be shown; a label that repeats a raw value is that value."""
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
    # Over no data nothing is seen, which shows nothing.
    told = [f"{unused:,} values never seen"] if 0 < unused < document["levels"][0]["labels"] else []
    if document["unknown_values"]:
        told.append(f"{document['unknown_values']:,} values outside ({document['unknown_records']:,} records)")
    whose = f"{document['column']}: " if document["column"] else ""
    seen = f", {', '.join(told)}" if told else ""
    return f"{whose}{document['source']}, height {document['height']}, labels {sizes}{seen}{warned}"
