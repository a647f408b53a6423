"""``privpipe explore``: look at settings of a policy in a browser on this machine, and write one back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privpipe.cli.arguments import EngineOption, PolicyArgument, ProgressOption
from privpipe.cli.console import progress, put, say, warn_all
from privpipe.errors import EngineError, PrivpipeError

if TYPE_CHECKING:
    from privpipe.reporting.officer.languages import Language
    from privpipe.running.exploring import Explored, PolicyFile

__all__ = ["explore"]


def explore(
    policy: PolicyArgument,
    grid: Annotated[
        Path | None,
        typer.Option(
            "--grid",
            metavar="FILE",
            help="Places of the policy, each with a list of values, instead of levels of generalize.",
            show_default=False,
        ),
    ] = None,
    risk: Annotated[
        list[str] | None,
        typer.Option(
            "--risk", metavar="NAME", help="A measure that counts as risk, as of compare.", show_default=False
        ),
    ] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option(
            "--loss", metavar="NAME", help="A measure that counts as loss, as of compare.", show_default=False
        ),
    ] = None,
    settings: Annotated[
        int, typer.Option("--settings", min=2, max=50, metavar="N", help="Vectors of levels to try, at the most.")
    ] = 8,
    minutes: Annotated[
        float, typer.Option("--minutes", metavar="N", min=0.05, max=1440, help="End after so long without a request.")
    ] = 30,
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: one that is free.")] = 0,
    engine: EngineOption = None,
    lines: ProgressOption = False,
) -> None:
    """Look at settings of a policy in a browser, and choose one.

    Settings are staged and judged as by `privpipe compare`; nothing is published. The page is served on 127.0.0.1
    alone, at the address that is printed: whoever has the address may read the page and choose. It shows settings with
    guarantees, risk and loss, what the search saw, and each column before and after, no count below the reporting
    threshold. The button of a setting writes it into the policy file, where comments stay, and ends the command;
    Ctrl-C ends it too.
    """
    from privpipe.cli.loopback import Loopback
    from privpipe.reporting.explorer.page import explorer_page
    from privpipe.running.exploring import PolicyFile
    from privpipe.running.exploring import explore as tried
    from privpipe.running.grid import read_grid

    file = PolicyFile.read(policy)
    rules = file.policy()
    warn_all(rules.warnings)
    places = None if grid is None else read_grid(grid)
    with progress(lines=lines) as tell:
        found = tried(rules, places, risk=risk or [], loss=loss or [], most=settings, engine=engine, progress=tell)
    chooser = _Chooser(file, found, rules.report.lang)
    try:
        server = Loopback(explorer_page(found.data, rules.report.lang), chooser, port)
    except OSError as error:
        raise EngineError(
            f"port {port} of 127.0.0.1 cannot be listened on: {error.strerror}; leave --port out"
        ) from None
    with server:
        put(server.address)
        sys.stdout.flush()
        say(f"Serving this machine alone; ends after {minutes:g} minutes without a request, at a choice, or at Ctrl-C.")
        ending = server.serve(minutes)
    say(f"WRITTEN: {policy}" if ending == "chosen" else "ENDED: nobody asked any more; the policy is as it was.")


class _Chooser:
    """Writes the setting of a number into the policy file, and says what changed."""

    def __init__(self, file: PolicyFile, found: Explored, lang: Language) -> None:
        self.file, self.found, self.lang = file, found, lang

    def __call__(self, value: str) -> tuple[bool, str]:
        from privpipe.reporting.explorer.page import answer_page

        numbers = {str(each.number): each for each in self.found.data.settings if each.may_be_chosen}
        if value not in numbers:
            return False, answer_page("refused", "no setting of that number meets every guarantee", self.lang)
        try:
            changed = self._written(numbers[value].number - 1)
        except PrivpipeError as error:
            say(f"error: {error}")
            return False, answer_page("refused", str(error), self.lang)
        say(changed)
        return True, answer_page("written", changed, self.lang)

    def _written(self, at: int) -> str:
        from difflib import unified_diff

        self.file.require_unchanged()
        content = self.file.with_setting(self.found.settings[at])
        self.file.write(content)
        name = self.file.path.name
        before, after = (text.decode("utf-8-sig").splitlines() for text in (self.file.content, content))
        return (
            "\n".join(unified_diff(before, after, name, name, lineterm="", n=1)) or f"{name} has this setting already"
        )
