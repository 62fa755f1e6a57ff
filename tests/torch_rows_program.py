"""What each of two processes runs, started by torchrun: its share of the rows, and what came out of it to a file."""

import sys
import traceback

import numpy as np
import torch
import torch.distributed as dist

from blocks_problem import X0, M
from quartic import Problem, minimize
from quartic.init import spectral_start
from quartic.losses import LeastSquares
from quartic.losses.blocks.torch_rows import RowBlocks
from quartic.losses.devices import moved
from quartic.penalties import Nonnegative


def share(A, rank: int, dense: bool):
    rows = slice(0, 150) if rank == 0 else slice(150, 400)
    return torch.from_numpy(A.toarray()[rows]) if dense else moved(A[rows], "cpu")


def main() -> None:
    dist.init_process_group("gloo")
    rank, found = dist.get_rank(), {}
    for dense in (False, True):
        loss = LeastSquares(RowBlocks(share(M, rank, dense)))
        problem = Problem(loss, Nonnegative())
        for solver in ("inertial", "lbfgs", "hals"):
            result = minimize(problem, torch.from_numpy(X0), solver=solver, tol=0.0, max_iter=20)
            found[f"{solver} {dense}"] = result.X.numpy()
        found[f"spectral {dense}"] = minimize(problem, spectral_start, rank=4, random_state=0).X.numpy()
        found[f"facts {dense}"] = [loss.matrix.squared_norm, loss.matrix.total()[0], loss.matrix.checksum()]
    bad, infinite = M.copy().tolil(), M.copy()
    bad[20, 300] += 0.5
    infinite.data[-1] = np.inf
    for name, A, dense in (("bad", bad.tocsr(), False), ("bad", bad.tocsr(), True), ("infinite", infinite, False)):
        try:
            RowBlocks(share(A, rank, dense))
        except ValueError as error:
            found[f"{name} {dense}"] = str(error)
    try:
        minimize(problem, rank=3, random_state=rank)
    except ValueError as error:
        found["seeds"] = str(error)
    np.savez(f"{sys.argv[1]}/{rank}.npz", **found)
    # a process that ends with its group still there may abort: threads of the backend are under way
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        raise
