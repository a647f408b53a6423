"""Kernels are compiled when they are needed, from whatever place, and small inputs do without."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest

import privpipe
from privpipe import compiled
from privpipe.compiled import KeptCode, load
from privpipe.kernels.classes import cells, distance
from tests.tiers import deep

CHECK = """
import sys
import types
import pandas as pd
import privpipe as pp
from privpipe.models import DistinctLDiversity, KAnonymity, TCloseness
frame = pd.DataFrame({"zip": ["1", "1", "2", "2"] * 250, "illness": ["a", "b", "b", "a"] * 250})
entries = [KAnonymity(k=2), DistinctLDiversity(column="illness", l=2), TCloseness(column="illness", t=0.5)]
print([verdict.observed for verdict in pp.assess(frame, entries, quasi_identifiers=["zip"]).verdicts])
"""
WANTED = "[500, 2, 0.0]"


def run(code: str, path: Path | None = None, **environment: str) -> list[str]:
    search = {"PYTHONPATH": str(path)} if path else {}
    command, whole = [sys.executable, "-c", code], {**os.environ, **search, **environment}
    place = path.parent if path else None
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=whole, cwd=place)
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout.splitlines()


def test_a_check_of_few_records_loads_no_compiler() -> None:
    loaded = "print(sorted({'numba', 'scipy', 'privpipe.policy.tables', 'privpipe.tables.table'} & set(sys.modules)))"
    assert run(CHECK + loaded) == [WANTED, "[]"]


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


def test_cells_are_added_up_the_same_way_without_the_compiler() -> None:
    given = np.array([0, 3, 4, 40]), np.arange(40) * 7 % 5, np.arange(40) + 1
    code = (
        "import sys, pickle, numpy as np\n"
        "from privpipe.kernels.classes import cells\n"
        "found = cells.marginal_cells(*pickle.loads(bytes.fromhex(sys.stdin.read())))\n"
        "print(pickle.dumps([np.asarray(each).tolist() for each in found]).hex(), 'numba' in sys.modules)"
    )
    plain = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(given).hex(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout.split()

    load()
    wanted = [np.asarray(each).tolist() for each in cells.marginal_cells(*given)]
    assert pickle.loads(bytes.fromhex(plain[0])) == wanted
    assert plain[1] == "False"


@pytest.mark.deep
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
    for kernel in (distance._emd_equal, cells.marginal_cells):
        assert pickle.loads(pickle.dumps(kernel)) is not None


@pytest.mark.parametrize("fresh", [deep(True), False])
def test_a_large_input_is_compiled_and_gives_the_same(tmp_path: Path, fresh: bool) -> None:
    code = CHECK.replace("* 250", "* 25000") + "print('numba' in sys.modules)"
    environment = {"PRIVPIPE_KERNELS": str(tmp_path)} if fresh else {}
    assert run(code, **environment)[0] == WANTED.replace("500", "50000")


BITS = """
import sys, hashlib, math
import numpy as np, pyarrow as pa
from privpipe.blocks import RowBlock
from privpipe.compiled import load
from privpipe.draws import Seed, Stream
from privpipe.kernels.grouping.word_groups import group_rows
from privpipe.kernels.ids.record_ids import content_hash, ordinals, record_id
from privpipe.kernels.ids.value_draws import value_normals, value_uniforms, value_words
from privpipe.kernels.exact_sums import measure_sums
from privpipe.kernels.lattice.node_classes import numbered

if sys.argv[1] == "compiled":
    load()
