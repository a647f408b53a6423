"""Expectations on related tables: the batch is the persons' table; the others are found by their places."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from great_expectations.compatibility import pydantic
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.suite_parameters import is_suite_parameter
from great_expectations.expectations.expectation import BatchExpectation, MetaExpectation
from great_expectations.validator.validator import ValidationDependencies

from privpipe.blocks.verdict import plain
from privpipe.engines import Source
from privpipe.engines.base.frames import at_hand
from privpipe.errors import DataError, PrivpipeError, UsageError
from privpipe.gx.batch import METRIC, OpenBatch, dependencies_on
from privpipe.gx.expectations import Rendered
from privpipe.gx.tables import UNTYPED, OtherTable, held
from privpipe.relations import JOINT_GUARANTEES
from privpipe.relations.counting import RelatedTables
from privpipe.relations.guarantees import JointGuarantee
from privpipe.relations.schema import Tree
from privpipe.roles import column_type_of

__all__ = ["JOINT_EXPECTATIONS", "JointExpectation", "place_of"]

OF_BATCH = ("data_source", "asset", "batch_definition")
"""Keys of the place of a table that is another batch of the same context."""
OF_SET = ("root", "tables", "relations", "keys", "quasi_identifiers", "orphans")


def place_of(table: Any) -> Any:
    """The place of a table as a suite holds it: a batch definition by its names, everything else unchanged."""
    if not isinstance(table, BatchDefinition):
        return table
    asset = table.data_asset
    return dict(zip(OF_BATCH, (asset.datasource.name, asset.name, table.name), strict=True))


class JointExpectation(Rendered, BatchExpectation):
    """Base of all on related tables; not itself an expectation.

    Parameters
    ----------
    root : str
        Name of the batch's table among the related ones; its rows are the persons.
    tables : mapping of str to place
        Where each other table is: a batch definition of the same context, as its names under `data_source`, `asset`
        and `batch_definition`; or a path, a mapping with the keys of `source:` in a policy, or ``{"handle": name}`` of
        `privpipe.gx.hold`. Each must be the whole table.
    relations, keys, quasi_identifiers, orphans
        As of `privpipe.relations.assess`.
    """

    root: str
    tables: dict[str, Any]
    relations: list[dict[str, str]]
    keys: dict[str, Any]
    quasi_identifiers: dict[str, list[str]]
    orphans: Literal["refuse", "drop"] = "refuse"

    entry: ClassVar[Any]
    metric_dependencies: ClassVar[tuple[str, ...]] = (METRIC,)
    success_keys: ClassVar[tuple[str, ...]] = OF_SET
    args_keys: ClassVar[tuple[str, ...]] = ()

    def guarantee(self) -> JointGuarantee:
        """The guarantee with this expectation's parameters."""
        names = _own_names(self.entry)
        made: JointGuarantee = self.entry.build(
            {name: value for name in names if (value := getattr(self, name, None)) is not None}
        )
        return made

    def tree(self) -> Tree:
        """The tables and their relations."""
        return _tree(vars(self))

    def require_places(self) -> None:
        """Refuse a table where the place of one is wanted.

        Raises
        ------
        UsageError
        """
        _require_places(self.tables)

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: dict[str, Any] | None = None
    ) -> ValidationDependencies:
        """The batch, as all privacy expectations have it."""
        return dependencies_on(self.batch_id, runtime_configuration)

    def _validate(
        self,
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any] | None = None,
        execution_engine: Any = None,
    ) -> dict[str, Any]:
        batch: OpenBatch = metrics[METRIC]
        guarantee = self.guarantee()
        try:
            related = self._related(batch, execution_engine)
            verdict = guarantee.judge(related)
            persons = related.engine.count(batch.table)
        except PrivpipeError as error:
            details = {"outcome": "error", "threshold": plain(guarantee.demanded()), "reason": str(error)}
            return {"success": False, "result": {"observed_value": None, "details": details}}
        row = verdict.to_dict()
        details = {key: row[key] for key in ("outcome", "threshold", "failing_classes", "failing_records", "reason")}
        result = {"observed_value": row["observed"], "element_count": persons, "details": details}
        return {"success": verdict.outcome == "pass", "result": result}

    def _related(self, batch: OpenBatch, execution_engine: Any) -> RelatedTables:
        """The tables, read once for all expectations of the batch that name them alike."""
        active = execution_engine.batch_manager.active_batch if execution_engine is not None else None
        _require_whole(active, self.root)
        stated = json.dumps({name: plain(getattr(self, name)) for name in OF_SET}, sort_keys=True, default=str)
        return batch.related(stated, self.tree(), self.orphans, {self.root: batch.table}, self._readers(batch, active))

    def _readers(self, batch: OpenBatch, active: Any) -> dict[str, Any]:
        """A function for each other table that gives its source."""
        links = {relation.table: relation for relation in self.tree().relations}

        def source(name: str) -> Source:
            place = self.tables[name]
            if _is_batch(place):
                return _batch(place, active, name)
            found = OtherTable.read(f"tables: {name}", place)
            plainly, relation = found.now().source(), links[name]
            if relation.to != self.root or found.types or not plainly.is_path or plainly.resolved_format not in UNTYPED:
                return plainly
            schema, keys = batch.table.schema, self.tree().tables[relation.to].key
            types = {
                column: column_type_of(schema.field(key).type)
                for column, key in zip(relation.columns, keys, strict=True)
                if key in schema.names
            }
            return found.source(types)

        return {name: lambda name=name: source(name) for name in self.tree().children}


