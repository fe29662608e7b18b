"""Look up a repository of a hub with huggingface_hub: its revision, files and digests. Downloads go
to the hub's own cache, where the workflow's fetch finds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from isotropy.errors import IsotropyError, first_line
from isotropy.files import sha256_file
from isotropy.sources.clients import READ_SECONDS, Unavailable, limit_hub_client, with_back_off

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

        def download() -> str:
            return snapshot_download(
                self.id,
                repo_type=self.type,
                revision=self.revision,
                allow_patterns=[re.sub(r"([*?\[])", r"[\1]", name) for name in files],
            )

        return Path(_call_hub(download, self.id))

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
    info = _call_hub(
        lambda: hub.repo_info(
            name, repo_type=kind, revision=revision or None, timeout=READ_SECONDS
        ),
        text,
    )
    if not re.fullmatch("[0-9a-f]{40}", info.sha or ""):
        raise IsotropyError(f"{text}: the hub does not say which revision that is")
    tree = _call_hub(
        lambda: list(hub.list_repo_tree(name, repo_type=kind, revision=info.sha, recursive=True)),
        text,
    )
    files = {
        item.path: File(item.size, item.lfs.sha256 if item.lfs else None)
        for item in tree
        if isinstance(item, RepoFile)
    }
    card = getattr(info, "card_data", None)
    licence = getattr(card, "license", None)
    return Repository(name, kind, info.sha, files, licence if isinstance(licence, str) else None)


class _Refused(Exception):
    """The hub refused the request for good: it must not be repeated."""


def _call_hub(call: Callable[[], Any], text: str) -> Any:
    """Call the hub, with retries, and return its answer.

    Raises:
        IsotropyError: the hub's error in one sentence.
    """
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    def once() -> Any:
        try:
            return call()
        except (RepositoryNotFoundError, RevisionNotFoundError, OfflineModeIsEnabled) as error:
            raise _Refused from error  # so that it is not repeated

    try:
        try:
            return with_back_off(once, text)
        except _Refused as refused:
            raise (refused.__cause__ or refused) from None
    except HFValidationError as error:
        raise IsotropyError(f"{text}: not a name of a repository: {error}") from None
    except GatedRepoError:
        raise IsotropyError(
            f"{text}: its licence must be accepted on the hub first; then log in with `hf auth "
            "login`"
        ) from None
    except RepositoryNotFoundError:
        raise IsotropyError(f"{text}: the hub has no such repository") from None
    except RevisionNotFoundError:
        raise IsotropyError(f"{text}: the hub has no such revision") from None
    except (Unavailable, HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        reason = first_line(error)
        raise IsotropyError(
            f"{text}: the hub could not be read; is there a network? "
            f"({reason.removeprefix(f'{text}: ')})"
        ) from None
