"""Embed texts with a model of sentence-transformers, by the library itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from sentence_transformers.util import batch_to_device
from transformers.utils import logging as transformers_logging

from isotropy.errors import IsotropyError, suggest
from isotropy.models.batches import pad_rows
from isotropy.models.loading import (
    HiddenStates,
    check_weights,
    differs_beyond_rounding,
    inspect_hidden_states,
    text_encoder,
    weight_reports,
)

Features = dict[str, Any]
SHORT = 8
"""Tokens of the text by which hidden layers are found."""


class SentenceModel:
    """A model of sentence-transformers in single precision.

    Args:
        folder: its folder.
        device: where it runs.
        prompt: text before each text; None: `prompt_name`, else the model's default.
        prompt_name: name of one of the model's prompts.
        truncate_dim: number of leading dimensions of the output to keep; None: the model's default.

    Attributes:
        hidden: the hidden layers of its transformer; None if it has none.

    Raises:
        IsotropyError: a weight is missing, no such prompt, or an invalid number of dimensions.
        Exception: an error of the library's, whose classes are many.
    """

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        truncate_dim: int | None = None,
    ) -> None:
        transformers_logging.disable_progress_bar()
        logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
        with weight_reports() as reports:
            self.library = SentenceTransformer(
                str(folder),
                device=str(device),
                local_files_only=True,
                trust_remote_code=False,
                truncate_dim=truncate_dim,
                model_kwargs={"dtype": torch.float32, "use_safetensors": True},
            )
        self.library.float().eval()
        self.device = device
        self.prompt = self._resolve_prompt(folder, prompt, prompt_name)
        self.weights = self._check_weights(folder, reports)
        first = self.library[0]
        self._encoder = text_encoder(first.model) if isinstance(first, Transformer) else None
        self.hidden = self._inspect()
        self.truncate_dim = self._valid_truncation(folder)

    def _check_weights(self, folder: Path, reports: list[Any]) -> dict[str, Any]:
        """Check the weights of all transformers; describe what was missing and what was unused."""
        checked = [check_weights(folder, model, info) for model, info in reports]
        missing = [name for each in checked for name in each["missing"]]  # of poolers
        modules = (m for m in self.library.modules() if isinstance(m, Transformer))
        if missing and any(m.module_output_name != "token_embeddings" for m in modules):
            raise IsotropyError(
                f"{folder}: the file of weights lacks {', '.join(missing[:3])}, from which the "
                "model makes its vectors"
            )
        return {"missing": missing, "unused": [n for each in checked for n in each["unused"]]}

    def _resolve_prompt(self, folder: Path, prompt: str | None, name: str | None) -> str:
        prompts = {key: text or "" for key, text in self.library.prompts.items()}
        if prompt is not None:
            return prompt
        name = self.library.default_prompt_name if name is None else name
        if name is not None and name not in prompts:
            hint = suggest(name, prompts, "in the model")
            raise IsotropyError(f"{folder}: --prompt-name: no prompt {name!r}; {hint}")
        return "" if name is None else prompts[name]

    def _valid_truncation(self, folder: Path) -> int | None:
        d, self.library.truncate_dim = self.library.truncate_dim, None
        (limit,) = self.widths(["output"])
        if d is not None and not 2 <= d <= limit:
            raise IsotropyError(f"{folder}: --truncate-dim: expected 2 to {limit}, got {d}")
        self.library.truncate_dim = d
        return None if d is None else int(d)

    def _inspect(self) -> HiddenStates | None:
        """Find out what the hidden layers are; None without a transformer."""
        if self._encoder is None:
            return None
        features: Features = self.library.preprocess(["a"])
        short = features["input_ids"][_attention_mask(features) > 0][:SHORT].tolist()

        def states_of(ids: Sequence[Sequence[int]]) -> Sequence[torch.Tensor]:
            rows, mask = map(torch.from_numpy, pad_rows(ids, 0))
            return self._hidden_states({"input_ids": rows, "attention_mask": mask})

        with torch.inference_mode():
            return inspect_hidden_states(states_of, short)

    def depends_on_padding(self, texts: Sequence[str], layers: Sequence[int | str]) -> bool:
        """Return whether the vectors of a text change if a longer one stands in its batch."""
        shortest = min(texts, key=len)
        pair = [shortest, " ".join([shortest, max(texts, key=len), shortest])]
        together = self.encode(self.features(pair), layers)
        alone = self.encode(self.features(pair[:1]), layers)
        return any(
            differs_beyond_rounding(padded[:1], single)
            for padded, single in zip(together, alone, strict=True)
        )

    def widths(self, layers: Sequence[int | str]) -> list[int]:
        """Dimension of the vectors of each layer."""
        return [int(vectors.shape[1]) for vectors in self.encode(self.features(["a"]), layers)]

    def features(self, texts: Sequence[str]) -> Features:
        """Tokenize texts, each after the prompt, as the library does. Not for several threads."""
        features: Features = self.library.preprocess(list(texts), prompt=self.prompt or None)
        return features

    def lengths(self, texts: Sequence[str], at_once: int = 1024) -> list[int]:
        """Number of tokens of each text, with the prompt; 1 without a transformer."""
        if self._encoder is None:
            return [1] * len(texts)
        if "attention_mask" not in self.features(texts[:1]):  # padding could not be told
            at_once = 1
        return [
            int(n)
            for first in range(0, len(texts), at_once)
            for n in _attention_mask(self.features(texts[first : first + at_once])).sum(dim=1)
        ]

    @torch.inference_mode()
    def encode(self, features: Features, layers: Sequence[int | str]) -> list[torch.Tensor]:
        """Compute a vector per text for each layer, float32, shape (texts, d) each: of hidden
        layers by the model's own pooling and normalization, of the output by all of its modules.
        """
        on_device = batch_to_device(dict(features), self.device)
        numbers = [layer for layer in layers if isinstance(layer, int)]
        states = self._hidden_states(on_device) if numbers else []
        return [
            self._output(dict(on_device)).float()
            if isinstance(layer, str)
            else self._pool(states[layer].float(), dict(on_device))
            for layer in layers
        ]

    def _output(self, features: Features) -> torch.Tensor:
        vectors: torch.Tensor = self.library(batch_to_device(features, self.device))[
            "sentence_embedding"
        ]
        return vectors[:, : self.library.truncate_dim]

    def _hidden_states(self, features: Features) -> Sequence[torch.Tensor]:
        optional = {}
        if (types := features.get("token_type_ids")) is not None and bool(types.any()):
            optional["token_type_ids"] = types.to(self.device)
        assert self._encoder is not None
        states: Sequence[torch.Tensor] = self._encoder(
            input_ids=features["input_ids"].to(self.device),
            attention_mask=_attention_mask(features).to(self.device),
            output_hidden_states=True,
            **optional,
        ).hidden_states
        return states

    def _pool(self, states: torch.Tensor, features: Features) -> torch.Tensor:
        pooled = features | {"token_embeddings": states}
        for module in self.library:
            if isinstance(module, Pooling | Normalize):
                pooled = module(pooled)
        vectors: torch.Tensor = pooled["sentence_embedding"]
        return vectors

    def describe(self) -> dict[str, Any]:
        """Describe what was loaded, for the record."""
        return {
            "library": f"sentence-transformers {sentence_transformers.__version__}",
            "modules": [type(module).__name__ for module in self.library],
            "prompt": self.prompt,
            "truncate_dim": self.truncate_dim,
            "max_length": self.library.max_seq_length,
            "dtype": "float32",
            "weights": self.weights,
        }


def _attention_mask(features: Features) -> torch.Tensor:
    """Return the attention mask of tokenized texts; without one, all tokens are read."""
    mask: torch.Tensor | None = features.get("attention_mask")
    return torch.ones_like(features["input_ids"]) if mask is None else mask
