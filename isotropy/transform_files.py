"""Save and load fitted transforms: safetensors files with parameters as JSON. No pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from sklearn.utils.validation import check_is_fitted

from isotropy.files import atomic
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement, Whitening

TRANSFORM_CLASSES: dict[str, Any] = {k.__name__: k for k in (Center, AllButTheTop, Whitening)}
METADATA_KEY = "isotropy_transform"
CLUSTER_TRANSFORM = ClusterBasedEnhancement.__name__


def save_transform(transform: Any, path: Path | str) -> None:
    """Save a fitted `Center`, `AllButTheTop`, `Whitening` or `ClusterBasedEnhancement` (k-means).

    Args:
        transform: the estimator.
        path: path of the safetensors file.

    Raises:
        ValueError: an unsupported estimator, a mixture clusterer, or an unfitted estimator.

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
    if name not in (*TRANSFORM_CLASSES, CLUSTER_TRANSFORM):
        raise ValueError(
            f"expected one of {', '.join((*TRANSFORM_CLASSES, CLUSTER_TRANSFORM))}, got {name}"
        )
    check_is_fitted(transform)
    arrays = {}
    if name == CLUSTER_TRANSFORM:
        if transform.clusterer != "kmeans":
            raise ValueError("clusters of a mixture cannot be saved: fit with clusterer='kmeans'")
        n_components = [len(rows) for rows in transform.components_]
        arrays = {
            "centers": transform.centers_,
            "means": transform.means_,
            "components": np.concatenate(transform.components_),
            "n_components": np.array(n_components),
        }
    else:
        arrays = {
            key.rstrip("_"): getattr(transform, key)
            for key in ("mean_", "components_", "matrix_")
            if hasattr(transform, key)
        }
    description = {"transform": name, "parameters": transform.get_params()}
    # A single key, since safetensors does not fix the order of keys in the file
    metadata = {METADATA_KEY: json.dumps(description, sort_keys=True, default=np.generic.item)}
    with atomic(Path(path)) as temporary:
        arrays = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
        save_file(arrays, temporary, metadata=metadata)


def load_transform(path: Path | str) -> Any:
    """Load a transform saved by `save_transform`; its `transform` gives the same results.

    Returns:
        The fitted estimator. A `ClusterBasedEnhancement` has no clusterer: it cannot be refitted
        and assigns points to the nearest centre.

    Raises:
        ValueError: the file does not hold a saved transform.
    """
    try:
        with safe_open(path, framework="np") as file:
            description = json.loads((file.metadata() or {})[METADATA_KEY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        name, parameters = description["transform"], description["parameters"]
        if name == CLUSTER_TRANSFORM:
            return _restore_clusters(ClusterBasedEnhancement(**parameters), arrays)
        transform = TRANSFORM_CLASSES[name](**parameters)
        for key, array in arrays.items():
            setattr(transform, f"{key}_", array)
        transform.n_features_in_ = len(transform.mean_)
        return transform
    except (SafetensorError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a saved transform: {error}") from None


def _restore_clusters(
    transform: ClusterBasedEnhancement, arrays: dict[str, np.ndarray]
) -> ClusterBasedEnhancement:
    """Restore the clusters of a transform from the arrays of a file."""
    ends = np.cumsum(arrays["n_components"])
    return transform.restore(
        arrays["centers"], arrays["means"], np.split(arrays["components"], ends[:-1])
    )
