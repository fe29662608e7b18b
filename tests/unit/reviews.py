"""Three reviews as a source, for tests that fetch it from origins of all kinds."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from replication.sources.fetch import FetchSpec, fetch
from replication.sources.formats import Row, content_sha256
from replication.sources.spec import FetchedSource, Source
from tests.unit.hub import REVISION

NEGATIVE, POSITIVE = b"dull .\nslow \xc2\x85 and flat .\n", b"bright .\n"
FILES = {"rt-polarity.neg": NEGATIVE, "rt-polarity.pos": POSITIVE}
ROWS = [Row(("dull .",), 0), Row(("slow \x85 and flat .",), 0), Row(("bright .",), 1)]
HUB = {"type": "hub", "repo": "owner/name", "repo_type": "dataset", "revision": REVISION}
MIRROR = {"type": "mirror"}


def source(*origins: dict[str, object], **content: object) -> Source:
    """Return a source with one content and the given origins."""
    fields = {"status": "original", "title": "three reviews", "format": "rt-polarity", "rows": 3}
    names = {name: name for name in FILES}
    return Source.model_validate(
        {
            **{"kind": "dataset", "licence": "none", "citation": "none"},
            "contents": {"all": fields | {"content_sha256": content_sha256(ROWS)} | content},
            "origins": [{"content": "all", "files": names, **origin} for origin in origins],
        }
    )


def run(
    spec_source: Source, tmp_path: Path, mirror: Path | None = None, **options: object
) -> tuple[FetchedSource, list[str], Path]:
    """Fetch a source into an empty folder; return it, the origins not used, and the folder."""
    destination = tmp_path / "out"
    destination.mkdir(exist_ok=True)
    spec = FetchSpec(
        id="reviews",
        source=spec_source,
        order=["hub", "url", "mirror", "package"],
        mirror=str(mirror) if mirror else None,
        trust_on_first_use=bool(options.get("trust")),
    )
    source, not_used = fetch(spec, tmp_path / "downloads", destination)
    return source, not_used, destination


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()
