"""The geometry of a layer: clouds of tokens and words, principal axes, positions, Swiss rolls;
against scikit-learn and definitions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import r2_score, silhouette_score
from sklearn.preprocessing import StandardScaler

from isotropy.errors import IsotropyError
from isotropy.metrics.dimension import lid_mle, lid_mle_estimates, lid_mle_samples
from isotropy.metrics.isoscores import isoscore
from isotropy.metrics.unbiased import isoscore_unbiased
from replication.embed.layers import TOKENS, layer_file
from replication.geometry.layers import (
    count_clusters,
    measure_layer,
    pictures,
    position_variance_share,
    principal_axes,
)
from replication.geometry.lid import POINTS_PER_TYPE, _rank_within_type, lid_by_type, lid_scores
from replication.geometry.spec import Clustering, LayerSpec, Lid
from replication.geometry.swiss_roll import roll
from replication.geometry.token_types import (
    TypedCloud,
    is_massive,
    read_typed_cloud,
    standardized,
    varied,
)

CLUSTERING = Clustering(
    k_max=5, sample_size=None, threshold=0.1, n_components=None, n_init=1, max_iter=300
)
SPEC = LayerSpec(
    paper="cai2021",
    dataset="brown",
    source="brown",
    empty="",
    model="m",
    layer=1,
    window=8,
    types=["subwords"],
    variants=["all"],
    clustering=CLUSTERING,
    lid=Lid(k=10, n_queries=None, n_equal=100, n_types=12),
    n_points=50,
    seeds=[0],
)


def clustered(seed: int = 0, n: int = 240, d: int = 12) -> TypedCloud:
    """Return a cloud of three distant groups, with each type in all groups."""
    generator, places = np.random.default_rng(seed), np.arange(n)
    centres = 20 * generator.standard_normal((3, d))
    vectors = (centres[places % 3] + generator.standard_normal((n, d))).astype(np.float32)
    types, names = generator.integers(0, 30, n), np.array([f"t{i}" for i in range(30)])
    return TypedCloud(vectors, types, names, places % 8, np.where(places % 7, "word", "symbol"))


def write_tokens(folder: Path, rows: list[tuple[int, int, str, bool, bool]]) -> np.ndarray:
    """Write token vectors; rows have text, word, piece, special and symbol of each token."""
    vectors = np.random.default_rng(0).standard_normal((len(rows), 4)).astype(np.float32)
    safetensors.numpy.save_file({"vectors": vectors}, folder / layer_file(1))
    table = pd.DataFrame(rows, columns=["text", "word", "piece", "special", "symbol"])
    table["id"] = pd.factorize(table["piece"])[0]
    table.assign(piece=table["piece"].astype("category")).to_parquet(folder / TOKENS)
    return vectors


ROWS = [
    (0, -1, "[CLS]", True, True),
    (0, 0, "un", False, False),
    (0, 0, "##do", False, False),
    (0, 1, ",", False, True),
    (0, -1, "[SEP]", True, True),
    (1, 0, "un", False, False),
    (1, 0, "##do", False, False),
    (1, 1, "un", False, False),
]


def test_tokens_and_words_are_read_from_pieces(tmp_path: Path) -> None:
    """A word's vector is the mean of its pieces in a window; its type is the sequence of pieces."""
    vectors = write_tokens(tmp_path, ROWS)
    tokens = read_typed_cloud(tmp_path, 1, 4, "subwords")
    assert np.array_equal(tokens.vectors, vectors)
    assert tokens.names[tokens.types].tolist() == [row[2] for row in ROWS]
    assert tokens.positions.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert " ".join(tokens.kinds) == "special word word symbol special word word word"
    assert tokens.frequencies.tolist() == [1, 3, 2, 1, 1, 3, 2, 3]
    words = read_typed_cloud(tmp_path, 1, 4, "words")
    assert words.names[words.types].tolist() == ["un ##do", ",", "un ##do", "un"]
    assert words.kinds.tolist() == ["word", "symbol", "word", "word"]
    expected = [vectors[a:b].mean(axis=0) for a, b in ((1, 3), (3, 4), (5, 7), (7, 8))]
    assert np.allclose(words.vectors, expected, atol=1e-6)
    cut = read_typed_cloud(tmp_path, 1, 2, "words")  # the first word lies in two windows
    assert cut.names[cut.types].tolist() == ["un", "##do", ",", "un", "##do", "un"]
    write_tokens(tmp_path, ROWS[:1])
    with pytest.raises(IsotropyError, match="no words"):
        read_typed_cloud(tmp_path, 1, 4, "words")


