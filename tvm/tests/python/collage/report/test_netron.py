# SPDX-License-Identifier: Apache-2.0
"""A placed graph as ONNX: valid, with its backends, functions for parts, attributes and shapes."""

import onnx
import pytest
from made_reports import made_report, record
from onnx import helper
from tvm.relay.collage.report.netron import to_netron


def loaded(report, plan=None):
    model = onnx.load_from_string(to_netron(record(report), plan))
    onnx.checker.check_model(model)
    return model


def notes_of(node):
    return {note.key: note.value for note in node.metadata_props}


def test_parts_are_nodes_of_their_backend_with_time_and_rule():
    model = loaded(made_report(2))
    nodes = model.graph.node
    assert len(nodes) == 10 and {node.domain for node in nodes} == {"alpha", "beta", "gamma"}
    first = notes_of(nodes[0])
    assert first["backend"] == nodes[0].domain == "beta" and first["time alone"].endswith("us")
    assert first["rule"] == "combine.beta"
    assert nodes[2].op_type == "beta: add"
    assert [value.name for value in model.graph.input] == ["data"]
    assert model.graph.output[0].type.tensor_type.shape.dim[1].dim_value == 1000


def test_a_part_of_several_operators_is_a_function():
    model = loaded(made_report(1))
    inside = {(f.domain, f.name): f for f in model.functions}
    call = next(node for node in model.graph.node if (node.domain, node.op_type) in inside)
    body = inside[call.domain, call.op_type]
    assert [node.op_type for node in body.node] == ["conv2d", "bias_add", "relu"]
    conv = body.node[0]
    attributes = {a.name: helper.get_attribute_value(a) for a in conv.attribute}
    assert attributes == {"strides": [1, 1], "padding": [1, 1, 1, 1], "groups": 1}
    assert notes_of(conv)["constants"] == "float32[64, 64, 3, 3]"
    assert conv.name == "#2 /layer0/Conv"
    assert call.op_type == "beta: conv2d + bias_add + relu (1)"


@pytest.mark.parametrize(
    "value", [[1, 2.5], [[1, 2], [3]], [], "NCHW", [0.5], ["a", "b"], 7], ids=str
)
def test_attributes_of_all_kinds(value):
    report = made_report(1)
    report["functions"][0]["graph"]["nodes"][2]["attrs"] = {"it": value}
    [attribute] = loaded(report).functions[0].node[0].attribute
    assert attribute.name == "it"


def test_types_that_onnx_lacks_are_left_open():
    report = made_report(1)
    nodes = report["functions"][0]["graph"]["nodes"]
    nodes[2]["type"], nodes[4]["type"] = "custom[posit]8[1]", "float32[?, 4] int8[2]"
    infos = {info.name: info for info in loaded(report).graph.value_info}
    assert infos["%4"].doc_string == "float32[?, 4] int8[2]" and len(infos) == 11
    nodes[0]["type"] = nodes[-1]["type"] = "float32[1] int8[2]"
    model = loaded(report)
    assert model.graph.input[0].doc_string == model.graph.output[0].doc_string


def test_inputs_of_the_same_name_are_told_apart():
    report = made_report(1)
    nodes = report["functions"][0]["graph"]["nodes"]
    nodes.append({**nodes[0], "index": len(nodes)})
    nodes[-2]["inputs"] = [*nodes[-2]["inputs"], len(nodes) - 1]
    nodes[0]["name"] = nodes[-1]["name"] = ""
    assert [value.name for value in loaded(report).graph.input] == ["%0", f"%{len(nodes) - 1}"]
