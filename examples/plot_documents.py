"""
Documents into topics
=====================

The documents are the manual pages of SciPy's own functions, which every installation carries: what `scipy.stats` says
of its distributions, `scipy.fft` of its transforms, and so on. Topics are found from word counts; the words with the
largest weights say what a topic is about. The subpackage each page came from is not used, except to evaluate the
topics.
"""

# %%
# The documents
# -------------
import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import CountVectorizer

from quartic import SymNMF
from quartic.metrics import clustering_accuracy, nmi

PARTS = ("fft", "spatial.distance", "stats", "signal", "optimize", "sparse.linalg", "ndimage", "interpolate")


def pages(part):
    """Return the manual pages of a subpackage, one for each public function or class."""
    module = importlib.import_module(f"scipy.{part}")
    found = {name: inspect.getdoc(getattr(module, name)) or "" for name in module.__all__}
    return [text for _, text in sorted(found.items()) if len(text) > 400]


documents, labels = [], []
for number, part in enumerate(PARTS):
    texts = pages(part)
    documents += texts
    labels += [number] * len(texts)
print(f"{len(documents)} pages from {len(PARTS)} subpackages")

# %%
# Words that stand on nearly every page, and those on very few, say nothing.
counter = CountVectorizer(stop_words="english", token_pattern=r"[a-z]{4,}", min_df=5, max_df=0.3)
counts = counter.fit_transform(documents)
words = counter.get_feature_names_out()
print(f"{len(words)} different words")

# %%
# The topics
# ----------
# ``affinity="cosine"`` makes the graph: pages that use the same words in the same shares are neighbours.
model = SymNMF(len(PARTS), affinity="cosine", random_state=0).fit(counts)
print(f"share of pages in the right topic: {clustering_accuracy(labels, model.labels_):.2f}")
print(f"normalised mutual information:     {nmi(labels, model.labels_):.2f}")
plain = KMeans(len(PARTS), random_state=0, n_init=10).fit_predict(counts)
print(f"the same of k-means on the counts: {nmi(labels, plain):.2f}")

# %%
# The words of a topic: those more frequent in it than elsewhere.
overall = np.asarray(counts.sum(0)).ravel() / counts.sum()
for topic in range(len(PARTS)):
    here = np.asarray(counts[model.labels_ == topic].sum(0)).ravel()
    surprise = here / here.sum() * np.log((here / here.sum() + 1e-9) / overall)
    print(f"topic {topic} ({(model.labels_ == topic).sum():3d} pages):", *words[np.argsort(-surprise)[:7]])

# %%
# Which subpackage the pages of a topic came from, and the similarities ordered by topic.
table = np.zeros((len(PARTS), len(PARTS)), int)
np.add.at(table, (labels, model.labels_), 1)
order = np.argsort(table.argmax(0), kind="stable")
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
left.imshow(table[:, order] / table.sum(1, keepdims=True), cmap="cividis")
left.set_yticks(range(len(PARTS)), PARTS)
left.set_xticks(range(len(PARTS)), order)
left.set(xlabel="topic", title="Pages by subpackage and topic")
for (row, column), count in np.ndenumerate(table[:, order]):
    if count:
        left.text(column, row, count, ha="center", va="center", fontsize=8,
                  color="black" if count > 0.5 * table[row].sum() else "white")  # fmt: skip
model.plot_similarity(ax=right)
