"""Fitted transforms as safetensors files: arrays, and the parameters as JSON. No pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from sklearn.utils.validation import check_is_fitted

from isotropy.files import atomic
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement

KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Center, AllButTheTop)}
KEY = "isotropy_transform"
CLUSTERS = ClusterBasedEnhancement.__name__


def save_transform(transform: Any, path: Path | str) -> None:
    """Save a fitted `Center`, `AllButTheTop` or `ClusterBasedEnhancement` (with k-means).

    Args:
        transform: the estimator.
        path: of the safetensors file.

    Raises:
        ValueError: another estimator, one with a mixture, or one that is not fitted.

    Examples:
        >>> import numpy as np
        >>> from isotropy.transforms import Center
        >>> X = np.array([[1.0, 2.0], [3.0, 6.0]])
        >>> save_transform(Center().fit(X), "center.safetensors")
        >>> load_transform("center.safetensors").transform(X)
        array([[-1., -2.],
               [ 1.,  2.]])
    """
    name = type(transform).__name__
    if name not in (*KINDS, CLUSTERS):
        raise ValueError(f"expected one of {', '.join((*KINDS, CLUSTERS))}, got {name}")
    check_is_fitted(transform)
    arrays = {}
    if name == CLUSTERS:
        if transform.clusterer != "kmeans":
            raise ValueError("a mixture's clusters cannot be saved: fit with clusterer='kmeans'")
        sizes = [len(rows) for rows in transform.components_]
        arrays = {
            "centers": transform.centers_,
            "means": transform.means_,
            "components": np.concatenate(transform.components_),
            "n_components": np.array(sizes),
        }
    else:
        arrays = {
            key.rstrip("_"): getattr(transform, key)
            for key in ("mean_", "components_")
            if hasattr(transform, key)
        }
    known = {"transform": name, "parameters": transform.get_params()}
    about = {KEY: json.dumps(known, sort_keys=True)}  # one key: the file's order of keys varies
    with atomic(Path(path)) as temporary:
        arrays = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
        save_file(arrays, temporary, metadata=about)


def load_transform(path: Path | str) -> Any:
    """A transform that `save_transform` has saved: its `transform` gives the same as before.

    Returns:
        The estimator. One of clusters is fixed: it has no clusterer to fit on with, and assigns
        points to the nearest centre.

    Raises:
        ValueError: not such a file.
    """
    try:
        with safe_open(path, framework="np") as file:
            about = json.loads((file.metadata() or {})[KEY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        name, parameters = about["transform"], about["parameters"]
        if name == CLUSTERS:
            return _clusters(ClusterBasedEnhancement(**parameters), arrays)
        transform = KINDS[name](**parameters)
        for key, array in arrays.items():
            setattr(transform, f"{key}_", array)
        transform.n_features_in_ = len(transform.mean_)
        return transform
    except (SafetensorError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a saved transform: {error}") from None


def _clusters(
    transform: ClusterBasedEnhancement, arrays: dict[str, np.ndarray]
) -> ClusterBasedEnhancement:
    """Clusters as fixed centres."""
    ends = np.cumsum(arrays["n_components"])
    return transform.restore(
        arrays["centers"],
        arrays["means"],
        np.split(arrays["components"], ends[:-1]),
    )
