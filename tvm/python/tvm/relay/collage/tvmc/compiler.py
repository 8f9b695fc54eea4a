# SPDX-License-Identifier: Apache-2.0
"""`tvmc compile` with Collage: its targets, tuning records and build, and what it prints.

Test: tvmc/test_tvmc.py.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm_collage_hook import INTERRUPTED, end_on_interrupt, is_tvmc_with_collage

from ..compile.module_check import FixedShapes, check_fixed_shapes
from ..errors import CollageError, ExecutorError
from ..files.attached import add_report
from ..files.kinds import original_of
from ..files.text import check_file_path
from ..integration import OPTION
from ..machine.compiler import require_compiler
from ..messages.foreign import last_line
from ..options import PREFIX
from ..tvm_fixes.apply import replace
from . import arguments
from .compilation import LOGGER, Compilation, before, current, enables, options_in, under_way
from .summary import summary_lines
from .targets import split_target

_TUNING_LOG = PREFIX + "tuning_log"
_ORIGINAL = PREFIX + "original"
# Formats of --dump-code that are of the module, before there is a library.
_OF_MODULE = ("relay", "tir")


def wrap(module: Any) -> None:
    """Put ours before tvm.driver.tvmc.compiler."""
    stock = module.add_compile_parser
    replace(
        "tvmc compile",
        {
            "add_compile_parser": arguments.with_group,
            "drive_compile": _drive_compile,
            "compile_model": _compile_model,
            "build": _build,
        },
    )
    ours = module.add_compile_parser
    replace("tvmc parsers", lambda parsers: [ours if each is stock else each for each in parsers])


@before
def _drive_compile(stock: Callable, args: argparse.Namespace) -> int:
    from tvm.driver.tvmc import TVMCException

    if not arguments.is_asked_for(args):
        args.target = None if args.target is None else str(args.target)
        return stock(args)
    try:
        with _logs_on_stderr():
            return _drive(stock, args)
    except KeyboardInterrupt:
        print("tvmc: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (CollageError, OSError) as error:
        raise TVMCException(str(error)) from error
    finally:
        _replace_handler(signal.default_int_handler, end_on_interrupt)


def _replace_handler(old: Callable, new: Callable) -> None:
    """Make Ctrl-C do `new` from here on, in a process that tvm_collage_hook knew for tvmc's."""
    if is_tvmc_with_collage(sys.orig_argv) and signal.getsignal(signal.SIGINT) is old:
        signal.signal(signal.SIGINT, new)


@contextlib.contextmanager
def _logs_on_stderr() -> Iterator[None]:
    """Have what tvmc logs on standard error: it sends logs where the result goes."""
    handlers = [
        each
        for each in logging.getLogger().handlers
        if isinstance(each, logging.StreamHandler) and each.stream is sys.stdout
    ]
    for handler in handlers:
        handler.setStream(sys.stderr)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(sys.stdout)


def _drive(stock: Callable, args: argparse.Namespace) -> int:
    """Run the command with Collage; what can be refused is before anything is imported or
    measured."""
    compilation = Compilation(arguments.config_of(args))
    compilation.config.setdefault(_ORIGINAL, original_of(args.FILE))
    check_file_path(args.output, "--output")
    check_file_path(args.collage_save_placement or "", "--collage-save-placement")
    config = {**options_in(args.pass_config), **compilation.config}
    args.target = arguments.target_text(args, config)
    _check_executor(args.executor, args.runtime, split_target(args.target)[1])
    if not args.cross_compiler:
        require_compiler()
    args.pass_config = [*(args.pass_config or []), f"{OPTION}=1"]
    with under_way(compilation):
        code = stock(args)
    result = compilation.built.collage
    written = {"library": args.output, "report": config.get(PREFIX + "report")}
    if args.collage_save_placement:
        result.save_placement(args.collage_save_placement)
        written["placement"] = args.collage_save_placement
    print("\n".join(summary_lines(result.record, written)))
    return code