rng = np.random.default_rng(3)
n = 700
texts = [None, "", "a", "seven b", "eight by", "nine byte", "x" * 16, "ünï" * 9, "seventeen bytes!!"]
decimals = [None, *range(-3, 9)]
import decimal
rows = pa.record_batch({
    "t": pa.array([texts[at] for at in rng.integers(0, len(texts), n)]),
    "f": pa.array([[None, math.inf, -0.0, 1e308, 5e-324, -2.5][at] for at in rng.integers(0, 6, n)], pa.float64()),
    "i": pa.array(rng.integers(-(2**62), 2**62, n)),
    "b": pa.array(rng.random(n) < 0.5, mask=rng.random(n) < 0.1),
    "d": pa.array([None if at % 7 == 0 else decimal.Decimal(int(at)) / 100 for at in range(n)], pa.decimal128(20, 2)),
    "z": pa.nulls(n),
})
seed, stream = Seed.of(bytes(range(32))), Stream(bytes(range(16)))
words = content_hash(rows, seed)
ids = record_id(words, ordinals(words), seed)
block = RowBlock(rows, ids)
found = [words, ids, stream.words(ids, 3), stream.uniform(ids), stream.normal(ids), stream.integers(ids, 2**63 - 7),
         stream.counter(5, 100), value_words(stream, block, ["t", "f"], 2), value_uniforms(stream, block, ["d"]),
         value_normals(stream, block, ["i", "z"])]
groups, firsts = group_rows(words[:, :1] % 50)
found.append(firsts[groups])
sums = measure_sums([rng.lognormal(0, 30, n), np.where(rng.random(n) < 0.1, np.inf, rng.normal(size=n)),
                     rng.integers(-(2**62), 2**62, n)], [rng.random(n) < 0.1, None, rng.random(n) < 0.2])
codes = [rng.integers(0, 40, n).astype(np.uint16) for _ in range(5)]
found += numbered(codes, [np.arange(40)] * 5, [40] * 5, rng.integers(1, 9, n))
for each in found:
    print(hashlib.sha256(np.ascontiguousarray(each).tobytes()).hexdigest())
print(repr(sums))
print("numba" in sys.modules)
"""


def test_whole_columns_and_compiled_loops_give_the_same_bits(tmp_path: Path) -> None:
    script = tmp_path / "bits.py"
    script.write_text(BITS, encoding="utf-8")
    said = []
    for way in ("plain", "compiled"):
        command = [sys.executable, "-W", "error", str(script), way]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        said.append(done.stdout.splitlines())
    assert [each.pop() for each in said] == ["False", "True"]
    assert said[0] == said[1]


def test_a_small_release_and_noise_load_no_compiler() -> None:
    code = """
import sys
import types
import numpy as np, pandas as pd, privpipe as pp
from privpipe.models import KAnonymity
from privpipe.transforms import AddNoise, Generalize, Sample, TopCode
rng = np.random.default_rng(1)
pay = rng.normal(size=500)
frame = pd.DataFrame({"age": rng.integers(20, 60, 500), "zip": rng.choice(["081", "171"], 500), "pay": pay})
policy = pp.Policy(
    roles=pp.Roles(quasi_identifiers=["age", "zip"], insensitive=["pay"]),
    hierarchies={"age": {"intervals": {"start": 0, "widths": [10, 20, 40]}}, "zip": {"redact": {"keep": "left"}}},
    transform=[Sample(fraction=0.9), TopCode(columns=["pay"], quantile=0.95),
               AddNoise(columns=["pay"], variance_ratio=0.1), Generalize(search="optimal", suppress_at_most=0.05)],
    guarantees=[KAnonymity(k=5)], seed="7e680bd0703b052244008bac17dacba2457b75f36e829951356a47727bf31a6a",
)
print(len(policy.apply(frame)) > 400, "numba" in sys.modules)
"""
    assert run(code) == ["True False"]


def test_many_small_calls_are_worth_the_compiler() -> None:
    code = "import sys\nfrom privpipe.draws import Stream\nimport numpy as np\nids = np.zeros((5000, 2), np.int64)\n"
    code += "for at in range(400):\n    Stream(bytes(16)).words(ids, at)\nprint('numba' in sys.modules)"
    assert run(code) == ["True"]


CALL = """
import numpy as np
from privpipe.compiled import load
from privpipe.kernels.classes import distance
load()
given = np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([3, 1, 2]), np.array([0.5, 0.5])
print(distance.emd_equal_by_class(*given).round(6).tolist())
stats = distance._emd_equal.compiled.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def copy_of_the_package(folder: Path) -> Path:
    shutil.copytree(Path(privpipe.__file__).parent, folder / "privpipe", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.deep
def test_kernels_compiled_under_one_path_are_found_under_another(tmp_path: Path) -> None:
    made = tmp_path / "made"
    figures, counts = run(CALL, PRIVPIPE_KERNELS=str(made), NUMBA_CPU_NAME="generic")
    assert counts == "0 1"
    brought = {file.relative_to(made): file.read_bytes() for file in made.rglob("*.nbc")}
    assert brought
    copied, moved = copy_of_the_package(tmp_path / "copy"), tmp_path / "moved"
    shutil.copytree(made, moved)
    for place in (moved, *moved.rglob("*")):
        place.chmod(place.stat().st_mode & ~0o222)
    both = f"{moved}:{tmp_path / 'kept'}"
    assert run(CALL, copied, PRIVPIPE_KERNELS=both) == [figures, "1 0"], "code for any processor serves this one"
    shutil.copytree(made, copied / "privpipe" / "machine_code")
    brought_along = run(CALL, copied, PRIVPIPE_KERNELS=str(tmp_path / "kept"))
    assert brought_along == [figures, "1 0"], "and so does code that a wheel brings"
    assert not (tmp_path / "kept").exists()
    assert {file.relative_to(moved): file.read_bytes() for file in moved.rglob("*.nbc")} == brought


@pytest.mark.deep
def test_what_cannot_be_kept_is_compiled_with_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code = "import warnings\nwarnings.simplefilter('always')\n" + CALL
    command = [sys.executable, "-c", code]
    place = {**os.environ, "PRIVPIPE_KERNELS": str(tmp_path / "file")}
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=place)
    assert found.stdout.startswith("[0.25, 0.5]")
    assert found.stderr.count("compiled kernels cannot be kept in") == 1
    assert "privpipe warm FOLDER" in found.stderr


