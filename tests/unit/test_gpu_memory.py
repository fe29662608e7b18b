"""Estimates of memory on a GPU, against counts on the CPU: what autograd keeps in an update, and
the memory that tensors take while a model encodes. Not measured on a GPU."""

from __future__ import annotations

import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from isotropy.embed.batches import pick_token_budget
from isotropy.finetune import train as loop
from isotropy.finetune.data import Inputs
from isotropy.finetune.spec import Method
from isotropy.sources.registry import load_registry
from isotropy.sources.sizes import ModelSize
from isotropy.workflow.costs import GIGA, CostModel, gpu_memory_warning
from isotropy.workflow.gpu_memory import (
    BYTES_PER_WEIGHT,
    CONTEXT,
    encoding_memory,
    n_parameters,
    training_memory,
)
from tests.unit.factories import ISTAR, finetune_spec
from tests.unit.test_costs import estimate

WIDTH, LAYERS, TEXTS, TOKENS = 96, 4, 8, 32
MODELS = {"bert": "bert-base-cased", "albert": "albert-base-v2", "gpt2": "gpt2"}
"""Architectures, and models of the registry that have them."""
SHAPE = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 4 * WIDTH,
    "embedding_size": 24,
    "vocab_size": 50,
    "pad_token_id": 0,
}
# Only a GPU's attention drops out within its kernel; a CPU would keep the weights of attention.
DROPOUT = {"attention_probs_dropout_prob": 0.0, "attn_pdrop": 0.0}
CPU = torch.device("cpu")


class LiveMemory(TorchDispatchMode):
    """Counts the bytes of tensors, made in its context, that exist at a time.

    Attributes:
        peak: most bytes so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak, self._bytes = 0, dict[int, int]()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        outputs = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(outputs):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._bytes:
                    self._bytes[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self._bytes.pop, storage._cdata)
        self.peak = max(self.peak, sum(self._bytes.values()))
        return outputs


def size_of(project: Path, kind: str, model: Any) -> ModelSize:
    """Return the size of a small model of an architecture, as the registry states it."""
    size = load_registry(project / "config/sources").sizes[MODELS[kind]]
    assert isinstance(size, ModelSize)
    n = sum(p.numel() for p in model.parameters())
    in_layers = 12 * LAYERS * WIDTH**2 / 1e6
    shape = {"weights": in_layers, "width": WIDTH, "layers": LAYERS, "gigabytes": 4 * n / 1e9}
    return size.model_copy(update=shape)


def run_of(kind: str, method: Method, precision: str) -> loop._Run:
    """Return a run of fine-tuning on texts of equal length."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **SHAPE, **DROPOUT)
    model = AutoModelForSequenceClassification.from_config(config)
    ids = np.random.default_rng(0).integers(5, 50, (4 * TEXTS, TOKENS)).tolist()
    inputs = Inputs("single-label", ids, None, np.arange(len(ids)) % 2, [], [])
    changes = {"batch_size": TEXTS, "max_length": TOKENS, "precision": precision}
    return loop._Run(finetune_spec(method, **changes), model, inputs, 0, CPU)


def count_kept_bytes(run: loop._Run) -> int:
    """Count what autograd keeps in an update, without parameters: bytes of distinct storages."""
    kept: dict[int, torch.UntypedStorage] = {}  # referenced, so that no address is used twice

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run.step()
    weights = {p.untyped_storage().data_ptr() for p in run.model.parameters()}
    return sum(s.nbytes() for address, s in kept.items() if address not in weights)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("method", [Method(kind="none"), ISTAR], ids=["none", "istar"])
@pytest.mark.parametrize("kind", MODELS)
def test_estimate_of_training_agrees_with_what_autograd_keeps(
    kind: str, method: Method, precision: Any, project: Path
) -> None:
    """The hooks do not see the centred vectors and the gradient of the penalty, which the estimate
    has."""
    run = run_of(kind, method, precision)
    run.step()
    kept = count_kept_bytes(run)
    size = size_of(project, kind, run.model)
    penalized = 0 if method.kind == "none" else LAYERS
    total = training_memory(size, TEXTS * TOKENS, precision, penalized)
    estimated = total - BYTES_PER_WEIGHT * n_parameters(size)
    assert 0.6 * estimated < kept < 1.2 * estimated


def test_a_weight_has_a_gradient_and_two_moments() -> None:
    run = run_of("bert", Method(kind="none"), "float32")
    run.step()
    parameters = [p for p in run.model.parameters() if p.grad is not None]
    held = [(p, p.grad, *run.optimizer.state[p].values()) for p in parameters]
    counted = sum(t.nbytes for tensors in held for t in tensors if t is not None and t.ndim)
    assert counted == BYTES_PER_WEIGHT * sum(p.numel() for p in parameters)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("kind", MODELS)
