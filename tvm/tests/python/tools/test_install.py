# SPDX-License-Identifier: Apache-2.0
"""Installing: lock files, what a host must have, libraries, a wheel put in and taken out again."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
import tvm_collage
from check_sources import lost_tests, problems
from tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted(ROOT.glob("requirements*.txt"))


def run(*command: object, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def pins(text: str) -> dict[str, str]:
    """Return the version by normalised name of each line ``name==version``."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def locked() -> dict[str, str]:
    return pins("\n".join(path.read_text() for path in LOCKS))


def test_every_requirement_of_the_project_is_pinned_and_locked_at_that_version():
    project = PROJECT["project"]
    direct = [*project["dependencies"], *PROJECT["build-system"]["requires"]]
    for extra in project["optional-dependencies"].values():
        direct += extra
    assert all("==" in line for line in direct)
    wanted = pins("\n".join(direct))
    assert wanted.items() <= locked().items()


def test_build_requirements_stand_twice_with_the_same_versions():
    in_file = pins((ROOT / "requirements-build.in").read_text())
    assert in_file == pins("\n".join(PROJECT["build-system"]["requires"]))


def test_lock_files_agree_with_each_other():
    merged = locked()
    for path in LOCKS:
        assert pins(path.read_text()).items() <= merged.items(), path


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_lock_file_has_hashes_and_names_no_index(path):
    text = path.read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert "--index" not in text and "--find-links" not in text


def test_versions_agree():
    cmake = (ROOT / "tvm" / "CMakeLists.txt").read_text()
    assert PROJECT["project"]["version"] == tvm_collage.__version__
    assert f"VERSION {tvm_collage.__version__} " in cmake
    assert f"COLLAGE_BASE_TVM_VERSION {tvm_collage.BASE_TVM_VERSION}" in cmake
    assert tvm_collage.BASE_TVM_REQUIREMENT in PROJECT["project"]["dependencies"]


