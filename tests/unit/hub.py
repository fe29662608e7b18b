"""A hub on this machine with faults: answers the addresses that huggingface_hub asks for."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REVISION = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Serves `files` of one repository; `fault` is what the next `times` requests for a file
    meet."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.fault, self.times, self.requests = files, "", 0, 0
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
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        match = re.match(r"/(?:datasets/)?[^/]+/[^/]+/resolve/([0-9a-f]{40})/(.+)$", request.path)
        if match is None or match[2] not in self.files:
            return self._send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
        data = self.files[match[2]]
        headers = {
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
            "X-Repo-Commit": match[1],
            "Accept-Ranges": "bytes",
        }
        if request.command == "HEAD":
            return self._send(request, 200, data, headers)
        self.requests += 1
        fault = self.fault if self.times > 0 else ""
        self.times -= 1
        if fault == "unavailable":
            return self._send(request, 503, b"busy", {})
        if fault == "hang":
            time.sleep(120)
        if fault == "truncate":
            headers["Content-Length"] = str(len(data))
            request.close_connection = True
            return self._send(request, 200, data[: len(data) // 2], headers)
        if fault == "corrupt":
            data = bytes([data[0] ^ 0xFF]) + data[1:]
        return self._send(request, 200, data, headers)

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
