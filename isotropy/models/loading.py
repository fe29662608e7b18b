"""Load the weights of a model, and find out whether they are the model's and how it reads texts.

transformers initializes what a checkpoint lacks at random and leaves out what it cannot use. Here a
missing weight is an error, unless it belongs to a pooler, whose output is not read, or to a new
head. What is not used is recorded.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from transformers import CONFIG_MAPPING, AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from isotropy.errors import IsotropyError, first_line, format_value
from isotropy.files import read_json

log = logging.getLogger(__name__)

NAMES_SHOWN = 3
INFO = {"output_loading_info": True, "ignore_mismatched_sizes": True}
"""Shapes are compared here: the error of transformers refers to its log."""

PADDING_TOLERANCE = 5e-5
"""Difference, relative to the largest value, that rounding explains in single precision."""


class LoadedModel(NamedTuple):
    """A model, and a description of its weights for the record: the library that loaded them,
    names that the checkpoint lacks (of a pooler or a new head), and names that are not used.
    """

    model: Any
    weights: dict[str, Any]


def load_weights(model_class: Any, folder: Path, **options: Any) -> LoadedModel:
    """Load a model from a folder of plain files by transformers.

    Args:
        model_class: an auto class of transformers, such as AutoModel.
        folder: the folder.
        options: further arguments for `from_pretrained`.

    Raises:
        IsotropyError: the model needs code of its own, a weight is missing that is neither of a
            pooler nor of a head, or one has another shape than the configuration says.
    """
    if (folder / "config.json").is_file():
        require_supported(folder, read_json(folder / "config.json"))
    model, info = model_class.from_pretrained(folder, local_files_only=True, **INFO, **options)
    return LoadedModel(model, check_weights(folder, model, info))


def check_weights(folder: Path, model: Any, info: dict[str, Any]) -> dict[str, Any]:
    """Check what transformers says of the weights that it has loaded; return a description.

    Raises:
        IsotropyError: as in `load_weights`.
    """
    for name, stored, expected in sorted(info["mismatched_keys"]):
        if not _is_optional(name, model):
            raise IsotropyError(
                f"{folder}: its weights do not fit config.json: {name} has shape {tuple(stored)}, "
                f"expected {tuple(expected)}"
            )
    missing, unused = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    if lacking := [name for name in missing if not _is_optional(name, model)]:
        raise IsotropyError(_describe_missing(folder, lacking, unused))
    if unused:
        log.info("%d weights in %s are not used: %s", len(unused), folder.name, _few(unused))
    library = f"transformers {transformers.__version__}"
    return {"library": library, "missing": missing, "unused": unused}


@contextmanager
def weight_reports() -> Iterator[list[tuple[Any, dict[str, Any]]]]:
    """Collect each model that another library loads by transformers in this block, with what
    transformers says of its weights.
    """
    reports: list[tuple[Any, dict[str, Any]]] = []
    original: Any = PreTrainedModel.__dict__["from_pretrained"]

    def load(cls: Any, *args: Any, **options: Any) -> Any:
        reports.append(original.__func__(cls, *args, **(options | INFO)))
        return reports[-1][0]

    PreTrainedModel.from_pretrained = classmethod(load)
    try:
        yield reports
    finally:
        PreTrainedModel.from_pretrained = original


def output_options(config: Any) -> dict[str, bool]:
    """Arguments with which a model returns its hidden states by name, whatever its configuration
    says of outputs.
    """
    named = {} if getattr(config, "return_dict", True) else {"return_dict": True}
    return {"output_hidden_states": True, **named}


def text_encoder(model: Any) -> Any:
    """Return the encoder of an encoder-decoder, else the model itself."""
    return model.get_encoder() if model.config.is_encoder_decoder else model


@contextmanager
def evaluation_mode(model: torch.nn.Module) -> Iterator[None]:
    """Put a model and its parts into evaluation mode, and back into the mode of each at the end."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


class HiddenStates(NamedTuple):
    """What a model gives for a text.

    Attributes:
        widths: dimension of each hidden layer, the embedding layer first; None: the layer has not
            one vector per token.
        depend_on_padding: whether the states of a text differ where it is padded, in spite of its
            mask. Only texts of the same length may share a batch.
    """

    widths: list[int | None]
    depend_on_padding: bool


