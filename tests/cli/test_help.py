"""`privpipe --help` is quick: nothing heavy is loaded before a command needs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

import privpipe
from tests.gathering import gathered
from tests.tiers import deep

HEAVY = {
    "dask",
    "duckdb",
    "great_expectations",
    "numba",
    "numpy",
    "pandas",
    "pulp",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "ruamel",
    "scipy",
}
PROBE = """
import json, sys
import privpipe, privpipe.cli
try:
    privpipe.cli.app(sys.argv[1:], prog_name="privpipe")
except SystemExit:
    pass
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""
COMMANDS = (
    "assess",
    "compare",
    "demo",
    "doctor",
    "explain",
    "explore",
    "hierarchy",
    "init",
    "plan",
    "plugins",
    "release",
    "report",
    "schema",
    "seed",
    "share",
    "transform",
    "validate",
    "warm",
)


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that call it."""
    from privpipe.cli import app

    for name, each in (group or typer.main.get_command(app)).commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, (*path, name))
        else:
            yield (*path, name), each


@pytest.mark.parametrize(
    "arguments", [["--help"], deep(["--version"]), ["release", "--help"], deep(["hierarchy", "--help"])]
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    # Typer itself loads pydantic for the parameters of a command.
    heavy = HEAVY - {"pydantic"} if len(arguments) > 1 else HEAVY
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    assert not heavy & set(json.loads(done.stderr))
    assert done.stdout


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "privpipe", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == f"privpipe {privpipe.__version__}"


def test_help_lists_every_command_and_exit_code(run: Any) -> None:
    done = run("--help")
    assert done.exit_code == 0
    listed = {line.split()[0] for line in done.stdout.partition("Commands:")[2].splitlines() if line.strip()}
    assert set(COMMANDS) <= listed
    assert all(f"{code} " in done.stdout for code in range(8))


def test_every_command_explains_itself_in_one_line(run: Any) -> None:
    listed = run("--help").stdout.splitlines()
    with gathered() as case:
        for command in COMMANDS:
            with case(command):
                assert run(command, "--help").exit_code == 0
                [line] = [line for line in listed if line.strip().startswith(f"{command} ")]
                assert not line.endswith("...")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["release"],
        ["release", "a", "b"],
        ["release", "--nonsense"],
        ["transform", "a"],
        ["validate", "a"],
    ],
)
def test_wrong_arguments_end_with_2(run: Any, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("group", ["", "hierarchy", "ledger", "key", "share", "gx"])
def test_what_a_command_does_is_listed_in_whole(run: Any, group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = run(*filter(None, [group]), "--help").stdout.partition("Commands:")[2].partition("\n\n")[0]
    lines = [line for line in listed.splitlines() if line.strip()]
    assert lines
    assert [line for line in lines if line.endswith("...") or len(line) > 80] == []


def test_an_option_names_what_it_takes() -> None:
    with gathered() as case:
        for arguments, command in commands():
            with case(" ".join(arguments)):
                options = [each for each in command.params if each.param_type_name == "option" and not each.is_flag]
                assert [each.name for each in options if each.metavar is None] == []
                assert command.help