def test_principal_axes_equal_scikit_learn() -> None:
    cloud = clustered()
    axes = principal_axes(cloud.vectors)
    reference = PCA().fit(cloud.vectors.astype(np.float64))
    # Products are float32
    assert np.allclose(axes.variances, reference.explained_variance_, rtol=1e-4)
    # Axes with close variances are not unique, so the residual is compared
    covariance = np.cov(cloud.vectors.astype(np.float64), rowvar=False)
    residual = axes.axes @ covariance - axes.variances[:, None] * axes.axes
    assert np.abs(residual).max() < 1e-5 * axes.variances[0]
    assert np.allclose(axes.axes @ axes.axes.T, np.eye(12), atol=1e-10)
    expected = np.abs(reference.transform(cloud.vectors)[:, :3])
    assert np.allclose(np.abs(axes.project(cloud.vectors, 3)), expected, atol=2e-3)
    assert axes.isoscore == pytest.approx(isoscore(cloud.vectors), rel=1e-6)


def test_variants_leave_out_tokens() -> None:
    """`no-first` leaves out first tokens of windows, `no-massive` tokens with a massive activation;
    types are renumbered and keep their names."""
    cloud = clustered()
    vectors = cloud.vectors.copy()
    vectors[17, 3], vectors[40, 0] = 5e4, -2e5
    vectors[41, 0] = 1000  # more than 100, less than 1,000 times the median
    cloud = cloud._replace(vectors=vectors)
    assert varied(cloud, "all") is cloud
    assert np.flatnonzero(is_massive(vectors)).tolist() == [17, 40]
    assert not is_massive(vectors / 1e6).any()  # activations below 100 are never massive
    no_massive = varied(cloud, "no-massive")
    assert len(no_massive.vectors) == 238
    assert not is_massive(no_massive.vectors).any()
    no_first = varied(cloud, "no-first")
    not_first = cloud.positions > 0
    assert np.array_equal(no_first.vectors, vectors[not_first])
    assert np.array_equal(no_first.names[no_first.types], cloud.names[cloud.types[not_first]])
    assert np.array_equal(no_first.positions, cloud.positions[not_first])
    assert set(no_first.types) == set(range(len(no_first.names)))
    with pytest.raises(IsotropyError, match="no-first"):
        varied(cloud._replace(positions=np.zeros_like(cloud.positions)), "no-first")


def test_standardized_equals_scikit_learn() -> None:
    cloud = clustered()
    vectors = np.column_stack([cloud.vectors * np.float32(1e3), np.full(240, 7, np.float32)])
    expected = StandardScaler().fit_transform(vectors.astype(np.float64))
    obtained = standardized(vectors)
    assert obtained.dtype == np.float32
    assert np.allclose(obtained, expected, atol=1e-5)
    assert (obtained[:, -1] == 0).all()


def test_scores_of_a_layer_equal_their_definitions() -> None:
    """Cosines are compared with loops over pairs, clusters and silhouettes with scikit-learn."""
    cloud = clustered()
    result = measure_layer(cloud, principal_axes(cloud.vectors), SPEC, seed=0)
    points = cloud.vectors.astype(np.float64)
    labels = KMeans(3, n_init=1, random_state=0).fit_predict(cloud.vectors)
    scores = result.scores
    assert scores["n_clusters"] == 3
    assert scores["silhouette"] == pytest.approx(silhouette_score(points, labels), abs=1e-6)
    assert scores["share_largest"] == pytest.approx(1 / 3)
    assert scores["n_tokens"] == 240
    assert scores["n_types"] == len(set(cloud.types))
    assert scores["isoscore_unbiased"] == pytest.approx(isoscore_unbiased(points), rel=1e-5)

    def cosines(selected: np.ndarray, types: np.ndarray) -> tuple[float, float]:
        """Compute S_inter as the mean over pairs of types, and S_intra as the mean over types."""
        unit = selected / np.linalg.norm(selected, axis=1, keepdims=True)
        by_type = [unit[types == t] for t in set(types)]
        between = [(a @ b.T).mean() for a, b in itertools.combinations(by_type, 2)]
        within = [(u @ u.T)[~np.eye(len(u), dtype=bool)].mean() for u in by_type if len(u) > 1]
        return float(np.mean(between)), float(np.mean(within))

    plain = scores["s_inter"], scores["s_intra"]
    assert plain == pytest.approx(cosines(points, cloud.types), abs=1e-6)
    of_clusters = [
        cosines(points[labels == k] - points[labels == k].mean(axis=0), cloud.types[labels == k])
        for k in range(3)
    ]
    adjusted = scores["s_inter_adjusted"], scores["s_intra_adjusted"]
    assert adjusted == pytest.approx(tuple(np.mean(of_clusters, axis=0)), abs=1e-6)
    assert scores["lid_cosine"] == pytest.approx(lid_mle(points, 10, metric="cosine"), rel=1e-4)
    assert scores["lid_euclidean_published"] == pytest.approx(lid_mle(points, 10) / 2, rel=1e-4)


