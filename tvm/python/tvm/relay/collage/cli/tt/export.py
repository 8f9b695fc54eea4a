# SPDX-License-Identifier: Apache-2.0
"""`collage tt export`: the nets of the paper as ONNX files. Test: cli/test_tt_export.py.

torchvision and transformers build them, in an environment that has these: they need not be beside
TVM, whose process they never enter.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from tvm_collage.cli import export_torch
from tvm_collage.cli.export_torch import NEEDS

from ...errors import CollageError
from ...files.text import check_file_path, make_folder
from ...messages.progress import steps
from .common import print_facts


def export_nets(options: argparse.Namespace) -> int:
    make_folder(options.output, "--output")
    # A net of another batch is another net, so that what is kept is what was asked for.
    batch = f"-batch{options.batch}" if options.batch > 1 else ""
    files = {name: options.output / f"{name}{batch}.onnx" for name in options.models}
    kept = [name for name, file in files.items() if file.exists()]
    lacking = [name for name in files if name not in kept]
    with steps("exporting", options.progress) as on_step:
        for done, name in enumerate(lacking):
            check_file_path(str(files[name]), "--output")
            on_step(name, done, len(lacking))
            _run(options.python, name, options.batch, file=files[name])
    facts = {"written": lacking, "kept": kept}
    print_facts(options, {**facts, "folder": str(options.output)})
    return 0


def _run(python: str, name: str, batch: int, file: Path) -> None:
    """Export one net in a process of its own. CollageError."""
    command = [python, "-P", export_torch.__file__, name, str(batch), str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CollageError(f"--python {python}: {error.strerror}") from error
    if done.returncode:
        last = (done.stderr.strip() or "no reason given").splitlines()[-1]
        advice = ""
        if "ModuleNotFoundError" in last:
            advice = f": name by --python an interpreter that has {NEEDS}"
        raise CollageError(f"{name} cannot be exported by {python}: {last}{advice}")
