"""A command spares searches for cycles among what it loads; the library leaves the collector of its host alone."""

from __future__ import annotations

import subprocess
import sys

SEARCHES = "import gc; count = lambda: sum(each['collections'] for each in gc.get_stats()[2:]); before = count(); "


def said(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_a_command_is_loaded_without_long_searches() -> None:
    assert said(f"{SEARCHES}import privpipe.cli, numba, pandas; print(count() - before)") == "0"


def test_the_library_leaves_the_collector_alone() -> None:
    code = "import gc; before = gc.get_threshold(); import privpipe; privpipe.Policy, privpipe.release; "
    assert said(f"{code}print(gc.get_threshold() == before, gc.isenabled(), gc.get_freeze_count())") == "True True 0"


def test_nothing_is_searched_when_a_command_ends() -> None:
    code = "import atexit, gc, sys; atexit.register(lambda: print(gc.get_freeze_count() > 10_000)); "
    assert said(f"{code}sys.argv = ['privpipe', '--version']; from privpipe.cli import main; main()").endswith("True")
