"""The computation of each stage on a GPU beside the CPU, within tolerances that follow
from the number format. Where torch sees no GPU, the same runs on the CPU.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from IsoScore import IsoScore as published_package

from isotropy import metrics
from isotropy.device import HostCopy, pick_device
from isotropy.losses import CosRegLoss, IStarLoss
from isotropy.models.encoder import Encoder
from isotropy.models.sentence_encoder import SentenceEncoder, embed
from replication.embed.layers import read_layer, read_tokens
from replication.embed.tokens import Extraction, extract
from replication.finetune import train
from replication.finetune.analysis import Reader, measure
from replication.finetune.data import Inputs, TaskData, collate
from replication.finetune.spec import FinetuneSpec, Method
from replication.optimize.descent import Items
from replication.optimize.optimize import optimize
from replication.optimize.spec import Evaluation
from replication.prepare.table import Dataset
from tests import synthetic_models as models
from tests.synthetic_texts import Writer
from tests.unit import factories
from tests.unit.factories import ISTAR
from tests.unit.interruption import interrupted_at

DEVICE, CPU = pick_device("auto"), torch.device("cpu")
EPSILON = {d: torch.finfo(d).eps for d in (torch.float64, torch.float32, torch.bfloat16)}
RNG = np.random.default_rng(0)
N, D = 900, 24
X = RNG.standard_normal((N, D)) * np.linspace(0.3, 1, D) + 0.4
TWO, MANY = RNG.integers(0, 2, N), RNG.integers(0, 120, N)
S = torch.from_numpy(np.cov(RNG.standard_normal((300, D)).T))

# Each with the factor on the rounding error of the dtype that its arithmetic may have.
METRICS: dict[str, tuple[Any, float]] = {
    "isoscore": (metrics.isoscore, 20),
    "isoscore_star": (lambda x: metrics.isoscore_star(x, 0.3, S.to(x.device)), 20),
    "isoscore_star_few": (lambda x: metrics.isoscore_star(x[:9], 0.3, S.to(x.device)), 20),
    "mean_cosine": (metrics.mean_cosine, 20),
    "self_similarity": (lambda x: np.nanmean(metrics.self_similarity(x, MANY).values), 20),
    "explainable_variance": (
        lambda x: np.nanmean(metrics.explainable_variance(x, MANY).centred),
        200,
    ),
    "s_intra": (lambda x: metrics.s_intra(x, MANY), 20),
    "partition_isotropy": (lambda x: metrics.partition_isotropy(x, log=True), 200),
    "silhouette": (lambda x: metrics.silhouette(x, TWO), 20),
    "silhouette_of_many": (lambda x: metrics.silhouette(x, MANY), 20),
    "silhouette_of_labelings": (lambda x: metrics.silhouette_of_labelings(x, [TWO, MANY])[1], 20),
    "two_nn": (metrics.two_nn, 2000),
    "lid_mle": (lambda x: metrics.lid_mle(x, 20), 2000),
    "triplet_objective": (lambda x: metrics.triplet_objective(x, TWO) / N**3, 50),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", METRICS)
def test_metrics(name: str, dtype: torch.dtype) -> None:
    compute, factor = METRICS[name]
    expected = float(compute(torch.from_numpy(X)))
    value = float(compute(torch.from_numpy(X).to(DEVICE, dtype)))
    assert value == pytest.approx(expected, abs=factor * EPSILON[dtype] * max(1, abs(expected)))


def test_streams() -> None:
    batches = [torch.from_numpy(X).float()[a : a + 200] for a in range(0, N, 200)]
    covariance, score = metrics.StreamingCovariance(D).to(DEVICE), metrics.StreamingIsoScore(D)
    score, cosine = score.to(DEVICE), metrics.StreamingMeanCosine(D)
    for batch in batches:
        for stream in (covariance, score, cosine):
            stream.update(batch.to(DEVICE))  # type: ignore[attr-defined]
    exact = torch.from_numpy(np.cov(X.T))
    assert torch.allclose(covariance.covariance().cpu(), exact, atol=1e-6)
    assert score.compute(0.3, S.to(DEVICE)) == pytest.approx(
        float(metrics.isoscore_star(torch.from_numpy(X), 0.3, S)), abs=1e-6
    )
    assert cosine.compute() == pytest.approx(metrics.mean_cosine(X), abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("keep_padding", [False, True])
@pytest.mark.parametrize("kind", ["istar", "cosreg"])
def test_penalties_and_their_gradients(kind: str, keep_padding: bool, dtype: torch.dtype) -> None:
    """Beside the same penalty in float64, of the same rounded hidden states."""
    states = torch.from_numpy(RNG.standard_normal((4, 6, 11, D))).to(dtype)
    mask = (torch.arange(11) < torch.tensor([11, 3, 1, 9, 10, 7])[:, None]).long()
    positions = torch.from_numpy(np.flatnonzero(mask.numpy()))

    def value(device: torch.device, x: torch.Tensor, **selection: Any) -> torch.Tensor:
        penalty: Any = CosRegLoss(layers="all", keep_padding=keep_padding, validate=False)
        if kind == "istar":
            penalty = IStarLoss(
                D, strength=-2.0, zeta=0.3, keep_padding=keep_padding, validate=False
            ).to(device)
            penalty.update_shrinkage(states[:, :3].double().to(device), mask[:3].to(device))
        result: torch.Tensor = penalty(x, **selection)
        result.backward()  # type: ignore[no-untyped-call]
        return result.detach().cpu().double()

    exact = states.clone().double().requires_grad_()
    given = states.clone().to(DEVICE).requires_grad_()
    expected = value(CPU, exact, attention_mask=mask)
    obtained = value(DEVICE, given, positions=positions.to(DEVICE))
    assert float(obtained) == pytest.approx(float(expected), abs=20 * 1.2e-7)
    assert exact.grad is not None
    assert given.grad is not None
    error = (given.grad.cpu().double() - exact.grad).abs().max() / exact.grad.abs().max()
    assert float(error) < 20 * max(EPSILON[dtype], EPSILON[torch.float32])


def test_published_penalty() -> None:
    """IsoScore* of the published package, which moves its tensors to a GPU by itself."""
    points = torch.from_numpy(X[:50])
    peer = published_package.istar().IsoScore_star(
        points.to(DEVICE), S.to(DEVICE), 0.3, is_eval=False, gpu_id=str(DEVICE)
    )
    ours = metrics.isoscore_star(points.to(DEVICE), 0.3, S.to(DEVICE))
    assert ours.item() == pytest.approx(peer.item(), abs=1e-6)  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("all-MiniLM-L6-v2", "gpt2", "all-mpnet-base-v2"):
        models.write(name, folder / name)
    return folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "gpt2", "all-mpnet-base-v2"])
def test_embeddings(name: str, dtype: torch.dtype, model_folders: Path, tmp_path: Path) -> None:
    """Vectors of sentences and tokens, in several parts, beside float32 on the CPU."""
    texts = Writer(40).sentences(60)
    settings = Encoder(pooling="mean", normalize=True, max_length=24)
    sentences, tokens, layers = [], [], []
    for device, device_dtype in ((CPU, torch.float32), (DEVICE, dtype)):
        encoder = SentenceEncoder(model_folders / name, settings, device, device_dtype)
        work = tmp_path / str(len(layers))
        sentences.append(embed(encoder, texts, token_budget=256, workers=1, work=work)[0])
        (work / "out").mkdir()
        n = encoder.n_layers
        extraction = Extraction(encoder, texts, layers=[0, 1, n], window=None, token_budget=256)
        extract(extraction, workers=1, work=work / "parts", folder=work / "out", mark="m")
        tokens.append(read_tokens(work / "out"))
        layers.append([read_layer(work / "out", layer) for layer in (0, 1, n)])
    assert tokens[0].equals(tokens[1])
    tolerance = 100 * EPSILON[dtype] if dtype == torch.float32 else 4 * EPSILON[dtype]
    assert np.abs(sentences[0] - sentences[1]).max() < tolerance
    for exact, obtained in zip(*layers, strict=True):
        assert np.abs(exact - obtained).max() < tolerance * max(1, np.abs(exact).max())


@pytest.mark.parametrize("n_labels", [2, 40])
@pytest.mark.parametrize("pairs", [False, True])
def test_trajectories(n_labels: int, pairs: bool, tmp_path: Path) -> None:
    """Direct and by windows: within the windows' tolerance of one another and of the CPU."""
    n = 300
    vectors = RNG.standard_normal((n * (1 + pairs), 16)).astype(np.float32) / 4
    items = Items(vectors, np.arange(len(vectors)).reshape(n, -1), RNG.integers(0, n_labels, n))
    tables = {}
    for device in (CPU, DEVICE):
        for tolerance in (None, 1e-5):
            evaluation = Evaluation(tolerance=tolerance, sample_size=None)
            spec = factories.optimize_spec(bias=True, seed=0, updates=60, measure=evaluation)
            work = tmp_path / str(len(list(tmp_path.iterdir())))
            rows, facts, _ = optimize(spec, items, n_labels, device, work)
            tables[device.type, tolerance] = rows[["loss", "isoscore", "silhouette"]].to_numpy()
            assert tolerance is None or facts["error_bound"] <= tolerance
    exact = tables["cpu", None]
    for table in tables.values():
        assert np.abs(table - exact).max() < 2e-5


