"""Serve the files of `make_hub`: as a hub for huggingface_hub, and at plain URLs.

python -m tests.rehearsal.serve FOLDER [--port PORT]

The server listens on the loopback interface only, and serves only files below FOLDER.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from isotropy.errors import IsotropyError

PORT = 8421
RESOLVED = re.compile(
    r"/(?P<datasets>datasets/)?(?P<repo>[^/]+/[^/]+)/resolve/(?P<at>[0-9a-f]{40})/"
)


class Handler(BaseHTTPRequestHandler):
    """Serves the files of one folder."""

    protocol_version = "HTTP/1.1"
    folder: Path

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, *, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = {}
        if match := RESOLVED.match(path):
            kind = "datasets" if match["datasets"] else "models"
            file = self.folder / "hub" / kind / match["repo"] / path[match.end() :]
            headers["X-Repo-Commit"] = match["at"]
        else:
            file = self.folder / path.lstrip("/")
        inside = file.resolve().is_relative_to(self.folder)
        if not inside or not file.is_file():
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = file.read_bytes()
        self.send_response(200)
        headers |= {
            "ETag": f'"{hashlib.sha256(data).hexdigest()}"',
            "Content-Length": str(len(data)),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(data)


@contextmanager
def served(folder: Path, port: int = PORT) -> Iterator[str]:
    """Serve a folder while the block runs.

    Args:
        folder: contains `hub/` and `web/`.
        port: port to listen on; 0: any free port.

    Yields:
        The address of the server.

    Raises:
        IsotropyError: the port is taken.
    """
    handler = type("Handler", (Handler,), {"folder": folder.resolve()})
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise IsotropyError(
            f"port {port} cannot be used ({error.strerror}): does another rehearsal run here?"
        ) from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=PORT)
    given = parser.parse_args()
    with served(given.folder, given.port) as address:
        print(f"{given.folder} is served at {address}; end with Ctrl-C", flush=True)
        threading.Event().wait()
