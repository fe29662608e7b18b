"""Word vectors, lexicons and word pairs of the full-scale study, in the file formats of their
original hosts.
"""

from __future__ import annotations

import gzip

import numpy as np

from tests.rehearsal.datasets import archive
from tests.rehearsal.texts import FUNCTION_WORDS, WORDS, Writer

N_WORDS = 2400
"""Number of words with a vector; CoDWoE has 100 more, without one."""
PAIRS = 200


def vectors(d: int, seed: int) -> np.ndarray:
    """Generate a vector per word: not centred, in clusters by the word's rank."""
    draws = np.random.default_rng([seed, d])
    clusters = 2 * draws.standard_normal((7, d))
    noise = draws.standard_normal((N_WORDS, d))
    return (noise + clusters[np.arange(N_WORDS) % 7] + 0.5).astype("<f4")


def word2vec(d: int, seed: int) -> bytes:
    """word2vec's binary format: a header in text, then word, blank, numbers, and a line feed."""
    lines = [f"{N_WORDS} {d}\n".encode()]
    for word, vector in zip(WORDS, vectors(d, seed), strict=False):
        lines.append(word.encode() + b" " + vector.tobytes() + b"\n")
    return b"".join(lines)


def google_news() -> bytes:
    """The gzip file of GoogleNews: word2vec's binary format without line feeds after vectors."""
    d = 300
    lines = [f"{N_WORDS} {d}\n".encode()]
    for word, vector in zip(WORDS, vectors(d, 1), strict=False):
        lines.append(word.encode() + b" " + vector.tobytes())
    return gzip.compress(b"".join(lines), mtime=0)


def nlpl() -> bytes:
    """An archive of NLPL's repository: the binary model, the header of its text form, metadata."""
    text = f"{N_WORDS} 300\n"
    return archive({"meta.json": b"{}", "README": b"222", "model.bin": word2vec(300, 2),
                    "model.txt": text.encode()})  # fmt: skip


def glove(name: str) -> bytes:
    """An archive of GloVe: text without a header; the 840B file has words with blanks in them."""
    d = int(name.removesuffix("d.txt").rpartition(".")[2])
    words = [". . ." if "840B" in name and i == 50 else word for i, word in enumerate(WORDS)]
    lines = [
        f"{word} {' '.join(f'{x:.5f}' for x in vector)}\n"
        for word, vector in zip(words, vectors(d, 3), strict=False)
    ]
    return archive({name: "".join(lines).encode()})


def codwoe() -> bytes:
    """CoDWoE's archive: a table of senses with glosses, quoted where they hold commas."""
    parts = ["noun", "verb", "adj", "adv", "proper noun"]
    writer = Writer(20)
    lines = ["id,word,pos,gloss,example\n"]
    for i, word in enumerate([*WORDS[:1300], *WORDS[-100:]]):
        for sense in range(1 + (i % 5 == 0)):
            pos = parts[(i + 2 * sense) % len(parts)]
            gloss = writer.sentence().replace('"', "")
            lines.append(f'en.{i}.{sense},{word},{pos},"{gloss}","the {word}, then"\n')
    return archive({"full_dataset/en.complete.csv": "".join(lines).encode()})


def supersense_words() -> bytes:
    """The list of Tikhonov et al.: a word per line."""
    return "".join(f"{word}\n" for word in WORDS[:1500]).encode()


def wordnet() -> bytes:
    """WordNet's data files: a licence whose lines begin with two blanks, then a synset per line."""
    names = {"noun": ("n", 3, 26), "verb": ("v", 29, 15), "adj": ("a", 0, 2), "adv": ("r", 2, 1)}
    files = {}
    for k, (name, (kind, first, n)) in enumerate(names.items()):
        lines = [f"  {i} This software and database is synthetic.     \n" for i in range(1, 30)]
        lemmas = WORDS[:2000] if name == "noun" else WORDS[k::4]
        for i, word in enumerate(lemmas):
            lemma = word.capitalize() if i % 9 == 0 else word
            synset_fields = f"{1740 + 60 * i:08d} {first + i % n:02d} {kind}"
            other = WORDS[(i + 31) % len(WORDS)]
            lines.append(f'{synset_fields} 02 {lemma} 0 {other} 1 000 | a gloss; "{word}"  \n')
        files[f"dict/data.{name}"] = "".join(lines).encode()
    return archive(files)


def word_pairs(header: bool) -> bytes:
    """Write made-up pairs of words with scores, in the format of gensim's files: comment lines,
    then tab-separated fields."""
    writer = Writer(21, n_words=300)
    lines = ["# The pairs\n", "# Word 1\tWord 2\tHuman (mean)\n"] if header else []
    seen: dict[tuple[str, str], None] = {}
    while len(seen) < PAIRS:
        seen[(writer.word(), writer.word())] = None
    lines += [f"{a}\t{b}\t{(i * 7 % 100) / 10:.2f}\n" for i, (a, b) in enumerate(seen)]
    return "".join(lines).encode()


def stories() -> bytes:
    """Return the text that tokenizers are trained on: sentences and all words of the vocabulary."""
    words = [*FUNCTION_WORDS, *WORDS]
    return ("\n".join([*Writer(22).sentences(3000), *words]) + "\n").encode()
