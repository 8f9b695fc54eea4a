# SPDX-License-Identifier: Apache-2.0
"""Schedules that come with the package: for which CPUs and modules, and that a build uses one only
where it is faster."""

import dataclasses
import json

import pytest
from relay_text import parse
from transfer_nets import SIZE, TARGET, conv, dense, kernel, source
from tuned_choices import judge_as, ship
from tvm import relay
from tvm.ir.transform import PassContext
from tvm.relay.collage import CollageOptions, optimize
from tvm.relay.collage.errors import OptionError
from tvm.relay.collage.machine import environment
from tvm.relay.collage.tuning import from_options, load_records
from tvm.relay.collage.tuning.ansor import Ansor
from tvm.relay.collage.tuning.ansor_kernel import to_comment
from tvm.relay.collage.tuning.transfer import shipped
from tvm.relay.collage.tuning.transfer.sources import sources_of
from tvm.target import Target
from tvm_collage.cli import main

FIELDS = {
    "measure_seconds": 0.02,
    "workers": 1,
    "progress": "quiet",
    "guard_rounds": 3,
    "store": "none",
    "shipped_records": True,
}
# Of the padded convolution: as Ansor would, its image in tiles.
FAST = [["CI", 5], ["SP", 3, 2, 8, [2, 2], 1], ["FU", 6, [0, 1, 2]], ["AN", 6, 0, 3]]
IMAGE = f"Tensor[(1, 16, {SIZE}, {SIZE}), float32]"
# As Ansor's searches name it: by its operators.
KERNEL = dataclasses.replace(kernel(conv), name="vm_mod_fused_nn_contrib_conv2d_NCHWc_add_nn_relu")
FACTS = {"nets": {"net": 16}, "cpu": "a CPU", "threads": 2, "tvm": "0.19.0", "date": "2026-11-24"}
# Of vectors of 256 bits; those of TARGET have 128.
WIDE = Target("llvm -mcpu=x86-64-v3")


@pytest.fixture
def records(tmp_path, monkeypatch):
    """A file for vectors of TARGET's width, which this CPU is said to have."""
    monkeypatch.setattr(shipped, "RECORDS", tmp_path)
    monkeypatch.setattr(environment, "read_cpu_flags", frozenset)
    path = tmp_path / "x86-128.jsonl"
    line = source(FAST).line.replace(str(TARGET), "llvm -mcpu=other")
    path.write_text(f"{shipped.MADE}{json.dumps(FACTS)}\n{to_comment(KERNEL)}\n{line}\n")
    return path


def test_the_width_of_the_vectors_decides(records):
    assert [environment.vector_bits(flags) for flags in ({"avx512f"}, {"avx2"}, set())] == [
        512,
        256,
        128,
    ]
    for target, bits in [
        (TARGET, 128),
        (WIDE, 256),
        (Target("llvm -mcpu=x86-64-v4"), 512),
        (Target("llvm -mcpu=x86-64-v4 -mattr=-avx512f"), 256),
        (Target("llvm -mtriple=aarch64-linux-gnu"), 128),
        (Target("c"), 128),
    ]:
        assert shipped.path_for(target) == records.with_name(f"x86-{bits}.jsonl")


def test_a_target_has_those_of_its_own_width_whatever_this_cpu_has(records, monkeypatch):
    monkeypatch.setattr(environment, "read_cpu_flags", lambda: frozenset({"avx2", "fma"}))
    assert shipped.log_named("shipped", TARGET) == str(shipped.shipped_log(TARGET)) == str(records)
    assert shipped.log_named("other.jsonl", TARGET) == "other.jsonl"
    [found] = sources_of([shipped.log_named("shipped", TARGET)])  # to be transferred
    assert found.kernel == KERNEL
    [line] = shipped.shipped_lines(TARGET)
    assert (line.target, line.origin) == (str(TARGET), "shipped")
    assert shipped.shipped_kernels(TARGET) == [KERNEL] and shipped.made(records) == FACTS
    assert shipped.shipped_log(WIDE) is None and shipped.shipped_lines(WIDE) == []
    assert shipped.shipped_kernels(WIDE) == []
    with pytest.raises(OptionError, match="CPUs with vectors of 256 bits"):
        shipped.log_named("shipped", WIDE)
    assert shipped.shipped_log() is None  # for this CPU


def test_the_command_takes_those_of_the_target_that_is_named(records, tmp_path, capsys):
    choose = ["tt", "choose", str(tmp_path / "net.onnx"), "--from", "shipped", "--target"]
    assert main([*choose, str(WIDE)]) == 2
    assert "no schedules are shipped for CPUs with vectors of 256" in capsys.readouterr().err
    assert main([*choose, str(TARGET)]) == 1
    assert "net.onnx cannot be read" in capsys.readouterr().err


def test_a_module_without_such_an_operator_of_that_size_is_known_at_once(records):
    kernels = shipped.shipped_kernels()
    assert shipped.may_serve(conv(), kernels)
    assert not shipped.may_serve(dense(), kernels) and not shipped.may_serve(conv(), [])
    # Nor is one of that size that another operator makes, or one element by element.
    pooled = parse(f"def @main(%x: {IMAGE}) {{ nn.max_pool2d(nn.relu(%x), pool_size=[1, 1]) }}")
    assert not shipped.may_serve(pooled, kernels)
    offer = from_options.Shipped((), kernels)
    assert offer.may_serve(conv(), set()) and not offer.may_serve(conv(), {kernels[0].workload})


