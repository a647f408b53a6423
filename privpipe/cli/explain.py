"""``privpipe explain``, ``plugins`` and ``schema``: what a policy may say."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privpipe.cli import arguments
from privpipe.cli.arguments import JsonOption
from privpipe.cli.console import as_json, print_json, put, say, write_text
from privpipe.cli.explanations import (
    LAKE_TOPICS,
    OFFICER_TOPICS,
    RELATED_TOPICS,
    SOURCE_TOPICS,
    TOPIC,
    builder_document,
    builder_lines,
    hierarchy_document,
    hierarchy_lines,
    key_document,
    lake_keys,
    lake_text,
    officer_document,
    source_document,
    source_example,
)
from privpipe.drafting.guarantees import rule_of_thumb
from privpipe.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from privpipe.blocks import Catalogue, Entry
    from privpipe.plugins import PlugIn

__all__ = [
    "described",
    "explain",
    "explained_lines",
    "listed_lines",
    "plug_in_of",
    "plugins",
    "schema",
    "summaries",
    "tell_left_out",
]


COLUMNS = ("group", "name", "distribution", "version", "state")


def plugins(json: JsonOption = False) -> None:
    """List the plug-ins of this environment.

    Each entry, hierarchy builder and engine that an installed distribution declares, with the distribution and whether
    it is sound: imported, of the right class, made for this contract, under a unique name. Exit code 2 when one is
    not; nothing else uses it, and a policy that names it is refused.
    """
    rows = _rows()
    broken = [row for row in rows if row["state"] == "broken"]
    if json:
        print_json({"plugins": rows})
    elif not rows:
        put("no plug-in is installed")
    else:
        for line in _aligned(rows):
            put(line)
    for row in broken:
        say(f"BROKEN: {row['reason']}")
    if broken:
        raise typer.Exit(UsageError.exit_code)


def plug_in_of(group: str, name: str) -> PlugIn | None:
    """The sound plug-in that brings an entry; None for what is built in."""
    from privpipe.plugins import fault, found

    return next((each for each in found() if (each.group, each.name) == (group, name) and not fault(each)), None)


def tell_left_out() -> None:
    """Say on stderr that a list is shorter than what is installed."""
    from privpipe.plugins import fault, found

    broken = [each for each in found() if fault(each)]
    if broken:
        say(f"note: left out {len(broken)} plug-in(s) that are not valid; `privpipe plugins` shows why")


def _rows() -> list[dict[str, Any]]:
    from privpipe.plugins import fault, found

    return [
        {
            "group": each.group,
            "name": each.name,
            "distribution": each.distribution,
            "version": each.version,
            "state": "broken" if (reason := fault(each)) else "ok",
            "reason": reason,
        }
        for each in found()
    ]


def _aligned(rows: list[dict[str, Any]]) -> list[str]:
    lines = [list(COLUMNS), *([str(row[name]) for name in COLUMNS] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def schema(
    policies: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[POLICY]...", help="Policies to check instead, without data.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it here instead of stdout.", show_default=False)
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="NAME",
            help="Of what a command prints with --json instead: assess, release, dry_run, plan, transform, "
            "compare_settings, compare_runs, verify or history; or of a manifest or private_manifest.",
            show_default=False,
        ),
    ] = None,
    officer: Annotated[bool, typer.Option("--officer", help="Of officers' policies instead.")] = False,
) -> None:
    """Print the JSON schema of policies, or of what a command prints.

    Draft 2020-12, with every entry of the catalogues. For the YAML language server, put
    `# yaml-language-server: $schema=policy.schema.json` atop a policy. With POLICY, each is read as a run would read
    it, but for sources and seeds, and what is wrong is shown by line: exit code 2.
    """
    from privpipe.errors import UsageError
    from privpipe.policy.schema import json_schema, officer_schema
    from privpipe.reporting.output_schemas import output_schema

    if policies:
        if officer or output is not None or out is not None:
            raise UsageError("policies are checked by themselves; leave out --officer, --output and --out")
        _check(policies)
        return
    if officer and output is not None:
        raise UsageError("--officer and --output name different schemas; give one of them")
    if output is None:
        tell_left_out()
        found = officer_schema() if officer else json_schema()
    else:
        found = output_schema(output)
    if out is None:
        print_json(found)
        return
    write_text(out, as_json(found))
    say(f"WRITTEN: {out}")


def _check(policies: list[Path]) -> None:
    """Say what is wrong with each policy, all of them before it ends."""
    from privpipe.errors import PrivpipeError, UsageError
    from privpipe.policy import Policy

    wrong = 0
    for file in policies:
        try:
            Policy.load(file)
        except PrivpipeError as error:
            wrong += 1
            say(str(error))
    if wrong:
        raise UsageError(f"{wrong} of {len(policies)} policies cannot be used; see above")
    say(f"SOUND: {len(policies)} {'policy' if len(policies) == 1 else 'policies'}")


WIDEST, NAMES = 100, 27
TITLES = {
    "threat": "guards against",
    "formula": "rule",
    "preserves": "preserves",
    "reveals": "reveals",
    "choose": "how to choose",
    "source": "source",
}


def explain(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="An entry; left out: all of them.",
            show_default=False,
            autocompletion=arguments.explained,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Explain an entry, a hierarchy builder or a section of a policy.

    Says what it guards against, its rule and parameters, how to choose them, and the source. `hierarchy` lists the
    builders of hierarchies, `source` the keys of every source, `csv` or `database` those of one kind; `delta` and
    `iceberg` explain how such tables are read, `officer` and `sign_off` what an officer's policy requires.
    """
    if name is None:
        _list(json)
        return
    document = described(name)
    if json:
        print_json(document)
    else:
        put("\n".join(explained_lines(document)))


