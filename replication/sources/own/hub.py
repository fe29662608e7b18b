"""Look up a repository of a hub with huggingface_hub: its revision, files and digests. Downloads go
to the hub's own cache, where the workflow's fetch finds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file
from isotropy.models.hub import READ_SECONDS, hub_errors, limit_hub_client

HUB = "hub:"
Type = Literal["model", "dataset"]


class File(NamedTuple):
    """A file of a repository.

    Attributes:
        size: in bytes.
        sha256: its digest; None where the hub does not state it.
    """

    size: int
    sha256: str | None


@dataclass(frozen=True)
class Repository:
    """A repository at one revision.

    Attributes:
        id: ORG/NAME.
        type: model or dataset.
        revision: the commit.
        files: by path.
        licence: as stated on its card; None where it is not.
    """

    id: str
    type: Type
    revision: str
    files: dict[str, File]
    licence: str | None

    def folder(self, files: Iterable[str]) -> Path:
        """Download files that are not cached yet; return the folder of the hub's cache that holds
        them.
        """
        from huggingface_hub import snapshot_download

        patterns = [re.sub(r"([*?\[])", r"[\1]", name) for name in files]
        options: dict[str, Any] = {"repo_type": self.type, "revision": self.revision}
        with hub_errors(self.id):
            return Path(snapshot_download(self.id, allow_patterns=patterns, **options))

    def sha256(self, file: str) -> str:
        """Digest of a file, which is downloaded if the hub does not state its digest."""
        digest = self.files[file].sha256
        return digest if digest is not None else sha256_file(self.folder([file]) / file)


def find_repository(text: str, kind: Type) -> Repository:
    """Look up a repository, given as `hub:ORG/NAME` or `hub:ORG/NAME@REVISION`.

    Raises:
        IsotropyError: no such repository or revision, or no answer.
    """
    name, _, revision = text.removeprefix(HUB).partition("@")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise IsotropyError(
            f"expected hub:ORG/NAME or hub:ORG/NAME@REVISION, such as hub:openai-community/gpt2, "
            f"got {text!r}"
        )
    limit_hub_client()
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    hub = HfApi()
    with hub_errors(text):
        info = hub.repo_info(name, repo_type=kind, revision=revision or None, timeout=READ_SECONDS)
    if not re.fullmatch("[0-9a-f]{40}", info.sha or ""):
        raise IsotropyError(f"{text}: the hub does not say which revision that is")
    with hub_errors(text):
        tree = list(hub.list_repo_tree(name, repo_type=kind, revision=info.sha, recursive=True))
    files = {
        item.path: File(item.size, item.lfs.sha256 if item.lfs else None)
        for item in tree
        if isinstance(item, RepoFile)
    }
    card = getattr(info, "card_data", None)
    licence = getattr(card, "license", None)
    return Repository(
        name, kind, str(info.sha), files, licence if isinstance(licence, str) else None
    )
