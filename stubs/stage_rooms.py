"""Stubs of the rooms that make a class or a function for every entry: figures, scikit-learn, Spark ML."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from privpipe.blocks.guarantee import COMMON_KEYS
from privpipe.blocks.marks import SensitiveColumn
from privpipe.blocks.parameters import hint_of, marked
from privpipe.transforms import CATALOGUE
from stubs.text import NAMES, Stub, capital, definition

__all__ = ["observe_stub", "sklearn_stub", "spark_stub"]


def observe_stub() -> str:
    """A function for every entry that reports; those written out by hand as they are."""
    from privpipe import observe
    from privpipe.observe.figures import OPTIONS

    stub = Stub()
    for name in observe.__all__:
        stub.imported("privpipe.observe.figures", f"{name} as {name}")
    for name in observe.RELEASED_MODELS:
        stub.imported("privpipe.observe.released_models", f"{name} as {name}")
    unpack, options = stub.imported("typing", "Unpack"), stub.imported("privpipe.blocks.guarantee", "CheckOptions")
    frame, keys = f"frame: {stub.imported('typing', 'Any')}", f"quasi_identifiers: {NAMES} | None"
    for name in observe.figures.names():
        if name in observe.__all__:
            continue
        kind: Any = observe.figures.attribute(name)._kind
        left_out = [kind.threshold_field, *kind.other_thresholds, *COMMON_KEYS, *OPTIONS]
        own, own_column = stub.parameters(kind, left_out), marked(kind, SensitiveColumn)
        if len(own_column) != 1:
            forms = [([f"{keys} = ..."], own)]
        else:
            stub.imported("typing", "overload")
            others = stub.parameters(kind, [*left_out, *own_column])
            forms = [([keys, "column: str"], others), ([f"{keys} = ..."], own)]
        for places, named in forms:
            taken = [frame, *places, "/", *(["*", *named] if named else []), f"**options: {unpack}[{options}]"]
            made = definition("", name, taken, stub.spelled(kind.observes))
            stub.add(*(["@overload"] if len(forms) > 1 else []), made, "")
    return stub.text()


def sklearn_stub() -> str:
    """An estimator for every transformer; each parameter may be left out, as scikit-learn asks."""
    import privpipe.sklearn as room

    stub = Stub()
    base = stub.imported("privpipe.sklearn.estimator", "StageEstimator as StageEstimator")
    for name in ("Any", "Guarantee", "Mapping", "NullRule", "Roles", "Seed", "Sequence"):
        stub.imported(HOMES[name], name)
    for name in CATALOGUE.class_names:
        kind: Any = CATALOGUE.of_class(name)
        made: Any = getattr(room, name)
        spelled = {}
        _, *parameters = inspect.signature(made.__init__).parameters.values()
        for parameter in parameters:
            option = made._options.get(parameter.name)
            text = ESTIMATOR_OPTIONS[option] if option else stub.spelled(hint_of(kind, parameter.name))
            spelled[parameter.name] = text if parameter.default is not None or "None" in text else f"{text} | None"
        attributes = [f"    {each}: {text}" for each, text in spelled.items()]
        stub.add_class(name, base, [f"{each}: {text} = ..." for each, text in spelled.items()], *attributes)
    return stub.text()


ESTIMATOR_OPTIONS = {
    "roles": "Roles",
    "hierarchies": "Mapping[str, Any]",
    "guarantees": "Sequence[Guarantee]",
    "seed": "Seed | Mapping[str, Any]",
    "record_id": "str",
    "person_id": "str",
    "household_id": "str",
    "nulls": "NullRule",
    "mark": "str",
}
"""What each option of an estimator takes; no bare seed, for the parameters of an estimator are printed."""
OPTION_TYPES = {
    "roles": ("Roles | Mapping[str, list[str] | tuple[str, ...]] | None", "dict[str, list[str]] | None"),
    "hierarchies": ("Mapping[str, Any] | None", "dict[str, Any] | None"),
    "guarantees": ("Guarantee | Sequence[Guarantee | Mapping[str, Any]] | None", "list[dict[str, Any]] | None"),
    "undeclared": ("UndeclaredRule | None", "UndeclaredRule | None"),
    "record_id": ("str | None", "str | None"),
    "person_id": ("str | None", "str | None"),
    "household_id": ("str | None", "str | None"),
    "nulls": ("NullRule | None", "NullRule | None"),
    "empty": ('Literal["refuse", "pass"] | None', "str | None"),
    "mark": ("str | None", "str | None"),
    "seed": ("Seed | str | bytes | Mapping[str, Any] | None", "Seed | dict[str, Any] | None"),
    "policy": ("Policy | str | PathLike[str] | Mapping[str, Any]", "Policy | dict[str, Any] | None"),
}
"""What each option of Spark ML takes, and what its getter gives: see `privpipe.spark.options`."""
HOMES = {
    "Any": "typing",
    "DataFrame": "pyspark.sql",
    "Guarantee": "privpipe.blocks",
    "Mapping": "collections.abc",
    "NullRule": "privpipe.roles",
    "Param": "pyspark.ml.param",
    "PathLike": "os",
    "Policy": "privpipe.policy",
    "Roles": "privpipe.roles",
    "Seed": "privpipe.draws",
    "Self": "typing",
    "Sequence": "collections.abc",
    "TypedDict": "typing",
    "UndeclaredRule": "privpipe.judging.rules",
    "Unpack": "typing",
    "overload": "typing",
}
"""Where the names of a stub of Spark ML come from."""
PARAM_MAP = "dict[Param[Any], Any]"
SHARED = ("roles", "hierarchies", "guarantees", "recordId", "personId", "householdId", "seed")
"""Params that every transformer has by these names."""
Params = Sequence[tuple[Sequence[str], str, str]]
"""Of each Param its names, what it takes and what its getter gives."""


def spark_stub() -> str:
    """An estimator and a model for every transformer, the gates, and what releases streams."""
    import privpipe.spark as room

    stub = Stub()
    for name, home in HOMES.items():
        stub.imported(home, name)
    bases = [stub.imported("privpipe.spark.stages", f"{name} as {name}") for name in ("StageEstimator", "StageModel")]
    for name in ("BatchReleases", "release_batches"):
        stub.imported("privpipe.spark.batches", f"{name} as {name}")
    shared = [([each.name], *OPTION_TYPES[each.option]) for each in room.RankSwap.asked if each.name in SHARED]
    stub.add("class _Options(TypedDict, total=False):", *(f"    {name}: {takes}" for [name], takes, _ in shared), "")
    stub.add("class _Got:", *_getters(shared), "", "class _Set(_Got):", *_setters(shared), "")
    for name in CATALOGUE.class_names:
        params = _params(stub, getattr(room, name), CATALOGUE.of_class(name))
        own = [each for each in params if each[0][0] not in SHARED]
        _add_pair(stub, name, (f"{bases[0]}, _Set", f"{bases[1]}, _Got"), own, "**options: Unpack[_Options]")
    for name, module in (("ReleaseGate", "gate"), ("Release", "release")):
        gates = [stub.imported(f"privpipe.spark.{module}", f"{each} as _{each}") for each in (name, f"{name}Model")]
        _add_pair(stub, name, gates, _params(stub, getattr(room, name), None))
    return stub.text()


def _params(stub: Stub, made: Any, kind: Any) -> Params:
    fields = {param: field for field, param in made.named.items()} if kind else {}
    found = []
    for asked in made.asked:
        names = [asked.name, *([asked.alias] if asked.alias else [])]
        if asked.name in fields:
            hint = hint_of(kind, fields[asked.name])
            types = stub.spelled(hint), stub.read(hint)
        else:
            types = OPTION_TYPES[asked.option or asked.name]
        found.append((names, *types))
    return found


def _add_pair(stub: Stub, name: str, bases: Sequence[str], params: Params, *others: str) -> None:
    """An estimator and its model; `others`: what its constructor takes in addition."""
    arguments = [f"{each}: {takes} = ..." for names, takes, _ in params for each in names]
    taken = ["self", *(["*", *arguments] if arguments else []), *others]
    load = ["    @classmethod", "    def load(cls, path: str) -> Self: ..."]
    stub.add(
        f"class {name}({bases[0]}):",
        definition("    ", "__init__", taken, "None"),
        # The base takes any keyword: it knows no Param by name.
        definition("    ", "setParams", taken, "Self", note="# type: ignore[override]"),
        *_getters(params),
        *_setters(params),
        "    @overload",
        f"    def fit(self, dataset: DataFrame, params: {PARAM_MAP} | None = ...) -> {name}Model: ...",
        "    @overload",
        f"    def fit(self, dataset: DataFrame, params: list[{PARAM_MAP}]) -> list[{name}Model]: ...",
        *load,
        "",
    )
    run = f"    def transform(self, dataset: DataFrame, params: {PARAM_MAP} | None = ...) -> DataFrame: ..."
    stub.add(f"class {name}Model({bases[1]}):", *_getters(params), run, *load, "")


def _getters(params: Params) -> list[str]:
    found = []
    for names, _, gives in params:
        for name in names:
            found += [f"    {name}: Param[Any]", f"    def get{capital(name)}(self) -> {gives}: ..."]
    return found


def _setters(params: Params) -> list[str]:
    return [
        f"    def set{capital(name)}(self, value: {takes}) -> Self: ..." for names, takes, _ in params for name in names
    ]
