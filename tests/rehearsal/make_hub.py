"""Write synthetic models and data for all sources of the full-scale study, and their registry.

python -m tests.rehearsal.make_hub FOLDER [--mirror MIRROR] [--port PORT]

    FOLDER/hub/{models,datasets}/<repo>/<file>   repositories, in the layout of the hub
    FOLDER/web/<host>/<path>                     files at addresses
    FOLDER/sources/*.yaml                        the registry: the same sources, new digests

Nothing is downloaded, and the same bytes come each time. `python -m tests.rehearsal.serve FOLDER`
serves it; `make rehearsal` does both and runs the study of config/rehearsal.yaml.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from isotropy.sources.sizes import ModelSize
from isotropy.sources.spec import Content, Source
from isotropy.workflow.config import load_study, read_configuration
from isotropy.workflow.plan import Plan
from tests.conftest import PROJECT
from tests.rehearsal import datasets, models, words
from tests.rehearsal.serve import PORT

STATUS = "rehearsal"
SYNTHETIC = "Synthetic, for a rehearsal; not data or weights of any publication"
PACKAGE_SOURCES = {
    "wordnet": ("wordnet.zip", {"data.noun": "dict/data.noun"}),
    "wordsim353": ("wordsim353.tsv", {"pairs.tsv": "wordsim353.tsv"}),
    "simlex999": ("simlex999.txt", {"pairs.tsv": "simlex999.txt"}),
    "brown": ("brown.zip", {"texts/": "brown/c[a-r][0-9][0-9]"}),
}
"""Sources available only from package registries: their file in the rehearsal, and its members."""

WRITERS_BY_FILE_NAME: dict[str, Callable[[], bytes]] = {
    "sentence_polarity.zip": datasets.polarity,
    "snli_1.0.zip": datasets.snli_archive,
    "wikitext-2-v1.zip": datasets.wikitext_archive,
    "222.zip": words.nlpl,
    "GoogleNews-vectors-negative300.bin.gz": words.google_news,
    "glove.6B.zip": lambda: words.glove("glove.6B.50d.txt"),
    "glove.twitter.27B.zip": lambda: words.glove("glove.twitter.27B.100d.txt"),
    "glove.840B.300d.zip": lambda: words.glove("glove.840B.300d.txt"),
    "full_dataset.zip": words.codwoe,
    "words.txt": words.supersense_words,
    "wordnet.zip": words.wordnet,
    "brown.zip": datasets.brown,
    "wordsim353.tsv": lambda: words.word_pairs(header=True),
    "simlex999.txt": lambda: words.word_pairs(header=False),
}
"""Functions that generate the file at a URL, by the last part of its path."""


class Made(NamedTuple):
    """An entry of the registry of the rehearsal.

    Attributes:
        entry: the fields of the entry.
        citations: its citations, by key.
    """

    entry: dict[str, Any]
    citations: dict[str, str]


class Maker:
    """Writes the files of sources, each file once.

    Args:
        folder: where they go.
        mirror: a mirror of official data, whose first rows are taken; None: all is synthetic.
        port: of the server, for the addresses in the registry.
    """

    def __init__(self, folder: Path, mirror: Path | None, port: int) -> None:
        self.folder, self.mirror, self.port = folder, mirror, port
        self.real = set[str]()  # sources with real rows

    def source(self, name: str, source: Source) -> Made:
        """Write the files from which a source of the full-scale study is fetched.

        Returns:
            The source's entry in the registry of the rehearsal.
        """
        origins = [o for o in source.origins if o.type in ("hub", "url")]
        made = [self._origin(name, source, origin) for origin in origins]
        if not made:
            file, members = PACKAGE_SOURCES[name]
            content = next(iter(source.contents))
            made = [self._address(f"packages/{file}", content, members)]
        real = name in self.real
        contents = {
            origin["content"]: self._content(source.contents[origin["content"]], origin, real)
            for origin in made
        }
        citation = name if real else "synthetic"
        entry: dict[str, Any] = {
            "licence": source.licence if real else "none needed: synthetic",
            "citation": citation,
            "kind": source.kind,
        }
        if source.encoder is not None:
            entry["encoder"] = source.encoder.model_dump()
        return Made(
            entry | {"contents": contents, "origins": made},
            {citation: source.citation if real else SYNTHETIC},
        )

    def _origin(self, name: str, source: Source, origin: Any) -> dict[str, Any]:
        if origin.type == "url":
            parts = urlsplit(origin.url)
            path = f"{parts.hostname}{parts.path}"
            return self._address(path, origin.content, dict(origin.files))
        repository = self.folder / f"hub/{origin.repo_type}s/{origin.repo}"
        if source.kind == "model":
            if not repository.is_dir():
                models.write(name, repository)
        else:
            for path in origin.files.values():
                data = datasets.first_rows_of_mirror(self.mirror, origin.repo, path)
                if data is None:
                    data = datasets.synthetic_file(origin.repo, path)
                else:
                    self.real.add(name)
                _write(repository / path, data)
        fields: dict[str, Any] = origin.model_dump(include={"type", "content", "repo", "revision"})
        return fields | {"files": dict(origin.files), "mirror": False}

    def _address(self, path: str, content: str, members: dict[str, str]) -> dict[str, Any]:
        file = self.folder / "web" / path
        if not file.is_file():
            _write(file, WRITERS_BY_FILE_NAME[file.name]())
        url = f"http://127.0.0.1:{self.port}/web/{path}"
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        return {"type": "url", "content": content, "url": url, "sha256": sha256, "files": members}

    def _content(self, content: Content, origin: dict[str, Any], real: bool) -> dict[str, Any]:
        """Return a content's registry fields: status `rehearsal`, and digests of the new files."""
        copied_fields = {"title", "format", "text_fields", "label_field", "label_names"}
        fields = content.model_dump(include=copied_fields, exclude_defaults=True) | {
            "status": STATUS
        }
        description = f"first {datasets.ROWS} rows" if real else "synthetic replacement"
        fields["title"] = f"{description} of {content.title}"
        if origin["type"] == "hub":
            kind = "models" if content.format is None else "datasets"
            repository = self.folder / "hub" / kind / origin["repo"]
            fields["expect"] = {
                "files": {
                    name: hashlib.sha256((repository / path).read_bytes()).hexdigest()
                    for name, path in origin["files"].items()
                }
            }
        return fields


