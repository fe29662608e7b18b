"""In sentence-transformers: penalties beside its losses, the evaluator, transforms as modules."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer, losses
from sentence_transformers.base.modules import Router, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from sklearn.metrics.pairwise import cosine_similarity
from transformers import AutoModel, Trainer, TrainingArguments

from isotropy.integrations.sentence_transformers import (
    ClusterEnhancementModule,
    IsotropyEvaluator,
    PenalizedLoss,
    ReestimateShrinkage,
    as_dense,
)
from isotropy.losses import CosRegLoss, IStarLoss, UnbiasedIsoScoreLoss
from isotropy.metrics import isoscore
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement, Whitening
from tests.unit.tiny_models import sentences, write_tiny_bert

TEXTS = sentences(40)
PENALTIES = {
    "istar": lambda: IStarLoss(16, strength=2.0, zeta=0.2),
    "unbiased": lambda: UnbiasedIsoScoreLoss(strength=2.0, layers=[1, 2]),
    "cosreg": lambda: CosRegLoss(strength=2.0),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("model"))


@pytest.fixture
def model(folder: Path) -> SentenceTransformer:
    transformer = Transformer(str(folder))
    made = SentenceTransformer(modules=[transformer, Pooling(16, "mean")], device="cpu")
    for module in made.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return made.train()


def columns(model: SentenceTransformer, n: int = 2) -> list[dict[str, Any]]:
    return [model.preprocess(TEXTS[8 * i : 8 * i + 8]) for i in range(n)]


@pytest.mark.parametrize("n_columns", [2, 3])
@pytest.mark.parametrize("kind", PENALTIES)
def test_penalty_is_that_of_plain_transformers_and_texts_are_encoded_once(
    kind: str, n_columns: int, model: SentenceTransformer, folder: Path
) -> None:
    """The library encodes the last two of three columns together."""
    penalty = PENALTIES[kind]()
    loss = PenalizedLoss(model, losses.MultipleNegativesRankingLoss(model), penalty)
    if kind == "istar":
        assert loss.estimate_shrinkage(TEXTS, 100) >= 100
        assert model.training
    calls: list[int] = []
    model[0].register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0]["input_ids"])))
    parts = loss(columns(model, n_columns), None)
    assert sum(calls) == 8 * n_columns
    plain = AutoModel.from_pretrained(folder)
    clouds = []
    for features in columns(model, n_columns):
        inputs = {k: features[k] for k in ("input_ids", "attention_mask")}
        states = plain.eval()(**inputs, output_hidden_states=True).hidden_states
        clouds.append(penalty.tokens(states, features["attention_mask"]))
    expected = penalty.penalty(torch.cat(clouds))
    assert float(parts["penalty"]) == pytest.approx(float(expected), rel=1e-4)
    alone = losses.MultipleNegativesRankingLoss(model)(columns(model, n_columns), None)
    assert float(parts["task_loss"]) == pytest.approx(float(alone), rel=1e-5)
    parts["penalty"].backward()
    assert float(model[0].model.embeddings.word_embeddings.weight.grad.abs().sum()) > 0
    assert not model[0].model.config.output_hidden_states
    model.eval()
    assert loss(columns(model), None).keys() == {"task_loss"}


@pytest.mark.parametrize("of", ["tokens", "sentences"])
def test_matryoshka_and_adaptive_layers(of: Any, model: SentenceTransformer) -> None:
    """The penalty is that of whole vectors of the complete model, as without these losses."""
    inner = losses.MultipleNegativesRankingLoss(model)
    expected = PenalizedLoss(model, inner, CosRegLoss(), of)(columns(model), None)["penalty"]
    for wrapped in (
        losses.MatryoshkaLoss(model, inner, [16, 8]),
        losses.AdaptiveLayerLoss(model, inner),
        losses.Matryoshka2dLoss(model, inner, [16, 8]),
    ):
        parts = PenalizedLoss(model, wrapped, CosRegLoss(), of)(columns(model), None)
        assert float(parts["penalty"]) == pytest.approx(float(expected), rel=1e-5)
    if of == "sentences":
        vectors = model.eval().encode(TEXTS[:16])
        similar = cosine_similarity(vectors)
        np.fill_diagonal(similar, 0)
        assert float(expected) == pytest.approx(similar.sum() / 16**2, rel=1e-4)


def test_losses_that_cannot_be_penalized_are_refused(model: SentenceTransformer) -> None:
    """Those that cache gradients, also within another loss; a loss that has a penalty."""
    cached = losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=4)
    penalized = PenalizedLoss(model, losses.MultipleNegativesRankingLoss(model), CosRegLoss())
    for loss, word in (
        (cached, "caches gradients"),
        (losses.MatryoshkaLoss(model, cached, [16, 8]), "caches gradients"),
        (penalized, "penalty already"),
    ):
        with pytest.raises(ValueError, match=word):
            PenalizedLoss(model, loss, CosRegLoss())
    for outer in (
        losses.MatryoshkaLoss(model, penalized, [16, 8]),
        losses.AdaptiveLayerLoss(model, penalized),
        losses.Matryoshka2dLoss(model, penalized, [16, 8]),
    ):
        for mode in (True, False):
            model.train(mode)
            with pytest.raises(ValueError, match="outermost"):
                outer(columns(model), None)


class PairTrainer(Trainer):
    """The trainer that the library's is made from, without its data sets."""

    def compute_loss(self, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> Any:
        rows = inputs["row"].tolist()
        columns = [model.preprocess([TEXTS[i + first] for i in rows]) for first in (0, 16)]
        return torch.stack(list(self.loss(columns).values())).sum()


def trained(model: Any, folder: Path, resume: Path | None = None) -> tuple[Any, IStarLoss]:
    """The model after two epochs of four updates, of which every second is saved."""
    model = deepcopy(model)
    penalty = IStarLoss(16, strength=1.0)
    loss = PenalizedLoss(model, losses.MultipleNegativesRankingLoss(model), penalty)
    arguments = TrainingArguments(
        str(folder), num_train_epochs=2, per_device_train_batch_size=4, save_steps=2,
        learning_rate=0.01, report_to=[], disable_tqdm=True, use_cpu=True,
        remove_unused_columns=False,
    )  # fmt: skip
    data: Any = [{"row": i} for i in range(16)]
    trainer = PairTrainer(model, arguments, train_dataset=data)
    trainer.loss = loss
    trainer.add_callback(ReestimateShrinkage(loss, TEXTS, 50))
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    return model, penalty


def test_shrinkage_is_estimated_in_each_epoch_and_resumed_within(
    model: SentenceTransformer, tmp_path: Path
) -> None:
    whole, penalty = trained(model, tmp_path / "a")
    expected = torch.cat([p.flatten() for p in whole.parameters()])
    for step in (2, 4, 6):
        resumed, other = trained(model, tmp_path / f"b{step}", tmp_path / f"a/checkpoint-{step}")
        assert torch.equal(torch.cat([p.flatten() for p in resumed.parameters()]), expected), step
        assert torch.equal(other.shrinkage.scatter, penalty.shrinkage.scatter)


def test_shrinkage_is_kept_where_there_are_no_texts(model: SentenceTransformer) -> None:
    loss = PenalizedLoss(model, losses.MultipleNegativesRankingLoss(model), PENALTIES["istar"]())
    n = loss.estimate_shrinkage(TEXTS, 100)
    with pytest.raises(ValueError, match="texts"):
        loss.estimate_shrinkage([])
    assert int(loss.penalty.shrinkage.n) == n


@pytest.mark.parametrize("of", ["tokens", "sentences"])
def test_each_route_of_a_router_is_penalized(of: Any, folder: Path) -> None:
    """Texts of two columns, each with its own transformer."""
    routes = {task: [Transformer(str(folder)), Pooling(16)] for task in ("query", "document")}
    model = SentenceTransformer(modules=[Router(routes)], device="cpu")
    loss = PenalizedLoss(model, losses.MultipleNegativesRankingLoss(model), CosRegLoss(), of)
    columns = [model.preprocess(TEXTS[:8], task=task) for task in routes]
    model.train()
    loss(columns, None)["penalty"].backward()
    for task in routes:
        embeddings = model[0].sub_modules[task][0].model.get_input_embeddings()
        assert embeddings.weight.grad.abs().sum() > 0
        assert not model[0].sub_modules[task][0].model.config.output_hidden_states


def test_evaluator_has_the_scores_of_the_embeddings(
    model: SentenceTransformer, tmp_path: Path
) -> None:
    evaluator = IsotropyEvaluator(TEXTS, name="t")
    for epoch in (1, 2):
        metrics = evaluator(model.eval(), str(tmp_path), epoch, 7)
    vectors = model.encode(TEXTS)
    assert metrics["t_isoscore"] == pytest.approx(float(isoscore(vectors)))
    similar = cosine_similarity(vectors.astype(np.float64))
    mean = similar[~np.eye(len(TEXTS), dtype=bool)].mean()
    assert metrics["t_mean_cosine"] == pytest.approx(mean)
    rests = (np.delete(np.delete(similar, i, 0), i, 1) for i in range(len(TEXTS)))
    left_out = [rest[~np.eye(len(rest), dtype=bool)].mean() for rest in rests]
    jackknife = np.std(left_out) * np.sqrt(len(TEXTS) - 1)
    assert metrics["t_mean_cosine_error"] == pytest.approx(jackknife, rel=0.1)
    assert evaluator.primary_metric == "t_isoscore"
    table = pd.read_csv(tmp_path / "isotropy_evaluation_t_results.csv")
    assert table[["epoch", "steps"]].to_numpy().tolist() == [[1, 7], [2, 7]]
    assert table["isoscore"].iloc[1] == pytest.approx(metrics["t_isoscore"])


def test_evaluator_of_a_collapsed_model_goes_on(
    model: SentenceTransformer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    metrics = IsotropyEvaluator(TEXTS)(model.eval(), str(tmp_path))
    assert np.isnan(metrics["isoscore"])
    assert np.isnan(metrics["isoscore_unbiased"])
    assert metrics["mean_cosine"] == 0
    assert "equal" in caplog.text
    assert np.isnan(pd.read_csv(next(tmp_path.iterdir()))["isoscore"]).all()
    with pytest.raises(ValueError, match="at least 5"):
        IsotropyEvaluator(TEXTS[:4])


@pytest.mark.parametrize("transform", [Center(), AllButTheTop(3), Whitening(0.1)], ids=repr)
def test_affine_transform_is_loaded_without_trust_in_code(
    transform: Any, model: SentenceTransformer, tmp_path: Path
) -> None:
    vectors = model.eval().encode(TEXTS)
    expected = transform.fit(vectors.astype(np.float64)).transform(vectors.astype(np.float64))
    model.append(as_dense(transform))
    model.save(str(tmp_path / "saved"))
    loaded = SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=False)
    largest = np.abs(expected).max()
    assert np.abs(loaded.encode(TEXTS) - expected).max() < 1e-5 * max(1, largest)


def test_clustered_transform_needs_trust_and_equals_the_estimator(
    model: SentenceTransformer, tmp_path: Path
) -> None:
    vectors = model.eval().encode(TEXTS)
    transform = ClusterBasedEnhancement(3, 2).fit(vectors)
    model.append(ClusterEnhancementModule.of(transform))
    assert np.abs(model.encode(TEXTS) - transform.transform(vectors)).max() < 1e-5
    model.save(str(tmp_path / "saved"))
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    loaded = SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    assert np.array_equal(loaded.encode(TEXTS), model.encode(TEXTS))
    with pytest.raises(ValueError, match="not affine"):
        as_dense(transform)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not fitted"):
        as_dense(Center())
    with pytest.raises(ValueError, match="not fitted"):
        ClusterEnhancementModule.of(ClusterBasedEnhancement(3, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_clustered_transform_in_other_precisions(
    dtype: torch.dtype, model: SentenceTransformer
) -> None:
    """The module computes in single precision at least, also under autocast."""
    vectors = model.eval().encode(TEXTS)
    transform = ClusterBasedEnhancement(3, 2).fit(vectors)
    module = ClusterEnhancementModule.of(transform).to(dtype)
    x = torch.from_numpy(vectors).to(dtype)
    expected = torch.from_numpy(transform.transform(x.double().numpy())).to(dtype)
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            enhanced = module({"sentence_embedding": x})["sentence_embedding"]
        assert enhanced.dtype == dtype
        torch.testing.assert_close(enhanced, expected, rtol=0.01, atol=1e-5)


def test_example_of_the_documentation(
    project: Path, model: SentenceTransformer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model.save("model")
    page = (project / "docs/sentence-transformers.md").read_text("utf8")
    code = re.findall(r"```python\n(.*?)```", page, re.S)[0]
    names: dict[str, Any] = {"MODEL": "model", "texts": TEXTS}
    exec(compile(code, "docs/sentence-transformers.md", "exec"), names)
    assert names["after"]["mine_isoscore"] != names["before"]["mine_isoscore"]
    shown = SentenceTransformer("isotropic").encode(TEXTS)
    assert np.abs(shown.mean(axis=0)).max() < 1e-5
