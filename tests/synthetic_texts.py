"""Synthetic English: sentences with repeated words, names, numbers, quotes, accents and hyphens."""

from __future__ import annotations

import numpy as np

FUNCTION_WORDS, ONSETS, VOWELS, CODAS = (
    text.split()
    for text in (
        "the a of to and in that it was is for on with as at by from this not but his her they we",
        "b br c ch d dr f fl g gr h j k l m n p pl qu r s sh st t tr v w",
        "a e i o u ai ea oo ou",
        "ck d ft g l ll m n nd ng p r rt s sk t th x",
    )
)
UNUSUAL_WORDS = ["café", "naïve", "well-known", "U.S.", "1984", "3.5%", "don't", "“so-called”"]
UNUSUAL_WORDS += ["Ærø", "—"]


def vocabulary(n: int) -> list[str]:
    """Generate distinct words that look English, in a fixed order; the first are short.

    Args:
        n: number of words.
    """
    draws = np.random.default_rng(20190910)
    words: dict[str, None] = {}
    while len(words) < n:
        syllables = 1 + (len(words) > n // 6) + (len(words) > n // 2)
        word = "".join(
            draws.choice(ONSETS) + draws.choice(VOWELS) for _ in range(syllables)
        ) + draws.choice(CODAS)
        words[word] = None
    return list(words)


WORDS = vocabulary(3000)


class Writer:
    """Generates random sentences.

    Args:
        *seed: seed of the random numbers.
        n_words: number of words of the vocabulary to use, with frequencies by Zipf's law.
    """

    def __init__(self, *seed: int, n_words: int = 600) -> None:
        self.draws = np.random.default_rng(seed)
        weights = 1 / np.arange(1, n_words + 1)
        self.weights = weights / weights.sum()
        self.n_words = n_words

    def word(self) -> str:
        """Draw a content word."""
        return WORDS[self.draws.choice(self.n_words, p=self.weights)]

    def sentence(self, shortest: int = 4, longest: int = 16) -> str:
        """Generate a sentence that begins with a capital letter and ends with a full stop."""
        n = int(self.draws.integers(shortest, longest + 1))
        words = [
            str(self.draws.choice(FUNCTION_WORDS)) if i % 2 == 0 else self.word() for i in range(n)
        ]
        if self.draws.random() < 0.1:
            words[-1] = str(self.draws.choice(UNUSUAL_WORDS))
        if self.draws.random() < 0.2:
            words[n // 2] = words[n // 2].capitalize()
        if n > 6 and self.draws.random() < 0.3:
            words[2] += ","
        words[0] = words[0].capitalize()
        return " ".join(words) + "."

    def sentences(self, n: int) -> list[str]:
        """Generate several sentences."""
        return [self.sentence() for _ in range(n)]

    def passage(self, n: int) -> str:
        """Generate a text of several sentences."""
        return " ".join(self.sentences(n))


def stories() -> str:
    """Return the text that tokenizers are trained on: sentences and all words of the vocabulary."""
    words = [*FUNCTION_WORDS, *WORDS]
    return "\n".join([*Writer(22).sentences(3000), *words]) + "\n"
