"""
Clustering images
=================

1,797 handwritten digits of 8 × 8 pixels, from scikit-learn. The similarity is the paper's for images: a Gaussian
whose width adapts to how dense the neighbourhood is, kept for the nearest neighbours only. The labels are
not used.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from quartic import SymNMF
from quartic.metrics import clustering_accuracy

digits = load_digits()
model = SymNMF(10, affinity="self_tuning", random_state=0).fit(digits.data)
accuracy = clustering_accuracy(digits.target, model.labels_)
means = clustering_accuracy(digits.target, KMeans(10, n_init=10, random_state=0).fit_predict(digits.data))
print(f"in the right cluster: {accuracy:.1%} (k-means: {means:.1%})")
print(model.result_.message)

# %%
# A row for each cluster: the six images that belong to it most, and the six whose largest share is in it by the
# least.
figure, axes = plt.subplots(10, 13, figsize=(7.5, 6), layout="constrained")
for cluster, row in enumerate(axes):
    members = np.flatnonzero(model.labels_ == cluster)
    members = members[np.argsort(-model.memberships_[members, cluster])]
    chosen = [*members[:6], None, *members[-6:]]
    for cell, image in zip(row, chosen, strict=True):
        cell.set_axis_off()
        if image is not None:
            cell.imshow(digits.images[image], cmap="gray_r")
figure.suptitle("Most typical of each cluster (left), and in doubt (right)")

# %%
# The similarity matrix, rows and columns ordered by cluster: ten blocks.
model.plot_similarity()
