"""A bill of materials in CycloneDX 1.6 from a lock file: `python sbom.py LOCK OUT`. The standard library is enough.

The same lock gives the same bytes. Licences are listed where exactly this version is installed for the script.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Locked", "bill_of_materials", "locked", "main"]

SPACE = uuid.UUID("6f1d6a5e-3a0e-5b0c-9a55-7a1f0a6b9d11")
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^\]]*\])?==(?P<version>[^\s;]+)\s*(;\s*(?P<marker>.*?))?\s*\\?$")
_HASH = re.compile(r"\s+--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"\s+#\s+(?:via\s+)?(?P<name>[A-Za-z0-9._-]+)(?P<root>\s+\(.*\))?$")


@dataclass
class Locked:
    """One version of a lock: the files that may stand for it, and who asks for it (`privpipe` for the package)."""

    name: str
    version: str
    marker: str = ""
    hashes: list[str] = field(default_factory=list)
    via: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        """Its name for every tool that reads bills."""
        return f"pkg:pypi/{re.sub(r'[-_.]+', '-', self.name).lower()}@{self.version}"


def locked(text: str) -> list[Locked]:
    """The versions that a lock file holds.

    Examples
    --------
    >>> found = locked("a==1 ; python_version < '3' \\\\\\n    --hash=sha256:" + "0" * 64 + "\\n    # via b\\n")
    >>> found[0].name, found[0].version, found[0].marker, len(found[0].hashes), found[0].via
    ('a', '1', "python_version < '3'", 1, ['b'])
    """
    found: list[Locked] = []
    for line in text.splitlines():
        if pin := _PIN.match(line):
            found.append(Locked(pin["name"], pin["version"], pin["marker"] or ""))
        elif found and (hashed := _HASH.match(line)):
            found[-1].hashes.append(hashed[1])
        elif found and (via := _VIA.match(line)):
            found[-1].via.append(via["name"])
    return found


def bill_of_materials(lock: bytes, version: str, licences: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The document.

    Parameters
    ----------
    lock : bytes
    version : str
        Of privpipe.
    licences : mapping of purl to SPDX expression, optional
    """
    parts = locked(lock.decode("utf-8"))
    root = f"pkg:pypi/privpipe@{version}"
    digest = hashlib.sha256(lock).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(SPACE, digest + version)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "privpipe",
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
            "properties": [{"name": "privpipe:lock:sha256", "value": digest}],
        },
        "components": [_component(each, licences or {}) for each in parts],
        "dependencies": [*_dependencies(root, parts)],
    }


def _component(each: Locked, licences: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": each.purl,
        "name": each.name,
        "version": each.version,
        "purl": each.purl,
        "properties": [{"name": "privpipe:lock:file:sha256", "value": digest} for digest in each.hashes],
    }
    if each.marker:
        found["properties"].append({"name": "privpipe:lock:marker", "value": each.marker})
    if each.purl in licences:
        found["licenses"] = [{"license": {"name": licences[each.purl]}}]
    return found


def _dependencies(root: str, parts: list[Locked]) -> Iterator[dict[str, Any]]:
    """Of the package and of each part; two versions of one name are for two Pythons."""
    refs: dict[str, list[str]] = {"privpipe": [root]}
    for each in parts:
        refs.setdefault(each.name, []).append(each.purl)
    asked: dict[str, list[str]] = {ref: [] for held in refs.values() for ref in held}
    for each in parts:
        for asker in each.via:
            for ref in refs.get(asker, []):
                asked[ref].append(each.purl)
    return ({"ref": ref, "dependsOn": sorted(needed)} for ref, needed in asked.items())


def _installed_licences() -> dict[str, str]:
    found = {}
    for each in importlib.metadata.distributions():
        said = each.metadata.get("License-Expression") or each.metadata.get("License") or ""
        if said and "\n" not in said:
            found[Locked(each.metadata["Name"], each.version).purl] = said[:200]
    return found


def main() -> int:
    """The command; 2 for a wrong call."""
    if len(sys.argv) != 3:
        print("usage: sbom.py LOCK OUT", file=sys.stderr)
        return 2
    try:
        version = importlib.metadata.version("privpipe")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    document = bill_of_materials(Path(sys.argv[1]).read_bytes(), version, _installed_licences())
    Path(sys.argv[2]).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{sys.argv[2]}: {len(document['components']):,} components")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
