"""The compose file, read without Docker: services, addresses, volumes and jobs fit together."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

PROJECT = Path(__file__).resolve().parents[2]
COMPOSE = PROJECT / "docker" / "compose.yaml"
CLUSTERS = {
    "spark-master": ("spark-worker-1", "spark-worker-2", "job"),
    "dask-scheduler": ("dask-worker-1", "dask-worker-2", "job-dask"),
}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe").load(COMPOSE)
    return document


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = compose["services"]
    return found


def port_of(service: dict[str, Any]) -> int:
    command = service["command"]
    return int(command[command.index("--port") + 1])


def test_two_clusters_of_two_workers_and_a_job_each(services: dict[str, Any]) -> None:
    assert set(services) == {name for head, others in CLUSTERS.items() for name in (head, *others)}


def test_images_are_built_from_files_that_exist(services: dict[str, Any]) -> None:
    for service in services.values():
        context = COMPOSE.parent / service["build"]["context"]
        assert (context / service["build"]["dockerfile"]).is_file()
        assert context.resolve() == PROJECT


def test_a_build_argument_is_known_to_its_dockerfile(services: dict[str, Any]) -> None:
    for service in services.values():
        text = (PROJECT / service["build"]["dockerfile"]).read_text(encoding="utf-8")
        for name in service["build"].get("args", {}):
            assert re.search(rf"^ARG {name}\b", text, re.MULTILINE)


@pytest.mark.parametrize(("head", "others"), CLUSTERS.items(), ids=CLUSTERS)
def test_everyone_waits_for_the_head_and_calls_it_where_it_listens(
    services: dict[str, Any], head: str, others: tuple[str, ...]
) -> None:
    port = port_of(services[head])
    assert services[head]["command"][services[head]["command"].index("--host") + 1] == head
    assert f"('{head}', {port})" in services[head]["healthcheck"]["test"][-1]
    for name in others:
        addresses = [a for word in services[name]["command"] for a in re.findall(r"\w+://([\w.-]+:\d+)", word)]
        assert addresses == [f"{head}:{port}"], name
        assert services[name]["depends_on"][head] == {"condition": "service_healthy"}


def test_a_job_waits_for_its_workers(services: dict[str, Any]) -> None:
    for head, others in CLUSTERS.items():
        assert set(services[others[-1]]["depends_on"]) == {head, *others[:-1]}


def test_the_driver_is_named_as_its_service(services: dict[str, Any]) -> None:
    assert "spark.driver.host=job" in services["job"]["command"]


def test_ports_are_open_to_this_machine_alone(services: dict[str, Any]) -> None:
    for name in CLUSTERS:
        for mapping in services[name]["ports"]:
            host, _, inner = mapping.split(":")
            assert host == "127.0.0.1"
            assert any(word in {inner, f"{name}:{inner}"} for word in services[name]["command"])


def test_sources_are_read_only_and_the_release_is_shared(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        binds = [volume for volume in service["volumes"] if volume.startswith(".")]
        assert binds == ["../pipelines:/srv/pipelines:ro"], name
        assert (COMPOSE.parent / "../pipelines").is_dir()
        named = [volume.split(":") for volume in service["volumes"] if not volume.startswith(".")]
        assert named == [["published", "/srv/published"]]
    assert set(compose["volumes"]) == {"published"}


def test_both_images_own_the_folder_of_the_volume() -> None:
    for file in ("Dockerfile", "Dockerfile.spark"):
        text = (COMPOSE.parent / file).read_text(encoding="utf-8")
        assert "chown privpipe:privpipe /srv/published" in text


def test_the_jobs_exist_and_know_their_options(services: dict[str, Any]) -> None:
    for name in ("job", "job-dask"):
        command = services[name]["command"]
        place = next(i for i, word in enumerate(command) if word.startswith("/srv/pipelines/"))
        script = PROJECT / "pipelines" / Path(command[place]).relative_to("/srv/pipelines")
        shown = subprocess.run(
            [sys.executable, str(script), "--help"], capture_output=True, text=True, timeout=120, check=True
        )
        options = [word for word in command[place + 1 :] if word.startswith("--")]
        assert options
        assert all(option in shown.stdout for option in options)
        assert command[command.index("--target") + 1].startswith("/srv/published/")
