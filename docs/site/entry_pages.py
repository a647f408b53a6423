"""A page for every entry of the catalogues, made of what the entry says of itself and of what it does to a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from docstrings import section
from figures import bars, slopes
from spelling import as_policy, as_python
from toy import KEY, Judged, Staged, Toy, classes

from privpipe.blocks import Entry, Guarantee
from privpipe.cli.explain import described
from privpipe.judging.assessment import compares_tables
from privpipe.testing import GAPS
from privpipe.transforms.base import Transformer

__all__ = ["entry_page"]

SAID = {
    "threat": "Guards against",
    "formula": "Rule",
    "preserves": "Preserves",
    "reveals": "Reveals",
    "choose": "How to choose",
    "source": "Source",
}
KEYS = {"transforms": "transform", "models": "guarantees", "measures": "measures"}
ENGINES = ("embedded", "dask", "spark", "gx")


def entry_page(entry: type[Entry], room: str, toy: Toy) -> str:
    """The page, as Markdown.

    Parameters
    ----------
    entry : type of Entry
    room : {"transforms", "models", "measures"}
    toy : Toy
    """
    document = described(entry.name())
    parts = [f"# {entry.name()}", f"*{document['kind']}*, `{document['class']}`", _text(document["summary"])]
    parts += [_text(line) for line in document["about"].splitlines()]
    parts += _said(document)
    if issubclass(entry, Transformer):
        parts += _stage(entry, room, toy)
    elif issubclass(entry, Guarantee):
        parts += _check(entry, room, toy)
    parts += ["## Parameters", "\n".join(_parameters(document))]
    parts += _engines(entry)
    for title in ("Notes", "Examples"):
        text = section(entry.__doc__, title)
        parts += [f"## {'In the console' if title == 'Examples' else title}", text] if text else []
    return "\n\n".join(parts) + "\n"


def _said(document: Mapping[str, Any]) -> Iterator[str]:
    for name, title in SAID.items():
        if document.get(name):
            yield f"**{title}.** {_text(document[name])}"
    if "rule_of_thumb" in document:
        yield "A rule of thumb, by the risk that you can tolerate; the more sensitive the data, the lower:"
        rows = document["rule_of_thumb"]
        yield _table(pd.DataFrame(rows))


def _stage(entry: type[Transformer], room: str, toy: Toy) -> Iterator[str]:
    yield "## Example"
    staged = toy.staged(entry)
    example = staged.stage if staged else entry.examples()[0]
    yield _spelt(example, room)
    yield f"```python\nimport privpipe as pp\n\nmasked = {as_python(example, room)}.apply(frame, seed=seed)\n```"
    if staged is None:
        yield "The eight records of this site's table are too few for this stage."
        return
    yield "What it makes of eight invented records, computed when this page was built:"
    if staged.changed:
        yield from _slopes(staged)
    yield f"Before:\n\n{_table(_shown(staged.before, staged))}"
    yield f"After:\n\n{_table(_shown(staged.after, staged))}"


def _slopes(staged: Staged) -> Iterator[str]:
    if KEY not in staged.after or len(staged.after) != len(staged.before):
        return
    for name in staged.changed:
        pair = [pd.to_numeric(frame.sort_values(KEY)[name], errors="coerce") for frame in (staged.before, staged.after)]
        if all(pd.api.types.is_numeric_dtype(each) and each.notna().all() for each in pair):
            yield slopes(name, *(each.astype(float).tolist() for each in pair))
            yield f"*`{name}` of each record, before and after.*"


def _shown(frame: pd.DataFrame, staged: Staged) -> pd.DataFrame:
    """What tells something: changed columns, removed ones, and those that the roles of a stage's search read."""
    if not staged.changed:
        return frame.drop(columns=KEY, errors="ignore")
    order = frame.drop(columns=KEY, errors="ignore")
    return order[[name for name in order if name in staged.changed or name in ("sex", "illness")]]


