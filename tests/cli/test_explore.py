"""`privpipe explore`: one page for who knows the token, on this machine alone, until a choice or no one asks."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from privpipe.cli.explore import Loopback
from privpipe.policy import Policy

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def server() -> Iterator[Loopback]:
    """A page that takes the choice `1` and no other."""
    made = Loopback("<p>page</p>", lambda value: (value == "1", f"<p>answer {value}</p>"))
    thread = threading.Thread(target=made.serve, args=(1.0,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.chosen.set()
        thread.join(timeout=30)
        made.server_close()
        assert not thread.is_alive()


def asked(
    server: Loopback, method: str, path: str, headers: dict[str, str] | None = None, body: str | None = None
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        found = connection.getresponse()
        return found.status, dict(found.getheaders()), found.read().decode()
    finally:
        connection.close()


def origin(server: Loopback) -> dict[str, str]:
    return {**FORM, "Origin": f"http://127.0.0.1:{server.port}"}


def test_the_page_is_for_who_knows_the_token(server: Loopback) -> None:
    status, headers, text = asked(server, "GET", f"/{server.token}/")
    assert (status, text) == (200, "<p>page</p>")
    assert headers["Cache-Control"] == "no-store"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert "form-action 'self'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "same-origin"
    assert not {"Server", "Access-Control-Allow-Origin", "Set-Cookie"} & set(headers)
    assert len(server.token) >= 43


@pytest.mark.parametrize(
    "path", ["/", "/{0}", "/x{0}/", "/{0}x/", "/{0}/..", "/{0}/?a=1", "/favicon.ico", "/{1}/", "/é/", "*"]
)
def test_another_path_shows_nothing(server: Loopback, path: str) -> None:
    wrong = path.format(server.token, server.token[:-1])
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sent:
        sent.sendall(f"GET {wrong} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        found = http.client.HTTPResponse(sent, method="GET")
        found.begin()
        assert (found.status, found.read()) == (404, b"404 Not Found\n")


@pytest.mark.parametrize("host", ["example.org", "example.org:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", ""])
def test_a_name_that_leads_here_from_elsewhere_is_refused(server: Loopback, host: str) -> None:
    for method, path in (("GET", ""), ("POST", "choose")):
        headers = {**origin(server), "Host": host.format(port=server.port)}
        status, _, text = asked(server, method, f"/{server.token}/{path}", headers, "setting=1")
        assert (status, "page" in text or "answer" in text) == (421, False)
    assert not server.chosen.is_set()
    assert asked(server, "GET", f"/{server.token}/", {"Host": f"localhost:{server.port}"})[0] == 200


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "POST"])
def test_the_page_is_read_by_get_alone(server: Loopback, method: str) -> None:
    assert asked(server, method, f"/{server.token}/")[0] == 405
    if method != "POST":
        assert asked(server, method, f"/{server.token}/choose", origin(server), "setting=1")[0] == 405
    assert not server.chosen.is_set()


def test_a_choice_comes_from_this_page(server: Loopback) -> None:
    path, right = f"/{server.token}/choose", origin(server)
    assert asked(server, "GET", path)[0] == 405
    others = ("null", "http://example.org", f"https://127.0.0.1:{server.port}", f"http://localhost:{server.port}", "")
    for other in others:
        assert asked(server, "POST", path, {**right, "Origin": other}, "setting=1")[0] == 403
    assert asked(server, "POST", path, FORM, "setting=1")[0] == 403
    assert asked(server, "POST", f"/{server.token[::-1]}/choose", right, "setting=1")[0] == 404
    for body in ("", "x=1", "setting=1&setting=1", "setting", "setting=" + "1" * 300):
        assert asked(server, "POST", path, right, body)[0] == 400, body
    assert asked(server, "POST", path, {**right, "Content-Type": "text/plain"}, "setting=1")[0] == 400
    assert asked(server, "POST", path, right, "setting=2")[::2] == (409, "<p>answer 2</p>")
    assert not server.chosen.is_set()
    assert asked(server, "POST", path, right, "setting=1")[::2] == (200, "<p>answer 1</p>")
    assert server.chosen.wait(30)


def test_no_other_address_listens(server: Loopback) -> None:
    assert server.server_address[0] == "127.0.0.1"
    table = Path("/proc/net/tcp")
    if not table.exists():
        pytest.skip("no table of sockets")
    lines = [line.split() for line in table.read_text().splitlines()[1:]]
    six = Path("/proc/net/tcp6")
    lines += [line.split() for line in six.read_text().splitlines()[1:]] if six.exists() else []
    listening = [line[1] for line in lines if line[3] == "0A" and int(line[1].rpartition(":")[2], 16) == server.port]
    assert listening == [f"0100007F:{server.port:04X}"]


def test_it_ends_when_no_one_with_the_token_asks() -> None:
    seconds = iter([0.0, 59.0, 60.0])
    with Loopback("", lambda value: (True, "")) as server:
        server.timeout = 0.01
        assert server.serve(1.0, lambda: next(seconds)) == "idle"


def test_who_has_no_token_does_not_keep_it_alive() -> None:
    now = [0.0]
    with Loopback("", lambda value: (True, "")) as server:
        thread = threading.Thread(target=server.serve, args=(1.0, lambda: now[0]), daemon=True)
        thread.start()
        now[0] = 50.0
        assert asked(server, "GET", f"/{server.token}/")[0] == 200
        now[0] = 100.0
        assert asked(server, "GET", "/")[0] == 404
        assert server.asked == 50.0
        now[0] = 110.0
        thread.join(timeout=30)
        assert not thread.is_alive()


@pytest.fixture
def explored(place: Path) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    """The command on a policy with comments, and the address that it printed."""
    policy = place / "release.yaml"
    search = "generalize: {search: optimal, suppress_at_most: 0.2}  # decided in March"
    policy.write_text(
        "# of the register\n"
        + policy.read_text().replace("generalize: {search: optimal, suppress_at_most: 0.2}", search)
    )
    command = [sys.executable, "-m", "privpipe", "explore", str(policy), "--minutes", "2", "--settings", "4"]
    done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert done.stdout is not None
        yield done, done.stdout.readline().strip(), policy
    finally:
        done.kill()
        done.communicate(timeout=60)


def post(address: str, setting: str) -> tuple[int, str]:
    base = address.rpartition("/")[0].rpartition("/")[0]
    asking = urllib.request.Request(
        f"{address}choose", data=f"setting={setting}".encode(), headers={**FORM, "Origin": base}
    )
    try:
        with urllib.request.urlopen(asking, timeout=60) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_choice_is_written_into_the_policy(explored: tuple[subprocess.Popen[str], str, Path]) -> None:
    done, address, policy = explored
    before = policy.read_text()
    with urllib.request.urlopen(address, timeout=60) as found:
        page = found.read().decode()
    assert page.count("<form") >= 2
    assert not (policy.parent / "published").exists()
    assert post(address, "99")[0] == 409
    policy.write_text(before + "# later\n")
    status, said = post(address, "2")
    assert status == 409
    assert "changed since it was read" in said
    assert policy.read_text() == before + "# later\n"
    policy.write_text(before)
    mode = policy.stat().st_mode
    status, said = post(address, "2")
    assert (status, "levels:" in said) == (200, True)
    out, err = done.communicate(timeout=60)
    assert (done.returncode, out) == (0, "")
    assert "WRITTEN: " in err
    after = policy.read_text()
    changed = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    assert len(changed) == 1
    assert f"-{changed[0][0]}" in err
    assert f"+{changed[0][1]}" in err
    assert changed[0][1].endswith("suppress_at_most: 0.2}  # decided in March")
    assert policy.stat().st_mode == mode
    [stage] = Policy.load(policy).transform
    assert stage.parameters()["levels"] is not None
    assert sorted(each.name for each in policy.parent.iterdir()) == ["data.csv", "release.yaml"]
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


def test_a_taken_port_and_a_policy_without_levels_are_reported(run: Any, place: Path) -> None:
    with Loopback("", lambda value: (True, "")) as server:
        done = run("explore", place / "release.yaml", "--port", server.port)
        assert (done.exit_code, done.stdout) == (4, "")
        assert f"port {server.port} of 127.0.0.1" in done.stderr
    policy = place / "release.yaml"
    text = policy.read_text()
    policy.write_text(text[: text.index("transform:")] + text[text.index("guarantees:") :])
    done = run("explore", policy)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--grid FILE" in done.stderr


def test_it_ends_by_itself(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loopback, "serve", lambda self, minutes: "idle")
    before = (place / "release.yaml").read_bytes()
    done = run("explore", place / "release.yaml", "--minutes", "0.05", "--settings", "2")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("http://127.0.0.1:")
    assert "no page sent requests any more" in done.stderr
    assert (place / "release.yaml").read_bytes() == before


def test_help_says_who_may_read_it(run: Any) -> None:
    text = " ".join(run("explore", "--help").stdout.split())
    assert "127.0.0.1 alone" in text
