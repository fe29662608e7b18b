"""Embed texts with a model of sentence-transformers, by the library itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from sentence_transformers.util import batch_to_device
from transformers.utils import logging as transformers_logging

from isotropy.errors import IsotropyError, format_value, suggest
from isotropy.models.batches import pad_rows
from isotropy.models.folder import PLAIN_MODULES, Layout, join_modes, valid_length
from isotropy.models.loading import (
    HiddenStates,
    LoadedModel,
    check_weights,
    differs_beyond_rounding,
    inspect_hidden_states,
    output_options,
    text_encoder,
    weight_reports,
)

Features = dict[str, Any]
SHORT = 8
"""Tokens of the text by which hidden layers are found."""


def load_sentence_model(folder: Path, device: torch.device) -> LoadedModel:
    """Load a model of sentence-transformers from a folder, in single precision.

    Raises:
        IsotropyError: a weight is missing.
        Exception: an error of the library's, whose classes are many.
    """
    transformers_logging.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    with weight_reports() as reports:
        library = SentenceTransformer(
            str(folder),
            device=str(device),
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"dtype": torch.float32, "use_safetensors": True},
        )
    library.float().eval()
    checked = [check_weights(folder, model, info) for model, info in reports]
    missing = [name for each in checked for name in each["missing"]]  # of poolers
    modules = (m for m in library.modules() if isinstance(m, Transformer))
    if missing and any(m.module_output_name != "token_embeddings" for m in modules):
        raise IsotropyError(
            f"{folder}: the file of weights lacks {', '.join(missing[:3])}, from which the "
            "model makes its vectors"
        )
    unused = [name for each in checked for name in each["unused"]]
    return LoadedModel(library, {"missing": missing, "unused": unused})


def layout_of(library: SentenceTransformer) -> Layout:
    """Describe a model in memory as `read_layout` does its folder."""
    kinds = [type(module).__name__ for module in library]
    poolings = [module for module in library if isinstance(module, Pooling)]
    first = library[0]
    extras = [f"module {kind}" for kind in kinds if kind not in PLAIN_MODULES]
    if library.default_prompt_name is not None:
        extras.append(f"default prompt {format_value(library.default_prompt_name)}")
    if library.truncate_dim is not None:
        extras.append(f"truncate_dim {library.truncate_dim}")
    return Layout(
        None,
        tuple(kinds),
        join_modes(poolings[-1].get_config_dict()) if poolings else None,
        any(isinstance(module, Normalize) for module in library),
        valid_length(library.max_seq_length),
        bool(getattr(first, "do_lower_case", False)),
        tuple(extras),
    )


class SentenceModel:
    """A model of sentence-transformers, and how it is asked for vectors.

    Args:
        title: its name in messages.
        library: the model.
        weights: description of its weights, if it was loaded from a folder; None: the model was
            given as an object, and its own `encode` makes the output, in its precision.
        prompt: text before each text; None: `prompt_name`, else the model's default.
        prompt_name: name of one of the model's prompts.
        truncate_dim: number of leading dimensions of the output to keep; None: the model's default.

    Attributes:
        hidden: the hidden layers of its transformer; None if it has none.

    Raises:
        IsotropyError: no such prompt, or an invalid number of dimensions.
        Exception: an error of the library's, whose classes are many.
    """

    def __init__(
        self,
        title: str,
        library: SentenceTransformer,
        weights: dict[str, Any] | None,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        truncate_dim: int | None = None,
    ) -> None:
        self.library, self.weights = library, weights or {}
        self.is_given = weights is None
        self.device = library.device
        self.prompt = self._resolve_prompt(title, prompt, prompt_name)
        first = library[0]
        self._encoder = text_encoder(first.model) if isinstance(first, Transformer) else None
        self.hidden = self._inspect()
        self.truncate_dim: int | None = None
        requested = library.truncate_dim if truncate_dim is None else truncate_dim
        if requested is not None:
            limit = int(self._output(["a"], self.features(["a"])).shape[1])
            if not 2 <= requested <= limit:
                raise IsotropyError(
                    f"{title}: --truncate-dim: expected 2 to {limit}, got {requested}"
                )
            self.truncate_dim = int(requested)

    def _resolve_prompt(self, title: str, prompt: str | None, name: str | None) -> str:
        prompts = {key: text or "" for key, text in self.library.prompts.items()}
        if prompt is not None:
            return prompt
        name = self.library.default_prompt_name if name is None else name
        if name is not None and name not in prompts:
            hint = suggest(name, prompts, "in the model")
            raise IsotropyError(f"{title}: --prompt-name: no prompt {name!r}; {hint}")
        return "" if name is None else prompts[name]

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
        together = self.encode(pair, self.features(pair), layers)
        alone = self.encode(pair[:1], self.features(pair[:1]), layers)
        return any(
            differs_beyond_rounding(padded[:1], single)
            for padded, single in zip(together, alone, strict=True)
        )

    def widths(self, layers: Sequence[int | str]) -> list[int]:
        """Dimension of the vectors of each layer."""
        vectors = self.encode(["a"], self.features(["a"]), layers)
        return [int(each.shape[1]) for each in vectors]

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
    def encode(
        self, texts: Sequence[str], features: Features, layers: Sequence[int | str]
    ) -> list[torch.Tensor]:
        """Compute a vector per text for each layer, float32, shape (texts, d) each: of hidden
        layers by the model's own pooling and normalization, of the output by all of its modules.

        Args:
            texts: the texts.
            features: the same, tokenized.
            layers: numbers of hidden layers, and "output".
        """
        on_device = batch_to_device(dict(features), self.device)
        numbers = [layer for layer in layers if isinstance(layer, int)]
        states = self._hidden_states(on_device) if numbers else []
        return [
            self._output(texts, dict(on_device)).float()
            if isinstance(layer, str)
            else self._pool(states[layer].float(), dict(on_device))
            for layer in layers
        ]

    def _output(self, texts: Sequence[str], features: Features) -> torch.Tensor:
        """Compute the vectors of texts by all modules. A given model's `encode` may be its own."""
        if self.is_given:
            return self._encode_by_library(texts)[:, : self.truncate_dim].float()
        vectors: torch.Tensor = self.library(batch_to_device(features, self.device))[
            "sentence_embedding"
        ]
        return vectors[:, : self.truncate_dim]

    def _encode_by_library(self, texts: Sequence[str]) -> torch.Tensor:
        options: dict[str, Any] = {"batch_size": len(texts), "show_progress_bar": False}
        if self.prompt or self.library.default_prompt_name is not None:
            options["prompt"] = self.prompt
        accepted = signature(self.library.encode).parameters.values()
        if all(parameter.kind != parameter.VAR_KEYWORD for parameter in accepted):
            names = {parameter.name for parameter in accepted}
            options = {name: v for name, v in options.items() if name in {*names, "prompt"}}
        with self.library.truncate_embeddings(self.truncate_dim):
            result = self.library.encode(list(texts), **options)
        if isinstance(result, Mapping):
            raise ValueError("its encode gives a mapping, not a vector for each text")
        vectors = torch.as_tensor(result)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(
                f"its encode gives {tuple(vectors.shape)} for {len(texts)} texts, not a vector each"
            )
        return vectors

    def _hidden_states(self, features: Features) -> Sequence[torch.Tensor]:
        optional = {}
        if (types := features.get("token_type_ids")) is not None and bool(types.any()):
            optional["token_type_ids"] = types.to(self.device)
        assert self._encoder is not None
        states: Sequence[torch.Tensor] = self._encoder(
            input_ids=features["input_ids"].to(self.device),
            attention_mask=_attention_mask(features).to(self.device),
            **output_options(self._encoder.config),
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
            "dtype": str(self.library.dtype).removeprefix("torch."),
            "weights": self.weights,
        }


def _attention_mask(features: Features) -> torch.Tensor:
    """Return the attention mask of tokenized texts; without one, all tokens are read."""
    mask: torch.Tensor | None = features.get("attention_mask")
    return torch.ones_like(features["input_ids"]) if mask is None else mask
