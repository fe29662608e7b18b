"""Kept models: the job's script on tiny models, the folder read by plain transformers."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from huggingface_hub import ModelCard
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from isotropy.errors import IsotropyError
from isotropy.files import read_json
from replication.finetune.data import best_answers, exact_match, windows
from replication.finetune.scores import regression_scores
from replication.finetune.spec import FinetuneFacts, Method
from replication.job import Job, Lineage
from replication.plan.config import load_study, read_configuration
from replication.plan.costs import CostModel, read_rates
from replication.plan.plan import Plan
from replication.prepare.datasets import prepare_sentences
from replication.prepare.spec import SentencesSpec
from replication.prepare.table import write_items
from replication.provenance.audit import identify
from replication.provenance.code import Codebase
from replication.provenance.record import read_record
from replication.sources.own.models import entry_from_folder
from tests.unit.factories import ISTAR, finetune_spec
from tests.unit.jobs import Named, NoteSpec, audit, snakemake_object
from tests.unit.test_heads import rows

STEM = "results/finetune/rudman2024/r/seed3"
SPAN_LOGITS = ("start_logits", "end_logits")
CLUSTER = Method(kind="cluster", n_clusters=2, n_components=1)


def record(project: Path, stem: str, writers: dict[str, Callable[[Path], Any]], kind: str) -> None:
    """Write files as a job with a record would; keys of `writers` follow the stem in their
    paths."""
    snakemake = snakemake_object(project, stem)
    paths = {f"o{i}": f"results/{stem}{suffix}" for i, suffix in enumerate(writers)}
    snakemake.output = Named({**paths, "record": f"results/{stem}.record.json"}.items())
    content = {"title": f"the {kind}"}
    source = {"kind": kind, "content": content, "origin": "hub model a/b at 1", "licence": "MIT"}
    with Job(snakemake, NoteSpec) as job:
        job.lineage = Lineage(status="stand-in", reasons=["tiny"], sources=[source])
        for name, write in zip(paths, writers.values(), strict=True):
            with job.write(name) as path:
                write(path)


def keep(project: Path, model: Path, task: str, method: Method) -> FinetuneFacts:
    """Run the script of the rule that keeps a model; returns the facts that it records."""
    names = {"label_names": ["x", "y", "z"]} if task == "single-label" else {"task": task}
    data = SentencesSpec.model_validate({"kind": "sentences", "source": "s", **names})
    prepared = prepare_sentences(data, rows(task))
    metric = {"single-label": "accuracy", "regression": "pearson", "extractive": "exact_match"}
    record(project, "fetch/m", {"": lambda path: shutil.copytree(model, path)}, "model")
    tables = {
        ".texts.parquet": prepared.texts.to_parquet,
        ".items.parquet": lambda p: write_items(p, prepared.items, prepared.dataset, "mark"),
    }
    record(project, "prepare/a", tables, "dataset")
    sides = {
        f"{side}_{table}": f"results/prepare/a.{table}.parquet"
        for side in ("train", "validation")
        for table in ("texts", "items")
    }
    spec = finetune_spec(method, max_length=64).model_copy(update={"metric": metric[task]})
    suffixes = {n: f".{n}.parquet" for n in ("steps", "layers", "points")} | {"run": ".json"}
    suffixes |= {"model": ".model", "record": ".record.json"}
    rule, writer = "finetune_and_keep_model", "replication.finetune.kept_model"
    code = Codebase(project).code(rule, writer).param()
    snakemake = SimpleNamespace(
        rule=rule,
        params=SimpleNamespace(spec=spec.canonical(), code=code),
        input=Named({**sides, "model": "results/fetch/m"}.items()),
        output=Named((name, STEM + suffix) for name, suffix in suffixes.items()),
        log=["results/logs/a.log"],
        wildcards=Named({"kept": "rudman2024/r", "seed": "3"}.items()),
        threads=1,
        resources=SimpleNamespace(),
    )
    script = project / "scripts/finetune/finetune_model.py"
    runpy.run_path(str(script), init_globals={"snakemake": snakemake})
    return FinetuneFacts.parse(Path(f"{STEM}.json").read_text())


def recomputed(folder: Path, task: str) -> float:
    """Return the score of a kept model on the items, one by one, by plain transformers."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if task == "extractive":
        model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder)
        contexts, questions = zip(*(row.texts for row in rows(task)), strict=True)
        answers = [(row.label["text"][0], row.label["answer_start"][0]) for row in rows(task)]
        cut = windows(tokenizer, questions, contexts, answers, tokenizer.model_max_length)
        with torch.inference_mode():
            outputs = [model(torch.tensor([w.ids])) for w in cut]
        starts, ends = ([o[side][0].numpy() for o in outputs] for side in SPAN_LOGITS)
        best = best_answers(cut, starts, ends, contexts)
        hits = [exact_match(a, [text]) for a, (text, _) in zip(best, answers, strict=True)]
        return 100 * float(np.mean(hits))
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    logits = []
    for row in rows(task):
        given = tokenizer(*row.texts, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            logits.append(model(**given).logits[0].numpy())
    labels = np.array([row.label for row in rows(task)])
    if task == "regression":
        return regression_scores(np.stack(logits)[:, 0], labels)["pearson"]
    return 100 * float((np.stack(logits).argmax(axis=1) == labels).mean())


@pytest.mark.parametrize(
    ("name", "task", "method"),
    [
        ("bert-base-uncased", "single-label", ISTAR),
        ("roberta-base", "regression", Method(kind="none")),
        ("distilbert-base-uncased", "extractive", ISTAR),
        ("gpt2", "single-label", Method(kind="cosreg", strength=1.0)),
        ("bert-base-uncased", "single-label", CLUSTER),
    ],
)
def test_kept_model_has_the_recorded_score_and_a_card(
    name: str,
    task: str,
    method: Method,
    synthetic_models: Path,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    facts, folder = keep(project, synthetic_models / name, task, method), Path(f"{STEM}.model")
    model_record = read_record(Path(f"{STEM}.record.json"))
    listed = {Path(f.path).name for f in model_record.outputs if Path(f.path).parent == folder}
    assert listed == {p.name for p in folder.iterdir()}
    assert listed >= {"model.safetensors", "config.json", "tokenizer.json", "README.md"}
    texts = "".join(p.read_text() for p in folder.glob("*.json"))
    assert str(tmp_path) not in texts
    assert "results/" not in texts
    card = ModelCard.load(folder / "README.md")
    assert f"isotropy-record:{model_record.id}" in card.text
    assert "tiny" in card.text
    assert card.data.base_model == "a/b"
    layers = pd.read_parquet(f"{STEM}.layers.parquet")
    assert layers["sentence_silhouette"].isna().all() == (task != "single-label")
    points = pd.read_parquet(f"{STEM}.points.parquet")
    assert points[["label", "predicted"]].isna().all(axis=None) == (task == "extractive")
    assert f"| {len(layers)} | {layers['isoscore'].iloc[-1]:.4g} |" in card.text
    if method.kind == "cluster":
        assert "transformers loads the model without" in card.text
        assert card.data.eval_results is None
        return
    assert "token_type_ids" not in AutoTokenizer.from_pretrained(folder)("a", "b")
    assert recomputed(folder, task) == pytest.approx(facts.performance, abs=0.01)
    scores = {r.metric_type: r for r in card.data.eval_results}
    assert {m: r.metric_value for m, r in scores.items()} == facts.metrics
    low, high = scores[facts.metric].metric_args["interval"]
    assert low <= facts.performance <= high
    if task == "single-label":
        assert read_json(folder / "config.json")["id2label"] == {"0": "x", "1": "y", "2": "z"}
    require_known_elsewhere(project, tmp_path)


def require_known_elsewhere(project: Path, root: Path) -> None:
    """The audit knows a copy of the weights and finds altered ones; `isotropy sources add` takes
    the copy."""
    copy = shutil.copytree(f"{STEM}.model", root / "elsewhere")
    identity = identify(root, copy / "model.safetensors")
    assert identity == (f"{STEM}.record.json", f"{STEM}.model/model.safetensors", [])
    assert "0 without record, 0 missing, 0 altered" in audit("verify", "--all", "--digests-only")
    new = entry_from_folder(copy, "mine", "cls", None)
    files = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert set(new.entry["contents"]["weights"]["files"]) == files
    (Path(f"{STEM}.model") / "model.safetensors").write_bytes(b"other")
    assert "1 altered" in audit("verify", "--all", "--digests-only", code=1)


def test_models_are_kept_where_the_configuration_says(project: Path) -> None:
    """Specs of runs do not change, so that nothing else is made again."""

    def plan(keep_models: object) -> Plan:
        raw = read_configuration([project / "config.yaml"], {})
        raw["rudman2024"]["keep_models"] = keep_models
        return Plan(load_study(raw, project), project, project)

    none, all_models = plan(False), plan(True)
    assert not none.kept
    assert all_models.kept == set(none.attempted["rudman2024"][1].groups["finetune"])
    run = min(all_models.kept).split("/")[2]
    some = plan([run])
    assert {stem.split("/")[2] for stem in some.kept} == {run}
    stem = min(some.kept)
    assert some.spec(stem) == none.spec(stem)
    rates = read_rates(project / "config/rates.yaml")
    added = CostModel(some, rates).cost(stem).disk - CostModel(none, rates).cost(stem).disk
    assert added == pytest.approx(0.09e9, rel=0.2)
    with pytest.raises(IsotropyError, match="no run 'polarity'"):
        plan(["polarity"])
