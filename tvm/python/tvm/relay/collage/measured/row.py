# SPDX-License-Identifier: Apache-2.0
"""A candidate as the pass gives it, and as text for workers. Test: measured/test_session.py."""

import tvm

from ..backends import find_backend
from ..backends.accuracy import trades_accuracy
from ..costs.candidate import candidate_module
from ..exec.reply import Unsupported
from ..exec.text import describe
from ..external import TVM_BACKEND, is_external
from ..options import CollageOptions


class Row:
    """A candidate as the pass gives it."""

    def __init__(self, mod, target, label):
        self.mod, self.target, self.label = mod, target, label
        self.external = is_external(target)
        self.backend = target.kind.name if self.external else TVM_BACKEND
        # As deployed: TVM sees the host target alone.
        self.build_target = str(target.host if self.external or target.host else target)


def written_down(row, keywords, records_for, kernels=()):
    """A row's CandidateModule, or why it cannot be one; ``records_for`` is asked its target.

    ``kernels``: the KernelChoices of the search."""
    try:
        mode = CollageOptions.current().verify
        return candidate_module(
            row.mod,
            row.backend,
            row.build_target,
            keywords,
            row.label,
            records_for(row.build_target),
            verify=mode == "all" or (row.external and _is_verified(row.backend, mode)),
            computes_in=trades_accuracy(row.target) if row.external else "",
            kernels=kernels if row.external else (),
        )
    except (Unsupported, ValueError, tvm.TVMError) as error:
        return f"{row.label}: {describe(error)}"


def _is_verified(backend, mode):
    """Whether an external backend's outputs are compared; one that can be wrong says so itself, and
    no option helps it."""
    found = find_backend(backend)
    return mode != "none" or (found is not None and found.can_be_wrong)
