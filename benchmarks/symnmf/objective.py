"""Symmetric NMF: ½‖M − XXᵀ‖² over X ≥ 0, judged by quartic's referee. Run with ``benchopt run benchmarks/symnmf``."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

import numpy as np
from benchopt import BaseObjective

from quartic.bench.symnmf import Case, Cell
from quartic.core.loop import referee
from quartic.init import random_start


class Objective(BaseObjective):
    name = "symmetric NMF"
    min_benchopt_version = "1.6"
    requirements = ["pip::quartic"]
    # rank None: as many columns as the data set has classes, or 20
    parameters = {"rank": [None], "seed": [0]}
    test_config = {"dataset": {"name": "planted", "n": 100, "communities": 3}}

    def set_data(self, name, matrix, labels):
        rank = self.rank or (20 if labels is None else int(labels.max()) + 1)
        self.case = Case(Cell(name, rank), matrix, labels)
        self.reference = self.case.reference(self.seed)

    def get_objective(self):
        return {"case": self.case, "seed": self.seed}

    def evaluate_result(self, X):
        objective, stationarity = referee(self.case.judge, X)
        return {"value": objective, "projected_gradient": stationarity / self.reference}

    def get_one_result(self):
        return {"X": random_start(self.case.judge, self.case.cell.rank, np.random.default_rng(0))}