METHODS = {
    "none": Method(kind="none"),
    "istar": ISTAR,
    "cosreg": Method(kind="cosreg", strength=-1.0),
}


def finetune_spec(method: Method = ISTAR, **changes: Any) -> FinetuneSpec:
    chosen = {"schedule": "linear", "warmup": 0.1, "weight_decay": 0.01} | changes
    return factories.finetune_spec(method, **chosen)


def classifier(seed: int = 0, dropout: float = 0.0) -> Any:
    names = ("hidden_dropout_prob", "attention_probs_dropout_prob")
    return factories.tiny(seed=seed, **dict.fromkeys(names, dropout))


def learnable() -> Inputs:
    return factories.learnable_inputs(60)


PRECISIONS = ["float32", "bfloat16", *(["float16"] if DEVICE.type == "cuda" else [])]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", METHODS)
def test_fine_tuning(kind: str, precision: Any, tmp_path: Path) -> None:
    """Losses and scores of each update, and geometry after the last, beside float32 on the CPU."""
    method = METHODS[kind]
    inputs, rows, layers = learnable(), [], []
    for device, chosen in ((CPU, "float32"), (DEVICE, precision)):
        spec, model = finetune_spec(method, precision=chosen), classifier()
        work = tmp_path / str(len(rows))
        rows.append(train.finetune(spec, model, inputs, 0, device, work)[0])
        data = TaskData(inputs, Dataset.model_construct(label_names=["0", "1"]), [], 60, 60)
        layers.append(measure(Reader(model, 0, device), inputs, data, spec).layers)
    tolerance = 1e-4 if precision == "float32" else 0.05
    for column in ("loss", "score"):
        np.testing.assert_allclose(rows[0][column], rows[1][column], atol=tolerance)
    for column in ("isoscore", "isoscore_star", "mean_cosine", "sentence_silhouette"):
        np.testing.assert_allclose(layers[0][column], layers[1][column], atol=10 * tolerance)