def _is_batch(place: Any) -> bool:
    return isinstance(place, Mapping) and set(place) == set(OF_BATCH)


def _batch(place: Mapping[str, str], active: Any, name: str) -> Source:
    """The whole table of another batch definition of the context."""
    data_source, asset, definition = (place[key] for key in OF_BATCH)
    try:
        context = active.datasource.data_context
        found = context.data_sources.get(data_source).get_asset(asset).get_batch_definition(definition).get_batch()
    except Exception as error:  # noqa: BLE001  # of Great Expectations, pandas or Spark: their texts may quote values
        raise DataError(
            f"table {name!r}: batch definition {definition!r} of asset {asset!r} of data source {data_source!r} cannot "
            f"be read ({type(error).__name__})"
        ) from None
    _require_whole(found, name)
    data = at_hand(held(found.data.dataframe), "great expectations")
    return data if isinstance(data, Source) else Source(data=data)


def _require_whole(batch: Any, table: str) -> None:
    """Refuse a part of an asset: the rows of a person in other parts would not be counted.

    Raises
    ------
    UsageError
    """
    request = getattr(batch, "batch_request", None)
    chosen = {*(getattr(request, "options", None) or {})} - {"dataframe", "path"}
    parts = getattr(getattr(request, "partitioner", None), "param_names", ())
    if batch is None or chosen or parts:
        raise UsageError(
            f"table {table!r}: its batch is one part of its asset, and related tables are judged whole; use a batch "
            "definition of the whole table"
        )


def _require_places(tables: Mapping[str, Any]) -> None:
    for name, place in tables.items():
        if not _is_batch(place):
            OtherTable.read(f"tables: {name}", place)


def _tree(values: Mapping[str, Any]) -> Tree:
    names = (values["root"], *(name for name in values["tables"] if name != values["root"]))
    tree = Tree.of(names, values["relations"], values["keys"], values["quasi_identifiers"])
    if tree.root != values["root"]:
        raise UsageError(f"root: the rows of {tree.root!r} are the persons, so it must be the table of the batch")
    return tree


def _own_names(entry: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(entry) if field.name != "severity"]


def _expectation(entry: Any) -> type[JointExpectation]:
    """Make the expectation of a joint guarantee; the class registers itself under its snake_case name."""
    own = _own_names(entry)
    optional = {
        field.name: plain(field.default)
        for field in dataclasses.fields(entry)
        if field.name in own and field.default is not dataclasses.MISSING
    }

    def checked(cls: type[JointExpectation], values: dict[str, Any]) -> dict[str, Any]:
        given = {name: values[name] for name in own if values.get(name) is not None}
        later = {name for name, value in given.items() if is_suite_parameter(value)}
        problems = entry.problems({name: each for name, each in given.items() if name not in later})
        problems = {name: text for name, text in problems.items() if name not in later}
        if entry.threshold_field not in given:
            problems[entry.threshold_field] = "is required: an expectation needs a threshold"
        try:
            _tree(values)
            _require_places(values["tables"])
        except UsageError as error:
            problems[""] = str(error)
        if problems:
            raise ValueError("; ".join(f"{name}: {text}" if name else text for name, text in problems.items()))
        return values

    made: type[JointExpectation] = MetaExpectation(
        f"Expect{entry.__name__}",
        (JointExpectation,),
        {
            "__module__": __name__,
            "__doc__": f"{entry.summary()}\n\nParameters are those of the guarantee `{entry.name()}`.",
            "__annotations__": {"entry": ClassVar[Any], "success_keys": ClassVar[tuple[str, ...]]}
            | dict.fromkeys(own, Any),
            "entry": entry,
            "success_keys": (*OF_SET, *own),
            "_privpipe_check": pydantic.root_validator(allow_reuse=True, skip_on_failure=True)(checked),
            **optional,
        },
    )
    return made


JOINT_EXPECTATIONS = {name: _expectation(JOINT_GUARANTEES[name]) for name in JOINT_GUARANTEES}
"""Expectation classes on related tables, by the catalogue name of their guarantee."""
