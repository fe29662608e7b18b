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
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote, urlsplit

from isotropy.errors import IsotropyError
from tests.unit.hub import Hub

PORT = 8421
RESOLVED = re.compile(
    r"/(?P<datasets>datasets/)?(?P<repo>[^/]+/[^/]+)/resolve/(?P<at>[0-9a-f]{40})/"
)


class FolderHub(Hub):
    """A hub with all files of one folder, without answers of the API."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder.resolve()
        super().__init__({}, port)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = unquote(urlsplit(request.path).path)
        headers = {}
        if match := RESOLVED.match(path):
            kind = "datasets" if match["datasets"] else "models"
            file = self.folder / "hub" / kind / match["repo"] / path[match.end() :]
            headers["X-Repo-Commit"] = match["at"]
        else:
            file = self.folder / path.lstrip("/")
        if not file.resolve().is_relative_to(self.folder) or not file.is_file():
            return self._send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
        data = file.read_bytes()
        headers["ETag"] = f'"{hashlib.sha256(data).hexdigest()}"'
        return self._send(request, 200, data, headers)


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
    try:
        hub = FolderHub(folder, port)
    except OSError as error:
        raise IsotropyError(
            f"port {port} cannot be used ({error.strerror}): does another rehearsal run here?"
        ) from error
    try:
        yield hub.url
    finally:
        hub.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=PORT)
    given = parser.parse_args()
    with served(given.folder, given.port) as address:
        print(f"{given.folder} is served at {address}; end with Ctrl-C", flush=True)
        threading.Event().wait()
