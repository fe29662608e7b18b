"""Fine-tuning: training with penalties, resumed runs, metrics of tasks, extracted answers,
and measured geometry."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import skdim
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from IsoScore import IsoScore as published_package
from safetensors import safe_open
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, silhouette_score
from transformers import (
    AutoConfig,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
)

from isotropy.errors import IsotropyError
from isotropy.transforms import ClusterBasedEnhancement
from replication.finetune import train as loop
from replication.finetune.analysis import Reader, measure, probes, projection
from replication.finetune.data import (
    Inputs,
    TaskData,
    Window,
    best_answers,
    collate,
    read_task_data,
    windows,
)
from replication.finetune.model import BatchClustering, load_tokenizer, reads_last, task_loss
from replication.finetune.scores import answer_scores, classification_scores, regression_scores
from replication.finetune.spec import GeometrySettings, Method
from replication.finetune.train import finetune, make_penalty
from replication.plan.config import load_study, read_configuration
from replication.plan.plan import Plan
from replication.prepare.datasets import prepare_sentences
from replication.prepare.spec import SentencesSpec
from replication.prepare.table import Dataset, write_items
from replication.sources.formats import read_rows
from replication.sources.registry import Source, load_registry
from tests.unit.factories import ISTAR, TRAINING, learnable_inputs, tiny
from tests.unit.factories import finetune_spec as spec
from tests.unit.interruption import interrupted_at

CPU = torch.device("cpu")


def train(folder: Path, settings: Any = None, model: Any = None) -> tuple[Any, dict[str, Any]]:
    """Fine-tune a tiny model, by default without a penalty; return the updates and facts."""
    settings = settings or spec(Method(kind="none"))
    return finetune(settings, model or tiny(), learnable_inputs(), 0, CPU, folder)


def task_data(inputs: Inputs) -> TaskData:
    """Return items of two classes, all of which are used."""
    dataset = Dataset(task="single-label", label_names=["a", "b"], sampled=False)
    return TaskData(inputs, dataset, [], len(inputs), len(inputs))


def parameters(model: Any) -> dict[str, bytes]:
    return {name: p.detach().numpy().tobytes() for name, p in model.named_parameters()}


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("bert", Method(kind="none")),
        ("bert", Method(kind="cosreg", strength=1.0)),
        *((kind, ISTAR) for kind in ("bert", "distilbert", "albert", "roberta", "gpt2")),
    ],
)
def test_resumed_run_equals_an_undisturbed_one(
    kind: str, method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training with dropout is interrupted in the second epoch; each update has a checkpoint. The
    layers of ALBERT share their weights."""
    whole = tiny(kind)
    undisturbed, _ = train(tmp_path / "a", spec(method), whole)
    assert len(undisturbed) == 12
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(loop, "CHECKPOINT_PAUSE", 0.0)
    with interrupted_at(8, loop.TrainingRun, "step"):
        train(tmp_path / "b", spec(method), tiny(kind))
    with safe_open(tmp_path / "b/checkpoint.safetensors", framework="pt") as file:
        assert file.metadata()["update"] == "8"
    resumed = tiny(kind, seed=9)
    rows, facts = train(tmp_path / "b", spec(method), resumed)
    assert facts["updates_taken_up_from_a_killed_run"] == 8
    assert rows.equals(undisturbed)
    assert parameters(resumed) == parameters(whole)


def test_shrinkage_covariance_is_estimated_in_evaluation_mode(tmp_path: Path) -> None:
    """From all layers but the embeddings, without padding, in the epoch's order, by whole batches
    until there are enough tokens."""
    run = loop.TrainingRun(spec(), model := tiny(), inputs := learnable_inputs(), 0, CPU)
    order = np.random.default_rng([3, 0]).permutation(len(inputs))
    run._estimate_shrinkage(order)
    model.eval()
    vectors: list[np.ndarray] = []
    for start in range(0, len(order), 4):
        for row in order[start : start + 4]:
            with torch.no_grad():
                states = model(
                    torch.tensor([inputs.ids[row]]), output_hidden_states=True
                ).hidden_states[1:]
            vectors += [layer[0].numpy() for layer in states]
        if sum(map(len, vectors)) > TRAINING.shrinkage_tokens:
            break
    expected = np.cov(np.concatenate(vectors).astype(np.float64).T)
    assert int(run.penalty.shrinkage.n) == sum(map(len, vectors))
    np.testing.assert_allclose(run.penalty.shrinkage.covariance().numpy(), expected, atol=1e-6)
    model.train()
    before = torch.get_rng_state()
    run._estimate_shrinkage(order)
    assert torch.equal(torch.get_rng_state(), before)  # dropout is off


