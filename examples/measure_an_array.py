"""Measure embeddings that you have as an array: how isotropic, how large a dimension, how well
classes are separated.

    python examples/measure_an_array.py

What the library does here, `isotropy measure vectors.npy --labels labels.txt` does for a file of
any size.
"""

import numpy as np

from isotropy.metrics import isoscore, mean_cosine, silhouette, two_nn

# Two classes of 500 vectors of 64 dimensions. All share a large mean, as hidden layers do.
draws = np.random.default_rng(0)
labels = np.repeat(["negative", "positive"], 500)
centres = {"negative": draws.normal(size=64), "positive": draws.normal(size=64)}
vectors = np.stack([centres[label] for label in labels]) + draws.normal(size=(1000, 64)) + 3

print(f"IsoScore      {isoscore(vectors):.3f}   0: a line, 1: the same variance everywhere")
print(f"mean cosine   {mean_cosine(vectors):.3f}   over all pairs: the shared mean shows")
print(f"TwoNN         {two_nn(vectors):.1f}    intrinsic dimension, of 64")
print(f"silhouette    {silhouette(vectors, labels):.3f}   of the two classes")

centred = vectors - vectors.mean(axis=0)
print(f"mean cosine without the mean: {mean_cosine(centred):.3f}")
print(f"IsoScore without the mean: {isoscore(centred):.3f}, as it was: it measures variances")
