# SPDX-License-Identifier: Apache-2.0
"""`collage tt compare, plot`: what transfers gained beside what Ansor gained, and how long each
took. Test: cli/test_tt_compare.py.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ...errors import CollageError, OptionError
from ...files.text import check_file_path, why_no_file, write_whole
from ...messages.progress import steps
from ...tuning.model import one_worker
from .. import tell
from .common import check_is_of_search, check_is_of_transfer, open_net
from .gain import Gain, compare_searches
from .gain_picture import plot_gains


def compare_model(options: argparse.Namespace) -> int:
    check_file_path(str(options.output or ""), "--output")
    check_is_of_transfer(options.transferred)
    check_is_of_search(options.ansor)
    with one_worker() as workers:
        model = open_net(options.model, options, workers)
        with steps("comparing", options.progress) as on_step:
            found = compare_searches(
                model,
                options.transferred,
                options.ansor,
                workers=workers,
                rounds=options.rounds,
                on_step=on_step,
            )
    if options.output:
        write_whole(str(options.output), json.dumps(found.to_json(), indent=1) + "\n")
    tell(options, found.to_json(), found.lines())
    return int(any(side.speedup is None for side in found.sides))


def plot_comparisons(options: argparse.Namespace) -> int:
    gains = [_read(path) for path in options.comparisons]
    try:
        plot_gains(gains, options.output)
    except ImportError as error:  # no matplotlib
        raise CollageError(f"{options.output} was not drawn: {error}") from error
    except ValueError as error:  # no such format
        raise OptionError(f"{options.output} was not drawn: {error}") from error
    tell(options, {"picture": str(options.output)}, [str(options.output)])
    return 0


def _read(path: Path) -> Gain:
    """Read what tt compare wrote. CollageError."""
    if reason := why_no_file(path):
        raise CollageError(f"{path} cannot be read: {reason}; name what `collage tt compare` wrote")
    try:
        return Gain.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CollageError(
            f"{path} is no answer of collage tt compare: name what `collage tt compare -o FILE` "
            "wrote"
        ) from error
