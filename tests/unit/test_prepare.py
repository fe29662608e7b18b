"""Canonical tables of data sets: distinct texts, items that refer to texts, and the paper's
parameter counts on its data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isotropy.errors import IsotropyError
from replication.optimize.descent import Classifier
from replication.plan.config import load_study
from replication.prepare.datasets import prepare_corpus, prepare_sentences, prepare_words
from replication.prepare.spec import Blocks, CorpusSpec, Sample, SentencesSpec, WordsSpec
from replication.prepare.table import read_items, targets, text_rows, write_items
from replication.sources.fetch import FetchSpec, fetch
from replication.sources.formats import Row, StaticVectors, read_rows
from replication.sources.readers import NOUNS
from replication.sources.registry import load_registry


def test_prepare_sentences_and_read_them_back(tmp_path: Path) -> None:
    rows = [Row((f"text {i}",), i % 2) for i in range(10)]
    sentences = SentencesSpec(
        kind="sentences", source="s", label_names=["no", "yes"], sample=Sample(n_items=4, seed=0)
    )
    texts, items, dataset = prepare_sentences(sentences, rows)
    write_items(tmp_path / "d.parquet", items, dataset, "isotropy-record:0")
    back, described = read_items(tmp_path / "d.parquet")
    assert described == dataset
    assert described.sampled
    assert targets(back, described).tolist() == [int(t.split()[1]) % 2 for t in texts["text"]]
    assert text_rows(back).tolist() == [[0], [1], [2], [3]]
    with pytest.raises(IsotropyError, match="expected at least 4 items for the sample, got 3"):
        prepare_sentences(sentences, rows[:3])
    with pytest.raises(IsotropyError, match=r"label 1 has no name"):
        prepare_sentences(
            sentences.model_copy(update={"label_names": ["no"], "sample": None}), rows
        )
    with pytest.raises(IsotropyError, match="no items"):
        prepare_sentences(sentences.model_copy(update={"sample": None}), [])
    with pytest.raises(IsotropyError, match="s: "):
        prepare_sentences(sentences.model_copy(update={"sample": None}), [Row(("",), 0)])
    with pytest.raises(IsotropyError, match="s: row 2: expected a text, got an empty one"):
        prepare_sentences(sentences, [Row(("a", "b"), 0), Row(("", ""), 1)])


def test_pair_may_have_an_empty_text() -> None:
    """As in the question pairs of Quora."""
    spec = SentencesSpec.model_validate(
        {"kind": "sentences", "source": "s", "label_names": ["no", "yes"]}
    )
    prepared = prepare_sentences(spec, [Row(("a", ""), 0), Row(("", "b"), 1)])
    assert list(prepared.texts["text"]) == ["a", "", "b"]
    assert [list(item) for item in prepared.items["texts"]] == [[0, 1], [1, 2]]


def test_split_into_training_and_validation() -> None:
    """Both parts together are the source, in its order; a sample of the source is split by the same
    shares."""
    rows = [Row((f"text {i}",), i % 2) for i in range(50)]
    base = {"kind": "sentences", "source": "s", "label_names": ["no", "yes"]}
    sides = {}
    for part in ("train", "validation"):
        spec = SentencesSpec.model_validate(
            base | {"split": {"part": part, "held_out": 0.2, "seed": 3}}
        )
        prepared = prepare_sentences(spec, rows)
        assert prepared.dataset.sampled
        sides[part] = list(prepared.texts["text"])
        sample = spec.model_copy(update={"sample": Sample(n_items=20, seed=1)})
        assert len(prepare_sentences(sample, rows).items) == {"train": 16, "validation": 4}[part]
    assert (len(sides["train"]), len(sides["validation"])) == (40, 10)
    assert set(sides["train"]) | set(sides["validation"]) == {row.texts[0] for row in rows}
    assert sides["train"] == sorted(sides["train"], key=lambda text: int(text.split()[1]))


def test_prepare_lines_of_a_corpus() -> None:
    """All lines without line ends, including empty and repeated ones; or random blocks in the order
    of the corpus."""
    rows = [Row(("",)), *(Row((f" line {i} \n",)) for i in range(11)), Row(("",))]
    spec = CorpusSpec(kind="corpus", source="c", empty=" ")
    assert list(prepare_corpus(spec, rows)["text"]) == [
        " ",
        *(f" line {i} " for i in range(11)),
        " ",
    ]
    part = spec.model_copy(update={"blocks": Blocks(n_blocks=3, n_lines=3, seed=1)})
    lines = list(prepare_corpus(part, rows)["text"])
    all_lines = list(prepare_corpus(spec, rows)["text"])
    starts = [all_lines.index(lines[i]) for i in (0, 3, 6)]
    assert starts == sorted(starts)
    assert lines == [line for start in starts for line in all_lines[start : start + 3]]
    assert all(start % 3 == 0 for start in starts)
    with pytest.raises(IsotropyError, match="expected at least 5 blocks of 3 lines, got 4"):
        prepare_corpus(
            spec.model_copy(update={"blocks": Blocks(n_blocks=5, n_lines=3, seed=1)}), rows
        )
    with pytest.raises(IsotropyError, match="no lines"):
        prepare_corpus(spec, [])


def test_prepare_scores_and_answers(tmp_path: Path) -> None:
    """They are stored exactly, and rejected if they are invalid."""
    scores = SentencesSpec(kind="sentences", source="s", task="regression")
    _, items, dataset = prepare_sentences(
        scores, [Row(("a", "b"), 3.799999952316284), Row(("a", "c"), 0)]
    )
    write_items(tmp_path / "d.parquet", items, dataset, "isotropy-record:0")
    assert targets(*read_items(tmp_path / "d.parquet")).tolist() == [np.float32(3.8), 0]
    with pytest.raises(IsotropyError, match="expected a score, got"):
        prepare_sentences(scores, [Row(("a", "b"), "3")])
    extractive = SentencesSpec(kind="sentences", source="s", task="extractive")
    answers = {"text": ["tower", "the tower"], "answer_start": [6, 2]}
    _, items, dataset = prepare_sentences(extractive, [Row(("x the tower", "what?"), answers)])
    write_items(tmp_path / "d.parquet", items, dataset, "isotropy-record:0")
    back, described = read_items(tmp_path / "d.parquet")
    assert [dict(a) for a in back["labels"][0]] == [
        {"text": "tower", "start": 6},
        {"text": "the tower", "start": 2},
    ]
    with pytest.raises(ValueError, match="no targets of a classifier"):
        targets(back, described)
    for wrong in ({"text": ["tower"], "answer_start": [0]}, {"text": [], "answer_start": []}, 1):
        with pytest.raises(IsotropyError, match=r"does not contain the answer|expected text"):
            prepare_sentences(extractive, [Row(("x the tower", "what?"), wrong)])
    for task, names in (("single-label", []), ("regression", ["a", "b"]), ("extractive", ["a"])):
        fields = {"kind": "sentences", "source": "s", "task": task, "label_names": names}
        with pytest.raises(ValueError, match="needs at least two label_names"):
            SentencesSpec.model_validate(fields)


def test_pairs_share_their_texts() -> None:
    """A premise with two hypotheses is one text; a repeated sentence is one text and two items."""
    spec = SentencesSpec(kind="sentences", source="s", label_names=["a", "b"])
    texts, items, _ = prepare_sentences(
        spec, [Row(("p", "h"), 0), Row(("p", "g"), 1), Row(("h", "p"), 0)]
    )
    assert list(texts["text"]) == ["p", "h", "g"]
    assert text_rows(items).tolist() == [[0, 1], [0, 2], [1, 0]]
    texts, items, _ = prepare_sentences(spec, [Row(("same",), 0), Row(("same",), 1)])
    assert (len(texts), len(items)) == (1, 2)


def test_prepare_words_with_labels_and_vectors() -> None:
    names = NOUNS
    lexicon = [
        Row(("tea",), ["food", "plant"]),
        Row(("cup",), ["artifact"]),
        Row(("oak",), ["plant"]),
    ]
    vectors = StaticVectors(["the", "cup", "tea", "cup", "oak"], np.zeros((5, 2), np.float32))
    chosen = WordsSpec(kind="words", lexicon="l", vectors="v", n_items=2)
    texts, items, dataset = prepare_words(chosen, lexicon, names, vectors, None)
    assert list(texts["text"]) == ["cup", "tea"]
    indicators = targets(items, dataset)
    assert indicators.shape == (2, 26)
    assert [dataset.label_names[i] for i in np.flatnonzero(indicators[1])] == ["food", "plant"]
    every = chosen.model_copy(update={"n_items": None})
    assert len(prepare_words(every, lexicon, names, vectors, None).texts) == 3
    listed = prepare_words(
        every, lexicon, names, vectors, [Row(("oak",), None), Row(("the",), None)]
    )
    assert list(listed.texts["text"]) == ["oak"]
    with pytest.raises(IsotropyError, match="3 words have a label in l, n_items asks for 4"):
        prepare_words(chosen.model_copy(update={"n_items": 4}), lexicon, names, vectors, None)


COUNTS = {
    "polarity": (384, 4_094_976),
    "snli": (384, 4_987_395),
    "cola": (384, 3_277_058),
    "mrpc": (384, 2_709_506),
    "rte": (384, 1_738_370),
    "wnli": (384, 356_738),
    "sst2": (384, 25_720_322),
}
COUNTS_768 = {
    "cola": 6_554_114,
    "mrpc": 5_419_010,
    "rte": 3_476_738,
    "wnli": 713_474,
    "sst2": 51_440_642,
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts_of_tables_1_and_2(
    name: str, mirror: Path, project: Path, tmp_path: Path
) -> None:
    """Exact numbers on the real data: one vector per distinct text, pairs concatenated, bias except
    for polarity."""
    import yaml

    config = load_study(yaml.safe_load((project / "config.yaml").read_text("utf8")), project).config
    dataset_spec = config.datasets[name]
    assert isinstance(dataset_spec, SentencesSpec)
    entry = load_registry(project / "config/sources").sources[dataset_spec.source]
    fetch_spec = FetchSpec(
        id=name, source=entry, order=["mirror"], mirror=str(mirror), trust_on_first_use=False
    )
    (tmp_path / "out").mkdir()
    content = fetch(fetch_spec, tmp_path / "downloads", tmp_path / "out")[0].content
    texts, items, dataset = prepare_sentences(dataset_spec, read_rows(content, tmp_path / "out"))
    wanted = [COUNTS[name]] + ([(768, COUNTS_768[name])] if name in COUNTS_768 else [])
    for dim, n_params in wanted:
        vectors, labels = np.zeros((len(texts), dim), np.float32), len(dataset.label_names)
        assert (
            Classifier(
                vectors, text_rows(items), labels, bias=name != "polarity", seed=0
            ).n_params()
            == n_params
        )
