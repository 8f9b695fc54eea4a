# SPDX-License-Identifier: Apache-2.0
"""A command that a signal kills ends in one line, whoever's signal it is."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# A command that does something in place of what it is called with.
PROGRAM = """
import os, signal, sys, time
from tvm_collage import cli, command
from tvm_collage.supervisor import must_end, note
cli.run = lambda options: [{what}][-1]
sys.argv = ["collage", "doctor", *{flags}]
sys.exit(command.main())
"""
CRASH = "note('importing (net.onnx)'), os.kill(os.getpid(), signal.SIGSEGV)"
LINE = (
    "the command was killed by SIGSEGV in the phase importing (net.onnx): native code of TVM or of "
    "a backend's library is at fault; try fewer --backends, or export the model again"
)


def started(what, *flags):
    code = PROGRAM.format(what=what, flags=flags)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], text=True, **pipes)


def ended(what, *flags):
    process = started(what, *flags)
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_a_command_that_ends_by_itself_has_its_own_exit_code(code):
    assert ended(f"print('done'), {code}") == (code, "done\n", "")


def test_a_native_crash_is_one_line_and_1():
    assert ended(CRASH) == (1, "", f"collage: {LINE}\n")


def test_a_native_crash_is_told_as_the_command_tells_errors():
    code, out, err = ended(CRASH, "--json")
    assert (code, json.loads(out), err) == (1, {"error": LINE, "kind": "NativeError"}, "")
    code, out, err = ended(CRASH, "--json-lines")
    assert (code, out, json.loads(err)) == (1, "", {"kind": "error", "text": LINE})


def test_who_was_killed_from_outside_names_no_fault_of_the_code():
    code, _, err = ended("os.kill(os.getpid(), signal.SIGKILL)")
    assert code == 1 and "killed by SIGKILL: see who ends processes here" in err


LATE = "[note('importing (net.onnx)'), (block := must_end({})).__enter__(), time.sleep({})]"


def test_what_must_end_and_hangs_ends_the_command_in_one_line():
    began = time.monotonic()
    line = "the phase importing (net.onnx) did not end within the time limit: raise it, or export "
    assert ended(LATE.format(0.2, 60)) == (1, "", f"collage: {line}the model again\n")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(("seconds", "takes"), [(60, 0.01), (0, 1.2)])
def test_what_ends_in_time_or_has_no_limit_goes_on(seconds, takes):
    assert ended(f"{LATE.format(seconds, takes)}, print('done'), 0") == (0, "done\n", "")


def test_after_the_block_there_is_no_limit():
    what = (
        "[(block := must_end(0.6)).__enter__(), block.__exit__(None, None, None)], time.sleep(1.5)"
    )
    assert ended(f"{what}, 0") == (0, "", "")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_who_is_told_to_end_ends_by_that_signal(how):
    process = started("print(os.getpid(), flush=True), time.sleep(60)")
    child = int(process.stdout.readline())
    process.send_signal(how)
    assert process.wait() == -how and process.stderr.read() == ""
    assert not Path(f"/proc/{child}").exists()


def test_no_command_outlives_its_supervisor():
    process = started("print(os.getpid(), flush=True), time.sleep(60)")
    child = int(process.stdout.readline())
    assert child != process.pid
    process.kill()
    process.wait()
    until = time.monotonic() + 10
    while is_running(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_running(child)


def is_running(pid):
    """A zombie whom nobody has waited for is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_that_has_threads_is_not_forked():
    what = "print(os.getpid()), 0"
    threaded = "__import__('threading').Thread(target=time.sleep, args=(0.5,)).start(), " + what
    code = PROGRAM.format(what=what, flags=[])
    assert started_pid(code) is False
    code = code.replace("sys.exit(", f"[{threaded}]\nsys.exit(")
    assert started_pid(code) is True


def started_pid(code):
    """Whether the process that was started itself ran the command."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    told = process.communicate()[0].split()
    return told[-1] == str(process.pid)


def test_what_tvm_logs_is_passed_on_once_and_all_else_as_it_is():
    lines = [
        "[12:00:00] /tvm/data_layout.cc:246: Warning: layout 'NHW'-->'NCW' is not convertible.",
        "[12:00:01] /tvm/data_layout.cc:246: Warning: layout 'NHW'-->'NCW' is not convertible.",
        "[12:00:01] /tvm/data_layout.cc:246: Warning: layout 'NC'-->'NCW' is not convertible.",
        "[12:00:01] /tvm/compiler.cc:1199: All lowered functions have been build by BYOC",
        "[12:00:02] /tvm/compiler.cc:1199: All lowered functions have been build by BYOC",
        "of somebody else",
        "of somebody else",
    ]
    what = f"os.write(2, {chr(10).join(lines)!r}.encode()), 0"
    assert ended(what) == (0, "", "\n".join([lines[0], *lines[2:4], *lines[5:]]))


def test_what_python_says_goes_where_it_did():
    """A terminal stays one to Python; native code writes to a pipe."""
    main, terminal = os.openpty()
    what = "print(sys.stderr.isatty(), os.isatty(2), flush=True), print('said', file=sys.stderr), 0"
    code = PROGRAM.format(what=what, flags=[])
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=terminal, text=True
    )
    out, _ = process.communicate()
    assert out == "True False\n" and os.read(main, 99) == b"said\r\n"
    for end in (main, terminal):
        os.close(end)
