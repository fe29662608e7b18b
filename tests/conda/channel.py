"""A conda channel on this disk, out of the packages that this Python has installed: for tests,
where no channel is reached.

Names are conda's, versions and dependencies those of the installed packages. `python` is a link to
this interpreter with a site-packages of its own.
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

import pyarrow as pa
from packaging.requirements import Requirement

from isotropy.provenance.environment import PYPI_NAME, normalized_name

CONDA_NAME = {pypi: conda for conda, pypi in PYPI_NAME.items()} | {
    "huggingface-hub": "huggingface_hub"
}
NOT_RUN = {"tests", "include", ".h", ".pyi", ".pxd"}
"""Folders and suffixes of what packages hold for developers, half of their files: left out."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = f"lib/python{PYTHON}/site-packages"


def make_channel(folder: Path, wanted: set[str]) -> None:
    """Packages by their conda names, and all that they need, as a channel."""
    from rattler.index import index_fs

    (folder / "linux-64").mkdir(parents=True)
    (folder / "noarch").mkdir()
    _python(folder / "linux-64")
    waiting, done = (
        {normalized_name(PYPI_NAME.get(name, name)) for name in wanted - {"python"}},
        set[str](),
    )
    while waiting:
        name = waiting.pop()
        done.add(name)
        waiting |= _package(folder / "linux-64", metadata.distribution(name)) - done
    asyncio.run(index_fs(folder, force=True))


def _package(folder: Path, distribution: metadata.Distribution) -> set[str]:
    """Pack what is installed; give the names of what it needs."""
    needed = [Requirement(text) for text in distribution.requires or []]
    needed = [r for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    found = {
        str(f): Path(str(distribution.locate_file(f)))
        for f in distribution.files or []
        if not str(f).startswith("..") and not NOT_RUN & {*f.parts, f.suffix}
    }
    files = {f"{PACKAGES}/{name}": path for name, path in found.items() if path.is_file()}
    depends = [f"python {PYTHON}.*"]
    depends += [f"{_conda(r.name)} {r.specifier}".strip() for r in needed]
    name = _conda(distribution.name)
    version = distribution.version.split("+")[0]  # a build for CPUs calls itself 2.13.0+cpu
    _write(folder, name, version, f"py{PYTHON.replace('.', '')}_0", depends, files)
    return {normalized_name(r.name) for r in needed}


def _python(folder: Path) -> None:
    base = Path(sys.base_prefix) / "bin" / f"python{PYTHON}"
    with tempfile.TemporaryDirectory() as there:
        files = {}
        for name in ("python", "python3", f"python{PYTHON}"):
            (Path(there) / name).symlink_to(base)
            files[f"bin/{name}"] = Path(there) / name
        (Path(there) / "pyvenv.cfg").write_text(
            f"home = {base.parent}\ninclude-system-site-packages = false\n"
        )
        (Path(there) / "README.txt").write_text("packages of an environment\n")
        files |= {
            "pyvenv.cfg": Path(there) / "pyvenv.cfg",
            f"{PACKAGES}/README.txt": Path(there) / "README.txt",
        }
        _write(folder, "python", sys.version.split()[0], "0_link", [], files)


def _conda(name: str) -> str:
    return CONDA_NAME.get(normalized_name(name), normalized_name(name))


def _in_seconds(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Time stamps as compiled modules have them, rounded down: others would be compiled anew in
    each environment."""
    member.mtime = int(member.mtime)
    return member


def _write(
    folder: Path, name: str, version: str, build: str, depends: list[str], files: dict[str, Path]
) -> None:
    """A package in conda's format: a zip of two archives, one of them about the other."""
    index = {
        "name": name,
        "version": version,
        "build": build,
        "build_number": 0,
        "depends": depends,
    }
    index |= {"arch": "x86_64", "platform": "linux", "subdir": "linux-64", "timestamp": 0}
    paths = []
    for where, path in sorted(files.items()):
        link = path.is_symlink()
        data = b"" if link else path.read_bytes()
        kind = "softlink" if link else "hardlink"
        paths.append(
            {
                "_path": where,
                "path_type": kind,
                "sha256": hashlib.sha256(data).hexdigest(),
                "size_in_bytes": len(data),
            }
        )
    about = {
        "info/index.json": json.dumps(index),
        "info/about.json": "{}",
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}),
        "info/files": "".join(f"{where}\n" for where in sorted(files)),
    }
    stem = f"{name}-{version}-{build}"
    with (
        tempfile.TemporaryDirectory() as there,
        zipfile.ZipFile(folder / f"{stem}.conda", "w") as package,
    ):
        texts = {}
        for where, text in about.items():
            texts[where] = Path(there) / re.sub(r"\W", "_", where)
            texts[where].write_text(text)
        package.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
        for part, content in (("pkg", files), ("info", texts)):
            archive = Path(there) / f"{part}.tar.zst"
            with (
                pa.CompressedOutputStream(str(archive), "zstd") as out,
                tarfile.open(fileobj=out, mode="w|") as tar,
            ):
                for where, path in sorted(content.items()):
                    tar.add(path, where, filter=_in_seconds)
            package.write(archive, f"{part}-{stem}.tar.zst")
