# SPDX-License-Identifier: Apache-2.0
"""The kernels by which steps of parts run, measured once they are known to count.

They do where the search asks for a cost of a backend whose steps have several kernels, or that
backend alone may ship. Elsewhere measuring them, which takes seconds, would decide nothing.
Precondition: candidates are measured on this machine. Test: plans/test_part_kernels.py.
"""

from __future__ import annotations

import math

from ..costs.kernel import KernelChoice, for_candidates
from ..estimators.kernel_choice import choose_kernels
from ..estimators.profiles import Profiles
from ..estimators.session import Session, own_backend_modules
from ..measure.profiler.kernel_trials import has_kernel_steps
from ..messages.progress import steps
from .request import Request

# Of its time with the usual kernels a backend alone takes more than that share with others. This
# assumes that no step but a few has one that is far faster.
_LEAST_SHARE = 0.7
# For those of a search that costs are foreseen for, and so many runs of the best plan so far: each
# trial runs a step for a while, and what they leave out is to be little of the work.
_SECONDS, _RUNS = 6.0, 100


class PartKernels:
    """The choices of one compile, measured when somebody first asks for them."""

    def __init__(
        self, request: Request, session: Session, run_seconds: float | None = None
    ) -> None:
        """run_seconds: of the best plan so far, where the costs of candidates are foreseen, so that
        little is asked for; None where they are not."""
        self._request, self._session = request, session
        self._seconds = math.inf if run_seconds is None else _SECONDS + _RUNS * run_seconds
        self._chosen: tuple[KernelChoice, ...] | None = None

    def of_candidates(self, backend: str) -> tuple[KernelChoice, ...]:
        """Return the choices for candidates of a backend."""
        return for_candidates(self.chosen()) if has_kernel_steps(backend) else ()

    def chosen(self) -> tuple[KernelChoice, ...]:
        """Return all choices, for the steps of what each backend takes alone; the request's plans
        have them from then on."""
        if self._chosen is None:
            request, estimator = self._request, self._session.estimator
            with request.clock.phase("kernels"), estimator.hidden():
                estimator.require(own_backend_modules(request.targets.external))
                with steps("kernels", request.options.progress) as on_step:
                    on_step("looking for steps with several kernels", 0, 1)
                    parts = request.plans.parts_with_kernels()
                    chosen = choose_kernels(
                        self._session,
                        parts,
                        on_step,
                        limit=request.limit,
                        seconds=self._seconds,
                    )
            self._chosen = request.plans.kernels = chosen
        return self._chosen

    def settle(self, profiles: Profiles | None) -> None:
        """Have them measured for plans that may ship after the search, unless nobody asked for them
        and by the profiles none of the backends alone can be the fastest with them."""
        if self._chosen is None and (profiles is None or self._may_win(profiles)):
            self.chosen()

    def _may_win(self, profiles: Profiles) -> bool:
        names = [target.kind.name for target in self._request.targets.external]
        alone = [profiles.alone(name) for name in names if has_kernel_steps(name)]
        return any(_LEAST_SHARE * seconds <= profiles.rival_seconds for seconds in alone)
