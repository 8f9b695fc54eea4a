# SPDX-License-Identifier: Apache-2.0
"""Programs in a process that has imported TVM and opened nothing: 0.1 s of CPU, not the 2 of
`python -c`, as workers are forked from a clean process (exec/clean.py).
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import traceback

# Read when they are needed, not while TVM is imported: workers are forked where tests change them.
READ_LATE = (
    "TMPDIR",
    "PYTEST_CURRENT_TEST",
    "XDG_CACHE_HOME",
    "TVM_NUM_THREADS",
    "COLLAGE_CPU_LOCKS",
    "COLLAGE_STORE",
    "COLLAGE_MKL_LIBRARY",
    "COLLAGE_ONEDNN_LIBRARY",
    "COLLAGE_ONNXRUNTIME_LIBRARY",
    "COLLAGE_OPENBLAS_LIBRARY",
    "COLLAGE_OPENVINO_LIBRARY",
    "COLLAGE_XNNPACK_LIBRARY",
)
SECONDS = 120.0


def run(code, *arguments, env=os.environ):
    """`python -c code arguments`; a CompletedProcess with texts."""
    from tvm.relay.collage.exec.process import WorkerOptions, WorkerProcess
    from tvm.relay.collage.exec.resolve import call_of

    worker = WorkerProcess(WorkerOptions(environment=env))
    try:
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            # By its name here, which is the one that a worker can import it by.
            call = call_of(
                "tvm_forks:run_in_fork",
                command=["-c", code, *arguments],
                environment=dict(env),
                printed=[out.name, err.name],
            )
            reply = worker.call("call", call, SECONDS)
            assert reply.outcome == "ok", reply.message
            texts = (file.read().decode() for file in (out, err))
            return subprocess.CompletedProcess(arguments, reply.value, *texts)
    finally:
        worker.kill()


def run_in_fork(command, environment, printed):
    """In a worker: fork what runs the program and ends as Python does; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for number, name in enumerate(printed, 1):
                os.dup2(os.open(name, os.O_WRONLY), number)
            os.environ.clear()
            os.environ.update(environment)
            tempfile.tempdir = None
            _, program, *sys.argv[1:] = command
            sys.argv[0] = "-c"
            sys.path.insert(0, "")
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:  # noqa: BLE001 - the worker's own loop must not see it
            traceback.print_exc()
        ctypes.pythonapi.Py_Exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