def test_what_turns_them_off_is_told_who_asks_for_them(records, caplog):
    caplog.set_level("INFO")
    asked = {"shipped_records": True}
    for options, is_here, reason in [
        ({"tune": 1}, True, "they are of ansor, and the option tuner is autotvm"),
        ({"tuning_log": ["own.jsonl"]}, True, "there are tuning records of your own"),
        ({}, False, "candidates are measured on devices"),
    ]:
        caplog.clear()
        options = CollageOptions(**asked, **options).tuning
        assert from_options.shipped_of(options, conv(), TARGET, is_here) == from_options.Shipped()
        assert caplog.messages == [f"the schedules of this package are not used: {reason}"]
    caplog.clear()
    assert from_options.shipped_of(CollageOptions(**asked).tuning, conv(), TARGET).lines
    assert not from_options.shipped_of(CollageOptions(**asked).tuning, dense(), TARGET).lines
    for options in ({}, {"tuning_log": ["own.jsonl"]}):
        assert not from_options.shipped_of(CollageOptions(**options).tuning, conv(), TARGET).lines
    assert not caplog.messages, "nor is one told who did not ask for them"


@pytest.mark.parametrize(
    ("is_better", "plan", "origins"),
    [(True, "tvm", {"shipped": 1}), (True, "tvm-untuned", {}), (False, "tvm", {})],
    ids=["used", "slower end to end", "slower"],
)
def test_a_build_that_uses_them_judges_them_and_says_whose(
    records, is_better, plan, origins, monkeypatch
):
    judged = judge_as(is_better, monkeypatch)
    ship(plan, monkeypatch)
    result = optimize(conv(), None, [TARGET, Target("dnnl")], CollageOptions(**FIELDS))
    [costs] = judged
    assert all(cost.is_usable for cost in costs)  # with the schedule and without
    names = {item.name for item in result.guard.comparisons}
    assert ("tvm-untuned" in names) == is_better  # else nothing differs from a build without
    assert (result.plan, result.records.origins()) == (plan, origins)
    assert ("schedules: 1 shipped" in result.Summary()) == bool(origins)


def test_tvm_alone_uses_them_too(records, monkeypatch):
    judged = judge_as(True, monkeypatch)
    ship("tvm", monkeypatch)
    config = {f"relay.collage.{name}": value for name, value in FIELDS.items()}
    with PassContext(opt_level=3, config={"relay.collage.enable_collage": True, **config}):
        library = relay.build(conv(), target=TARGET)
        executor = relay.create_executor("graph", conv(), target=TARGET)
    for built in (library, executor):
        assert built.collage.records.origins() == {"shipped": 1}
    assert len(judged) == 2


def test_the_store_tells_of_them(records, capsys, monkeypatch):
    assert main(["store", "shipped"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"schedules of 1 kernels, for vectors of 128 bits; {records}"
    assert second == (
        "made for net (at least 16 trials a kernel), on a CPU, 2 threads, with TVM 0.19.0, "
        "2026-11-24"
    )
    assert main(["store", "shipped", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["made"] == FACTS
    records.write_text(records.read_text().partition("\n")[2])
    assert main(["store", "shipped"]) == 0
    assert "the file does not say how it was made" in capsys.readouterr().out
    monkeypatch.setattr(environment, "read_cpu_flags", lambda: frozenset({"avx2"}))
    assert main(["store", "shipped"]) == 0
    assert "none for this CPU, whose vectors have 256 bits" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(shipped.RECORDS.glob("*")), ids=lambda path: path.name)
def test_what_is_really_shipped_is_small_names_its_making_and_can_be_used(path):
    assert path.name in {f"x86-{bits}.jsonl" for bits in (128, 256, 512)}
    assert path.stat().st_size < 5_000_000
    facts = shipped.made(path)
    assert facts["nets"] and facts["cpu"] and facts["tvm"] and facts["threads"] >= 1
    sources = sources_of([path])
    assert len(sources) == len(load_records([path], TARGET)) > 0
    assert {each.kernel.workload for each in sources} == {
        line.workload for line in shipped.read_ansor(path)
    }


# A product of matrices in MobileBERT, for which there are schedules for two widths.
PRODUCT = """def @main(%x: Tensor[(128, 512), float32], %w: Tensor[(128, 512), float32]) {
  nn.dense(%x, %w, units=128)
}"""


@pytest.mark.parametrize(
    ("level", "serve"), [(2, False), (3, True), (4, True)], ids=["128", "256", "512"]
)
def test_what_is_really_shipped_serves_targets_of_its_width(level, serve, monkeypatch):
    target = Target(f"llvm -mcpu=x86-64-v{level}")
    options = CollageOptions(shipped_records=True).tuning
    tasks = {each.workload for each in Ansor().tasks(parse(PRODUCT), target)}
    for flags in ((), ("avx2",), ("avx2", "avx512f")):  # whatever this CPU has
        monkeypatch.setattr(environment, "read_cpu_flags", lambda flags=flags: frozenset(flags))
        offer = from_options.shipped_of(options, parse(PRODUCT), target)
        assert tasks and bool(tasks & {line.workload for line in offer.lines}) == serve
        assert serve or offer == from_options.Shipped()
