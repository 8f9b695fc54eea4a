# SPDX-License-Identifier: Apache-2.0
"""`collage check`: a model as it is imported here, beside its original file.

Docs: docs/accuracy.md. Test: cli/test_check.py.
"""

from __future__ import annotations

import argparse
import dataclasses

from ..compile import build_whole, host_target, prepare
from ..compile.executors import executor_of
from ..errors import ModelError
from ..messages.progress import one_step
from ..plans.graph_search import EndToEnd
from ..plans.original import check
from ..plans.sample_inputs import check_samples, load_samples
from . import tell
from .building import load_model


def check_model(options: argparse.Namespace) -> int:
    samples = load_samples(options.sample_inputs, "--sample-inputs")
    with one_step("importing", options.model.name, options.progress):
        mod, params = load_model(options)
        host = host_target()
        prepared = prepare(mod, params, host)
    check_samples(samples, prepared)
    executor = executor_of({}, prepared)
    how = EndToEnd(
        lambda module: build_whole(module, host, executor, options={}),
        samples,
        options.seed,
        executor=executor,
    )
    with one_step("comparing", options.model.name, options.progress):
        found = check(options.model, prepared, how).agreement
    if found.error is None:
        raise ModelError(f"{options.model}: {found.Summary()}")
    told = {**dataclasses.asdict(found), "summary": found.Summary()}
    tell(options, told, [f"{options.model}: {found.Summary()}"])
    return 0
