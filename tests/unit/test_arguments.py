"""Every public function with every kind of argument that people pass: the value is that of the
plain float64 array, or there is one sentence of our own; never a wrong number in silence."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

import isotropy
from isotropy import metrics
from isotropy.losses import CosRegLoss, IStarLoss
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement

PACKAGE = str(Path(isotropy.__file__).parent)
N, D, K = 24, 4, 3
DRAWS = np.random.default_rng(0)
CODES = np.arange(N) % K
# Three clusters, of whole numbers up to 8: those are exact in 8 bits.
X = DRAWS.integers(-2, 3, size=(N, D)) + 5.0 * np.eye(K, D)[CODES]
COVARIANCE = np.diag([1.0, 2, 4, 7]) + np.ones((D, D))
SUMS = DRAWS.integers(1, 8, size=(N, K)).astype(np.float64)
LABEL_NAMES = ("labels", "types", "words", "sentences", "groups")
ARGUMENTS: dict[str, Callable[[Callable[[np.ndarray], Any], Any], Any]] = {
    **dict.fromkeys(("X", "W"), lambda cloud, _: cloud(X)),
    **dict.fromkeys(("covariance", "second"), lambda cloud, _: cloud(COVARIANCE)),
    **dict.fromkeys(LABEL_NAMES, lambda _, labels: labels),
    "sums": lambda cloud, _: cloud(SUMS),
    "labelings": lambda _, labels: [labels],
    "shrinkage_covariance": lambda cloud, _: cloud(COVARIANCE),
    "zeta": lambda *_: 0.5,
    "k": lambda *_: 5,
    "d": lambda *_: D,
    "k_range": lambda *_: [2, 3],
}
OTHER = {"intra_sentence_null"}  # takes the lengths of sentences, see below
TRANSFORMS = {
    "Center": Center(),
    "AllButTheTop": AllButTheTop(1),
    "ClusterBasedEnhancement": ClusterBasedEnhancement(2, 1),
}


def is_result(function: Any) -> bool:
    """Whether a name is that of a named tuple, which functions return."""
    return isinstance(function, type) and issubclass(function, tuple)


def parameters(name: str) -> list[str]:
    names = inspect.signature(getattr(metrics, name)).parameters
    return [parameter for parameter in names if parameter in ARGUMENTS]


FUNCTIONS = [
    name for name in metrics.__all__ if not is_result(getattr(metrics, name)) and name not in OTHER
]
OF_LABELS = [f for f in FUNCTIONS if {*LABEL_NAMES, "labelings"} & {*parameters(f)}]


def call(name: str, cloud: Callable[[np.ndarray], Any], labels: Any = CODES) -> Any:
    """Call a function, a stream or a transform with clouds and labels of some kind."""
    if name in TRANSFORMS:
        return TRANSFORMS[name].fit(cloud(X)).transform(cloud(X))
    arguments = {p: ARGUMENTS[p](cloud, labels) for p in parameters(name)}
    result = getattr(metrics, name)(**arguments)
    if isinstance(result, metrics.ShrinkageCovariance):
        return result.matrix
    if hasattr(result, "update"):
        result.update(cloud(X))
        return result.compute() if hasattr(result, "compute") else result.covariance()
    return result


def numbers(result: Any) -> list[float]:
    """All numbers of a result, one after the other."""
    if isinstance(result, tuple | list):
        return [number for part in result for number in numbers(part)]
    if isinstance(result, dict):
        return numbers(list(result.values()))
    if isinstance(result, torch.Tensor):
        result = result.detach()
    return [float(x) for x in np.asarray(result).reshape(-1)]


def outcome(name: str, cloud: Callable[[np.ndarray], Any], labels: Any = CODES) -> Any:
    """The numbers of a call, or the words of its error, which must be our own."""
    try:
        return numbers(call(name, cloud, labels))
    except (ValueError, TypeError) as error:
        message, frames = str(error), traceback.extract_tb(error.__traceback__)
    assert name in TRANSFORMS or frames[-1].filename.startswith(PACKAGE), (frames[-1], message)
    assert len(message.split()) > 3
    return message


def as_frame(dtype: Any) -> Callable[[np.ndarray], Any]:
    return lambda values: pd.DataFrame(values).astype(dtype)


def with_missing(dtype: str) -> Callable[[np.ndarray], Any]:
    return lambda values: pd.DataFrame(values).mask(values == values.max()).astype(dtype)


def as_tensor(dtype: torch.dtype) -> Callable[[np.ndarray], Any]:
    return lambda values: torch.tensor(values).to(dtype)


def mixed_frame(values: np.ndarray) -> pd.DataFrame:
    frame = pd.DataFrame(values)
    return frame.astype({i: ["Int64", "float32"][i % 2] for i in frame})


def read_only(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values.flags.writeable = False
    return values


class ArrayLike:
    """An object that is not an array, but gives one, as those of xarray."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values.astype(dtype) if dtype else self.values


