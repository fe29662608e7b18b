"""What the numbers of claims are, in words, and the scales on which they are drawn: those with the
same unit share an axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Scale(NamedTuple):
    """What a number is, and how it is drawn.

    Attributes:
        label: what is measured, for an axis.
        unit: the unit after a number; empty for a pure number.
        axis: `symlog` is linear between -1 and 1, and logarithmic beyond.
        limits: numbers that the axis shows in any case; None: as the numbers need.
        relative: whether a number is drawn as a ratio to the published one.
    """

    label: str
    unit: str = ""
    axis: Literal["linear", "log", "symlog"] = "linear"
    limits: tuple[float, float] | None = None
    relative: bool = False


CORRELATION = Scale("correlation", limits=(-1, 1))
COUNTS = Scale("count, obtained / published", axis="log", relative=True)
ISOTROPY = Scale("log₁₀ I(W) (0: isotropic)", axis="symlog")
_COSINE = Scale("mean cosine")
_SHARE = Scale("share of words or layers", limits=(0, 1))
_ISOSCORE = Scale("IsoScore or IsoScore*")
_SIMILARITY = Scale("correlation with people's scores (×100)")
_PERFORMANCE = Scale("accuracy, F1 (%) or Matthews correlation (×100)")
_ORDERS = Scale("difference of log₁₀ I(W)", unit="orders of magnitude", axis="symlog")
_POINTS = Scale("difference of scores in points (accuracy in %, correlations ×100)", unit="points")
_SCORES = Scale("difference of IsoScore, IsoScore* or silhouette")
_COSINES = Scale("difference of mean cosines")
_CORRELATIONS = Scale("difference of correlations")
_DIMENSIONS = Scale("difference of local intrinsic dimensions", unit="dimensions")
_DEVIATION = Scale("standard deviation over initializations", axis="log")
_RELATIVE = Scale("share of the score of the whole cloud", axis="log")
_OBJECTIVES = Scale("difference of sums", axis="symlog")
_COMPARED = {
    "global": "global",
    "global_equal_variance": "global at equal variance",
    "random_parts": "random parts",
}

_COLUMNS: Mapping[Scale, Mapping[str, str]] = {
    CORRELATION: {
        "pearson_r": "Pearson's r of IsoScore and silhouette",
        "spearman_rho": "Spearman's ρ of IsoScore and silhouette",
        "rho": "Spearman's ρ with people's scores",
        "lambda_two_nn_rho": "Spearman's ρ of λ and intrinsic dimension",
        "isoscore_performance_r": "Pearson's r of IsoScore* and performance",
        "isoscore_silhouette_rho": "Spearman's ρ of IsoScore* and silhouette",
        "value against layer": "Spearman's ρ with the layer",
        "lid_euclidean against layer": "Spearman's ρ of local dimension and layer",
        "roll_along_frequency": "Spearman's ρ of unrolled coordinate and frequency",
    },
    COUNTS: {"n_items": "items", "n_params": "parameters", "n": "vectors", "d": "dimensions"},
    ISOTROPY: {
        "log10_isotropy": "log₁₀ I(W) of tokens",
        "log10_isotropy_sentences": "log₁₀ I(W) of sentences",
        "none_log10_isotropy": "log₁₀ I(W) of first tokens",
        "cluster_log10_isotropy": "log₁₀ I(W) of first tokens",
    },
    _COSINE: {
        "s_inter": "mean cosine of different words",
        "s_intra": "mean cosine of tokens of one word",
        "s_inter_adjusted_size": "size of the mean cosine within clusters",
        "mean_cosine": "mean cosine",
    },
    _SHARE: {
        "share_below": "share of words with a lower self-similarity",
        "has_clusters": "share of layers with clusters",
        "more_anisotropic": "share of layers below the input's isotropy",
    },
    _ISOSCORE: {"isoscore": "IsoScore", "isoscore_star": "IsoScore*"},
    _SIMILARITY: {"pearson": "Pearson's r × 100", "spearman": "Spearman's ρ × 100"},
    _PERFORMANCE: {
        "performance": "performance",
        "best": "performance of the best epoch",
        "none_performance": "performance without the method",
        "cluster_performance": "performance with the method",
    },
    _ORDERS: {
        "orders_gain": "rise of log₁₀ I(W)",
        "orders_matched_gain": "rise of log₁₀ I(W) at equal norm",
        "isotropy_change": "rise of log₁₀ I(W) of first tokens",
        **{
            f"orders{matched}_cluster_minus_{other}": f"log₁₀ I(W){at}, clusters − {name}"
            for matched, at in (("", ""), ("_matched", " at equal norm"))
            for other, name in _COMPARED.items()
        },
    },
    _POINTS: {
        "gain": "gain in Spearman's ρ",
        "cluster_minus_global": "Spearman's ρ, clusters − global",
        "kmeans_minus_gmm": "Spearman's ρ, k-means − mixture",
        "mean_minus_none": "Spearman's ρ, mean − none",
        "gmm_minus_kmeans_mean": "Spearman's ρ, mixture − means of clusters",
        "kmeans_mean_minus_mean": "Spearman's ρ, means of clusters − mean",
        "kmeans_minus_kmeans_mean": "Spearman's ρ, k-means − means of clusters",
        "inductive_mlp_gain": "gain in performance",
        "transductive_mlp_gain": "gain in performance",
        "performance_gain": "gain in performance by shrinkage",
        "performance_change": "change of performance",
        "change": "change of performance",
        "istar_minus_none": "performance, I-STAR − no penalty",
        "istar_minus_cosreg": "performance, I-STAR − CosReg",
        "none_minus_cosreg": "performance, no penalty − CosReg",
    },
    _SCORES: {
        "isoscore_change": "change of IsoScore in training",
        "silhouette_change": "change of the silhouette in training",
        "isoscore_gain": "rise of IsoScore",
        **{
            f"isoscore_cluster_minus_{k}": f"IsoScore, clusters − {v}" for k, v in _COMPARED.items()
        },
        "isoscore_star_change": "rise of IsoScore* from one λ to the next",
        "isoscore_star_change_positive": "change of IsoScore*, positive λ",
        "isoscore_star_change_negative": "change of IsoScore*, negative λ",
    },
    _COSINES: {
        "mean_cosine_change": "change of the mean cosine",
        "s_inter_reduction": "fall of the mean cosine's size",
        "s_inter_below_centred": "fall of the mean cosine's size, clusters − one mean",
        "s_inter_below_random_parts": "fall of the mean cosine's size, clusters − random parts",
        "s_intra_minus_inter_adjusted": "mean cosine, one word − different words",
    },
    _CORRELATIONS: {"difference": "difference of Spearman's ρ"},
    _DIMENSIONS: {
        "static_minus_contextual_equal_n": "local dimension, static − contextual",
        "static_minus_contextual_one_per_type": "local dimension, static − contextual by type",
    },
    _DEVIATION: {
        f"{score}_sd_{over}": f"standard deviation of {name}, {words} over steps"
        for score, name in (("isoscore", "IsoScore"), ("silhouette", "the silhouette"))
        for over, words in (("mean", "mean"), ("max", "largest"))
    },
    _RELATIVE: {
        "relative_error": "distance from the whole cloud's score, as a share of it",
        "relative_value": "standard deviation over batches, as a share of the whole cloud's score",
    },
    _OBJECTIVES: {
        "above_equation_1": "equation 5 − equation 1",
        "above_triplet_objective": "equation 5 − triplet objective",
    },
    Scale("cosine, or share of variance", limits=(0, 1)): {"value": "cosine, or share of variance"},
    Scale("IsoScore* with CosReg over that without", axis="log"): {
        "isoscore_star_ratio": "IsoScore* with CosReg / without"
    },
    Scale("local intrinsic dimension, as published", unit="dimensions"): {
        "lid_cosine_published": "local intrinsic dimension"
    },
    Scale("norm of the mean over the mean of the norms", limits=(0, 1)): {
        "none_mean_norm": "norm of the mean / mean of the norms"
    },
    Scale("how much the gap between IsoScore* and IsoScore shrinks", axis="symlog"): {
        "difference_falls": "how much the gap between IsoScore* and IsoScore shrinks"
    },
    Scale("the lesser of IsoScore and silhouette, minus 0.9"): {
        "lesser_above": "min(IsoScore, silhouette) − 0.9"
    },
    Scale("distance from the closed form", axis="log"): {
        "isoscore_error": "distance of IsoScore from the closed form"
    },
    Scale("residual variance of the best plane, less that of Isomap"): {
        "roll_gain": "residual variance, best plane − Isomap"
    },
}
_SCALES = {column: scale for scale, columns in _COLUMNS.items() for column in columns}
_NAMES = {column: name for columns in _COLUMNS.values() for column, name in columns.items()}


def scale_of(column: str) -> Scale:
    """Return the scale of a column of claims; one without an entry has a scale of its own."""
    return _SCALES.get(column) or Scale(column.replace("_", " "))


def name_of(column: str) -> str:
    """Return what the numbers of a column of claims are, in words."""
    return _NAMES.get(column, column.replace("_", " "))