@pytest.mark.deep
def test_kernels_run_as_python_where_numba_is_told_so() -> None:
    code = (
        "import numpy as np\n"
        "from privpipe.compiled import load; load()\n"
        "from privpipe.kernels.classes.cells import top_share_by_class\n"
        "print(top_share_by_class(np.array([0, 2, 3]), np.array([1, 3, 5]), np.array([4, 5])).tolist())"
    )
    assert run(code, NUMBA_DISABLE_JIT="1") == run(code) == ["[0.75, 1.0]"]


def folder_in(place: Path) -> Path:
    (found,) = place.iterdir()
    return found


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled._written(tmp_path, "f.nbc", pickle.dumps(("code",)))
    file = folder_in(tmp_path) / "f.nbc"
    assert compiled._read(file) == ("code",)
    assert [each.name for each in file.parent.iterdir()] == ["f.nbc"]
    whole = file.read_bytes()
    for damaged in (b"", whole[:-3], whole[:31], whole[:-1] + b"x", b"x" + whole[1:]):
        file.write_bytes(damaged)
        assert compiled._read(file) is None

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert not compiled._written(tmp_path, "g.nbc", b"code")
    assert [each.name for each in file.parent.iterdir()] == ["f.nbc"]


def test_the_latest_sources_stay_and_nothing_else_is_removed(tmp_path: Path) -> None:
    for at in range(7):
        old = tmp_path / f"{at:020x}-numba1-cpython-311"
        old.mkdir()
        os.utime(old, (at, at))
    (tmp_path / "other").mkdir()
    compiled._written(tmp_path, "f.nbc", b"code")
    kept = sorted(each.name[:20] for each in tmp_path.iterdir())
    assert kept == sorted(["other", compiled.sources()[:20], *(f"{at:020x}" for at in (4, 5, 6))])


@pytest.mark.parametrize("gone", ["module", "class"])
def test_code_that_names_what_another_release_had_is_none(tmp_path: Path, gone: str) -> None:
    here = types.ModuleType("a_module_of_another_release")
    here.Key = type("Key", (), {"__module__": here.__name__})  # type: ignore[attr-defined]
    file = tmp_path / "f.nbc"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, here.__name__, here)
        file.write_bytes(compiled._sealed(pickle.dumps(here.Key)))  # type: ignore[attr-defined]
        assert compiled._read(file) is here.Key  # type: ignore[attr-defined]
        if gone == "class":
            del here.Key  # type: ignore[attr-defined]
            assert compiled._read(file) is None
    assert compiled._read(file) is None


