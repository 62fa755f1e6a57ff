"""The passes of `quartic.losses.pairs.gauss_newton` for torch tensors."""

from __future__ import annotations

from typing import Any

import torch

from quartic.arrays.torch_tall import DOUBLE, dot
from quartic.arrays.waiting import Waiting, entries
from quartic.compiled.torch_kernels import kernels_for
from quartic.losses.pairs.torch import Pass, _by_row, _distances_only, _pairs, _quartic, _some, _terms


def linearize(rank: int, difference: bool, weighted: bool) -> Pass:
    """Return the pass ``(X, start, cols, target, weight, G, B) -> f(X)``, which fills G with ∇f, B with row blocks."""
    _distances_only(difference)

    def run(X: Any, start: Any, cols: Any, target: Any, weight: Any, G: Any, B: Any) -> Any:
        kernels = kernels_for("triton_pairs", X)
        if kernels is not None:
            return entries(kernels.pairs("linearize", X, X, start, cols, target, _some(weight, weighted), G, B))[0]
        i, j, w = _pairs(start, cols, target, weight, weighted)
        u = (X[i] - X[j]).to(DOUBLE)
        e = u.square().sum(1) - target
        _by_row(G, i, (2 * w * e)[:, None] * u)
        rows, columns = torch.tril_indices(X.shape[1], X.shape[1], device=X.device)
        _by_row(B, i, (4 * w)[:, None] * u[:, rows] * u[:, columns])
        return entries((0.5 * 0.5 * (w * e * e).sum()).reshape(1))[0]

    return run


def product(rank: int, difference: bool, weighted: bool) -> Pass:
    """Return the pass ``(X, V, start, cols, weight, H)``, which fills H with JᵀWJ V."""
    _distances_only(difference)

    def run(X: Any, V: Any, start: Any, cols: Any, weight: Any, H: Any) -> None:
        kernels = kernels_for("triton_pairs", X)
        if kernels is not None:
            kernels.pairs("product", X, V, start, cols, weight, _some(weight, weighted), H)
            return
        i, j, w = _pairs(start, cols, weight, weight, weighted)
        u, v = (X[i] - X[j]).to(DOUBLE), (V[i] - V[j]).to(DOUBLE)
        _by_row(H, i, (4 * w * (u * v).sum(1))[:, None] * u)

    return run


def quartic(rank: int, difference: bool, weighted: bool) -> Pass:
    """Return the pass ``(X, D, start, cols, target, weight) -> c1, c2, c3, c4``: the quartic of f on X + tD alone."""
    _distances_only(difference)

    def run(X: Any, D: Any, start: Any, cols: Any, target: Any, weight: Any) -> Any:
        kernels = kernels_for("triton_pairs", X)
        if kernels is not None:
            return entries(kernels.pairs("quartic", X, D, start, cols, target, _some(weight, weighted)))
        i, j, w = _pairs(start, cols, target, weight, weighted)
        _, _, e, b, c = _terms(X, D, i, j, target)
        return entries(_quartic(w, e, b, c))

    return run


def factor_blocks(B: Any, shift: float, width: int) -> Any:
    """Return the inverses of the blocks B_i + shift·I, (n, r, r); a direction without curvature gets 0."""
    kernels = kernels_for("triton_blocks", B[:, :width])
    if kernels is not None:
        return kernels.invert(B, shift, width)
    rows, columns = torch.tril_indices(width, width, device=B.device)
    A = torch.zeros((len(B), width, width), dtype=B.dtype, device=B.device)
    A[:, rows, columns] = B
    A[:, columns, rows] = B
    least = 1e-14 * A.diagonal(dim1=1, dim2=2) + shift
    A.diagonal(dim1=1, dim2=2).add_(shift)
    for k in range(width):  # Gauss–Jordan: no pivoting, since the blocks are positive semidefinite
        pivot = torch.maximum(A[:, k, k], least[:, k])
        inverse = torch.where(pivot > 0, 1 / pivot, 0.0)
        row, column = A[:, k, :] * inverse[:, None], A[:, :, k].clone()
        row[:, k] = inverse
        column[:, k] = 0.0
        A[:, k, :] = 0.0
        A[:, :, k] = 0.0
        A -= column[:, :, None] * row[:, None, :]
        A[:, k, :] = row
    return A


def solve_blocks(L: Any, R: Any, Z: Any) -> Any:
    """Fill Z with the solutions of (B_i + shift·I) z_i = r_i, and return ⟨R, Z⟩."""
    kernels = kernels_for("triton_blocks", R)
    if kernels is not None:
        return Waiting(kernels.solve(L, R, Z))
    torch.sum(L * R[:, None, :], dim=2, out=Z)
    return Waiting(dot(R, Z))


def first_direction(G: Any, L: Any, R: Any, Z: Any, P: Any) -> Any:
    """Set R = −G and P = Z = the preconditioned R; return ⟨R, Z⟩."""
    torch.neg(G, out=R)
    rz = solve_blocks(L, R, Z)
    P.copy_(Z)
    return rz


def advance(rz: Any, shift: float, P: Any, H: Any, L: Any, D: Any, R: Any, Z: Any) -> Any:
    """Make a step of conjugate gradients with A + shift·I, where H = AP; return ⟨P, (A + shift·I)P⟩ and the new ⟨R, Z⟩.

    Nothing is read from the device. Where the curvature is not positive D, R and Z stay as they are.
    """
    H.add_(P, alpha=shift)
    curvature = Waiting(dot(P, H))
    a = torch.where(curvature.tensor > 0, rz.tensor / curvature.tensor, 0.0)
    D.addcmul_(P, a)
    R.addcmul_(H, a, value=-1.0)
    following = solve_blocks(L, R, Z)
    P.mul_(following.tensor / rz.tensor).add_(Z)
    return curvature, following


def diagonal_mean(B: Any, rank: int) -> Any:
    """Return the mean diagonal entry of the packed blocks."""
    at = [k * (k + 3) // 2 for k in range(rank)]
    return Waiting(B[:, at].sum(dtype=DOUBLE) / (rank * max(len(B), 1)))
