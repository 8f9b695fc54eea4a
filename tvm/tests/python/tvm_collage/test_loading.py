# SPDX-License-Identifier: Apache-2.0
"""TVM as commands load it: what is not executed, what comes of asking for it, and that a program's
own import is as it was. Each in a process of its own; modules of the test stand in for TVM's."""

import json
import subprocess
import sys

import pytest

QUICK = "import sys, json\nfrom tvm_collage.loading import LATE, quick_loading\n"
ARE_LATE = "sorted(n for n in LATE if type(sys.modules.get(n)).__name__ == '_LateModule')"


def answer(code):
    """The JSON value that a process of this code prints last."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def loaded():
    """What a command that does not tune finds, before and after it asks for late modules."""
    return answer(
        QUICK
        + "with quick_loading(tunes=False):\n"
        + "    import tvm.relay.collage.cli.compile\n"
        + f"late, hidden = {ARE_LATE}, 'xgboost' not in sys.modules\n"
        + "names = tvm._ffi.registry.list_global_func_names\n"
        + "before = len(names()); tvm.register_func('collage_test.one', print)\n"
        + "is_told = 'collage_test.one' in names() and len(names()) == before + 1\n"
        + "tvm.relay.frontend.onnx; others = 'tvm.relay.frontend.keras' in sys.modules\n"
        + "tvm.relay.frontend.from_keras; tvm.relax.expr; tvm.relax.Var\n"
        + "import importlib.util\n"
        + "finders = [type(each).__name__ for each in sys.meta_path]\n"
        + "print(json.dumps([late, hidden, is_told, others, "
        + f"{ARE_LATE}, finders, importlib.util.find_spec('xgboost') is not None]))"
    )


def test_what_a_command_does_not_need_is_not_executed(loaded):
    late, is_hidden, *_ = loaded
    assert {"tvm.relax", "tvm.relay.frontend"} <= set(late) and is_hidden


def test_what_is_asked_for_is_there(loaded):
    _, _, is_told, had_others, late, *_ = loaded
    assert is_told, "a global function that is registered later"
    assert not had_others, "a package gives one of its modules without the others"
    assert not {"tvm.relax", "tvm.relay.frontend"} & set(late)


def test_after_the_loading_modules_are_found_as_ever(loaded):
    *_, finders, _ = loaded
    assert "_LateFinder" not in finders


def test_a_tuner_finds_xgboost_where_it_is_installed(loaded):
    if not loaded[-1]:
        pytest.skip("xgboost is not installed")
    code = "with quick_loading():\n    import tvm\nprint(json.dumps('xgboost' in sys.modules))"
    assert answer(QUICK + code)


def test_a_programs_own_import_is_whole():
    assert answer(QUICK + f"import tvm\nprint(json.dumps({ARE_LATE}))") == []
    code = "import tvm\nwith quick_loading():\n    import tvm.relay.collage.cli\n"
    assert answer(QUICK + code + f"print(json.dumps({ARE_LATE}))") == []