TENSORS = ("float64", "bfloat16", "float16", "int32", "float8_e4m3fn", "float8_e5m2")
ACCEPTED: dict[str, Callable[[np.ndarray], Any]] = {
    **{str(np.dtype(t)): lambda v, t=t: v.astype(t) for t in ("f2", "f4", "g", "i1", "i8", ">f8")},
    "Fortran": np.asfortranarray,
    "negative strides": lambda v: v[::-1, ::-1].copy()[::-1, ::-1],
    "read only": read_only,
    "lists": lambda v: v.tolist(),
    "tuples": lambda v: tuple(map(tuple, v)),
    "list of tensors": lambda v: list(torch.tensor(v)),
    "array-like": ArrayLike,
    "mixed frame": mixed_frame,
    "sparse frame": as_frame(pd.SparseDtype("float64")),
    **{f"frame {t}": as_frame(t) for t in ("f8", "Float64", "Float32", "Int64", "double[pyarrow]")},
    **{f"tensor {t}": as_tensor(getattr(torch, t)) for t in TENSORS},
    "tensor with gradient": lambda v: torch.tensor(v, requires_grad=True),
    "float32 parameter": lambda v: torch.nn.Parameter(torch.tensor(v, dtype=torch.float32)),
    "transposed tensor": lambda v: torch.tensor(v.T.copy()).T,
}
TRUTH: dict[str, Callable[[np.ndarray], Any]] = {
    "bool": lambda v: v > 1,
    "bool tensor": lambda v: torch.tensor(v > 1),
    "boolean frame": lambda v: pd.DataFrame(v > 1).astype("boolean"),
}
REFUSED: dict[str, Callable[[np.ndarray], Any]] = {
    "NaN": lambda v: np.where(v == v.max(), np.nan, v),
    "infinity": lambda v: np.where(v == v.max(), np.inf, v),
    "beyond float64": lambda v: v.astype(np.longdouble) * np.longdouble("1e4000"),
    **{f"NA in {t}": with_missing(t) for t in ("Float64", "Int64", "double[pyarrow]")},
    "NA in boolean": lambda v: pd.DataFrame(v > 1).astype("boolean").mask(v == v.max()),
    "None": lambda _: None,
    "text": lambda _: "a text",
    "number": lambda _: 3.0,
    "mapping": lambda v: dict(enumerate(v)),
    "texts of digits": lambda v: v.astype(str),
    "list with None": lambda v: [[None, *row[1:]] for row in v.tolist()],
    "rows of different length": lambda v: [row[: 1 + i % 2] for i, row in enumerate(v.tolist())],
    **{f"frame {t}": as_frame(t) for t in ("string", "object", "complex128")},
    "frame of texts": lambda v: pd.DataFrame(v.astype(str)),
    "frame of categories": lambda v: pd.DataFrame(v.astype(str)).astype("category"),
    "dates": lambda v: v.astype("M8[s]"),
    "frame of dates": lambda v: pd.DataFrame(v.astype("M8[s]")),
    "complex": lambda v: v + 1j,
    "masked": np.ma.masked_array,
    "csr": scipy.sparse.csr_matrix,
    "structured": lambda v: v.copy().view([("a", "f8")]),
    "sparse tensor": lambda v: torch.tensor(v).to_sparse(),
    "quantized tensor": lambda v: torch.quantize_per_tensor(
        torch.tensor(v).float(), 0.1, 0, torch.qint8
    ),
    "tensor of 4 bits": lambda v: torch.zeros(v.shape, dtype=torch.uint8).view(
        torch.float4_e2m1fn_x2
    ),
    "meta tensor": lambda v: torch.empty(v.shape, device="meta"),
    "nested tensor": lambda v: torch.nested.nested_tensor(list(torch.tensor(v))),
    "complex tensor": as_tensor(torch.complex64),
    "one dimension": lambda v: v[0],
    "three dimensions": lambda v: v[None],
    "no rows": lambda v: v[:0],
    "no columns": lambda v: v[:, :0],
    "empty list": lambda _: [],
}


