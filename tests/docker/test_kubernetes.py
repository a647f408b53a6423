"""The examples for Kubernetes: what a pod of restricted rights may be, and settings that the image knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from privpipe.cli.console import CRASH
from privpipe.errors import PrivpipeError

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / "docker" / "kubernetes"
FILES = ("job.yaml", "cronjob.yaml")


def loaded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(FOLDER / name)
    return found


def job_of(name: str) -> dict[str, Any]:
    """What a run of it is."""
    spec: dict[str, Any] = loaded(name)["spec"]
    return spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec  # type: ignore[no-any-return]


@pytest.fixture(params=FILES)
def job(request: pytest.FixtureRequest) -> dict[str, Any]:
    return job_of(request.param)


@pytest.fixture
def pod(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["template"]["spec"]
    return found


def test_both_run_the_same_pod() -> None:
    assert job_of("job.yaml") == job_of("cronjob.yaml")
    assert sorted(file.name for file in FOLDER.glob("*.yaml")) == sorted(FILES)
    assert loaded("cronjob.yaml")["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_pod_is_restricted(pod: dict[str, Any]) -> None:
    """The rules of the pod security standard `restricted`, and a file system that is read-only."""
    assert pod["automountServiceAccountToken"] is False
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod)
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "privileged": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory"} <= set(container["resources"]["limits"])
        assert set(container["resources"]["requests"]) == set(container["resources"]["limits"])
        assert re.search(r"@sha256:[0-9a-f]{64}$", container["image"])


def test_the_user_is_that_of_the_image(pod: dict[str, Any]) -> None:
    text = (PROJECT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    user = re.findall(r"^USER (\d+)$", text, re.MULTILINE)[-1]
    assert str(pod["securityContext"]["runAsUser"]) == user
    scratch = re.findall(r"PRIVPIPE_KERNELS=\S+:(\S+)", text)[0]
    home = re.findall(r"^WORKDIR (/home\S+)$", text, re.MULTILINE)[-1]
    mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounts[str(Path(scratch).parent)] == mounts[home] == "scratch"
    assert next(each for each in pod["volumes"] if each["name"] == "scratch")["emptyDir"]["sizeLimit"]


def test_the_source_is_read_only_and_the_release_is_not(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    mounts = {each["name"]: each for each in container["volumeMounts"] if each["name"] != "scratch"}
    assert mounts["data"]["readOnly"] is True
    assert "readOnly" not in mounts["published"]
    command = container["args"]
    assert command[0] == "release"
    assert command[1].startswith(mounts["data"]["mountPath"] + "/")
    assert command[command.index("--target") + 1].startswith(mounts["published"]["mountPath"] + "/")
    assert set(mounts) | {"scratch"} == {each["name"] for each in pod["volumes"]}


def test_the_seed_is_a_secret(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    for each in container["env"]:
        assert set(each) == {"name", "valueFrom"}
        assert set(each["valueFrom"]) == {"secretKeyRef"}


def test_what_another_try_cannot_mend_fails_the_job(job: dict[str, Any]) -> None:
    codes = {CRASH, *(kind.exit_code for kind in kinds_of(PrivpipeError))}
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert set(rule["onExitCodes"]["values"]) == codes - {4}
    assert job["template"]["spec"]["restartPolicy"] == "Never"  # a failure policy asks for it


def kinds_of(kind: type[PrivpipeError]) -> set[type[PrivpipeError]]:
    found = {each for each in kind.__subclasses__() if each.__module__ == "privpipe.errors"}
    return found.union(*map(kinds_of, found))


@pytest.mark.parametrize("name", FILES)
def test_kubernetes_takes_it(name: str) -> None:
    """Against the schema of the interface, where it is at hand."""
    validate = pytest.importorskip("kubernetes_validate")
    newest = validate.latest_version()
    validate.validate(loaded(name), newest, strict=True)