@pytest.mark.parametrize(("kind", "zeta"), [("istar", 0.2), ("unbiased", None)])
def test_sign_of_the_penalty_decides_whether_isotropy_rises(
    kind: Literal["istar", "unbiased"], zeta: float | None, tmp_path: Path
) -> None:
    scores = []
    for strength in (-3.0, 3.0):
        method = Method(kind=kind, strength=strength, zeta=zeta)
        rows, _ = train(tmp_path / str(strength), spec(method, epochs=4))
        scores.append(rows["score"].iloc[-5:].mean())
    assert scores[0] < rows["score"].iloc[0] < scores[1]
    assert train(tmp_path / "none")[0]["score"].isna().all()


def test_training_reduces_the_loss(tmp_path: Path) -> None:
    settings = spec(Method(kind="none"), epochs=20, learning_rate=0.006)
    rows, _ = train(tmp_path, settings, model := tiny())
    assert rows["loss"].tail(10).mean() < 0.3 < rows["loss"].head(5).mean()
    batch = collate(learnable_inputs(), range(22), 0, CPU)
    assert float(task_loss(model.eval()(**batch.model_inputs), batch).detach()) < 0.3


def test_linear_schedule_with_warmup(tmp_path: Path) -> None:
    rows, _ = train(tmp_path, spec(Method(kind="none"), schedule="linear", warmup=0.25))
    rates = rows["learning_rate"].to_numpy() / 0.001
    assert rates[:3] == pytest.approx([0.25, 0.5, 0.75])
    assert rates[3:] == pytest.approx([(12 - i) / 9 for i in range(3, 12)])


def test_divergence_and_float16_without_a_gpu_are_errors(tmp_path: Path) -> None:
    model = tiny()
    with torch.no_grad():
        model.classifier.weight.fill_(math.inf)
    with pytest.raises(IsotropyError, match="the loss"):
        train(tmp_path, model=model)
    model = tiny()
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.weight.fill_(math.inf)
    with pytest.raises(IsotropyError, match="NaN"):
        train(tmp_path, spec(ISTAR), model)
    with pytest.raises(IsotropyError, match="diverged"):
        train(tmp_path, spec(ISTAR, learning_rate=1e30, max_grad_norm=None))
    with pytest.raises(IsotropyError, match="float16"):
        train(tmp_path, spec(precision="float16"))
    rows, _ = train(tmp_path / "half", spec(precision="bfloat16", epochs=1))
    assert np.isfinite(rows["score"]).all()


def test_geometry_equals_independent_computations() -> None:
    """On stacked tokens: IsoScore of the published package, TwoNN of scikit-dimension, silhouette
    of scikit-learn."""
    model, inputs, training_inputs = tiny().eval(), learnable_inputs(40, 1), learnable_inputs(30, 2)
    side = task_data(inputs)
    measured = measure(Reader(model, 0, CPU), training_inputs, side, spec(Method(kind="none")))
    layers: list[list[np.ndarray]] = [[] for _ in range(3)]
    logits = []
    for row in inputs.ids:  # one at a time: no padding
        with torch.no_grad():
            outputs = model(torch.tensor([row]), output_hidden_states=True)
        logits.append(outputs.logits[0].numpy())
        for layer, states in enumerate(outputs.hidden_states[1:]):
            layers[layer].append(states[0].numpy())
    clouds = [np.concatenate(states_of_layer) for states_of_layer in layers]
    for i, cloud in enumerate(clouds):
        sentences = np.stack([tokens[0] for tokens in layers[i]])
        units = cloud / np.linalg.norm(cloud, axis=1, keepdims=True)
        n = len(units)
        expected = {
            "isoscore": float(published_package.IsoScore(cloud)),
            "mean_cosine": ((units @ units.T).sum() - n) / (n * (n - 1)),
            "sentence_silhouette": silhouette_score(sentences, inputs.targets),
        }
        row = measured.layers.iloc[i]
        assert row[list(expected)].to_dict() == pytest.approx(expected, abs=1e-5)
        two_nn = skdim.id.TwoNN().fit(sentences).dimension_
        assert row["sentence_two_nn"] == pytest.approx(two_nn, rel=1e-4)
    isoscore = float(published_package.IsoScore(np.concatenate(clouds)))
    assert measured.facts["isoscore"] == pytest.approx(isoscore, abs=1e-5)
    assert measured.facts["n_tokens"] == len(clouds[0])
    predicted = np.stack(logits).argmax(axis=1)
    accuracy = pytest.approx(100 * np.mean(predicted == inputs.targets))
    assert measured.facts["performance"] == measured.facts["metrics"]["accuracy"] == accuracy
    first_tokens = np.mean([t[0] for t in layers[-1]], axis=0)
    assert measured.facts["activations"] == pytest.approx(first_tokens, abs=1e-5)
    assert measured.points["predicted"].tolist() == predicted.tolist()
    assert measured.points["label"].tolist() == inputs.targets.tolist()


