"""The images, read without Docker: pinned, not root, nothing left behind, every source there."""

from __future__ import annotations

import fnmatch
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DOCKER = PROJECT / "docker"
FILES = sorted(DOCKER.glob("Dockerfile*"), key=lambda file: file.name)


@dataclass(frozen=True)
class Instruction:
    """One instruction: name, flags (`--from=build`), the rest; `stage` counts FROM lines from 0."""

    stage: int
    name: str
    flags: dict[str, str]
    rest: str

    @property
    def words(self) -> list[str]:
        """The arguments: of the JSON form when it is one, else split at blanks."""
        words: list[str] = json.loads(self.rest) if self.rest.startswith("[") else self.rest.split()
        return words


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile, in order.

    Examples
    --------
    >>> [(i.stage, i.name, i.words) for i in instructions("FROM a:1 AS b\\nRUN x \\\\\\n  && y")]
    [(0, 'FROM', ['a:1', 'AS', 'b']), (0, 'RUN', ['x', '&&', 'y'])]
    """
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found: list[Instruction] = []
    stage = -1
    for line in re.sub(r"\\\n", " ", lines).splitlines():
        if not line.strip():
            continue
        name, _, rest = line.strip().partition(" ")
        stage += name.upper() == "FROM"
        flags = {}
        while match := re.match(r"--(\w+)=(\S+)\s+", rest.strip()):
            flags[match[1]] = match[2]
            rest = rest.strip()[match.end() :]
        found.append(Instruction(stage, name.upper(), flags, " ".join(rest.split())))
    return found


def left_out(path: str, ignore: str) -> bool:
    """Whether a `.dockerignore` keeps a path out of the build context: the last pattern that matches decides.

    Examples
    --------
    >>> left_out("docs/a.md", "*"), left_out("privpipe/cli/x.py", "*\\n!privpipe"), left_out("a/b.pyc", "**/*.pyc")
    (True, False, True)
    """
    places = [path, *(str(parent) for parent in Path(path).parents if str(parent) != ".")]
    out = False
    for pattern in filter(None, (line.strip() for line in ignore.splitlines())):
        bare = pattern.removeprefix("!").removeprefix("**/")
        names = [*places, *(Path(place).name for place in places if "**/" in pattern)]
        if not pattern.startswith("#") and any(fnmatch.fnmatch(name, bare) for name in names):
            out = not pattern.startswith("!")
    return out


@pytest.fixture(params=FILES, ids=lambda file: file.name)
def steps(request: pytest.FixtureRequest) -> list[Instruction]:
    return instructions(request.param.read_text(encoding="utf-8"))


def last_stage(steps: list[Instruction]) -> list[Instruction]:
    return [step for step in steps if step.stage == steps[-1].stage]


def test_there_is_an_image_for_the_command_line_and_one_for_spark() -> None:
    assert [file.name for file in FILES] == ["Dockerfile", "Dockerfile.spark"]


def test_base_images_are_pinned_by_digest(steps: list[Instruction]) -> None:
    for image in (step.words[0] for step in steps if step.name == "FROM"):
        assert re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*@sha256:[0-9a-f]{64}", image), image


def test_nothing_runs_as_root(steps: list[Instruction]) -> None:
    users = [step.rest for step in last_stage(steps) if step.name == "USER"]
    assert users
    assert users[-1] not in {"root", "0"}
    after = [step.name for step in last_stage(steps)]
    assert "RUN" not in after[after.index("USER") :]
    created = [step.rest for step in last_stage(steps) if "useradd" in step.rest]
    assert any(f"--uid {users[-1]} " in rest for rest in created)


def test_every_stage_of_every_image_has_the_same_base() -> None:
    texts = [file.read_text(encoding="utf-8") for file in FILES]
    assert len({step.words[0] for text in texts for step in instructions(text) if step.name == "FROM"}) == 1


def test_kernels_come_compiled_for_the_processor_that_runs_them(steps: list[Instruction]) -> None:
    settings = dict(
        word.split("=", 1) for step in last_stage(steps) if step.name == "ENV" for word in step.words if "=" in word
    )
    script = (DOCKER / "steps.sh").read_text(encoding="utf-8")
    assert settings["NUMBA_CPU_NAME"] == re.findall(r"^readonly cpu=(\w+)$", script, re.MULTILINE)[0]
    brought, kept = settings["PRIVPIPE_KERNELS"].split(":")
    assert brought == "/opt/privpipe/kernels"
    assert kept.startswith("/tmp/")
    built = [step.rest for step in steps if step.name == "RUN" and step.stage == 0]
    assert "bash docker/steps.sh kernels /opt/privpipe" in built
    assert any(re.fullmatch(r'bash docker/steps\.sh sbom /opt/privpipe ("\$\{KIND\}"|spark)', step) for step in built)


def test_nothing_is_fetched_by_add(steps: list[Instruction]) -> None:
    assert not [step for step in steps if step.name == "ADD"]


def test_every_copied_source_is_in_the_build_context(steps: list[Instruction]) -> None:
    ignore = (PROJECT / ".dockerignore").read_text(encoding="utf-8")
    stages = {step.words[2] for step in steps if step.name == "FROM" and len(step.words) == 3}
    for step in (step for step in steps if step.name == "COPY"):
        if "from" in step.flags:
            assert step.flags["from"] in stages
            continue
        for source in step.words[:-1]:
            assert (PROJECT / source).exists(), source
            assert not left_out(source, ignore), source


def test_the_build_context_holds_no_history_no_data_and_no_release() -> None:
    ignore = (PROJECT / ".dockerignore").read_text(encoding="utf-8")
    for path in (".git/config", ".venv/bin/python", "pipelines/adult/published/adult", "tests/conftest.py"):
        assert left_out(path, ignore), path


def test_package_lists_go_in_the_step_that_fetched_them(steps: list[Instruction]) -> None:
    for step in steps:
        if step.name == "RUN" and re.search(r"apt-get|steps\.sh java", step.rest):
            assert "rm -rf /var/lib/apt/lists/*" in step.rest


def test_the_last_stage_installs_nothing_with_pip_and_knows_no_index(steps: list[Instruction]) -> None:
    text = "\n".join(f"{step.name} {step.rest}" for step in last_stage(steps))
    assert "pip" not in text.replace("privpipe", "")
    assert not [step for step in last_stage(steps) if step.name == "ARG"]
    assert not re.search(r"PASSWORD|TOKEN|SECRET|SEED", text)


def test_the_images_run_the_steps_that_the_tests_run(steps: list[Instruction]) -> None:
    script = (DOCKER / "steps.sh").read_text(encoding="utf-8")
    defaults = dict(step.rest.split("=", 1) for step in steps if step.name == "ARG" and "=" in step.rest)
    runs = [step.rest for step in steps if step.name == "RUN"]
    calls = [call for run in runs for call in re.findall(r'steps\.sh ("?\$?\{?\w+\}?"?)', run)]
    assert calls
    for call in calls:
        name = call.strip('"${}')
        assert re.search(rf"^    (\w+ \| )*{defaults.get(name, name)}( \| \w+)*\)", script, re.MULTILINE), call


def test_commands_are_in_exec_form_so_that_signals_arrive(steps: list[Instruction]) -> None:
    commands = [step for step in steps if step.name in {"CMD", "ENTRYPOINT"}]
    assert commands
    assert all(step.rest.startswith("[") for step in commands)
    assert commands[0].words[0] == "privpipe"


def test_spark_finds_its_home_in_the_interpreter_of_the_image() -> None:
    steps = instructions((DOCKER / "Dockerfile.spark").read_text(encoding="utf-8"))
    version = re.search(r"python:(\d+\.\d+)-", next(step.rest for step in steps if step.name == "FROM"))
    assert version
    settings = " ".join(step.rest for step in steps if step.name == "ENV")
    assert f"SPARK_HOME=/opt/privpipe/lib/python{version[1]}/site-packages/pyspark " in settings
    assert "PYSPARK_PYTHON=/opt/privpipe/bin/python " in settings
