"""The rehearsal's hub: generated files are reproducible, and readable by independent code, not only
by our readers.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import struct
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from transformers import AutoModel, AutoTokenizer

from isotropy.sources.registry import load_registry
from tests.rehearsal import datasets, make_hub, models, words
from tests.rehearsal.make_hub import STATUS, WRITERS_BY_FILE_NAME
from tests.rehearsal.serve import served
from tests.rehearsal.texts import WORDS

IGNORED_WEIGHTS = ("pooler.", "lm_head.", "cls.", "predictions.", "vocab_", "attn.bias")
"""Heads and old buffers, which only one of `AutoModel` and the repository has."""


@pytest.fixture(scope="module")
def hub(synthetic_models: Path) -> Path:
    """Models of each architecture."""
    return synthetic_models


def test_generated_files_are_reproducible(hub: Path, tmp_path: Path) -> None:
    for name in ("albert-base-v2", "gpt2", "openai-gpt", "bert-base-cased"):
        models.write(name, tmp_path / name)
        for file in (hub / name).iterdir():
            assert file.read_bytes() == (tmp_path / name / file.name).read_bytes(), file
    for make in WRITERS_BY_FILE_NAME.values():
        assert make() == make()
    for repo, path in (("nyu-mll/glue", "qqp/train-0.parquet"), ("aps/super_glue", "wic/train-0")):
        assert datasets.synthetic_file(repo, path) == datasets.synthetic_file(repo, path)


@pytest.mark.parametrize("name", models.ARCHITECTURES)
def test_transformers_loads_all_weights(hub: Path, name: str) -> None:
    """All tensors, named as in the published files, are loaded."""
    model, result = AutoModel.from_pretrained(hub / name, output_loading_info=True)
    for key in (*result["missing_keys"], *result["unexpected_keys"]):
        assert any(part in key for part in IGNORED_WEIGHTS), key
    assert not result["mismatched_keys"]
    real = {"all-MiniLM-L6-v2": 6, "all-distilroberta-v1": 6, "distilbert-base-cased": 6}
    layers = real.get(name, 6 if "distil" in name else 12)
    assert model.config.num_hidden_layers == layers
    assert model.config.num_attention_heads == 12


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bert-base-cased", "[CLS] The [SEP]"),
        ("bert-base-uncased", "[CLS] the [SEP]"),
        ("roberta-base", "<s> The </s>"),
        ("all-mpnet-base-v2", "<s> the </s>"),
        ("albert-base-v2", "[CLS] ▁the [SEP]"),
        ("gpt2", "The"),
        ("openai-gpt", "the</w>"),
    ],
)
def test_tokenizers_have_the_special_tokens_of_their_kind(
    hub: Path, name: str, expected: str
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(hub / name)
    assert " ".join(tokenizer.convert_ids_to_tokens(tokenizer("The")["input_ids"])) == expected
    assert (tokenizer.pad_token is None) == ("gpt" in name)


def test_tables_have_the_columns_of_the_hub() -> None:
    table = pd.read_parquet(io.BytesIO(datasets.glue("qqp", "train")))
    assert list(table) == ["question1", "question2", "label", "idx"]
    assert table["idx"].dtype == np.int32
    assert table["label"].dtype == np.int64
    assert (table["question2"] == "").sum() == 1
    scores = pd.read_parquet(io.BytesIO(datasets.glue("stsb", "train")))["label"]
    assert scores.dtype == np.float32
    assert scores.between(0, 5).all()
    squad = pd.read_parquet(io.BytesIO(datasets.squad("validation")))
    for context, answers in zip(squad["context"], squad["answers"], strict=True):
        for text, start in zip(answers["text"], answers["answer_start"], strict=True):
            assert context[start : start + len(text)] == text
    assert len(squad) >= 200
    snli = pd.read_parquet(io.BytesIO(datasets.snli_parquet()))
    assert set(snli["label"]) == {-1, 0, 1, 2}
    lines = gzip.decompress(datasets.mteb("mteb/stsbenchmark-sts/test")).decode().splitlines()
    assert {"score", "sentence1", "sentence2", "sid"} <= set(json.loads(lines[0]))


def test_word2vec_files_are_readable_as_by_distance_c() -> None:
    """As `fscanf("%s%c")` and `fread` in word2vec's distance.c: a word up to a blank, then floats;
    an optional line feed before the next word is skipped."""
    for data in (words.word2vec(300, 2), gzip.decompress(words.google_news())):
        header, _, rest = data.partition(b"\n")
        n, d = map(int, header.split())
        offset = 0
        for i in range(n):
            offset += rest[offset : offset + 1] == b"\n"
            end = rest.index(b" ", offset)
            assert rest[offset:end].decode() == WORDS[i]
            vector = struct.unpack(f"<{d}f", rest[end + 1 : end + 1 + 4 * d])
            assert np.isfinite(vector).all()
            offset = end + 1 + 4 * d
        assert rest[offset:] in (b"", b"\n")


def test_glove_and_codwoe_are_readable_by_pandas() -> None:
    packed = zipfile.ZipFile(io.BytesIO(words.glove("glove.6B.50d.txt")))
    table = pd.read_csv(packed.open("glove.6B.50d.txt"), sep=" ", header=None, quoting=3)
    assert table.shape == (words.N_WORDS, 51)
    packed = zipfile.ZipFile(io.BytesIO(words.codwoe()))
    senses = pd.read_csv(packed.open("full_dataset/en.complete.csv"))
    assert {"noun", "verb", "adj", "adv"} < set(senses["pos"])


def members(data: bytes) -> dict[str, str]:
    """Return the files of an archive by name, decoded; non-UTF-8 bytes are replaced."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        files = [name for name in packed.namelist() if not name.endswith("/")]
        return {name: packed.read(name).decode("utf8", errors="replace") for name in files}


