"""An S3-compatible server on the loopback address, and a proxy before it that fails as networks and stores do.

``ObjectStore`` is moto's server with one bucket; ``FaultyProxy`` stands between a client and it. Both are plain
objects, so that a test, a soak or another suite can start them; a client finds them by ``environment()``.
"""

from __future__ import annotations

import http.client
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

import pytest

__all__ = [
    "BUCKET",
    "Fault",
    "FaultyProxy",
    "ObjectStore",
    "Request",
    "needs_object_store",
    "object_store_at",
    "unique",
]

BUCKET = "lake"
RESET = "/moto-api/reset"
SIGNED = "AWS4-HMAC-SHA256 Credential=AKIDOFTESTS/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
"""Objects are private; moto looks at who asks and proves no signature."""
Kind = Literal["cut", "cut after", "503", "403", "slow"]


def needs_object_store() -> None:
    """Skip a test where the client or the server is not installed."""
    pytest.importorskip("s3fs", reason="needs s3fs")
    pytest.importorskip("moto", reason="needs moto")
    pytest.importorskip("flask_cors", reason="needs moto's server")


class ObjectStore:
    """moto's server, in threads of this process, with one empty bucket."""

    def __init__(self, bucket: str = BUCKET) -> None:
        self.bucket = bucket

    def __enter__(self) -> Self:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self.host, self.port = self._server.get_host_and_port()
        self.request("PUT", f"/{self.bucket}")
        return self

    def __exit__(self, *details: object) -> None:
        self.request("POST", RESET)
        self._server.stop()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.host}:{self.port}"

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """One request of its own, next to every client library: status and body."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers={"Authorization": SIGNED} if path != RESET else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def environment(self, url: str | None = None) -> dict[str, str]:
        """Variables by which boto, s3fs and object_store find it (or what stands before it, at `url`)."""
        url = url or self.url
        return {
            "AWS_ACCESS_KEY_ID": "AKIDOFTESTS",
            "AWS_SECRET_ACCESS_KEY": "SECRETOFTESTS",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
            "AWS_ENDPOINT_URL_S3": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_MAX_ATTEMPTS": "2",
        }

    def files(self) -> Any:
        """A client of its own, without a cache."""
        import s3fs

        keys = {"key": "AKIDOFTESTS", "secret": "SECRETOFTESTS"}
        return s3fs.S3FileSystem(endpoint_url=self.url, use_listings_cache=False, skip_instance_cache=True, **keys)


@dataclass(frozen=True)
class Request:
    """What the proxy was asked."""

    number: int
    method: str
    path: str


@dataclass
class Fault:
    """What happens to requests, from the `first` that `of` matches on, `times` of them (None: all that follow).

    ``cut`` closes the connection before the store hears of it, ``cut after`` when the store has done what was asked.
    """

    kind: Kind
    first: int = 0
    times: int | None = 1
    of: Callable[[Request], bool] = lambda request: True
    seconds: float = 0.2
    seen: int = field(default=0, init=False)
    struck: int = field(default=0, init=False)

    def strikes(self, request: Request) -> bool:
        """Whether this request is hit; counts."""
        if not self.of(request):
            return False
        at, self.seen = self.seen, self.seen + 1
        hit = at >= self.first and (self.times is None or at < self.first + self.times)
        self.struck += hit
        return hit


class FaultyProxy:
    """An HTTP proxy before a store that fails as instructed; it records its requests."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.fault: Fault | None = None
        self.watch: Callable[[Request], None] | None = None
        self.requests: list[Request] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *details: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def asked(self, method: str, path: str) -> tuple[Request, Fault | None]:
        """Number a request, and say what befalls it."""
        with self._lock:
            request = Request(len(self.requests), method, path)
            self.requests.append(request)
            fault = self.fault if self.fault is not None and self.fault.strikes(request) else None
        if self.watch is not None:
            self.watch(request)
        return request, fault


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnected is not an error of the proxy."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: FaultyProxy
    REFUSED: Mapping[str, tuple[int, str]] = {"503": (503, "SlowDown"), "403": (403, "AccessDenied")}

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: who reads the output of tests reads tests."""

    def _answer(self) -> None:
        _, fault = self.owner.asked(self.command, self.path)
        if self.headers.get("Expect", "").lower() == "100-continue":
            pass  # answered by the base class before this is called
        body = self._body()
        kind = fault.kind if fault else None
        if kind == "cut":
            self._hang_up()
            return
        if kind in self.REFUSED:
            status, code = self.REFUSED[kind]
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
            self._send(status, [("Content-Type", "application/xml")], text)
            return
        if fault is not None and kind == "slow":
            time.sleep(fault.seconds)
        status, headers, text = self._forwarded(body)
        if kind == "cut after":
            self._hang_up()
            return
        self._send(status, headers, text)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        hop = ("connection", "transfer-encoding", "content-length", "expect")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in hop}
        headers["Content-Length"] = str(len(body))
        connection = http.client.HTTPConnection(self.owner.store.host, self.owner.store.port, timeout=60)
        try:
            connection.request(self.command, self.path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _send(self, status: int, headers: list[tuple[str, str]], text: bytes) -> None:
        self.send_response_only(status)
        length = str(len(text))
        for name, value in headers:
            if name.lower() == "content-length":
                length = value if self.command == "HEAD" else length
            elif name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(2)


for _method in ("GET", "PUT", "POST", "HEAD", "DELETE"):
    setattr(_Handler, f"do_{_method}", _Handler._answer)


@contextmanager
def object_store_at(patch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """A store of this test alone, found by every client of this process.

    For a fixture::

        @pytest.fixture
        def store(monkeypatch):
            needs_object_store()
            with object_store_at(monkeypatch) as store:
                yield store
    """
    with ObjectStore() as store:
        for name, value in store.environment().items():
            patch.setenv(name, value)
        yield store


def unique(name: str) -> str:
    """A prefix of one test: the server may be shared."""
    return f"{name}-{secrets.token_hex(4)}"
