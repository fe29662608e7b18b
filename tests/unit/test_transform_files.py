"""Saved transforms give the same results after loading; other files are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from isotropy.transform_files import load_transform, save_transform
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement, Whitening

X = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32) + 2
NEW = np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32) + 2


@pytest.mark.parametrize(
    "transform",
    [
        Center(),
        AllButTheTop(),
        AllButTheTop(3),
        Whitening(0.1),
        ClusterBasedEnhancement(4, 2),
        ClusterBasedEnhancement(40, 5),  # too small clusters are dissolved
        ClusterBasedEnhancement(4, remove="mean"),
    ],
    ids=repr,
)
def test_loaded_transform_gives_the_same_results(transform: Any, tmp_path: Path) -> None:
    transform.fit(X)
    save_transform(transform, tmp_path / "t.safetensors")
    loaded = load_transform(tmp_path / "t.safetensors")
    assert repr(loaded) == repr(transform)
    for cloud in (X, NEW, NEW.astype(np.float64)):
        assert np.array_equal(loaded.transform(cloud), transform.transform(cloud))
    save_transform(loaded, tmp_path / "again.safetensors")
    same = (tmp_path / "again.safetensors").read_bytes()
    assert same == (tmp_path / "t.safetensors").read_bytes()


def test_other_estimators_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    with pytest.raises(ValueError, match=r"expected one of Center, .* got StandardScaler"):
        save_transform(StandardScaler().fit(X), path)
    with pytest.raises(ValueError, match="mixture"):
        save_transform(ClusterBasedEnhancement(2, clusterer="gmm").fit(X), path)
    with pytest.raises(NotFittedError):
        save_transform(Center(), path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "{",
        "[]",
        '{"transform": "Center"}',
        '{"transform": "os.system", "parameters": {}}',
        '{"transform": "Center", "parameters": {"a": 1}}',
        '{"transform": "AllButTheTop", "parameters": {}}',
    ],
)
def test_other_files_are_rejected(metadata: str | None, tmp_path: Path) -> None:
    file_metadata = None if metadata is None else {"isotropy_transform": metadata}
    save_file({"x": X}, tmp_path / "t.safetensors", metadata=file_metadata)
    with pytest.raises(ValueError, match="not a saved transform"):
        load_transform(tmp_path / "t.safetensors")
    (tmp_path / "t.safetensors").write_bytes(b"pickle")
    with pytest.raises(ValueError, match="not a saved transform"):
        load_transform(tmp_path / "t.safetensors")
