"""Metrics of embedding spaces. Each takes a point cloud of shape (n, d) as array or tensor.

Names are imported on first use: a program that computes IsoScore does not import the neighbour
search. Within the project, import from the modules themselves, so that a job's code identity covers
only the metrics that it uses.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "clusters": ["ClusterCount", "cluster_count"],
    "contextuality": [
        "ExplainableVariance",
        "IntraSentenceSimilarity",
        "MeanCosine",
        "SelfSimilarity",
        "cosine_between",
        "cosine_contributions",
        "explainable_variance",
        "first_components",
        "intra_sentence_null",
        "intra_sentence_similarity",
        "self_similarity",
    ],
    "cosines": [
        "StreamingMeanCosine",
        "TypeCosines",
        "mean_cosine",
        "mean_cosine_standard_error",
        "s_inter",
        "s_intra",
        "type_cosines",
    ],
    "dimension": ["LidEstimates", "lid_mle", "lid_mle_estimates", "lid_mle_samples", "two_nn"],
    "identities": [
        "cosine_to_ones",
        "hinged_triplet_objective",
        "isotropy_defect",
        "silhouette_objective",
        "triplet_objective",
        "variance_by_pairs",
    ],
    "isoscores": [
        "ShrinkageCovariance",
        "StreamingCovariance",
        "StreamingIsoScore",
        "isoscore",
        "isoscore_from_covariance",
        "isoscore_standard_error",
        "isoscore_star",
    ],
    "partition": ["StreamingPartition", "partition_isotropy"],
    "silhouettes": [
        "distance_sums",
        "silhouette",
        "silhouette_from_sums",
        "silhouette_of_labelings",
        "silhouette_samples",
    ],
    "unbiased": [
        "StreamingUnbiasedIsoScore",
        "isoscore_unbiased",
        "isoscore_unbiased_standard_error",
    ],
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
