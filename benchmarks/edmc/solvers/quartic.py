"""The paper's methods and ours, by name."""
# ruff: noqa: RUF012  # benchopt asks for plain lists and dictionaries as class attributes

from benchopt import BaseSolver

from quartic.bench.edmc import METHODS, RANK, make, run_method
from quartic.bench.edmc import warm_up as compile_all
from quartic.core.loop import minimize


class Solver(BaseSolver):
    name = "quartic"
    requirements = ["pip::quartic"]
    sampling_strategy = "callback"
    parameters = {"method": list(METHODS)}

    def set_objective(self, case, seed):
        self.case, self.seed = case, seed

    def warm_up(self):
        compile_all((self.method,), run_method)

    def run(self, callback):
        def tell(progress):
            self.X = progress.X
            if not callback():
                raise StopIteration

        problem, solver = make(self.case, self.method)
        result = minimize(problem, rank=RANK, solver=solver, tol=1e-10, callback=tell, random_state=self.seed)
        self.X = result.X

    def get_result(self):
        return {"X": self.X}
