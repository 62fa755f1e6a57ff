"""The paper's helix, a share of whose distances is known, exactly or with noise."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseDataset

from quartic.bench import Helix


class Dataset(BaseDataset):
    name = "helix"
    requirements = ["pip::quartic"]
    parameters = {"n": [2000, 5000], "known": [0.1, 0.05], "noise": [0.0, 0.05]}
    test_parameters = {"n": [60], "known": [0.5], "noise": [0.0]}

    def get_data(self):
        return {"case": Helix(self.n, self.known, self.noise)}
