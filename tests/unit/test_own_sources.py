"""`isotropy sources`: add user models and data from folders, files and a hub, and check them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from shutil import copytree
from typing import Any

import pandas as pd
import pytest
from transformers import AutoModel
from typer.testing import CliRunner

from isotropy.errors import IsotropyError
from replication.cli import app
from replication.plan.config import load_study, read_configuration
from replication.provenance.record import digest, spec_digest
from replication.sources.fetch import FetchSpec, fetch
from replication.sources.registry import LOCAL, Registry, load_registry
from tests.unit.hub import REVISION, Hub, serving
from tests.unit.tiny_models import changed_config, sentences, write_tiny_bert

TEXTS = sentences(40)
ROWS = [{"review": text, "stars": "good" if i % 2 else "bad"} for i, text in enumerate(TEXTS)]


@pytest.fixture
def checkout_folder(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the project's configuration, in which commands run."""
    folder = tmp_path / "checkout"
    ignored = lambda _, names: [n for n in names if n == "local"]  # noqa: E731
    copytree(project / "config", folder / "config", ignore=ignored)
    (folder / "config.yaml").write_bytes((project / "config.yaml").read_bytes())
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("own") / "tiny bert")


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["sources", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    return done.output


def registry(checkout_folder: Path) -> Registry:
    return load_registry(checkout_folder / "config/sources")


def fetched(name: str, checkout_folder: Path) -> Path:
    """Fetch a source with the workflow's fetch; return the folder with its files."""
    folder = checkout_folder / "fetched" / name
    folder.mkdir(parents=True)
    source = registry(checkout_folder).sources[name]
    spec = FetchSpec(id=name, source=source, order=["hub"], trust_on_first_use=False)
    fetch(spec, checkout_folder / "work" / name, folder)
    return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_add_a_model_from_a_folder(checkout_folder: Path, tiny: Path) -> None:
    """The entry has the model's width, layers, weights and digests; the printed configuration
    is that of a study of it."""
    printed = run("add", str(tiny))
    entry = registry(checkout_folder).sources["tiny-bert"]
    size: Any = registry(checkout_folder).sizes["tiny-bert"]
    model = AutoModel.from_pretrained(tiny)
    n_weights = sum(
        p.numel() for n, p in model.named_parameters() if not n.endswith("_embeddings.weight")
    )
    assert size.weights == pytest.approx(n_weights / 1e6, abs=5e-4)
    assert (size.width, size.layers, size.causal) == (16, 2, False)
    assert entry.encoder is not None
    assert (entry.encoder.pooling, entry.encoder.max_length) == ("mean", 32)
    content = entry.contents["weights"]
    assert content.status == "stand-in"
    assert content.files["model.safetensors"] == sha256(tiny / "model.safetensors")
    lines = [line[2:] for line in printed.splitlines() if line.startswith("  ")]
    configuration = "\n".join(lines[lines.index("study: tiny-bert") : -1])
    (checkout_folder / "mine.yaml").write_text(configuration)
    files = [checkout_folder / "config.yaml", checkout_folder / "mine.yaml"]
    study = load_study(read_configuration(files, {}), checkout_folder)
    assert list(study.chosen()["cai2021"].models) == ["tiny-bert"]  # type: ignore[attr-defined]
    copied = fetched("tiny-bert", checkout_folder) / "model.safetensors"
    assert sha256(copied) == content.files["model.safetensors"]


def test_add_reads_pooling_of_sentence_transformers(
    checkout_folder: Path, tiny: Path, tmp_path: Path
) -> None:
    """Pooling by the first token, normalization, maximum length; the model is in a subfolder."""
    folder = tmp_path / "st"
    copytree(tiny, folder / "0_Transformer")
    modules = [("Transformer", "0_Transformer"), ("Pooling", "1_Pooling"), ("Normalize", "")]
    (folder / "modules.json").write_text(
        json.dumps([{"type": f"sentence_transformers.models.{t}", "path": p} for t, p in modules])
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    (folder / "0_Transformer/sentence_bert_config.json").write_text('{"max_seq_length": 20}')
    run("add", str(folder), "--name", "st")
    encoder = registry(checkout_folder).sources["st"].encoder
    assert encoder is not None
    assert encoder.model_dump() == {"pooling": "cls", "normalize": True, "max_length": 20}
    assert (fetched("st", checkout_folder) / "config.json").is_file()


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    table = pd.DataFrame(rows)
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        table.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_add_a_data_set_from_a_file(checkout_folder: Path, suffix: str) -> None:
    """Rows, texts, classes and digest are compared with independently computed ones."""
    path = write(checkout_folder / f"reviews{suffix}", ROWS)
    printed = run("add", str(path), "--text", "review", "--label", "stars")
    assert "2 classes: 'bad' (20), 'good' (20)" in printed
    source = registry(checkout_folder).sources["reviews"]
    content = source.contents["file"]
    lines = [json.dumps([r["review"], int(r["stars"] == "good")], separators=(",", ":")) + "\n"
             for r in ROWS]  # fmt: skip
    assert content.content_sha256 == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert (content.rows, content.unique_texts) == (40, len(set(TEXTS)))
    assert content.label_names == ["bad", "good"]
    fetched("reviews", checkout_folder)  # verifies the digest


def test_add_recognizes_scores_classes_and_running_text(checkout_folder: Path) -> None:
    pairs = [{"a": x, "b": y, "s": i / 7} for i, (x, y) in enumerate(pairwise(TEXTS))]
    write(checkout_folder / "pairs.csv", pairs)
    run("add", "pairs.csv", "--text", "a", "--text", "b", "--label", "s")
    numbered = [{"t": text, "n": i % 3} for i, text in enumerate(TEXTS)]
    write(checkout_folder / "numbered.csv", numbered)
    run("add", "numbered.csv", "--text", "t", "--label", "n")
    (checkout_folder / "lines.txt").write_text("\n".join(TEXTS) + "\n")
    run("add", "lines.txt")
    sources = registry(checkout_folder).sources
    assert sources["pairs"].contents["file"].label_names == []
    assert sources["numbered"].contents["file"].label_names == ["0", "1", "2"]
    assert sources["lines"].kind == "corpus"
    names = ["pairs", "numbered", "lines"]
    for name in names:
        fetched(name, checkout_folder)
    study = {"extension": {"models": ["all-MiniLM-L6-v2"], "datasets": names}}
    raw = read_configuration([checkout_folder / "config.yaml"], study)
    config = load_study(raw, checkout_folder).config
    assert config.datasets["pairs"].task == "regression"  # type: ignore[union-attr]
    assert {"numbered-train", "lines-lines"} <= set(config.datasets)


@pytest.fixture
def hub(tiny: Path, tmp_path: Path) -> Iterator[Hub]:
    """A local hub with a model and a data set, which huggingface_hub uses."""
    files = {file.name: file.read_bytes() for file in tiny.iterdir()}
    files["data/train.csv"] = pd.DataFrame(ROWS).to_csv(index=False).encode()
    files["data/test.csv"] = pd.DataFrame(ROWS[:10]).to_csv(index=False).encode()
    with serving(files, tmp_path / "cache") as server:
        yield server


def test_add_a_model_from_a_hub(
    hub: Hub, checkout_folder: Path, tiny: Path, tmp_path: Path
) -> None:
    """The revision is pinned, and the digest is taken without downloading the weights; cached files
    are fetched without the hub."""
    from huggingface_hub import snapshot_download

    run("add", "hub:owner/name")
    assert not list((tmp_path / "cache").rglob("model.safetensors"))
    source = registry(checkout_folder).sources["name"]
    assert source.origins[0].revision == REVISION  # type: ignore[union-attr]
    assert source.licence == "mit"
    digest = source.contents["weights"].files["model.safetensors"]
    assert digest == sha256(tiny / "model.safetensors")
    snapshot_download("owner/name", revision=REVISION)
    hub.close()
    assert sha256(fetched("name", checkout_folder) / "model.safetensors") == digest


def test_add_a_data_set_from_a_hub(hub: Hub, checkout_folder: Path) -> None:
    """Among several files, one must be named; it is downloaded once."""
    wanted = ["add", "hub:owner/name", "--text", "review", "--label", "stars", "--name", "own"]
    assert "data/test.csv, data/train.csv" in run(*wanted, code=2)
    run(*wanted, "--file", "data/train.csv")
    hub.close()
    assert (fetched("own", checkout_folder) / "data.csv").is_file()


def test_edited_file_is_found_and_replaced(checkout_folder: Path) -> None:
    """Fetch, verify and add report the change; `add --replace` updates the entry."""
    path = write(checkout_folder / "reviews.csv", ROWS)
    wanted = ["add", "reviews.csv", "--text", "review", "--label", "stars"]
    run(*wanted)
    write(path, ROWS[:-1])
    with pytest.raises(IsotropyError, match="got 39"):
        fetched("reviews", checkout_folder)
    assert "add --replace" in run(*wanted, code=2)
    run(*wanted, "--replace")
    assert registry(checkout_folder).sources["reviews"].contents["file"].rows == 39


Change = Callable[[Path, Path], list[str]]


def data_set_case(content: str | bytes, *arguments: str, name: str = "x.csv") -> Change:
    def arrange(_: Path, checkout_folder: Path) -> list[str]:
        data = content.encode() if isinstance(content, str) else content
        (checkout_folder / name).write_bytes(data)
        return [name, *arguments]

    return arrange


def model_case(change: Callable[[Path], object], *arguments: str) -> Change:
    def arrange(tiny: Path, checkout_folder: Path) -> list[str]:
        copytree(tiny, checkout_folder / "m")
        change(checkout_folder / "m")
        return ["m", *arguments]

    return arrange


GOOD = "review,stars\ngood film,1\nbad film,0\n"
LABELLED = ("--text", "review", "--label", "stars")
HALF = "".join(f'{{"review": "\\ud83d", "stars": {i}}}\n' for i in (0, 1))
T5 = '{"model_type": "t5", "d_model": 8}'


def nothing(_: Path) -> None:
    pass


def write_in(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


def remove(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


REJECTED: list[tuple[Change, str]] = [
    (lambda *_: ["nothing"], "hub:ORG/NAME"),
    (lambda *_: ["org/name"], "hub:org/name"),
    (lambda *_: ["all-MiniLM-L6-v2"], "registry already"),
    (lambda *_: ["hub:org/a--b"], "not a name"),
    (lambda *_: ["config"], "without config.json"),
    (model_case(nothing, "--text", "x"), "--text is"),
    (model_case(nothing, "--name", "a--b"), "got 'a--b'"),
    (model_case(changed_config(hidden_size="abc")), "cannot use config.json"),
    (model_case(write_in("config.json", T5)), "several parts"),
    (model_case(nothing, "--name", "gpt2"), "a source 'gpt2'"),
    (model_case(nothing, "--pooling", "last"), "--pooling mean or cls"),
    (model_case(remove("model.safetensors")), "no weights"),
    (model_case(lambda m: (m / "tokenizer.json").rename(m / "vocab.txt")), "no tokenizer.json"),
    (model_case(remove("tokenizer_config.json")), "no tokenizer_config.json"),
    (model_case(write_in("config.json", "{")), "expected JSON"),
    (model_case(write_in("config.json", "[]")), "expected an object"),
    (model_case(write_in("modules.json", "{}")), "list of modules"),
    (model_case(changed_config(model_type="x")), "not in transformers"),
    (model_case(changed_config(model_type="x", auto_map={"a": "b"})), "code of its own"),
    (
        model_case(lambda m: (m / "model.safetensors").rename(m / "pytorch_model.bin")),
        "pickled",
    ),
    (data_set_case(GOOD, *LABELLED, "--pooling", "cls"), "--pooling"),
    (data_set_case(GOOD), "with --text"),
    (data_set_case(GOOD, "--text", "reviw", "--label", "stars"), "no field 'reviw'"),
    (data_set_case(GOOD, "--text", "review", "--label", "star"), "no field 'star'"),
    (data_set_case("", *LABELLED), "empty"),
    (data_set_case("review,stars\ngood film,1\n", *LABELLED), "at least 2 texts"),
    (data_set_case(GOOD + "one,two,3\n", *LABELLED), "line 4"),
    (data_set_case(GOOD + ",1\n", *LABELLED), "text 3"),
    (data_set_case(GOOD + "x,\n", *LABELLED), "row 3"),
    (data_set_case(b"review,stars\n\xff,1\nb,0\n", *LABELLED), "byte 0xff"),
    (data_set_case("review,stars\na,1\nb,1\n", *LABELLED), "2 to 50 classes"),
    (data_set_case("review,stars\na,0.5\nb,1\n", *LABELLED), "pairs of texts"),
    (
        data_set_case("review,stars\na,x\nb,1\n", *LABELLED, "--scores", "--text", "stars"),
        "expected a score",
    ),
    (data_set_case(GOOD, *LABELLED, "--text", "review"), "two of a pair"),
    (data_set_case(GOOD, *LABELLED, "--file", "x"), "--file"),
    (data_set_case(GOOD, "--text", "review", "--scores"), "add --label"),
    (data_set_case(GOOD, *LABELLED, name="???.csv"), "give --name"),
    (data_set_case(HALF, *LABELLED, name="x.jsonl"), "row 1"),
    (data_set_case("tea 0.5 -1\ncoffee 1 2e-1\n", name="x.txt"), "cannot be added"),
    (data_set_case("2 2\ntea 0.5 -1\ncup 1 2\n", name="x.txt"), "cannot be added"),
    (data_set_case("0.5 -1\n1 2e-1\n", name="x.txt"), "cannot be added"),
    (data_set_case("2 2\ntea 0.5 -1\n", name="x.vec"), "got .vec"),
    (data_set_case(GOOD, *LABELLED, name="x.csv.gz"), "one of .csv"),
    (data_set_case(GOOD, "--text", "review", "--text", "stars"), "a class or a score"),
    (data_set_case("PAR1", *LABELLED, name="x.parquet"), "not readable"),
    (data_set_case('{"review": 3, "stars": 1}\n', *LABELLED, name="x.jsonl"), "got 3"),
    (data_set_case("{", *LABELLED, name="x.jsonl"), "line 1"),
    (data_set_case(GOOD, *LABELLED, "--project", "config"), "not a checkout"),
]


@pytest.mark.parametrize(("change", "word"), REJECTED, ids=[word for _, word in REJECTED])
def test_invalid_sources_are_rejected_in_one_line(
    checkout_folder: Path, tiny: Path, change: Change, word: str
) -> None:
    """Exit code 2, an error of one line, and nothing is written."""
    printed = run("add", *change(tiny, checkout_folder), code=2)
    assert word in printed
    assert len(printed.strip().splitlines()) == 1
    assert not (checkout_folder / "config" / LOCAL).exists()


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ((404, "RepoNotFound"), "repository"),
        ((404, "RevisionNotFound"), "revision"),
        ((403, "GatedRepo"), "licence"),
    ],
)
@pytest.mark.usefixtures("checkout_folder")
def test_final_answers_of_a_hub_are_reported(hub: Hub, answer: tuple[int, str], word: str) -> None:
    hub.api = answer
    assert word in run("add", "hub:owner/name", code=2)


def test_unusual_labels_and_lines_are_read(checkout_folder: Path) -> None:
    """-1 can be a class, 1 and 1.0 are one class, empty lines count, and a byte order mark is not
    part of the text."""
    rows = [{"t": text, "y": (-1, 1)[i % 2]} for i, text in enumerate(TEXTS)]
    write(checkout_folder / "signs.parquet", rows)
    assert "'-1' (20), '1' (20)" in run("add", "signs.parquet", "--text", "t", "--label", "y")
    lines = [json.dumps({"t": t, "y": [1, 1.0, 2][i % 3]}) for i, t in enumerate(TEXTS)]
    (checkout_folder / "mixed.jsonl").write_text(
        "\r\n".join(["\ufeff" + lines[0], *lines[1:], "", ""])
    )
    assert "'1' (27), '2' (13)" in run("add", "mixed.jsonl", "--text", "t", "--label", "y")
    (checkout_folder / "book.txt").write_text("\ufeffOne.\n\nTwo.\n", "utf8")
    assert "3 rows" in run("add", "book.txt")
    for name in ("signs", "mixed", "book"):
        fetched(name, checkout_folder)


def test_recorded_spec_does_not_contain_the_folder(checkout_folder: Path, tiny: Path) -> None:
    """The same files in another folder are the same source."""
    run("add", str(tiny))
    source, folders = registry(checkout_folder).sources["tiny-bert"].split_folders()
    spec = FetchSpec(
        id="x", source=source, order=["hub"], folders=folders, trust_on_first_use=False
    )
    assert str(tiny.parent) not in json.dumps(spec.recorded())
    assert folders == [str(tiny)]
    (checkout_folder / "there").mkdir()
    fetch(spec, checkout_folder / "work", checkout_folder / "there")
    assert (checkout_folder / "there/model.safetensors").is_file()


def test_recorded_spec_of_a_file_in_the_home_folder_is_current(
    checkout_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing personal is left in it that a record would replace."""
    home = checkout_folder / "home/me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("getpass.getuser", lambda: "me")
    (home / "reviews.txt").write_text("\n".join(TEXTS))
    run("add", str(home / "reviews.txt"))
    source, folders = registry(checkout_folder).sources["reviews"].split_folders()
    spec = FetchSpec(
        id="reviews", source=source, order=["hub"], folders=folders, trust_on_first_use=False
    )
    assert folders == [str(home)]
    assert spec_digest(spec) == digest(spec.recorded())
    FetchSpec.model_validate_json(json.dumps(spec.recorded()))
    (home / "reviews.txt").rename(home / "moved.txt")
    with pytest.raises(IsotropyError, match=r"--replace$"):
        fetch(spec, checkout_folder / "work", checkout_folder)
