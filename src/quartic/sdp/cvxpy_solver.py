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
        A, b, c = sparse.csr_array(data[settings.A]), np.asarray(data[settings.B]), np.asarray(data[settings.C])
        cones = _Cones(data[self.DIMS])
        options = {key: value for key, value in solver_opts.items() if key != "use_quad_obj"}
        primal, dual = _AsPrimal(cones, A, b, c), _AsDual(cones, A, b, c)
        form: _AsPrimal | _AsDual = primal if primal.n_constraints <= dual.n_constraints else dual
        result = solve_sdp(form.problem(), verbose=verbose, **options)
        status = _STATUS.get(result.status, settings.SOLVER_ERROR)
        if form is dual:
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

    A row, but for the equations, is s = ⟨E, Y⟩ with a matrix E of few entries; an entry of a semidefinite cone and its
    mirror image are one row here. (t, z) is in the second-order cone if and only if t = tr Y, z_j = 2Y_0j for some
    Y ⪰ 0, and also if and only if the arrow matrix with t on the diagonal and z in the first row is positive
    semidefinite: the matrices E are the same.
    """

    def __init__(self, dims: Any) -> None:
        if dims.exp or dims.p3d:
            raise ValueError("quartic.sdp has no exponential or power cones; use SCS or Clarabel for this problem")
        self.zero, numbers = int(dims.zero), np.arange(int(dims.nonneg))
        self.sizes = [-len(numbers)] if len(numbers) else []
        #: our row of each of CVXPY's
        place, self.n_rows = [numbers], len(numbers)
        parts: list[tuple[Any, ...]] = [(numbers, 0, numbers, numbers, 1.0)]
        for n in map(int, dims.soc):
            at = self.n_rows + np.arange(n)
            zeros = np.zeros(n, np.int64)
            parts.append((at[:1] + zeros, len(self.sizes), at - at[0], at - at[0], 1.0))
            parts.append((at[1:], len(self.sizes), zeros[1:], at[1:] - at[0], 1.0))
            self._add(n, at, place)
        for n in map(int, dims.psd):
            row, column = np.triu_indices(n)
            square = np.zeros((n, n), np.int64)
            square[row, column] = square[column, row] = at = self.n_rows + np.arange(len(row))
            parts.append((at, len(self.sizes), row, column, np.where(row == column, 1.0, 0.5)))
            self._add(n, square.ravel(), place)
        self.place = np.concatenate(place)
        self.count = np.bincount(self.place, minlength=self.n_rows)
        #: the entries of all E, one after the other: row, block, i, j, value
        self.entries = [np.concatenate([np.broadcast_to(part[k], part[0].shape) for part in parts]) for k in range(5)]

    def _add(self, size: int, rows: Any, place: list[Any]) -> None:
        self.sizes.append(size)
        place.append(rows)
        self.n_rows = int(rows.max()) + 1

    def fold(self, A: Any) -> Any:
        """Return the mean of CVXPY's rows that are one here; the equations are left out."""
        rows = np.arange(len(self.place))
        means = sparse.csr_array((1 / self.count[self.place], (self.place, rows)), shape=(self.n_rows, len(rows)))
        return means @ A[self.zero :]

    def programme(self, C: Array, A: Any, b: Array, loose: Any, costs: Array) -> SDP:
        """Return the programme whose matrices are combinations of the E, by rows of C and A, with free numbers.

        ``loose`` has their columns in the constraints; each is a difference of two numbers ≥ 0.
        """
        row, block, i, j, value = self.entries
        E = sparse.csr_array((value, (row, np.arange(len(row)))), shape=(self.n_rows, len(row)))
        of, which = (found := sparse.coo_array(_stacked(C, A) @ E)).coords
        free = sparse.coo_array(_stacked(np.r_[costs, -costs], sparse.hstack([loose, -loose])))
        sizes = [*self.sizes, *([-free.shape[1]] if free.shape[1] else [])]
        k, at = free.coords
        return SDP.from_entries(
            sizes, b, np.r_[of, k], np.r_[block[which], np.full(len(k), len(self.sizes))], np.r_[i[which], at],
            np.r_[j[which], at], np.r_[found.data, free.data], maximize=False,
        )  # fmt: skip

    def slacks(self, result: SDPResult) -> Array:
        """Return s = ⟨E, Y⟩ of every row."""
        row, block, i, j, value = self.entries
        s = np.zeros(self.n_rows)
        for k, X in enumerate(result.X[: len(self.sizes)]):
            here = block == k
            a, b = i[here], j[here]
            Y = X[a] if X.ndim == 1 else np.einsum("ij,ij->i", X[a], X[b])
            np.add.at(s, row[here], value[here] * Y * np.where(a == b, 1.0, 2.0))
        return s


def _stacked(first: Array, rest: Any) -> Any:
    return sparse.csr_array(sparse.vstack([sparse.csr_array(first[None]), rest]))


def _free(result: SDPResult, n: int) -> Array:
    """Return the free numbers, of which there are n."""
    return result.X[-1][:n] - result.X[-1][n:] if n else np.zeros(0)


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
        cones, z = self.cones, self.cones.zero
        A = sparse.diags_array(cones.count.astype(float)) @ cones.fold(self.A)
        return cones.programme(cones.count * cones.fold(self.b), A.T, -self.c, self.A[:z].T, self.b[:z])

    def solution(self, result: SDPResult) -> tuple[Array, Array]:
        """Return x and the multipliers of all rows."""
        cones = self.cones
        return result.y, np.r_[_free(result, cones.zero), cones.slacks(result)[cones.place]]


class _AsPrimal:
    """s are the unknowns: a variable that is all there is in some row of a cone is known from that row."""

    def __init__(self, cones: _Cones, A: Any, b: Array, c: Array) -> None:
        self.cones, self.c, z = cones, c, cones.zero
        self.A = sparse.csr_array(sparse.vstack([A[:z], cones.fold(A)]))
        self.A.eliminate_zeros()
        self.b = np.r_[b[:z], cones.fold(b)]
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
        slack = sparse.csr_array(sparse.vstack([sparse.csr_array((z, n)), sparse.eye_array(n)]))  # s by all rows
        bound = sparse.csr_array(self.A[self.others][:, self.variables] @ sparse.diags_array(1 / self.a))
        right = self.b[self.others] - bound @ self.b[self.rows]
        costs = -(slack[self.rows].T @ (self.c[self.variables] / self.a))
        A = slack[self.others] - bound @ slack[self.rows]
        return self.cones.programme(costs, A, right, self.A[self.others][:, self.free], self.c[self.free])

    def solution(self, result: SDPResult) -> tuple[Array, Array]:
        """Return x and the multipliers of all rows."""
        z, cones = self.cones.zero, self.cones
        x, multipliers = np.zeros(len(self.c)), np.zeros(self.A.shape[0])
        x[self.variables] = (self.b[self.rows] - cones.slacks(result)[self.rows - z]) / self.a
        x[self.free] = _free(result, len(self.free))
        multipliers[self.others] = -result.y
        multipliers[self.rows] = -(self.c + self.A.T @ multipliers)[self.variables] / self.a
        return x, np.r_[multipliers[:z], (multipliers[z:] / cones.count)[cones.place]]
