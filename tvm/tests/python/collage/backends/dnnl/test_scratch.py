# SPDX-License-Identifier: Apache-2.0
"""Memory of running calls: the parts of a process share it, whichever sizes they have."""

import gc
import itertools
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tvm
from onednn_nets import build, constant, function_of, hand_placed
from tree import child_environment
from tvm import relay
from tvm.contrib import graph_executor

MB = 1 << 20


def net(size):
    """Two values of 64 size^2 bytes each inside, and little that goes in or comes out."""
    out = relay.var("x", shape=(1, 1, size, size))
    for seed, (channels, of, strides) in enumerate([(16, 1, 1), (16, 16, 1), (1, 16, 8)]):
        weight = constant(seed, channels, of, 3, 3)
        out = relay.nn.conv2d(
            out, weight, channels=channels, kernel_size=(3, 3), padding=1, strides=strides
        )
    return out


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    found = {size: str(folder / f"{size}.so") for size in (64, 512)}
    for size, file in found.items():
        build(hand_placed(function_of(net(size)))).export_library(file)
    return found


def opened(files, size):
    """Each with a part of its own."""
    library = tvm.runtime.load_module(files[size])
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    values = np.random.default_rng(1).standard_normal((1, 1, size, size))
    executor.set_input("x", values.astype("float32"))
    return executor


def result(executor):
    executor.run()
    return executor.get_output(0).numpy()


def resident_bytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def memory_of_parts(path):
    """By how many bytes three parts more than one add to the process, and how many less than with
    four there are when all are gone."""
    files = {512: path}
    executors = [opened(files, 512)]
    result(executors[0])
    one = resident_bytes()
    for _ in range(3):
        executors.append(opened(files, 512))
        result(executors[-1])
    four = resident_bytes()
    executors.clear()
    gc.collect()
    return four - one, four - resident_bytes()


def test_parts_of_a_process_share_a_block_and_the_last_one_frees_it(files):
    """In a process of its own: libraries of other tests may live on."""
    code = f"import test_scratch; print(*test_scratch.memory_of_parts({files[512]!r}))"
    environment = child_environment(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    more, freed = map(int, done.stdout.split())
    assert more < 16 * MB, "three more of 32 MB each"
    assert freed > 16 * MB


def test_smaller_and_larger_parts_in_turn_compute_the_same(files):
    first = {size: result(opened(files, size)) for size in files}
    gc.collect()
    executors = {size: opened(files, size) for size in files}
    for size in itertools.islice(itertools.cycle([64, 512, 64]), 9):
        np.testing.assert_array_equal(result(executors[size]), first[size])


def test_calls_at_once_have_blocks_of_their_own(files):
    wanted = {size: result(opened(files, size)) for size in files}
    wrong, start = [], threading.Barrier(4)

    def work(size):
        executor = opened(files, size)
        start.wait()
        for _ in range(20):
            if not np.array_equal(result(executor), wanted[size]):
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in (64, 512, 64, 512)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