def described(name: str) -> dict[str, Any]:
    """What the catalogue knows of an entry, the hierarchies of a builder, or the grammar of a section.

    Raises
    ------
    UsageError
        Nothing has the name; the nearest one is offered.
    """
    from privpipe.hierarchies import BUILDERS

    rooms = _rooms()
    for room in rooms:
        if name in room:
            return _document(room[name], room)
    sections = _sections()
    if name in sections:
        return sections[name]
    if name == TOPIC:
        return hierarchy_document()
    if name in LAKE_TOPICS:
        from privpipe.policy.grammar import SOURCE

        return {**lake_text(name), "parameters": [key_document(key, SOURCE[key]) for key in lake_keys(name)]}
    if name in BUILDERS:
        return builder_document(name)
    if name in SOURCE_TOPICS:
        return source_document(name)
    if name in OFFICER_TOPICS:
        return officer_document(name)
    sources = [*LAKE_TOPICS, *SOURCE_TOPICS, *OFFICER_TOPICS]
    known = [*(entry for room in rooms for entry in room), *sections, TOPIC, *BUILDERS, *sources]
    raise UsageError(f"nothing is called {name!r}{did_you_mean(name, known)}; `privpipe explain` lists every entry")


SHAPES = {
    "columns": 'Each column by its name, as in `age: {role: quasi_identifier}`; `"*": drop` is about all others.',
    "failing": "Keys of its one key, as in `failing: {sink: {path: held_back}}`.",
}
"""How sections are written, where their keys do not show it."""


def _rooms() -> tuple[Catalogue, ...]:
    from privpipe.policy.catalogues import Catalogues

    catalogues = Catalogues.shipped()
    return (
        catalogues.models,
        catalogues.transforms,
        catalogues.measures,
        catalogues.table_stages,
        catalogues.cell_guarantees,
        catalogues.set_stages,
        catalogues.joint_guarantees,
    )