def test_isoscore_star_uses_the_covariance_of_training_tokens() -> None:
    model, inputs, training_inputs = tiny().eval(), learnable_inputs(40, 1), learnable_inputs(5, 2)
    side = task_data(inputs)
    all_tokens = GeometrySettings(zeta=0.75, tokens=10**6)
    settings = spec(Method(kind="none")).model_copy(update={"measure": all_tokens})
    same_data = measure(Reader(model, 0, CPU), inputs, side, settings)
    other_data = measure(Reader(model, 0, CPU), training_inputs, side, spec(Method(kind="none")))
    assert same_data.facts["isoscore_star"] == pytest.approx(same_data.facts["isoscore"], abs=1e-9)
    isoscore = pytest.approx(other_data.facts["isoscore"], abs=1e-4)
    assert other_data.facts["isoscore_star"] != isoscore
    assert other_data.facts["isoscore"] == same_data.facts["isoscore"]


def test_linear_probes_ignore_a_dominant_noise_dimension() -> None:
    """One dimension is large noise, another has the class: removing the former does not change the
    performance of a linear model."""
    generator = np.random.default_rng(0)
    targets = np.arange(300) % 2
    X = generator.standard_normal((300, 20)).astype(np.float32)
    X[:, 0] += 3 * targets
    X[:, 1] *= 50
    none, abtt = probes(X[:200], targets[:200], X[200:], targets[200:], "accuracy", 2)
    assert (none.n_components, abtt.n_components) == (0, 1)
    assert abtt.performance == pytest.approx(none.performance, abs=5)
    assert none.performance > 85
    scores = X[:, 0].astype(np.float32)
    assert probes(X[:200], scores[:200], X[200:], scores[200:], "pearson", 0)[0].performance > 99


@settings(max_examples=25)
@given(seed=st.integers(0, 99), n=st.integers(3, 40), d=st.integers(2, 8))
def test_projection_on_mean_and_largest_other_axis(seed: int, n: int, d: int) -> None:
    """One axis is the direction of the mean; the other is centred and has the largest remaining
    variance."""
    X = np.random.default_rng(seed).standard_normal((n, d)) + 2
    x, y = projection(X)
    assert x.mean() == pytest.approx(np.linalg.norm(X.mean(axis=0)))
    assert y.mean() == pytest.approx(0, abs=1e-9)
    assert (x**2 + y**2 <= (X**2).sum(axis=1) + 1e-9).all()
    rest = X - X.mean(axis=0)
    along = X.mean(axis=0) / np.linalg.norm(X.mean(axis=0))
    rest -= np.outer(rest @ along, along)
    assert (y**2).sum() == pytest.approx(np.linalg.svd(rest, compute_uv=False)[0] ** 2)


def test_scores_of_tasks_equal_scikit_learn_and_scipy() -> None:
    generator = np.random.default_rng(0)
    right, predicted = generator.integers(0, 2, 200), generator.integers(0, 2, 200)
    peers = {"accuracy": accuracy_score, "matthews": matthews_corrcoef, "f1": f1_score}
    expected = {name: 100 * peer(right, predicted) for name, peer in peers.items()}
    assert classification_scores(predicted, right, 2) == pytest.approx(expected)
    assert "f1" not in classification_scores(np.array([0, 1]), np.array([0, 1]), 3)
    x, y = generator.standard_normal(100), generator.standard_normal(100)
    correlations = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}
    expected = {name: 100 * peer(x, x + y).statistic for name, peer in correlations.items()}
    assert regression_scores(x, x + y) == pytest.approx(expected)
    assert regression_scores(np.ones(5), y[:5]) == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.parametrize(
    ("answer", "right", "exact", "overlap"),
    [
        ("The Eiffel Tower.", ["eiffel tower"], 1, 1),
        ("in the tower of London", ["Tower of London", "London"], 0, 2 * 3 / 7),
        ("an apple a day", ["apple day"], 1, 1),
        ("theatre", ["the atre"], 0, 0),
        ("", ["something"], 0, 0),
        ("the", ["The"], 1, 0),
        ("red red blue", ["red blue blue"], 0, 2 * 2 / 6),
    ],
)
def test_answers_are_scored_as_in_squad(
    answer: str, right: list[str], exact: float, overlap: float
) -> None:
    scores = answer_scores([answer], [right])
    assert scores["exact_match"].tolist() == [100 * exact]
    assert scores["f1"].tolist() == pytest.approx([100 * overlap])