def test_contents_of_other_hub_tables() -> None:
    boolq = pd.read_parquet(
        io.BytesIO(datasets.synthetic_file("aps/super_glue", "boolq/train-0.parquet"))
    )
    assert list(boolq) == ["question", "passage", "idx", "label"]
    wic = pd.read_parquet(
        io.BytesIO(datasets.synthetic_file("aps/super_glue", "wic/train-0.parquet"))
    )
    for row in wic.itertuples():
        assert row.sentence1[row.start1 : row.end1] == row.word
        assert row.sentence2[row.start2 : row.end2] == row.word
    sst5 = pd.read_json(
        io.BytesIO(datasets.synthetic_file("SetFit/sst5", "train.jsonl")), lines=True
    )
    assert sst5.groupby("label")["label_text"].nunique().tolist() == [1] * 5
    lines = pd.read_parquet(io.BytesIO(datasets.wikitext_parquet()))["text"]
    assert (lines == "").any()
    assert lines.str.match(r" = .* = \n").any()


def test_archives_have_the_documented_contents() -> None:
    polarity = members(datasets.polarity())
    for name in ("neg", "pos"):
        assert polarity[f"sentence_polarity/rt-polarity.{name}"].count("\n") == datasets.ROWS / 2
    snli = members(datasets.snli_archive())["snli_1.0/snli_1.0_dev.jsonl"].splitlines()
    assert {json.loads(line)["gold_label"] for line in snli} >= {"-", "entailment"}
    tokens = members(datasets.wikitext_archive())["wikitext-2/wiki.train.tokens"]
    assert " <unk> " in tokens
    for text in members(datasets.brown()).values():
        assert all(tagged.rpartition("/")[1] for tagged in text.split())
    assert members(words.nlpl())["model.bin"].startswith(f"{words.N_WORDS} 300\n")
    blanks = members(words.glove("glove.840B.300d.txt"))["glove.840B.300d.txt"].splitlines()
    assert sum(len(line.split(" ")) > 301 for line in blanks) == 1


