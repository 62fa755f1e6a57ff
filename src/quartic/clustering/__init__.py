"""Clustering: the estimator, the choice of the number of clusters."""