def test_names_differ_by_kernel_types_and_processor() -> None:
    names = {
        KeptCode(kernel.__wrapped__)._file(signature, processor)
        for kernel in (distance._emd_equal, cells.marginal_cells)
        for signature in ("(int64)", "(float64)")
        for processor in (("x86", "generic", ""), ("x86", "new", "+avx"))
    }
    assert len(names) == 8
    assert KeptCode(cells.marginal_cells.__wrapped__)._file("<f at 0x7f>", ()) == "", (
        "another process has another place"
    )


@pytest.mark.deep
def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(tmp_path: Path) -> None:
    copied = copy_of_the_package(tmp_path / "copy")
    cache, draw = (
        tmp_path / "cache",
        (
            "import numpy as np\n"
            "from privpipe.compiled import load; load()\n"
            "from privpipe.kernels.ids.record_ids import record_id\n"
            "from privpipe.draws import Seed\n"
            "print(record_id(np.array([[1, 2]]), np.array([0]), Seed.insecure(1)).tolist())"
        ),
    )
    before = run(draw, copied, PRIVPIPE_KERNELS=str(cache))
    assert run(draw, copied, PRIVPIPE_KERNELS=str(cache)) == before
    called = copied / "privpipe" / "draws" / "siphash.py"
    called.write_text(
        called.read_text().replace("v2 ^ U(0xEE)", "v2 ^ U(0xEF)").replace("U(0xEE) if long", "U(0xEF) if long")
    )
    assert run(draw, copied, PRIVPIPE_KERNELS=str(cache)) != before


SORTING = """
import numpy as np
from privpipe.compiled import njit

@njit(cache=True)
def ordered(values):
    return np.argsort(values)

@njit(cache=True)
def in_order(values):
    return np.sort(values)
"""
SORTED = """
import sys
import types
import numpy as np
from privpipe.compiled import load
load()
from numba.core.bytecode import FunctionIdentity
sys.path.append(FOLDER)
import sorting
for _ in range(PASSED):
    next(FunctionIdentity._unique_ids)
values = np.random.default_rng(0).integers(0, 10**12, 1000)
for name in KERNELS:
    found = getattr(sorting, name)(values)
    print(np.array_equal(np.sort(values), values[found] if name == "ordered" else found))
"""


def in_a_process_of_its_own(folder: Path, cache: str, kernels: str, passed: int = 0) -> list[str]:
    """Call kernels that sort integers, after so many numbers of functions were given away."""
    (folder / "sorting.py").write_text(SORTING, encoding="utf-8")
    code = f"KERNELS, PASSED, FOLDER = {kernels.split()!r}, {passed}, {str(folder)!r}\n" + SORTED
    return run(code, PRIVPIPE_KERNELS=str(folder / cache))


@pytest.mark.deep
@pytest.mark.parametrize("passed", [(0, 3), (3, 0)])
def test_kernels_that_two_processes_compiled_call_their_own_functions(tmp_path: Path, passed: tuple[int, int]) -> None:
    """numba counts functions: three apart, what sorts values had the name of what sorts their places."""
    for kernel, given_away in zip(("ordered", "in_order"), passed, strict=True):
        assert in_a_process_of_its_own(tmp_path, "kept", kernel, given_away) == ["True"]
    for both in ("ordered in_order", "in_order ordered"):
        assert in_a_process_of_its_own(tmp_path, "kept", both) == ["True", "True"]


@pytest.mark.deep
def test_no_two_processes_give_a_function_one_name(tmp_path: Path) -> None:
    names = []
    for cache in ("one", "other"):
        in_a_process_of_its_own(tmp_path, cache, "ordered")
        code = b"".join(file.read_bytes() for file in (tmp_path / cache).rglob("*.nbc"))
        names.append({name.decode() for name in re.findall(rb"_ZN[A-Za-z0-9_]+B[0-9]+v[0-9]+", code)})
    assert len(names[0]) == len(names[1]) > 2
    assert not names[0] & names[1]


