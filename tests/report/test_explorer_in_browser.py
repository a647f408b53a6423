"""A choice in a real browser: the form of the page is what the server takes, and no script runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from privpipe.cli.explore import Loopback
from privpipe.reporting.report import browser

FOUND = browser()
pytestmark = pytest.mark.skipif(FOUND is None, reason="no chromium is installed")
PAGE = """<!doctype html><html lang="en"><head><title>page</title><script>document.title = "run"</script></head>
<body><form method="post" action="choose"><button name="setting" value="3">Choose</button></form></body></html>"""
CLICK = "document.title + (document.querySelector('button').click() || '')"


class Driven:
    """A browser that is controlled over pipes."""

    def __init__(self, profile: Path) -> None:
        assert FOUND is not None
        reads, self.asking = os.pipe()
        self.answers, writes = os.pipe()
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        asked = [FOUND, "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", *root]
        asked += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        # The browser reads file 3 and writes file 4; both are copied aside first, since either may be one of the two.
        code = "import os, sys, fcntl; r, w = (fcntl.fcntl(int(at), 0, 10) for at in sys.argv[1:3])"
        command = [
            sys.executable,
            "-c",
            f"{code}; os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])",
            str(reads),
            str(writes),
        ]
        self.process = subprocess.Popen([*command, *asked], pass_fds=(reads, writes), stderr=subprocess.DEVNULL)
        os.close(reads)
        os.close(writes)
        self.left, self.number = b"", 0

    def tell(self, method: str, session: str | None = None, **given: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": given, **({"sessionId": session} if session else {})}
        os.write(self.asking, json.dumps(message).encode() + b"\0")
        return self.until(lambda each: each.get("id") == self.number)

    def until(self, wanted: Any) -> dict[str, Any]:
        while True:
            while b"\0" not in self.left:
                more = os.read(self.answers, 65536)
                assert more, "the browser ended"
                self.left += more
            first, _, self.left = self.left.partition(b"\0")
            found: dict[str, Any] = json.loads(first)
            if wanted(found):
                return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait(timeout=30)
        os.close(self.asking)
        os.close(self.answers)


def test_the_form_of_the_page_is_taken(tmp_path: Path) -> None:
    taken: list[str] = []
    server = Loopback(PAGE, lambda value: (not taken.append(value), "<p>written</p>"))  # type: ignore[func-returns-value]
    thread = threading.Thread(target=server.serve, args=(2.0,), daemon=True)
    thread.start()
    driven = Driven(tmp_path / "profile")
    limit = threading.Timer(90, driven.process.kill)
    limit.start()
    try:
        target = driven.tell("Target.createTarget", url="about:blank")["result"]["targetId"]
        session = driven.tell("Target.attachToTarget", targetId=target, flatten=True)["result"]["sessionId"]
        driven.tell("Page.enable", session)
        driven.tell("Page.navigate", session, url=server.address)
        driven.until(lambda each: each.get("method") == "Page.loadEventFired")
        found = driven.tell("Runtime.evaluate", session, expression=CLICK)
        assert found["result"]["result"]["value"] == "page"
        assert server.chosen.wait(60)
        assert taken == ["3"]
    finally:
        limit.cancel()
        driven.close()
        server.chosen.set()
        thread.join(timeout=30)
        server.server_close()
