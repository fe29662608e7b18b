"""What `isotropy.metrics` offers, for type checkers and editors."""

from isotropy.metrics.clusters import ClusterCount as ClusterCount
from isotropy.metrics.clusters import cluster_count as cluster_count
from isotropy.metrics.contextuality import (
    ExplainableVariance as ExplainableVariance,
)
from isotropy.metrics.contextuality import (
    IntraSentenceSimilarity as IntraSentenceSimilarity,
)
from isotropy.metrics.contextuality import (
    MeanCosine as MeanCosine,
)
from isotropy.metrics.contextuality import (
    SelfSimilarity as SelfSimilarity,
)
from isotropy.metrics.contextuality import (
    cosine_between as cosine_between,
)
from isotropy.metrics.contextuality import (
    cosine_contributions as cosine_contributions,
)
from isotropy.metrics.contextuality import (
    explainable_variance as explainable_variance,
)
from isotropy.metrics.contextuality import (
    first_components as first_components,
)
from isotropy.metrics.contextuality import (
    intra_sentence_null as intra_sentence_null,
)
from isotropy.metrics.contextuality import (
    intra_sentence_similarity as intra_sentence_similarity,
)
from isotropy.metrics.contextuality import (
    self_similarity as self_similarity,
)
from isotropy.metrics.cosines import (
    StreamingMeanCosine as StreamingMeanCosine,
)
from isotropy.metrics.cosines import (
    TypeCosines as TypeCosines,
)
from isotropy.metrics.cosines import (
    mean_cosine as mean_cosine,
)
from isotropy.metrics.cosines import (
    mean_cosine_standard_error as mean_cosine_standard_error,
)
from isotropy.metrics.cosines import (
    s_inter as s_inter,
)
from isotropy.metrics.cosines import (
    s_intra as s_intra,
)
from isotropy.metrics.cosines import (
    type_cosines as type_cosines,
)
from isotropy.metrics.dimension import LidEstimates as LidEstimates
from isotropy.metrics.dimension import lid_mle as lid_mle
from isotropy.metrics.dimension import lid_mle_estimates as lid_mle_estimates
from isotropy.metrics.dimension import lid_mle_samples as lid_mle_samples
from isotropy.metrics.dimension import two_nn as two_nn
from isotropy.metrics.identities import (
    cosine_to_ones as cosine_to_ones,
)
from isotropy.metrics.identities import (
    hinged_triplet_objective as hinged_triplet_objective,
)
from isotropy.metrics.identities import (
    isotropy_defect as isotropy_defect,
)
from isotropy.metrics.identities import (
    silhouette_objective as silhouette_objective,
)
from isotropy.metrics.identities import (
    triplet_objective as triplet_objective,
)
from isotropy.metrics.identities import (
    variance_by_pairs as variance_by_pairs,
)
from isotropy.metrics.isoscores import (
    ShrinkageCovariance as ShrinkageCovariance,
)
from isotropy.metrics.isoscores import (
    StreamingCovariance as StreamingCovariance,
)
from isotropy.metrics.isoscores import (
    StreamingIsoScore as StreamingIsoScore,
)
from isotropy.metrics.isoscores import (
    isoscore as isoscore,
)
from isotropy.metrics.isoscores import (
    isoscore_from_covariance as isoscore_from_covariance,
)
from isotropy.metrics.isoscores import (
    isoscore_standard_error as isoscore_standard_error,
)
from isotropy.metrics.isoscores import (
    isoscore_star as isoscore_star,
)
from isotropy.metrics.partition import StreamingPartition as StreamingPartition
from isotropy.metrics.partition import partition_isotropy as partition_isotropy
from isotropy.metrics.silhouettes import (
    distance_sums as distance_sums,
)
from isotropy.metrics.silhouettes import (
    silhouette as silhouette,
)
from isotropy.metrics.silhouettes import (
    silhouette_from_sums as silhouette_from_sums,
)
from isotropy.metrics.silhouettes import (
    silhouette_of_labelings as silhouette_of_labelings,
)
from isotropy.metrics.silhouettes import (
    silhouette_samples as silhouette_samples,
)
from isotropy.metrics.unbiased import (
    StreamingUnbiasedIsoScore as StreamingUnbiasedIsoScore,
)
from isotropy.metrics.unbiased import (
    isoscore_unbiased as isoscore_unbiased,
)
from isotropy.metrics.unbiased import (
    isoscore_unbiased_standard_error as isoscore_unbiased_standard_error,
)