def make(folder: Path, mirror: Path | None, port: int = PORT) -> None:
    """Write the hub, the files at addresses and the registry; existing files are replaced.

    Args:
        folder: where they go.
        mirror: a mirror of official data, whose first rows are taken; None: all is synthetic.
        port: of the server that will serve them, for the addresses in the registry.
    """
    for part in ("hub", "web", "sources"):
        shutil.rmtree(folder / part, ignore_errors=True)
    maker = Maker(folder, mirror, port)
    registries: dict[str, dict[str, Any]] = {}
    for name, source, size in paper_sources():
        made = maker.source(name, source)
        kind = source.kind
        stem = {"model": "models", "vectors": "vectors", "lexicon": "lexicons"}.get(
            kind, "datasets"
        )
        registry = registries.setdefault(stem, {"sources": {}})
        registry["sources"][name] = made.entry | size
        cited = registries.setdefault("models", {"sources": {}})
        cited["citations"] = cited.get("citations", {}) | made.citations
    for stem, registry in registries.items():
        text = yaml.safe_dump(registry, sort_keys=True, allow_unicode=True)
        _write(folder / f"sources/{stem}.yaml", text.encode())


def paper_sources() -> Iterator[tuple[str, Source, dict[str, Any]]]:
    """Yield name, source and registry fields for the size of each source that the full-scale study
    fetches or names, in order of their names. Only models have a size: that of the small model.
    """
    files = [PROJECT / "config.yaml", PROJECT / "config/paper.yaml"]
    study = load_study(read_configuration(files, {}), PROJECT)
    fetched = [s for s in Plan(study, PROJECT, PROJECT).stems() if s.startswith("fetch/")]
    named = {
        value
        for dataset in study.config.datasets.values()
        for role in ("source", "lexicon", "vectors", "word_list")
        if (value := getattr(dataset, role, None)) is not None
    }
    for name in sorted({stem.split("/")[1] for stem in fetched} | named):
        source = study.registry.sources[name]
        size = study.registry.sizes.get(name)
        if isinstance(size, ModelSize):
            width = models.WIDTH
            small = size.model_copy(update={"width": width, "weights": 1.0, "gigabytes": 0.01})
            yield name, source, {"size": small.model_dump()}
        else:
            yield name, source, {}


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mirror", type=Path)
    parser.add_argument("--port", type=int, default=PORT)
    given = parser.parse_args()
    make(given.folder, given.mirror, given.port)
