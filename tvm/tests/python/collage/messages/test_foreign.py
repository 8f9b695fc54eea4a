# SPDX-License-Identifier: Apache-2.0
"""What is read out of others' messages is what they say: each of them is made to say it here.

The end of a device's session is in rpc/test_devices.py.
"""

import os
import subprocess

import pytest
import tvm
from tvm import relay
from tvm.contrib import cc
from tvm.ir import diagnostics
from tvm.relay.collage.messages import foreign as messages


@pytest.mark.parametrize("given", ["nonsense", "nonsense -x=1", {"kind": "nonsense"}])
def test_tvm_names_the_kind_of_target_that_it_does_not_know(given):
    with pytest.raises((ValueError, tvm.TVMError)) as caught:
        tvm.target.Target(given)
    assert messages.unknown_target_kind(caught.value) == "nonsense"


def test_a_wrong_attribute_is_no_unknown_kind():
    with pytest.raises((ValueError, tvm.TVMError)) as caught:
        tvm.target.Target("llvm -nonsense=1")
    assert messages.unknown_target_kind(caught.value) is None


def test_tvm_says_of_what_is_around_an_error_that_it_has_no_type():
    x, y = relay.var("x", shape=(1, 3, 8, 8)), relay.var("y", shape=(5, 7))
    mod = tvm.IRModule.from_expr(relay.Function([x, y], relay.nn.relu(relay.add(x, y))))
    said = []

    def collect(context):
        said.extend(str(item.message).strip() for item in context.diagnostics)

    diagnostics.override_renderer(collect)
    try:
        with pytest.raises(tvm.TVMError):
            relay.transform.InferType()(mod)
    finally:
        diagnostics.override_renderer(None)
    causes = [text for text in said if not messages.is_consequence(text)]
    assert len(causes) < len(said) and all("broadcast" in text for text in causes) and causes


def compiler_says(source, folder):
    """What the C compiler says of a library with this text."""
    command = [cc.get_cc(), "-x", "c", "-", "-shared", "-fPIC", "-Wl,-z,defs", "-o", folder / "x"]
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, input=source, capture_output=True, text=True, env=environment)
    assert done.returncode != 0
    return done.stderr


def test_the_linker_names_what_nobody_defines(tmp_path):
    said = compiler_says(
        "int mine(void); int yours(void); int f(void) { return mine() + yours(); }", tmp_path
    )
    assert messages.undefined_symbols(said) == {"mine", "yours"}
    assert any("mine" in line for line in messages.error_lines(said))


def test_the_compilers_errors_are_told_from_its_warnings(tmp_path):
    said = compiler_says('#warning "careful"\nint f(void) { return nothing; }', tmp_path)
    assert "careful" in said and not messages.undefined_symbols(said)
    lines = messages.error_lines(said)
    assert len(lines) < len(said.splitlines()) and any("nothing" in line for line in lines)


def test_output_that_no_line_of_tells_is_told_whole():
    assert messages.error_lines("first\nsecond") == ["first", "second"]


def test_of_tvms_errors_the_line_after_the_stack_is_told():
    with pytest.raises(tvm.TVMError) as caught:
        tvm.ir.Op.get("nonsense")
    assert "Stack trace" in str(caught.value) or "Traceback" in str(caught.value)
    for text in (messages.describe(caught.value), messages.last_line(caught.value)):
        assert "nonsense" in text and "\n" not in text and "File" not in text


def test_the_last_line_is_one_with_words():
    assert messages.last_line(ValueError("why\n  ----\n")) == "why"
    assert messages.last_line(ValueError()) == "ValueError()"
    assert messages.last_line(tvm.TVMError("  0: a\nRuntimeError: no such library")) == (
        "no such library"
    )
    assert messages.last_line(KeyError("ghost")) == "'ghost' is not known"
    assert messages.last_line(KeyError()) == "KeyError()"


def test_what_is_wrong_with_an_argument_is_told_without_a_place_in_c():
    with pytest.raises(tvm.TVMError) as caught:
        relay.cast(relay.var("x", shape=(2,)), "string")
    assert messages.last_line(caught.value) == "unknown type string"
    assert messages.describe(ValueError()) == "ValueError"
