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
from sklearn.metrics import silhouette_score
from transformers import AutoModelForQuestionAnswering

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
    exact_match,
    f1,
    read_task_data,
    windows,
)
from replication.finetune.model import BatchClustering, load_model, load_tokenizer, task_loss
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
    settings = spec(Method(kind="none")) if settings is None else settings
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
    with interrupted_at(8, loop._Training, "step"):
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
    run = loop._Training(spec(), model := tiny(), inputs := learnable_inputs(), 0, CPU)
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
    with pytest.raises(
        IsotropyError,
        match=r"diverged at update 1 of 12: the loss is not finite; use a smaller learning_rate",
    ):
        train(tmp_path, model=model)
    model = tiny()
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.weight.fill_(math.inf)
    with pytest.raises(IsotropyError, match=r"diverged at update 1 of 12: .* NaN or infinity"):
        train(tmp_path, spec(ISTAR), model)
    with pytest.raises(IsotropyError, match=r"training diverged"):
        train(tmp_path, spec(ISTAR, learning_rate=1e30, max_grad_norm=None))
    with pytest.raises(IsotropyError, match="float16 needs a GPU"):
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
        row = measured.layers.iloc[i]
        sentences = np.stack([tokens[0] for tokens in layers[i]])
        assert row["isoscore"] == pytest.approx(float(published_package.IsoScore(cloud)), abs=1e-5)
        units = cloud / np.linalg.norm(cloud, axis=1, keepdims=True)
        n = len(units)
        assert row["mean_cosine"] == pytest.approx(
            ((units @ units.T).sum() - n) / (n * (n - 1)), abs=1e-5
        )
        assert row["sentence_two_nn"] == pytest.approx(
            skdim.id.TwoNN().fit(sentences).dimension_, rel=1e-4
        )
        assert row["sentence_silhouette"] == pytest.approx(
            silhouette_score(sentences, inputs.targets), abs=1e-5
        )
    all_layers = np.concatenate(clouds)
    assert measured.facts["isoscore"] == pytest.approx(
        float(published_package.IsoScore(all_layers)), abs=1e-5
    )
    assert measured.facts["n_tokens"] == len(clouds[0])
    right = np.mean(np.stack(logits).argmax(axis=1) == inputs.targets)
    assert measured.facts["performance"] == pytest.approx(100 * right)
    assert measured.facts["activations"] == pytest.approx(
        np.mean([t[0] for t in layers[-1]], axis=0), abs=1e-5
    )
    assert list(measured.points["predicted"]) == np.stack(logits).argmax(axis=1).tolist()
    correct = (measured.points["predicted"] == measured.points["label"]).mean()
    assert measured.facts["metrics"]["accuracy"] == pytest.approx(100 * correct)


def test_isoscore_star_uses_the_covariance_of_training_tokens() -> None:
    model, inputs, training_inputs = tiny().eval(), learnable_inputs(40, 1), learnable_inputs(5, 2)
    side = task_data(inputs)
    all_tokens = GeometrySettings(zeta=0.75, tokens=10**6)
    settings = spec(Method(kind="none")).model_copy(update={"measure": all_tokens})
    same_data = measure(Reader(model, 0, CPU), inputs, side, settings)
    other_data = measure(Reader(model, 0, CPU), training_inputs, side, spec(Method(kind="none")))
    assert same_data.facts["isoscore_star"] == pytest.approx(same_data.facts["isoscore"], abs=1e-9)
    assert other_data.facts["isoscore_star"] != pytest.approx(
        other_data.facts["isoscore"], abs=1e-4
    )
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


def test_scores_of_tasks_equal_their_definitions() -> None:
    generator = np.random.default_rng(0)
    right, predicted = generator.integers(0, 2, 200), generator.integers(0, 2, 200)
    tp, tn = ((predicted == c) & (right == c) for c in (1, 0))
    fp, fn = ((predicted == c) & (right == 1 - c) for c in (1, 0))
    a, b, c, d = (int(x.sum()) for x in (tp, tn, fp, fn))
    scores = classification_scores(predicted, right, 2)
    assert scores["accuracy"] == pytest.approx(100 * (a + b) / 200)
    assert scores["matthews"] == pytest.approx(
        100 * (a * b - c * d) / math.sqrt((a + c) * (a + d) * (b + c) * (b + d))
    )
    assert scores["f1"] == pytest.approx(100 * 2 * a / (2 * a + c + d))
    assert "f1" not in classification_scores(np.array([0, 1]), np.array([0, 1]), 3)
    x, y = generator.standard_normal(100), generator.standard_normal(100)
    result = regression_scores(x, x + y)
    assert result["pearson"] == pytest.approx(100 * np.corrcoef(x, x + y)[0, 1])
    ranks = [np.argsort(np.argsort(v)) for v in (x, x + y)]
    assert result["spearman"] == pytest.approx(100 * np.corrcoef(*ranks)[0, 1])
    assert regression_scores(np.ones(5), y[:5]) == {"pearson": 0.0, "spearman": 0.0}