def differs(obtained: Any, expected: Any, rel: float = 1e-4, tolerance: float = 1e-5) -> bool:
    """Whether numbers, or the words of an error, are others than expected."""
    if isinstance(obtained, str) or isinstance(expected, str):
        return bool(obtained != expected)
    return obtained != pytest.approx(expected, rel=rel, abs=tolerance, nan_ok=True)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", [*FUNCTIONS, *TRANSFORMS])
def test_clouds_of_every_kind_have_the_value_of_the_plain_array(name: str) -> None:
    plain = outcome(name, lambda values: values)
    assert isinstance(plain, list)
    obtained = {kind: outcome(name, cloud) for kind, cloud in ACCEPTED.items()}
    if name in TRANSFORMS:
        assert "to_dense" in obtained.pop("sparse frame")
    assert {kind: value for kind, value in obtained.items() if differs(value, plain)} == {}
    plain = outcome(name, lambda values: (values > 1).astype(np.float64))
    obtained = {kind: outcome(name, cloud) for kind, cloud in TRUTH.items()}
    assert {kind: value for kind, value in obtained.items() if differs(value, plain)} == {}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*in (cast|reduce):RuntimeWarning")
@pytest.mark.parametrize("name", [*FUNCTIONS, *TRANSFORMS])
def test_other_clouds_are_refused(name: str) -> None:
    obtained = {kind: outcome(name, cloud) for kind, cloud in REFUSED.items()}
    assert [kind for kind, message in obtained.items() if not isinstance(message, str)] == []
    assert name in TRANSFORMS or "masked array" in obtained["masked"]


def series(dtype: str, missing: Any = None) -> pd.Series:
    """The labels of all points as a column; the first one missing if that is given."""
    values = CODES > 0 if dtype.startswith("bool") else CODES
    column = pd.Series(values.astype(str) if "str" in dtype else values, dtype=dtype)
    return column if missing is None else column.mask(column.index == 0)