def _sections() -> dict[str, dict[str, Any]]:
    """The sections of a policy that are mappings of known keys."""
    from privpipe.policy.grammar import COLUMN, DRIFT, FAILING_SINK, PLAN, RELATED, REPORT, SINK, SOURCE_SECTIONS, TOP

    others = {"columns": COLUMN, "drift": DRIFT, "sink": SINK, "failing": FAILING_SINK, "plan": PLAN, "report": REPORT}
    return {
        name: {
            "name": name,
            "kind": "section of a policy",
            "summary": TOP[name].about,
            "about": SHAPES.get(name, ""),
            "parameters": [key_document(key, each) for key, each in of_section.items()],
        }
        for name, of_section in {**SOURCE_SECTIONS, **others}.items()
    } | {
        "uses": _uses(),
        **{
            name: {
                "name": name,
                "kind": "section of a policy about related tables",
                "summary": RELATED[name].about,
                "about": about,
                "parameters": [key_document(key, each) for key, each in keys().items()],
                "example": example,
            }
            for name, (about, keys, example) in RELATED_TOPICS.items()
        },
    }


def _uses() -> dict[str, Any]:
    """How uses are written, and how what they lose is measured."""
    from privpipe.drafting.use_figures import lost_of_use
    from privpipe.policy.grammar import TOP
    from privpipe.policy.uses import FORMS

    prose = [" ".join(block.split()) for block in inspect.cleandoc(lost_of_use.__doc__ or "").split("\n\n")]
    return {
        "name": "uses",
        "kind": "section of a policy",
        "summary": TOP["uses"].about,
        "about": "\n".join(prose[: next(at for at, block in enumerate(prose) if block.startswith("Examples"))]),
        "parameters": [{"name": kind, "type": form, "about": "", "required": False} for kind, form in FORMS.items()],
    }


def _document(entry: type[Entry], room: Catalogue) -> dict[str, Any]:
    said = {name: " ".join(str(getattr(entry, name, "") or "").split()) for name in TITLES}
    brought = None if entry.name() in room.built_in else plug_in_of(room.package, entry.name())
    kind = getattr(entry, "taxon", None) or (
        entry.name() if brought else room.module_of(entry.name()).partition(".")[0]
    )
    more = _beyond_the_first_line(entry)
    return {
        "name": entry.name(),
        "class": f"{room.package}.{entry.__name__}",
        **({"plug_in": f"{brought.distribution} {brought.version}"} if brought else {}),
        "kind": f"{room.kind} ({kind})" if kind != entry.name() else room.kind,
        "summary": entry.summary(),
        "about": more,
        "parameters": list(_parameters(entry)),
        **{name: text for name, text in said.items() if text},
        **({"rule_of_thumb": table} if (table := _rule_of_thumb(entry, room)) else {}),
    }


def _rule_of_thumb(entry: type[Entry], room: Catalogue) -> list[dict[str, Any]]:
    """Usual values of the entry's k, l and t, where they mean class size, values of a class and distance."""
    if room.module_of(entry.name()).partition(".")[0] not in ("identity", "attribute"):
        return []
    return rule_of_thumb([field.name for field in dataclasses.fields(entry)])  # type: ignore[arg-type]


def _beyond_the_first_line(entry: type[Entry]) -> str:
    """Prose of the docstring between its first line and its first section."""
    text = inspect.cleandoc(entry.__doc__ or "").partition("\n")[2]
    prose = []
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        if len(lines) > 1 and set(lines[1]) == {"-"}:
            break
        prose.append(" ".join(line.strip() for line in lines))
    return "\n".join(filter(None, prose))


def _parameters(entry: type[Entry]) -> Iterator[dict[str, Any]]:
    schema = entry.json_schema()
    threshold = getattr(entry, "threshold_field", None)
    for field in dataclasses.fields(entry):  # type: ignore[arg-type]
        given = schema["properties"].get(field.name, {})
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        found: dict[str, Any] = {
            "name": field.name,
            "type": _type(given),
            "about": entry.descriptions().get(field.name, ""),
            "required": not has_default,
        }
        if given.get("default") is not None:
            found["default"] = given["default"]
        if field.name == threshold:
            found["threshold"] = True
        yield found