def test_estimate_of_encoding_agrees_with_the_memory_of_tensors(
    kind: str, states: bool, dtype: Any, project: Path
) -> None:
    """With its hidden states, copied in float32, or without: it is never too low, and less than 2.5
    times too high."""
    config = AutoConfig.for_model(kind, **SHAPE)
    model = AutoModel.from_config(config).eval().to(getattr(torch, dtype))
    ids = torch.randint(5, 50, (TEXTS, TOKENS), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(), LiveMemory() as memory:
        output = model(input_ids=ids, output_hidden_states=states)
        copies = [state.float() for state in output.hidden_states or ()]
    size = size_of(project, kind, model)
    estimated = encoding_memory(size, ids.numel(), dtype, n_states=len(copies))
    weights = n_parameters(size) * (4 if dtype == "float32" else 2)
    assert 0.4 * (estimated - weights) < memory.peak <= estimated - weights


def test_automatic_batches_are_those_of_a_gpu() -> None:
    size = ModelSize(weights=85, width=768, layers=12, gigabytes=0.4)
    automatic, given = (
        encoding_memory(size, batch, "float32", n_states=1)
        for batch in ("auto", pick_token_budget("auto", "cuda"))
    )
    assert automatic == given


def costs_on(project: Path, device: str, **compute: Any) -> CostModel:
    """Estimate the smoke study on a device."""
    settings = estimate(project).plan.study.config.compute.model_dump()
    return estimate(project, "smoke.yaml", compute=settings | {"device": device} | compute)


def test_only_jobs_that_compute_on_a_gpu_take_its_memory(project: Path) -> None:
    for device, sees_gpu in ("cuda", False), ("auto", True), ("auto", False), ("cpu", True):
        costs = replace(costs_on(project, device), sees_gpu=sees_gpu)
        memory = {stem: costs.cost(stem).gpu_memory for stem in costs.plan.stems()}
        stages = {stem.split("/")[0] for stem, value in memory.items() if value}
        expected = (
            {"embed", "finetune", "optimize", "similarity"}
            if device == "cuda" or (device == "auto" and sees_gpu)
            else set()
        )
        assert stages == expected
        assert all(value >= CONTEXT for value in memory.values() if value)
    stem = "embed/brown/tokens/all-MiniLM-L6-v2"
    assert costs_on(project, "cuda").cost(stem).gpu_memory > CONTEXT
    assert costs_on(project, "cuda", shards=4).cost(stem).gpu_memory == 0  # it only merges


def test_memory_of_training_follows_from_its_settings(project: Path) -> None:
    """Larger batches and a penalty take more, half precision takes less."""
    size = ModelSize(weights=85, width=768, layers=12, gigabytes=0.44)
    base = training_memory(size, 32 * 64, "float32", penalized_layers=0)
    assert training_memory(size, 64 * 64, "float32", penalized_layers=0) > base
    assert training_memory(size, 32 * 64, "float32", penalized_layers=12) > base
    assert training_memory(size, 32 * 64, "bfloat16", penalized_layers=0) < base
    # 110 million weights with gradient and moments, and 17 numbers per token, layer and dimension
    assert base == pytest.approx(1.76 * GIGA + 17 * 4 * 2048 * 12 * 768)


def test_warning_names_the_largest_job_and_the_remedy(project: Path) -> None:
    costs = costs_on(project, "cuda")
    stems = costs.plan.stems()
    memory = {stem: costs.cost(stem).gpu_memory / 10**6 for stem in stems}
    largest, *others = sorted(stems, key=memory.__getitem__, reverse=True)
    assert gpu_memory_warning(costs, stems, memory[largest] + 1) is None
    warning = gpu_memory_warning(costs, [largest, *others[-1:]], memory[largest] - 1)
    assert warning is not None
    assert warning.startswith(f"{largest} needs more memory than a GPU of this machine has: about")
    assert "token_budget" in warning
    n = sum(value > CONTEXT / 10**6 for value in memory.values())
    assert f" ({n - 1} other jobs too)" in str(gpu_memory_warning(costs, stems, 500))
    two = [largest, others[0]]
    assert " (1 other job too)" in str(gpu_memory_warning(costs, two, memory[others[0]] - 1))
    for stage, remedy in ("optimize", "sample_size"), ("finetune", "batch_size"):
        stem = next(stem for stem in stems if stem.startswith(f"{stage}/"))
        assert remedy in str(gpu_memory_warning(costs, [stem], 1))
