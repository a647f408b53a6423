"""What the images install: locked with hashes, within the bounds of pyproject.toml, listed in a bill of materials."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.packages.asked import PROJECT, asked_for, extras

DOCKER = PROJECT / "docker"
KINDS = {
    found[0]: [extra for extra in found[1].split(",") if extra]
    for found in re.findall(
        r"(\w+):([\w,]*)",
        next(line for line in (PROJECT / "Makefile").read_text().splitlines() if line.startswith("LOCKS :=")),
    )
}
IMAGES = [kind for kind in KINDS if kind != "build"]


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom_of_images", DOCKER / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass asks for its module
    spec.loader.exec_module(module)
    return module


def text_of(kind: str) -> str:
    return (DOCKER / "locks" / f"{kind}.lock").read_text(encoding="utf-8")


def bounds_of(kind: str) -> list[Requirement]:
    if kind == "build":
        lines = (DOCKER / "locks" / "build.in").read_text(encoding="utf-8").splitlines()
        return [Requirement(line) for line in lines if line and not line.startswith("#")]
    constraints = (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    asked = asked_for(KINDS[kind])
    names = {canonicalize_name(each.name) for each in asked}
    limits = [Requirement(line) for line in constraints if line and not line.startswith("#")]
    return [*asked, *(each for each in limits if canonicalize_name(each.name) in names)]


def test_each_kind_of_image_has_a_lock_and_extras_that_exist() -> None:
    assert sorted(file.stem for file in (DOCKER / "locks").glob("*.lock")) == sorted(KINDS)
    assert {extra for held in KINDS.values() for extra in held} <= set(extras())
    script = (DOCKER / "steps.sh").read_text(encoding="utf-8")
    assert f"    {' | '.join(IMAGES)}) " in script


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_holds_each_direct_dependency_in_bounds_with_hashes(sbom: ModuleType, kind: str) -> None:
    parts = sbom.locked(text_of(kind))
    for wanted in bounds_of(kind):
        found = [each for each in parts if canonicalize_name(each.name) == canonicalize_name(wanted.name)]
        assert found, wanted
        assert all(wanted.specifier.contains(Version(each.version)) for each in found), wanted
        for python in ("3.11", "3.12", "3.13"):
            here = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
            serving = [each for each in found if not each.marker or Marker(each.marker).evaluate(here)]
            assert len(serving) == 1, (wanted, python)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lock_names_no_place_and_nothing_without_a_hash(sbom: ModuleType, kind: str) -> None:
    text = text_of(kind)
    assert "://" not in text
    assert not re.search(r"^--|^-e|^\.|file:|@ ", text, re.MULTILINE)
    parts = sbom.locked(text)
    assert len(parts) == len(re.findall(r"^\S+==", text, re.MULTILINE))
    assert sum(len(each.hashes) for each in parts) == text.count("--hash=")
    assert all(each.hashes for each in parts)


@pytest.mark.parametrize("kind", IMAGES)
def test_a_bill_of_materials_shows_the_lock_and_who_asked(sbom: ModuleType, kind: str, tmp_path: Path) -> None:
    lock = text_of(kind).encode()
    found = sbom.bill_of_materials(lock, "1.2", {"pkg:pypi/numba@0": "no"})
    assert found == sbom.bill_of_materials(lock, "1.2")
    assert json.dumps(found).count('"type": "library"') == len(sbom.locked(lock.decode()))
    refs = {found["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in found["components"])}
    assert len(refs) == 1 + len(found["components"])
    needs = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    assert set(needs) == refs
    assert {ref for held in needs.values() for ref in held} == refs - {"pkg:pypi/privpipe@1.2"}
    asked = {re.sub(r"[-_.]+", "-", each.name).lower() for each in asked_for(KINDS[kind])}
    assert {re.split("[/@]", ref)[1] for ref in needs["pkg:pypi/privpipe@1.2"]} == asked


def test_a_bill_of_materials_is_valid_cyclonedx(sbom: ModuleType) -> None:
    """Against the format's own schema, where its library is at hand."""
    validation = pytest.importorskip("cyclonedx.validation.json")
    schema = pytest.importorskip("cyclonedx.schema")
    checker = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    for kind in IMAGES:
        assert checker.validate_str(json.dumps(sbom.bill_of_materials(text_of(kind).encode(), "1"))) is None
