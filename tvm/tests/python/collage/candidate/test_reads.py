# SPDX-License-Identifier: Apache-2.0
"""Numbers that operators read as places, shapes or structure: where they come from, their range."""

from importlib import import_module

import numpy as np
import pytest
import tvm
from measure_fakes import measure
from relay_text import module_of, parse
from tvm import relay
from tvm.relay.collage.candidate.flows import FLOWS, OWN_RANGE
from tvm.relay.collage.candidate.reads import PLAIN, RANGES, READS
from tvm.relay.collage.ops import KINDS
from tvm.relay.collage.relay_util.walk import nodes_of

inputs = import_module("tvm.relay.collage.candidate.inputs")
# Not of networks as they are compiled: other languages, what lowering makes (and our builds), marks
# of passes, and what other tests of this process have registered.
NOT_RELAY = (
    *("relax.", "tir.", "memory.", "vm.", "parser.", "annotation.", "relay.op."),
    *("collage.", "collage_test."),
)


def values_of(body, seed=0):
    mod = module_of(body) if not isinstance(body, tvm.IRModule) else body
    return inputs.random_inputs(inputs.describe_inputs(mod), seed)


def test_each_operator_of_relay_is_classified():
    names = {str(name) for name in tvm.ir.Op.list_op_names()}
    ours = {kind.operator for kind in KINDS.values()}
    relays = {name for name in names if name in ours or not name.startswith(NOT_RELAY)}
    known = READS.keys() | RANGES.keys() | PLAIN | FLOWS.keys() | OWN_RANGE
    assert relays - known == set(), "say in reads.py or flows.py what these do with integers"
    assert known - names == set()
    assert PLAIN.isdisjoint(READS.keys() | RANGES.keys() | FLOWS.keys())


def var(name, *shape, dtype="int64"):
    return relay.var(name, shape=shape, dtype=dtype)


def floats(name, *shape):
    return var(name, *shape, dtype="float32")


def whole(values, dtype="int64"):
    """A constant of just that type, which relay.const would change."""
    return relay.Constant(tvm.nd.array(np.array(values, dtype)))


DATA = floats("data", 50, 8)
IDS = var("ids", 300)
IMAGE = floats("image", 2, 3, 20, 30)
TABLE = relay.const(np.zeros((50, 8), "float32"))


def rows(ids):
    """A table's rows by number: numbers from 0 to 49 are safe."""
    return relay.take(TABLE, ids, axis=0, mode="fast")


# Operators that read an input named ids, and the numbers that it may hold.
READING = {
    "take": (relay.take(DATA, IDS, axis=0), 0, 49),
    "take of columns": (relay.take(DATA, IDS, axis=1), 0, 7),
    "take of all": (relay.take(DATA, IDS), 0, 399),
    "gather": (relay.gather(DATA, 1, var("ids", 50, 9, dtype="int32")), 0, 7),
    "adv_index": (relay.adv_index([DATA, var("other", 9), var("ids", 9)]), 0, 7),
    "adv_index first": (relay.adv_index([DATA, var("ids", 9)]), 0, 49),
    "gather_nd": (relay.gather_nd(IMAGE, var("ids", 2, 2, 5), batch_dims=1), 0, 2),
    "scatter_nd": (relay.scatter_nd(DATA, var("ids", 2, 5), floats("u", 5)), 0, 7),
    "one_hot": (relay.one_hot(IDS, relay.const(1.0), relay.const(0.0), 20, -1, "float32"), 0, 19),
    "nll_loss": (relay.nn.nll_loss(DATA, var("ids", 50), floats("w", 8)), 0, 7),
    "reverse_sequence": (relay.reverse_sequence(DATA, var("ids", 8), 0, 1), 0, 50),
    "sparse_to_dense": (relay.sparse_to_dense(var("ids", 9, 2), (6, 5), var("v", 9)), 0, 4),
    "crop_and_resize": (
        relay.image.crop_and_resize(
            IMAGE, floats("boxes", 4, 4), var("ids", 4, dtype="int32"), (8, 8), "NCHW"
        ), 0, 1,
    ),
    "divide": (
        relay.floor_divide(var("x", 300, dtype="int32"), var("ids", 300, dtype="int32")), 1, 16,
    ),
    "unravel_index": (relay.unravel_index(IDS, whole([4, 6])), 0, 23),
}  # fmt: skip
# Ways from ids to rows(...) of 50, and the numbers that ids may hold.
WAYS = {
    "cast and reshape": (rows(relay.reshape(relay.cast(IDS, "int32"), (3, 100))), 0, 49),
    "counted from one": (rows(IDS - whole(1)), 1, 50),
    "behind padding": (rows(IDS + whole(2)), -2, 47),
    "each second": (rows(IDS * whole(2)), 0, 24),
    "from the end": (rows(whole(49) - IDS), 0, 49),
    "of a fraction": (rows(relay.floor_divide(IDS, whole(10))), 0, 499),
    "counted": (rows(relay.cumsum(IDS, axis=0)), 0, 0),
    "counted, short": (rows(relay.cumsum(var("ids", 7), axis=0)), 0, 7),
    "joined": (rows(relay.concatenate([IDS, whole([0] * 20)], 0)), 0, 49),
    "negative ones from the end": (
        rows(relay.where(relay.less(IDS, whole(0)), IDS + whole(50), IDS)), 0, 49,
    ),
    "rounded floats": (rows(relay.cast(relay.floor(floats("ids", 300)), "int32")), 0, 49),
    "two added": (rows(IDS + var("more", 300)), 0, 24),
    "computed": (
        rows(relay.reshape(
            relay.nn.dense(var("ids", 4, 6), var("w", 5, 6), out_dtype="int64"), (20,)
        )), 0, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*READING, *WAYS])
