# SPDX-License-Identifier: Apache-2.0
"""Parts that commands which build a model share: arguments, loading, targets, options as flags.
Test: cli/test_compile.py.
"""

from __future__ import annotations

import argparse
import logging
from typing import Any, NamedTuple

import tvm
from tvm.target import Target
from tvm_collage.cli.parser import line_of
from tvm_collage.supervisor import ended_by_interrupt, must_end

from ..backends.targets import available_targets, host_named, parse_targets, split_targets
from ..compile.module_check import check_fixed_shapes, shape_flags
from ..errors import CollageError, FileError, ModelError, OptionError, UnknownBackendError
from ..files.kinds import kind_of, original_of
from ..files.text import check_report_path, why_no_file
from ..importer import quick_import
from ..importer.onnx_file import onnx_module
from ..messages.foreign import last_line
from ..messages.progress import one_step
from ..optimizer import optimize
from ..options import CollageOptions
from ..options.flags import values_of
from ..plans.placement import Placement
from ..precision.place import optimize_precision
from ..result import Result

# Of fixed shapes alone.
_WHO = "a library of the command collage, unlike one of relay.vm.compile,"
_logger = logging.getLogger(__name__)


def is_onnx(options: argparse.Namespace) -> bool:
    """Return whether the model is ONNX by the format that was named, or by the file's ending."""
    ending: str = options.model_format or options.model.suffix.removeprefix(".")
    return ending.lower() == "onnx"


def load_model(options: argparse.Namespace) -> tuple[tvm.IRModule, dict[str, Any] | None]:
    """Load module and parameters. ModelError for what cannot be read."""
    path, shapes = options.model, dict(options.shape)
    _check_is_file(options)
    if is_onnx(options):
        return onnx_module(path, shapes), None
    from tvm.driver.tvmc import TVMCException, TVMCImportError
    from tvm.driver.tvmc.frontends import guess_frontend
    from tvm.driver.tvmc.frontends import load_model as load

    cannot = f"{path} cannot be read as a model: "
    if options.model_format is None:
        try:
            guess_frontend(str(path))
        except TVMCException:
            advice = "name a model's file, or give its format by --model-format"
            raise ModelError(f"{cannot}it seems to be {kind_of(path)}; {advice}") from None
    try:
        with quick_import():
            loaded = load(str(path), options.model_format, shapes or None)
    except (TVMCImportError, ModuleNotFoundError) as error:
        package = (getattr(error, "name", None) or str(error)).partition(".")[0]
        why = f"that takes the Python package {package}, which is not here; install {package}"
        raise ModelError(cannot + why) from None
    except TVMCException as error:
        # By the name that the flag has here, not at tvmc.
        why = last_line(error).replace("--input-shapes", "--shape")
        advice = "see --shape and --model-format, or export the model again"
        raise ModelError(f"{cannot}{why}; {advice}") from None
    except Exception as error:  # an importer's, of whatever kind
        _logger.info("import of %s", path, exc_info=True)
        kind = type(error).__name__
        raise ModelError(f"{path} cannot be imported: {kind}: {last_line(error)}") from error
    return loaded.mod, loaded.params


def _check_is_file(options: argparse.Namespace) -> None:
    """ModelError for a model that names no file."""
    if reason := why_no_file(options.model):
        raise ModelError(f"{options.model} cannot be read: {reason}; name a model's file")


def options_of(options: argparse.Namespace) -> CollageOptions:
    """Return the options that the flags set; no progress is shown where little is to be said."""
    values = values_of(options, "")
    if options.quiet:
        values.setdefault("progress", "quiet")
    chosen = CollageOptions(**values)
    check_report_path(chosen.report)
    return chosen


def targets_of(options: argparse.Namespace, chosen: CollageOptions) -> list[Target]:
    """Return host and backends; OptionError and those of parse_targets for what is none."""
    try:
        host = host_named(options.host, "--host")
        if options.backends is None:
            return [host, *available_targets(chosen.accuracy_budget)[1:]]
        return parse_targets([host, *split_targets(options.backends, "--backends")]).all
    except UnknownBackendError as error:
        raise UnknownBackendError(f"--backends: {error.text}") from None
    except CollageError:
        raise
    except (ValueError, tvm.TVMError) as error:
        raise OptionError(f"--backends: {last_line(error)}") from error


class BuildRequest(NamedTuple):
    """A command's build: a model of fixed shapes, for targets, by options."""

    mod: tvm.IRModule
    params: dict[str, Any] | None
    targets: list[Target]
    chosen: CollageOptions


def request_of(options: argparse.Namespace) -> BuildRequest:
    """Return what the command line asks for; targets are read before the model is imported.
    CollageError."""
    chosen = options_of(options)
    targets = targets_of(options, chosen)
    with (
        one_step("importing", options.model.name, chosen.progress),
        ended_by_interrupt(line_of("interrupted", options)),
        must_end(chosen.time_limit),
    ):
        mod, params = load_model(options)
    check_fixed_shapes(mod, params, _WHO, how=shape_flags, file=str(options.model))
    return BuildRequest(mod, params, targets, chosen=chosen)


def optimized(
    options: argparse.Namespace,
    placement: Placement | None = None,
    request: BuildRequest | None = None,
) -> Result:
    """Return the model's result; see optimize, and optimize_precision where there are samples,
    which imports each form of the model itself, by the shapes of the samples."""
    chosen = request.chosen if request else options_of(options)
    if chosen.calibration and placement is None:
        return _in_precisions(options, chosen)
    mod, params, targets, chosen = request or request_of(options)
    original = chosen.original or original_of(options.model)
    with tvm.transform.PassContext(opt_level=options.opt_level):
        return optimize(
            mod, params, targets, options=chosen, placement=placement, original=original
        )


def _in_precisions(options: argparse.Namespace, chosen: CollageOptions) -> Result:
    targets = targets_of(options, chosen)
    _check_is_file(options)
    if not is_onnx(options):
        raise FileError(
            f"{options.model}: --calibration chooses precisions of ONNX files alone: export the "
            "model as one"
        )
    with tvm.transform.PassContext(opt_level=options.opt_level):
        return optimize_precision(options.model, targets, chosen, shapes=dict(options.shape))
