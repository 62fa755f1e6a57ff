"""The solver as CVXPY takes it: ``problem.solve(solver=quartic.sdp.CvxpySolver())``."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from quartic.arrays import Array
from quartic.core.result import Status
from quartic.sdp.problem import SDP
from quartic.sdp.solve import SDPResult, solve_sdp

try:
    import cvxpy.settings as settings
    from cvxpy.constraints import PSD, SOC, NonNeg, Zero
    from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
except ImportError as error:
    raise ImportError("CvxpySolver needs CVXPY: pip install 'quartic[cvxpy]'") from error

_STATUS = {
    Status.CONVERGED: settings.OPTIMAL,
    Status.INFEASIBLE: settings.INFEASIBLE,
    Status.UNBOUNDED: settings.UNBOUNDED,
    Status.MAX_ITER: settings.USER_LIMIT,
    Status.MAX_TIME: settings.USER_LIMIT,
    Status.STALLED: settings.OPTIMAL_INACCURATE,
}


class CvxpySolver(ConicSolver):  # type: ignore[misc]
    """A solver for CVXPY's problems with linear, second-order and semidefinite cones.

    Its options are those of `quartic.sdp.solve_sdp`: ``problem.solve(solver=CvxpySolver(), tol=1e-7)``. Exponential
    and power cones and integer variables are none of its business; CVXPY says so in one line. A matrix variable with a
    few constraints is solved as it stands, a few variables in a large linear matrix inequality by the dual: whichever
    has fewer constraints.

    Examples
    --------
    >>> import cvxpy as cp                                              # doctest: +SKIP
    >>> from quartic.sdp import CvxpySolver                             # doctest: +SKIP
    >>> Y = cp.Variable((3, 3), PSD=True)                               # doctest: +SKIP
    >>> cp.Problem(cp.Minimize(cp.trace(Y)), [Y[0, 1] == 1]).solve(solver=CvxpySolver())  # doctest: +SKIP
    2.0
    """

    MIP_CAPABLE = False
    SUPPORTED_CONSTRAINTS: ClassVar[list[Any]] = [Zero, NonNeg, SOC, PSD]

    def name(self) -> str:
        """Return the solver's name."""
        return "QUARTIC"

    def import_solver(self) -> None:
        """Do nothing: it is here."""

    def cite(self, data: Any) -> str:
        """Return what to cite."""
        return "quartic: low-rank minimisation and semidefinite programmes in Python"

    def solve_via_data(
        self, data: Any, warm_start: bool, verbose: bool, solver_opts: Any, solver_cache: Any = None
    ) -> dict[str, Any]:
        """Minimise cᵀx with Ax + s = b, s in the cones."""
        cones = _Cones(data[self.DIMS])
        A, b, c = sparse.csr_array(data[settings.A]), np.asarray(data[settings.B]), np.asarray(data[settings.C])
        options = {key: value for key, value in solver_opts.items() if key != "use_quad_obj"}
        primal, dual = _AsPrimal(cones, A, b, c), _AsDual(cones, A, b, c)
        form: _AsPrimal | _AsDual = primal if primal.n_constraints <= dual.n_constraints else dual
        result = solve_sdp(form.problem(), verbose=verbose, **options)
        status = _STATUS.get(result.status, settings.SOLVER_ERROR)
        if isinstance(form, _AsDual):
            turned = {settings.INFEASIBLE: settings.UNBOUNDED, settings.UNBOUNDED: settings.INFEASIBLE}
            status = turned.get(status, status)
        x, z = form.solution(result)
        return {
            "status": status,
            "value": float(c @ x),
            "primal": x,
            "eq_dual": z[: cones.zero],
            "ineq_dual": z[cones.zero :],
            "result": result,
        }


