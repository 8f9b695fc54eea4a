# SPDX-License-Identifier: Apache-2.0
"""Places of the parts of tvm-collage: version, libraries, Python package.
Test: tvm_collage/test_hook.py.

Imported by ``tvm_collage_hook`` when a process first imports ``tvm``, before ``tvm`` is loaded.
"""

import os
import sysconfig

__version__ = "0.1.0"
BASE_TVM_VERSION = "0.19.0"
BASE_TVM_REQUIREMENT = "xtc-tvm-python-bindings==0.19.0.12"

_HERE = os.path.dirname(os.path.abspath(__file__))


def location() -> str:
    """Return the directory that is imported as ``tvm.relay.collage``.

    A wheel carries it inside this package; in an editable install it is the source tree's.
    """
    in_wheel = os.path.join(_HERE, "collage")
    in_tree = os.path.join(os.path.dirname(_HERE), "tvm", "relay", "collage")
    return in_wheel if os.path.isdir(in_wheel) else in_tree


def library_directories() -> list[str]:
    """Return the directories searched for our libraries, first match wins.

    ``TVM_COLLAGE_LIBRARY_PATH`` (directories separated by ``:``) comes first, for developers.
    """
    chosen = os.environ.get("TVM_COLLAGE_LIBRARY_PATH", "")
    directories = [part for part in chosen.split(os.pathsep) if part]
    return directories + [os.path.join(part, "lib") for part in [_HERE, *_installed_beside()]]


def _installed_beside() -> list[str]:
    """Return where an editable install put what was built: ``tvm_collage`` in site-packages."""
    paths = dict.fromkeys([sysconfig.get_path("platlib"), sysconfig.get_path("purelib")])
    return [os.path.join(path, "tvm_collage") for path in paths if path]


def library_path(name: str) -> str | None:
    """Return the path of ``lib<name>.so`` (``tvm_collage``, ``tvm_collage_runtime``,
    ``tvm_collage_pool``), or None when it was not built.
    """
    for directory in library_directories():
        path = os.path.join(directory, f"lib{name}.so")
        if os.path.isfile(path):
            return path
    return None


def include_directory() -> str:
    """Return the directory of the headers for plugins: ``#include "rules/rule_registry.h"``.

    A wheel carries them; in an editable install they are the source tree's.
    """
    in_wheel = os.path.join(_HERE, "include")
    tree = os.path.dirname(os.path.dirname(_HERE))
    in_tree = os.path.join(tree, "src", "relay", "collage")
    return in_wheel if os.path.isdir(in_wheel) else in_tree


def check_base_version(found: str) -> None:
    """Raise ImportError when ``found`` is not the release of TVM that we lean on."""
    if found != BASE_TVM_VERSION:
        raise ImportError(
            f"tvm-collage {__version__} needs TVM {BASE_TVM_VERSION}, but this is TVM {found}: "
            f"run `pip install {BASE_TVM_REQUIREMENT}`, "
            "or set COLLAGE_DISABLE=1 to use this TVM without Collage"
        )
