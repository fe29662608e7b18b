"""Load the weights of a model, and find out whether they are the model's.

transformers initializes what a checkpoint lacks at random and leaves out what it cannot use. Here a
missing weight is an error, unless it belongs to a pooler, whose output is not read, or to a new
head. What is not used is recorded.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

import transformers

from isotropy.errors import IsotropyError
from isotropy.files import read_json
from isotropy.sources.model_folder import require_supported

log = logging.getLogger(__name__)

NAMES_SHOWN = 3


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
    # Shapes are compared here: the error of transformers refers to its log.
    model, info = model_class.from_pretrained(
        folder,
        local_files_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        **options,
    )
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
    return LoadedModel(model, {"library": library, "missing": missing, "unused": unused})


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
