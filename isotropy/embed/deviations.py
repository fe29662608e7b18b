"""What of embeddings deviates from every paper."""

from __future__ import annotations

from isotropy.sources.encoder import Encoder

PUBLISHED = {
    "all-MiniLM-L6-v2": Encoder(pooling="mean", normalize=True, max_length=256),
    "all-mpnet-base-v2": Encoder(pooling="mean", normalize=True, max_length=384),
    "all-distilroberta-v1": Encoder(pooling="mean", normalize=True, max_length=512),
}
"""How the authors of sentence encoders publish them: `modules.json`, `1_Pooling/config.json` and
`sentence_bert_config.json` of their repositories."""


def encoder_deviations(model: str, encoder: Encoder) -> list[str]:
    """A sentence encoder is used as its authors publish it; of other models nothing is known."""
    known = PUBLISHED.get(model, encoder).model_dump()
    return [
        f"{model}: {name} is {value}, published as {known[name]}"
        for name, value in encoder.model_dump().items()
        if value != known[name]
    ]


def precision_deviations(dtype: str) -> list[str]:
    """The papers compute in single precision."""
    return [] if dtype == "float32" else [f"computed in {dtype}"]
