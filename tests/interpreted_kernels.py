"""Compare each Triton kernel with plain torch; called by test_triton.py with the name of a comparison."""

import os
import sys
import warnings
from unittest.mock import patch

import numpy as np
import torch

warnings.simplefilter("ignore")

from triton.runtime import interpreter  # noqa: E402

set_attribute = interpreter._LangPatchScope.set_attr


def set_attribute_for_new_numpy(scope, thing, name, value):
    """Let an array of one entry be an index: NumPy 2.5 no longer does, and Triton asks for it up to 3.6."""
    if name == "__index__":
        value = lambda tensor: int(tensor.handle.data.squeeze())  # noqa: E731
    set_attribute(scope, thing, name, value)


interpreter._LangPatchScope.set_attr = set_attribute_for_new_numpy

from quartic import Problem, minimize  # noqa: E402
from quartic.arrays.space import Fresh  # noqa: E402
from quartic.losses import Distances, LeastSquares  # noqa: E402
from quartic.losses.factor import torch as torch_factor  # noqa: E402
from quartic.losses.factor.passes import Origin  # noqa: E402
from quartic.losses.pairs import torch as passes  # noqa: E402
from quartic.losses.pairs.pairs import HESSIAN, LINE, LINEARIZE, PRODUCT, QUARTIC, REMAINDER, VALUE  # noqa: E402
from quartic.penalties import Nonnegative  # noqa: E402

rng = np.random.default_rng(0)


def both(work):
    """Return what the work gives with our kernels and without."""
    results = []
    for switch in ("1", "0"):
        os.environ["QUARTIC_TRITON"] = switch
        results.append([np.asarray(x, dtype=np.float64) for x in work()])
    return zip(*results, strict=True)


def compare(work, tolerance, label):
    for k, (ours, plain) in enumerate(both(work)):
        np.testing.assert_allclose(ours, plain, rtol=tolerance, atol=tolerance, err_msg=f"{label}, number {k}")
    print("compared", label)


def distances(n, weighted, dtype=torch.float64):
    pairs = np.array(np.triu_indices(n, 1)).T
    pairs = torch.from_numpy(pairs[rng.random(len(pairs)) < 0.3])
    squared = torch.from_numpy(rng.random(len(pairs))).to(dtype)
    return Distances(pairs, squared, n, torch.from_numpy(rng.random(len(pairs))).to(dtype) if weighted else None)


def tall(n, r, dtype=torch.float64):
    return torch.from_numpy(rng.standard_normal((n, r))).to(dtype)


