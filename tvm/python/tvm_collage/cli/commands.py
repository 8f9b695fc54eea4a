# SPDX-License-Identifier: Apache-2.0
"""The arguments of the commands, but for those of store.py and transfer.py.

Docs: docs/tools.md. Test: collage/cli/.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Container
from pathlib import Path

from ..options import add_flags, option_table
from ..words import DECISIONS, FORMS, MOST_BOXES, PICTURE_FORMS
from .parser import Commands, Parser, add_command, add_progress, add_shape

# Python takes a file NAME.so of the current folder for the module NAME.
_MODULES = ("collage", "tvm", "tvm_collage")
# What a build by a decision depends on, which measures nothing.
_OF_REPLAY = {
    "accuracy_budget",
    "log_level",
    "placement_allow",
    "report",
    "tuning_log",
    "vector_math",
}
_LIBRARY = "a library, which `collage compile MODEL -o LIB.so` writes"


def add_compile(commands: Commands) -> None:
    """Add compile, search and replay."""

    def add(name: str, takes: str, help: str) -> Parser:
        parser = add_command(commands, name, f"compile.{name}_model", help=help)
        _add_model(parser, takes)
        return parser

    def add_results(parser: Parser) -> None:
        help = "write the placement of what ships, for replay"
        parser.add_argument("--save-placement", metavar="FILE", help=help)
        help = "write the ONNX model with the precisions that --calibration chose"
        parser.add_argument("--save-model", metavar="FILE", help=help)
        _add_build(parser, {"placement", "placement_allow"})

    parser = add(
        "compile",
        "MODEL -o LIB.so",
        "compile a model to the fastest library for this machine, which takes minutes",
    )
    _add_library(parser, "-o", "--output", required=True, help="the library to write")
    add_results(parser)
    add_results(
        add("search", "MODEL", "find the fastest plan as compile does, and write no library")
    )
    parser = add(
        "replay",
        "MODEL PLACEMENT -o LIB.so",
        "compile a model by a decision that was made before, without measuring",
    )
    parser.add_argument("decision", metavar="PLACEMENT", help="a placement, report or library")
    _add_library(parser, "-o", "--output", required=True, help="the library to write")
    help = "build this plan of a report or library, not the one that ships"
    parser.add_argument("--plan", help=help)
    _add_build(parser, {row.name for row in option_table()} - _OF_REPLAY)


def add_check(commands: Commands) -> None:
    help = "compare a model's outputs with those of the runtime that its file is made for"
    parser = add_command(commands, "check", "check.check_model", help=help)
    _add_model(parser)
    parser.add_argument(
        "--sample-inputs", default="", metavar="FILE", help="arrays by input name (.npz)"
    )
    _add_seed(parser)
    add_progress(parser)


def add_run(commands: Commands) -> None:
    help = "run a library on given or made-up inputs"
    parser = add_command(commands, "run", "run.run_library", help=help)
    flag = parser.add_argument
    flag("library", metavar="LIB", help="a library that `collage compile` or tvmc wrote")
    help = "arrays by input name; those left out are made up"
    flag("--inputs", default="", metavar="FILE.npz", help=help)
    help = "write the outputs there, as output_0, ..."
    flag("--outputs", default="", metavar="FILE.npz", help=help)
    _add_seed(parser)
    flag("--time", action="store_true", help="say how long a run takes")
    add_progress(parser)
    parser.reads = _LIBRARY


def add_report(commands: Commands) -> None:
    help = "show what ships and how fast it is, as text, page or picture"
    parser = add_command(commands, "report", "report.show_report", help=help)
    flag = parser.add_argument
    flag("file", type=Path, metavar="FILE", help="a library, a report or a placement")
    help = "print all plans, parts, failures and reasons"
    flag("--details", action="store_true", help=help)
    for form, meaning in FORMS.items():
        flag(f"--{form}", metavar="OUT", type=Path, help=f"write {meaning}")
    help = "write the plan's placement, for replay"
    flag("--save-placement", metavar="OUT", type=Path, help=help)
    flag("--plan", help="write this plan, not what ships; any that was seen")
    flag("--function", default="", help="draw this function, not the largest")
    boxes = f"most boxes of parts in a picture ({MOST_BOXES}), which neighbours share; 0: one each"
    flag("--boxes", type=int, metavar="N", help=boxes)
    add_progress(parser)
    flag("--json", action="store_true", help="print the three lines as JSON")
    parser.reads = DECISIONS
    parser.why_wrong = _why_no_picture


def _why_no_picture(options: argparse.Namespace) -> str:
    """Return why options of what is drawn say nothing; "" where they do."""
    wanted = [form for form in FORMS if getattr(options, form)]
    if (options.function or (options.plan and not options.save_placement)) and not wanted:
        names = ", ".join(f"--{form}" for form in FORMS)
        return (
            f"--plan and --function say what to draw: name a file by one of {names}; or a "
            "plan's placement by --save-placement"
        )
    if options.boxes is not None and not set(wanted) & set(PICTURE_FORMS):
        names = " or ".join(f"--{form}" for form in PICTURE_FORMS)
        return f"--boxes says how many boxes a picture has: name a file by {names}"
    return ""


def add_explain(commands: Commands) -> None:
    help = "say why each part runs where it does, and why this plan ships"
    parser = add_command(commands, "explain", "report.explain_decision", help=help)
    flag = parser.add_argument
    flag("decision", metavar="FILE", help="a library, a report or a placement")
    flag("--node", type=int, metavar="N", help="tell all of one node, by its index")
    help = "tell all of the nodes of an operator, as nn.conv2d"
    flag("--op", metavar="NAME", help=help)
    flag("--backend", metavar="NAME", help="tell of this backend alone")
    help = "list all parts or nodes, not only the dearest"
    flag("--all", action="store_true", help=help)
    flag("--plan", help="explain this plan, not what ships; any that was seen")
    add_progress(parser)
    parser.reads = DECISIONS


def add_bench(commands: Commands) -> None:
    help = "measure a model with Collage beside onnxruntime and OpenVINO"
    parser = add_command(commands, "bench", "bench.bench_model", help=help)
    _add_model(parser, "MODEL [--library LIB.so]")
    help = "this model as it was compiled before, to measure it only"
    _add_library(parser, "--library", help=help)
    help = "measured runs of each contestant (30)"
    parser.add_argument("--rounds", type=_rounds, default=30, help=help)
    help = "largest error of outputs, relative to the largest output (1e-3)"
    parser.add_argument("--rtol", type=float, default=1e-3, help=help)
    _add_build(parser)


def add_doctor(commands: Commands) -> None:
    help = "check whether this machine is fit to measure on: cores, noise, backends, store"
    parser = add_command(commands, "doctor", "doctor.examine_machine", help=help)
    parser.add_argument("--target", default="", help="a host target to check, else the usual one")
    parser.add_argument("--store", default="", help="the file of the store, else the user's own")
    parser.add_argument("--strict", action="store_true", help="exit code 1 for warnings too")
    add_progress(parser)


def add_backends(commands: Commands) -> None:
    help = "list the backends: which can run here, why others cannot, what each takes"
    parser = add_command(commands, "backends", "backends.list_all", help=help)
    help = "these alone, with all their patterns and operators"
    parser.add_argument("name", nargs="*", help=help)
    parser.add_argument(
        "--import",
        dest="modules",
        metavar="MODULE",
        action="append",
        default=[],
        help="import a module that registers backends of your own",
    )


def add_completion(commands: Commands, make_parser: Callable[[], Parser]) -> None:
    """Add the command for a script by which a shell completes commands and flags."""

    def run(options: argparse.Namespace) -> int:
        import shtab  # which no other command waits for

        script = shtab.complete(make_parser(), shell=options.shell)
        print(json.dumps({"script": script}) if options.json else script)
        return 0

    help = "print a script by which a shell completes commands and flags"
    parser = add_command(commands, "completion", run, help=help)
    parser.description = f"{help}: source <(collage completion bash), or in a file that it reads"
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    parser.set_defaults(gives_data=True)


def _add_model(parser: Parser, takes: str = "") -> None:
    """Add the arguments for the model, and for what it leaves open. takes: the command's own in a
    usage that leaves out the options of Collage, which would fill a screen."""
    if takes:
        parser.usage = f"%(prog)s {takes} [--shape INPUT=DIMS] [options]"
    help = "an ONNX file, or another that tvmc reads"
    parser.add_argument("model", type=Path, metavar="MODEL", help=help)
    add_shape(parser)
    help = "onnx, tflite, pytorch, keras, pb, paddle or relay (default: by the file's ending)"
    parser.add_argument("--model-format", metavar="NAME", help=help)


def _add_build(parser: Parser, left_out: Container[str] = ()) -> None:
    """Add the targets, and a flag for each option but those left out."""
    parser.add_argument(
        "--backends",
        metavar="A,B",
        help="external backends, with attributes as in a target, and a blank behind a comma that "
        "follows one: 'dnnl -winograd=never, cblas' (default: all that can run here)",
    )
    help = "the host target (default: this CPU)"
    parser.add_argument("--host", default="", metavar="TARGET", help=help)
    help = "TVM's own level (3)"
    parser.add_argument("--opt-level", type=int, choices=range(4), default=3, help=help)
    group = parser.add_argument_group("options of Collage", "See docs/options.md.")
    add_flags(group, "", left_out)


def _add_library(parser: Parser, *flags: str, help: str, required: bool = False) -> None:
    parser.add_argument(*flags, type=_library_path, required=required, metavar="LIB.so", help=help)


def _add_seed(parser: Parser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="seed of inputs that are made up (0)")


def _library_path(text: str) -> str:
    if not text.endswith(".so"):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a library: end it in .so")
    if os.path.basename(text).removesuffix(".so") in _MODULES:
        raise argparse.ArgumentTypeError(
            f"{text!r} would hide Python's module of that name from programs that run in its "
            "folder: give another name"
        )
    return text


def _rounds(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rounds, 1 or more")
    return int(text)
