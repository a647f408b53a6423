"""What `explain` says of officers' policies and of sign-offs."""

from __future__ import annotations

from typing import Any

from privpipe.cli.explaining_sources import key_document

__all__ = ["OFFICER_TOPICS", "officer_document"]

OFFICER_TOPICS = {
    "officer": (
        "A policy of who answers for releases: what jobs may not fall below.",
        "A job names it as `policy: FILE` or by the name of a preset ({presets}) and may only tighten it: a loosening "
        "is an error that names both lines. PRIVPIPE_OFFICER_POLICY=FILE or FILE@sha256:HEX holds every release of a "
        "machine to one, whether its job names it or not. Its hash stands in the manifest, and `privpipe verify "
        "--officer-policy FILE` holds a release to it.",
        "{guarantees: [{k_anonymity: {k: 11}, reason: no class has a risk above 0.09}], seed: required}",
    ),
    "sign_off": (
        "A section of an officer's policy: whose approval a release waits for.",
        "The release is staged, judged, and waits: exit code 7, nothing published. `privpipe sign RUN --as NAME "
        "--decision approve` signs exactly its bytes, documents and policies with the person's Ed25519 or SSH key "
        "(`privpipe key make`); `privpipe release POLICY --continue RUN` publishes what was approved. report.html in "
        "the folder that waits says for whom. Whoever rejects or asks for changes stops it. A declared seed is needed, "
        "and a sink of files.",
        "sign_off: {by: [{name: Ada Moe, key: ssh-ed25519 AAAA...}], two_persons: false, valid_days: 90}",
    ),
}
"""By name: summary, prose, example."""


def officer_document(name: str) -> dict[str, Any]:
    """The document of an officer's policy, or of its sign-off.

    Examples
    --------
    >>> [each["name"] for each in officer_document("sign_off")["parameters"]]
    ['by', 'two_persons', 'valid_days']
    """
    from privpipe.policy.grammar import OFFICER, SIGN_OFF
    from privpipe.policy.officer import presets

    summary, about, example = OFFICER_TOPICS[name]
    keys = OFFICER if name == "officer" else SIGN_OFF
    return {
        "name": name,
        "kind": "officer's policy",
        "summary": summary,
        "about": about.replace("{presets}", ", ".join(presets())),
        "parameters": [key_document(key, each) for key, each in keys.items()],
        "example": example,
    }
