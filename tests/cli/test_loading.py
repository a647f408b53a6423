"""A command spares searches for cycles among what it loads; the library leaves the collector of its host alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.tiers import deep_beyond

RUN = (
    "import contextlib, sys; sys.argv = ['privpipe', '--version']; from privpipe.cli import main\n"
    "with contextlib.suppress(SystemExit): main()"
)
SEARCHES = "import gc; count = lambda: sum(each['collections'] for each in gc.get_stats()[2:]); before = count(); "


def said(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.deep
def test_a_command_is_loaded_without_long_searches() -> None:
    assert said(f"{SEARCHES}import privpipe.cli; print(count() - before)") == "0"


def test_a_command_that_runs_searches_seldom() -> None:
    code = f"{SEARCHES}import sys, atexit; atexit.register(lambda: print(count() - before)); "
    assert said(f"{code}sys.argv = ['privpipe', 'schema']; from privpipe.cli import main; main()").endswith("\n0")


def test_a_process_that_goes_on_still_searches() -> None:
    """Sessions and their rows hang in cycles: a server that never searched would keep them all."""
    code = f"{SEARCHES}from privpipe.cli.collector import seldom\nwith seldom():\n"
    made = "    for _ in range(5 * 10**6):\n        each = []\n        each.append(each)\n"
    assert int(said(f"{code}{made}    print(count() - before)")) > 0


@pytest.mark.parametrize("use", deep_beyond(1, (RUN, "import privpipe", "import privpipe.cli")))
def test_the_collector_of_the_host_is_left_alone(use: str) -> None:
    """Also where a command runs within another program."""
    code = f"import gc; before = gc.get_threshold(); {use}\n"
    assert said(f"{code}print(gc.get_threshold() == before, gc.isenabled(), gc.get_freeze_count())").endswith(
        "True True 0"
    )


@pytest.mark.deep
def test_nothing_is_searched_when_a_command_ends() -> None:
    code = "import atexit, gc, sys; atexit.register(lambda: print(gc.get_freeze_count() > 10_000)); "
    assert said(f"{code}sys.argv = ['privpipe', '--version']; from privpipe.cli import main; main()").endswith("True")
