"""The API reference: everything that `privpipe` exports, from the signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

from docstrings import markdown

import privpipe as pp
from privpipe import errors, observe, relations, tables

__all__ = ["api_page", "errors_page"]


def api_page() -> str:
    """Functions first, then classes with their methods."""
    exported = {name: getattr(pp, name) for name in pp.__all__}
    functions = {name: each for name, each in exported.items() if inspect.isfunction(each)}
    kinds = {name: each for name, each in exported.items() if inspect.isclass(each)}
    parts = [
        "# Python",
        "`import privpipe as pp`. The [catalogue](../catalogue.md) lists `pp.transforms`, `pp.models` and "
        "`pp.measures`; [errors](errors.md) are those of `pp.errors`.",
        *(part for name, each in functions.items() for part in _function(f"pp.{name}", each, "##")),
        *_observe(),
        *_room(relations),
        *_room(tables),
        *_streams(),
        *(part for name, each in kinds.items() for part in _class(f"pp.{name}", each)),
    ]
    return "\n\n".join(parts) + "\n"


def errors_page() -> str:
    """The error tree with its exit codes."""
    found = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, BaseException)]
    parts = ["# Errors", "Every error that privpipe raises on purpose, with the exit code of the command line."]
    for each in found:
        if each.__module__ == errors.__name__:
            code = getattr(each, "exit_code", None)
            parts += [f"## {each.__name__}", f"Exit code {code}." if code is not None else "", markdown(each.__doc__)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _observe() -> Iterator[str]:
    yield "## observe"
    yield markdown(observe.__doc__)
    yield ", ".join(f"`pp.observe.{name}`" for name in dir(observe) if not name.startswith("_"))


def _room(room: ModuleType) -> Iterator[str]:
    own = room.__name__.rpartition(".")[2]
    yield f"## {own}"
    yield markdown(room.__doc__)
    for name in room.__all__:
        each = getattr(room, name)
        if inspect.isfunction(each):
            yield from _function(f"pp.{own}.{name}", each, "###")
        elif inspect.isclass(each):
            for part in _class(f"pp.{own}.{name}", each):
                yield part.replace("## ", "### ", 1) if part.startswith("## ") else part


def _streams() -> Iterator[str]:
    from privpipe.running.stream_batches import BatchOutcome
    from privpipe.spark import BatchReleases, release_batches

    yield "## spark"
    yield "Streams of Spark; for stages and gates see [Spark ML](../how-to/spark-ml.md)."
    yield from _function("privpipe.spark.release_batches", release_batches, "###")
    for kind in (BatchReleases, BatchOutcome):
        yield f"### {kind.__name__}"
        ####")


def _function(name: str, function: Any, level: str) -> Iterator[str]:
    yield f"{level} {name.rpartition('.')[2]}"
    yield f"```python\n{_signature(name, function)}\n```"
    yield markdown(function.__doc__, f"{level}##")


def _class(name: str, kind: Any) -> Iterator[str]:
    yield f"## {name.rpartition('.')[2]}"
    yield markdown(kind.__doc__)
    for own, member in inspect.getmembers_static(kind):
        method = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if own.startswith("_") or not getattr(method, "__doc__", None) or not _is_ours(method):
            continue
        if isinstance(method, property | cached_property):
            yield f"### {own}"
            yield markdown(method.__doc__, "#####")
        elif inspect.isfunction(method):
            yield from _function(f"{name}.{own}", method, "###")


def _is_ours(method: Any) -> bool:
    function = getattr(method, "fget", None) or getattr(method, "func", method)
    return str(getattr(function, "__module__", "")).startswith("privpipe")


def _parameter(parameter: inspect.Parameter) -> str:
    """As it is written; `str` puts annotations that are text between quotes."""
    bare = parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
    text = str(bare)
    if isinstance(parameter.annotation, str):
        text += f": {parameter.annotation}"
    if parameter.default is not inspect.Parameter.empty:
        text += f" = {parameter.default!r}"
    return text


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    shown = [_parameter(each) for each in own]
    marks = [at for at, each in enumerate(own) if each.kind is inspect.Parameter.KEYWORD_ONLY]
    if marks and not any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in own):
        shown.insert(marks[0], "*")
    one_line = f"{name}({', '.join(shown)})"
    body = one_line if len(one_line) <= 88 else f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + ")"
    returned = signature.return_annotation
    return body + (f" -> {returned}" if isinstance(returned, str) and returned != "None" else "")
