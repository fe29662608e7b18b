"""Data sets of the full-scale study in the file formats of their original hosts: columns, types,
label values and splits as the data sets' own cards and papers document them.

A data set has `ROWS` rows of synthetic sentences, or the first `ROWS` rows of the real file if a
mirror of official data has its repository.
"""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from tests.rehearsal.texts import WORDS, Writer

ROWS = 240
CONTEXT_SENTENCES = 8

INT, SMALL, REAL, TEXT = pyarrow.int64(), pyarrow.int32(), pyarrow.float32(), pyarrow.string()

GLUE = {
    "cola": (["sentence"], ["unacceptable", "acceptable"]),
    "mnli": (["premise", "hypothesis"], ["entailment", "neutral", "contradiction"]),
    "mrpc": (["sentence1", "sentence2"], ["not_equivalent", "equivalent"]),
    "qnli": (["question", "sentence"], ["entailment", "not_entailment"]),
    "qqp": (["question1", "question2"], ["not_duplicate", "duplicate"]),
    "rte": (["sentence1", "sentence2"], ["entailment", "not_entailment"]),
    "sst2": (["sentence"], ["negative", "positive"]),
    "wnli": (["sentence1", "sentence2"], ["not_entailment", "entailment"]),
}
"""Text columns and class names of GLUE's classification tasks, in the order of the hub's card."""

Row = dict[str, Any]
Rows = Callable[[Writer], Iterator[Row]]


def parquet(rows: list[Row], types: dict[str, Any], labels: list[str] | None = None) -> bytes:
    """A Parquet file as the hub's converter writes it: with the data set's features as metadata."""
    features: dict[str, Any] = {
        name: {"dtype": str(kind), "_type": "Value"} for name, kind in types.items()
    }
    if labels is not None:
        features["label"] = {"names": labels, "_type": "ClassLabel"}
    schema = pyarrow.schema(
        list(types.items()), {"huggingface": json.dumps({"info": {"features": features}})}
    )
    target = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema), target)
    return target.getvalue()


def json_lines(rows: list[Row], *, compressed: bool) -> bytes:
    """Return a JSON object per line; `compressed`: as gzip, without a time stamp."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    return gzip.compress(text, mtime=0) if compressed else text


def archive(files: dict[str, bytes]) -> bytes:
    """Return a zip file with time stamps of 1980, and entries for folders as in real ones."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for folder in dict.fromkeys(f"{name.rpartition('/')[0]}/" for name in files if "/" in name):
            packed.writestr(zipfile.ZipInfo(folder), b"")
        for name, data in files.items():
            packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def classified(writer: Writer, texts: list[str], n_labels: int) -> Iterator[Row]:
    """Rows whose classes differ in a word, so that they can be learned; classes alternate."""
    for i in range(ROWS):
        label = i % n_labels
        row: Row = {name: writer.sentence() for name in texts}
        row[texts[-1]] += f" {WORDS[-1 - label].capitalize()}."
        yield row | {"label": label, "idx": i}


def glue(task: str, split: str) -> bytes:
    """Return a synthetic split of a task of GLUE as a Parquet file, with the columns of
    nyu-mll/glue: texts, `label` and `idx`. QQP gets one empty question, as the real data have.
    """
    writer = Writer(1, sum(map(ord, task + split)))
    if task == "stsb":
        types = {"sentence1": TEXT, "sentence2": TEXT, "label": REAL, "idx": SMALL}
        rows = [
            {**pair, "label": pair.pop("score"), "idx": i} for i, pair in enumerate(scored(writer))
        ]
        return parquet(rows, types)
    texts, names = GLUE[task]
    rows = list(classified(writer, texts, len(names)))
    if task == "qqp":
        rows[7][texts[1]] = ""
    types = {**dict.fromkeys(texts, TEXT), "label": INT, "idx": SMALL}
    return parquet(rows, types, names)


def scored(writer: Writer) -> Iterator[Row]:
    """Generate pairs of sentences: the lower the score (0 to 5), the more words differ."""
    for i in range(ROWS):
        first = writer.sentence(6, 14)
        score = (i % 21) / 4
        words = first.rstrip(".").split()
        changed = round((1 - score / 5) * len(words))
        second = " ".join(
            [*words[: len(words) - changed], *(writer.word() for _ in range(changed))]
        )
        yield {"sentence1": first, "sentence2": f"{second}.", "score": score}


