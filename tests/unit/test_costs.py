"""Cost estimates of a study: jobs, sizes from the registry, GPU hours, and missing sizes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from replication.cli import app
from replication.plan.config import load_study, read_configuration
from replication.plan.costs import GIGA, Cost, CostModel, longest_runtime, read_rates, totals
from replication.plan.plan import Plan

TOKENS, MODEL = "embed/brown", "all-MiniLM-L6-v2"


def estimate(project: Path, *configfiles: str, **overrides: Any) -> CostModel:
    files = [project / "config.yaml", *(project / "config" / name for name in configfiles)]
    study = load_study(read_configuration(files, overrides), project)
    return CostModel(Plan(study, project, project), read_rates(project / "config/rates.yaml"))


def test_every_source_of_the_studies_has_a_size(project: Path) -> None:
    for configfiles in ([], ["smoke.yaml"], ["paper.yaml"]):
        costs = estimate(project, *configfiles)
        rows = totals(costs, costs.plan.stems(), {})
        assert not costs.unknown, configfiles
        assert rows["all"].jobs == sum(row.jobs for stage, row in rows.items() if stage != "all")
        assert all(row.disk > 0 and row.memory > 0 for row in rows.values())


def test_sizes_come_from_the_registry(project: Path) -> None:
    """For models and vectors, and for data sets whose contents do not state them."""
    costs = estimate(project, "paper.yaml")
    assert (costs.model("gpt2").layers, costs.vectors("glove-6b-50d").width) == (12, 50)
    assert costs.items("squad") == 87599
    assert costs.tokens("squad", 10) == 1700
    assert costs.tokens("wikitext-2", 10) == 2500000  # the size of the whole corpus
    assert costs.tokens("rte", 10) == 10 * costs.rates.tokens_per_text
    assert not costs.unknown
    empty = costs.model("glove-6b-50d")
    assert (empty.weights, empty.width, costs.unknown) == (0, 0, {"glove-6b-50d"})


def test_sizes_are_those_of_the_first_origin_that_may_be_used(project: Path) -> None:
    """The first of word-vectors-300d has no digest: it needs trust, else a stand-in is used."""
    careful = estimate(project)
    trusting = estimate(project, sources={"trust_on_first_use": True})
    sizes = [c.vectors("word-vectors-300d").points for c in (careful, trusting)]
    assert sizes == [20000, 199430]
    assert [c.items("pos") for c in (careful, trusting)] == [10000, 50000]


def test_full_scale_study_needs_gpus(project: Path) -> None:
    costs = estimate(project, "paper.yaml")
    result = totals(costs, costs.plan.stems(), {})
    assert result["finetune"].jobs == 4995 + 20  # the grid of rudman2024, and rajaee2021's
    assert result["finetune"].cpu_hours == 0
    assert result["finetune"].gpu_hours > 100
    assert result["tables"].gpu_hours == 0


def test_study_for_one_gpu_takes_a_few_hours(project: Path, tmp_path: Path) -> None:
    """Two jobs share the GPU, 16 cores do the rest."""
    costs = estimate(project, "mirror.yaml", "gpu.yaml", sources={"mirror": str(tmp_path)})
    total = totals(costs, costs.plan.stems(), {})["all"]
    assert 0.5 < total.gpu_hours < 5
    assert total.cpu_hours < 16


def test_sizes_follow_from_specs(project: Path) -> None:
    costs = estimate(project)
    part = costs.cost("embed/polarity-part/tokens/all-MiniLM-L6-v2")
    assert part.disk == pytest.approx(500 * 28 * 384 * 4 * 7)  # texts, tokens, width, bytes, layers
    assert costs.cost("fetch/all-MiniLM-L6-v2").disk == 0.09 * GIGA
    layers = [f"geometry/cai2021/brown/all-MiniLM-L6-v2/layer{n}" for n in (1, 6)]
    assert costs.cost(layers[0]) == costs.cost(layers[1])
    larger = estimate(project, rajaee2021={"n_clusterings": 50})
    stem = "similarity/rajaee2021/polarity-part/all-MiniLM-L6-v2/layer1"
    assert larger.cost(stem).seconds > 5 * costs.cost(stem).seconds


def test_requested_time_has_a_margin_and_the_limit_of_the_partitions(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = {hours: Cost(False, 3600 * hours, 0, 0).minutes for hours in (0, 1, 5, 16, 40)}
    assert minutes == {0: 30, 1: 180, 5: 720, 16: 1440, 40: 3600}
    file = tmp_path / "partitions.yaml"
    file.write_text("partitions: {cpu: {max_runtime: 3d}, gpu: {max_runtime: 90, max_gpu: 4}}")
    monkeypatch.setenv("SNAKEMAKE_SLURM_PARTITIONS", str(file))
    longest_runtime.cache_clear()
    assert [longest_runtime(gpu=gpu) for gpu in (False, True)] == [3 * 24 * 60, 90]
    monkeypatch.delenv("SNAKEMAKE_SLURM_PARTITIONS")
    longest_runtime.cache_clear()
    assert longest_runtime(gpu=True) == float("inf")


def test_shards_share_the_work(project: Path) -> None:
    without, sharded = estimate(project), estimate(project, compute={"shards": 4})
    stems = sharded.plan.stems()
    assert len(stems) == len(without.plan.stems()) + 12  # of three data sets
    part, whole = f"{TOKENS}/shards/{MODEL}/4-of-4", f"{TOKENS}/tokens/{MODEL}"
    assert stems.index(part) < stems.index(whole)
    unsharded, quarter, merged = without.cost(whole), sharded.cost(part), sharded.cost(whole)
    start = without.rates.start["embed"]
    assert quarter.seconds - start == pytest.approx((unsharded.seconds - start) / 4)
    assert merged.disk == unsharded.disk
    assert merged.seconds < unsharded.seconds


def test_sources_without_a_size_are_listed(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "config/sources", tmp_path / "sources")
    models = tmp_path / "sources/models.yaml"
    data = yaml.safe_load(models.read_text("utf8"))
    del data["all-MiniLM-L6-v2"]["size"]
    models.write_text(yaml.safe_dump(data), "utf8")
    (tmp_path / "mine.yaml").write_text(f"sources: {{registry: {tmp_path}/sources}}\n")
    result = CliRunner().invoke(
        app, ["plan", "--project", str(project), "--configfile", str(tmp_path / "mine.yaml")]
    )
    assert result.exit_code == 0, result.output
    assert "counted as empty: all-MiniLM-L6-v2" in result.output
