# SPDX-License-Identifier: Apache-2.0
"""`collage backends` and what stands behind it: looked up, never assumed."""

import json
import logging
import re
import sys

import pytest
import tvm
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage import backends
from tvm.relay.collage.backends.interface import OwnKernels
from tvm.relay.collage.backends.registry import REGISTERED
from tvm.relay.dataflow_pattern import is_op, wildcard
from tvm_collage.cli import main


class Absent(backends.Backend):
    """Its library is missing."""

    name = "absent"
    options = {"fast": True, "level": 2, "path": ""}
    restrictions = ("dynamic shapes", "int8")
    op_predicates = {"exp": lambda call: True}

    def available(self):
        return "libabsent.so 2.x is not installed: pip install absent"

    def version(self):
        raise AssertionError("asked for the version of what is not there")

    def patterns(self):
        names = ("conv2d", "conv2d_relu", "dense")
        return [(f"absent.{name}", is_op("nn.relu")(wildcard())) for name in names]


@pytest.fixture
def absent():
    yield backends.register_backend(Absent())
    REGISTERED.pop("absent")


def listed(capsys, *arguments, code=0):
    assert main(["backends", *arguments]) == code
    return capsys.readouterr().out


def test_the_list_has_each_with_its_state(absent, capsys):
    out = listed(capsys)
    assert "absent  op-level  NOT AVAILABLE: libabsent.so 2.x is not installed" in out
    assert "  3 patterns: conv2d (2), dense\n  operators: exp\n" in out
    assert "  does not take: dynamic shapes; int8" in out
    assert "  trades accuracy: computes in bfloat16, needs option accuracy_budget\n" in out
    assert "  options: -fast=1 -level=2 -path=''\n" in out
    lines = [line for line in out.splitlines() if not line.startswith(" ")]
    names = [line.split()[0] for line in lines]
    registered = [item.name for item in backends.list_backends()]
    assert names[: len(registered)] == registered
    assert set(names[len(registered) :]) <= {"winograd"}, "kernels of our own come last"


class Owner(backends.Backend):
    """A backend with kernels of ours inside its parts."""

    name = "owner"
    reason = None

    def available(self):
        return self.reason

    def own_kernels(self):
        assert self.reason is None, "asked for what is not there"
        return (OwnKernels("quick", "7", ("3x3", "5x5"), "owner -quick=0"),)


@pytest.fixture
def owner():
    yield backends.register_backend(Owner())
    REGISTERED.pop("owner")


def test_kernels_of_ours_have_a_row_of_their_own(owner, capsys):
    row = (
        "quick  kernels of Collage's own in parts of owner, where measured to be faster  "
        "available, version 7\n  takes: 3x3; 5x5\n  without it: owner -quick=0\n"
    )
    assert row in listed(capsys)
    assert listed(capsys, "quick") == row
    assert "quick" not in listed(capsys, "owner"), "the others alone"
    [found] = json.loads(listed(capsys, "quick", "--json"))
    assert found == {
        "name": "quick",
        "version": "7",
        "takes": ["3x3", "5x5"],
        "without": "owner -quick=0",
        "owner": "owner",
    }
    both = json.loads(listed(capsys, "quick", "owner", "--json"))
    assert [row["name"] for row in both] == ["owner", "quick"]
    assert "quick" not in [row["name"] for row in json.loads(listed(capsys, "--json"))]
    assert main(["backends", "nope"]) == 2
    assert re.search("unknown backend 'nope'; known: .*owner, quick", capsys.readouterr().err)


def test_kernels_of_two_backends_may_have_one_name(owner, capsys):
    other = Owner()
    other.name = "owner2"
    backends.register_backend(other)
    try:
        assert listed(capsys, "quick").count("parts of owner") == 2
        assert listed(capsys).count("parts of owner") == 2
    finally:
        REGISTERED.pop("owner2")


def test_kernels_of_ours_are_not_there_without_their_backend(owner, capsys):
    owner.reason = "no library"
    assert "quick" not in listed(capsys)


def test_json_is_what_can_be_known(absent, capsys):
    rows = {row["name"]: row for row in json.loads(listed(capsys, "--json"))}
    assert rows["absent"] == {
        "name": "absent",
        "kind": "op-level",
        "version": "",
        "is_available": False,
        "reason": "libabsent.so 2.x is not installed: pip install absent",
        "patterns": ["absent.conv2d", "absent.conv2d_relu", "absent.dense"],
        "options": {"fast": True, "level": 2, "path": ""},
        "bare_operators": ["exp"],
        "restrictions": ["dynamic shapes", "int8"],
        "trades_accuracy": "",
        "traded_ops": [],
        "own_kernels": [],
        "defined_in": __name__,
    }
    dnnl = rows["dnnl"]
    assert dnnl["is_available"] == (backends.get_backend("dnnl").available() is None)
    assert dnnl["restrictions"] and len(dnnl["patterns"]) > 5


