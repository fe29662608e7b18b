"""Extending a study by user models: the resulting sections of papers, and errors by field path."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from isotropy.errors import IsotropyError
from replication.extension import ResolvedExtension, UserModel
from replication.papers.registry import KEYS
from replication.plan.config import Study, load_study, read_configuration
from replication.plan.plan import Plan
from replication.sources.registry import load_registry
from replication.yaml_files import read_yaml


def study(project: Path, *models: str, **fields: Any) -> Study:
    extension = {"models": list(models), **fields}
    raw = read_configuration([project / "config.yaml"], {"extension": extension})
    return load_study(raw, project)


def stems(configured: Study, project: Path) -> list[str]:
    return Plan(configured, project, project).stems()


@pytest.mark.parametrize("layers", [1, 2, 5, 6, 7, 12, 24, 30, 80])
def test_measured_layers_are_evenly_spread(layers: int) -> None:
    """All layers of a shallow model; six of a deep one, with both ends, evenly spaced."""
    model = UserModel("m", layers, 768, 512, causal=False)
    spread = model.measured_layers()
    assert (spread[0], spread[-1], len(spread)) == (1, layers, min(layers, 6))
    steps = {b - a for a, b in pairwise(spread)}
    assert max(steps, default=1) - min(steps, default=1) <= 1
    assert set(model.outer_layers()) <= set(spread)
    assert {1, layers} <= set(model.outer_layers())


def test_number_of_components_follows_the_width() -> None:
    """The paper's numbers at BERT's width; at least one."""
    numbers = [UserModel("m", 2, width, 512, causal=False).components() for width in (768, 16)]
    assert numbers == [(12, 15), (1, 1)]


def test_an_encoder_replaces_the_models_of_all_papers(project: Path) -> None:
    """The default model no longer occurs, and every stage is planned with the encoder."""
    result = study(project, "all-mpnet-base-v2")
    assert list(result.chosen()) == list(KEYS)
    made = stems(result, project)
    assert not [stem for stem in made if "MiniLM" in stem]
    for stage in ("optimize", "finetune", "geometry", "similarity"):
        assert any(stem.startswith(stage) and "mpnet" in stem for stem in made), stage


def test_a_decoder_is_not_fine_tuned(project: Path) -> None:
    result = study(project, "smollm2-135m-instruct")
    assert "rudman2024" not in result.chosen()
    made = stems(result, project)
    assert not [stem for stem in made if stem.startswith("finetune")]
    (model,) = result.chosen()["cai2021"].models.values()  # type: ignore[attr-defined]
    assert model.layers == [1, 7, 13, 18, 24, 30]
    assert "no-massive" in model.variants


def test_word_vectors_get_the_experiments_on_words(project: Path) -> None:
    """Two of the papers have experiments on words."""
    result = study(project, "glove-6b-50d", "word-vectors-300d")
    assert list(result.chosen()) == ["mickus2024", "rajaee2021"]
    made = stems(result, project)
    assert "embed/pos-glove-6b-50d/glove-6b-50d" in made
    assert "embed/pos/word-vectors-300d" in made


def test_a_random_control_is_made_from_its_model(project: Path) -> None:
    """A control's registry entry equals that of its model, apart from the weights."""
    registry = load_registry(project / "config/sources")
    control, model = (registry.sources[f"all-MiniLM-L6-v2{end}"] for end in ("-random", ""))
    assert control.encoder == model.encoder
    assert control.contents["weights"].status == "stand-in"
    result = study(project, "all-MiniLM-L6-v2-random", papers=["cai2021"])
    assert list(result.chosen()) == ["cai2021"]
    made = stems(result, project)
    assert made.index("fetch/all-MiniLM-L6-v2") < made.index("fetch/all-MiniLM-L6-v2-random")


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"models": []}, "extension.models: "),
    ({"models": ["all-mpnet"]}, "extension.models.0: no source"),
    ({"models": ["polarity"]}, "of kind model or vectors"),
    ({"models": ["gpt2"], "papers": ["cai"]}, "extension.papers.0: no paper"),
    ({"models": ["gpt2"], "papers": ["rudman2024"]}, "experiment for gpt2"),
    ({"models": ["gpt2"], "datasets": ["nothing"]}, "extension.datasets.0: no source"),
    ({"models": ["gpt2"], "datasets": ["snli"]}, "already has a data set 'snli'"),
    ({"models": ["gpt2"], "datasets": ["glue-sst2"]}, "neither classes nor scores"),
    ({"models": ["gpt2"], "dataset": ["x"]}, "extension.dataset: unknown key"),
    ({"models": ["gpt2", "gpt2"]}, "duplicate value"),
]


