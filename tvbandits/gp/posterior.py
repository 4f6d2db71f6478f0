"""What every posterior can do, what conditions one, and what a posterior may offer beyond that.

Nobody else asks which posterior it has: all of them answer the questions of `Posterior`, and their rules
those of `PosteriorRule`. Only a batch asks for `SparsePosterior`, on whose dictionary it looks at
variances one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.rows import CandidateGrid, Data
from tvbandits.validation import Array

# The message where a question about the fixed points is put to a posterior that knows of none.
UNCONDITIONED = "this posterior was conditioned without fixed points"


class Expansion(NamedTuple):
    """A posterior as sums of kernel rows: means k(z)^T means, variances k(z, z) - k(z)^T less k(z).

    Attributes
    ----------
    Z : array of shape (n, p)
        The inputs of the rows k(z) = k(Z, z).
    less : array of shape (n, n)
    means : array of shape (n, c)
    """

    Z: Array
    less: Array
    means: Array


class Posterior(Protocol):
    """A conditioned Gaussian process of zero prior mean, with c value columns.

    Kernel inputs are rows of shape (p,): a point, or a point and its time
    (`tvbandits.gp.kernels.structure.inputs`). Variances are in prior units, means in the unit of the
    values. Nothing changes a posterior.
    """

    @property
    def kernel(self) -> Any:
        """The prior covariance, a scikit-learn kernel."""

    @property
    def data(self) -> Data:
        """What it is conditioned on."""

    @property
    def size(self) -> int:
        """Number of rows that it holds: observations, or distinct inputs of them."""

    @property
    def dictionary_size(self) -> int | None:
        """Number of inducing points; None where nothing is approximated on inducing points."""

    @property
    def products(self) -> Array:
        """Y^T (K + Sigma)^-1 Y of the value columns, shape (c, c)."""

    @property
    def log_det_ratio(self) -> float:
        """Log det(Sigma + K) - log det Sigma: twice the information gain of the observations."""

    @property
    def jitter(self) -> float:
        """What had to be added to a diagonal, in prior units; 0 in good health."""

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Means (n, c) and variances (n,) at kernel inputs `Z` of shape (n, p)."""

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, c) and variances (A,) at the fixed points, at the time of conditioning.

        Raises
        ------
        ValueError
            If it was conditioned without fixed points; so do the next two.
        """

    def means_on_surface(self) -> Array:
        """Means (A, c) of `on_surface`, without the variances where those cost more."""

    def samples(self, surface: CandidateGrid, count: int, rng: np.random.Generator) -> Array:
        """Centred draws at the fixed points, shape (count, A): the first value column less its mean.

        Each value has the variance of `on_surface`. What a dictionary or features leave out of the
        kernel is drawn for each point on its own.
        """

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (n1, n2) between kernel inputs `Z1` and `Z2`."""

    def shrunk(self, Z: Array, noise: float | Array, surface: CandidateGrid | None) -> Posterior:
        """The same with more observations at inputs `Z` (k, p) of one time, their values unknown.

        Variances are those of the larger set; means are of no use.

        Parameters
        ----------
        Z : array of shape (k, p)
        noise : float or array of shape (k,)
            Noise variances of the observations, in prior units.
        surface : CandidateGrid or None
            That of conditioning.
        """

    @property
    def dense(self) -> bool:
        """Whether a matrix of all its rows is factored."""

    def expansion(self, worst: float) -> Expansion | None:
        """As sums of kernel rows; None where it is none, or one of a condition number beyond `worst`."""

    def continued(self, rows: Data, now: float, surface: CandidateGrid | None) -> Posterior | None:
        """With observations more: what `condition` comes to, speaking about the time `now`.

        None where that takes `condition` itself.
        """

    def since(self, t: float) -> Posterior | None:
        """The same without the rows from before a time, knowing what they told; None: it needs them."""

    def effective_dimension(self) -> float:
        """How many independent numbers the observations determine, tr(K (K + Sigma)^-1)."""

    @property
    def nugget(self) -> float:
        """Variance of what is new at every point and time, which `predict` leaves out."""

    def prior_covariance(self, Z: Array) -> Array:
        """Covariance (n, n) of what differs between inputs (n, p), before anything was observed."""

    @property
    def lasting_share(self) -> Array | float:
        """Share (A,) of the deviations at the fixed points that rewards of later steps would tell."""

    @property
    def learned(self) -> Mapping[str, Any]:
        """What it has learned of the reward by itself, by the names of `ModelInfo`."""

    def pending_noise(self, here: Array, then: Array, ages: Array, noise: Array) -> Array:
        """With what noise (n,) values seen some ages ago, at inputs `then`, speak about inputs `here`.

        In the unit of `noise`; infinite: not worth counting.
        """

    def lookahead(
        self, points: Array, about: float, beta: float, noise_variance: float
    ) -> JointPosterior | None:
        """About points (n, d) at the time of conditioning, and what answers of a time would change.

        In the unit of reward. None where that is what `cross_covariance` says.
        """


