# SPDX-License-Identifier: Apache-2.0
"""A build with the option on whose target list names no backend: one warning that says so."""

import logging

import pytest
import tvm
from relay_text import parse
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.backends import registry

OPTION = {"relay.collage.enable_collage": True}
TEXT = "def @main(%x: $T) { nn.relu(%x) }"


def build_graph(target):
    return relay.build(parse(TEXT), target=target)


def build_vm(target):
    return relay.vm.compile(parse(TEXT), target=target)


def make_executor(target):
    return relay.create_executor("graph", parse(TEXT), tvm.cpu(), target)


def optimize(target):
    return collage.optimize(parse(TEXT), targets=target)


def warnings(caplog, build, target="llvm", **options):
    config = {**OPTION, **{f"relay.collage.{name}": value for name, value in options.items()}}
    caplog.clear()
    with (
        caplog.at_level(logging.WARNING, "tvm.relay.collage"),
        tvm.transform.PassContext(opt_level=3, config=config),
    ):
        build(target)
    return [text for text in caplog.messages if "names no backend" in text]


@pytest.mark.parametrize("build", [build_graph, build_vm, make_executor, optimize])
def test_it_is_one_line_that_names_those_available(caplog, build):
    (text,) = warnings(caplog, build)
    _, *backends = collage.available_targets()
    names = [target.kind.name for target in backends]
    assert "dnnl" in names and "\n" not in text
    assert f"Available here: {', '.join(names)};" in text
    (example,) = [part for part in text.split("target=") if part.startswith("[")]
    made = eval(example[: example.index("]") + 1], {"collage": collage, "tvm": tvm})
    assert [str(target) for target in made] == [str(t) for t in collage.available_targets()]


def test_a_build_without_the_option_says_nothing(caplog):
    assert warnings(caplog, build_graph, enable_collage=False) == []


def test_backends_that_trade_accuracy_are_named_where_a_budget_allows_them(caplog):
    traders = [each.name for each in collage.list_backends() if each.trades_accuracy]
    (text,) = warnings(caplog, make_executor)
    assert not any(f"'{name}'" in text for name in traders)
    (text,) = warnings(caplog, make_executor, accuracy_budget=0.1)
    available = {t.kind.name for t in collage.available_targets(accuracy_budget=0.1)}
    assert all((f"'{name}'" in text) == (name in available) for name in traders)


def test_where_none_can_run_it_says_so(caplog, monkeypatch):
    monkeypatch.setattr(registry, "REGISTERED", {})
    (text,) = warnings(caplog, optimize)
    assert "no backend can run here either" in text and "\n" not in text


def test_a_placement_wants_tvm_alone(caplog, tmp_path):
    file = tmp_path / "placement.json"
    optimize("llvm").save_placement(file)
    assert warnings(caplog, build_graph, placement=str(file)) == []


@pytest.mark.parametrize("build", [build_graph, build_vm, make_executor, optimize])
def test_a_placement_is_read_for_the_host_alone_too(build, tmp_path):
    config = {**OPTION, "relay.collage.placement": str(tmp_path / "none.json")}
    with (
        tvm.transform.PassContext(opt_level=3, config=config),
        pytest.raises(collage.PlacementError, match="none.json' cannot be read"),
    ):
        build("llvm")
