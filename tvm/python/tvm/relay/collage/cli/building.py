# SPDX-License-Identifier: Apache-2.0
"""Parts that commands which build a model share: arguments, loading, targets, options as flags.
Test: cli/test_compile.py.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Container
from pathlib import Path
from typing import Any, NamedTuple

import tvm
from tvm.target import Target
from tvm_collage.interrupt import ended_by_interrupt
from tvm_collage.supervisor import must_end

from ..backends.targets import available_targets, host_named, parse_targets, split_targets
from ..compile.module_check import check_fixed_shapes, shape_flags
from ..errors import CollageError, ModelError, OptionError, UnknownBackendError
from ..files.kinds import kind_of, original_of
from ..files.text import check_report_path, why_no_file
from ..importer import quick_import
from ..importer.onnx_file import onnx_module
from ..messages.foreign import last_line
from ..messages.progress import one_step
from ..optimizer import optimize
from ..options import CollageOptions
from ..options.flags import add_flags, values_of
from ..plans.placement import Placement
from ..result import Result
from .parser import line_of

# Python takes a file NAME.so of the current folder for the module NAME.
_MODULES = ("collage", "tvm", "tvm_collage")
# Of fixed shapes alone.
_WHO = "a library of the command collage, unlike one of relay.vm.compile,"
_logger = logging.getLogger(__name__)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the model, and for what it leaves open."""
    parser.add_argument(
        "model", type=Path, metavar="MODEL", help="an ONNX file, or another that tvmc reads"
    )
    add_shape(parser)
    parser.add_argument(
        "--model-format",
        metavar="NAME",
        help="onnx, tflite, pytorch, keras, pb, paddle or relay (default: by the file's ending)",
    )


def add_shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shape",
        metavar="INPUT=DIMS",
        type=_shape,
        action="append",
        default=[],
        help="sizes of an input that the model leaves open, as x=1,3,224,224",
    )


def add_build(parser: argparse.ArgumentParser, left_out: Container[str] = ()) -> None:
    """Add the targets, and a flag for each option but those left out."""
    parser.add_argument(
        "--backends",
        metavar="A,B",
        help="external backends, with attributes as in a target, and a blank behind a comma that "
        "follows one: 'dnnl -winograd=never, cblas' (default: all that can run here)",
    )
    parser.add_argument(
        "--host", default="", metavar="TARGET", help="the host target (default: this CPU)"
    )
    parser.add_argument(
        "--opt-level", type=int, choices=range(4), default=3, help="TVM's own level (3)"
    )
    group = parser.add_argument_group("options of Collage", "See docs/options.md.")
    add_flags(group, "", left_out)


def is_onnx(options: argparse.Namespace) -> bool:
    """Return whether the model is ONNX by the format that was named, or by the file's ending."""
    ending: str = options.model_format or options.model.suffix.removeprefix(".")
    return ending.lower() == "onnx"


def load_model(options: argparse.Namespace) -> tuple[tvm.IRModule, dict[str, Any] | None]:
    """Load module and parameters. ModelError for what cannot be read."""
    path, shapes = options.model, dict(options.shape)
    if reason := why_no_file(path):
        raise ModelError(f"{path} cannot be read: {reason}; name a model's file")
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
        must_end(chosen.search_seconds),
    ):
        mod, params = load_model(options)
    check_fixed_shapes(mod, params, _WHO, shape_flags, str(options.model))
    return BuildRequest(mod, params, targets, chosen)


def optimized(
    options: argparse.Namespace,
    placement: Placement | None = None,
    request: BuildRequest | None = None,
) -> Result:
    """Return the model's result; see optimize."""
    mod, params, targets, chosen = request or request_of(options)
    original = chosen.original or original_of(options.model)
    with tvm.transform.PassContext(opt_level=options.opt_level):
        return optimize(mod, params, targets, chosen, placement=placement, original=original)


def library_path(text: str) -> str:
    """Check the path of a library to write, as an argument's type."""
    if not text.endswith(".so"):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a library: end it in .so")
    if os.path.basename(text).removesuffix(".so") in _MODULES:
        raise argparse.ArgumentTypeError(
            f"{text!r} would hide Python's module of that name from programs that run in its "
            "folder: give another name"
        )
    return os.fspath(text)


def _shape(text: str) -> tuple[str, list[int]]:
    name, equals, dims = text.rpartition("=")
    try:
        sizes = [int(dim) for dim in dims.split(",")] if name and equals else []
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no INPUT=DIMS with sizes of 1 or more, as x=1,3,224,224"
        )
    return name, sizes
