"""Ask a hub by huggingface_hub, which retries, resumes and caches; the time-outs and the errors of
all that ask one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isotropy.errors import IsotropyError, first_line

HUB_ID = re.compile(r"(?:hub:)?([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
"""Patterns of the files to download; no pickles, no code."""
CONNECT_SECONDS = 5.0
"""Longest wait for a host to answer at all."""
READ_SECONDS = 10.0
"""Longest silence within a transfer."""


class HubError(IsotropyError):
    """What the hub answers, or that it does not, in one sentence."""


def limit_hub_client() -> None:
    """Set the time-outs of the hub's client, and switch its telemetry off; to be called before it
    is imported.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")  # its time-outs are longer than ours
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", str(int(CONNECT_SECONDS)))
    os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", str(int(READ_SECONDS)))


@contextmanager
def hub_errors(name: str) -> Iterator[None]:
    """Raise what the hub's client raises as a `HubError` that begins with a name."""
    from huggingface_hub import errors

    try:
        yield
    except errors.HFValidationError as error:
        reason = f"not a name of a repository: {first_line(error)}"
    except errors.GatedRepoError:
        reason = "its licence must be accepted on the hub first; then log in with `hf auth login`"
    except errors.RepositoryNotFoundError:
        reason = "the hub has no such repository"
    except errors.RevisionNotFoundError:
        reason = "the hub has no such revision"
    except errors.RemoteEntryNotFoundError:
        reason = "no such file"
    except (OSError, errors.HTTPError) as error:  # type: ignore[attr-defined]  # all others
        if isinstance(error, OSError) and error.errno is not None:  # such as a full disk
            raise
        reason = f"the hub could not be read; is there a network? ({first_line(error)})"
    else:
        return
    raise HubError(f"{name}: {reason}")


def is_hub_id(text: str) -> bool:
    """Whether a text has the form ORG/NAME or ORG/NAME@REVISION."""
    return HUB_ID.fullmatch(text) is not None


def fetch_model(text: str) -> tuple[Path, str]:
    """Download a model; return its folder and its revision. A cached copy is used if the hub cannot
    be reached, or if the revision is a commit.

    Args:
        text: ORG/NAME or ORG/NAME@REVISION.

    Raises:
        HubError: no such repository or revision, or no answer and no copy.
    """
    limit_hub_client()
    from huggingface_hub import snapshot_download

    match = HUB_ID.fullmatch(text)
    assert match is not None
    repo, revision = match[1], match[2]
    pinned = revision is not None and re.fullmatch("[0-9a-f]{40}", revision) is not None
    if pinned and (folder := _find_cached(repo, revision)) is not None:
        return folder, folder.name
    try:
        with hub_errors(repo):
            folder = Path(snapshot_download(repo, revision=revision, allow_patterns=list(FILES)))
    except HubError as error:
        if (folder := _find_cached(repo, revision)) is None:
            raise HubError(f"{error}; and there is no such file or folder here") from error
    return folder, folder.name


def _find_cached(repo: str, revision: str | None) -> Path | None:
    """The cached copy of a revision, if it has a configuration and weights."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(repo, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    complete = any(folder.rglob("*.safetensors")) and any(folder.rglob("config.json"))
    return folder if complete else None
