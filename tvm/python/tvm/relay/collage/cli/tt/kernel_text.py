# SPDX-License-Identifier: Apache-2.0
"""A kernel as people know it: "conv2d + relu, 1x64x56x56, 3x3 kernel on 1x3x112x112".

TVM's own name of it joins the names of its operators, whose dots are underscores there. Operators'
names have underscores of their own, so they are found by TVM's list of operators. Test:
cli/test_tt_kernel_text.py.
"""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import tvm

from ...tuning.ansor_kernel import AnsorKernel

_BEFORE = re.compile(r".*?fused_")
# What says how an operator is computed, and not what it is.
_LAYOUT = re.compile(r"^contrib_|_NCHWc\b|_without_weight_transform\b")
# Of operators whose fifth dimension, if they have one, is a block of channels.
_MAY_BE_BLOCKED = re.compile(r"_NCHWc|pool2d")


def kernel_text(kernel: AnsorKernel) -> str:
    """Return operators, the shape of the output, and what the operator that sums up sums over."""
    is_blocked = bool(_MAY_BE_BLOCKED.search(kernel.name)) and len(kernel.shape) == 5
    shape = _plain(kernel.shape) if is_blocked else kernel.shape
    names = " + ".join(operators_in(kernel.name))
    return ", ".join(filter(None, [names, _text(shape), _sums(kernel, is_blocked)]))


def texts_of(kernels: Iterable[AnsorKernel]) -> dict[str, str]:
    """Return by workload the texts of kernels; where several have one text, with TVM's name of
    each."""
    named = {kernel.workload: kernel for kernel in kernels}
    texts = {workload: kernel_text(kernel) for workload, kernel in named.items()}
    alike = Counter(texts.values())
    return {
        workload: f"{text} ({named[workload].name})" if alike[text] > 1 else text
        for workload, text in texts.items()
    }


def operators_in(name: str) -> list[str]:
    """Return the operators that TVM's name of a kernel tells, in short. One kernel of several names
    has equal operators in each; a name that is cut off ends in a hash."""
    words = _BEFORE.sub("", name.partition(",")[0]).split("_")
    return [_LAYOUT.sub("", each) for each in _read(words)]


def _read(words: Sequence[str]) -> Iterator[str]:
    at, known = 0, _operators()
    while at < len(words):
        ends = range(len(words), at, -1)  # the longest first: nn.dense_pack before nn.dense
        end = next((end for end in ends if "_".join(words[at:end]) in known), at + 1)
        text = "_".join(words[at:end])
        if text in known:
            yield known[text].rpartition(".")[2]
        elif text and not text.isdigit():  # TVM numbers kernels of equal operators
            yield text
        at = end


@functools.cache
def _operators() -> dict[str, str]:
    """Return TVM's operators by what they are called in kernels' names."""
    return {str(each).replace(".", "_"): str(each) for each in tvm.ir.Op.list_op_names()}


def _plain(blocked: Sequence[int]) -> tuple[int, ...]:
    """Turn NCHWc into NCHW."""
    batch, outer, height, width, inner = blocked
    return batch, outer * inner, height, width


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _sums(kernel: AnsorKernel, is_blocked: bool) -> str:
    """Return such as "3x3 kernel on 1x64x56x56", "on 1x64x56x56" or "sums of 768"; "" where the
    workload, all tensors' sizes in a row, is not of a form that is known here."""
    sizes, shape = json.loads(kernel.workload)[1:], kernel.shape
    if "pool2d" in kernel.name and len(sizes) >= len(shape) > 3 and _is_alike(sizes, shape):
        return f"on {_text(_plain(sizes[:5]) if is_blocked else sizes[:4])}"
    # Before the image and the weights there may be what is added to the result.
    for at in range(0, len(sizes) - 10, 5) if is_blocked else ():
        image, weights = sizes[at : at + 5], sizes[at + 5 : at + 11]
        if (weights[0], weights[5]) == (shape[1], shape[4]):
            return f"{weights[2]}x{weights[3]} kernel on {_text(_plain(image))}"
    is_dense = "nn_dense" in kernel.name and len(sizes) >= 4 and len(shape) == 2
    if is_dense and sizes[1] == sizes[3] and (sizes[0], sizes[2]) == shape:
        return f"sums of {sizes[1]}"
    return ""


def _is_alike(sizes: Sequence[int], shape: Sequence[int]) -> bool:
    """Tell whether the first tensor has the result's batch and channels."""
    return (*sizes[:2], *sizes[4 : len(shape)]) == (*shape[:2], *shape[4:])
