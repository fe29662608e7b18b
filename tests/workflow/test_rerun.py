"""What reruns and what does not: edits, touches, clones, copies, swapped values. Real Snakemake on
the real smoke study."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from isotropy.config import load_study, read_configuration
from isotropy.plan import Plan
from tests.conftest import Workflow, copy_checkout

N_OPTIMIZE = 13  # four setups and two seeds, one GLUE task, four variants
N_FINETUNE = 6
# All tables and figures but those of sampled clouds, of frozen vectors in rajaee2021, of static
# vectors, and the diagram.
AFTER_RUNS = {"make_table": 28, "evaluate_claims": 1, "draw_figure": 16, "write_page": 1}
N_LAYERS = 2


def digests(folder: Path) -> dict[str, str]:
    """Bytes of all results but records and logs, which hold times."""
    files = [
        p
        for p in (folder / "results").rglob("*")
        if p.is_file() and "logs" not in p.parts and p.suffix != ".jsonl"
    ]
    kept = [
        p for p in files if not p.name.endswith(".record.json") and p.name != ".snakemake_timestamp"
    ]
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in kept
    }


def test_finished_study_has_nothing_to_do(smoke_copy: Workflow) -> None:
    assert smoke_copy.planned() == {}


def test_editing_the_silhouette_reruns_only_what_imports_it(smoke_copy: Workflow) -> None:
    """Not fetch, prepare, embed; not figures without such data. What is made again has the same
    bytes."""
    before = digests(smoke_copy.folder)
    with (smoke_copy.folder / "isotropy/metrics/silhouettes.py").open("a") as stream:
        stream.write("\nEDITED = True\n")
    assert (
        smoke_copy.planned()
        == {
            "optimize_embeddings": N_OPTIMIZE,
            "finetune_model": N_FINETUNE,
            "measure_layer": N_LAYERS,
        }
        | AFTER_RUNS
    )
    audit = [sys.executable, "-m", "isotropy", "audit", "verify", "--all"]
    stale = subprocess.run(audit, cwd=smoke_copy.folder, capture_output=True, text=True)
    assert stale.returncode == 1
    stages = set(re.findall(r"^(.*): (?:results/)(\w+)", stale.stdout, re.M))
    assert stages == {("stale", "optimize"), ("stale", "finetune"), ("stale", "geometry")}
    n_stale = stale.stdout.count("(optimize_embeddings: isotropy/metrics/silhouettes.py)")
    assert n_stale == 2 * N_OPTIMIZE  # trajectory and run
    tuned = "finetune/rudman2024/polarity--all-MiniLM-L6-v2--istar_lambda1_zeta0_2/seed0.json"
    smoke_copy.done("--", "results/optimize/mickus2024/polarity/seed0.parquet", f"results/{tuned}")
    assert digests(smoke_copy.folder) == before
    left = {
        "optimize_embeddings": N_OPTIMIZE - 1,
        "finetune_model": N_FINETUNE - 1,
        "measure_layer": N_LAYERS,
    }
    assert smoke_copy.planned() == left | AFTER_RUNS


def test_touching_and_readme_rerun_nothing(smoke_copy: Workflow) -> None:
    for path in smoke_copy.folder.rglob("*"):
        if path.is_file() and not {"results", ".snakemake"} & set(
            path.relative_to(smoke_copy.folder).parts
        ):
            os.utime(path)
    with (smoke_copy.folder / "README.md").open("a") as stream:
        stream.write("\nA remark.\n")
    assert smoke_copy.planned() == {}


@pytest.mark.parametrize("with_metadata", [True, False])
def test_results_copied_into_a_fresh_clone_rerun_nothing(
    smoke: Workflow, tmp_path: Path, with_metadata: bool
) -> None:
    """With Snakemake's own notes or without them; time stamps kept, as `cp -a` does."""
    clone = Workflow(copy_checkout(tmp_path / "clone"))
    for folder in ["results", *([".snakemake"] if with_metadata else [])]:
        shutil.copytree(smoke.folder / folder, clone.folder / folder)
    assert clone.planned() == {}


def test_swapping_two_values_reruns(smoke_copy: Workflow) -> None:
    """The same set of numbers under other names is another spec. GLUE has values of its own, and is
    left alone."""
    overlay = smoke_copy.folder / "config/smoke.yaml"
    config = yaml.safe_load(overlay.read_text())
    paper = config["mickus2024"]
    paper["updates"], paper["measure"] = (
        paper["measure"]["sample_size"],
        {"sample_size": paper["updates"]},
    )
    overlay.write_text(yaml.safe_dump(config))
    rest = {"make_table": 7, "evaluate_claims": 1, "draw_figure": 4, "write_page": 1}
    assert smoke_copy.planned() == {"optimize_embeddings": N_OPTIMIZE - 1} | rest


def test_editing_a_figure_reruns_only_figures(smoke_copy: Workflow) -> None:
    """And then there is nothing to do, the bytes are the same, and the audit finds nothing."""
    before = digests(smoke_copy.folder)
    with (smoke_copy.folder / "isotropy/figures/mickus2024.py").open("a") as stream:
        stream.write("\nEDITED = True\n")
    assert smoke_copy.planned() == {"draw_figure": 5, "write_page": 1}
    smoke_copy.done()
    assert smoke_copy.planned() == {}
    assert digests(smoke_copy.folder) == before
    audit = [sys.executable, "-m", "isotropy", "audit", "verify", "--all"]
    assert (
        subprocess.run(audit, cwd=smoke_copy.folder, capture_output=True, text=True).returncode == 0
    )