ONE_HOT = np.eye(K)[K - 1 - CODES]
LABELS: dict[str, Any] = {
    "list": CODES.tolist(),
    "tuple": tuple(CODES.tolist()),
    "texts": [f"class {c}" for c in CODES],
    "array of texts": CODES.astype(str),
    "objects": CODES.astype(object),
    "floats": CODES.astype(np.float64),
    "longdouble": CODES.astype(np.longdouble),
    "dates": CODES.astype("M8[D]"),
    "tensor": torch.tensor(CODES),
    "bfloat16 tensor": torch.tensor(CODES).bfloat16(),
    "float8 tensor": torch.tensor(CODES).to(torch.float8_e4m3fn),
    "list of tensors": list(torch.tensor(CODES)),
    **{t: series(t) for t in ("Int64", "string", "str", "category", "int64[pyarrow]")},
    "categorical": pd.Categorical(CODES.astype(str)),
    "index": pd.Index(CODES),
    "indicators": ONE_HOT,
    "frame of indicators": pd.DataFrame(ONE_HOT).astype("Int64"),
}
MISSING: dict[str, Any] = {
    **{
        f"{t} with NA": series(t, pd.NA)
        for t in ("Int64", "Float64", "boolean", "string", "str", "category", "int64[pyarrow]")
    },
    "NaN": np.where(CODES == 1, np.nan, CODES),
    "longdouble NaN": np.where(CODES == 1, np.nan, CODES).astype(np.longdouble),
    "NaN tensor": torch.tensor(np.where(CODES == 1, np.nan, CODES)).bfloat16(),
    "complex NaN": np.where(CODES == 1, np.nan, CODES + 1j),
    "None": [None, *CODES[1:].tolist()],
    "NA": [pd.NA, *CODES[1:].tolist()],
    "texts and NA": [pd.NA, *CODES[1:].astype(str).tolist()],
    "texts and NaN": [np.nan, *CODES[1:].astype(str).tolist()],
    "NaT": np.r_[np.datetime64("NaT"), CODES[1:].astype("M8[D]")],
    "categorical": pd.Categorical([None, *CODES[1:].tolist()]),
    "frame": pd.DataFrame(ONE_HOT).astype("Int64").mask(ONE_HOT > 0),
}
UNSUITABLE: dict[str, Any] = {
    "wrong length": CODES[1:],
    "three dimensions": CODES[:, None, None],
    "no columns": np.empty((N, 0)),
    "empty": [],
    "number": 3,
    "text": "labels",
    "mapping": dict(enumerate(CODES)),
    "texts and numbers": ["a", *CODES[1:].tolist()],
    "ragged": [[0, 1][: 1 + i % 2] for i in range(N)],
    "arrays as objects": np.array([*map(np.arange, range(1, N + 1))], dtype=object),
    "indicators of texts": ONE_HOT.astype(str).astype(object),
    "masked": np.ma.masked_equal(CODES, 2),
    "csr": scipy.sparse.csr_matrix(ONE_HOT),
    "sparse tensor": torch.tensor(ONE_HOT).to_sparse(),
    "meta tensor": torch.empty(N, device="meta"),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", OF_LABELS)
def test_labels_of_every_kind_have_the_value_of_plain_integers(name: str) -> None:
    plain = outcome(name, lambda values: values)
    assert isinstance(plain, list)
    obtained = {kind: outcome(name, lambda v: v, labels) for kind, labels in LABELS.items()}
    assert {kind: v for kind, v in obtained.items() if differs(v, plain, 1e-9, 1e-12)} == {}


@pytest.mark.parametrize("name", OF_LABELS)
def test_other_labels_are_refused(name: str) -> None:
    for kind, labels in UNSUITABLE.items():
        assert isinstance(outcome(name, lambda values: values, labels), str), kind
    for kind, labels in MISSING.items():
        message = outcome(name, lambda values: values, labels)
        assert "are missing" in message, kind


def test_every_function_is_covered() -> None:
    """A function with parameters of other names needs a line in ARGUMENTS."""
    for name in FUNCTIONS:
        of_name = inspect.signature(getattr(metrics, name)).parameters.values()
        assert {p.name for p in of_name if p.default is p.empty} <= set(ARGUMENTS), name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.intra_sentence_null(["3", "4"], 0.5), "lengths must be real"),
        (lambda: metrics.intra_sentence_null([3, None], 0.5), "lengths must be real"),
        (lambda: metrics.intra_sentence_null([3, np.nan], 0.5), "at least 1"),
        (lambda: metrics.isoscore_star(X, "0.5", COVARIANCE), "zeta"),
        (lambda: metrics.isoscore_star(X, np.nan, COVARIANCE), "zeta"),
        (lambda: metrics.isoscore_star(X, torch.ones(2), COVARIANCE), "zeta"),
        (lambda: metrics.isoscore_star(X, 1, -COVARIANCE), "negative variances"),
        (lambda: metrics.isoscore_from_covariance(np.triu(COVARIANCE)), "symmetric"),
        (lambda: metrics.StreamingPartition(torch.ones(2, 3)), r"\(d, d\)"),
        (lambda: metrics.StreamingMeanCosine(3).update(X[:, :1]), "stream of 3"),
        (lambda: metrics.StreamingPartition(np.eye(3)).update(X), "stream of 3"),
        (lambda: metrics.StreamingCovariance(-1), "d must be a positive"),
        (lambda: metrics.StreamingMeanCosine(2.5), "d must be a positive"),
    ],
)
def test_other_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


STATES = [torch.tensor(DRAWS.normal(size=(2, 6, D)), dtype=torch.float32) for _ in range(3)]
MASK = torch.ones(2, 6)


def istar() -> IStarLoss:
    loss = IStarLoss(D, strength=1.0)
    loss.update_shrinkage(STATES, MASK)
    return loss


PENALTIES = pytest.mark.parametrize("make", [istar, CosRegLoss])