def snli_rows() -> list[Row]:
    """Labelled pairs, and some without a gold label (-1 on the hub, - in the authors' files)."""
    rows = list(classified(Writer(2), ["premise", "hypothesis"], 3))
    for row in rows[::60]:
        row["label"] = -1
    return rows


def snli_parquet() -> bytes:
    """The validation split of stanfordnlp/snli."""
    rows = [{k: v for k, v in row.items() if k != "idx"} for row in snli_rows()]
    names = ["entailment", "neutral", "contradiction"]
    return parquet(rows, {"premise": TEXT, "hypothesis": TEXT, "label": INT}, names)


def squad(split: str) -> bytes:
    """A split of rajpurkar/squad: answers as lists, with their positions in characters.

    Questions of the validation split have several answers; some contexts are longer than a model's
    maximum length.
    """
    writer = Writer(3, len(split))
    answers = pyarrow.struct(
        [("text", pyarrow.list_(TEXT)), ("answer_start", pyarrow.list_(SMALL))]
    )
    types = {"id": TEXT, "title": TEXT, "context": TEXT, "question": TEXT, "answers": answers}
    rows = []
    for i in range(ROWS):
        context = writer.passage(CONTEXT_SENTENCES if i % 40 else 12 * CONTEXT_SENTENCES)
        words = context.split(" ")
        first = int(writer.draws.integers(len(words) - 3))
        text = " ".join(words[first : first + 1 + i % 3]).rstrip(".,")
        start = len(" ".join(words[:first])) + (first > 0)
        assert context[start : start + len(text)] == text
        n = 3 if split == "validation" else 1
        rows.append(
            {
                "id": f"{i:024x}",
                "title": "A_title",
                "context": context,
                "question": writer.sentence(5, 10).rstrip(".") + "?",
                "answers": {"text": [text] * n, "answer_start": [start] * n},
            }
        )
    return parquet(rows, types)


def boolq(split: str) -> bytes:
    """A split of BoolQ in aps/super_glue."""
    writer = Writer(4, len(split))
    rows = [
        {
            "question": writer.sentence(5, 10).rstrip(".").lower(),
            "passage": f"{writer.passage(4)} {WORDS[-1 - i % 2]}.",
            "idx": i,
            "label": i % 2,
        }
        for i in range(ROWS)
    ]
    types = {"question": TEXT, "passage": TEXT, "idx": SMALL, "label": INT}
    return parquet(rows, types, ["False", "True"])


def wic(split: str) -> bytes:
    """A split of WiC in aps/super_glue: a word and its position in two sentences."""
    writer = Writer(5, len(split))
    rows = []
    for i in range(ROWS):
        word = writer.word()
        sentences = [
            f"{writer.sentence(4, 8).rstrip('.')} {word} {writer.word()}." for _ in range(2)
        ]
        starts = [s.rindex(f" {word} ") + 1 for s in sentences]
        row: Row = {"word": word, "sentence1": sentences[0], "sentence2": sentences[1]}
        for k, start in enumerate(starts, start=1):
            row |= {f"start{k}": start, f"end{k}": start + len(word)}
        rows.append(row | {"idx": i, "label": i % 2})
    types = {"word": TEXT, "sentence1": TEXT, "sentence2": TEXT}
    types |= dict.fromkeys(("start1", "start2", "end1", "end2", "idx"), SMALL)
    return parquet(rows, types | {"label": INT}, ["False", "True"])


def sst5(split: str) -> bytes:
    """A split of SetFit/sst5: text, class and the class in words."""
    names = ["very negative", "negative", "neutral", "positive", "very positive"]
    rows = [
        {"text": row["text"], "label": row["label"], "label_text": names[row["label"]]}
        for row in classified(Writer(6, len(split)), ["text"], 5)
    ]
    return json_lines(rows, compressed=False)


def mteb(name: str) -> bytes:
    """The test split of a set of mteb: compressed JSON lines, scores from 0 to 5."""
    sts_fields = {"split": "test", "genre": "main-news", "dataset": "headlines", "year": "2014"}
    pairs = scored(Writer(7, sum(map(ord, name))))
    extra_fields = sts_fields if "stsbenchmark" in name else {}
    rows = [
        {**extra_fields, **({"sid": str(i)} if extra_fields else {}), **p}
        for i, p in enumerate(pairs)
    ]
    return json_lines(rows, compressed=True)


