"""Configuration: errors name the path, the value and what is allowed; files are merged; derived
runs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from isotropy.errors import IsotropyError
from isotropy.prepare.spec import SentencesSpec
from isotropy.workflow.config import load_study, read_configuration


@pytest.fixture
def raw(project: Path) -> dict[str, Any]:
    return yaml.safe_load((project / "config.yaml").read_text("utf8"))


def test_default_configuration_is_valid(raw: dict[str, Any], project: Path) -> None:
    study = load_study(raw, project)
    assert study.config.mickus2024.setups["polarity"].bias is False


def test_order_of_keys_is_that_of_the_default_configuration(
    raw: dict[str, Any], project: Path
) -> None:
    """Snakemake merges in another order in a module than from the command line."""
    shuffled = copy.deepcopy(raw)
    setups = shuffled["mickus2024"]["setups"]
    shuffled["mickus2024"]["setups"] = {"mine": POLARITY} | dict(reversed(setups.items()))
    expected = [*raw["mickus2024"]["setups"], "mine"]
    assert list(load_study(shuffled, project).config.mickus2024.setups) == expected


POLARITY = {
    "dataset": "polarity",
    "embedding": "all-MiniLM-L6-v2",
    "loss": "cross_entropy",
    "bias": False,
}
GLUE: dict[str, Any] = {
    "tasks": ["cola"],
    "embeddings": ["all-MiniLM-L6-v2"],
    "seeds": [0],
    "updates": 9,
    "sample_size": None,
}
MISTAKES: list[tuple[str, Any, str]] = [
    (
        "rudman2024/keep_models",
        "true",
        "keep_models.bool: Input should be a valid boolean, got 'true'; true and false must not",
    ),
    (
        "mickus2024/learning_rat",
        0.1,
        "mickus2024.learning_rat: unknown key; did you mean 'learning_rate'",
    ),
    (
        "mickus2024/learning_rate",
        "0.1",
        "learning_rate: Input should be a valid number, got '0.1'; a number must not",
    ),
    ("mickus2024/learning_rate", "1e-3", "YAML reads 1e-3 as text: write 0.001"),
    ("mickus2024/learning_rate", 0, "learning_rate: Input should be greater than 0, got 0"),
    ("mickus2024/learning_rate", float("nan"), "learning_rate: Input should be"),
    ("mickus2024/updates", 10.5, "updates: Input should be a valid integer"),
    ("mickus2024/seeds", [], "seeds: List should have at least 1 item"),
    ("compute/device", "gpu", "compute.device: Input should be 'auto', 'cpu' or 'cuda', got 'gpu'"),
    (
        "sources/order",
        ["hub", "cloud"],
        "sources.order.1: Input should be 'hub', 'url', 'mirror' or 'package'",
    ),
    (
        "sources/order",
        ["package"],
        "sources.order: expected one of hub, mirror, url for snli, got package",
    ),
    ("sources/mirror", "nowhere", "sources.mirror: expected a folder, got 'nowhere'"),
    ("mickus2024/seeds", [1, 1], "seeds: duplicate value"),
    ("mickus2024/setups", {}, "setups: Dictionary should have at least 1 item"),
    (
        "datasets/supersenses/n_items",
        "2275",
        "config: datasets.supersenses.n_items: Input should be a valid integer",
    ),
    (
        "mickus2024/setups/supersenses/bias",
        "no",
        "config: mickus2024.setups.supersenses.bias: Input should be",
    ),
    (
        "mickus2024/setups/polarity/loss",
        "binary_cross_entropy",
        "polarity.loss: expected 'cross_entropy' for polarity, got 'binary_cross_entropy'",
    ),
    ("sources/registry", "no", "source registry .*no: expected files .*got no such file"),
    (
        "datasets/polarity/source",
        "polarty",
        "datasets.polarity.source: no source 'polarty'.*did you mean 'polarity'",
    ),
    ("datasets/polarity/kind", "words", "datasets.polarity"),
    (
        "datasets/a.b",
        {"kind": "sentences", "source": "polarity", "label_names": ["a", "b"]},
        "datasets.a.b",
    ),
    (
        "mickus2024/setups/polarity/dataset",
        "polarities",
        "no data set 'polarities'.*did you mean 'polarity'",
    ),
    ("mickus2024/setups/polarity/embedding", "all-MiniLM-L6-v3", "did you mean 'all-MiniLM-L6-v2'"),
    (
        "mickus2024/setups/polarity/embedding",
        "wordnet",
        "expected a source of kind model, got 'wordnet' of kind lexicon",
    ),
    ("mickus2024/setups/a--b", POLARITY, "two hyphens are reserved for names of variants"),
    (
        "rajaee2021/embeddings/all-MiniLM-L6-v2/layers",
        [],
        "all-MiniLM-L6-v2.layers: expected layers of a model, got none",
    ),
    (
        "rajaee2021/embeddings/all-MiniLM-L6-v2/layers",
        [3, 1],
        "layers: expected strictly ascending values",
    ),
    (
        "rajaee2021/embeddings/all-MiniLM-L6-v2/datasets",
        ["sts15s"],
        "datasets.0: no data set 'sts15s'.*did you mean 'sts15'",
    ),
    (
        "rajaee2021/embeddings/all-MiniLM-L6-v2/datasets",
        ["pos"],
        "datasets.0: expected sentences, got 'pos', a data set of words",
    ),
    (
        "rajaee2021/embeddings/all-MiniLM-L6-v2/parameters",
        None,
        "parameters is null for an embedding, and tuning, which",
    ),
    (
        "rajaee2021/embeddings/all-MiniLM-L6-v2/drop_tokens",
        "cls",
        "drop_tokens: Input should be 'special', 'first-and-last' or 'nothing', got 'cls'",
    ),
    (
        "rajaee2021/embeddings/word2vec-enwiki-2021/datasets",
        ["polarity"],
        "expected sentences with task regression, got 'polarity' with task single-label",
    ),
    (
        "rajaee2021/embeddings/wordnet",
        {"datasets": ["sts15"], "layers": [1], "parameters": None},
        "parameters is null",
    ),
    (
        "rajaee2021/methods",
        ["none"],
        "methods must hold none, which the others are compared with, and others",
    ),
    (
        "rajaee2021/methods",
        ["none", "abtt"],
        "plot_dataset: no embedding has 'polarity-part' among its datasets, or kmeans",
    ),
    (
        "rajaee2021/cluster_counts",
        [0, 3],
        "cluster_counts.0: Input should be greater than or equal to 1, got 0",
    ),
    (
        "rajaee2021/classification/max_length",
        600,
        "max_length: expected at most 256, which all-MiniLM-L6-v2 reads, got 600",
    ),
    (
        "rajaee2021/finetuning/tasks/squad",
        {"train": "squad", "validation": "squad-validation", "metric": "f1"},
        "finetuning.tasks.squad: expected a task whose head reads the first",
    ),
    (
        "rajaee2021/finetuning/training/batch_size",
        2,
        "batch_size of 3 or more for .*, got 2: the method cannot cluster",
    ),
    (
        "rajaee2021/methods",
        ["kmeans"],
        "methods must hold none, which the others are compared with",
    ),
    ("rajaee2021/methods", ["none", "kmean"], "methods.1: Input should be 'none', 'mean'"),
    ("rajaee2021/isotropy_dataset", None, "isotropy_dataset is null, which isotropy_layers"),
    (
        "rajaee2021/plot_dataset",
        "sts15",
        "rajaee2021.plot_dataset: no embedding has 'sts15' among its datasets",
    ),
    (
        "rajaee2021/tuning",
        {"dataset": "rte", "n_clusters": [5], "n_components": [5]},
        "expected sentences with task regression, got 'rte' with task single-label",
    ),
    (
        "rajaee2021/classification/run_tasks",
        ["polarty"],
        "classification.run_tasks.0: no task 'polarty': did you mean",
    ),
    (
        "rajaee2021/classification/tasks/mnli",
        {"train": "mnli", "validation": "snli", "metric": "accuracy"},
        "classification.tasks.mnli.train: expected two classes, as the classifier has, got 'mnli'",
    ),
    (
        "rajaee2021/classification/tasks/polarity/validation",
        "polarity",
        "classification.tasks.polarity: train and validation share the source",
    ),
    ("rajaee2021/finetuning/models", ["gpt3"], "finetuning.models.0: no source 'gpt3'"),
    ("datasets/polarity/reading", "quoted", "reading: quoted is for task: regression"),
    ("mickus2024/measure/tolerance", 0, "measure.tolerance: Input should be greater than 0"),
    (
        "mickus2024/sensitivity/setups",
        ["polarty"],
        "sensitivity.setups.0: no setup 'polarty': did you mean 'polarity'",
    ),
    ("mickus2024/sensitivity/seeds", [7], "sensitivity.seeds: expected seeds of polarity, got 7"),
    (
        "datasets/supersenses/word_list",
        "polarity",
        "word_list: expected a source of kind lexicon, got 'polarity' of kind dataset",
    ),
    (
        "mickus2024/glue",
        GLUE | {"tasks": ["colaa"]},
        "glue.tasks.0: no data set 'colaa'.*did you mean 'cola'",
    ),
    (
        "mickus2024/glue",
        GLUE | {"tasks": ["pos"]},
        "glue.tasks.0: expected sentences with task single-label, got 'pos'",
    ),
    (
        "mickus2024/glue",
        GLUE | {"embeddings": ["wordnet"]},
        "glue.embeddings.0: expected a source of kind model, got 'wordnet' of kind lexicon",
    ),
    (
        "rudman2024/tasks/polarity/train",
        "pos",
        "rudman2024.tasks.polarity.train: expected sentences, got 'pos', a data set of words",
    ),
    (
        "rudman2024/tasks/polarity/validation",
        "stsb",
        "polarity.validation: expected the task and label_names of 'polarity-train'",
    ),
    (
        "rudman2024/run_tasks",
        ["polrity"],
        "rudman2024.run_tasks.0: no task 'polrity': did you mean 'polarity'",
    ),
    (
        "rudman2024/tasks/stsb/metric",
        "accuracy",
        "stsb.metric: expected pearson or spearman, got 'accuracy'",
    ),
    ("rudman2024/tasks/sst5/metric", "f1", "sst5.metric: expected accuracy or matthews, got 'f1'"),
    (
        "rudman2024/tasks/squad/max_length",
        32,
        "squad.max_length: expected at least 64 word pieces for a question",
    ),
    ("rudman2024/lambdas", [1, 1.0000001], "duplicate value"),
    ("rudman2024/lambdas", [0, 1], "lambdas must not contain 0"),
    ("rudman2024/stability/zetas", [0.2, 0.4], "expected zetas that include 0"),
    ("rudman2024/stability/clouds/normal/isoscore", 0.5, "greater than 0.75"),
]


@pytest.mark.parametrize(("path", "value", "message"), MISTAKES)
def test_configuration_errors_name_the_path(
    raw: dict[str, Any], project: Path, path: str, value: Any, message: str
) -> None:
    changed = copy.deepcopy(raw)
    *parents, field = path.split("/")
    section = changed
    for key in parents:
        section = section[key]
    section[field] = value
    with pytest.raises(IsotropyError, match=message) as caught:
        load_study(changed, project)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("mickus2024", "setups"), "supersenses"),
        (("datasets",), "mnli"),
        (("rudman2024", "tasks"), "qqp"),
    ],
)
def test_null_drops_an_entry(
    raw: dict[str, Any], project: Path, tmp_path: Path, path: tuple[str, ...], name: str
) -> None:
    """A configuration file can remove a named entry of the default study by the value null."""
    change: dict[str, Any] = {name: None}
    for key in reversed(path):
        change = {key: change}
    (tmp_path / "change.yaml").write_text(yaml.safe_dump(change))
    section: Any = load_study(
        read_configuration([project / "config.yaml", tmp_path / "change.yaml"], {}), project
    ).config
    for key in path:
        section, raw = getattr(section, key), raw[key]
    assert set(raw) - set(section) == {name}


def test_removing_a_needed_entry_is_an_error(raw: dict[str, Any], project: Path) -> None:
    raw["datasets"]["polarity"] = None
    with pytest.raises(IsotropyError, match="no data set 'polarity' in datasets"):
        load_study(raw, project)
    raw["mickus2024"]["setups"] = dict.fromkeys(raw["mickus2024"]["setups"])
    with pytest.raises(IsotropyError, match=r"mickus2024.setups: .* at least 1 item"):
        load_study(raw, project)


def test_deeply_nested_configuration_is_rejected(raw: dict[str, Any], project: Path) -> None:
    for _ in range(2000):
        raw["study"] = [raw["study"]]
    with pytest.raises(IsotropyError, match="config: nested too deeply, more than 50 levels"):
        load_study(raw, project)


def test_missing_key_is_named(raw: dict[str, Any], project: Path) -> None:
    del raw["sources"]["order"]
    with pytest.raises(IsotropyError, match=r"config: sources.order: missing"):
        load_study(raw, project)


def test_specs_have_a_canonical_text() -> None:
    """The text is parsed to an equal spec; specs are immutable."""
    spec = SentencesSpec(kind="sentences", source="polarity", label_names=["b", "a"])
    assert SentencesSpec.parse(spec.canonical()) == spec
    rest = '"reading":"rows","sample":null,"source":"polarity","split":null,"task":"single-label"'
    assert spec.canonical() == '{"kind":"sentences","label_names":["b","a"],' + rest + "}"
    with pytest.raises(ValueError, match="frozen"):
        spec.source = "other"  # type: ignore[misc]


def test_trajectories_cover_appendix_a_and_variants(raw: dict[str, Any], project: Path) -> None:
    """Appendix A combines every task with every encoder; a variant changes one field of its base
    setup."""
    raw["mickus2024"]["glue"] = {
        "tasks": ["cola", "rte"],
        "embeddings": ["all-MiniLM-L6-v2", "all-mpnet-base-v2"],
        "seeds": [0],
        "updates": 250,
        "sample_size": 20000,
    }
    paper = load_study(raw, project).config.mickus2024
    runs = paper.trajectories()
    assert [name for name, run in runs.items() if run.group == "glue"] == [
        f"{task}--{model}"
        for model in ("all-MiniLM-L6-v2", "all-mpnet-base-v2")
        for task in ("cola", "rte")
    ]
    assert runs["cola--all-mpnet-base-v2"].measure.sample_size == 20000
    assert all(run.setup.bias for run in runs.values() if run.group == "glue")
    base = runs["polarity"]
    changed = {
        name.removeprefix("polarity--"): {
            key
            for key, value in run.model_dump().items()
            if value != base.model_dump()[key] and key not in ("group", "variant", "seeds")
        }
        for name, run in runs.items()
        if run.group == "sensitivity"
    }
    assert changed == {
        "slow": {"learning_rate"},
        "fast": {"learning_rate"},
        "bias": {"setup"},
        "sampled": {"measure"},
    }


def test_full_scale_study_has_every_cell_of_table_3(project: Path) -> None:
    files = [project / "config.yaml", project / "config/paper.yaml"]
    runs = load_study(read_configuration(files, {}), project).config.mickus2024.trajectories()
    assert sum(run.group == "glue" for run in runs.values()) == 24
    assert {"polarity", "snli", "pos", "supersenses"} <= set(runs)
    assert all(len(run.seeds) == 5 for run in runs.values() if run.group == "section3")