class _Cones:
    """CVXPY's cones as blocks of Y: equations, numbers ≥ 0, second-order cones, semidefinite ones in this order.

    (t, z) is in the second-order cone if and only if t = tr Y, z_j = 2Y_0j for some Y ⪰ 0, and also if and only if the
    arrow matrix with t on the diagonal and z in the first row is positive semidefinite: the matrices E, with
    s = ⟨E, Y⟩, are the same.
    """

    def __init__(self, dims: Any) -> None:
        self.zero, self.n_numbers = int(dims.zero), int(dims.nonneg)
        self.sizes: list[int] = [-self.n_numbers] if self.n_numbers else []
        parts: list[tuple[Any, ...]] = [
            (np.arange(self.n_numbers), 0, np.arange(self.n_numbers), np.arange(self.n_numbers), 1.0)
        ]
        self.twin = [np.arange(self.n_numbers)]  # the row of the mirror image
        start = self.n_numbers
        for n in map(int, dims.soc):
            block, arrow = len(self.sizes), np.arange(1, n)
            parts.append((np.full(n, start), block, np.arange(n), np.arange(n), 1.0))
            parts.append((start + arrow, block, np.zeros(n - 1, np.int64), arrow, 1.0))
            self.twin.append(start + np.arange(n))
            self.sizes.append(n)
            start += n
        for n in map(int, dims.psd):
            column, row = np.divmod(np.arange(n * n), n)
            values = np.where(row == column, 1.0, 0.5)
            parts.append(
                (start + np.arange(n * n), len(self.sizes), np.minimum(row, column), np.maximum(row, column), values)
            )
            self.twin.append(start + row * n + column)
            self.sizes.append(n)
            start += n * n
        self.n_rows, self.mirror = start, np.concatenate(self.twin)
        if dims.exp or dims.p3d:
            raise ValueError("quartic.sdp has no exponential or power cones; use SCS or Clarabel for this problem")
        columns = [np.concatenate([np.broadcast_to(part[k], part[0].shape) for part in parts]) for k in range(5)]
        # for every row but the equations the entries of E, one after the other
        self.of, self.block, self.row, self.column, self.value = columns

    def programme(self, C: Any, A: Any, b: Array, extra: tuple[Any, Array]) -> SDP:
        """Return the programme whose matrices are combinations of the E, by rows of C and A, with further numbers ≥ 0.

        ``extra`` has their columns in the constraints, and their costs.
        """
        more, costs = extra
        stacked = sparse.csr_array(sparse.vstack([sparse.csr_array(C[None]), A]))
        count = len(self.of)
        basis = sparse.csr_array((np.ones(count), (self.of, np.arange(count))), shape=(self.n_rows, count))
        entries = sparse.coo_array(stacked @ basis)
        matrix, which = entries.coords
        more = sparse.coo_array(sparse.vstack([sparse.csr_array(costs[None]), more]))
        sizes = [*self.sizes, *([-more.shape[1]] if more.shape[1] else [])]
        block = np.r_[self.block[which], np.full(more.nnz, len(self.sizes))].astype(np.int64)
        row, column = np.r_[self.row[which], more.coords[1]], np.r_[self.column[which], more.coords[1]]
        value = np.r_[entries.data * self.value[which], more.data]
        return SDP.from_entries(sizes, b, np.r_[matrix, more.coords[0]], block, row, column, value, maximize=False)

    def slacks(self, result: SDPResult) -> Array:
        """Return s = ⟨E, Y⟩ of every row."""
        s = np.zeros(self.n_rows)
        for block, X in enumerate(result.X[: len(self.sizes)]):
            here = self.block == block
            row, column = self.row[here], self.column[here]
            value = X[row] if X.ndim == 1 else np.einsum("ij,ij->i", X[row], X[column])
            np.add.at(s, self.of[here], self.value[here] * value * np.where(row == column, 1.0, 2.0))
        return s