def inspect_hidden_states(
    states_of: Callable[[Sequence[Sequence[int]]], Sequence[torch.Tensor]], short: Sequence[int]
) -> HiddenStates:
    """Find out what a model gives, by two short texts, alone and together.

    Args:
        states_of: computes all hidden states of a batch of tokenized texts, shape (texts, tokens,
            d) each; shorter texts are padded on the right.
        short: the ids of a text; the other is twice this one.

    Raises:
        IsotropyError: the model cannot read them.
    """
    n = len(short)
    try:
        together, alone = states_of([short, [*short, *short]]), states_of([short])
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise IsotropyError(
            f"the model cannot read texts of {n} and {2 * n} tokens ({first_line(error)}): embed "
            "with it yourself and measure the vectors, saved by numpy.save"
        ) from None
    widths, depend = [], False
    for padded, single in zip(together, alone, strict=True):
        per_token = padded.shape[1] == 2 * n and single.shape[1] == n
        widths.append(int(padded.shape[2]) if per_token else None)
        depend |= per_token and differs_beyond_rounding(padded[0, :n], single[0])
    return HiddenStates(widths, depend)


def differs_beyond_rounding(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether tensors of the same shape differ by more than single precision explains."""
    return bool((a - b).abs().max() > PADDING_TOLERANCE * b.abs().max().clamp(min=1e-9))


def _is_optional(name: str, model: Any) -> bool:
    """Return whether a weight is one of a pooler, or of the head of a model with a task."""
    base = model.base_model_prefix
    has_head = hasattr(model, base) and model.base_model is not model
    return "pooler" in name.split(".") or (has_head and not name.startswith(f"{base}."))


def _describe_missing(folder: Path, missing: list[str], unused: list[str]) -> str:
    message = f"{folder}: the file of weights lacks {len(missing)} of the model: {_few(missing)}"
    if not unused:
        return message + ". Save the complete model with save_pretrained"
    return (
        f"{message}; it has {len(unused)} that the model does not: {_few(unused)}. Load them where "
        "they were made, under the names of transformers, and save the model with save_pretrained"
    )


def _few(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def require_supported(folder: Path, config: dict[str, Any]) -> None:
    """Refuse a model that is not one of transformers.

    Raises:
        IsotropyError: the configuration names code of the model's own, also where its type is known
            (the weights would fit, and mean something else), or its type or class is not in
            transformers.
    """
    kind = config.get("model_type")
    if "auto_map" in config:
        raise IsotropyError(
            f"{folder}: the model needs code of its own (auto_map), which is never run here: embed "
            "with it yourself and measure the vectors, saved by numpy.save"
        )
    if config.get("quantization_config") is not None:
        raise IsotropyError(
            f"{folder}: its weights are quantized (quantization_config): save the model in single "
            "or half precision"
        )
    if kind not in CONFIG_MAPPING:
        raise IsotropyError(
            f"{folder}: config.json: model_type {format_value(kind)} is not in transformers"
        )
    for name in config.get("architectures") or []:
        if not hasattr(transformers, re.sub("^(TF|Flax)(?=[A-Z])", "", str(name))):
            raise IsotropyError(
                f"{folder}: config.json: architectures: class {format_value(name)} is not in "
                f"transformers, whose {kind} may compute something else: load the model by its own "
                "code, and give isotropy.measure the pair (model, tokenizer)"
            )


SDPA_WITH_GIVEN_MASK = "sdpa_with_given_mask"
"""Attention of torch that does not read its mask: transformers drops one that hides nothing, and
reads it from the device in every forward pass to find out, while a GPU is idle."""


def avoid_reading_masks(model: Any) -> None:
    """Let a model of transformers that uses torch's attention take its mask as given.

    Args:
        model: changed in place; models with attention of their own stay as they are.
    """
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(SDPA_WITH_GIVEN_MASK)


def _given_mask(*args: Any, attention_mask: torch.Tensor | None = None, **kwargs: Any) -> Any:
    if attention_mask is not None:
        kwargs |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return sdpa_mask(*args, attention_mask=attention_mask, **kwargs)


AttentionInterface.register(SDPA_WITH_GIVEN_MASK, sdpa_attention_forward)
AttentionMaskInterface.register(SDPA_WITH_GIVEN_MASK, _given_mask)