@pytest.mark.parametrize(
    ("answer", "right", "exact", "overlap"),
    [
        ("The Eiffel Tower.", ["eiffel tower"], 1, 1),
        ("in the tower of London", ["Tower of London", "London"], 0, 2 * 3 / 7),
        ("an apple a day", ["apple day"], 1, 1),
        ("theatre", ["the atre"], 0, 0),
        ("", ["something"], 0, 0),
        ("red red blue", ["red blue blue"], 0, 2 * 2 / 6),
    ],
)
def test_answers_are_scored_as_in_squad(
    answer: str, right: list[str], exact: float, overlap: float
) -> None:
    """Expected values were computed by hand."""
    assert exact_match(answer, right) == exact
    assert f1(answer, right) == pytest.approx(overlap)
    scores = answer_scores([answer], [right])
    assert scores["exact_match"].tolist() == [100 * exact]
    assert scores["f1"].tolist() == pytest.approx([100 * overlap])


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
    runs = paper.runs()
    assert set(runs) == {
        f"polarity--all-MiniLM-L6-v2--{m}"
        for m in (
            "none",
            "cosreg_lambda1",
            "istar_lambdam1_zeta0_2",
            "istar_lambda1_zeta0_2",
            "istar_lambda5_zeta0_2",
        )
    }
    assert Method(kind="istar", strength=0.5, zeta=0.25).name == "istar_lambda0_5_zeta0_25"
    plan = Plan(study, project, project)
    name = next(iter(runs))
    assert (
        plan.spec(f"finetune/rudman2024/{name}/seed1").canonical()
        != plan.spec(f"finetune/rudman2024/{name}/seed0").canonical()
    )
    without = study.model_copy(
        update={"config": study.config.model_copy(update={"rudman2024": None})}
    )
    with pytest.raises(LookupError, match=name):
        Plan(without, project, project).spec(f"finetune/rudman2024/{name}/seed0")
    assert not any("rudman2024" in file for file in Plan(without, project, project).table_files())
    for broken in (
        {"kind": "none", "strength": 1.0},
        {"kind": "istar", "strength": 1.0},
        {"kind": "unbiased", "strength": 1.0, "zeta": 0.1},
        {"kind": "cosreg", "zeta": 0.1},
    ):
        with pytest.raises(ValueError, match="I-STAR has strength and zeta"):
            Method.model_validate(broken)


def test_spec_sets_layers_of_the_penalty_and_padding() -> None:
    for layers, expected in (("all", "all"), ("last", (-1,))):
        istar = Method(kind="istar", strength=1, zeta=0.2, layers=layers)
        cosreg = Method(kind="cosreg", strength=1, layers=layers)
        unbiased = Method(kind="unbiased", strength=1, layers=layers)
        for method in (istar, cosreg, unbiased):
            assert make_penalty(spec(method), 16).layers == expected
    inputs = learnable_inputs()
    longest = max(map(len, inputs.ids))
    assert collate(inputs, range(4), 0, CPU).mask.shape[1] <= longest
    padded = collate(inputs, range(4), 0, CPU, 40)
    assert padded.mask.shape == (4, 40)
    assert padded.mask.sum() == collate(inputs, range(4), 0, CPU).mask.sum()


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
    counted = (
        first_score("c", keep_padding=True),
        first_score("d", keep_padding=True, pad_to_max_length=True),
    )
    assert abs(counted[0] - counted[1]) > 1e-3


@pytest.mark.parametrize("kind", ["distilbert", "albert", "roberta"])
def test_other_architectures_are_trained_and_measured(kind: str, tmp_path: Path) -> None:
    """All layers are measured, although configurations of architectures have different field
    names."""
    model = tiny(kind)
    side = task_data(learnable_inputs())
    rows, _ = train(tmp_path, spec(epochs=1), model)
    assert np.isfinite(rows["score"]).all()
    result = measure(Reader(model, 0, CPU), side.inputs, side, spec())
    assert list(result.layers["layer"]) == [1, 2, 3]
    assert result.layers["isoscore"].between(0, 1).all()


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
    with pytest.raises(IsotropyError, match="reads at most 512 word pieces, not 600"):
        load_tokenizer(minilm, 600)


