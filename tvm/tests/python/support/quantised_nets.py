# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models in float and quantised, as NNCF and others write them: values go through
QuantizeLinear and DequantizeLinear, weights of layers are bytes, and a bias was corrected."""

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx_nets import Weights, model

SCALE = 0.05


def two_branches():
    """Three convolutions, of which two read the same value, an addition, and a product at the
    end behind a pool."""
    w = Weights(3)
    w.add("w1", 8, 3, 3, 3), w.add("w2", 8, 8, 3, 3), w.add("w3", 8, 8, 1, 1)
    w.add("b1", 8), w.add("fc", 4, 8)
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        node("Conv", ["p1", "w3"], ["c3"]),
        node("Add", ["c2", "p1"], ["s1"]),
        node("Add", ["s1", "c3"], ["s2"]),
        node("GlobalAveragePool", ["s2"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "fc"], ["y"], transB=1),
    ]
    return model(nodes, [("x", [1, 3, 16, 16])], [("y", [1, 4])], w)


def quantised(plain, values, layers, corrected=()):
    """Return the model with these values quantised for each reader, the weights (second operands)
    of these nodes in bytes, and other numbers in the weights that are `corrected`."""
    made = onnx.ModelProto()
    made.CopyFrom(plain)
    graph = made.graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    of_layers = {node.input[1] for node in graph.node if node.output[0] in layers}
    del graph.initializer[:]
    zero = {"zero": np.int8(0), "zero_u": np.uint8(128), "scale": np.float32(SCALE)}
    for name, array in zero.items():
        graph.initializer.append(numpy_helper.from_array(np.array(array), name))
    renamed, nodes = {}, []

    def pair(name):
        bytes_of, value = f"{name}_q", f"{name}_dq"
        nodes.append(helper.make_node("QuantizeLinear", [name, "scale", "zero_u"], [bytes_of]))
        nodes.append(helper.make_node("DequantizeLinear", [bytes_of, "scale", "zero_u"], [value]))
        renamed[name] = value

    for name, array in weights.items():
        if name in of_layers:
            scale = np.float32(np.abs(array).max() / 127)
            rounded = np.round(array / scale).astype("int8")
            graph.initializer.append(numpy_helper.from_array(rounded, f"{name}_q"))
            graph.initializer.append(numpy_helper.from_array(scale, f"{name}_scale"))
            inputs = [f"{name}_q", f"{name}_scale", "zero"]
            nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_dq"]))
            renamed[name] = f"{name}_dq"
        else:
            array = array + np.float32(0.25) if name in corrected else array
            graph.initializer.append(numpy_helper.from_array(array, name))
    for value in graph.input:
        if value.name in values:
            pair(value.name)
    for node in graph.node:
        inputs = [renamed.get(name, name) for name in node.input]
        nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
        nodes[-1].input[:] = inputs
        for name in node.output:
            if name in values:
                pair(name)
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(made)
    return made


def both_forms():
    """two_branches in float, and with all four layers and both additions quantised."""
    plain = two_branches()
    values, layers = {"x", "r1", "c2", "s1", "f"}, {"c1", "c2", "c3", "y"}
    return plain, quantised(plain, values, layers, corrected=["b1"])
