"""Build a local conda channel from the packages that this Python has installed, for tests without a
network.

Packages have conda's names, and the versions and dependencies of the installed ones. `python` is a
link to this interpreter with an empty site-packages folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
import tarfile
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
from packaging.requirements import Requirement

from replication.provenance.environment import PYPI_NAME, normalized_name

CONDA_NAME = {pypi: conda for conda, pypi in PYPI_NAME.items()}
CONDA_NAME |= {"huggingface-hub": "huggingface_hub"}
DEVELOPMENT_FILES = {"tests", "include", ".h", ".pyi", ".pxd"}
"""Folders and suffixes of files that only developers need, half of all: left out."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = f"lib/python{PYTHON}/site-packages"


def make_channel(folder: Path, wanted: set[str]) -> None:
    """Write a channel with the packages of these conda names and all their dependencies."""
    from rattler.index import index_fs

    (folder / "linux-64").mkdir(parents=True)
    (folder / "noarch").mkdir()
    _python(folder / "linux-64")
    waiting = {normalized_name(PYPI_NAME.get(name, name)) for name in wanted - {"python"}}
    done = set[str]()
    while waiting:
        name = waiting.pop()
        done.add(name)
        waiting |= _package(folder / "linux-64", metadata.distribution(name)) - done
    asyncio.run(index_fs(folder, force=True))


def _package(folder: Path, distribution: metadata.Distribution) -> set[str]:
    """Write a package from an installed distribution; return the names of its requirements."""
    needed = [Requirement(text) for text in distribution.requires or []]
    needed = [r for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    sources = {
        str(f): Path(str(distribution.locate_file(f)))
        for f in distribution.files or []
        if not str(f).startswith("..") and not DEVELOPMENT_FILES & {*f.parts, f.suffix}
    }
    files = {f"{PACKAGES}/{name}": path for name, path in sources.items() if path.is_file()}
    depends = [f"python {PYTHON}.*"]
    depends += [f"{_conda(r.name)} {r.specifier}".strip() for r in needed]
    name = _conda(distribution.name)
    version = distribution.version.split("+")[0]  # a build for CPUs calls itself 2.13.0+cpu
    _write(folder, name, version, f"py{PYTHON.replace('.', '')}_0", depends, files)
    return {normalized_name(r.name) for r in needed}


def _python(folder: Path) -> None:
    base = Path(sys.base_prefix) / "bin" / f"python{PYTHON}"
    with tempfile.TemporaryDirectory() as temporary:
        files = {}
        for name in ("python", "python3", f"python{PYTHON}"):
            files[f"bin/{name}"] = Path(temporary) / name
            files[f"bin/{name}"].symlink_to(base)
        home = f"home = {base.parent}\ninclude-system-site-packages = false\n"
        readme = f"{PACKAGES}/README.txt"
        for name, text in (("pyvenv.cfg", home), (readme, "packages of an environment\n")):
            files[name] = Path(temporary) / Path(name).name
            files[name].write_text(text)
        _write(folder, "python", sys.version.split()[0], "0_link", [], files)


def _conda(name: str) -> str:
    return CONDA_NAME.get(normalized_name(name), normalized_name(name))


def _round_mtime_down(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Round a time stamp down to seconds, as compiled modules store it: otherwise each environment
    would compile its modules again."""
    member.mtime = int(member.mtime)
    return member


def _write(
    folder: Path, name: str, version: str, build: str, depends: list[str], files: dict[str, Path]
) -> None:
    """Write a .conda package: a zip of an archive of files and an archive of metadata."""
    index: dict[str, Any] = {"name": name, "version": version, "build": build, "build_number": 0}
    index |= {"depends": depends, "arch": "x86_64", "platform": "linux", "subdir": "linux-64"}
    index["timestamp"] = 0
    paths = []
    for name_in_package, path in sorted(files.items()):
        data = b"" if path.is_symlink() else path.read_bytes()
        entry: dict[str, Any] = {"_path": name_in_package, "size_in_bytes": len(data)}
        entry["path_type"] = "softlink" if path.is_symlink() else "hardlink"
        paths.append(entry | {"sha256": hashlib.sha256(data).hexdigest()})
    metadata_texts = {
        "info/index.json": json.dumps(index),
        "info/about.json": "{}",
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}),
        "info/files": "".join(f"{name_in_package}\n" for name_in_package in sorted(files)),
    }
    stem = f"{name}-{version}-{build}"
    with (
        tempfile.TemporaryDirectory() as temporary,
        zipfile.ZipFile(folder / f"{stem}.conda", "w") as package,
    ):
        metadata_files = {}
        for name_in_package, text in metadata_texts.items():
            metadata_files[name_in_package] = Path(temporary) / re.sub(r"\W", "_", name_in_package)
            metadata_files[name_in_package].write_text(text)
        package.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        for part, content in (("pkg", files), ("info", metadata_files)):
            archive = Path(temporary) / f"{part}.tar.zst"
            with (
                pa.CompressedOutputStream(str(archive), "zstd") as out,
                tarfile.open(fileobj=out, mode="w|") as tar,
            ):
                for name_in_package, path in sorted(content.items()):
                    tar.add(path, name_in_package, filter=_round_mtime_down)
            package.write(archive, f"{part}-{stem}.tar.zst")