def pairs():
    for rank, weighted, dtype in [
        (1, False, torch.float64), (2, True, torch.float64), (3, False, torch.float32), (3, True, torch.float64),
        (4, True, torch.float64), (2, False, torch.float64),
    ]:  # fmt: skip
        loss, X, D = distances(50, weighted, dtype), tall(50, rank, dtype), tall(50, rank, dtype)

        def work(loss=loss, X=X, D=D):
            data, nothing = loss.pairs, torch.full_like(X, np.nan)
            G, G2, H, J = (nothing.clone() for _ in range(4))
            C = torch.full((len(X), 3, X.shape[1]), np.nan, dtype=X.dtype)
            B = torch.full((len(X), X.shape[1] * (X.shape[1] + 1) // 2), np.nan, dtype=torch.float64)
            numbers = [*data.run(VALUE, X, None, G), *data.run(REMAINDER, X, D, G2), *data.run(LINE, X, D, C)]
            numbers += [*data.run(LINEARIZE, X, None, nothing, B), *data.run(QUARTIC, X, D)]
            assert data.run(HESSIAN, X, D, H) == data.run(PRODUCT, X, D, J) == ()
            return [float(x) for x in numbers] + [G, G2, C, H, B, J, nothing]

        compare(work, 1e-10 if dtype == torch.float64 else 1e-3, f"pairs of rank {rank}")


def blocks():
    for rank in (1, 3, 5):
        half = torch.from_numpy(rng.standard_normal((40, rank, rank + 1)))
        whole = half @ half.transpose(1, 2)
        whole[3] = 0.0
        rows, columns = torch.tril_indices(rank, rank)
        packed, R = whole[:, rows, columns].contiguous(), tall(40, rank)

        def work(packed=packed, rank=rank, R=R):
            Z = torch.full_like(R, np.nan)
            L = passes.factor_blocks(packed, 0.1, rank)
            rz = passes.solve_blocks(L, R, Z)
            H, D, S, P = R.flip(0).clone(), Z.clone(), R.clone(), Z.clone()
            step = passes.advance(rz, 0.2, P, H, L, D, S, Z)
            return [L, float(rz), *(float(x) for x in step), D, S, Z, P]

        compare(work, 1e-10, f"blocks of rank {rank}")
        inverse = torch.linalg.inv(whole + 0.1 * torch.eye(rank, dtype=torch.float64))
        np.testing.assert_allclose(passes.factor_blocks(packed, 0.1, rank), inverse, rtol=1e-8)


def factor():
    for rank, dtype in [(1, torch.float64), (3, torch.float32), (16, torch.float64), (40, torch.float32)]:
        X, Y, MX, MY = (tall(201, rank, dtype) for _ in range(4))
        X = X.clamp(min=0) if rank != 3 else X
        A = torch.from_numpy(rng.standard_normal((rank, rank)))

        def work(X=X, Y=Y, MX=MX, MY=MY, A=A):
            P, Q = (torch.full_like(X, np.nan) for _ in range(2))
            here = Origin.at(X, MX)
            ahead, S = torch_factor.extrapolated(Origin(X, MX, Y, MY, 0.3), Fresh())
            found = [
                S,
                torch_factor.gram_at(here),
                torch_factor.stepped(here, A, 0.2, 0.3, 0.35, 0.1, True, P),
                torch_factor.stepped(here, A, 0.0, 0.0, -1.0, 0, False, Q),
            ]
            step = torch_factor.step_sums(X, MX, Origin.at(Y, MY), None, True)
            sums = [float(x) for x in (step.bend, step.along, step.length, step.fit)]
            found += [step.gram, step.curved, *sums, bool(step.feasible), torch_factor.projected_norm(X, A, MX)]
            return [ahead.X, ahead.MX, P, Q, *found]

        compare(work, 1e-10 if dtype == torch.float64 else 2e-4, f"factor of rank {rank}")


def shrunk():
    """The norm kernel's last step, over the whole range of the cubic."""
    from quartic.arrays.space_torch import DeviceSpace

    space = DeviceSpace(torch.device("cpu"))

    for size in (1e-30, 1e-9, 1e-3, 1.0, 50.0, 1e6, 1e40):
        for dtype in (torch.float64,) if size > 1e30 or size < 1e-20 else (torch.float64, torch.float32):
            W = (size * tall(70, 5, dtype)).contiguous()

            def work(W=W):
                V = W.clone()
                space.shrink(V, space.inner(W, W), 6.0, 0.3)
                return [V / float(abs(V).max())]

            compare(work, 1e-13 if dtype == torch.float64 else 1e-6, f"shrunk from {size}")


def swept():
    """A sweep of coordinate descent; the third column has no curvature and stays."""
    from quartic.arrays.space_torch import DeviceSpace

    space = DeviceSpace(torch.device("cpu"))
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-4)):
        for r in (3, 16, 33):
            X, B, A = tall(70, r, dtype).clamp(min=0), tall(70, r, dtype), rng.standard_normal((r + 3, r))
            A[:, 2] = 0

            def work(X=X, B=B, A=A):
                V = X.clone()
                space.sweep_rows(V, A.T @ A, B)
                return [V]

            compare(work, tolerance, f"swept, rank {r}, {dtype}")


def runs():
    """Whole runs: the loop, the losses and the kernels together."""
    A = rng.random((60, 60))
    M, X0 = torch.from_numpy(A + A.T), torch.from_numpy(rng.random((60, 4)))
    problem = Problem(LeastSquares(M), Nonnegative())
    compare(lambda: [minimize(problem, X0, solver="inertial", tol=0.0, max_iter=6).X], 1e-9, "a run of inertial")
    located, X0 = Problem(distances(40, False)), tall(40, 3)
    for solver in ("lm", "dyn-nolips"):
        compare(lambda s=solver: [minimize(located, X0, solver=s, tol=0.0, max_iter=4).X], 1e-8, f"a run of {solver}")