def prepared_from_mirror(
    project: Path, mirror: Path, tmp_path: Path, source: str, **about: Any
) -> tuple[Path, Path]:
    """Write prepared tables of the first `n` items of a source in the mirror."""
    entry: Source = load_registry(project / "config/sources").sources[source]
    origin = next(o for o in entry.origins if o.type == "mirror")
    folder = tmp_path / source
    folder.mkdir()
    for name, path in origin.files.items():
        (folder / name).symlink_to(mirror / path)
    rows = read_rows(entry.contents[origin.content], folder)[: about.pop("n")]
    prepared = prepare_sentences(SentencesSpec(kind="sentences", source=source, **about), rows)
    prepared.texts.to_parquet(folder / "texts.parquet")
    write_items(folder / "items.parquet", prepared.items, prepared.dataset, "isotropy-record:0")
    return folder / "texts.parquet", folder / "items.parquet"


def test_squad_on_real_items(project: Path, mirror: Path, minilm: Path, tmp_path: Path) -> None:
    """Windows of real questions contain their answers, correct logits give exact matches, and a
    model can be trained and measured."""
    texts, items = prepared_from_mirror(
        project, mirror, tmp_path, "squad-part", task="extractive", n=60
    )
    training = TRAINING.model_copy(update={"max_length": 192, "epochs": 1, "batch_size": 8})
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
    model = load_model(minilm, "extractive", 0, 0, 0).model
    assert isinstance(model, type(AutoModelForQuestionAnswering.from_config(model.config)))
    changes = {"metric": "exact_match", "training": training}
    chosen = spec(Method(kind="none")).model_copy(update=changes)
    every, n = side.inputs, slice(8)
    few = Inputs(
        "extractive", every.ids[n], None, every.targets[n], every.windows[n], every.answers
    )
    finetune(chosen, model, few, 0, CPU, tmp_path / "work")
    measured = measure(Reader(model, 0, CPU), few, side, chosen)
    assert set(measured.facts["metrics"]) == {"exact_match", "f1"}
    assert 0 <= measured.facts["metrics"]["exact_match"] <= measured.facts["metrics"]["f1"] < 60
    assert measured.layers["sentence_silhouette"].isna().all()
    assert measured.points[["label", "predicted"]].isna().all(axis=None)
    assert measured.points["f1"].mean() == pytest.approx(measured.facts["metrics"]["f1"])
    assert measured.points["f1"].notna().sum() == len(every.answers)


def test_sts_and_cola_on_real_items(
    project: Path, mirror: Path, minilm: Path, tmp_path: Path
) -> None:
    """STS-B is a regression with both correlations, CoLA has Matthews' correlation; texts of pairs
    have token types."""
    tokenizer = load_tokenizer(minilm, 64)
    texts, items = prepared_from_mirror(
        project, mirror, tmp_path, "glue-stsb-validation", task="regression", n=40
    )
    side = read_task_data(
        tokenizer, texts, items, TRAINING.model_copy(update={"max_length": 64, "token_types": True})
    )
    assert side.inputs.targets.dtype == np.float32
    assert side.inputs.types is not None
    assert all(
        row.count(102) == 2 and sum(kinds) > 0
        for row, kinds in zip(side.inputs.ids, side.inputs.types, strict=True)
    )
    model = load_model(minilm, "regression", 0, 0, 0).model
    chosen = spec(Method(kind="none")).model_copy(update={"metric": "spearman"})
    finetune(chosen, model, side.inputs, 0, CPU, tmp_path / "work")
    measured = measure(Reader(model, 0, CPU), side.inputs, side, chosen)
    assert measured.facts["performance"] == measured.facts["metrics"]["spearman"]
    predicted = measured.points["predicted"].to_numpy()
    assert measured.facts["metrics"]["pearson"] == pytest.approx(
        100 * np.corrcoef(predicted, side.inputs.targets)[0, 1], abs=1e-3
    )
    cola = prepared_from_mirror(
        project, mirror, tmp_path, "glue-cola-validation", label_names=["no", "yes"], n=20
    )
    side = read_task_data(tokenizer, *cola, TRAINING)
    measured = measure(
        Reader(load_model(minilm, "single-label", 2, 0, 0).model, 0, CPU),
        side.inputs,
        side,
        spec(ISTAR).model_copy(update={"metric": "matthews"}),
    )
    assert measured.facts["performance"] == measured.facts["metrics"]["matthews"]
