"""Archives that are damaged, hostile, or of an unusual kind."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from isotropy.errors import IsotropyError
from isotropy.read.archives import CHUNK, MIN_LIMIT, extract, unpack_gzip
from replication.sources import clients
from tests.unit.reviews import FILES, zipped


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def build_package(folder: Path, archive: Path) -> None:
    """Pack a folder by dpkg-deb, with a script that must not run when it is unpacked."""
    (folder / "DEBIAN").mkdir()
    (folder / "DEBIAN/control").write_text(
        "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n"
    )
    (folder / "DEBIAN/preinst").write_text(f"#!/bin/sh\ntouch {archive.parent}/ran\n")
    (folder / "DEBIAN/preinst").chmod(0o755)
    command = ["dpkg-deb", "-Zgzip", "-z1", "--build", folder, archive]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no dpkg-deb on this system")


@pytest.mark.parametrize("name", ["b.TAR.BZ2", "b.tar.bz2"])
def test_archive_suffixes_are_case_insensitive(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / name, "w:bz2") as packed:
        for member, data in FILES.items():
            add(packed, member, data)
    (tmp_path / "out").mkdir()
    clients._unpack(tmp_path / name, {n: n for n in FILES}, tmp_path / "out")
    assert contents(tmp_path / "out") == FILES


def test_several_files_need_an_archive(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"BZh9")
    with pytest.raises(IsotropyError, match="2 files"):
        clients._unpack(tmp_path / "data", {n: n for n in FILES}, tmp_path)


def test_damaged_member_is_rejected(tmp_path: Path) -> None:
    """A flipped bit in the compressed stream of an otherwise good zip."""
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("words", "tea and coffee " * 500)
    data = bytearray(archive.read_bytes())
    for i in range(40, 60):
        data[i] ^= 0xFF
    archive.write_bytes(data)
    with pytest.raises(IsotropyError, match="damaged"):
        extract(archive, {"words": "words"}, tmp_path)


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil"])
@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_archive_with_paths_outside_is_rejected(tmp_path: Path, name: str, kind: str) -> None:
    """One such member is enough to reject the archive, and nothing is written."""
    archive = tmp_path / f"a.{kind}"
    if kind == "zip":
        archive.write_bytes(zipped({"good": b"1", name: b"2"}))
    else:
        with tarfile.open(archive, "w:gz") as tar:
            for member in ("good", name):
                add(tar, member, b"")
    target = tmp_path / "in" / "side"
    target.mkdir(parents=True)
    with pytest.raises(IsotropyError, match="outside its folder"):
        extract(archive, {"good": "good"}, target)
    assert not list(target.iterdir())
    assert not list(tmp_path.rglob("evil"))


def test_members_are_extracted_by_pattern(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"p/ca01": b"1", "p/cb02": b"2", "p/README": b"3"}))
    extract(archive, {"texts/": "p/c[ab][0-9][0-9]"}, tmp_path)
    assert contents(tmp_path / "texts") == {"ca01": b"1", "cb02": b"2"}
    with pytest.raises(IsotropyError, match="no member"):
        extract(archive, {"texts/": "p/x*"}, tmp_path)


def test_link_in_tar_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        link = tarfile.TarInfo("good")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(IsotropyError, match="not a plain file"):
        extract(tmp_path / "a.tar", {"good": "good"}, tmp_path)


def test_debian_package_is_unpacked_without_scripts(tmp_path: Path) -> None:
    (tmp_path / "root/usr/share").mkdir(parents=True)
    (tmp_path / "root/usr/share/data").write_text("words")
    build_package(tmp_path / "root", tmp_path / "a.deb")
    extract(tmp_path / "a.deb", {"data": "usr/share/data"}, tmp_path)
    assert (tmp_path / "data").read_text() == "words"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "deb", "gz"])
def test_decompression_bombs_are_rejected(tmp_path: Path, kind: str) -> None:
    """An archive of 150 kB unpacks to 150 MB; no more than the limit is written."""
    archive, target = tmp_path / f"a.{kind}", tmp_path / "out"
    (tmp_path / "root").mkdir()
    target.mkdir()
    content = tmp_path / "root/zeros"
    with content.open("wb") as stream:
        stream.truncate(MIN_LIMIT + 50_000_000)
    if kind == "zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
            packed.write(content, "zeros")
    elif kind == "tar.gz":
        with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
            packed.add(content, "zeros")
    elif kind == "gz":
        archive.write_bytes(gzip.compress(content.read_bytes(), 1))
    else:
        build_package(tmp_path / "root", archive)
    assert archive.stat().st_size < 2_000_000
    with pytest.raises(IsotropyError, match="more than 100,000,000"):
        if kind == "gz":
            unpack_gzip(archive, target / "zeros")
        else:
            extract(archive, {"zeros": "zeros"}, target)
    assert sum(p.stat().st_size for p in target.iterdir()) <= MIN_LIMIT + 2 * CHUNK
