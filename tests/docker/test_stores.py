"""Services to try sources and sinks on: pinned, open to this machine alone, with passwords of one's own."""

from __future__ import annotations

import re
import runpy
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from privpipe.policy import Policy

PROJECT = Path(__file__).resolve().parents[2]
DOCKER = PROJECT / "docker"
FILE = DOCKER / "compose.stores.yaml"
SERVERS = ("postgres", "minio", "iceberg")
PINNED = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(FILE)["services"]
    return found


def test_images_from_elsewhere_are_pinned_by_digest(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert "build" in service or PINNED.fullmatch(service["image"]), name


def test_servers_say_when_they_are_ready_and_are_open_to_this_machine_alone(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert all(mapping.startswith("127.0.0.1:") for mapping in service.get("ports", [])), name
    for name in SERVERS:
        assert services[name]["ports"]
        assert {"test", "interval", "timeout", "retries"} <= set(services[name]["healthcheck"])
    assert services["privpipe"]["depends_on"]["postgres"] == {"condition": "service_healthy"}


def test_no_password_has_a_default_or_is_on_a_command_line(services: dict[str, Any]) -> None:
    text = FILE.read_text(encoding="utf-8")
    assert not re.search(r"\$\{\w+:?-", text)
    secret = re.compile(r"PASSWORD|SECRET")
    for name, service in services.items():
        for key, value in service.get("environment", {}).items():
            if secret.search(key):
                assert re.fullmatch(r"\$\{(POSTGRES|MINIO)_PASSWORD(:\?[^}]*)?\}", value), (name, key)
        assert not re.search(r"(?<!\$)\$\{?\w*(PASSWORD|SECRET)", str([service.get("command"), service.get("test")]))
    assert re.search(r"\$\{POSTGRES_PASSWORD:\?", text)
    assert re.search(r"\$\{MINIO_PASSWORD:\?", text)


def test_the_tools_run_only_when_asked_with_nothing_to_write_but_their_places(services: dict[str, Any]) -> None:
    for name in ("fill", "privpipe"):
        service = services[name]
        assert service["profiles"] == ["tools"]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["tmpfs"] == ["/tmp"]
        assert service["build"]["args"] == {"KIND": "stores"}
        binds = [volume for volume in service["volumes"] if volume.startswith(".")]
        assert all(volume.endswith(":ro") and (DOCKER / volume.split(":")[0]).is_dir() for volume in binds)


def test_secrets_are_random_private_and_kept(tmp_path: Path) -> None:
    command = ["bash", str(DOCKER / "steps.sh"), "secrets"]
    found = []
    for name in ("a", "b"):
        subprocess.run([*command, str(tmp_path / name)], check=True, timeout=60)
        found.append((tmp_path / name).read_text(encoding="utf-8"))
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert re.fullmatch(r"POSTGRES_PASSWORD=[0-9a-f]{48}\nMINIO_PASSWORD=[0-9a-f]{48}\n", found[-1])
    assert len({line for text in found for line in text.splitlines()}) == 4
    again = subprocess.run([*command, str(tmp_path / "a")], check=False, timeout=60, capture_output=True)
    assert again.returncode == 1
    assert (tmp_path / "a").read_text(encoding="utf-8") == found[0]
    assert "docker/stores/.env\n" in (PROJECT / ".gitignore").read_text(encoding="utf-8")


def test_compose_takes_both_files(tmp_path: Path) -> None:
    """By docker's own reading, where it is at hand."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not at hand")
    subprocess.run(["bash", str(DOCKER / "steps.sh"), "secrets", str(tmp_path / "env")], check=True, timeout=60)
    for file in (FILE, DOCKER / "compose.yaml"):
        command = [docker, "compose", "--env-file", str(tmp_path / "env"), "--file", str(file), "config", "--quiet"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", ["postgresql", "iceberg"])
def test_the_policies_are_valid_and_name_every_column(name: str) -> None:
    pytest.importorskip("fsspec")
    policy = Policy.load(DOCKER / "stores" / f"{name}.yaml")
    data = (PROJECT / "pipelines" / "adult" / "data" / "adult.csv").read_text(encoding="utf-8")
    assert set(policy.columns) == set(data.splitlines()[0].split(";"))


def test_what_fills_the_services_fills_a_catalogue_and_a_store_twice(tmp_path: Path) -> None:
    catalogues = pytest.importorskip("pyiceberg.catalog.sql")
    pytest.importorskip("fsspec")
    fill = runpy.run_path(str(DOCKER / "stores" / "fill.py"))
    table = pa.table({"age": [1, 2], "sex": ["f", None]})
    catalogue = catalogues.SqlCatalog("lake", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}")
    for _ in range(2):
        fill["fill_iceberg"](table, catalogue)
        fill["fill_store"](table, f"file://{tmp_path}/adult.parquet")
    assert catalogue.load_table("demo.adult").scan().to_arrow().to_pylist() == table.to_pylist()
    assert pq.read_table(tmp_path / "adult.parquet").equals(table)
    catalogue.close()