@pytest.mark.parametrize(
    ("kind", "options", "last"),
    [
        ("bert", {}, False),
        ("bert", {"is_decoder": True}, True),
        ("roberta", {}, False),
        ("xlnet", {"n_layer": 2, "d_model": 32, "n_head": 2, "d_inner": 64}, False),
        ("gpt2", {"bos_token_id": 1, "eos_token_id": 1}, True),
        ("ctrl", {"n_embd": 32, "n_layer": 2, "n_head": 2, "dff": 64}, True),
        ("qwen2", {"num_key_value_heads": 2}, True),
        ("opt", {"word_embed_proj_dim": 32, "ffn_dim": 64}, True),
    ],
)
def test_texts_are_read_at_a_token_that_sees_all_others(
    kind: str, options: dict[str, Any], last: bool
) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
    sizes |= {"intermediate_size": 64, "pad_token_id": 0}
    config = AutoConfig.for_model(kind, **{**sizes, **options})
    no_spans = kind == "ctrl"
    head = AutoModelForSequenceClassification if no_spans else AutoModelForQuestionAnswering
    assert reads_last(head.from_config(config).eval()) == last


def test_long_contexts_are_split_into_overlapping_windows(minilm: Path) -> None:
    tokenizer = load_tokenizer(minilm, 64)
    words = [f"word{i}" for i in range(200)]
    context = " ".join(words)
    answer = " ".join(words[120:123])
    result = windows(tokenizer, ["which?"], [context], [(answer, context.index(answer))], 128)
    assert len(result) > 3
    assert all(len(w.ids) <= 128 for w in result)
    covered = {i for w in result for span in w.spans if span for i in range(*span)}
    assert {i for i, c in enumerate(context) if c != " "} <= covered
    holding = [w for w in result if w.answer != (0, 0)]
    assert 0 < len(holding) < len(result)
    for window in holding:
        first, last = (window.spans[i] for i in window.answer)
        assert first is not None and last is not None  # noqa: PT018
        assert context[first[0] : last[1]] == answer


def test_best_answers_are_valid_spans_of_limited_length() -> None:
    """The best span by sum of logits over all windows, of at most 30 word pieces, that does not end
    before it starts."""
    spans: list[tuple[int, int] | None] = [None, *[(i, i + 1) for i in range(40)]]
    context = "".join(chr(97 + i % 26) for i in range(40))
    window = Window(0, list(range(41)), [0] * 41, spans, (0, 0))
    start, end = np.zeros(41), np.zeros(41)
    start[[0, 3, 10]], end[[0, 2, 40, 12]] = [9, 5, 4], [9, 8, 7, 3]
    # (3, 2) ends before it starts, (3, 40) is too long, (10, 40) too (31 pieces): (3, 12) is left.
    assert best_answers([window], [start], [end], [context]) == [context[2:12]]
    start[11] = 4.5  # (11, 40) has 30 pieces
    assert best_answers([window, window], [start, start], [end, end], [context]) == [context[10:40]]
    assert best_answers([], [], [], ["no window"]) == [""]


def test_runs_follow_from_the_configuration(project: Path) -> None:
    study = load_study(read_configuration([project / "config.yaml"], {}), project)
    paper = study.config.rudman2024
    assert paper is not None
    methods = ["none", "cosreg_lambda1"]
    methods += [f"istar_lambda{strength}_zeta0_2" for strength in ("m1", "1", "5")]
    assert set(paper.runs()) == {f"polarity--all-MiniLM-L6-v2--{m}" for m in methods}
    plan = Plan(study, project, project)
    name = next(iter(paper.runs()))
    seed0, seed1 = (plan.spec(f"finetune/rudman2024/{name}/seed{i}").canonical() for i in (0, 1))
    assert seed0 != seed1
    config = study.config.model_copy(update={"rudman2024": None})
    without = Plan(study.model_copy(update={"config": config}), project, project)
    with pytest.raises(LookupError, match=name):
        without.spec(f"finetune/rudman2024/{name}/seed0")
    assert not any("rudman2024" in file for file in without.table_files())


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "none", "strength": 1.0},
        {"kind": "istar", "strength": 1.0},
        {"kind": "unbiased", "strength": 1.0, "zeta": 0.1},
        {"kind": "cosreg", "zeta": 0.1},
    ],
)
def test_methods_without_their_parameters_are_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="strength"):
        Method.model_validate(fields)


