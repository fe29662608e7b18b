"""Scales on which the numbers of claims are drawn: those with the same unit share an axis."""

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
_COSINE = Scale("mean cosine, or its size")
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
_OBJECTIVES = Scale("difference of the sums in Appendix B", axis="symlog")

_COLUMNS: Mapping[Scale, tuple[str, ...]] = {
    CORRELATION: (
        *("pearson_r", "spearman_rho", "rho", "lambda_two_nn_rho"),
        *("isoscore_performance_r", "isoscore_silhouette_rho"),
        *("value against layer", "lid_euclidean against layer", "roll_along_frequency"),
    ),
    COUNTS: ("n_items", "n_params", "n", "d"),
    ISOTROPY: (
        *("log10_isotropy", "log10_isotropy_sentences"),
        *("none_log10_isotropy", "cluster_log10_isotropy"),
    ),
    _COSINE: ("s_inter", "s_intra", "s_inter_adjusted_size", "mean_cosine"),
    _SHARE: ("share_below", "has_clusters", "more_anisotropic"),
    _ISOSCORE: ("isoscore", "isoscore_star"),
    _SIMILARITY: ("pearson", "spearman"),
    _PERFORMANCE: ("performance", "best", "none_performance", "cluster_performance"),
    _ORDERS: (
        *("orders_gain", "orders_matched_gain", "isotropy_change"),
        *(
            f"{prefix}_cluster_minus_{other}"
            for prefix in ("orders", "orders_matched")
            for other in ("global", "global_equal_variance", "random_parts")
        ),
    ),
    _POINTS: (
        *("gain", "cluster_minus_global", "kmeans_minus_gmm", "mean_minus_none"),
        *("gmm_minus_kmeans_mean", "kmeans_mean_minus_mean", "kmeans_minus_kmeans_mean"),
        *("inductive_mlp_gain", "transductive_mlp_gain", "performance_gain"),
        *("performance_change", "change"),
        *("istar_minus_none", "istar_minus_cosreg", "none_minus_cosreg"),
    ),
    _SCORES: (
        *("isoscore_change", "silhouette_change", "isoscore_gain"),
        *("isoscore_cluster_minus_global", "isoscore_cluster_minus_global_equal_variance"),
        *("isoscore_cluster_minus_random_parts", "isoscore_star_change"),
        *("isoscore_star_change_positive", "isoscore_star_change_negative"),
    ),
    _COSINES: (
        *("mean_cosine_change", "s_inter_reduction", "s_inter_below_centred"),
        *("s_inter_below_random_parts", "s_intra_minus_inter_adjusted"),
    ),
    _CORRELATIONS: ("difference",),
    _DIMENSIONS: ("static_minus_contextual_equal_n", "static_minus_contextual_one_per_type"),
    _DEVIATION: ("isoscore_sd_mean", "isoscore_sd_max", "silhouette_sd_mean", "silhouette_sd_max"),
    _RELATIVE: ("relative_error", "relative_value"),
    _OBJECTIVES: ("above_equation_1", "above_triplet_objective"),
    Scale("cosine, or share of variance", limits=(0, 1)): ("value",),
    Scale("IsoScore* with CosReg over that without", axis="log"): ("isoscore_star_ratio",),
    Scale("local intrinsic dimension, as published", unit="dimensions"): ("lid_cosine_published",),
    Scale("norm of the mean over the mean of the norms", limits=(0, 1)): ("none_mean_norm",),
    Scale("fall of the difference, as a share of IsoScore", axis="symlog"): ("difference_falls",),
    Scale("the lesser of IsoScore and silhouette, above 0.9"): ("lesser_above",),
    Scale("distance from the closed form", axis="log"): ("isoscore_error",),
    Scale("residual variance of the best plane, less that of Isomap"): ("roll_gain",),
}
_SCALES = {column: scale for scale, columns in _COLUMNS.items() for column in columns}


def scale_of(column: str) -> Scale:
    """Return the scale of a column of claims; one without an entry has a scale of its own."""
    return _SCALES.get(column) or Scale(column.replace("_", " "))
