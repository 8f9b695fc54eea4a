# SPDX-License-Identifier: Apache-2.0
"""How much memory there is and who holds it; limits of containers, old and new."""

import os
import subprocess
import sys

import pytest
from tvm.relay.collage.machine import memory


def test_a_process_holds_what_it_touched():
    # A child, since a process with a past may have memory in hand that it asks no one for.
    size = 128 << 20
    hold = f"block = b'x' * {size}; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        assert size < memory.resident_bytes(child.pid) < 2 * size
        child.communicate(b"\n")
        assert memory.resident_bytes(child.pid) == 0


V1 = "4:memory:/a/b\n1:cpu:/\n"
LIMITS = {
    "none": ("", {}, None),
    "v2": ("0::/a/b\n", {"sys/fs/cgroup/a/b/memory.max": "1000\n"}, 1000),
    "v2 above": ("0::/a/b\n", {"sys/fs/cgroup/a/memory.max": "1000"}, 1000),
    "v2 in a container": ("0::/\n", {"sys/fs/cgroup/memory.max": "1000"}, 1000),
    "v2 without": ("0::/a\n", {"sys/fs/cgroup/a/memory.max": "max\n"}, None),
    "v2 more than there is": ("0::/a\n", {"sys/fs/cgroup/a/memory.max": str(1 << 60)}, None),
    "v1": (V1, {"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "1000"}, 1000),
    "v1 least": (
        V1,
        {
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "3000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000",
        },
        1000,
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_containers_limit_is_found(tmp_path, name):
    cgroup, files, limit = LIMITS[name]
    for path, text in {"proc/self/cgroup": cgroup, **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory.available_bytes(str(tmp_path)) == (limit or machine)


def test_the_default_leaves_room():
    assert 0 < memory.default_limit() < memory.available_bytes()