@pytest.mark.deep
def test_processes_that_forked_give_no_function_one_name() -> None:
    code = """
import os
from privpipe.compiled import load
from privpipe.kernels.classes import cells
load()
from numba.core.bytecode import FunctionIdentity
there, here = os.pipe()
if not os.fork():
    os.write(here, repr([next(FunctionIdentity._unique_ids) for _ in range(20)]).encode())
    os._exit(0)
os.wait()
given = {*eval(os.read(there, 10000)), *(next(FunctionIdentity._unique_ids) for _ in range(20))}
print(len(given))
"""
    assert run(code) == ["40"]


@pytest.mark.deep
def test_nothing_is_kept_where_names_are_counted_all_the_same(tmp_path: Path) -> None:
    counted = """
import itertools
from numba.core.bytecode import FunctionIdentity
made, numbers = FunctionIdentity.from_function.__func__, itertools.count(1)
def from_function(cls, function):
    found = made(cls, function)
    found.unique_id = next(numbers)
    return found
FunctionIdentity.from_function = classmethod(from_function)
"""
    assert run(counted + CALL, PRIVPIPE_KERNELS=str(tmp_path))[0] == "[0.25, 0.5]"
    assert not list(tmp_path.rglob("*.nbc"))


COLUMNS = """
import numpy as np
from privpipe.compiled import njit
seen = []
def whole(values):
    seen.append(len(values))
    return values + 1
@njit(small=10, plain=whole, nogil=True, cache=True)
def added(values):
    out = np.empty_like(values)
    for i in range(len(values)):
        out[i] = values[i] + 1
    return out
@njit(nogil=True, cache=True)
def doubled(values):
    return added(values) * 2
"""


def by_columns(folder: Path, steps: str) -> list[str]:
    """What a process prints that calls a kernel which also goes by whole columns."""
    (folder / "columns.py").write_text(COLUMNS, encoding="utf-8")
    head = (
        f"import sys\nsys.path.append({str(folder)!r})\nimport numpy as np\nfrom privpipe import compiled\n"
        "import columns\nfrom columns import added, doubled, seen\nvalues = np.arange(1000)\n"
    )
    return run(head + steps, PRIVPIPE_KERNELS=str(folder / "kept"))


def test_whole_columns_are_taken_until_compiling_is_worth_it(tmp_path: Path) -> None:
    steps = (
        "compiled.load(at_once=False)\n"
        "print(added(values).tolist() == list(range(1, 1001)), seen)\n"
        "compiled.LESS_THAN_COMPILING = 0\n"
        "print(added(values).tolist() == list(range(1, 1001)), seen)\n"
        "compiled.LESS_THAN_COMPILING = 9\n"
        "print(added(values).sum(), seen)"
    )
    assert by_columns(tmp_path, steps) == ["True [1000]", "True [1000]", "500500 [1000]"]
    assert by_columns(tmp_path, "compiled.load(at_once=False)\nprint(added(values).sum(), seen)") == ["500500 []"]


def test_many_rows_at_once_are_compiled(tmp_path: Path) -> None:
    """Columns of millions of rows would take as much memory again for each step of numpy."""
    steps = "compiled.load(at_once=False)\nprint(len(added(np.arange(compiled.ENOUGH + 1))), seen)"
    assert by_columns(tmp_path, steps) == [f"{compiled.ENOUGH + 1} []"]


def test_compiled_code_calls_a_kernel_that_waits(tmp_path: Path) -> None:
    steps = "print(doubled(values).sum(), seen)\nprint(added(values).sum(), seen)"
    assert by_columns(tmp_path, steps) == ["1001000 []", "500500 [1000]"]


def test_nothing_waits_once_all_is_loaded(tmp_path: Path) -> None:
    assert by_columns(tmp_path, "compiled.load()\nprint(added(values).sum(), seen)") == ["500500 []"]
    later = tmp_path / "later"
    later.mkdir()
    steps = "compiled.load(at_once=False)\nadded(values)\ncompiled.load()\nprint(added(values).sum(), seen)"
    assert by_columns(later, steps) == ["500500 [1000]"]