def fake_python(folder: Path, version: str) -> Path:
    """Write a command that passes for a Python of some version."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


def complaint(*arguments: object) -> str:
    """Return the only line that check_host.sh prints when it refuses."""
    done = run("tools/check_host.sh", *arguments)
    assert done.returncode == 1
    lines = (done.stdout + done.stderr).splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_host_with_all_it_needs_is_accepted():
    done = run("tools/check_host.sh", sys.executable, "g++")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_wrong_python_is_one_clear_line(tmp_path):
    line = complaint(fake_python(tmp_path, "3.12.1"), "g++")
    assert "needs Python 3.11" in line and "is 3.12.1" in line and "make PYTHON=" in line


def test_missing_python_is_one_clear_line():
    line = complaint("/nowhere/python3.11", "g++")
    assert "no Python at '/nowhere/python3.11'" in line and "install Python 3.11" in line


@pytest.mark.parametrize("compiler", ["/nowhere/g++", "false", ""])
def test_missing_compiler_is_one_clear_line(compiler):
    line = complaint(sys.executable, compiler)
    assert f"no C++17 compiler at '{compiler}'" in line and "install g++" in line


def test_make_stops_at_the_clear_line(tmp_path):
    venv = tmp_path / "venv"
    python = fake_python(tmp_path, "3.12.1")
    done = run("make", "--no-print-directory", "build", f"PYTHON={python}", f"VENV={venv}")
    assert done.returncode != 0
    assert done.stderr.splitlines()[0].startswith("tvm-collage: needs Python 3.11")
    assert not venv.exists()


def test_cmake_without_compiler_names_what_to_install(tmp_path):
    done = run(
        Path(sys.executable).with_name("cmake"),
        *("-S", "tvm", "-B", tmp_path, "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={Path(sys.executable).with_name('ninja')}",
        CXX="/nowhere/g++",
    )
    assert done.returncode != 0
    assert "no C++ compiler" in done.stderr and "install g++" in done.stderr


@pytest.mark.parametrize(
    "name, file, words",
    [
        ("no-such-distribution", "x.h", "no-such-distribution is not installed in"),
        ("numpy", "no/such/file.h", "does not contain no/such/file.h"),
    ],
)
def test_locating_a_header_fails_clearly(name, file, words):
    done = run(sys.executable, "tvm/cmake/base_distribution.py", name, file)
    assert done.returncode == 1
    assert words in done.stderr and len(done.stderr.splitlines()) == 1


def test_locating_the_base_packages_headers():
    name = "xtc-tvm-python-bindings"
    file = "tvm/include/tvm/runtime/registry.h"
    done = run(sys.executable, "tvm/cmake/base_distribution.py", name, file)
    version, directory = done.stdout.strip().split(";")
    assert f"{name}=={version}" == tvm_collage.BASE_TVM_REQUIREMENT
    assert Path(directory, file).is_file()


@pytest.mark.parametrize("name", ["tvm_collage_pool", "tvm_collage_runtime", "tvm_collage"])
def test_library_is_installed_and_links_neither_tvm_nor_onednn(name):
    path = tvm_collage.library_path(name)
    assert path is not None, f"lib{name}.so is missing: make build"
    section = dynamic_section(path)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", section)
    assert "libc.so.6" in needed
    assert not [library for library in needed if library.startswith(("libtvm", "libdnnl"))]
    # Folders are looked through by open_library.cc, this environment's alone.
    assert "$ORIGIN/.." not in section


def dynamic_section(path: str) -> str:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is missing")
    return run("readelf", "--dynamic", "--wide", path).stdout


def test_source_check_names_file_and_fault(tmp_path):
    bad = tmp_path / "bad.cc"
    bad.write_text("int x; \n" * 1001)
    found = problems(bad)
    assert "first line must be '// SPDX" in found[0]
    assert "1001 lines" in found[1] and "trailing blank" in found[2]
    good = tmp_path / "good.sh"
    good.write_text("#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
    assert problems(good) == []


@pytest.mark.slow("pip makes a wheel and a virtual environment")
def test_wheel_installs_alone_and_uninstall_leaves_stock_tvm(tmp_path):
    """Make a wheel around the libraries that are already built, install it, remove it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    libraries = Path(tvm_collage.library_path("tvm_collage")).parent
    done = run(
        *(*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", tmp_path),
        *("-C", f"cmake.define.COLLAGE_PREBUILT_DIR={libraries}"),
        *("-C", f"build-dir={tmp_path / 'build'}", ROOT),
        PATH=path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("tvm_collage-*.whl")

    python = tmp_path / "venv" / "bin" / "python"
    assert run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv").returncode == 0
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    # The base packages come from this environment; a plain path line runs none of its .pth files.
    (site / "zz_base.pth").write_text(sysconfig.get_path("platlib") + "\n")
    into = (*pip, "--python", python)
    done = run(*into, "install", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stderr

    code = "import tvm, os; from tvm.relay import collage; print(os.path.dirname(collage.__file__))"
    ours = run(python, "-c", code)
    assert ours.stdout.strip() == str(site / "tvm_collage" / "collage"), ours.stderr
    assert (site / "tvm_collage" / "lib" / "libtvm_collage.so").is_file()
    command = run(python.with_name("collage"), "--version")
    assert command.stdout.strip() == tvm_collage.__version__, command.stderr

    assert run(*into, "uninstall", "--yes", "tvm-collage").returncode == 0
    stock = run(python, "-c", code)
    assert stock.stdout.strip().endswith("/tvm/relay/collage"), stock.stderr
    assert str(ROOT) not in stock.stdout or "site-packages/tvm/relay" in stock.stdout


def test_source_check_names_tests_that_are_not_there(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    file = tmp_path / "file.py"
    file.write_text("# Test: costs/test_cost.py, bench/test_zoo.py, tests/cpp/hash_test.cc.\n")
    assert lost_tests(file) == []
    file.write_text("# Test: costs/test_zoo.py, test_cost.py. Test: tests/cpp/lost_test.cc.\n")
    lost = [line.rpartition(" ")[2] for line in lost_tests(file)]
    assert lost == ["costs/test_zoo.py", "test_cost.py", "tests/cpp/lost_test.cc"]
