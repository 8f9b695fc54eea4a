# SPDX-License-Identifier: Apache-2.0
"""Operators by name, new ones too, and those that have an attribute."""

import tvm
from tvm.relay.collage.relay_util.operators import operators, operators_with


def test_all_operators_are_there_and_new_ones_as_soon_as_they_are_made():
    assert operators().keys() == set(tvm.ir.Op.list_op_names())
    assert operators()["nn.conv2d"].same_as(tvm.ir.Op.get("nn.conv2d"))
    tvm.ir.register_op_attr("collage_test.new", "collage_test.made", 1)
    assert operators()["collage_test.new"].name == "collage_test.new"


def test_only_those_that_have_an_attribute_are_given():
    assert operators_with("collage_test.never") == {}
    tvm.ir.register_op_attr("add", "collage_test.once", 1)
    assert operators_with("collage_test.once").keys() == {"add"}
    tvm.ir.Op.get("add").reset_attr("collage_test.once")
    assert operators_with("collage_test.once") == {}
