# SPDX-License-Identifier: Apache-2.0
"""Classes of kernels and roles of their stages, on what TVM makes of single operators."""

import json

import pytest
import tvm
from transfer_nets import TARGET, conv, dense, kernel, residual_conv, task
from tvm import relay
from tvm.relay.collage.tuning.ansor import Ansor
from tvm.relay.collage.tuning.ansor_kernel import AnsorKernel, kernel_of, kernels_in, to_comment


@pytest.mark.parametrize(
    "other",
    [{"kernel": 1}, {"kernel": 5}, {"stride": 2}, {"size": 14}, {"kernel": 1, "stride": 2}],
    ids=str,
)
def test_convolutions_that_differ_in_numbers_alone_are_of_one_class(other):
    assert kernel(conv, **other).kind == kernel(conv).kind
    assert kernel(conv, **other).workload != kernel(conv).workload


def test_rows_and_columns_of_a_product_do_not_count():
    assert kernel(dense, rows=7, inputs=5, outputs=3).kind == kernel(dense).kind


def test_other_computations_are_other_classes():
    nets = [kernel(conv), kernel(residual_conv), kernel(dense), kernel(conv, groups=16)]
    assert len({each.kind for each in nets}) == len(nets)


def test_padding_is_a_role_and_no_stage_of_the_class():
    assert kernel(conv).roles == ("%0", "padding of %0", "%1", "%2", "%3", "%4", "%5")
    assert kernel(conv, kernel=1).roles == ("%0", "%1", "%2", "%3", "%4", "%5")


def test_padding_that_is_the_result_is_a_stage():
    x = relay.var("x", shape=(1, 4, 8, 8))
    body = relay.nn.pad(relay.nn.max_pool2d(x, (2, 2)), ((0, 0), (0, 0), (1, 1), (1, 1)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))
    roles = [each.kernel.roles for each in Ansor().tasks(mod, TARGET)]
    assert roles and not any("padding" in role for found in roles for role in found[-1:])


def test_a_kernel_knows_its_size_and_its_calls():
    found = kernel_of(task(dense).work, "product", calls=3)
    assert (found.name, found.calls, found.shape) == ("product", 3, (4, 24))
    assert found.operations == pytest.approx(2 * 4 * 24 * 32, rel=0.1)
    assert found.distance(found) == 0.0
    larger = kernel(dense, rows=8)
    assert found.distance(larger) == larger.distance(found) == pytest.approx(0.69, abs=0.02)


def test_a_logs_comments_give_kernels_back_and_other_lines_none():
    kernels = {each.workload: each for each in (kernel(conv), kernel(dense))}
    comments = [to_comment(each) for each in kernels.values()]
    wrong = json.dumps({**kernel(conv).to_json(), "unknown": 1})
    lines = ["# a remark", *comments, comments[0][:40], f"# kernel {wrong}", "{}", "# kernel 3"]
    assert kernels_in(lines) == kernels
    assert AnsorKernel.from_json(json.loads(json.dumps(kernel(conv).to_json()))) == kernel(conv)