def test_made_up_numbers_are_safe(name):
    body, low, high = (READING | WAYS)[name]
    ids = values_of(body)["ids"]
    assert low <= ids.min() and ids.max() <= high
    assert ids.max() > (low + high) / 2 or high == low, "they use the range"


def test_the_greatest_of_scores_is_an_index_and_scores_are_any():
    scores = floats("scores", 7, 50)
    assert values_of(rows(relay.argmax(scores, axis=1)))["scores"].min() < 0


MATRIX = (
    floats("values", 200),
    var("columns", 200, dtype="int32"),
    var("pointers", 33, dtype="int32"),
)
ROIS = floats("rois", 40, 5)
SPARSE_OR_REGIONS = {
    "sparse_dense": relay.nn.sparse_dense(floats("x", 16, 64), MATRIX),
    "roi_align": relay.vision.roi_align(IMAGE, ROIS, (7, 7), 0.5),
    "roi_pool": relay.vision.roi_pool(IMAGE, ROIS, (7, 7), 0.5),
    "sparse_add": relay.nn.sparse_add(floats("x", 32, 64), MATRIX),
    "sparse_transpose": relay.nn.sparse_transpose(MATRIX)[0],
    "blocks": relay.nn.sparse_dense(
        floats("x", 16, 64),
        (
            floats("values", 20, 4, 4),
            var("columns", 20, dtype="int32"),
            var("pointers", 9, dtype="int32"),
        ),
    ),
    "boxes": relay.vision.non_max_suppression(
        floats("boxes", 1, 60, 6),
        var("count", 1, dtype="int32"),
        var("ids", 1, 60, dtype="int32"),
        return_indices=False,
    ),
    "scatter_elements": relay.scatter_elements(
        DATA, var("ids", 50, 8), floats("updates", 50, 8), 1, "add"
    ),
    "invert_permutation": relay.invert_permutation(var("ids", 50, dtype="int32")),
    "remainder of bytes": relay.mod(var("x", 30, dtype="int8"), var("by", 30, dtype="int8")),
}


def test_row_pointers_ascend_to_the_number_of_values():
    values = values_of(SPARSE_OR_REGIONS["sparse_dense"])
    assert values["pointers"][0] == 0 and values["pointers"][-1] == 200
    assert (np.diff(values["pointers"]) >= 0).all()
    assert 50 < values["columns"].max() < 64 and values["columns"].min() >= 0


def test_regions_are_inside_their_images():
    for name in ("roi_align", "roi_pool"):
        made = values_of(SPARSE_OR_REGIONS[name])["rois"]
        assert set(made[:, 0]) == {0, 1}
        assert (made[:, 1:3] < made[:, 3:5]).all() and (made[:, 1:] >= 0).all()
        assert (made[:, 3] < 60).all() and (made[:, 4] < 40).all()


def test_an_operator_that_nobody_knows_gets_zeros():
    body = relay.Call(tvm.ir.Op.get("memory.kill"), [IDS])
    function = relay.Function([IDS], body)
    (need,) = (
        import_module("tvm.relay.collage.candidate.flows").leaves_read([function]).needs.values()
    )
    assert (need.low, need.high) == (0, 0)


def test_everything_made_up_runs():
    """All in one library, in a worker, which an index out of range may kill."""
    bodies = [body for body, _, _ in (READING | WAYS).values()] + [*SPARSE_OR_REGIONS.values()]
    renamed = []
    for place, body in enumerate(bodies):
        free = relay.analysis.free_vars(body)
        new = {v: relay.Var(f"{v.name_hint}_{place}", v.type_annotation) for v in free}
        renamed.append(relay.bind(body, new))
    candidate = measure.candidate_module(module_of(relay.Tuple(renamed)), "tvm", "llvm")
    with measure.MeasuredCostEstimator(workers=1, budget_seconds=0.01) as estimator:
        (cost,) = estimator.estimate([candidate])
    assert cost.is_usable, cost.Summary()