def as_of_now(noise: Array, prior: Array | float, r2: Array) -> Array:
    """With what noise (n,) values of other times speak about now; infinite where nothing is left.

    A value of the time s says y = f_s + e. Where f_s and f_now have the correlation r, that is worth
    an observation of f_now with the noise variance (k (1 - r^2) + v) / r^2.

    Parameters
    ----------
    noise : array of shape (n,)
        v.
    prior : array of shape (n,) or float
        k.
    r2 : array of shape (n,)
        r^2.
    """
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray((prior * (1.0 - r2) + noise) / r2)


# A value says nothing worth counting if its noise exceeds the prior variance so far.
FAINT = 1e6


class KernelPosterior:
    """What posteriors of one kernel answer alike: all they know is in their means and covariances."""

    kernel: Any
    nugget: ClassVar[float] = 0.0
    lasting_share: ClassVar[float] = 1.0
    learned: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def prior_covariance(self, Z: Array) -> Array:
        """As the kernel has it."""
        return np.asarray(self.kernel(Z))

    def pending_noise(self, here: Array, then: Array, ages: Array, noise: Array) -> Array:  # noqa: ARG002
        """As `Posterior.pending_noise`, in prior units."""
        prior = np.asarray(self.kernel.diag(here))
        if is_space_time(self.kernel):
            across = np.diagonal(self.kernel(here, then))
            noise = as_of_now(noise, prior, np.minimum((across / prior) ** 2, 1.0))
        return np.asarray(np.where(noise <= FAINT * prior, noise, np.inf))

    def lookahead(self, points: Array, about: float, beta: float, noise_variance: float) -> None:
        """None: `cross_covariance` says it."""

    def since(self, t: float) -> Posterior | None:  # noqa: ARG002
        """None: all it knows is in its rows."""
        return None


class Conditioning(NamedTuple):
    """What a posterior is conditioned on, from what, and about which points and time.

    Attributes
    ----------
    kernel : scikit-learn kernel
    data : Data
    surface : CandidateGrid, optional
        Fixed points that `on_surface` will answer for, at the time `now`.
    now : float
    previous : Posterior, optional
        A posterior of the same kernel and surface on other data; left aside where it is no help.
    rng : numpy.random.Generator, optional
        Draws a dictionary, where one is drawn.
    noise_variance : float
        Of a reward to come, where it is learned how much of a reward is noise.
    """

    kernel: Any
    data: Data
    surface: CandidateGrid | None = None
    now: float = 0.0
    previous: Posterior | None = None
    rng: np.random.Generator | None = None
    noise_variance: float = 0.0


class PosteriorRule(Protocol):
    """How a posterior is made of data: a part of a recipe. What is usual may be inherited.

    Attributes
    ----------
    self_learning : bool
        Whether it learns mean, unit and forgetting of the reward: its data are rewards in their own
        unit at inputs [x, t], whatever the kernel.
    dense : bool
        Whether whole matrices are factored: of all fixed points for `samples`, and of all rows, whose
        noise may then be shared, as that of a level which nobody knows.
    in_rows : bool
        Whether all that is known is in the rows of data, of which none may leave.
    points_apart : bool
        Whether what is read at a point tells nothing of the others, whatever the kernel.
    """

    self_learning: ClassVar[bool] = False
    dense: ClassVar[bool] = False
    in_rows: ClassVar[bool] = False
    points_apart: ClassVar[bool] = False

    def check(self, kernel: Any) -> None:  # noqa: ARG002
        """Raise a `ValueError` if there is no such posterior of the kernel; by default there is."""
        return

    def on_dictionary(self, kernel: Any) -> bool:  # noqa: ARG002
        """Whether variances under the kernel are looked at one by one, on inducing points."""
        return False

    def informed_by(self, known: Any) -> PosteriorRule:  # noqa: ARG002
        """The rule whose prior is what a posterior of it has learned elsewhere; by default itself."""
        return self

    def condition(self, given: Conditioning) -> Posterior:
        """Condition on the data that are `given`, from the previous posterior where that is cheaper.

        Raises
        ------
        FactorisationError
            If the kernel matrix is not positive definite.
        """