def _check(entry: type[Guarantee], room: str, toy: Toy) -> Iterator[str]:
    yield "## Example"
    found = list(toy.judged(entry))
    example = _telling(found) or entry.examples()[-1]
    yield _spelt(example, room)
    if compares_tables(example):
        yield (
            "It compares two tables, and the verdict states how much of them it could compare (`compared`). An outcome "
            "that rests on fewer than half is an error that says what to do, never a pass: labels that nothing "
            "explains, keys that are never equal and values that are missing give a figure of 0 as well."
        )
    paired = "original=before, " if example.way.aligned or example.way.in_keyed_order else ""
    given = f'after, {paired}quasi_identifiers=["age", "zip"], sensitive=["illness"]'
    yield f"```python\nimport privpipe as pp\n\nverdict = {as_python(example, room)}.assess(\n    {given}\n)\n```"
    if not found:
        yield "It is judged by what a run keeps next to the table, so this page has no figure of it."
        return
    here = all(each.setting == "toy" for each in found)
    if here:
        yield bars(classes())
        yield "*Eight invented records in two classes, one bar a class; their incomes carry a little noise.*"
    yield f"What it says of {'them' if here else 'a release of invented records'}, computed when this page was built:"
    yield "\n".join(_verdicts(found))


def _telling(found: list[Judged]) -> Guarantee | None:
    """The first example that the table fails, else the last that asks for something."""
    asking = [each for each in found if _asks(each.entry)]
    failing = [each for each in asking if each.verdict.outcome == "fail"]
    chosen = failing[:1] or asking[-1:] or found[:1]
    return chosen[0].entry if chosen else None


def _asks(entry: Guarantee) -> bool:
    return entry.threshold_field is None or getattr(entry, entry.threshold_field) is not None


def _verdicts(found: list[Judged]) -> Iterator[str]:
    yield "| example | observed | outcome |"
    yield "|---|---|---|"
    for each in found:
        outcome = each.verdict.outcome if _asks(each.entry) else "reported"
        yield f"| `{_cell(as_python(each.entry, '')[4:])}` | {_cell(_figure(each.verdict.observed))} | {outcome} |"


def _figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_figure(each)}" for name, each in value.items())
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _spelt(example: Entry, room: str) -> str:
    return f"In a policy, and in Python:\n\n```yaml\n{as_policy(example, KEYS[room])}```"


def _parameters(document: Mapping[str, Any]) -> Iterator[str]:
    if not document["parameters"]:
        yield "None."
        return
    yield "| name | type | default | what it says |"
    yield "|---|---|---|---|"
    for each in document["parameters"]:
        default = "required" if each["required"] else f"`{json.dumps(each['default'])}`" if "default" in each else "-"
        about = each["about"] + (" (the threshold)" if "threshold" in each else "")
        yield f"| `{each['name']}` | {_cell(each['type'])} | {_cell(default)} | {_cell(_text(about))} |"


def _engines(entry: type[Entry]) -> Iterator[str]:
    gaps = {
        place: gap.why
        for (place, what), gap in GAPS.items()
        if what.split(" ")[0] == entry.name() and place in (*ENGINES, "*")
    }
    yield "## Engines"
    yield "The same rows and verdicts on pandas, polars, pyarrow and DuckDB (embedded), Dask and Spark" + (
        ", but for these:" if gaps else "."
    )
    if gaps:
        names = {"gx": "as a Great Expectation", "*": "everywhere"}
        yield "\n".join(f"- {names.get(place, place)}: {why}" for place, why in gaps.items())


def _table(frame: pd.DataFrame) -> str:
    head = f"| {' | '.join(map(str, frame.columns))} |\n|{'---|' * len(frame.columns)}"
    return "\n".join([head, *(f"| {' | '.join(map(_value, row))} |" for row in frame.itertuples(index=False))])


def _value(value: Any) -> str:
    if pd.isna(value):
        return ""
    return _cell(f"{value:.6g}" if isinstance(value, float) else str(value)).replace("*", "\\*")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _text(text: str) -> str:
    """Plain words as Markdown: no accidental emphasis or HTML."""
    return (
        text.replace("``", "`").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
        if ("`" not in text)
        else text.replace("``", "`")
    )