def test_by_name_all_patterns_are_shown(absent, capsys):
    out = listed(capsys, "absent")
    assert "3 patterns: conv2d, conv2d_relu, dense" in out and "dnnl" not in out


def test_an_unknown_name_and_a_module_that_is_not_there(capsys):
    assert main(["backends", "nope"]) == 2
    assert "collage: unknown backend 'nope'; known: " in capsys.readouterr().err
    assert main(["backends", "--import", "no_such_module"]) == 2
    assert "--import no_such_module: No module named" in capsys.readouterr().err


def test_a_users_module_is_imported(capsys, monkeypatch, tmp_path):
    (tmp_path / "my_backend_module.py").write_text(
        "from tvm.relay import collage\n"
        "class Mine(collage.Backend):\n"
        "    name = 'my_backend_here'\n"
        "    def available(self): raise OSError('no device')\n"
        "collage.register_backend(Mine())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        out = listed(capsys, "my_backend_here", "--import", "my_backend_module")
    finally:
        REGISTERED.pop("my_backend_here", None)
    assert out == (
        "my_backend_here  op-level  NOT AVAILABLE: looking it up raised OSError: no device\n"
    )


def test_a_users_module_of_this_folder_and_one_that_registers_nonsense(
    capsys, monkeypatch, tmp_path
):
    (tmp_path / "my_bad_module.py").write_text(
        "from tvm.relay import collage\n"
        "class Bad(collage.Backend):\n"
        "    name, op_predicates = 'bad', {'nn.rellu': print}\n"
        "collage.register_backend(Bad())\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["backends", "--import", "my_bad_module"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line == (
        "collage: --import my_bad_module: ValueError: backend bad: op_predicates: Relay has no op "
        "'nn.rellu'; did you mean 'nn.relu'?"
    )


def test_a_version_that_cannot_be_asked_is_told(absent, capsys, monkeypatch):
    monkeypatch.setattr(absent, "available", lambda: None)
    assert "available, version ? (AssertionError: asked for" in listed(capsys, "absent")


def test_asking_for_one_that_is_missing_is_an_error_and_the_others_go_on(absent, caplog):
    x = relay.var("x", shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    with pytest.raises(collage.BackendUnavailableError) as caught:
        collage.optimize(mod, None, ["llvm", "absent"])
    assert "backend 'absent' is not available: libabsent.so 2.x is not installed" in str(
        caught.value
    )
    with caplog.at_level(logging.INFO, logger="tvm.relay.collage"):
        names = [target.kind.name for target in collage.available_targets()]
    exact = [each for each in backends.list_backends() if not each.trades_accuracy]
    there = [each.name for each in exact if each.available() is None]
    assert names == ["llvm", *there] and "absent" not in names
    assert "backend absent is left out: libabsent.so" in caplog.text


@pytest.mark.parametrize("answer", [True, False, 3])
def test_available_answers_none_or_a_text(absent, capsys, monkeypatch, answer):
    """Another answer is an error for who asks for the backend, and keeps no other back."""
    monkeypatch.setattr(absent, "available", lambda: answer)
    text = f"available() returns None, or a text that says why not; got {answer!r}"
    error = re.escape(f"backend 'absent' is not available: {text}")
    with pytest.raises(collage.BackendUnavailableError, match=error):
        backends.require_backend("absent")
    x = relay.var("x", shape=(4,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    with pytest.raises(collage.BackendUnavailableError, match=error):
        collage.optimize(mod, None, ["llvm", "absent"])
    assert f"absent  op-level  NOT AVAILABLE: {text}\n" in listed(capsys)
    names = [target.kind.name for target in collage.available_targets()]
    exact = [each for each in backends.list_backends() if not each.trades_accuracy]
    assert names == ["llvm", *(e.name for e in exact if backends.why_unavailable(e) is None)]


def test_backends_show_what_they_are(absent):
    assert repr(absent) == "<Absent absent (op-level)>"
    assert repr(backends.get_backend("dnnl")) == "<DnnlBackend dnnl (graph-level)>"
