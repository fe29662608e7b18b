"""The configuration: one Pydantic model, from which the JSON schema is generated, and which finds
mistakes before the first job runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, create_model

from isotropy.errors import IsotropyError
from replication.context import Compute, Context, DataSpec, Sources, require_known
from replication.extension import Extension, resolve_extension
from replication.field_types import DROPPABLE, Name
from replication.papers.registry import PaperStudy, papers
from replication.plan.reference import reference
from replication.prepare.spec import CorpusSpec, SentencesSpec
from replication.sources.registry import Registry, load_registry
from replication.spec import Strict, clearest, first_mistake
from replication.yaml_files import MAX_LEVELS, is_nested_deeper, read_yaml


class Settings(Strict):
    """Settings of a study that are not part of a paper's section."""

    study: str
    """Name of the study, shown on its pages."""
    sources: Sources
    compute: Compute
    datasets: Annotated[dict[Name, Annotated[DataSpec, Field(discriminator="kind")]], DROPPABLE]
    """Prepared data sets, by name."""
    extension: Extension | None = None
    """Your own models and data; null: those that each paper's section names."""


def _section_field(model: type[PaperStudy]) -> Any:
    """The field of a paper's section: optional, with the section's own description."""
    description = f"{model.__doc__} null: not attempted."
    return (model | None, Field(default=None, description=description))


Config = create_model(
    "Config",
    __base__=Settings,
    __doc__="Everything that a study can choose.",
    **{paper.key: _section_field(paper.study) for paper in papers()},
)


class Study(Strict):
    """A validated configuration with the registry that it names."""

    config: Settings
    registry: Registry

    @property
    def context(self) -> Context:
        """Data sets, sources and settings that all papers share."""
        config = self.config
        registry = self.registry
        return Context(
            config.datasets, registry.sources, registry.sizes, config.sources, config.compute
        )

    def chosen(self) -> dict[str, PaperStudy]:
        """Sections of the papers that the study attempts, by key."""
        sections = {paper.key: getattr(self.config, paper.key) for paper in papers()}
        return {key: section for key, section in sections.items() if section is not None}


def load_study(raw: dict[str, Any], root: Path, *, require_mirror: bool = True) -> Study:
    """Validate a configuration as Snakemake merged it.

    Args:
        raw: the merged mapping.
        root: the project's folder, to which the registry's path is relative.
        require_mirror: whether the mirror folder must exist, as for a run.

    Raises:
        IsotropyError: the first mistake, with the field's path, its value, and what is expected.
    """
    if is_nested_deeper(raw):
        raise IsotropyError(f"config: nested too deeply, more than {MAX_LEVELS} levels")
    default = root / "config.yaml"
    raw = _reorder(raw, _read(default) if default.is_file() else {})
    try:
        config: Settings = Config.model_validate(raw)
    except ValidationError as error:
        raise IsotropyError(_explain(error)) from error
    registry = load_registry(root / config.sources.registry)
    mirror = config.sources.mirror
    if mirror is not None and require_mirror and not (root / mirror).is_dir():
        raise IsotropyError(
            f"config: sources.mirror: expected a folder, got {mirror!r}, which is not one; correct "
            "the path, or set it to null"
        )
    if config.extension is not None:
        config = _extend(config, config.extension, registry)
    study = Study(config=config, registry=registry)
    context = study.context
    _check_datasets(context)
    for section in study.chosen().values():
        section.check(context)
    return study


def _reorder(raw: Any, reference: Any) -> Any:
    """Sort keys as config.yaml has them, others after them. Snakemake begins with the keys of
    `--configfile`, a workflow that uses this one as a module with those of config.yaml: rows of
    tables would be in another order.
    """
    if not (isinstance(raw, dict) and isinstance(reference, dict)):
        return raw
    keys = [
        *(key for key in reference if key in raw),
        *(key for key in raw if key not in reference),
    ]
    return {key: _reorder(raw[key], reference.get(key)) for key in keys}


def _extend(config: Settings, extension: Extension, registry: Registry) -> Settings:
    """The configuration with the extension's models and data in place of the papers'.

    Raises:
        IsotropyError: a name that does not exist, or no experiment for these models.
    """
    context = Study(config=config, registry=registry).context
    resolved = resolve_extension(extension, context, registry.sizes)
    known_papers = {paper.key: paper for paper in papers()}
    for i, key in enumerate(extension.papers or []):
        require_known(f"extension.papers.{i}", key, known_papers, "paper")
    sections: dict[str, PaperStudy | None] = {}
    for key in known_papers:
        section = getattr(config, key)
        is_wanted = section is not None and (extension.papers is None or key in extension.papers)
        try:
            sections[key] = section.extended(resolved) if is_wanted else None
        except ValidationError as error:
            raise IsotropyError(f"{_explain(error)} (in {key}, made for the extension)") from error
    if not any(sections.values()):
        raise IsotropyError(
            "config: extension: none of the papers has an experiment for "
            f"{', '.join(extension.models)}"
        )
    return config.model_copy(
        update={**sections, "datasets": {**context.datasets, **resolved.datasets}}
    )


def read_configuration(files: Iterable[Path], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Read configuration files and merge them as Snakemake does: mappings key by key, the later
    value before the earlier.

    Raises:
        IsotropyError: a file does not exist, or is not a mapping.
    """
    merged: dict[str, Any] = {}
    for file in files:
        if not file.is_file():
            raise IsotropyError(f"{file} is not there")
        merged = _merge(merged, _read(file))
    return _merge(merged, overrides)


def _read(file: Path) -> dict[str, Any]:
    values = read_yaml(file) or {}
    if not isinstance(values, dict):
        raise IsotropyError(f"{file} is not a configuration: expected a mapping")
    return values


def schema() -> str:
    """JSON schema of the configuration, for editors and for `schemas/config.schema.json`."""
    json_schema = Config.model_json_schema()
    return json.dumps(json_schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def generated_files() -> dict[str, str]:
    """Return the files that are made from the models: path in the project -> content."""
    return {
        "schemas/config.schema.json": schema(),
        "config/README.md": reference(Config.model_json_schema()),
    }


def _merge(base: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in update.items():
        old = merged.get(key)
        are_mappings = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(old, value) if are_mappings else value  # type: ignore[arg-type]
    return merged


def _check_datasets(context: Context) -> None:
    """Refuse data sets whose source does not exist or is of another kind."""
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
    """Describe the first validation error in one sentence."""
    first_error = clearest(error)
    # Pydantic puts the kind of a data set third in its path; it is not a key of the file.
    location = [
        part
        for i, part in enumerate(first_error["loc"])
        if (first_error["loc"][0], i) != ("datasets", 2)
    ]
    path = ".".join(map(str, location))
    if first_error["type"] == "extra_forbidden" and path in Extension.model_fields:
        return f"config: {path}: unknown key here; it belongs under extension"
    mistake = first_mistake(error, Config, location)
    if first_error["type"] == "missing":
        example = "config/model.yaml" if path.startswith("extension") else "config.yaml"
        mistake += f"; see {example} for an example"
    return f"config: {mistake}"
