# SPDX-License-Identifier: Apache-2.0
"""The arguments of `collage tt`. Docs: docs/transfer.md. Test: collage/cli/test_tt.py."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .export_torch import NEEDS, NETS
from .parser import (
    Commands,
    Parser,
    add_command,
    add_count,
    add_output,
    add_progress,
    add_shape,
    seconds,
)

_APPENDED = "the log that each trial is appended to; run again with it to go on"


def add_tt(commands: Commands) -> None:
    help = "speed up a model's kernels by schedules that were found for others (docs/transfer.md)"
    parser = commands.add_parser("tt", help=help, description=help)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for add in (_add_nets, _add_logs, _add_searches, _add_many, _add_comparisons):
        add(actions)


def _add_nets(actions: Commands) -> None:
    help = "write the nets of Transfer-Tuning's paper as ONNX files, untrained"
    action = add_command(actions, "export", "tt.export.export_nets", help=help)
    add_output(
        action, "FOLDER", "the folder to write the files to; nets that are there already are kept"
    )
    help = f"which nets, of {', '.join(NETS)} (default: all)"
    default = list(NETS)
    action.add_argument("--models", type=_nets, default=default, metavar="NAME,NAME", help=help)
    help = "how many inputs one run of a net takes; with more the file is NAME-batchN.onnx"
    add_count(action, "--batch", help, default=1)
    help = f"a Python interpreter that has {NEEDS} (default: the one that runs this command)"
    action.add_argument("--python", default=sys.executable, help=help)
    add_progress(action)


def _add_logs(actions: Commands) -> None:
    help = "list the kernels of models or of logs, by class"
    action = add_command(actions, "info", "tt.logs.list_kernels", help=help)
    help = "a model (*.onnx) or a log of Ansor"
    action.add_argument("input", nargs="+", type=Path, metavar="FILE", help=help)
    _add_model_options(action)
    add_progress(action)
    help = "copy the fastest trials of each kernel to a new log"
    distil = add_command(actions, "distil", "tt.logs.distil_logs", help=help)
    help = "copy the trials of each class of kernels to a log of its own"
    split = add_command(actions, "split", "tt.logs.split_logs", help=help)
    for each in (distil, split):
        each.add_argument("logs", nargs="+", type=Path, metavar="LOG", help="a log of Ansor")
    add_output(distil, "LOG", "the new log to write")
    help = "how many trials are kept of each kernel, the fastest first"
    add_count(distil, "--best", help, default=1, metavar="K")
    add_output(split, "FOLDER", "the folder to write the logs to, each named after its class")


def _add_searches(actions: Commands) -> None:
    def add(name: str, run: str, help: str) -> Parser:
        action = add_command(actions, name, f"tt.search.{run}", help=help)
        action.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
        return action

    action = add(
        "autoschedule", "search_schedules", "have Ansor search schedules for a model's kernels"
    )
    _add_log(action, "log", _APPENDED)
    add_count(action, "--trials", "how many schedules are tried on each kernel", default=64)
    action.add_argument(
        "--search-model",
        choices=["xgb", "random"],
        default="xgb",
        help="what guides the search: a cost model of xgboost, or chance (default: xgb)",
    )
    until = action.add_mutually_exclusive_group()
    help = "stop after as many seconds as the transfers in this log took, instead of --seconds"
    until.add_argument("--same-time", metavar="LOG", type=Path, help=help)
    help = "stop when the kernels are as fast as in this log, which is looked at once a minute"
    until.add_argument("--match", metavar="LOG", type=Path, help=help)
    _add_trials(action)
    action = add("choose", "choose_log", "tell which of several logs promises most to a model")
    _add_from(action)
    _add_model_options(action)
    add_progress(action)
    action = add("transfer", "transfer_schedules", "try the schedules of logs on a model's kernels")
    _add_log(action, "log", _APPENDED)
    help = "use only that of the logs of --from that promises most"
    action.add_argument("--choose", action="store_true", help=help)
    _add_sources(action)
    _add_trials(action)


def _add_many(actions: Commands) -> None:
    action = add_command(
        actions,
        "many",
        "tt.many.transfer_many",
        help="transfer to each model from each log and from all, and compare what choose would "
        "take with what proved best",
    )
    action.add_argument(
        "models",
        nargs="+",
        type=Path,
        metavar="MODEL",
        help="an ONNX file; a log of the same name (net.jsonl for net.onnx) is taken to be of the "
        "model's own search, which is not transferred to it",
    )
    help = "the folder to write logs and results to; run again with it to go on"
    add_output(action, "FOLDER", help)
    add_count(action, "--runs", "how often each transfer is made", default=1)
    help = "how often each model is run and measured with each log"
    add_count(action, "--rounds", help, default=30)
    _add_sources(action)
    _add_trials(action)


def _add_comparisons(actions: Commands) -> None:
    help = (
        "measure a model untuned, with transferred schedules, and with Ansor's own schedules after "
        "the same time and at the end"
    )
    action = add_command(actions, "compare", "tt.compare.compare_model", help=help)
    action.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    _add_log(action, "transferred", "the log that `collage tt transfer` wrote")
    _add_log(action, "ansor", "the log that `collage tt autoschedule` wrote")
    help = "how often each of them is run and measured"
    add_count(action, "--rounds", help, default=30)
    help = "also write the answer to this file as JSON, for `collage tt plot`"
    add_output(action, "FILE", help, required=False)
    _add_model_options(action)
    add_progress(action)
    help = "draw the speed-ups that compare found, and how they grew with search time"
    action = add_command(actions, "plot", "tt.compare.plot_comparisons", help=help)
    help = "a file that `collage tt compare -o FILE` wrote"
    action.add_argument("comparisons", nargs="+", type=Path, metavar="FILE", help=help)
    add_output(action, "PICTURE", "the picture to write, as .png or .svg")


def _add_log(action: Parser, name: str, help: str) -> None:
    action.add_argument(f"--{name}", type=Path, required=True, metavar="LOG", help=help)


def _add_model_options(action: Parser) -> None:
    """Add the options of an action that reads a model."""
    help = "the host target (default: this CPU)"
    action.add_argument("--target", default="", metavar="TARGET", help=help)
    add_shape(action)


def _add_trials(action: Parser) -> None:
    """Add the options of an action that makes trials of a model."""
    _add_model_options(action)
    help = "time for a search or a transfer, all kernels together, in seconds (default: 600)"
    action.add_argument("--seconds", type=seconds, default=600.0, metavar="S", help=help)
    add_progress(action)


def _add_from(action: Parser) -> None:
    help = "logs of Ansor that have the schedules; shipped means those of this package"
    action.add_argument(
        "--from", dest="sources", nargs="+", required=True, metavar="LOG", help=help
    )


def _add_sources(action: Parser) -> None:
    """Add the options of an action that transfers: which schedules are tried."""
    _add_from(action)
    help = "how many schedules are taken of each kernel of the logs, the fastest first"
    add_count(action, "--best", help, default=1, metavar="K")
    help = (
        "try at most this many schedules on each kernel, those of the kernels nearest in size "
        "first (default: all)"
    )
    add_count(action, "--schedules", help)
    action.add_argument(
        "--without",
        metavar="WORD",
        action="append",
        default=[],
        help="leave out kernels whose name contains this word, such as conv2d, by the name that "
        "`collage tt info --json` tells; may be given several times",
    )


def _nets(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in NETS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{text!r}: choose of {', '.join(NETS)}")
    return names
