"""Planted graphs, which need no files."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseDataset

from quartic.datasets import planted_graph


class Dataset(BaseDataset):
    name = "planted"
    requirements = ["pip::quartic"]
    parameters = {"n, communities": [(1000, 10), (5000, 20)]}
    test_parameters = {"n, communities": [(100, 3)]}

    def get_data(self):
        matrix, labels = planted_graph(self.n, self.communities, random_state=0)
        return {"name": f"planted-{self.n}-{self.communities}", "matrix": matrix, "labels": labels}
