"""A model's folder from a hub, by huggingface_hub, which keeps a copy."""

from __future__ import annotations

import re
from pathlib import Path

from isotropy.errors import IsotropyError
from isotropy.sources.clients import Unavailable, limit_hub_client, with_back_off

HUB_ID = re.compile(r"(?:hub:)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
"""What a model is read from; no pickle, no code."""


def is_hub_id(text: str) -> bool:
    """Whether a text has the form ORG/NAME or ORG/NAME@REVISION."""
    return HUB_ID.fullmatch(text) is not None


def fetch_model(text: str) -> tuple[Path, str]:
    """Folder of a model, and the revision that it has; a copy in the hub's cache is used where the
    hub cannot be reached, or where the revision is a commit.

    Args:
        text: ORG/NAME or ORG/NAME@REVISION.

    Raises:
        IsotropyError: no such repository or revision, or no answer and no copy.
    """
    limit_hub_client()
    match = HUB_ID.fullmatch(text)
    assert match is not None
    repo, revision = match[1], match[2]
    pinned = revision is not None and re.fullmatch("[0-9a-f]{40}", revision) is not None
    folder = (_cached(repo, revision) if pinned else None) or _downloaded(repo, revision)
    return folder, folder.name


def _cached(repo: str, revision: str | None) -> Path | None:
    """The copy of a revision in the cache, if it is complete enough to be read."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repo, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    whole = any(folder.rglob("*.safetensors")) and any(folder.rglob("config.json"))
    return folder if whole else None


def _downloaded(repo: str, revision: str | None) -> Path:
    """What the hub has now; where it does not answer, the copy of before."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    def download() -> str:
        try:
            return snapshot_download(repo, revision=revision, allow_patterns=list(FILES))
        except LocalEntryNotFoundError as error:  # no connection at all: no use in asking again
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
        if (folder := _cached(repo, revision)) is not None:
            return folder
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise IsotropyError(
            f"{repo}: no such file or folder here, and the hub could not be read ({reason}); run "
            "the same command again: a download goes on where it was"
        ) from None
