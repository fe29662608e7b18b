"""The configuration: one model, from which the schema is generated and which names every mistake
before the first job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, create_model

from isotropy.context import Compute, Context, DataSpec, Sources, require_known
from isotropy.errors import IsotropyError
from isotropy.extension import Extension
from isotropy.extension import own as find_own
from isotropy.field_types import DROPPABLE, Name
from isotropy.papers.registry import PaperStudy, papers
from isotropy.prepare.spec import CorpusSpec, SentencesSpec
from isotropy.sources.registry import Registry, load_registry
from isotropy.spec import Strict, clearest, first_mistake
from isotropy.templates import MAX_LEVELS, is_nested_deeper


class Settings(Strict):
    """What a study can choose that belongs to no paper."""

    study: str
    """Name of the study, shown on its pages."""
    rehearsal: bool = False
    """Whether it only tries out another study: all that it makes has the status `rehearsal`, and no
    claim gets a verdict."""
    sources: Sources
    compute: Compute
    datasets: Annotated[dict[Name, Annotated[DataSpec, Field(discriminator="kind")]], DROPPABLE]
    """Prepared data sets, by name."""
    extension: Extension | None = None
    """null: the models and data that each paper's section names."""


def _of_paper(model: type[PaperStudy]) -> Any:
    """The field of a paper's section: optional, with the section's own description."""
    description = f"{model.__doc__} null: not attempted."
    return (model | None, Field(default=None, description=description))


Config = create_model(
    "Config",
    __base__=Settings,
    __doc__="Everything that a study can choose.",
    **{paper.key: _of_paper(paper.study) for paper in papers()},
)


class Study(Strict):
    """A validated configuration with the registry that it names."""

    config: Settings
    registry: Registry

    @property
    def context(self) -> Context:
        """What surrounds the papers."""
        config = self.config
        return Context(config.datasets, self.registry.sources, config.sources, config.compute)

    def chosen(self) -> dict[str, PaperStudy]:
        """The papers that the study attempts, with what it chooses of each."""
        sections = {paper.key: getattr(self.config, paper.key) for paper in papers()}
        return {key: section for key, section in sections.items() if section is not None}


def load_study(raw: dict[str, Any], root: Path, *, mirror_there: bool = True) -> Study:
    """Validate a configuration as Snakemake merged it.

    Args:
        raw: the merged mapping.
        root: the project's folder, to which the registry's path is relative.
        mirror_there: whether the mirror's folder must be there, as for a run.

    Raises:
        IsotropyError: the first mistake: the field's path, the value, and what is expected.
    """
    if is_nested_deeper(raw):
        raise IsotropyError(f"config: nested too deeply, more than {MAX_LEVELS} levels")
    try:
        config: Settings = Config.model_validate(raw)
    except ValidationError as error:
        raise IsotropyError(_explain(error)) from error
    registry = load_registry(root / config.sources.registry)
    mirror = config.sources.mirror
    if mirror is not None and mirror_there and not (root / mirror).is_dir():
        raise IsotropyError(
            f"config: sources.mirror: expected a folder, got {mirror!r}, which is not one; correct "
            "the path, or set it to null"
        )
    if config.extension is not None:
        config = _extended(config, config.extension, registry)
    study = Study(config=config, registry=registry)
    context = study.context
    _check_datasets(context)
    for section in study.chosen().values():
        section.check(context)
    return study


def _extended(config: Settings, extension: Extension, registry: Registry) -> Settings:
    """The configuration with the extension's models and data in place of the papers'.

    Raises:
        IsotropyError: a name that does not exist, or nothing to do.
    """
    context = Study(config=config, registry=registry).context
    own = find_own(extension, context, registry.sizes)
    known = {paper.key: paper for paper in papers()}
    for i, key in enumerate(extension.papers or []):
        require_known(f"extension.papers.{i}", key, known, "paper")
    sections: dict[str, PaperStudy | None] = {}
    for key in known:
        section = getattr(config, key)
        wanted = section is not None and (extension.papers is None or key in extension.papers)
        try:
            sections[key] = section.extended(own) if wanted else None
        except ValidationError as error:
            raise IsotropyError(f"{_explain(error)} (in {key}, made for the extension)") from error
    if not any(sections.values()):
        raise IsotropyError(
            "config: extension: none of the papers has an experiment for "
            f"{', '.join(extension.models)}"
        )
    return config.model_copy(update={**sections, "datasets": {**context.datasets, **own.datasets}})


def read_configuration(files: Iterable[Path], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Read configuration files and merge them as Snakemake does: mappings key by key, the later
    value before the earlier.

    Raises:
        IsotropyError: a file is not there, or is not a mapping.
    """
    merged: dict[str, Any] = {}
    for file in files:
        if not file.is_file():
            raise IsotropyError(f"{file} is not there")
        try:
            values = yaml.safe_load(file.read_text("utf8")) or {}
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            raise IsotropyError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
        if not isinstance(values, dict):
            raise IsotropyError(f"{file} is not a configuration: expected a mapping")
        merged = _merged(merged, values)
    return _merged(merged, overrides)


def schema() -> str:
    """JSON schema of the configuration, for editors and for `schemas/config.schema.json`."""
    found = Config.model_json_schema()
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _merged(base: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in update.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _check_datasets(context: Context) -> None:
    """Refuse sources of data sets that do not exist or do not fit."""
    for name, dataset in context.datasets.items():
        path = f"datasets.{name}"
        if isinstance(dataset, SentencesSpec):
            context.require_source(f"{path}.source", dataset.source, "dataset")
        elif isinstance(dataset, CorpusSpec):
            context.require_source(f"{path}.source", dataset.source, "corpus")
        else:
            context.require_source(f"{path}.lexicon", dataset.lexicon, "lexicon")
            context.require_source(f"{path}.vectors", dataset.vectors, "vectors")
            if dataset.word_list is not None:
                context.require_source(f"{path}.word_list", dataset.word_list, "lexicon")


def _explain(error: ValidationError) -> str:
    """The first mistake in one sentence."""
    first = clearest(error)
    # The third part of a data set's path is the kind by which the model was chosen, not a key.
    location = [
        part for i, part in enumerate(first["loc"]) if (first["loc"][0], i) != ("datasets", 2)
    ]
    path = ".".join(map(str, location))
    if first["type"] == "extra_forbidden" and path in Extension.model_fields:
        return f"config: {path}: unknown key here; it belongs under extension"
    mistake = first_mistake(error, Config, location)
    if first["type"] == "missing":
        example = "config/model.yaml" if path.startswith("extension") else "config.yaml"
        mistake += f"; see {example} for an example"
    return f"config: {mistake}"
