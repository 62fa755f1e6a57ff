"""The similarity matrices of the paper, from the data folder (``QUARTIC_DATA``)."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseDataset

from quartic.datasets import load_similarity


class Dataset(BaseDataset):
    name = "paper"
    requirements = ["pip::quartic"]
    parameters = {"data": ["coil20", "cbcl", "tdt2", "reuters"]}

    def get_data(self):
        found = load_similarity(self.data)
        return {"name": self.data, "matrix": found.matrix, "labels": found.labels}