def test_study_is_intact_and_an_edit_is_found(smoke_copy: Workflow) -> None:
    """The audit of the real study, from a figure to the model's weights, and one flipped byte
    there."""
    command = [sys.executable, "-m", "isotropy", "audit", "verify"]
    good = subprocess.run(
        [*command, "--all"], cwd=smoke_copy.folder, capture_output=True, text=True
    )
    assert good.returncode == 0, good.stdout
    assert "0 without record, 0 missing, 0 altered" in good.stdout
    weights = smoke_copy.folder / "results/fetch/all-MiniLM-L6-v2/model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    figure = "results/figures/mickus2024/figure3.pdf"
    bad = subprocess.run([*command, figure], cwd=smoke_copy.folder, capture_output=True, text=True)
    assert bad.returncode == 1
    assert "model.safetensors" in bad.stdout
    assert "1 altered" in bad.stdout


def test_results_page_leads_everywhere(smoke: Workflow) -> None:
    """Every link on the page is a file; stand-ins are named; nothing is fetched from outside."""
    folder = smoke.folder / "results"
    page = (folder / "index.html").read_text("utf8")
    links = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert len(links) > 20
    for link in links:
        assert (folder / link).is_file(), link
    assert page.count('class="status stand-in"') >= 5
    assert "isotropy/figures/mickus2024.py" in page
    assert "section 3.2" in page


@pytest.mark.parametrize(
    ("overlay", "trajectories", "models"),
    [
        ("paper", 6 * 5 + 24 * 5 + 4 * 4 * 5, 3 * 9 * (5 * 7 + 2) * 5 + 2 * 2 * 5),
        ("smoke", N_OPTIMIZE, N_FINETUNE),
    ],
)
def test_graph_builds(checkout: Workflow, overlay: str, trajectories: int, models: int) -> None:
    checkout.overlays = [f"config/{overlay}.yaml"]
    planned = checkout.planned()
    assert planned["optimize_embeddings"] == trajectories
    assert planned["finetune_model"] == models
    assert planned["draw_figure"] == 24
    files = [
        checkout.folder / "config.yaml",
        *(checkout.folder / name for name in checkout.overlays),
    ]
    study = load_study(read_configuration(files, {}), checkout.folder)
    # Which `isotropy plan` counts
    assert sum(planned.values()) == len(Plan(study, checkout.folder, checkout.folder).stems())


def test_shards_change_no_byte(smoke_copy: Workflow) -> None:
    """Three jobs share the token vectors of a corpus out; afterwards another number of shards makes
    nothing anew."""
    before = digests(smoke_copy.folder)
    folder = smoke_copy.folder / "results/embed/brown"
    shutil.rmtree(folder / "tokens")
    (smoke_copy.folder / "three.yaml").write_text("compute: {shards: 3}\n")
    three = Workflow(smoke_copy.folder, [*smoke_copy.overlays, "three.yaml"])
    three.done("--", "results/embed/brown/tokens/all-MiniLM-L6-v2")
    assert digests(smoke_copy.folder) == before
    left = [path.name for path in (folder / "shards").rglob("*") if path.is_file()]
    # Who computed them, for the audit
    assert sorted(left) == [f"{k}-of-3.record.json" for k in (1, 2, 3)]
    record = json.loads((folder / "tokens/all-MiniLM-L6-v2.record.json").read_text())
    assert record["measurements"]["shards"] == 3
    assert not [path for path in record["input_names"] if "shard" in path]
    planned = smoke_copy.planned()  # what is older than the vectors now
    assert planned["measure_layer"] == N_LAYERS
    assert not {"embed_tokens", "embed_shard"} & set(planned)
    module = smoke_copy.folder / "isotropy/embed/tokens.py"
    module.write_text(module.read_text() + "EDITED = True\n")
    planned = smoke_copy.planned()  # what is made anew is made as the configuration has it now
    assert planned["embed_tokens"] == len(
        list(smoke_copy.folder.glob("results/embed/*/tokens/*.record.json"))
    )
    assert "embed_shard" not in planned


@pytest.mark.parametrize(
    "result_file",
    [
        "embed/polarity/all-MiniLM-L6-v2.safetensors",
        "embed/polarity-part/tokens/all-MiniLM-L6-v2",
        "similarity/rajaee2021/classification/polarity/all-MiniLM-L6-v2.json",
        "finetune/rudman2024/polarity--all-MiniLM-L6-v2--istar_lambda1_zeta0_2/seed0.json",
    ],
)
def test_jobs_refuse_to_work_without_their_gpu(smoke_copy: Workflow, result_file: str) -> None:
    """`device: cuda` on a machine without a GPU: one sentence, and nothing that looks finished."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    target = f"results/{result_file}"
    result = smoke_copy.run("--config", "compute={device: cuda}", "--", target)
    assert result.returncode != 0
    assert "error: device: cuda was asked for, but torch sees no GPU on " in result.stdout
    assert not (smoke_copy.folder / target).exists()


def test_mistakes_end_the_run_before_the_first_job(checkout: Workflow, refuses: object) -> None:
    """Unknown key, text for a number, misspelt source: as a user meets them."""
    overlay = checkout.folder / "config/smoke.yaml"
    for change, message in [
        ({"mickus2024": {"updatse": 3}}, "mickus2024.updatse: unknown key; did you mean 'updates'"),
        ({"mickus2024": {"learning_rate": "0.1"}}, "valid number, got '0.1'"),
        ({"datasets": {"polarity": {"source": "polarty"}}}, "did you mean 'polarity'"),
    ]:
        overlay.write_text(yaml.safe_dump(change))
        refuses(checkout, message)  # type: ignore[operator]