def test_few_components_find_the_same_distant_clusters() -> None:
    cloud = clustered()
    few = SPEC.model_copy(update={"clustering": CLUSTERING.model_copy(update={"n_components": 2})})
    axes = principal_axes(cloud.vectors)
    all_components, two_components = (measure_layer(cloud, axes, s, 0).scores for s in (SPEC, few))
    assert two_components["n_clusters"] == all_components["n_clusters"] == 3
    expected = pytest.approx(all_components["s_inter_adjusted"], abs=1e-9)
    assert two_components["s_inter_adjusted"] == expected
    assert two_components["silhouette"] > all_components["silhouette"]


def test_one_cluster_is_centred_as_a_whole() -> None:
    generator = np.random.default_rng(0)
    vectors = (generator.standard_normal((300, 20)) + 5).astype(np.float32)
    n, names = np.arange(300), np.arange(40).astype(str)
    cloud = TypedCloud(vectors, n % 40, names, n % 8, np.full(300, "word"))
    scores = measure_layer(cloud, principal_axes(vectors), SPEC, 0).scores
    assert scores["n_clusters"] == 1
    assert scores["silhouette"] < 0.1
    assert scores["s_inter"] > 0.9
    assert abs(scores["s_inter_adjusted"]) < 0.05


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.floats(0, 3))
def test_share_of_positions_is_adjusted_r2(seed: int, groups: int, strength: float) -> None:
    """It is that of a regression on positions as categories."""
    generator = np.random.default_rng(seed)
    positions = np.concatenate([np.arange(groups), generator.integers(0, groups, 80)])
    n = len(positions)
    effects = strength * generator.standard_normal((groups, 2))
    coordinates = generator.standard_normal((n, 2)) + effects[positions]
    means = np.stack([coordinates[positions == p].mean(axis=0) for p in range(groups)])
    plain = r2_score(coordinates, means[positions], multioutput="variance_weighted")
    assert position_variance_share(coordinates, positions) == pytest.approx(
        1 - (1 - plain) * (n - 1) / (n - groups), abs=1e-9
    )
    assert np.isnan(position_variance_share(coordinates[:groups], np.arange(groups)))


def test_pictures_are_points_on_the_first_axes() -> None:
    cloud = clustered()
    axes = principal_axes(cloud.vectors)
    clusters = measure_layer(cloud, axes, SPEC, 0).clusters
    drawn = pictures(cloud, axes, clusters, 50)
    assert len(drawn) == 50
    largest = np.abs(axes.project(cloud.vectors, 3)).max()
    assert np.abs(drawn[["x", "y", "z"]].to_numpy()).max() < 1.01 * largest
    assert (drawn["x_largest"].notna() == (drawn["cluster"] == 0)).all()
    assert set(drawn["kind"]) == {"word", "symbol"}
    assert drawn.equals(pictures(cloud, axes, clusters, 50))


