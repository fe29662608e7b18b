"""Results do not depend on the memory address of inputs: a short version of
`benchmarks/repeatability.py`, which documents the calls."""

from __future__ import annotations

import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from isotropy import metrics
from isotropy.metrics import StreamingMeanCosine, mean_cosine
from isotropy.metrics.validation import ALIGNMENT, aligned, as_points

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "repeatability.py"
OFFSETS = 16


@pytest.fixture(scope="module")
def campaign() -> ModuleType:
    spec = importlib.util.spec_from_file_location("repeatability", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["repeatability"] = module  # needed by dataclasses and named tuples
    spec.loader.exec_module(module)
    return module


def test_every_public_function_is_covered(campaign: ModuleType) -> None:
    assert set(metrics._MODULE_OF) == set(metrics.__all__)
    results = {"ClusterCount", "ExplainableVariance", "IntraSentenceSimilarity", "LidEstimates"}
    results |= {"MeanCosine", "SelfSimilarity", "TypeCosines"}
    assert set(metrics.__all__) - results < set(campaign.CASES)
    assert sorted(campaign.public()) == sorted(campaign.CASES)


@pytest.mark.study  # all public functions in three processes
def test_results_do_not_depend_on_address_and_process(campaign: ModuleType) -> None:
    """At 16 offsets in this process, and in two new processes with other random allocations."""
    before = torch.get_num_threads()
    with ThreadPoolExecutor(2) as pool:
        processes = [
            pool.submit(campaign.in_fresh_process, 1, OFFSETS, seed, "--small") for seed in (1, 2)
        ]
        try:
            names = list(campaign.CASES)
            distinct_values = campaign.collect_digests(
                names, OFFSETS, OFFSETS, 0, campaign.SMALL, threads=(1,)
            )
        finally:
            torch.set_num_threads(before)
        for process in processes:
            campaign.merge(distinct_values, process.result())
    varying = {
        f"{name} of {group}": len(values)
        for name, groups in distinct_values.items()
        for group, values in groups.items()
        if len(values) > 1
    }
    assert varying == {}


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_points_are_copied_to_aligned_memory(campaign: ModuleType, kind: str) -> None:
    X = np.random.default_rng(0).standard_normal((9, 5))
    for offset in range(0, 128, 8):
        at_offset = campaign.copy_at_offset(X, offset, kind)
        points = as_points(at_offset)
        assert points.data_ptr() % ALIGNMENT == 0
        assert np.array_equal(points.numpy(), X)
        in_place = as_points(at_offset, in_place=True)
        assert in_place.data_ptr() % ALIGNMENT == offset % ALIGNMENT


def test_aligned_keeps_aligned_tensors_and_gradients() -> None:
    whole = torch.arange(40.0, requires_grad=True)
    assert aligned(whole) is whole
    misaligned = whole[1:33].view(8, 4).T
    moved = aligned(misaligned)
    assert moved.data_ptr() % ALIGNMENT == 0
    assert moved.is_contiguous()
    assert torch.equal(moved, misaligned)
    moved.sum().backward()
    assert whole.grad is not None
    assert float(whole.grad.sum()) == 32


def test_arrays_at_unaligned_addresses_are_accepted() -> None:
    """The array begins at an odd byte, as in a packed file."""
    X = np.random.default_rng(0).standard_normal((30, 4))
    raw = np.zeros(X.nbytes + 3, dtype=np.uint8)
    unaligned = raw[3:].view(X.dtype).reshape(X.shape)
    unaligned[...] = X
    assert not unaligned.flags.aligned
    assert mean_cosine(unaligned) == mean_cosine(X)
    stream = StreamingMeanCosine(4)
    stream.update(unaligned)
    assert stream.compute() == pytest.approx(mean_cosine(X), abs=1e-12)


@pytest.mark.study
def test_stages_do_not_depend_on_address_and_threads(campaign: ModuleType) -> None:
    """A trajectory, a fine-tuned model and a layer's measurement are the same at each address, with
    one thread and with two."""
    result = campaign.collect_stage_digests(OFFSETS, seed=0)
    campaign.merge(result, campaign.collect_stage_digests(OFFSETS, seed=1))
    assert set(result) == set(campaign.STAGES)
    for name, groups in result.items():
        assert [len(values) for values in groups.values()] == [1, 1], name