def test_killed_fine_tuning_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout: the states of the device's random generators are restored."""

    def tune(seed: int, work: str) -> tuple[pd.DataFrame, dict[str, Any]]:
        model = classifier(seed, dropout=0.1)
        return train.finetune(finetune_spec(), model, learnable(), 0, DEVICE, tmp_path / work)

    whole, _ = tune(0, "a")
    monkeypatch.setattr(train, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(train, "CHECKPOINT_PAUSE", 0.0)
    with interrupted_at(17, train.TrainingRun, "step"):
        tune(0, "b")
    resumed, facts = tune(9, "b")
    assert facts["updates_taken_up_from_a_killed_run"] == 17
    np.testing.assert_allclose(resumed["loss"], whole["loss"], atol=1e-5)


def test_diverged_training_names_its_update(tmp_path: Path) -> None:
    spec = finetune_spec(learning_rate=1e30, max_grad_norm=None)
    with pytest.raises(train.IsotropyError, match="diverged"):
        train.finetune(spec, classifier(), learnable(), 0, DEVICE, tmp_path)


SHARING = """
import sys
from pathlib import Path
from tests.gpu import test_gpu as t
rows, _ = t.train.finetune(
    t.finetune_spec(), t.classifier(), t.learnable(), 0, t.DEVICE, Path(sys.argv[1])
)
rows.to_parquet(sys.argv[2])
"""


def test_jobs_share_a_device(tmp_path: Path) -> None:
    """Two at once give what one gives."""
    alone, _ = train.finetune(finetune_spec(), classifier(), learnable(), 0, DEVICE, tmp_path / "a")
    script = [sys.executable, "-c", SHARING]
    files = [tmp_path / "first.parquet", tmp_path / "second.parquet"]
    jobs = [subprocess.Popen([*script, file.with_suffix(""), file]) for file in files]
    for file, job in zip(files, jobs, strict=True):
        assert job.wait() == 0
        rows = pd.read_parquet(file)
        np.testing.assert_allclose(rows["loss"], alone["loss"], atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", METHODS)
def test_loops_run_where_waiting_is_an_error(kind: str, model_folders: Path) -> None:
    """torch raises an error for each operator that waits for the GPU."""
    method = METHODS[kind]
    run = train.TrainingRun(finetune_spec(method), classifier(), learnable(), 0, DEVICE)
    run.step()
    settings = Encoder(pooling="mean", normalize=True, max_length=24)
    encoder = SentenceEncoder(model_folders / "gpt2", settings, DEVICE)
    ids = encoder.tokenize(Writer(40).sentences(8))
    encoder.encode_batch(ids)
    copies = []
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(6):
            run.step()
        collate(learnable(), range(4), 0, DEVICE)
        copies += [HostCopy(encoder.encode_batch(ids)), HostCopy(encoder.encode_tokens(ids, [0]))]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(copies[0].wait()).all()
