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

# Other kernels for all its steps do not make a backend alone so much faster: of the nets that were
# measured for docs/measuring.md none took less than 0.78 of its time.
_LEAST_SHARE = 0.7
# For those of a search that costs are foreseen for: what they leave out is little of the work.
_SECONDS = 8.0


class PartKernels:
    """The choices of one compile, measured when somebody first asks for them."""

    def __init__(self, request: Request, session: Session, is_foreseen: bool = False) -> None:
        """is_foreseen: the costs of candidates are, so that little is asked for."""
        self._request, self._session = request, session
        self._seconds = _SECONDS if is_foreseen else math.inf
        self._chosen: tuple[KernelChoice, ...] | None = None

    def of_candidates(self, backend: str) -> tuple[KernelChoice, ...]:
        """Return the choices for candidates of a backend."""
        return for_candidates(self.chosen()) if has_kernel_steps(backend) else ()

    def chosen(self) -> tuple[KernelChoice, ...]:
        """Return all choices, for the steps of what each backend takes alone; the plans' parts have
        the same."""
        if self._chosen is None:
            request, estimator = self._request, self._session.estimator
            with request.clock.phase("kernels"), estimator.hidden():
                estimator.require(own_backend_modules(request.targets.external))
                with steps("kernels", request.options.progress) as on_step:
                    on_step("looking for steps with several kernels", 0, 1)
                    parts = request.plans.parts_with_kernels()
                    self._chosen = choose_kernels(
                        self._session,
                        parts,
                        on_step,
                        limit=request.limit,
                        seconds=self._seconds,
                    )
        return self._chosen

    def of_plans(self, profiles: Profiles | None) -> tuple[KernelChoice, ...]:
        """Return the choices for plans that may ship after the search; none where they were not
        asked for, and by the profiles none of the backends alone can be the fastest with them."""
        is_needed = self._chosen is not None or profiles is None or self._may_win(profiles)
        return self.chosen() if is_needed else ()

    def _may_win(self, profiles: Profiles) -> bool:
        names = [target.kind.name for target in self._request.targets.external]
        alone = [profiles.alone(name) for name in names if has_kernel_steps(name)]
        return any(_LEAST_SHARE * seconds <= profiles.rival_seconds for seconds in alone)
