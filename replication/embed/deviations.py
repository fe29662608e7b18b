"""Deviations of embedding settings from the protocol that all papers share."""

from __future__ import annotations

from isotropy.models.encoder import Encoder

PUBLISHED = {
    "all-MiniLM-L6-v2": Encoder(pooling="mean", normalize=True, max_length=256),
    "all-mpnet-base-v2": Encoder(pooling="mean", normalize=True, max_length=384),
    "all-distilroberta-v1": Encoder(pooling="mean", normalize=True, max_length=512),
}
"""Settings with which the authors of sentence encoders publish them, from `modules.json`,
`1_Pooling/config.json` and `sentence_bert_config.json` of their repositories."""


def encoder_deviations(model: str, encoder: Encoder) -> list[str]:
    """Return the settings of an encoder that differ from those in `PUBLISHED`; none for a model
    that is not listed there.
    """
    published = PUBLISHED.get(model, encoder).model_dump()
    return [
        f"{model}: {name} is {value}, published as {published[name]}"
        for name, value in encoder.model_dump().items()
        if value != published[name]
    ]


def precision_deviations(dtype: str) -> list[str]:
    """Return the deviation of a data type other than float32, in which the papers compute."""
    return [] if dtype == "float32" else [f"computed in {dtype}"]
