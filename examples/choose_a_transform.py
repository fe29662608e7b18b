"""Choose a transform that makes a model's embeddings more isotropic, save it, and use it behind
sentence-transformers.

    python examples/choose_a_transform.py MODEL [--texts FILE]

MODEL is a folder or a name that SentenceTransformer takes; FILE has a sentence per line. Needs the
package sentence-transformers. The best by IsoScore need not be the best for your task: measure
that, too.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer

from isotropy.metrics import isoscore, mean_cosine
from isotropy.transform_files import load_transform, save_transform
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement

TOPICS = ["the film", "her plot", "a long song", "this old game", "our third novel", "his show"]
WORDS = ["is dull", "was loved", "works well", "falls flat", "moves fast", "needs time"]

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("model")
parser.add_argument("--texts", type=Path, help="a sentence per line; default: 36 built-in ones")
arguments = parser.parse_args()
texts = (
    arguments.texts.read_text("utf8").splitlines()
    if arguments.texts
    else [f"{topic} {words}" for topic in TOPICS for words in WORDS]
)

model = SentenceTransformer(arguments.model, device="cpu")
vectors = model.encode(texts)
print(f"{'before':24} IsoScore {isoscore(vectors):.3f}, mean cosine {mean_cosine(vectors):.3f}")
candidates = [Center(), AllButTheTop(2), ClusterBasedEnhancement(3, 2)]
scores = {}
for transform in candidates:
    after = transform.fit_transform(vectors)
    scores[transform] = isoscore(after)
    name = type(transform).__name__
    print(f"{name:24} IsoScore {scores[transform]:.3f}, mean cosine {mean_cosine(after):.3f}")

best = max(scores, key=scores.get)
file = Path(tempfile.mkdtemp()) / "transform.safetensors"
save_transform(best, file)  # arrays and parameters, no pickle

# Later, or elsewhere:
transform = load_transform(file)
query = transform.transform(model.encode(["a film that works"]))[0]
known = transform.transform(vectors)
cosines = known @ query / (np.linalg.norm(known, axis=1) * np.linalg.norm(query))
print(f"nearest to 'a film that works', by {type(best).__name__}: {texts[cosines.argmax()]!r}")
