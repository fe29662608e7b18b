"""A local server with selectable faults that answers the requests of huggingface_hub."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

REVISION = "0123456789abcdef0123456789abcdef01234567"

STATUS = {
    "unavailable": 503,
    "server error": 500,
    "too many requests": 429,
    "unauthorized": 401,
    "forbidden": 403,
    "gone": 404,
}
FAULTS = [
    *STATUS,
    *("hang", "drop", "garbage", "loop", "slow"),
    *("truncate", "long", "short", "empty", "page", "corrupt"),
]
"""Faults of a request for a file: an error status; no answer, an answer that is not HTTP, endless
redirects, a slow answer; wrong content or length."""


class Hub:
    """Serves `files` of one repository; the next `times` requests for a file show `fault`, with
    `heads` also requests for headers."""

    def __init__(self, files: dict[str, bytes], port: int = 0) -> None:
        self.files, self.fault, self.times, self.requests = files, "", 0, 0
        self.heads = False
        self.api: tuple[int, str] | None = None  # status, error code of all API answers
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                hub.answer(self)

            def do_GET(self) -> None:
                hub.answer(self)

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        # Clients that close a connection are no errors
        self.server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if request.path.startswith("/api/") and self.api is not None:
            status, code = self.api
            return self._send(request, status, b"{}", {"X-Error-Code": code})
        if request.path.startswith(("/api/models/", "/api/datasets/")):
            return self._send(request, 200, json.dumps(self._api_answer(request.path)).encode(), {})
        match = re.match(r"/(?:datasets/)?[^/]+/[^/]+/resolve/([0-9a-f]{40})/(.+)$", request.path)
        if match is None or match[2] not in self.files:
            return self._send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
        data = self.files[match[2]]
        headers = {
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
            "X-Repo-Commit": match[1],
            "Accept-Ranges": "bytes",
        }
        if request.command == "HEAD" and not self.heads:
            return self._send(request, 200, data, headers)
        self.requests += 1
        fault = self.fault if self.times > 0 else ""
        self.times -= 1
        if not fault:
            return self._send(request, 200, data, headers)
        return self._fail(request, fault, data, headers)

    def _api_answer(self, path: str) -> object:
        """Return the API's answer about the repository: its revision, or its files."""
        if "/tree/" not in path:
            return {"id": "owner/name", "sha": REVISION, "cardData": {"license": "mit"}}
        return [_tree_entry(name, data) for name, data in self.files.items()]

    def _fail(
        self, request: BaseHTTPRequestHandler, fault: str, data: bytes, headers: dict[str, str]
    ) -> None:
        if fault in STATUS:
            return self._send(request, STATUS[fault], b"no", {"Retry-After": "0"})
        if fault == "hang":
            time.sleep(120)
        if fault == "drop":
            request.close_connection = True
            return None
        if fault == "garbage":
            request.close_connection = True
            request.wfile.write(b"\x00\xff" * 50)
            return None
        if fault == "loop":
            return self._send(request, 302, b"", {"Location": request.path})
        if fault == "slow":
            return self._send(request, 200, data, headers, pause=0.05)
        if fault in ("truncate", "long"):
            headers["Content-Length"] = str(len(data) + (7 if fault == "long" else 0))
            request.close_connection = True
            return self._send(
                request, 200, data[: len(data) // (2 if fault == "truncate" else 1)], headers
            )
        changed = {
            "corrupt": bytes([data[0] ^ 0xFF]) + data[1:],
            "short": data[: len(data) // 2],
            "empty": b"",
            "page": b"<html>Please sign in</html>",
        }
        return self._send(request, 200, changed.get(fault, data), headers)

    @staticmethod
    def _send(
        request: BaseHTTPRequestHandler,
        status: int,
        data: bytes,
        headers: dict[str, str],
        pause: float = 0.0,
    ) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD":
            for i in range(0, len(data), 1 if pause else max(1, len(data))):
                request.wfile.write(data[i : i + 1] if pause else data)
                time.sleep(pause)


def use(hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make huggingface_hub use a local hub, with a separate cache and short waits."""
    from huggingface_hub import constants

    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))


def _tree_entry(name: str, data: bytes) -> dict[str, object]:
    """Return a file's entry in the API's tree; weights are listed as LFS files with SHA-256."""
    entry = {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
    if name.endswith(".safetensors"):
        digest = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 130}
    return entry
