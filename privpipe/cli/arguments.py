"""Arguments, options and shell completions that several commands share, and how a policy is loaded for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import privpipe
from privpipe.cli.console import warn_all

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = [
    "EngineOption",
    "JsonOption",
    "PolicyArgument",
    "ProgressOption",
    "engines",
    "explained",
    "formats",
    "loaded",
    "policies",
    "report_formats",
    "report_languages",
]


POLICY_ENDINGS = (".yaml", ".yml", ".json")
SECTIONS = ("source", "population", "original", "sink", "plan", "report", "hierarchy", "officer", "sign_off")


def explained(incomplete: str) -> list[str]:
    """What `explain` takes: entries of this package, builders and sections; plug-ins would have to be looked for.

    Examples
    --------
    >>> explained("k_a"), explained("quant")
    (['k_anonymity'], ['quantiles'])
    """
    entries = [_snake(name) for room in ("models", "transforms", "measures") for name in _entries(room)]
    builders = ["file", *_words("hierarchies/spec.py", "FROM_PARAMETERS"), "tree"]
    return _beginning(incomplete, [*entries, *builders, *SECTIONS])


def formats(incomplete: str) -> list[str]:
    """Formats of data files."""
    return _beginning(incomplete, _words("engines/readers/source.py", "Format"))


def report_formats(incomplete: str) -> list[str]:
    """Formats of a report."""
    return _beginning(incomplete, ("markdown", "html"))


def report_languages(incomplete: str) -> list[str]:
    """Languages of a report."""
    return _beginning(incomplete, _words("reporting/officer/languages.py", "Language"))


def engines(incomplete: str) -> list[str]:
    """Engines of this package."""
    return _beginning(incomplete, ("embedded", "dask", "spark"))


def policies(incomplete: str) -> list[str]:
    """Folders and files that may be policies, below what is written so far."""
    head, slash, tail = incomplete.rpartition("/")
    place = Path(head + slash or ".")
    try:
        found = sorted(place.iterdir())
    except OSError:
        return []
    shown = [each for each in found if each.name.startswith(tail) and (tail or not each.name.startswith("."))]
    return [f"{head}{slash}{each.name}/" for each in shown if each.is_dir()] + [
        f"{head}{slash}{each.name}" for each in shown if each.suffix in POLICY_ENDINGS and each.is_file()
    ]


def _beginning(incomplete: str, words: list[str] | tuple[str, ...]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _snake(name: str) -> str:
    """As `privpipe.blocks.entry.snake_case`, whose room loads numpy; a test compares the names."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@cache
def _entries(room: str) -> list[str]:
    calls = [node for node in ast.walk(_tree(f"{room}/__init__.py")) if isinstance(node, ast.Call)]
    given = [call.args[2] for call in calls if ast.unparse(call.func) == "Catalogue" and len(call.args) > 2]
    return [word for lines in given for word in _texts(lines)]


@cache
def _words(file: str, name: str) -> list[str]:
    """Keys of a mapping, or words of a `Literal`, that a module assigns to a name."""
    found = []
    for node in _tree(file).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(ast.unparse(target) == name for target in targets):
            found += list(_texts(node.value))  # type: ignore[attr-defined]
    return found


def _tree(file: str) -> ast.Module:
    return ast.parse(Path(privpipe.__file__ or "").parent.joinpath(file).read_text("utf-8"))


def _texts(node: ast.AST | None) -> Iterator[str]:
    parts = node.keys if isinstance(node, ast.Dict) else ast.walk(node) if node is not None else ()
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


PolicyArgument = Annotated[
    Path,
    typer.Argument(metavar="POLICY", help="The policy file (YAML).", show_default=False, autocompletion=policies),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="E",
        help="embedded, dask, spark or a plug-in's, instead of the policy's.",
        show_default=False,
        autocompletion=engines,
    ),
]
ProgressOption = Annotated[
    bool,
    typer.Option("--progress", help="Print progress as lines on stderr, for logs; a terminal shows a bar without it."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print only a machine-readable document on stdout.")]


def loaded(path: Path) -> Policy:
    """The policy of a file; its warnings go to stderr."""
    from privpipe.policy import Policy

    policy: Policy = Policy.load(path)
    warn_all(policy.warnings)
    return policy
