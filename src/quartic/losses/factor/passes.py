"""The passes over X that a symmetric factorisation is made of: what every device offers (`numba`, `torch` beside this).

Numbers are float64 whatever the type of X. On a torch device they may still be under way.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from quartic.arrays import Array
from quartic.arrays.space import Fresh


class Origin(NamedTuple):
    """The point Y = X + t(X − Z) and its product MY = MX + t(MX − MZ), formed row by row when a pass needs them.

    To keep Y and MY would cost writing two tall arrays and reading them twice, which takes longer than the work on
    them. A point that is not extrapolated is its own origin, with t = 0.
    """

    X: Array
    MX: Array
    Z: Array
    MZ: Array
    t: float

    @classmethod
    def at(cls, X: Array, MX: Array) -> Origin:
        """Return the origin that is X itself."""
        return cls(X, MX, X, MX, 0.0)


class StepSums(NamedTuple):
    """What a pass adds up of the step D = X − Y from an origin Y, with MD = MX − MY.

    ``gram`` is XᵀX; ``curved`` DᵀD, where it was asked for or comes for nothing; ``ahead`` the Gram matrix of the
    origin of the next step, where it was asked for and costs less here than there. ``bend``, ``along``, ``length``,
    ``fit`` and, where ``curved`` is None, ``pull`` are ⟨MD, D⟩, ⟨Y, D⟩, ‖D‖², ⟨MX, X⟩ and ⟨MY, X⟩; ``feasible`` is
    whether X ≥ 0.
    """

    gram: Array
    curved: Array | None
    ahead: Array | None
    bend: float
    along: float
    length: float
    fit: float
    pull: float
    feasible: bool


class Passes(Protocol):
    """The passes of one device."""

    def extrapolated(self, origin: Origin, arrays: Fresh) -> tuple[Origin, Array | None]:
        """Return the origin, formed where that pays, and YᵀY where it was made on the way."""

    def formed(self, origin: Origin, arrays: Fresh) -> tuple[Array, Array]:
        """Return Y and MY."""

    def gram_at(self, origin: Origin) -> Array:
        """Return YᵀY."""

    def stepped(
        self, origin: Origin, S: Array, alpha: float, sigma: float, b: float, shift: float, clip: bool, W: Array
    ) -> float:
        """Fill W = (α·tr S + σ)Y + bG − shift, cut off below zero if ``clip``; return ‖W‖².

        S = YᵀY, and G = 2YS − 2MY is the gradient, which exists only block by block.
        """

    def step_sums(self, X: Array, MX: Array, origin: Origin, ahead: float | None, curved: bool) -> StepSums:
        """Return the sums of the step from the origin to X, with DᵀD if ``curved``.

        With ``ahead`` maybe the Gram matrix of X + ahead·(X − B) too, where B is the X of the origin: the next step
        will be taken from there.
        """

    def projected_norm(self, X: Array, S: Array, MX: Array) -> float:
        """Return ‖∇ᴾ‖² of the gradient G = 2XS − 2MX: G where X > 0, min(G, 0) where X = 0; G itself is not kept."""

    def line_sums(self, X: Array, D: Array, S: Array, G: Array, MD: Array) -> tuple[Array, Array, float, float]:
        """Return U = XᵀD + DᵀX, C = DᵀD, ⟨G, D⟩ and ⟨MD, D⟩, given S = XᵀX: then (X + tD)ᵀ(X + tD) = S + tU + t²C."""

    def line_point(
        self,
        X: Array,
        D: Array,
        MX: Array,
        MD: Array,
        t: float,
        clip: bool,
        S: Array,
        new: Array,
        Mnew: Array,
        G: Array,
    ) -> tuple[float, float, bool]:
        """Fill X + tD, MX + tMD, and the gradient G = 2(X + tD)S − 2(MX + tMD).

        With ``clip`` what is zero but for round-off is zero. Returns ⟨MX, X⟩ and ‖∇ᴾ‖² there (G where X > 0, min(G, 0)
        elsewhere), and whether X ≥ 0.
        """