def wikitext_lines() -> list[str]:
    """Lines of WikiText: blank ones, headings between equals signs, and unknown words."""
    writer = Writer(8)
    lines = []
    for i in range(ROWS):
        heading = i % 12 == 0
        text = (
            f" = {writer.word()} {writer.word()} = "
            if heading
            else f" {writer.passage(3)} <unk> , "
        )
        lines += [" \n" if heading else "", f"{text}\n"]
    return [line for line in lines if line]


def wikitext_parquet() -> bytes:
    """The training split of wikitext-2-v1 in Salesforce/wikitext: a row per line, some empty."""
    rows = [{"text": "" if line == " \n" else line} for line in wikitext_lines()]
    return parquet(rows, {"text": TEXT})


def polarity() -> bytes:
    """The archive of sentence polarity in NLTK's data: a file per class."""
    rows = list(classified(Writer(9), ["text"], 2))
    files = {
        f"sentence_polarity/rt-polarity.{name}": "".join(
            f"{row['text'].lower()} \n" for row in rows if row["label"] == label
        ).encode()
        for label, name in enumerate(("neg", "pos"))
    }
    return archive({"sentence_polarity/README": b"v1.0\n", **files})


def snli_archive() -> bytes:
    """SNLI 1.0 as its authors publish it, of which the development set is used."""
    names = ["entailment", "neutral", "contradiction", "-"]
    rows = [
        {
            "annotator_labels": [names[row["label"]]],
            "gold_label": names[row["label"]],
            "pairID": str(i),
            "sentence1": row["premise"],
            "sentence2": row["hypothesis"],
        }
        for i, row in enumerate(snli_rows())
    ]
    return archive({"snli_1.0/snli_1.0_dev.jsonl": json_lines(rows, compressed=False)})


def wikitext_archive() -> bytes:
    """The archive of WikiText-2."""
    return archive({"wikitext-2/wiki.train.tokens": "".join(wikitext_lines()).encode()})


def brown() -> bytes:
    """Two files of the Brown corpus: a sentence per line, each word with a slash and its tag."""
    writer = Writer(10)
    files = {}
    for name in ("ca01", "cr09"):
        sentences = [s.rstrip(".").split() for s in writer.sentences(ROWS)]
        lines = ["\t" + " ".join(f"{word}/nn" for word in [*words, "."]) for words in sentences]
        files[f"brown/{name}"] = "\n\n".join(lines).encode()
    return archive(files)


def first_rows_of_mirror(mirror: Path | None, repo: str, path: str) -> bytes | None:
    """Return the first `ROWS` rows of a file in a mirror of official data; None: no such file."""
    if mirror is None:
        return None
    folder = mirror / "hf/datasets" / repo
    if path.endswith(".jsonl.gz"):
        table = folder / f"data/{path.removesuffix('.jsonl.gz')}-00000-of-00001.parquet"
        if not table.is_file():
            return None
        rows = pyarrow.parquet.read_table(table).slice(0, ROWS).to_pylist()
        return json_lines(rows, compressed=True)
    if not (folder / path).is_file():
        return None
    if path.endswith(".jsonl"):
        return b"".join((folder / path).read_bytes().splitlines(keepends=True)[:ROWS])
    target = io.BytesIO()
    real = pyarrow.parquet.read_table(folder / path)
    pyarrow.parquet.write_table(real.slice(0, ROWS), target)
    return target.getvalue()


def synthetic_file(repo: str, path: str) -> bytes:
    """Return a synthetic file of a data set's repository.

    Raises:
        LookupError: no function generates this file.
    """
    folder, _, name = path.rpartition("/")
    split = name.split("-")[0].split(".")[0]
    match repo:
        case "nyu-mll/glue":
            return glue(folder, split)
        case "stanfordnlp/snli":
            return snli_parquet()
        case "rajpurkar/squad":
            return squad(split)
        case "aps/super_glue":
            return {"boolq": boolq, "wic": wic}[folder](split)
        case "SetFit/sst5":
            return sst5(split)
        case "Salesforce/wikitext":
            return wikitext_parquet()
    if repo.startswith("mteb/"):
        return mteb(f"{repo}/{split}")
    raise LookupError(f"the rehearsal has no writer for {repo}/{path}")
