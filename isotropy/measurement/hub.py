"""Download a model's folder from a hub with huggingface_hub, which caches it."""

from __future__ import annotations

import re
from pathlib import Path

from isotropy.errors import IsotropyError, first_line

HUB_ID = re.compile(r"(?:hub:)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
"""Patterns of the files to download; no pickles, no code."""


def is_hub_id(text: str) -> bool:
    """Whether a text has the form ORG/NAME or ORG/NAME@REVISION."""
    return HUB_ID.fullmatch(text) is not None


def fetch_model(text: str) -> tuple[Path, str]:
    """Download a model; return its folder and its revision. A cached copy is used if the hub cannot
    be reached, or if the revision is a commit.

    Args:
        text: ORG/NAME or ORG/NAME@REVISION.

    Raises:
        IsotropyError: no such repository or revision, or no answer and no copy.
    """
    from isotropy.sources.clients import limit_hub_client

    limit_hub_client()
    match = HUB_ID.fullmatch(text)
    assert match is not None
    repo, revision = match[1], match[2]
    pinned = revision is not None and re.fullmatch("[0-9a-f]{40}", revision) is not None
    folder = (_find_cached(repo, revision) if pinned else None) or _download(repo, revision)
    return folder, folder.name


def _find_cached(repo: str, revision: str | None) -> Path | None:
    """The cached copy of a revision, if it has a configuration and weights."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repo, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    complete = any(folder.rglob("*.safetensors")) and any(folder.rglob("config.json"))
    return folder if complete else None


def _download(repo: str, revision: str | None) -> Path:
    """Download the hub's current version; if the hub does not answer, use a cached copy."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    from isotropy.sources.clients import Unavailable, with_back_off

    def download() -> str:
        try:
            return snapshot_download(repo, revision=revision, allow_patterns=list(FILES))
        except LocalEntryNotFoundError as error:  # no connection at all: not retried
            raise Unavailable(str(error)) from error

    try:
        return Path(with_back_off(download, repo))
    except HFValidationError as error:
        raise IsotropyError(f"{repo}: not a name of a repository: {error}") from None
    except GatedRepoError:
        raise IsotropyError(
            f"{repo}: its licence must be accepted on the hub first; then log in with `hf auth "
            "login`"
        ) from None
    except RepositoryNotFoundError:
        raise IsotropyError(
            f"{repo}: no such file or folder here, and no such model on the hub"
        ) from None
    except RevisionNotFoundError:
        raise IsotropyError(f"{repo}: the hub has no revision {revision!r}") from None
    except (Unavailable, HfHubHTTPError) as error:
        if (folder := _find_cached(repo, revision)) is not None:
            return folder
        reason = first_line(error)
        raise IsotropyError(
            f"{repo}: no such file or folder here, and the hub could not be read ({reason}); run "
            "the same command again to resume the download"
        ) from None
