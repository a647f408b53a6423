"""``privpipe explore``: compare settings of a policy in a browser on this machine, and write the chosen one."""

from __future__ import annotations

import hmac
import http.server
import secrets
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import parse_qs

import typer

from privpipe.cli.arguments import EngineOption, PolicyArgument, ProgressOption
from privpipe.cli.console import progress, put, say, warn_all
from privpipe.errors import EngineError, PrivpipeError

if TYPE_CHECKING:
    from privpipe.reporting.officer.languages import Language
    from privpipe.running.exploration import Explored, PolicyFile

__all__ = ["Ending", "Loopback", "explore"]


HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
Ending = Literal["chosen", "idle"]
Choose = Callable[[str], tuple[bool, str]]
TICK = 0.2
SILENT = 10.0
"""Seconds that a connection may say nothing."""
LONGEST_BODY = 200
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    # `no-referrer` would have browsers send `Origin: null` with the form, and every other page sends that too.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Loopback(socketserver.ThreadingTCPServer):
    """Serves a page at ``http://127.0.0.1:PORT/TOKEN/``, and takes one form at ``choose`` next to it.

    Of `socketserver` and not of `http.server`, which would ask a name server what this host is called.

    Parameters
    ----------
    page : str
    choose : callable
        Takes the value of `setting`; returns whether that ends the serving, and the page that answers.
    port : int
        0: a free one.

    Raises
    ------
    OSError
        The port is taken.
    """

    daemon_threads = True
    allow_reuse_address = False
    timeout = TICK

    def __init__(self, page: str, choose: Choose, port: int = 0) -> None:
        self.page = page
        self.token = secrets.token_urlsafe(32)
        self._clock: Callable[[], float] = time.monotonic
        self.asked = self._clock()
        self.chosen = threading.Event()
        self._choose = choose
        self._one = threading.Lock()
        super().__init__((HOST, port), _Handler)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """What opens the page; anyone who has it may read and choose."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def serve(self, minutes: float, clock: Callable[[], float] = time.monotonic) -> Ending:
        """Answer until a choice was taken, or no request with the token came for so long.

        Parameters
        ----------
        minutes : float
        clock : callable
            Seconds, from any moment.
        """
        self._clock, self.asked = clock, clock()
        while not self.chosen.is_set():
            if clock() - self.asked >= 60 * minutes:
                return "idle"
            self.handle_request()
        return "chosen"

    def touch(self) -> None:
        """A client that has the token sent a request."""
        self.asked = self._clock()

    def choose(self, value: str) -> tuple[bool, str]:
        """Take a choice, one at a time and none after the last."""
        with self._one:
            if self.chosen.is_set():
                return False, ""
            return self._choose(value)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a traceback could quote the page."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Loopback
    timeout = SILENT
    server_version = "privpipe"
    sys_version = ""
    allowed: ClassVar[dict[str, str]] = {"": "GET", "choose": "POST"}

    def do_GET(self) -> None:
        if self._place("GET") is not None:
            self._answer(HTTPStatus.OK, self.server.page)

    def do_POST(self) -> None:
        host = self._place("POST")
        if host is None:
            return
        if self.headers.get_all("Origin") != [f"http://{host}"]:
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        value = self._form_value()
        if value is None:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        ended, page = self.server.choose(value)
        self._answer(HTTPStatus.OK if ended else HTTPStatus.CONFLICT, page)
        if ended:
            self.server.chosen.set()

    def _place(self, method: str) -> str | None:
        """The host that was asked for, where it is this one, the token is right and the method is the place's."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].lower() not in {f"{name}:{self.server.port}" for name in NAMES}:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return None
        parts = self.path.split("/")
        given, place = (parts[1], parts[2]) if len(parts) == 3 and not parts[0] else ("", "-")
        known = hmac.compare_digest(given.encode("utf-8", "replace"), self.server.token.encode())
        if not known or place not in self.allowed:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        if self.allowed[place] != method:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
            return None
        self.server.touch()
        return hosts[0].lower()

    def _form_value(self) -> str | None:
        length = self.headers.get("Content-Length") or ""
        form = self.headers.get_content_type() == "application/x-www-form-urlencoded"
        if not form or not (length.isascii() and length.isdigit()) or int(length) > LONGEST_BODY:
            return None
        try:
            found = parse_qs(self.rfile.read(int(length)).decode("ascii"), strict_parsing=True, max_num_fields=1)
        except (ValueError, OSError):
            return None
        values = found.get("setting", [])
        return values[0] if len(values) == 1 else None

    def _answer(self, status: HTTPStatus, page: str, kind: str = "text/html") -> None:
        content = page.encode()
        self.send_response_only(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A refusal that repeats nothing of the request."""
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self.close_connection = True
        self._answer(status, f"{status.value} {status.phrase}\n", "text/plain")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged: addresses hold the token."""


def explore(
    policy: PolicyArgument,
    grid: Annotated[
        Path | None,
        typer.Option(
            "--grid",
            metavar="FILE",
            help="Places of the policy, each with a list of values, instead of levels of generalize.",
            show_default=False,
        ),
    ] = None,
    risk: Annotated[
        list[str] | None,
        typer.Option(
            "--risk", metavar="NAME", help="A measure that counts as risk, as of compare.", show_default=False
        ),
    ] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option(
            "--loss", metavar="NAME", help="A measure that counts as loss, as of compare.", show_default=False
        ),
    ] = None,
    settings: Annotated[
        int, typer.Option("--settings", min=2, max=50, metavar="N", help="Vectors of levels to try, at most.")
    ] = 8,
    minutes: Annotated[
        float, typer.Option("--minutes", metavar="N", min=0.05, max=1440, help="End after this long without a request.")
    ] = 30,
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0: a free one.")] = 0,
    engine: EngineOption = None,
    lines: ProgressOption = False,
) -> None:
    """Look at settings of a policy in a browser, and choose one.

    Settings are staged and judged as by `privpipe compare`; nothing is published. The page is served on 127.0.0.1
    alone, at the address that is printed: anyone who has it may read the page and choose. It shows settings with
    guarantees, risk and loss, what the search saw, and each column before and after, no count below the reporting
    threshold. The button of a setting writes it into the policy file, where comments stay, and ends the command;
    Ctrl-C ends it too.
    """
    from privpipe.reporting.explorer_pages import explorer_page
    from privpipe.running.exploration import PolicyFile
    from privpipe.running.exploration import explore as tried
    from privpipe.running.settings_grid import read_grid

    file = PolicyFile.read(policy)
    rules = file.policy()
    warn_all(rules.warnings)
    places = None if grid is None else read_grid(grid)
    with progress(lines=lines) as tell:
        found = tried(rules, places, risk=risk or [], loss=loss or [], most=settings, engine=engine, progress=tell)
    chooser = _Chooser(file, found, rules.report.lang)
    try:
        server = Loopback(explorer_page(found.data, rules.report.lang), chooser, port)
    except OSError as error:
        raise EngineError(f"port {port} of 127.0.0.1 cannot be opened: {error.strerror}; omit --port") from None
    with server:
        put(server.address)
        sys.stdout.flush()
        say(f"Serving only this machine; ends after {minutes:g} minutes without a request, at a choice, or at Ctrl-C.")
        ending = server.serve(minutes)
    say(
        f"WRITTEN: {policy}"
        if ending == "chosen"
        else "ENDED: no page sent requests any more; the policy is unchanged."
    )


class _Chooser:
    """Writes the setting of a number into the policy file, and shows what changed."""

    def __init__(self, file: PolicyFile, found: Explored, lang: Language) -> None:
        self.file, self.found, self.lang = file, found, lang

    def __call__(self, value: str) -> tuple[bool, str]:
        from privpipe.reporting.explorer_pages import answer_page

        numbers = {str(each.number): each for each in self.found.data.settings if each.may_be_chosen}
        if value not in numbers:
            return False, answer_page("refused", "no setting of that number meets every guarantee", self.lang)
        try:
            changed = self._written(numbers[value].number - 1)
        except PrivpipeError as error:
            say(f"error: {error}")
            return False, answer_page("refused", str(error), self.lang)
        say(changed)
        return True, answer_page("written", changed, self.lang)

    def _written(self, at: int) -> str:
        from difflib import unified_diff

        self.file.require_unchanged()
        content = self.file.with_setting(self.found.settings[at])
        self.file.write(content)
        name = self.file.path.name
        before, after = (text.decode("utf-8-sig").splitlines() for text in (self.file.content, content))
        return (
            "\n".join(unified_diff(before, after, name, name, lineterm="", n=1)) or f"{name} has this setting already"
        )