def test_lexicons_have_the_documented_format() -> None:
    """WordNet's lines follow the manual wndb(5WN): offset, file number, type, words, pointers."""
    for name, text in members(words.wordnet()).items():
        for line in text.splitlines():
            if line.startswith("  "):
                continue
            fields, _, gloss = line.partition(" | ")
            offset, number, kind, n_words, *rest = fields.split()
            assert len(offset) == 8
            assert 0 <= int(number) < 45
            assert kind in {"noun": "n", "verb": "v", "adj": "as", "adv": "r"}[name.split(".")[1]]
            assert len(rest) == 2 * int(n_words, 16) + 1
            assert gloss
    for header in (True, False):
        lines = words.word_pairs(header).decode().splitlines()
        rows = list(csv.reader((x for x in lines if x[0] != "#"), delimiter="\t"))
        assert len(rows) == words.PAIRS
        assert all(0 <= float(score) <= 10 for _, _, score in rows)
    listed = words.supersense_words().decode().split()
    assert len(set(listed)) == len(listed)


def test_real_rows_keep_their_licence(
    hub: Path, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data sets with rows of a mirror keep title, licence and citation; the status is rehearsal."""
    monkeypatch.setattr(models, "write", lambda name, target: _link(hub / name, target))
    make_hub.make(tmp_path, mirror)
    result = load_registry(tmp_path / "sources").sources
    real = {name: source for name, source, _ in make_hub.paper_sources()}
    with_real_rows = [name for name in result if not result[name].licence.startswith("none needed")]
    assert "glue-rte" in with_real_rows
    assert "squad" not in with_real_rows
    for name in with_real_rows:
        assert (result[name].licence, result[name].citation) == (
            real[name].licence,
            real[name].citation,
        )
        for content in result[name].contents.values():
            assert content.status == STATUS
            assert content.title.startswith(f"first {datasets.ROWS} rows of ")


def test_server_serves_only_files_below_its_folder(hub: Path, tmp_path: Path) -> None:
    """Files of a repository at any revision are found, files outside are not."""
    (tmp_path / "hub/models/owner").mkdir(parents=True)
    (tmp_path / "hub/models/owner/name").symlink_to(tmp_path / "files")
    (tmp_path / "files").mkdir()
    (tmp_path / "files/config.json").write_text("{}")
    (tmp_path.parent / "secret").write_text("x")
    revision = "0" * 40
    with served(tmp_path, 0) as address:

        def get(path: str) -> tuple[int, bytes]:
            try:
                with urllib.request.urlopen(f"{address}/{path}") as answer:
                    assert answer.headers["ETag"]
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                return error.code, b""

        assert get(f"owner/name/resolve/{revision}/config.json") == (200, b"{}")
        assert get(f"owner/name/resolve/{revision}/model.safetensors")[0] == 404
        assert get("../secret")[0] == 404
        assert get("%2e%2e/secret")[0] == 404


def test_registry_of_the_rehearsal_is_valid(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has each source of the full-scale study, with digests and the status rehearsal."""
    monkeypatch.setattr(models, "write", lambda name, target: _link(hub / name, target))
    make_hub.make(tmp_path, None)
    registry = load_registry(tmp_path / "sources")
    wanted = {name: source.kind for name, source, _ in make_hub.paper_sources()}
    assert {name: source.kind for name, source in registry.sources.items()} == wanted
    assert {name for name, kind in wanted.items() if kind == "model"} == set(models.ARCHITECTURES)
    for source in registry.sources.values():
        assert {content.status for content in source.contents.values()} == {STATUS}
        for origin in source.origins:
            files = source.contents[origin.content].files
            assert files or getattr(origin, "sha256", None)
        assert {origin.type for origin in source.origins} <= {"hub", "url"}
    weights = tmp_path / "hub/models/openai-community/gpt2/model.safetensors"
    result = registry.sources["gpt2"].contents["weights"].files["model.safetensors"]
    assert result == hashlib.sha256(weights.read_bytes()).hexdigest()


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source)
