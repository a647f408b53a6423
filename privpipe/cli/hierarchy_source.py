"""What ``privpipe hierarchy`` is given: a policy, a hierarchy file, or what stands under `hierarchy:` in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privpipe.errors import HierarchyError, UsageError, did_you_mean

if TYPE_CHECKING:
    from privpipe.hierarchies import Hierarchy, HierarchySpec
    from privpipe.policy import Policy

__all__ = ["Asked", "FileOptions", "asked_of"]

DOCUMENTS = (".yaml", ".yml", ".json")


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """What the command line says of a source that is no policy.

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
        from privpipe.running.column_levels import with_columns_read
        from privpipe.running.judging_rows import source_of

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
        raise UsageError(f"{given[0]} is for a hierarchy file or a builder; a policy says so itself")
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
        # The policy reader says where it is wrong.
        return {"version": None}
    if not isinstance(found, Mapping):
        raise UsageError(f"{path.name!r} holds neither a policy nor what stands under `hierarchy:`")
    return found