def test_spec_sets_layers_of_the_penalty_and_padding() -> None:
    for layers, expected in (("all", "all"), ("last", (-1,))):
        for kind, zeta in (("istar", 0.2), ("cosreg", None), ("unbiased", None)):
            fields = {"kind": kind, "strength": 1, "zeta": zeta, "layers": layers}
            assert make_penalty(spec(Method.model_validate(fields)), 16).layers == expected
    inputs = learnable_inputs()
    mask = collate(inputs, range(4), 0, CPU).mask
    padded = collate(inputs, range(4), 0, CPU, 40).mask
    assert mask.shape[1] <= max(map(len, inputs.ids))
    assert padded.shape == (4, 40)
    assert padded.sum() == mask.sum()


def test_padding_length_changes_the_penalty_only_if_padding_counts(tmp_path: Path) -> None:
    """Without dropout, whose random numbers depend on the shape of a batch."""

    def first_score(name: str, **changes: object) -> float:
        model = tiny()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        rows, _ = train(tmp_path / name, spec(ISTAR, **changes), model)
        return float(rows["score"].iloc[0])

    assert first_score("a") == pytest.approx(first_score("b", pad_to_max_length=True), abs=1e-4)
    counted = first_score("c", keep_padding=True)
    assert abs(counted - first_score("d", keep_padding=True, pad_to_max_length=True)) > 1e-3


@pytest.mark.parametrize("kind", ["distilbert", "albert", "roberta"])
def test_head_reads_enhanced_first_tokens(kind: str) -> None:
    """First tokens of the batch are changed as by the transform; other tokens are unchanged."""
    model = tiny(kind).eval()
    heads = {"distilbert": "pre_classifier", "albert": "albert.pooler", "roberta": "classifier"}
    ids = torch.randint(5, 50, (16, 7))
    items = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    read: list[torch.Tensor] = []
    with torch.no_grad():
        before = model(**items, output_hidden_states=True)
        method = Method(kind="cluster", n_clusters=3, n_components=1)
        batch_clustering = BatchClustering(method, seed=4)
        batch_clustering.attach(model)
        model.get_submodule(heads[kind]).register_forward_pre_hook(
            lambda _, states: read.append(states[0])
        )
        after = model(**items)
    first = before.hidden_states[-1][:, 0]
    expected = ClusterBasedEnhancement(3, 1, random_state=4).fit_transform(first.numpy())
    head_input = read[0] if read[0].dim() == 2 else read[0][:, 0]
    assert np.abs(head_input.numpy() - expected).max() < 1e-5
    assert torch.equal(batch_clustering.last, head_input)
    assert read[0].dim() == 2 or torch.equal(read[0][:, 1:], before.hidden_states[-1][:, 1:])
    assert float((after.logits - before.logits).abs().max()) > 1e-3


def test_max_length_beyond_the_model_is_rejected(minilm: Path) -> None:
    with pytest.raises(IsotropyError, match="at most 512"):
        load_tokenizer(minilm, 600)


def test_squad_on_real_items(project: Path, mirror: Path, minilm: Path, tmp_path: Path) -> None:
    """Windows of real questions contain their answers: correct logits give exact matches."""
    entry: Source = load_registry(project / "config/sources").sources["squad-part"]
    origin = next(o for o in entry.origins if o.type == "mirror")
    for name, path in origin.files.items():
        (tmp_path / name).symlink_to(mirror / path)
    rows = read_rows(entry.contents[origin.content], tmp_path)[:60]
    spec = SentencesSpec(kind="sentences", source="squad-part", task="extractive")
    prepared = prepare_sentences(spec, rows)
    texts, items = tmp_path / "texts.parquet", tmp_path / "items.parquet"
    prepared.texts.to_parquet(texts)
    write_items(items, prepared.items, prepared.dataset, "isotropy-record:0")
    training = TRAINING.model_copy(update={"max_length": 192})
    side = read_task_data(load_tokenizer(minilm, 64), texts, items, training)
    starts, ends = [], []
    for window in side.inputs.windows:
        start, end = np.zeros(len(window.ids)), np.zeros(len(window.ids))
        start[window.answer[0]] = end[window.answer[1]] = 5 * (window.answer != (0, 0))
        starts.append(start)
        ends.append(end)
    answers = best_answers(side.inputs.windows, starts, ends, side.contexts)
    # A word piece may be longer than the answer
    assert answer_scores(answers, side.inputs.answers)["exact_match"].mean() > 95
