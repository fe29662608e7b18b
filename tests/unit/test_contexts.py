"""Words in sentences, their contextuality scores in a layer, and static vectors made from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from scipy.spatial import distance

from isotropy.errors import IsotropyError
from isotropy.metrics.contextuality import cosine_between, self_similarity
from isotropy.metrics.cosines import mean_cosine, type_cosines
from replication.embed.layers import TOKENS, layer_file
from replication.geometry.contexts import Contexts, measure_contexts
from replication.geometry.sentences import (
    Sentences,
    first_occurrences,
    occurrences,
    read_sentences,
    read_token_vectors,
    split_words,
)
from replication.geometry.spec import ContextsSpec, StaticWordsSpec
from replication.geometry.static_words import (
    Benchmark,
    StaticWords,
    benchmark_cosines,
    look_up_words,
    measure_layers,
    static_words,
)
from replication.sources.formats import StaticVectors

SPEC = ContextsSpec(
    paper="ethayarajh2019",
    texts="sts",
    datasets=["sts12", "sts13", "sts14", "sts15", "sts16"],
    model="bert-base-cased",
    layer=1,
    unit="pieces",
    units=["pieces", "mean"],
    variants=["all", "no-first", "no-massive", "standardized"],
    min_contexts=5,
    n_baseline=1000,
    n_draws=3,
    seed=0,
)
STATIC = StaticWordsSpec(
    paper="ethayarajh2019",
    texts="sts",
    datasets=SPEC.datasets,
    model="bert-base-cased",
    layers=[0, 1],
    min_contexts=5,
    benchmarks=["words"],
    vectors=["table"],
)

Piece = tuple[int, str]


def write(folder: Path, texts: list[str], pieces: list[list[Piece]]) -> tuple[Path, Path]:
    """Write random token vectors of texts, with [CLS] and [SEP] added. Each piece is given by the
    number of its word and its text."""
    (folder / "tokens").mkdir(parents=True)
    rows = [
        (number, position, word, piece)
        for number, of_text in enumerate(pieces)
        for position, (word, piece) in enumerate([(-1, "[CLS]"), *of_text, (-1, "[SEP]")])
    ]
    table = pd.DataFrame(rows, columns=["text", "position", "word", "piece"])
    table["special"] = table["word"] < 0
    table["symbol"] = table["special"] | table["piece"].isin(list("(),-"))
    table.assign(piece=table["piece"].astype("category")).to_parquet(folder / "tokens" / TOKENS)
    pd.DataFrame({"text": texts}).to_parquet(folder / "texts.parquet")
    for layer in (0, 1):
        vectors = np.random.default_rng(layer).standard_normal((len(rows), 6)) + 1
        file = folder / "tokens" / layer_file(layer)
        safetensors.numpy.save_file({"vectors": vectors.astype(np.float32)}, file)
    return folder / "tokens", folder / "texts.parquet"


TEXTS = ["(Un)do it, Bo", "It rains", "undo --"]
PIECES: list[list[Piece]] = [
    [(0, "("), (0, "un"), (0, ")"), (0, "do"), (1, "it"), (1, ","), (2, "bo")],
    [(0, "it"), (1, "rain"), (1, "##s")],
    [(0, "un"), (0, "##do"), (1, "-"), (1, "-")],
]


@pytest.fixture
def sentences(tmp_path: Path) -> tuple[Sentences, list[Path]]:
    """Two data sets with one sentence in common."""
    first = write(tmp_path / "a", TEXTS, PIECES)
    second = write(tmp_path / "b", [TEXTS[1], "Bo"], [PIECES[1], [(0, "bo")]])
    folders, tables = [first[0], second[0]], [first[1], second[1]]
    return read_sentences(folders, tables), folders


def test_sentence_of_two_data_sets_counts_once(sentences: tuple[Sentences, list[Path]]) -> None:
    result, folders = sentences
    assert result.texts == [*TEXTS, "Bo"]
    pieces = [piece for text_pieces in PIECES for _, piece in text_pieces] + ["bo"]
    assert result.tokens["piece"].tolist() == pieces
    assert result.tokens["sentence"].tolist() == [0] * 7 + [1] * 3 + [2] * 4 + [3]
    vectors = read_token_vectors(result, folders, 1)
    first, second = (safetensors.numpy.load_file(f / layer_file(1))["vectors"] for f in folders)
    assert np.array_equal(vectors, np.concatenate([first[result.rows[0]], second[[6]]]))
    assert result.rows[1].tolist() == [6]


def test_repeated_lines_of_a_corpus_count_once(tmp_path: Path) -> None:
    pieces = [PIECES[1], PIECES[1], PIECES[0][6:]]
    folder, table = write(tmp_path, ["it rains", "it rains", "Bo"], pieces)
    result = read_sentences([folder], [table])
    assert result.texts == ["it rains", "Bo"]
    assert result.tokens["sentence"].tolist() == [0, 0, 0, 1]


def test_symbols_around_words_are_split_off(sentences: tuple[Sentences, list[Path]]) -> None:
    """Characters other than letters and digits are separate words, except inside a word."""
    words = split_words(sentences[0], "mean")
    names = words.names[words.types].tolist()
    assert names == ["(", "Un)do", "it", ",", "Bo", "It", "rains", "undo", "-", "-", "Bo"]
    assert words.lengths.tolist() == [1, 3, 1, 1, 1, 1, 2, 2, 1, 1, 1]
    assert words.is_word.tolist() == [n not in "(,-" for n in names]
    assert words.sentences.tolist() == [0] * 5 + [1] * 2 + [2] * 3 + [3]
    assert np.flatnonzero(words.leads).tolist() == [0, 5, 7, 10]
    pieces = split_words(sentences[0], "pieces")
    assert pieces.names[pieces.types].tolist() == sentences[0].tokens["piece"].tolist()
    assert (pieces.lengths == 1).all()


@pytest.mark.parametrize("unit", ["pieces", "first", "mean"])
def test_vectors_of_words_by_unit(sentences: tuple[Sentences, list[Path]], unit: str) -> None:
    obtained, folders = sentences
    vectors = read_token_vectors(obtained, folders, 1)
    cloud = occurrences(vectors, split_words(obtained, unit), unit, "all")  # type: ignore[arg-type]
    if unit == "pieces":
        assert np.array_equal(cloud.vectors, vectors)
    else:
        expected = vectors[1:4].mean(axis=0) if unit == "mean" else vectors[1]
        assert cloud.vectors[1] == pytest.approx(expected, abs=1e-6)


def test_variants_leave_out_or_standardize_words(sentences: tuple[Sentences, list[Path]]) -> None:
    result, folders = sentences
    vectors = read_token_vectors(result, folders, 1)
    words = split_words(result, "mean")
    left = occurrences(vectors, words, "mean", "no-first").words
    assert " ".join(left.names[left.types]) == "Un)do it , Bo rains - -"
    vectors[2, 0] = 5000
    left = occurrences(vectors, words, "mean", "no-massive").words
    assert left.names[left.types].tolist()[:3] == ["(", "it", ","]
    pieces = split_words(result, "pieces")
    standardized = occurrences(vectors, pieces, "pieces", "standardized").vectors
    assert standardized.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-5)
    vectors[:] = [1e6, 0, 0, 0, 0, 0]
    with pytest.raises(IsotropyError, match="no-massive"):
        occurrences(vectors, words, "mean", "no-massive")


def test_words_count_once_per_sentence(tmp_path: Path) -> None:
    texts = ["a b a", "a ,", "b a", "a"]
    pieces = [list(enumerate(text.split())) for text in texts]
    folder, table = write(tmp_path, texts, pieces)
    words = split_words(read_sentences([folder], [table]), "first")
    assert first_occurrences(words, 3).tolist() == [0, 3, 6, 7]
    assert first_occurrences(words, 2).tolist() == [0, 1, 3, 5, 6, 7]
    with pytest.raises(IsotropyError, match="in 5 different"):
        first_occurrences(words, 5)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sentences, np.ndarray, Path]:
    """Sixty sentences of twelve words, and vectors that depend on word and sentence."""
    random = np.random.default_rng(0)
    texts, pieces = [], []
    for _ in range(60):
        words = random.integers(0, 12, random.integers(2, 9))
        texts.append(" ".join(f"w{w}" for w in words) + f" x{len(texts)}")
        own = [*(f"w{w}" for w in words), f"x{len(texts)}"]
        pieces.append(list(enumerate(own)))
    folder, table = write(tmp_path_factory.mktemp("many"), texts, pieces)
    sentences = read_sentences([folder], [table])
    vectors = read_token_vectors(sentences, [folder], 1)
    offsets = random.standard_normal((100, 6)), random.standard_normal((60, 6))
    codes = pd.factorize(sentences.tokens["piece"])[0]
    vectors = vectors + offsets[0][codes] + offsets[1][sentences.tokens["sentence"]]
    vectors += [9, 0, 0, 0, 0, 0]
    return sentences, vectors.astype(np.float32), folder


@pytest.fixture(scope="module")
def layer(many: tuple[Sentences, np.ndarray, Path]) -> Contexts:
    return measure_contexts(many[0], many[1], SPEC)


def test_scores_equal_those_of_the_metrics(
    many: tuple[Sentences, np.ndarray, Path], layer: Contexts
) -> None:
    sentences, vectors, _ = many
    row = layer.rows.iloc[0]
    tokens = sentences.tokens
    assert (row["unit"], row["variant"], row["n_tokens"]) == ("pieces", "all", len(tokens))
    base = cosine_between(vectors, tokens["sentence"])
    assert (row["baseline_cosine"], row["baseline_cosine_error"]) == base
    inter = type_cosines(vectors, tokens["sentence"].to_numpy()).s_inter
    assert base.value == pytest.approx(inter, abs=1e-6)
    first_in_sentence = tokens.drop_duplicates(["sentence", "piece"])
    n_sentences = first_in_sentence.groupby("piece")["sentence"].transform("size")
    chosen = first_in_sentence.index[n_sentences >= 5].to_numpy()
    similarity = self_similarity(vectors[chosen], tokens["piece"].to_numpy()[chosen])
    assert row["self_similarity"] == pytest.approx(similarity.values.mean(), abs=1e-9)
    error = similarity.values.std(ddof=1) / np.sqrt(len(similarity.values))
    assert row["self_similarity_error"] == pytest.approx(error)
    assert (row["n_words"], row["n_occurrences"]) == (12, len(chosen))
    assert row["mean_cosine"] == pytest.approx(mean_cosine(vectors), abs=1e-6)
    without = np.delete(vectors, layer.dimensions["dimension"].iloc[0], axis=1)
    assert row["mean_cosine_without_1"] == pytest.approx(mean_cosine(without), abs=1e-6)
    assert layer.dimensions["dimension"].iloc[0] == 0
    assert layer.words["n"].sum() == len(chosen)
    assert layer.words["self_similarity"].mean() == pytest.approx(row["self_similarity"])
    assert set(layer.words["name"]) == {f"w{i}" for i in range(12)}


def test_shuffled_sentences_equal_the_formula_and_real_ones_exceed_it(layer: Contexts) -> None:
    """Vectors depend on their sentence, so real sentences exceed the null of shuffled ones, which
    is near the formula for vectors of equal length."""
    row = layer.rows.iloc[0]
    assert row["intra_excess"] > 3 * row["intra_excess_error"]
    assert row["intra_loo_excess"] > 3 * row["intra_loo_excess_error"]
    assert row["intra_null"] == pytest.approx(row["intra_formula"], abs=0.05)
    assert row["intra_loo_null"] == pytest.approx(row["intra_loo_formula"], abs=0.05)
    assert row["mev_uncentred"] > row["self_similarity"] - 0.05
    assert row["mev_truncated_svd"] < row["mev_centred"]
    for name in ("uncentred", "centred"):
        assert 0 < row[f"mev_{name}_baseline"] < 1
        assert row[f"mev_{name}_excess"] == pytest.approx(
            row[f"mev_{name}"] - row[f"mev_{name}_matched"]
        )


def test_rows_cover_units_and_variants_and_are_seeded(
    many: tuple[Sentences, np.ndarray, Path], layer: Contexts
) -> None:
    keys = layer.rows[["unit", "variant"]].apply(tuple, axis=1).tolist()
    assert keys == [*(("pieces", v) for v in SPEC.variants), ("mean", "all")]
    again = measure_contexts(many[0], many[1], SPEC)
    for frame, other in zip(layer[:3], again[:3], strict=True):
        pd.testing.assert_frame_equal(frame, other, check_exact=True)
    other = measure_contexts(many[0], many[1], SPEC.model_copy(update={"seed": 1}))
    assert other.rows["self_similarity"].equals(layer.rows["self_similarity"])
    assert (other.rows["intra_null"] != layer.rows["intra_null"]).all()


def test_static_vectors_of_words_and_their_benchmark(
    many: tuple[Sentences, np.ndarray, Path],
) -> None:
    sentences, vectors, folder = many
    cloud = occurrences(vectors, split_words(sentences, "mean"), "mean", "all")
    statics = static_words(cloud, 5)
    assert set(statics["mean"].words) == {f"w{i}" for i in range(12)}
    i = statics["mean"].words.index("w3")
    chosen = first_occurrences(cloud.words, 5)
    w3_vectors = cloud.vectors[chosen][cloud.words.names[cloud.words.types[chosen]] == "w3"]
    assert statics["mean"].vectors[i] == pytest.approx(w3_vectors.mean(axis=0), abs=1e-5)
    first = np.linalg.svd(w3_vectors.astype(np.float64))[2][0]
    assert np.abs(statics["first component"].vectors[i]) == pytest.approx(np.abs(first), abs=1e-6)

    pairs = np.array([["w1", "w2"], ["w3", "w4"], ["w5", "nothing"], ["w6", "w7"]])
    benchmark = {"words": Benchmark(pairs, np.array([1.0, 2, 3, 4]))}
    names = ["w1", "w1", "w2", "w3", "w4", "w5", "w6", "other"]
    table = StaticVectors(names, np.arange(40, dtype=np.float32).reshape(8, 5))
    result = measure_layers(sentences, [folder], STATIC, {"table": table}, benchmark)
    keys = [*((n, kind) for n in (0, 1) for kind in statics), (-1, "table")]
    assert result.groupby(["layer", "vectors"]).size().to_dict() == dict.fromkeys(keys, 4)
    assert result.groupby("pair")["covered"].first().tolist() == [True, True, False, False]
    table_cosines = result[result["vectors"] == "table"].set_index("pair")["cosine"]
    assert table_cosines[0] == pytest.approx(1 - distance.cosine(*table.vectors[[0, 2]]))


def test_missing_words_have_the_mean_vector() -> None:
    static = StaticWords(["a", "b"], np.array([[1.0, 0], [0, 1]]))
    pairs = Benchmark(np.array([["a", "b"], ["a", "x"], ["x", "y"]]), np.array([1.0, 2, 3]))
    result = benchmark_cosines({"s": static}, {"words": pairs})
    assert result["cosine"].tolist() == pytest.approx([0, 0.5**0.5, 1])
    assert result["covered"].tolist() == [True, False, False]
    table = StaticVectors(["b", "c", "b"], np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32))
    found = look_up_words({"t": table}, ["b", "a"])["t"]
    assert (found.words, found.vectors.tolist()) == (["b"], [[1, 2]])