def _type(schema: Mapping[str, Any]) -> str:
    """A JSON schema's type in a few words.

    Examples
    --------
    >>> _type({"anyOf": [{"type": "integer"}, {"type": "null"}]}), _type({"enum": ["a", "b"]})
    ('integer', 'a | b')
    """
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    if "$ref" in schema or schema.get("type") == "object":
        return "mapping"
    return {"string": "text", "boolean": "flag"}.get(str(schema.get("type")), str(schema.get("type", "any")))


def explained_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What `described` gives, as lines of text."""
    if document["name"] == TOPIC:
        yield from hierarchy_lines(document)
        return
    brought = f", a plug-in of {document['plug_in']}" if "plug_in" in document else ""
    yield f"{document['name']} - {document['kind']}{brought}"
    yield from _paragraphs("", document["summary"])
    for paragraph in document["about"].splitlines():
        yield from _paragraphs("", paragraph)
    if document["parameters"]:
        yield ""
        yield "parameters:"
    for parameter in document["parameters"]:
        role = "threshold" if "threshold" in parameter else "required" if parameter["required"] else "optional"
        default = f", default {parameter['default']}" if "default" in parameter else ""
        head = f"  {parameter['name']}: {parameter['type']} ({role}{default})"
        yield textwrap.fill(head, _width(), subsequent_indent="    ")
        if parameter["about"]:
            yield textwrap.fill(parameter["about"], _width(), initial_indent="      ", subsequent_indent="      ")
    yield from source_example(document)
    if "labels" in document:
        yield from builder_lines(document)
    for name, title in TITLES.items():
        if document.get(name):
            yield ""
            yield from _paragraphs(f"{title}: ", document[name])
        if name == "choose" and "rule_of_thumb" in document:
            yield from _table(document["rule_of_thumb"])


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    said = "start from the risk that you can tolerate; the more sensitive the data, the lower"
    yield from _paragraphs("rule of thumb: ", said)
    lines = [list(rows[0]), *([str(cell) for cell in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _paragraphs(title: str, text: str) -> Iterator[str]:
    yield textwrap.fill(title + text, _width(), subsequent_indent="  " if title else "")


def _list(json: bool) -> None:
    tell_left_out()
    if json:
        print_json(summaries())
    else:
        put("\n".join(listed_lines()))


def summaries() -> dict[str, dict[str, str]]:
    """The first line on every entry, by kind and name."""
    return {room.kind: {name: room[name].summary() for name in room} for room in _rooms()}


def listed_lines() -> Iterator[str]:
    """Every name that `described` knows and what it stands for, as lines of text."""
    from privpipe.policy.grammar import RELATED

    for kind, of_kind in summaries().items():
        yield from _named_lines(f"{kind}s", of_kind)
    yield from _named_lines("hierarchies", {TOPIC: "The builders of hierarchies and their options."})
    yield from _named_lines("related tables", {name: RELATED[name].about for name in RELATED_TOPICS})
    yield from _named_lines("sources", {name: summary for name, (summary, *_) in SOURCE_TOPICS.items()})
    yield from _named_lines("officers", {name: summary for name, (summary, *_) in OFFICER_TOPICS.items()})


def _named_lines(title: str, of_kind: Mapping[str, str]) -> Iterator[str]:
    """Names and what they stand for; what a model observes is shown where it is explained alone."""
    if not of_kind:
        return
    yield f"{title}:"
    for name, summary in of_kind.items():
        said = summary.partition("; observed = ")[0].rstrip(".") + "."
        indent = " " * (NAMES + 3)
        yield textwrap.fill(said, _width(), initial_indent=f"  {name:{NAMES}} ", subsequent_indent=indent)


def _width() -> int:
    """Characters of a line: those of the terminal, up to what reads well."""
    return min(WIDEST, shutil.get_terminal_size((WIDEST, 0)).columns)
