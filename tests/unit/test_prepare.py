"""Canonical tables of data sets: distinct texts, items that refer to texts, and the paper's
parameter counts on its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotropy.errors import IsotropyError
from replication.optimize.descent import Classifier
from replication.plan.config import load_study, read_configuration
from replication.prepare.datasets import Prepared, prepare_corpus, prepare_sentences, prepare_words
from replication.prepare.spec import Blocks, CorpusSpec, Sample, SentencesSpec, WordsSpec
from replication.prepare.table import read_items, targets, text_rows, write_items
from replication.sources.fetch import FetchSpec, fetch
from replication.sources.formats import Row, StaticVectors, read_rows
from replication.sources.readers import NOUNS
from replication.sources.registry import load_registry


def sentences(**fields: Any) -> SentencesSpec:
    return SentencesSpec.model_validate({"kind": "sentences", "source": "s", **fields})


NO_YES = sentences(label_names=["no", "yes"])


def test_prepare_sentences_and_read_them_back(tmp_path: Path) -> None:
    rows = [Row((f"text {i}",), i % 2) for i in range(10)]
    spec = NO_YES.model_copy(update={"sample": Sample(n_items=4, seed=0)})
    texts, items, dataset = prepare_sentences(spec, rows)
    write_items(tmp_path / "d.parquet", items, dataset, "isotropy-record:0")
    back, described = read_items(tmp_path / "d.parquet")
    assert described == dataset
    assert described.sampled
    assert targets(back, described).tolist() == [int(t.split()[1]) % 2 for t in texts["text"]]
    assert text_rows(back).tolist() == [[0], [1], [2], [3]]
    with pytest.raises(IsotropyError, match="at least 4"):
        prepare_sentences(spec, rows[:3])


@pytest.mark.parametrize(
    ("rows", "keyword"),
    [
        ([], "no items"),
        ([Row(("a",), 2)], "label 2"),
        ([Row(("",), 0)], "s: "),
        ([Row(("a", "b"), 0), Row(("", ""), 1)], "row 2"),
    ],
)
def test_rows_without_text_or_known_label_are_rejected(rows: list[Row], keyword: str) -> None:
    with pytest.raises(IsotropyError, match=keyword):
        prepare_sentences(NO_YES, rows)


def test_pair_may_have_an_empty_text() -> None:
    """As in the question pairs of Quora."""
    prepared = prepare_sentences(NO_YES, [Row(("a", ""), 0), Row(("", "b"), 1)])
    assert list(prepared.texts["text"]) == ["a", "", "b"]
    assert [list(item) for item in prepared.items["texts"]] == [[0, 1], [1, 2]]


def test_split_into_training_and_validation() -> None:
    """Both parts together are the source, in its order; a sample of the source is split by the same
    shares."""
    rows = [Row((f"text {i}",), i % 2) for i in range(50)]
    sides = {}
    for part in ("train", "validation"):
        split = {"part": part, "held_out": 0.2, "seed": 3}
        spec = sentences(label_names=["no", "yes"], split=split)
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
    all_lines = list(prepare_corpus(spec, rows)["text"])
    assert all_lines == [" ", *(f" line {i} " for i in range(11)), " "]
    part = spec.model_copy(update={"blocks": Blocks(n_blocks=3, n_lines=3, seed=1)})
    lines = list(prepare_corpus(part, rows)["text"])
    starts = [all_lines.index(lines[i]) for i in (0, 3, 6)]
    assert starts == sorted(starts)
    assert lines == [line for start in starts for line in all_lines[start : start + 3]]
    assert all(start % 3 == 0 for start in starts)
    too_many = spec.model_copy(update={"blocks": Blocks(n_blocks=5, n_lines=3, seed=1)})
    with pytest.raises(IsotropyError, match="5 blocks"):
        prepare_corpus(too_many, rows)
    with pytest.raises(IsotropyError, match="no lines"):
        prepare_corpus(spec, [])


def test_prepare_scores_and_answers(tmp_path: Path) -> None:
    """They are stored exactly, and rejected if they are invalid."""
    file = tmp_path / "d.parquet"
    scores = sentences(task="regression")
    rows = [Row(("a", "b"), 3.799999952316284), Row(("a", "c"), 0)]
    _, items, dataset = prepare_sentences(scores, rows)
    write_items(file, items, dataset, "isotropy-record:0")
    assert targets(*read_items(file)).tolist() == [np.float32(3.8), 0]
    with pytest.raises(IsotropyError, match="score"):
        prepare_sentences(scores, [Row(("a", "b"), "3")])
    extractive = sentences(task="extractive")
    answers = {"text": ["tower", "the tower"], "answer_start": [6, 2]}
    _, items, dataset = prepare_sentences(extractive, [Row(("x the tower", "what?"), answers)])
    write_items(file, items, dataset, "isotropy-record:0")
    back, described = read_items(file)
    stored = [(answer["text"], answer["start"]) for answer in back["labels"][0]]
    assert stored == [("tower", 6), ("the tower", 2)]
    with pytest.raises(ValueError, match="no targets"):
        targets(back, described)
    for wrong in ({"text": ["tower"], "answer_start": [0]}, {"text": [], "answer_start": []}, 1):
        with pytest.raises(IsotropyError, match=r"answer|text"):
            prepare_sentences(extractive, [Row(("x the tower", "what?"), wrong)])
    for task, names in (("single-label", []), ("regression", ["a", "b"]), ("extractive", ["a"])):
        with pytest.raises(ValueError, match="label_names"):
            sentences(task=task, label_names=names)


def test_pairs_share_their_texts() -> None:
    """A premise with two hypotheses is one text; a repeated sentence is one text and two items."""
    rows = [Row(("p", "h"), 0), Row(("p", "g"), 1), Row(("h", "p"), 0)]
    texts, items, _ = prepare_sentences(NO_YES, rows)
    assert list(texts["text"]) == ["p", "h", "g"]
    assert text_rows(items).tolist() == [[0, 1], [0, 2], [1, 0]]
    texts, items, _ = prepare_sentences(NO_YES, [Row(("same",), 0), Row(("same",), 1)])
    assert (len(texts), len(items)) == (1, 2)


def test_prepare_words_with_labels_and_vectors() -> None:
    labels = {"tea": ["food", "plant"], "cup": ["artifact"], "oak": ["plant"]}
    lexicon = [Row((word,), names) for word, names in labels.items()]
    vectors = StaticVectors(["the", "cup", "tea", "cup", "oak"], np.zeros((5, 2), np.float32))

    def prepared(n_items: int | None, listed: list[Row] | None = None) -> Prepared:
        spec = WordsSpec(kind="words", lexicon="l", vectors="v", n_items=n_items)
        return prepare_words(spec, lexicon, NOUNS, vectors, listed)

    texts, items, dataset = prepared(2)
    assert list(texts["text"]) == ["cup", "tea"]
    indicators = targets(items, dataset)
    assert indicators.shape == (2, 26)
    assert [dataset.label_names[i] for i in np.flatnonzero(indicators[1])] == ["food", "plant"]
    assert len(prepared(None).texts) == 3
    listed = prepared(None, [Row(("oak",), None), Row(("the",), None)])
    assert list(listed.texts["text"]) == ["oak"]
    with pytest.raises(IsotropyError, match="3 words"):
        prepared(4)


COUNTS = {
    ("polarity", 384): 4_094_976,
    ("snli", 384): 4_987_395,
    ("cola", 384): 3_277_058,
    ("mrpc", 384): 2_709_506,
    ("rte", 384): 1_738_370,
    ("wnli", 384): 356_738,
    ("sst2", 384): 25_720_322,
    ("cola", 768): 6_554_114,
    ("mrpc", 768): 5_419_010,
    ("rte", 768): 3_476_738,
    ("wnli", 768): 713_474,
    ("sst2", 768): 51_440_642,
}


@pytest.mark.parametrize("name", sorted({name for name, _ in COUNTS}))
def test_parameter_counts_of_tables_1_and_2(
    name: str, mirror: Path, project: Path, tmp_path: Path
) -> None:
    """Exact numbers on the real data: one vector per distinct text, pairs concatenated, bias except
    for polarity."""
    config = load_study(read_configuration([project / "config.yaml"], {}), project).config
    dataset_spec = config.datasets[name]
    assert isinstance(dataset_spec, SentencesSpec)
    entry = load_registry(project / "config/sources").sources[dataset_spec.source]
    fetch_spec = FetchSpec(
        id=name, source=entry, order=["mirror"], mirror=str(mirror), trust_on_first_use=False
    )
    (tmp_path / "out").mkdir()
    content = fetch(fetch_spec, tmp_path / "downloads", tmp_path / "out")[0].content
    texts, items, dataset = prepare_sentences(dataset_spec, read_rows(content, tmp_path / "out"))
    rows, n_labels = text_rows(items), len(dataset.label_names)
    for dim in (dim for task, dim in COUNTS if task == name):
        vectors = np.zeros((len(texts), dim), np.float32)
        classifier = Classifier(vectors, rows, n_labels, bias=name != "polarity", seed=0)
        assert classifier.n_params() == COUNTS[name, dim]
