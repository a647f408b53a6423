"""Kernels are compiled when they are needed, from whatever place, and small inputs do without."""

from __future__ import annotations

import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import privpipe
from privpipe.compiled import load
from privpipe.kernels.classes import cells, distance

CHECK = """
import sys
import pandas as pd
import privpipe as pp
from privpipe.models import DistinctLDiversity, KAnonymity, TCloseness
frame = pd.DataFrame({"zip": ["1", "1", "2", "2"] * 250, "illness": ["a", "b", "b", "a"] * 250})
entries = [KAnonymity(k=2), DistinctLDiversity(column="illness", l=2), TCloseness(column="illness", t=0.5)]
print([verdict.observed for verdict in pp.assess(frame, entries, quasi_identifiers=["zip"]).verdicts])
"""
WANTED = "[500, 2, 0.0]"


def run(code: str, path: Path | None = None, **environment: str) -> list[str]:
    import os

    search = {"PYTHONPATH": str(path)} if path else {}
    command, whole = [sys.executable, "-c", code], {**os.environ, **search, **environment}
    place = path.parent if path else None
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=whole, cwd=place)
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout.splitlines()


def test_a_check_of_few_records_loads_no_compiler() -> None:
    assert run(CHECK + "print('numba' in sys.modules)") == [WANTED, "False"]


def test_plain_and_compiled_kernels_give_the_same_bits() -> None:
    rng = np.random.default_rng(4)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 5, 300))])
    codes = np.concatenate([np.sort(rng.choice(9, size, replace=False)) for size in np.diff(offsets)])
    counts = rng.integers(1, 50, len(codes))
    share = rng.dirichlet(np.ones(9))
    code = (
        "import sys, pickle, numpy as np\n"
        "from privpipe.kernels.classes import distance\n"
        "given = pickle.loads(bytes.fromhex(sys.stdin.read()))\n"
        "print(distance.emd_equal_by_class(*given).tobytes().hex(), 'numba' in sys.modules)"
    )
    text = pickle.dumps((offsets, codes, counts, share)).hex()
    found = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, timeout=120, check=True
    )

    load()
    wanted = distance.emd_equal_by_class(offsets, codes, counts, share).tobytes().hex()
    assert found.stdout.split() == [wanted, "False"]


def test_characters_are_counted_the_same_way_without_the_compiler() -> None:
    texts = ["bbba", "áé€a", "\U0001f600z\U0001f600"]
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(text.encode()) for text in texts])])
    code = (
        "import sys, pickle, numpy as np\n"
        "from privpipe.kernels.classes import cells\n"
        "found = cells.count_characters(*pickle.loads(bytes.fromhex(sys.stdin.read())), 2000000)\n"
        "print(pickle.dumps([np.asarray(each).tolist() for each in found]).hex(), 'numba' in sys.modules)"
    )
    plain = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps((offsets, data)).hex(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout.split()

    load()
    wanted = [np.asarray(each).tolist() for each in cells.count_characters(offsets, data, 2000000)]
    assert pickle.loads(bytes.fromhex(plain[0])) == wanted
    assert plain[1] == "False"


def test_kernels_run_from_an_archive_and_without_a_place_to_write_to(tmp_path: Path) -> None:
    package = Path(privpipe.__file__).parent
    archive = tmp_path / "privpipe.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in package.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, path.relative_to(package.parent))
    code = (
        "import numpy as np\n"
        "from privpipe.kernels.grouping.sorting import sort_integers\n"
        "import privpipe\n"
        "sort_integers(np.array([3, 1]), np.int64(1))\n"
        "print('privpipe.zip' in privpipe.__file__)"
    )
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    found = run(code + CHECK, archive, HOME=str(home), XDG_CACHE_HOME=str(home / "none"))
    assert found[0].startswith("True")
    assert found[1] == WANTED


def test_a_kernel_travels_by_its_name() -> None:
    for kernel in (distance._emd_equal, cells.count_characters):
        assert pickle.loads(pickle.dumps(kernel)) is not None


@pytest.mark.parametrize("fresh", [True, False])
def test_a_large_input_is_compiled_and_gives_the_same(tmp_path: Path, fresh: bool) -> None:
    code = CHECK.replace("* 250", "* 25000") + "print('numba' in sys.modules)"
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)} if fresh else {}
    assert run(code, **environment)[0] == WANTED.replace("500", "50000")