class _AsDual:
    """x are the multipliers: minimise ⟨Σ b_i E_i, Y⟩ with ⟨Σ A_ik E_i, Y⟩ = −c_k; equations are free numbers."""

    def __init__(self, cones: _Cones, A: Any, b: Array, c: Array) -> None:
        self.cones, self.A, self.b, self.c = cones, A, b, c

    @property
    def n_constraints(self) -> int:
        """How much work it is: the constraints, and a little for free numbers."""
        return int(self.A.shape[1]) + self.cones.zero // 2

    def problem(self) -> SDP:
        """Return the programme."""
        z = self.cones.zero
        free = sparse.csr_array(self.A[:z].T)
        extra = sparse.csr_array(sparse.hstack([free, -free])), np.r_[self.b[:z], -self.b[:z]]
        return self.cones.programme(self.b[z:], sparse.csr_array(self.A[z:].T), -self.c, extra)

    def solution(self, result: SDPResult) -> tuple[Array, Array]:
        """Return x and the multipliers of all rows."""
        z = self.cones.zero
        free = result.X[-1][:z] - result.X[-1][z:] if z else np.zeros(0)
        return result.y, np.r_[free, self.cones.slacks(result)]


class _AsPrimal:
    """s are the unknowns: a variable that is all there is in some row of a cone is known from that row."""

    def __init__(self, cones: _Cones, A: Any, b: Array, c: Array) -> None:
        self.cones, self.c, z = cones, c, cones.zero
        same = sparse.csr_array(A[z:])
        # of an entry and its mirror image one row is enough, with the mean of both
        self.kept = np.flatnonzero(np.arange(cones.n_rows) <= cones.mirror)
        mean = 0.5 * (same[self.kept] + same[cones.mirror[self.kept]])
        self.A = sparse.csr_array(sparse.vstack([A[:z], mean]))
        self.A.eliminate_zeros()
        self.b = np.r_[b[:z], 0.5 * (b[z:][self.kept] + b[z:][cones.mirror[self.kept]])]
        alone = z + np.flatnonzero(np.diff(self.A.indptr)[z:] == 1)
        self.variables, first = np.unique(self.A.indices[self.A.indptr[alone]], return_index=True)
        self.rows = alone[first]
        self.others = np.setdiff1d(np.arange(self.A.shape[0]), self.rows)
        self.free = np.setdiff1d(np.arange(len(c)), self.variables)

    @property
    def n_constraints(self) -> int:
        """How much work it is."""
        return len(self.others) + len(self.free)

    def problem(self) -> SDP:
        """Return the programme: x = (b − s)/a is put into all other rows and the objective."""
        z, n = self.cones.zero, self.cones.n_rows
        self.a = self.A[self.rows][:, self.variables].diagonal()
        at = self.kept[self.rows - z]
        pick = sparse.csr_array((np.ones(len(at)), (np.arange(len(at)), at)), shape=(len(at), n))
        bound = sparse.csr_array(self.A[self.others][:, self.variables] @ sparse.diags_array(1 / self.a))
        own = self.others >= z
        plain = sparse.csr_array(
            (np.ones(own.sum()), (np.flatnonzero(own), self.kept[self.others[own] - z])), shape=(len(self.others), n)
        )
        right = self.b[self.others] - bound @ self.b[self.rows]
        loose = sparse.csr_array(self.A[self.others][:, self.free])
        costs = self.c[self.variables] / self.a
        extra = sparse.csr_array(sparse.hstack([loose, -loose])), np.r_[self.c[self.free], -self.c[self.free]]
        return self.cones.programme(-(pick.T @ costs), sparse.csr_array(plain - bound @ pick), right, extra)

    def solution(self, result: SDPResult) -> tuple[Array, Array]:
        """Return x and the multipliers of all rows."""
        z, cones = self.cones.zero, self.cones
        s = cones.slacks(result)[self.kept]
        x = np.zeros(len(self.c))
        x[self.variables] = (self.b[self.rows] - s[self.rows - z]) / self.a
        if len(self.free):
            x[self.free] = result.X[-1][: len(self.free)] - result.X[-1][len(self.free) :]
        multipliers = np.zeros(self.A.shape[0])
        multipliers[self.others] = -result.y
        left = self.c + self.A.T @ multipliers
        multipliers[self.rows] = -left[self.variables] / self.a
        full = np.zeros(z + cones.n_rows)
        full[:z] = multipliers[:z]
        share = np.where(self.kept == cones.mirror[self.kept], 1.0, 0.5)
        full[z + self.kept] = share * multipliers[z:]
        full[z + cones.mirror[self.kept]] = share * multipliers[z:]
        return x, full
