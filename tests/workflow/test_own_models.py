"""Models of one's own, and texts of one's own, through every kind of job."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from replication.provenance.audit import GOOD, verify_all
from tests import synthetic_models as models
from tests.conftest import Workflow, copy_checkout
from tests.synthetic_texts import Writer

NAMES = ("bert-base-uncased", "roberta-base", "gpt2", "albert-base-v2")
KINDS = {
    *("embed_sentences", "embed_tokens", "optimize_embeddings", "classify_frozen"),
    *("measure_layer", "measure_contexts", "measure_static_words", "measure_similarity"),
}
WITH_CLASSIFIER = {"finetune_model", "measure_stability"}


def test_four_models_go_through_every_kind_of_job(tmp_path: Path) -> None:
    """One job of each rule for each model of random weights, after `isotropy sources add`; the
    tokenizers are word pieces, byte pairs and sentence pieces. All results are intact."""
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
    plan, wanted = workflow.plan(), defaultdict[str, dict[str, str]](dict)
    for stem, rule in workflow.planned().items():
        for name in NAMES if rule in KINDS | WITH_CLASSIFIER else ():
            if f'"tiny-{name}"' in plan.spec(stem).model_dump_json():
                wanted[rule].setdefault(name, f"results/{stem}.record.json")
    assert wanted.keys() == KINDS | WITH_CLASSIFIER
    assert all(wanted[rule].keys() == set(NAMES) for rule in KINDS)
    workflow.done("--", *(file for files in wanted.values() for file in files.values()))
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