@PENALTIES
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn]
)
def test_penalties_of_every_precision(make: Callable[[], Any], dtype: torch.dtype) -> None:
    rounded = [h.to(dtype) for h in STATES]
    expected = pytest.approx(float(make()([h.double() for h in rounded], MASK)), rel=1e-4)
    assert float(make()(rounded, MASK)) == expected
    assert float(make()([h.mT.contiguous().mT for h in rounded], MASK.bool())) == expected


def each(change: Callable[[torch.Tensor], Any]) -> list[Any]:
    return [change(h) for h in STATES]


@PENALTIES
@pytest.mark.parametrize(
    ("states", "options", "message"),
    [
        (each(lambda h: h.numpy()), {}, "got ndarray"),
        (None, {}, "sequence of tensors"),
        ({"last": STATES[0]}, {}, "output.hidden_states"),
        (torch.tensor(1.0), {}, "sequence of tensors"),
        ([], {}, "no such layer"),
        (STATES[0], {}, r"got \(6, 4\)"),
        (each(lambda h: h[0, 0]), {}, r"got \(4,\)"),
        (each(lambda h: h.long()), {}, "floating-point"),
        (each(lambda h: h.to_sparse()), {}, "sparse"),
        (each(lambda h: h.to("meta")), {}, "meta device"),
        (each(lambda h: h * torch.nan), {}, "NaN or infinity"),
        (each(lambda h: h.index_fill(0, torch.tensor(0), torch.inf)), {}, "NaN or infinity"),
        (STATES, {"attention_mask": None}, "keep_padding"),
        (STATES, {"attention_mask": MASK.tolist()}, "got list"),
        (STATES, {"attention_mask": MASK[0]}, r"got \(6,\)"),
        (STATES, {"attention_mask": MASK * torch.nan}, "1 for tokens"),
        (STATES, {"positions": [1, 2]}, "got list"),
        (STATES, {"positions": torch.tensor([1.0])}, "positions must be integers"),
        (STATES, {"positions": torch.tensor([[1]])}, "positions must be integers"),
        (STATES, {"positions": torch.tensor([1, 12])}, "between 0 and 11"),
        (STATES, {"positions": torch.tensor([-1, 3])}, "between 0 and 11"),
        (each(lambda h: h[:0]), {"attention_mask": MASK[:0]}, "no token|2 points"),
    ],
)
def test_penalties_refuse_other_states(
    make: Callable[[], Any], states: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        make()(states, **{"attention_mask": MASK, **options})


@pytest.mark.parametrize("make", [istar, lambda: CosRegLoss(layers="all")])
def test_penalties_refuse_layers_that_differ(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="one shape"):
        make()([STATES[0], STATES[1], STATES[2][:, :, :3]], MASK)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: IStarLoss(D, strength=np.nan), "strength"),
        (lambda: CosRegLoss(strength="1"), "strength"),
        (lambda: IStarLoss(D, strength=1, zeta=1.5), "zeta"),
        (lambda: IStarLoss(0, strength=1), "d must be a positive"),
        (lambda: CosRegLoss(layers="last"), "layers must be"),
        (lambda: CosRegLoss(layers=-1), "layers must be"),
        (lambda: CosRegLoss(layers=[]), "layers must be"),
        (lambda: CosRegLoss(layers=[0.5]), "layers must be"),
        (lambda: istar()([h[:, :, :3] for h in STATES], MASK), r"\(3, 3\)"),
        (lambda: istar().update_shrinkage([h[..., :3] for h in STATES], MASK), "does not fit"),
    ],
)
def test_settings_of_penalties_are_checked(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_negative_strength_lowers_isotropy() -> None:
    loss = IStarLoss(D, strength=-1.0, zeta=0.0)
    assert float(loss(STATES, MASK)) == -float(IStarLoss(D, strength=1.0, zeta=0.0)(STATES, MASK))


def test_a_single_token_has_no_pairs_and_no_covariance() -> None:
    single = [h[:1, :1] for h in STATES]
    assert float(CosRegLoss()(single, MASK[:1, :1])) == 0
    with pytest.raises(ValueError, match="2 points"):
        IStarLoss(D, strength=1.0, zeta=0.0, layers=[-1])(single, MASK[:1, :1])
