# SPDX-License-Identifier: Apache-2.0
"""A small TFLite model, written with the schema package's own functions: no TensorFlow needed."""

import flatbuffers
import numpy as np
import tflite

_KINDS = {"float32": tflite.TensorType.FLOAT32, "int32": tflite.TensorType.INT32}


class _Writer:
    """Collects tensors and operators, then writes the flat buffer bottom-up."""

    def __init__(self):
        self.builder = flatbuffers.Builder(4096)
        self.tensors, self.operators, self.codes = [], [], []
        self.buffers = [None]  # the first is the empty one, of values that are computed

    def tensor(self, name, shape, values=None, kind="float32"):
        """The number of a new tensor, a constant when it has values."""
        if values is not None:
            self.buffers.append(np.ascontiguousarray(values).tobytes())
        buffer = 0 if values is None else len(self.buffers) - 1
        self.tensors.append((name, list(shape), buffer, _KINDS[kind]))
        return len(self.tensors) - 1

    def operator(self, code, inputs, outputs, options_kind, options):
        if code not in self.codes:
            self.codes.append(code)
        self.operators.append((self.codes.index(code), inputs, outputs, options_kind, options))

    def options(self, name, **fields):
        """The offset of a table of that type."""
        getattr(tflite, f"{name}Start")(self.builder)
        for field, value in fields.items():
            getattr(tflite, f"{name}Add{field}")(self.builder, value)
        return getattr(tflite, f"{name}End")(self.builder)

    def _ints(self, start, values):
        start(self.builder, len(values))
        for value in reversed(values):
            self.builder.PrependInt32(value)
        return self.builder.EndVector()

    def _offsets(self, start, offsets):
        start(self.builder, len(offsets))
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return self.builder.EndVector()

    def _buffer(self, data):
        vector = self.builder.CreateByteVector(data) if data is not None else None
        tflite.BufferStart(self.builder)
        if vector is not None:
            tflite.BufferAddData(self.builder, vector)
        return tflite.BufferEnd(self.builder)

    def _tensor(self, name, shape, buffer, kind):
        text = self.builder.CreateString(name)
        dims = self._ints(tflite.TensorStartShapeVector, shape)
        return self.options("Tensor", Shape=dims, Type=kind, Buffer=buffer, Name=text)

    def _operator(self, code, inputs, outputs, options_kind, options):
        reads = self._ints(tflite.OperatorStartInputsVector, inputs)
        gives = self._ints(tflite.OperatorStartOutputsVector, outputs)
        return self.options(
            "Operator",
            OpcodeIndex=code,
            Inputs=reads,
            Outputs=gives,
            BuiltinOptionsType=options_kind,
            BuiltinOptions=options,
        )

    def finish(self, inputs, outputs):
        """The model's bytes."""
        builder = self.builder
        tensors = [self._tensor(*item) for item in self.tensors]
        operators = [self._operator(*item) for item in self.operators]
        name = builder.CreateString("main")
        graph = self.options(
            "SubGraph",
            Tensors=self._offsets(tflite.SubGraphStartTensorsVector, tensors),
            Inputs=self._ints(tflite.SubGraphStartInputsVector, inputs),
            Outputs=self._ints(tflite.SubGraphStartOutputsVector, outputs),
            Operators=self._offsets(tflite.SubGraphStartOperatorsVector, operators),
            Name=name,
        )
        codes = [
            self.options("OperatorCode", BuiltinCode=code, DeprecatedBuiltinCode=code, Version=1)
            for code in self.codes
        ]
        buffers = [self._buffer(data) for data in self.buffers]
        model = self.options(
            "Model",
            Version=3,
            OperatorCodes=self._offsets(tflite.ModelStartOperatorCodesVector, codes),
            Subgraphs=self._offsets(tflite.ModelStartSubgraphsVector, [graph]),
            Buffers=self._offsets(tflite.ModelStartBuffersVector, buffers),
        )
        builder.Finish(model, b"TFL3")
        return bytes(builder.Output())


def conv_net():
    """Convolution with a fused relu, pooling, dense, softmax: (bytes, weights as arrays)."""
    rng = np.random.default_rng(0)
    kernel = (rng.standard_normal((8, 3, 3, 3)) * 0.3).astype("float32")  # out, height, width, in
    bias = rng.standard_normal(8).astype("float32")
    dense = (rng.standard_normal((5, 4 * 4 * 8)) * 0.3).astype("float32")
    write = _Writer()
    x = write.tensor("x", (1, 8, 8, 3))
    k = write.tensor("kernel", kernel.shape, kernel)
    b = write.tensor("bias", bias.shape, bias)
    d = write.tensor("dense", dense.shape, dense)
    conv, pool = write.tensor("conv", (1, 8, 8, 8)), write.tensor("pool", (1, 4, 4, 8))
    flat, y = write.tensor("flat", (1, 5)), write.tensor("y", (1, 5))
    ops, kinds = tflite.BuiltinOperator, tflite.BuiltinOptions
    write.operator(
        ops.CONV_2D,
        [x, k, b],
        [conv],
        kinds.Conv2DOptions,
        write.options(
            "Conv2DOptions",
            Padding=tflite.Padding.SAME,
            StrideW=1,
            StrideH=1,
            FusedActivationFunction=tflite.ActivationFunctionType.RELU,
            DilationWFactor=1,
            DilationHFactor=1,
        ),
    )
    write.operator(
        ops.MAX_POOL_2D,
        [conv],
        [pool],
        kinds.Pool2DOptions,
        write.options(
            "Pool2DOptions",
            Padding=tflite.Padding.VALID,
            StrideW=2,
            StrideH=2,
            FilterWidth=2,
            FilterHeight=2,
        ),
    )
    write.operator(
        ops.FULLY_CONNECTED,
        [pool, d],
        [flat],
        kinds.FullyConnectedOptions,
        write.options("FullyConnectedOptions"),
    )
    write.operator(
        ops.SOFTMAX, [flat], [y], kinds.SoftmaxOptions, write.options("SoftmaxOptions", Beta=1.0)
    )
    return write.finish([x], [y]), {"kernel": kernel, "bias": bias, "dense": dense}


def reference(weights, x):
    """What `conv_net` computes, in numpy."""
    kernel, bias, dense = weights["kernel"], weights["bias"], weights["dense"]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    conv = np.maximum(np.einsum("nhwcij,oijc->nhwo", windows, kernel) + bias, 0)
    pooled = conv.reshape(1, 4, 2, 4, 2, 8).max(axis=(2, 4))
    logits = pooled.reshape(1, -1) @ dense.T
    exps = np.exp(logits - logits.max())
    return exps / exps.sum()
