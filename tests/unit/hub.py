"""A local server with selectable faults that answers the requests of huggingface_hub."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

REVISION = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Serves `files` of one repository. The next `times` requests for a file show `fault`: "hang",
    no answer; "truncate", half of the file; "corrupt", a wrong first byte."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.fault, self.times = files, "", 0
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

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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
        fault = ""
        if request.command != "HEAD":
            fault = self.fault if self.times > 0 else ""
            self.times -= 1
        if fault == "hang":
            time.sleep(120)
        if fault == "truncate":
            headers["Content-Length"] = str(len(data))
            request.close_connection = True
            data = data[: len(data) // 2]
        if fault == "corrupt":
            data = bytes([data[0] ^ 0xFF]) + data[1:]
        return self._send(request, 200, data, headers)

    def _api_answer(self, path: str) -> object:
        """Return the API's answer about the repository: its revision, or its files."""
        if "/tree/" not in path:
            return {"id": "owner/name", "sha": REVISION, "cardData": {"license": "mit"}}
        return [_tree_entry(name, data) for name, data in self.files.items()]

    @staticmethod
    def _send(
        request: BaseHTTPRequestHandler, status: int, data: bytes, headers: dict[str, str]
    ) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data)


@contextmanager
def serving(files: dict[str, bytes], cache: Path) -> Iterator[Hub]:
    """Make huggingface_hub use a local hub, with a separate cache, until the end of the block."""
    with closing(Hub(files)) as hub, pytest.MonkeyPatch.context() as patch:
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setattr(constants, "ENDPOINT", hub.url)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(constants, "HF_HUB_CACHE", str(cache))
        yield hub


def _tree_entry(name: str, data: bytes) -> dict[str, object]:
    """Return a file's entry in the API's tree; weights are listed as LFS files with SHA-256."""
    entry = {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
    if name.endswith(".safetensors"):
        digest = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 130}
    return entry
