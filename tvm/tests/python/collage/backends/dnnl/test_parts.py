# SPDX-License-Identifier: Apache-2.0
"""Parts of a tensor stay where they lie for what reads numbers with gaps as fast, and are copied
once for all others; nobody writes over a part that is still read."""

import pytest
from onednn_nets import check, check_all, constant
from tvm import relay
from tvm.relay import nn

TOKENS, HEADS, WIDTH = 6, 2, 8
CHANNELS = HEADS * WIDTH


def projections(parts=3):
    """A dense layer's rows of queries, keys and values: (tokens, parts * channels)."""
    x = relay.var("x", shape=(TOKENS, 12))
    return nn.dense(x, constant(1, parts * CHANNELS, 12))


def heads(rows, count=HEADS):
    """(heads, tokens, width)"""
    apart = relay.reshape(rows, (TOKENS, count, CHANNELS // count))
    return relay.transpose(apart, (1, 0, 2))


def reorders(plan):
    return sum(line.startswith("reorder") for line in plan.splitlines())


def steps_of(plan):
    """What each step is, in order."""
    return [line.split()[0] for line in plan.splitlines() if " by " in line]


def attention(queries, keys, values):
    scores = nn.softmax(nn.batch_matmul(queries, keys, transpose_b=True))
    return nn.batch_matmul(scores, values, transpose_b=False)


def conv(data, channels, size, seed):
    """A convolution whose result lies in oneDNN's layout."""
    in_channels = int(relay.transform.InferTypeLocal(data).shape[1])
    weight = constant(seed, channels, in_channels, size, size)
    return nn.conv2d(data, weight, kernel_size=(size, size), padding=size // 2, channels=channels)


def images(name, batch=1):
    return relay.var(name, shape=(batch, 16, 9, 9))


def in_another_order():
    """As vision transformers are exported: the three lie behind the tokens, and are moved first."""
    apart = relay.reshape(projections(), (TOKENS, 3, HEADS, WIDTH))
    moved = relay.transpose(apart, (1, 2, 0, 3))
    return attention(*(relay.squeeze(part, [0]) for part in relay.split(moved, 3, axis=0)))


def behind_a_convolution():
    part = relay.strided_slice(conv(images("x"), 64, 1, 1), [0, 32, 0, 0], [1, 64, 9, 9])
    return conv(relay.multiply(nn.relu(conv(images("y"), 32, 3, 2)), part), 32, 3, 3)


def of_a_part():
    whole = relay.reshape(projections(4), (TOKENS, 4, CHANNELS))
    inner = relay.strided_slice(whole, [1, 1, 4], [5, 3, 12])
    return relay.tanh(relay.strided_slice(inner, [0, 1, 0], [4, 2, 8]))


def of_a_constant():
    """Packed when the plan is made."""
    both = constant(4, 2, HEADS, WIDTH, TOKENS)
    one = relay.squeeze(relay.strided_slice(both, [1, 0, 0, 0], [2, HEADS, WIDTH, TOKENS]), [0])
    x = relay.var("x", shape=(HEADS, TOKENS, WIDTH))
    return nn.batch_matmul(x, one, transpose_b=False)


QUERIES = relay.split(projections(), 3, axis=-1)
FIRST, SECOND = relay.split(projections(2), 2, axis=-1)
# An expression, and how often its plan copies into another layout or place.
COPIES = {
    # Of one head, too, whose single product oneDNN has by other kernels: some of these take a part
    # for the beginning of its tensor.
    **{
        f"attention of {count}": (attention(*(heads(part, count) for part in QUERIES)), 0)
        for count in (1, 2, 4)
    },
    "axes in another order": (in_another_order(), 0),
    "readers that want no gaps share one copy": (
        relay.concatenate([relay.tanh(FIRST) + relay.exp(FIRST), SECOND], axis=0), 2,
    ),
    "a part that is a result": (relay.Tuple([FIRST, SECOND]), 2),
    # Of both inputs, of the part, of the result.
    "a part behind a convolution": (behind_a_convolution(), 4),
    "a part of a part": (of_a_part(), 1),
    "a part of a constant": (of_a_constant(), 0),
}  # fmt: skip


def test_copies_of_parts():
    plans = check_all({name: body for name, (body, _) in COPIES.items()})
    found = {name: reorders(plan) for name, plan in plans.items()}
    assert found == {name: count for name, (_, count) in COPIES.items()}


def test_a_single_product_of_parts():
    """A part that is not the first one, as either operand, of activations and of a constant."""
    _, rows, columns = relay.split(projections(), 3, axis=-1)
    _, fixed = relay.split(constant(3, TOKENS, 2 * CHANNELS), 2, axis=-1)
    bodies, left = {}, relay.expand_dims(rows, 0)
    for name, right in (("activations", columns), ("constant", fixed)):
        bodies[name] = nn.batch_matmul(left, relay.expand_dims(right, 0))
        turned = relay.expand_dims(relay.transpose(right, (1, 0)), 0)
        bodies[f"{name}, transposed"] = nn.batch_matmul(left, turned, transpose_b=False)
    check_all(bodies)


def test_parts_of_which_none_is_the_first_are_joined():
    """Dense ones, in small pieces and in large ones."""
    bodies = {}
    for width in (4, 32):
        parts = relay.split(relay.tanh(relay.var("x", shape=(3, 8, width))), 3, axis=0)
        for order in [(2, 1), (1, 2), (1, 0)]:
            for axis in (0, 2):
                joined = relay.concatenate([parts[i] for i in order], axis=axis)
                bodies[f"{width} {order} {axis}"] = relay.negative(joined)
    check_all(bodies)


def test_a_convolution_reads_a_part_by_one_copy_into_its_layout():
    part = relay.strided_slice(conv(images("x"), 64, 1, 1), [0, 32, 0, 0], [1, 64, 9, 9])
    out = conv(part, 32, 3, 2)
    steps = steps_of(check(out))
    first, second = (i for i, step in enumerate(steps) if step == "conv")
    assert steps[first + 1 : second] == ["reorder"], steps


@pytest.mark.parametrize("part_first", [True, False])
def test_a_binary_step_takes_a_part_in_the_other_operand_s_layout(part_first):
    part = relay.strided_slice(conv(images("x"), 64, 1, 1), [0, 32, 0, 0], [1, 64, 9, 9])
    other = nn.max_pool2d(conv(images("y"), 32, 3, 2), pool_size=(3, 3), padding=1)
    product = relay.multiply(*((part, other) if part_first else (other, part)))
    steps = steps_of(check(conv(product, 32, 3, 3)))
    assert steps[steps.index("binary") - 1] == "reorder", steps
    before = steps[: steps.index("binary")]
    assert before.count("reorder") == 3, steps  # of both inputs, of the part


def test_the_first_images_of_a_batch_lie_together():
    """They are no part, and neither is what is written over them."""
    first = relay.strided_slice(conv(images("x", 4), 32, 1, 1), [0, 0, 0, 0], [2, 32, 9, 9])
    summed = conv(images("y", 2), 32, 1, 2) + first
    steps = steps_of(check(nn.max_pool2d(relay.tanh(summed), pool_size=(3, 3))))
    assert steps[-3:] == ["conv", "pool", "reorder"], steps


def test_nobody_writes_over_a_part_that_is_read_later():
    """The product reads both parts in place, after functions have read copies of them."""
    bodies = {}
    for order in [(0, 1), (1, 0)]:
        parts = [heads(part) for part in relay.split(relay.exp(projections(2)), 2, axis=-1)]
        first, second = (parts[i] for i in order)
        scores = nn.batch_matmul(first, second, transpose_b=True)
        changed = [relay.tanh(first), relay.log(second), relay.negative(scores)]
        bodies[str(order)] = relay.Tuple(changed)
    whole = relay.exp(projections(2))
    first, second = relay.split(whole, 2, axis=-1)
    out = nn.dense(relay.var("y", shape=(TOKENS, 5)), constant(3, CHANNELS, 5)) + first
    bodies["a sum"] = relay.Tuple([out, relay.negative(second), relay.log(whole)])
    check_all(bodies)


def test_each_number_of_a_rolled_image_is_copied_once_for_each_axis():
    """Shifted windows: the end of each axis before its beginning. Rows are copied to where the
    concatenation has them, columns by the concatenation."""
    shape = [1, 8, 8, 160]
    out = relay.tanh(relay.var("x", shape=shape))
    for axis in (1, 2):
        middle = [3 if i == axis else 0 for i in range(4)]
        before = [3 if i == axis else extent for i, extent in enumerate(shape)]
        tail = relay.strided_slice(out, middle, shape)
        head = relay.strided_slice(out, [0] * 4, before)
        out = relay.concatenate([tail, head], axis=axis)
    lines = check(relay.negative(out)).splitlines()
    assert sum(line.startswith("reorder") for line in lines) == 2, lines
    concats = [line for line in lines if line.startswith("concat")]
    assert sum(line.endswith("in place") for line in concats) == 1, lines
    assert len(concats) == 2


def test_small_parts_are_joined_by_copies_of_ours():
    """Pieces of a few channels, which oneDNN copies slowly."""
    x = relay.tanh(relay.var("x", shape=(1, 9, 9, 8)))
    parts = relay.split(x, 4, axis=3)
    plan = check(relay.negative(relay.concatenate([parts[i] for i in (2, 0, 3, 1)], axis=3)))
    assert "by copies" in plan, plan
