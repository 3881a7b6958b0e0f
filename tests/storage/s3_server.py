"""A server on this machine that speaks S3's protocol (moto's), and fails on demand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

Fault = Callable[[str, str], int | None]
"""Given a request's method and path: the status to fail it with, or None to let it through."""

KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-secret", "AWS_DEFAULT_REGION": "us-east-1"}
_CODES = {403: "AccessDenied", 500: "InternalError", 503: "ServiceUnavailable"}


class S3Server:
    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self.fault: Fault | None = None
        self.log: list[tuple[str, str]] = []
        self.port = 0
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        self.start()

    def start(self) -> None:
        """Begin to listen, after a stop at the same port; what is stored stays."""
        self._server = make_server("127.0.0.1", self.port, self._answer, threaded=True)
        self.port = self._server.port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def pieces(self) -> list[str]:
        """The pieces of samples that were put so far."""
        return [path for method, path in self.log if method == "PUT" and "/samples-" in path]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {**KEYS, "AWS_ENDPOINT_URL": self.url}

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.log.append((method, path))
        status = self.fault(method, path) if self.fault is not None else None
        if status is None:
            return self._app(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        code = _CODES[status]
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
        content = b"" if method == "HEAD" else body
        start_response(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(content)))])
        return [content]
