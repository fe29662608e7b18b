"""The same input gives the same bytes wherever it lies in memory: the short form of
`benchmarks/repeatability.py`, which says what is called and how."""

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
    sys.modules["repeatability"] = module  # dataclasses and named tuples look there
    spec.loader.exec_module(module)
    return module


def test_no_public_function_is_forgotten(campaign: ModuleType) -> None:
    assert set(metrics._MODULE_OF) == set(metrics.__all__)
    results = {
        "ClusterCount",
        "ExplainableVariance",
        "IntraSentenceSimilarity",
        "LidEstimates",
        "MeanCosine",
        "SelfSimilarity",
        "TypeCosines",
    }
    assert set(metrics.__all__) - results < set(campaign.CASES)
    assert sorted(campaign.public()) == sorted(campaign.CASES)


@pytest.mark.study  # all public functions in three processes
def test_one_value_at_each_place_and_in_each_process(campaign: ModuleType) -> None:
    """At 16 places in this process, and at places drawn anew, between other blocks of memory, in
    two fresh ones."""
    before = torch.get_num_threads()
    with ThreadPoolExecutor(2) as pool:
        fresh = [
            pool.submit(campaign.in_fresh_process, 1, OFFSETS, seed, "--small") for seed in (1, 2)
        ]
        try:
            names = list(campaign.CASES)
            found = campaign.seen(names, OFFSETS, OFFSETS, 0, campaign.SMALL, threads=(1,))
        finally:
            torch.set_num_threads(before)
        for process in fresh:
            campaign.merge(found, process.result())
    several = {
        f"{name} of {group}": len(values)
        for name, groups in found.items()
        for group, values in groups.items()
        if len(values) > 1
    }
    assert several == {}


def test_the_campaign_would_notice(campaign: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of the place has many values, and the table says so."""
    monkeypatch.setitem(campaign.CASES, "place", lambda i: np.asarray(i.X).ctypes.data % 64)
    found = campaign.seen(["place"], OFFSETS, OFFSETS, 0, campaign.SMALL, threads=(1,))
    assert found["place"]["61 x 7 float32 array 1"] == {
        campaign.digest(4 * place) for place in range(16)
    }
    assert len(found["place"]["61 x 7 float64 tensor 1"]) == 8


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_clouds_are_brought_to_the_beginning_of_a_line(campaign: ModuleType, kind: str) -> None:
    X = np.random.default_rng(0).standard_normal((9, 5))
    for offset in range(0, 128, 8):
        there = campaign.placed(X, offset, kind)
        points = as_points(there)
        assert points.data_ptr() % ALIGNMENT == 0
        assert np.array_equal(points.numpy(), X)
        kept = as_points(there, in_place=True)
        assert kept.data_ptr() % ALIGNMENT == offset % ALIGNMENT


def test_aligned_keeps_what_lies_right_and_the_gradient() -> None:
    whole = torch.arange(40.0, requires_grad=True)
    assert aligned(whole) is whole
    part = whole[1:33].view(8, 4).T
    moved = aligned(part)
    assert moved.data_ptr() % ALIGNMENT == 0
    assert moved.is_contiguous()
    assert torch.equal(moved, part)
    moved.sum().backward()
    assert whole.grad is not None
    assert float(whole.grad.sum()) == 32


def test_numbers_across_the_borders_of_their_size() -> None:
    """An array that begins at any byte, as those of a packed file do."""
    X = np.random.default_rng(0).standard_normal((30, 4))
    raw = np.zeros(X.nbytes + 3, dtype=np.uint8)
    crooked = raw[3:].view(X.dtype).reshape(X.shape)
    crooked[...] = X
    assert not crooked.flags.aligned
    assert mean_cosine(crooked) == mean_cosine(X)
    stream = StreamingMeanCosine(4)
    stream.update(crooked)
    assert stream.compute() == pytest.approx(mean_cosine(X), abs=1e-12)


@pytest.mark.study
def test_stages_at_two_places(campaign: ModuleType) -> None:
    """A trajectory, a fine-tuned model and a layer's measurement, wherever their inputs lie: one
    value each, with one thread and with two."""
    found = campaign.seen_of_stages(OFFSETS, seed=0)
    campaign.merge(found, campaign.seen_of_stages(OFFSETS, seed=1))
    assert set(found) == set(campaign.STAGES)
    for name, groups in found.items():
        assert [len(values) for values in groups.values()] == [1, 1], name
