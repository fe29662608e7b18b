"""Models of one's own, and texts of one's own, through every kind of job."""

from __future__ import annotations

import csv
import itertools
import subprocess
import sys
from pathlib import Path

from replication.provenance.audit import GOOD, verify_all
from tests import synthetic_models as models
from tests.conftest import Workflow, copy_checkout
from tests.synthetic_texts import Writer
from tests.workflow.study import stems_made_by

NAMES = ("bert-base-uncased", "roberta-base", "gpt2", "albert-base-v2")
OF_EACH_MODEL = ("embed_sentences", "optimize_embeddings", "classify_frozen")
READING_TOKENS = (
    "measure_contexts",
    "measure_layer",
    "measure_static_words",
    "measure_similarity",
)


def test_four_models_go_through_every_kind_of_job(tmp_path: Path) -> None:
    """Of random weights, after `isotropy sources add`; the tokenizers are word pieces, byte pairs
    and sentence pieces. A job that computes with a model runs for each, one that reads token
    vectors for one. All results are intact."""
    workflow = Workflow(
        copy_checkout(tmp_path / "checkout"), ["config/smoke.yaml", "config/local/tiny.yaml"]
    )
    with (tmp_path / "texts.csv").open("w", newline="") as stream:
        sentences = enumerate(Writer(1).sentences(120))
        csv.writer(stream).writerows([("text", "label"), *((s, "ab"[i % 2]) for i, s in sentences)])
    add(workflow, tmp_path / "texts.csv", "texts", "--text", "text", "--label", "label")
    for name in NAMES:
        models.write(name, tmp_path / name)
        add(workflow, tmp_path / name, f"tiny-{name}")
    listed = ", ".join(f"tiny-{name}" for name in NAMES)
    (workflow.folder / "config/local/tiny.yaml").write_text(
        f"study: tiny\nextension: {{models: [{listed}], datasets: [texts]}}\n"
    )
    plan, found = workflow.plan(), dict[tuple[str, str], str]()
    for stem, rule in workflow.planned().items():
        for name in NAMES:
            if f'"tiny-{name}"' in plan.spec(stem).model_dump_json():
                found.setdefault((rule, name), f"results/{stem}.record.json")
    wanted = [
        *itertools.product(OF_EACH_MODEL, NAMES),
        *zip(READING_TOKENS, NAMES, strict=True),
        *(("finetune_model", name) for name in NAMES if name != "gpt2"),  # not a classifier
        ("measure_stability", NAMES[0]),
    ]
    workflow.done("--", *(found[job] for job in wanted))
    of_tokens = stems_made_by(workflow.folder, "embed_tokens")
    assert {stem.rpartition("/tiny-")[2] for stem in of_tokens} == set(NAMES)
    assert {f.state for f in verify_all(workflow.folder)} <= {*GOOD}


def add(workflow: Workflow, source: Path, name: str, *options: str) -> None:
    command = [sys.executable, "-m", "isotropy", "sources", "add", str(source), "--name", name]
    done = subprocess.run(
        [*command, "--licence", "own", *options],
        cwd=workflow.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
