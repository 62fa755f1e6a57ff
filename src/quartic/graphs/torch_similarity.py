"""Similarity graphs of dense features on a torch device, from products of rows in tiles; and graphs normalised there.

A product of two blocks of features estimates many squared distances at once, but not to the last digits. So more
columns are kept than are wanted, by a lower bound on the distance; those alone are measured from the features, in
float64; and it is checked, row by row, that no other column can be nearer. Rows for which float32 does not prove it
are searched in float64, and those with more equal distances than were kept are compared with all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from quartic.arrays.space_torch import DOUBLE, finite_matrix
from quartic.graphs.inputs import as_adjacency
from quartic.graphs.neighbors import SIGMA_NEIGHBOR, inverse_roots
from quartic.graphs.normalization import Kind, choose, degree_factors, is_normalized, refuse_negative, walk_matrix
from quartic.losses.devices import moved, to_scipy
from quartic.losses.factor.torch_matrix import csr, row_pieces

# Numbers of a tile, two gigabytes of float32, and of the features gathered to be measured together.
_TILE, _GATHERED = 1 << 29, 1 << 25
_ROWS, _ENTRIES = 1024, 1 << 24  # rows of a dense graph scaled together, entries looked at together
# The smallest of a row are looked for among the least of groups of so many.
_GROUP = 32


def torch_similarity(X: Any, kind: str, kept: Callable[[int], int], normalize: bool) -> Any:
    """Return the graph of `quartic.graphs.similarity` as a CSR tensor, on the device and in the type of X."""
    if X.layout != torch.strided:
        raise TypeError(f"features on a device must be dense, got a tensor of layout {X.layout}; pass X.to_dense()")
    X = finite_matrix(X, "X")
    if 0 in X.shape:
        raise ValueError(f"X has no rows or no columns (shape {tuple(X.shape)}); a graph needs a point and a feature")
    n, k = len(X), kept(len(X))
    columns, weights = _cosine(X, k) if kind == "cosine" else _self_tuning(X, k)
    some = weights > 0
    rows = torch.arange(n, device=X.device)[:, None].expand_as(columns)[some]
    W = _united(rows, columns[some], weights[some], n)
    if normalize:
        W = scale_both_sides(W, inverse_roots((W @ X.new_ones((n, 1), dtype=DOUBLE))[:, 0]))
    return csr(W.crow_indices(), W.col_indices(), W.values().to(X.dtype), n)


def _cosine(X: Any, k: int) -> tuple[Any, Any]:
    """Return the columns kept by each row, and their weights."""
    cosines = Cosines(_near_one(X, X.abs().amax(dim=1, keepdim=True)))
    columns, dots = nearest(cosines, k)
    lengths = (cosines.squares[:, None] * cosines.squares[columns]).sqrt()
    return columns, torch.where(lengths > 0, dots / lengths, 0.0).clamp(max=1.0)


def _self_tuning(X: Any, k: int) -> tuple[Any, Any]:
    """Return the columns kept by each row, and their weights."""
    X = _near_one(X, X.abs().max())
    distances = Distances(X, X.new_ones(len(X)))
    squares = nearest(distances, min(SIGMA_NEIGHBOR, len(X)))[1][:, -1].clone()  # σ²
    copies = (squares == 0).nonzero()[:, 0]
    if len(copies):  # of points with seven copies or more: to the nearest point that differs
        firsts, copy_of = _distinct(X, copies)
        every = torch.arange(len(X), device=X.device)
        least = [
            d.where(d > 0, torch.inf).amin(dim=1)
            for d in (distances.measure(i, every.expand(len(i), -1))[1] for i in firsts.split(_rows_of(X.numel())))
        ]
        other = torch.cat(least)[copy_of]
        squares[copies] = other.where(other < torch.inf, 1.0)
    columns, squared = nearest(Distances(X, squares), k)
    roots = squares.sqrt()
    return columns, torch.exp(-squared / (roots[:, None] * roots[columns]))


def _near_one(X: Any, largest: Any) -> Any:
    """Return X in float64, multiplied by powers of two, which round nothing: squares are then in range."""
    exponents = torch.frexp(largest.to(DOUBLE)).exponent.clamp(-1000, 1000)
    return X.to(DOUBLE) * torch.exp2(-exponents.to(DOUBLE))


def _united(rows: Any, columns: Any, weights: Any, n: int) -> Any:
    """Return the edges that either end kept; a weight is the same from both ends."""
    keys, place = torch.unique(torch.cat([rows * n + columns, columns * n + rows]), return_inverse=True)
    values = weights.new_empty(len(keys)).scatter_(0, place, torch.cat([weights, weights]))
    start = torch.searchsorted(keys, torch.arange(n + 1, device=keys.device) * n)
    return csr(start, keys % n, values, n)


# -- neighbours -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Distances:
    """Neighbours with the least d²/σ_j: features (n, d) in float64 and σ² (n,)."""

    X: Any
    squares: Any

    @property
    def points(self) -> Any:
        """Points with the same distances; shorter rows lose fewer digits."""
        return self.X - self.X.mean(dim=0)

    @property
    def scales(self) -> Any:
        """What the squared distance to each column is divided by."""
        return self.squares.sqrt()

    @property
    def more(self) -> Any:
        """What the squared distance to each column is more than that of the points."""
        return torch.zeros_like(self.squares)

    def measure(self, i: Any, j: Any) -> tuple[Any, Any]:
        """Return keys of rows i (h,) and columns j (h, m), the less the better, and d²; all digits are right.

        The keys are ratios of squares: ties of integers are then seen as ties.
        """
        squared = (self.X[i, None] - self.X[j]).square().sum(dim=2)
        return squared * squared / self.squares[j], squared

    def distance(self, i: Any, keys: Any) -> Any:
        """Return the squared distances of the points, divided by the scales, of rows i (h,) and keys (h,)."""
        return keys.sqrt()


@dataclass(frozen=True)
class Cosines:
    """Neighbours with the largest cosine; what is measured is the dot product."""

    X: Any

    @property
    def squares(self) -> Any:
        """The squared norms of the rows."""
        return self.X.square().sum(dim=1)

    @property
    def points(self) -> Any:
        """Points whose squared distance is 1 − the cosine, where neither row is zero."""
        return self.X * inverse_roots(2 * self.squares)[:, None]

    @property
    def scales(self) -> Any:
        """1."""
        return self.X.new_ones(len(self.X))

    @property
    def more(self) -> Any:
        """For a row of zeros, whose cosines are 0, what is missing to 1."""
        return torch.where(self.squares > 0, 0.0, 0.5)

    def measure(self, i: Any, j: Any) -> tuple[Any, Any]:
        """Return keys and dot products."""
        features = self.X[j]
        dots, squares = (self.X[i, None] * features).sum(dim=2), features.square().sum(dim=2)
        return torch.where(squares > 0, -dots * dots.abs() / squares, 0.0), dots

    def distance(self, i: Any, keys: Any) -> Any:
        """Return 1 − the cosine; what is 0 but for round-off is not looked for, since only positive ones are kept."""
        distance = 1 + keys.sign() * keys.abs().sqrt() * inverse_roots(self.X[i].square().sum(dim=1))
        return distance.clamp(max=1 - 64 * (self.X.shape[1] + 8) * torch.finfo(DOUBLE).eps)


def nearest(kind: Distances | Cosines, k: int) -> tuple[Any, Any]:
    """Return each row's k best columns, ties to the lowest, and what is measured of them (n, k)."""
    X = kind.X
    n, rows = len(X), torch.arange(len(X), device=X.device)
    columns, values = rows.new_empty((n, k)), X.new_empty((n, k))

    def keep(some: Any, candidates: Any) -> Any:
        """Keep the best of a row's candidates, which rise, and return the distance of the last."""
        step = _rows_of(candidates.shape[1] * X.shape[1])
        measured = [kind.measure(*part) for part in zip(some.split(step), candidates.split(step), strict=True)]
        keys, found = (torch.cat(parts) for parts in zip(*measured, strict=True))
        keys, order = keys.sort(dim=1, stable=True)
        columns[some], values[some] = candidates.gather(1, order[:, :k]), found.gather(1, order[:, :k])
        return kind.distance(some, keys[:, k - 1])

    for dtype in (torch.float32, DOUBLE):
        search, proven = Search(kind, min(n, 2 * k + 16), dtype), []
        with _tensor_cores():
            for some in rows.split(search.height):
                candidates, limit = search.best(some)
                proven.append(keep(some, candidates.sort(dim=1)[0]) < limit)
        rows = rows[~torch.cat(proven)]
        if not len(rows):
            return columns, values
    firsts, copy_of = _distinct(X, rows)  # copies have the same neighbours
    for some in firsts.split(_rows_of(X.numel())):
        keep(some, torch.arange(n, device=X.device).expand(len(some), n))
    columns[rows], values[rows] = columns[firsts][copy_of], values[firsts][copy_of]
    return columns, values