def _check_executor(executor: str, runtime: str, backends: list[str]) -> None:
    """ExecutorError for what cannot be packaged, or has no runtime modules."""
    if executor != "graph":
        raise ExecutorError(
            f"--executor {executor}: TVM 0.19's tvmc packages libraries of the graph executor "
            "alone: use --executor graph"
        )
    if runtime == "crt" and backends:
        names = ", ".join(text.split()[0] for text in backends)
        raise ExecutorError(
            f"the crt runtime cannot call parts of external backends ({names}): use --runtime cpp, "
            "or give the host target alone"
        )


@before
def _compile_model(stock: Callable, *args: Any, **kwargs: Any) -> Any:
    """tvmc.compile, which for a program is the way in, and whose package says what was decided."""
    call = inspect.signature(stock).bind(*args, **kwargs)
    config = options_in(call.arguments.get("pass_context_configs"))
    if not enables(config):
        return stock(*args, **kwargs)
    from tvm.driver.tvmc import TVMCException, compiler

    compilation = current() or Compilation()
    if call.arguments.get("dump_offloads"):
        raise TVMCException(
            "--dump-offloads shows what TVM's composite targets take before a build; what "
            "Collage places where is in --collage-report"
        )
    log = call.arguments.pop("tuning_records", None)
    if log:
        logs = {**config, **compilation.config}.get(_TUNING_LOG, [])
        compilation.config[_TUNING_LOG] = [*logs, log]
    formats = call.arguments.pop("dump_code", None) or []
    formats = [formats] if isinstance(formats, str) else formats
    call.arguments["dump_code"] = [each for each in formats if each in _OF_MODULE]
    with under_way(compilation):
        package = stock(*call.args, **call.kwargs)
    sources = _sources(compilation.built, [each for each in formats if each not in _OF_MODULE])
    compiler.save_dumps(package.package_path, sources)
    package.collage = compilation.built.collage
    _add_report(package)
    return package


def _add_report(package: Any) -> None:
    """Add the report to the package. A failure is logged as an error, since tvmc shows no warnings:
    the package is worth more than its report."""
    try:
        add_report(package.package_path, package.collage.report)
    except (OSError, ValueError) as error:
        LOGGER.error(
            "the package %s carries no report, which could not be added: %s",
            package.package_path,
            error,
        )


def _sources(built: Any, formats: list[str]) -> dict[str, str]:
    """Return what of a library has a source: TVM's code by format, that of parts by kind of module.

    TVM's own dump stops at the module that holds the constants of parts, which has none.
    """
    found: dict[str, str] = {}
    modules = [built.lib] if formats else []
    while modules:
        module = modules.pop(0)
        modules += module.imported_modules
        is_tvms = module.type_key == built.collage.host.kind.name
        for name in formats if is_tvms else [module.type_key]:
            try:
                source = module.get_source(name if is_tvms else "")
                found[name] = found.get(name, "") + source
            except tvm.TVMError as error:
                LOGGER.info("no dump of a module %s: %s", module.type_key, last_line(error))
    return found


@before
def _build(stock: Callable, *args: Any, **kwargs: Any) -> Any:
    compilation = current()
    if compilation is None:
        return stock(*args, **kwargs)
    call = inspect.signature(stock).bind(*args, **kwargs)
    found = call.arguments
    if not found.get("use_vm"):
        check_fixed_shapes(
            found["mod"], found.get("params"), "the graph executor", how=_input_shapes
        )
    # From here on there are processes and files that an exception must clean up.
    _replace_handler(end_on_interrupt, signal.default_int_handler)
    found["tvm_target"] = [found["tvm_target"], *compilation.backends]
    compilation.built = stock(*call.args, **call.kwargs)
    return compilation.built


def _input_shapes(fixed: FixedShapes) -> str:
    """Say what to do about open dimensions."""
    example = " ".join(f"{name}:[{','.join(map(str, dims))}]" for name, dims in fixed.items())
    return f'fix them by --input-shapes "{example}"'