def test_dimension_by_points_per_type() -> None:
    """Copies of a type with a little noise are each other's neighbours, so that the dimension is
    that of the noise; with one point per type it is that of the types."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((300, 6))
    types = np.repeat(np.arange(300), 40)
    plane = rng.standard_normal((2, 6))
    points = centres[types] + 1e-3 * rng.standard_normal((len(types), 2)) @ plane
    settings = Lid(k=10, n_queries=None, n_equal=100, n_types=200)
    scores = lid_by_type(points, types, settings, 0)
    assert scores["own_type_share"] == 1
    assert scores["lid_cosine_per_type_1"] > scores["lid_cosine_per_type_all"]
    reference = lid_mle(centres[:200], 10, metric="cosine")
    assert scores["lid_cosine_per_type_1"] == pytest.approx(reference, rel=0.1)
    # Where each type occurs once, there is one sample, of random points.
    once = lid_by_type(centres, np.arange(300), settings, 0)
    assert len({v for name, v in once.items() if name.startswith("lid")}) == 1
    assert np.isnan(once["own_type_share"])
    few = lid_by_type(centres, np.arange(300), settings.model_copy(update={"n_types": 301}), 0)
    assert np.isnan(list(few.values())).all()


def test_at_most_so_many_points_of_a_type() -> None:
    types = np.random.default_rng(0).integers(0, 9, 200)
    rank = _rank_within_type(types, 3)
    for name, most in POINTS_PER_TYPE.items():
        counts = np.bincount(types[rank < (most or 200)])
        assert np.array_equal(counts, np.minimum(np.bincount(types), most or 200)), name


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_both_local_dimension_estimates_equal_single_ones(
    dtype: type, tolerance: float, metric: Any
) -> None:
    """Computed from one search, they equal the separately computed ones, also with repeated
    points."""
    points = np.random.default_rng(0).standard_normal((400, 6)).astype(dtype)
    single = lid_mle(points, 20, metric=metric)
    both = lid_mle_estimates(points, 20, metric=metric)
    assert both.conventional == pytest.approx(2 * both.published, rel=1e-12)
    assert both.conventional == single
    again = np.concatenate([points, points[:30]])
    with pytest.warns(UserWarning, match="30 of 430"):
        both = lid_mle_estimates(again, 20, metric=metric)
    assert both.conventional == pytest.approx(single, rel=tolerance)
    assert both.published == lid_mle(again, 20, metric=metric, squared=True, repeated="keep")
    assert both.published < both.conventional / 2
    often = np.concatenate([points, *[points[:30]] * 40])  # more repetitions than neighbours
    drawn = {"metric": metric, "n_queries": 300, "seed": 1}
    with pytest.warns(UserWarning, match="repeat"):
        both = lid_mle_estimates(often, 20, **drawn)
    with pytest.warns(UserWarning, match="repeat"):
        assert both.conventional == pytest.approx(lid_mle(often, 20, **drawn), rel=tolerance)
    each = lid_mle_samples(often, 20, squared=True, repeated="keep", **drawn)
    # Estimates are infinite if all neighbours are copies of one point; they are replaced by d.
    assert both.n_replaced == np.isinf(each).sum() > 0
    assert both.n_repeated == 1200
    assert both.published == pytest.approx(np.where(np.isinf(each), 6, each).mean())


def test_multiples_of_a_vector_repeat_it_by_cosine_only() -> None:
    vectors = np.random.default_rng(0).standard_normal((60, 6))
    scaled = np.concatenate([vectors, 2 * vectors[:2]])
    with pytest.warns(UserWarning, match="2 of 62"):
        scores = lid_scores(scaled, Lid(k=10, n_queries=None, n_equal=100, n_types=12), 0)
    assert scores["n_repeated"] == 0


def test_too_few_points_are_rejected() -> None:
    cloud = clustered(n=9)
    with pytest.raises(IsotropyError, match="between 2 and 8"):
        lid_scores(cloud.vectors, Lid(k=10, n_queries=None, n_equal=100, n_types=12), 0)
    with pytest.raises(IsotropyError, match="k_range"):
        count_clusters(cloud.vectors[:3], principal_axes(cloud.vectors), CLUSTERING, 0)


def rolled(turns: float, height: float, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Return points of a noisy Swiss roll, and their positions along it."""
    draws = np.random.default_rng(0)
    along = draws.random(n)
    angle = np.pi * (1 + turns * along)
    sheet = np.c_[angle * np.cos(angle), height * draws.random(n), angle * np.sin(angle)]
    return sheet + 0.2 * draws.standard_normal((n, 3)), along


@pytest.mark.parametrize("height", [5, 20])
def test_swiss_roll_is_detected_along_its_parameter(height: float) -> None:
    sheet, along = rolled(3, height)
    other = np.random.default_rng(1).permutation(len(sheet))
    by_position = roll(sheet, along, other, 0)
    assert by_position.gain > 0.3
    assert by_position.along_position > 0.8 > 0.2 > by_position.along_frequency
    by_frequency = roll(sheet, other, np.exp(5 * along), 0)
    assert by_frequency.along_frequency > 0.8 > 0.2 > by_frequency.along_position
    assert roll(sheet, along, other, 0) == by_position


def test_other_shapes_are_no_swiss_roll() -> None:
    """A line and a plane along the position, a ball, a sphere, a ring, two clouds, half a turn."""
    draws = np.random.default_rng(0)
    n = 2000
    along, across = draws.random(n), draws.random(n)
    ball = draws.standard_normal((n, 3))
    noise = 0.02 * draws.standard_normal((n, 3))
    shapes = {
        "line": np.c_[along, 0 * along, 0 * along] + noise,
        "plane": np.c_[along, across, 0 * along] + noise,
        "ball": ball,
        "sphere": ball / np.linalg.norm(ball, axis=1, keepdims=True),
        "ring": np.c_[np.cos(6.28 * along), np.sin(6.28 * along), 0 * along] + noise,
        "two clouds": ball + 8 * (np.arange(n) % 2)[:, None],
        "half a turn": rolled(1, 3)[0],
    }
    gains = {name: roll(shape, along, across, 0).gain for name, shape in shapes.items()}
    assert {name: gain for name, gain in gains.items() if not abs(gain) < 0.1} == {}
    assert np.isnan(roll(ball[:20], along[:20], across[:20], 0).gain)
    assert np.isnan(roll(np.zeros((50, 3)), along[:50], across[:50], 0).gain)