@pytest.mark.parametrize(("extension", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_errors_in_an_extension_name_the_field(
    project: Path, extension: dict[str, Any], words: str
) -> None:
    order = {"order": ["hub", "url", "mirror", "package"]}
    raw = read_configuration([project / "config.yaml"], {"extension": extension, "sources": order})
    with pytest.raises(IsotropyError, match=words):
        load_study(raw, project)


def own_data(project: Path, folder: Path, *names: str, **models: Any) -> Path:
    """Copy the configuration, and add user data sets with two classes, and models."""
    shutil.copytree(project / "config", folder / "config", dirs_exist_ok=True)
    content = {"status": "stand-in", "title": "x", "format": "csv-table", "rows": 100}
    content |= {"text_fields": ["t"], "label_field": "y", "label_names": ["a", "b"]}
    origin = {"type": "file", "content": "file", "folder": "/x", "files": {"data.csv": "data.csv"}}
    entry = {"kind": "dataset", "licence": "x", "citation": "own"}
    entry |= {"contents": {"file": content}, "origins": [origin]}
    (folder / "config/local").mkdir(exist_ok=True)
    local = dict.fromkeys(names, entry) | models
    (folder / "config/local/sources.yaml").write_text(json.dumps(local))
    return folder


@pytest.mark.parametrize("names", [["reviews", "reviews-train"], ["reviews-train", "reviews"]])
def test_ambiguous_data_set_names_are_rejected(
    project: Path, tmp_path: Path, names: list[str]
) -> None:
    """A data set named like the training half of another one, in either order."""
    folder = own_data(project, tmp_path, *names)
    extension = {"models": ["all-MiniLM-L6-v2"], "datasets": names}
    trust = {"trust_on_first_use": True}
    raw = read_configuration([project / "config.yaml"], {"extension": extension, "sources": trust})
    with pytest.raises(IsotropyError, match="'reviews-train' would name"):
        load_study(raw, folder)


def test_ambiguous_setup_names_are_rejected(project: Path, tmp_path: Path) -> None:
    """The data set `rv-all` with model `m`, and `rv` with `all-m`."""
    model = read_yaml(project / "config/sources/models.yaml")["all-MiniLM-L6-v2"]
    folder = own_data(project, tmp_path, "rv", "rv-all", m=model, **{"all-m": model})
    extension = {"models": ["m", "all-m"], "datasets": ["rv", "rv-all"]}
    raw = read_configuration([project / "config.yaml"], {"extension": extension})
    with pytest.raises(IsotropyError, match="'rv-all-m' would name"):
        load_study(raw, folder)


def test_windows_and_lengths_are_limited_by_the_models_positions(project: Path) -> None:
    """For a model with 100 positions."""
    model = UserModel("all-MiniLM-L6-v2", 6, 384, 100, causal=False, positions=100)
    raw = read_configuration([project / "config.yaml"], {})
    chosen = load_study(raw, project).chosen()
    result = ResolvedExtension([model], [])
    assert chosen["cai2021"].extended(result).window == 100  # type: ignore[union-attr]
    rudman = chosen["rudman2024"].extended(result)
    assert rudman.training.max_length == 100  # type: ignore[union-attr]
    rajaee = chosen["rajaee2021"].extended(result)
    assert rajaee.classification.max_length == 64  # type: ignore[union-attr]
    assert rajaee.finetuning.training.max_length == 100  # type: ignore[union-attr]
