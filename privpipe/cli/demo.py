"""``privpipe demo``: one release of real data that is published, and one that is refused."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privpipe.cli.arguments import EngineOption, loaded
from privpipe.cli.console import say
from privpipe.cli.release import released
from privpipe.errors import Refused, UsageError

if TYPE_CHECKING:
    from privpipe.policy import Policy

__all__ = ["demo"]

INSTALLED = Path(__file__).parents[1] / "pipelines"
"""What the wheel brings of the project's pipelines; absent in a clone."""
EXPECTED = {"adult": 0, "refused": Refused.exit_code}


def demo(
    pipelines: Annotated[
        Path | None,
        typer.Option(
            "--pipelines",
            metavar="DIR",
            envvar="PRIVPIPE_PIPELINES",
            help="The project's pipelines folder; left out: `pipelines` here, else a copy of what is installed.",
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