def _rows_of(numbers: int) -> int:
    return max(1, _GATHERED // numbers)


def _distinct(X: Any, rows: Any) -> tuple[Any, Any]:
    """Return one row of each that are equal, and for every row which of those it equals."""
    contents, copy_of = torch.unique(X[rows], dim=0, return_inverse=True)
    return rows.new_empty(len(contents)).scatter_(0, copy_of, rows), copy_of


class Search:
    r"""Candidates by a lower bound on :math:`d_{ij}^2/s_j`, from products in float32 or float64.

    The estimate :math:`(\|p_i\|^2 + \|p_j\|^2 - 2\langle p_i, p_j\rangle)/s_j` errs by at most
    :math:`c(\|p_i\| + \|p_j\|)^2/s_j \le c(8\|p_i\|^2 + 2 d_{ij}^2)/s_j`, for :math:`\|p_j\| \le \|p_i\| + d_{ij}`. So
    with :math:`(1 - 8c)\|p_i\|^2` in place of :math:`\|p_i\|^2` it is at most :math:`(1 + 2c)` times the truth.

    On a GPU the factors in float32 are split into two parts of ten bits each, whose products tensor cores make exactly.
    """

    def __init__(self, kind: Distances | Cosines, kept: int, dtype: torch.dtype) -> None:
        points, scales = kind.points, kind.scales
        n, d = points.shape
        self.n, self.kept, self.error = n, kept, 2 * (d + 8) * torch.finfo(dtype).eps
        width = -(-n // _GROUP**2) * _GROUP**2
        self.height = max(1, (_TILE if points.is_cuda else _TILE >> 5) // width)
        squares = points.square().sum(dim=1)[:, None]
        self.left = torch.cat([points, (1 - 8 * self.error) * squares], dim=1).to(dtype)
        self.right = points.new_zeros((width, d + 1), dtype=dtype)
        self.right[:n] = torch.cat([-2 * points, torch.ones_like(squares)], dim=1) / scales[:, None]
        self.bias = points.new_full((width,), torch.inf, dtype=dtype)
        self.bias[:n] = (squares[:, 0] + kind.more) / scales
        # where scales are so small that their inverses overflow, nothing is proven
        self.sound = torch.isfinite(self.right).all() & torch.isfinite(self.bias[:n]).all()
        if dtype == torch.float32 and _has_tensor_cores(points):
            (high, low), (right_high, right_low) = _split(self.left), _split(self.right)
            self.left = _aligned(high, high, low)
            self.right = _aligned(right_high, right_low, right_high)

    def best(self, rows: Any) -> tuple[Any, Any]:
        """Return candidates of these rows, and what no other column can be nearer than."""
        bounds = torch.addmm(self.bias, self.left[rows], self.right.T)
        values, columns = smallest(bounds, self.kept)
        limit = values.amax(dim=1).to(DOUBLE) / (1 + 2 * self.error)
        if self.kept == self.n:
            return columns, torch.full_like(limit, torch.inf)
        return columns, limit.where(self.sound, -torch.inf)


def smallest(A: Any, k: int) -> tuple[Any, Any]:
    """Return the k smallest of each row, in any order, and their columns.

    They are in the k groups with the least minima: A is read once, the rest is a small part of it.
    """
    width = A.shape[1]
    if width % _GROUP or width < 2 * k * _GROUP:
        return A.topk(k, dim=1, largest=False, sorted=False)  # type: ignore[no-any-return]
    groups = width // _GROUP
    _, best = smallest(A.view(len(A), _GROUP, groups).amin(dim=1), k)
    columns = (best[:, :, None] + groups * torch.arange(_GROUP, device=A.device)).flatten(1)
    values, at = A.gather(1, columns).topk(k, dim=1, largest=False, sorted=False)
    return values, columns.gather(1, at)


def _split(A: Any) -> tuple[Any, Any]:
    """Return the leading ten bits of float32 numbers, and the rest."""
    high = (A.view(torch.int32) & ~0x1FFF).view(torch.float32)
    return high, A - high


def _aligned(*parts: Any) -> Any:
    """Return matrices side by side, with columns of zeros up to a multiple of eight, for speed."""
    A = torch.cat(parts, dim=1)
    return torch.nn.functional.pad(A, (0, -A.shape[1] % 8))


def _has_tensor_cores(A: Any) -> bool:
    return bool(A.is_cuda)


@contextmanager
def _tensor_cores() -> Iterator[None]:
    """Let them make float32 products."""
    setting = torch.backends.cuda.matmul
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)  # torch has a new name for it in some versions
        before = setting.allow_tf32
        setting.allow_tf32 = True
        try:
            yield
        finally:
            setting.allow_tf32 = before


# -- graphs handed in; only walks are followed on the host ------------------------------------------------------------


def choose_for_tensor(matrix: Any) -> Kind | None:
    """Return how a graph should be normalised, given as the `Matrix` of a tensor."""
    M, entries = matrix.M, matrix.entries()

    def similar_to_itself() -> bool:
        diagonal = M.diagonal() if M.layout == torch.strided else M.values().new_zeros(matrix.n)
        if M.layout != torch.strided:
            for rows, part in row_pieces(M.crow_indices()):
                on = M.col_indices()[part] == rows
                diagonal[rows[on]] = entries[part][on]
        return bool((diagonal[_row_sums(matrix) > 0] != 0).all())

    def normalized() -> bool:
        return is_normalized(matrix.product, entries.new_ones((matrix.n, 1)))

    least = float(entries.min()) if entries.numel() else 0.0
    count = sum(part.count_nonzero() for part in entries.reshape(-1).split(_ENTRIES))  # it takes nine bytes an entry
    return choose(matrix.n, int(count), least, normalized, similar_to_itself)


def normalize_tensor(matrix: Any, kind: Kind | None) -> torch.Tensor:
    """Return the matrix to factorise of such a graph, as a tensor on its device."""
    M: torch.Tensor = matrix.M
    entries = matrix.entries()
    if kind is None:
        return M
    if entries.numel() and float(entries.min()) < 0:
        refuse_negative(as_adjacency(to_scipy(M)))
    if kind == "walks":
        walks: torch.Tensor = moved(walk_matrix(as_adjacency(to_scipy(M))).astype(matrix.dtype), M.device)
        return walks
    degree = _row_sums(matrix)
    return scale_both_sides(M, degree_factors(degree, kind))


def _row_sums(matrix: Any) -> Any:
    return matrix.product(torch.ones((matrix.n, 1), dtype=DOUBLE, device=matrix.M.device))[:, 0]


def scale_both_sides(M: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Return M with each entry multiplied by the factors of both ends."""
    # s_i s_j first: the product is then the same for (i, j) and (j, i), to the last bit.
    if M.layout == torch.strided:
        both = zip(M.split(_ROWS), factors.split(_ROWS), strict=True)
        return torch.cat([(rows * (mine[:, None] * factors)).to(M.dtype) for rows, mine in both])
    values = torch.empty_like(M.values())
    for rows, part in row_pieces(M.crow_indices()):
        values[part] = M.values()[part] * (factors[rows] * factors[M.col_indices()[part].to(torch.int64)])
    return csr(M.crow_indices(), M.col_indices(), values, M.shape[0])
