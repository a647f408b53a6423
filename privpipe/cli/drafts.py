"""``privpipe init`` and ``privpipe demo``: a first policy of a table, or of an example."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privpipe.cli.arguments import EngineOption, loaded
from privpipe.cli.console import as_json, progress, say, write_text
from privpipe.cli.release import released
from privpipe.errors import Refused, UsageError, escaped

if TYPE_CHECKING:
    from privpipe.drafting.questions import Question
    from privpipe.policy import Policy

__all__ = ["EXPECTED", "demo", "init"]


INSTALLED = Path(__file__).parents[1] / "pipelines"
"""What the wheel brings of the project's pipelines; absent in a clone."""
EXPECTED = {"adult": 0, "refused": Refused.exit_code}
"""The pipelines of the demo, and the exit code of each."""


def demo(
    pipelines: Annotated[
        Path | None,
        typer.Option(
            "--pipelines",
            metavar="DIR",
            envvar="PRIVPIPE_PIPELINES",
            help="The project's pipelines folder; default: `pipelines` here, else a copy of the installed one.",
            show_default=False,
        ),
    ] = None,
    engine: EngineOption = None,
) -> None:
    """Publish a release of UCI Adult, see another refused.

    The second ends with exit code 5; the demo itself with 0 when both went as they should.
    """
    folder = pipelines or _own_pipelines()
    policies = {name: folder / name / "release.yaml" for name in EXPECTED}
    missing = [str(path) for path in policies.values() if not path.is_file()]
    if missing:
        raise UsageError(
            f"{' and '.join(missing)} not found: run this in a clone of the project, or name its pipelines folder with "
            "--pipelines"
        )
    for name, path in policies.items():
        say(f"--- privpipe release {path}")
        policy = loaded(path)
        _provide_seed(policy)
        code = released(policy, engine=engine, target=None, json=False)
        say(f"--- exit code {code}\n")
        if code != EXPECTED[name]:
            say(f"the demo expected exit code {EXPECTED[name]} here")
            raise typer.Exit(code or 1)


def _own_pipelines() -> Path:
    """The folder of a clone, else a copy of what the wheel brings: a release is written next to its policy."""
    here, copy = Path("pipelines"), Path("privpipe-demo")
    if here.is_dir() or not INSTALLED.is_dir():
        return here
    shutil.copytree(INSTALLED, copy, dirs_exist_ok=True)
    say(f"UCI Adult and two policies are in {copy}\n")
    return copy


def _provide_seed(policy: Policy) -> None:
    """A seed for this run alone, when the policy takes it from a variable that is not set."""
    variable = policy.seed.from_env if policy.seed is not None else None
    if variable is not None and not os.environ.get(variable):
        os.environ[variable] = secrets.token_hex(32)
        say(f"{variable} is not set: a seed was drawn for this demo")


def init(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="A file, or a folder of files; several tables, or a folder or database of them, are drafted together.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write here, with the schema for editors next to it, instead of stdout.",
            show_default=False,
        ),
    ] = None,
    purpose: Annotated[
        str, typer.Option("--purpose", metavar="WHO", help="Thresholds for internal, research or public use.")
    ] = "research",
    use: Annotated[
        list[str] | None,
        typer.Option("--use", metavar="TEXT", help="What the data is for; may be repeated.", show_default=False),
    ] = None,
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="Draft a policy that publishes tables of counts and sums, no records.")
    ] = False,
    ask: Annotated[bool, typer.Option("--ask", help="Ask the open questions on the terminal.")] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", min=1, help="CPU seconds for trying methods on a sample.")
    ] = 60,
    suggest: Annotated[
        bool,
        typer.Option("--suggest/--bare", help="Suggest hierarchies, a method and guarantees, or write only roles."),
    ] = True,
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", metavar="C", help="Between the fields of a CSV file; default: detected."),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAMES",
            help="Names for a CSV file without a header, in order, separated by commas.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="A table of a DuckDB or SQLite file.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file of --out.")] = False,
) -> None:
    """Draft a commented policy for a table.

    Guesses the role and type of each column by its name, its values and its relations to the others, tries on a
    sample which method keeps most, and shows why. The guesses are a start, not a decision: read every line. No value
    of the table is printed, but words of known scales. Of several tables it also guesses keys and relations, by names
    and by values that one table has of another, and drafts what they must meet together.
    """
    from privpipe.drafting.column_profiles import profile_table
    from privpipe.drafting.draft import SCHEMA_FILE, Asked
    from privpipe.drafting.guarantees import purpose_of
    from privpipe.drafting.initial_policy import Drafter
    from privpipe.drafting.related_tables import RelatedDraft, several_tables
    from privpipe.policy.schema import json_schema

    if out is not None and out.exists() and not force:
        raise UsageError(f"{str(out)!r} exists already; --force overwrites it")
    if ask and not sys.stdin.isatty():
        raise UsageError("--ask needs a terminal; without it init uses the defaults")
    home = Path(os.path.abspath(out)).parent if out is not None else Path.cwd()
    asked = Asked(suggest=suggest, purpose=purpose_of(purpose), uses=tuple(use or ()))
    names = [name.strip() for name in columns.split(",")] if columns is not None else []
    related = several_tables(data) if table is None or len(data) > 1 else {}
    if related and (aggregate or ask or table or names or use or not suggest):
        raise UsageError(
            "--aggregate, --ask, --table, --columns, --use and --bare are for one table, but several are given"
            + ("; name one of the database by --table" if any(each.table for each in related.values()) else "")
        )
    drafter = Drafter(profile_table(data[0], delimiter, table, names), home, asked) if not related else None
    if ask and drafter is not None:
        drafter = drafter.answered({question.key: _answer(question) for question in drafter.questions()})
    missed: list[str] = []
    with progress() as tell:
        if drafter is None:
            place = Path(data[0]).resolve()
            stem = home.name if len(data) > 1 else place.name if place.is_dir() else place.stem
            draft = RelatedDraft.of(related, home, asked, name=stem, delimiter=delimiter)
            text = draft.text(seconds=seconds, tell=tell)
        elif aggregate:
            from privpipe.drafting.initial_policy import aggregate_policy

            tell("tables")
            text = aggregate_policy(drafter.table, home, drafter.asked)
        else:
            text = drafter.text(seconds=seconds, tell=tell, missed=missed.append)
    if drafter is not None and drafter.made_up:
        say("NO HEADER: column names are made up, and roles are guessed from names. Give all of them, in order:")
        say(f"next: `privpipe init {shlex.quote(data[0])} --columns age,sex,... --force`")
    for stages in missed:
        say(f"NOT TRIED within --seconds: {stages}")
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)
        if not (schema := out.with_name(SCHEMA_FILE)).exists():
            write_text(schema, as_json(json_schema()))
            say(f"WRITTEN: {schema}, with which an editor checks the policy")
        say(f"WRITTEN: {out}. Read it line by line: the roles are guesses.")
        say(f"next: `privpipe release {shlex.quote(str(out))} --dry-run` does everything except publishing")


def _answer(question: Question) -> str:
    """One line of the terminal, asked for again until it is an answer; an empty one is the default."""
    while True:
        print(escaped(f"{question.text} [{question.default}]: "), end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise UsageError("--ask: the terminal was closed before all questions were answered")
        if wrong := question.wrong(given := line.strip() or question.default):
            say(wrong)
        else:
            return given