# ---- constants


def key(body):
    return measure.candidate_module(module_of(body), "tvm", "llvm").key()


def sparse(seed=0, rows_filled=32, scale=1.0):
    """x times a matrix of 32 rows, 20 values each of the first `rows_filled` ones, up to 640."""
    rng = np.random.default_rng(seed)
    pointers = np.minimum(np.arange(33) * (640 // rows_filled), 640).astype("int32")
    matrix = (
        relay.const(np.full(640, scale, "float32")),
        relay.const(np.sort(rng.integers(0, 64, 640)).astype("int32")),
        relay.const(pointers),
    )
    return relay.nn.sparse_dense(floats("x", 16, 64), matrix)


def numbers(seed, count=40, dtype="int64"):
    return whole(np.random.default_rng(seed).integers(0, 50, count), dtype)


def indexed(seed):
    return relay.take(DATA, numbers(seed), axis=0)


def offset(seed):
    return relay.take(DATA, var("ids", 40) + numbers(seed), axis=0)


def sampled(seed):
    grid = np.random.default_rng(seed).uniform(-1, 1, (2, 2, 5, 5)).astype("float32")
    return relay.image.grid_sample(IMAGE, relay.const(grid))


def biased(seed):
    return relay.nn.bias_add(var("x", 3, 40, dtype="int32"), numbers(seed, dtype="int32"))


def embedded(seed):
    table = np.random.default_rng(seed).standard_normal((50, 8)).astype("float32")
    return relay.take(relay.const(table), IDS, axis=0)


def masked(seed):
    mask = relay.const(np.random.default_rng(seed).random((50, 8)) < 0.5)
    return relay.where(mask, DATA, relay.const(0.0))


def best_row(seed):
    weight = np.random.default_rng(seed).standard_normal((50, 8)).astype("float32")
    return relay.take(DATA, relay.argmax(relay.nn.dense(DATA, relay.const(weight)), 1), axis=0)


@pytest.mark.parametrize("body", [sparse, indexed, offset, sampled])
def test_what_decides_where_is_computed_is_in_the_key(body):
    assert key(body(1)) == key(body(1)) != key(body(2))


def test_how_a_matrix_is_filled_is_in_the_key_its_values_are_not():
    assert key(sparse(rows_filled=32)) != key(sparse(rows_filled=4))
    assert key(sparse(scale=1.0)) == key(sparse(scale=2.0))


@pytest.mark.parametrize("body", [biased, embedded, masked, best_row])
def test_what_is_computed_with_is_not_in_the_key(body):
    assert key(body(1)) == key(body(2))


def constants_of(mod):
    return {tuple(c.data.shape): c.data.numpy() for c in nodes_of(mod, relay.Constant)}


def test_workers_build_the_real_structure():
    """With made-up row pointers nearly all rows would be empty, and cost nothing."""
    body = sparse(3, rows_filled=4, scale=7.0)
    text = measure.candidate_module(module_of(body), "tvm", "llvm").to_json()
    built = constants_of(measure.CandidateModule.from_json(text).instantiate())
    real = constants_of(module_of(body))
    np.testing.assert_array_equal(built[33,], real[33,])
    data, columns = body.args[1], body.args[2]
    assert tuple(data.data.shape) == tuple(columns.data.shape) == (640,)
    made = measure.CandidateModule.from_json(text).instantiate()["main"].body.args
    np.testing.assert_array_equal(made[2].data.numpy(), columns.data.numpy())
    assert (made[1].data.numpy() != 7.0).all(), "values are made up"


def test_structure_inside_the_parts_of_external_backends_is_kept():
    """The composite's parameter stands for the part's constant."""

    def candidate(seed):
        mod = parse("""
          def @part(%t: Tensor[(50, 8), float32], %i: Tensor[(40), int64], Compiler="other",
                    Primitive=1, global_symbol="part") -> Tensor[(40, 8), float32] {
            %0 = fn (%a: Tensor[(50, 8), float32], %b: Tensor[(40), int64], Composite="c")
                -> Tensor[(40, 8), float32] { take(%a, %b, axis=0) };
            %0(%t, %i)
          }
          def @main(%table: Tensor[(50, 8), float32], %ids: Tensor[(40), int64])
              -> Tensor[(40, 8), float32] { @part(%table, %ids) }""")
        main = relay.build_module.bind_params_by_name(
            mod["main"], {"ids": numbers(seed).data.numpy()}
        )
        mod.update_func(mod.get_global_var("main"), main)
        return measure.candidate_module(mod, "other", "llvm")

    first, again, other = (candidate(seed) for seed in (1, 1, 2))
    assert first.key() == again.key() != other.key()
    np.testing.assert_array_equal(constants_of(first.instantiate())[40,], numbers(1).data.numpy())