def inner_products_of_pairs():
    """Of float32 by leading and following digits, with the gradient on the face in place of the next pair."""
    from quartic.losses.factor import replay_triton as kernels

    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
        size, head, numbers = 200, 3, torch.zeros(kernels.COUNT, dtype=torch.float64)
        numbers[kernels.HEAD.value] = head
        pairs, G, X = tall(16, size, dtype), tall(size, 1, dtype)[:, 0], tall(size, 1, dtype)[:, 0].clamp(min=0)
        free, sums = torch.ones(size, dtype=torch.int8), torch.empty((2, 16, 16), dtype=torch.float64)
        face, P = ((X > 0) | (G < 0)).double(), pairs.double()
        P[head], P[head + 8] = G.double(), 0
        expected, kept = (P * face) @ (P * face).T, (pairs * face.to(dtype)).clone()
        kernels.multiply_pairs[(2,)](numbers, pairs, X, G, free, sums, size, 7, R=32, C=16, num_warps=1)
        np.testing.assert_allclose(sums.sum(0), expected, rtol=tolerance, atol=tolerance * float(expected.max()))
        rows = [k for k in range(16) if k not in (head, head + 8)]
        np.testing.assert_array_equal(pairs[rows], kept[rows])  # what left the face is forgotten


def replays():
    """Iterations that a device makes by itself are those of NumPy, failed trials and the host's turns included."""
    from quartic.losses.factor import loss, replay_torch

    inner_products_of_pairs()
    Replay = replay_torch.Replay
    made, run = [], Replay.run

    def keep(self, count, target):
        found = run(self, count, target)
        made.append(len(found))
        return found

    Replay.run = keep
    Y = rng.random((40, 5))
    M, X0 = Y @ Y.T, rng.random((40, 3))
    here, there = (Problem(LeastSquares(A), Nonnegative()) for A in (M, torch.from_numpy(M)))
    for solver in ("inertial", "lbfgs"):
        made.clear()
        ours, theirs = (
            minimize(p, X, solver=solver, tol=0.0, max_iter=24) for p, X in ((here, X0), (there, torch.from_numpy(X0)))
        )
        np.testing.assert_allclose(theirs.X, ours.X, atol=1e-9, rtol=1e-9)
        for name in ("objective", "stationarity", "step"):
            found, expected = getattr(theirs.history, name), getattr(ours.history, name)
            np.testing.assert_allclose(found, expected, rtol=1e-7, err_msg=f"{solver}, {name}")
        assert theirs.n_products == ours.n_products, (theirs.n_products, ours.n_products)
        assert sum(made) >= 18, made  # most iterations were the device's own
        ours, theirs = (minimize(p, X, solver=solver, tol=1e-2) for p, X in ((here, X0), (there, torch.from_numpy(X0))))
        assert theirs.success, theirs.message
        assert theirs.n_iter == ours.n_iter, (theirs.n_iter, ours.n_iter)
        watched = []
        minimize(
            there,
            torch.from_numpy(X0),
            solver=solver,
            tol=0.0,
            max_iter=5,
            callback=lambda p, w=watched: w.append(p.n_iter),
        )
        assert watched == [1, 2, 3, 4, 5], watched  # a callback sees every iterate
    # every step counts as short: no point on the way to a trial that fails is taken, and trials are made again
    made.clear()
    with patch.object(loss, "SHORT", 2.0**60), patch.object(replay_torch, "SHORT", 2.0**60):
        ours, theirs = (
            minimize(p, X, solver="inertial", tol=0.0, max_iter=60)
            for p, X in ((here, X0), (there, torch.from_numpy(X0)))
        )
    np.testing.assert_allclose(theirs.X, ours.X, atol=1e-9, rtol=1e-9)
    assert theirs.n_products == ours.n_products > 66, (theirs.n_products, ours.n_products)
    assert sum(made) >= 54, made
    print("compared replays")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
