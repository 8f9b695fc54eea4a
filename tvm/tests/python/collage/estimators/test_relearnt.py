# SPDX-License-Identifier: Apache-2.0
"""Multiples that a store's pairs of profile and cost give, and the pairs that a search leaves."""

from types import SimpleNamespace

import pytest
import tvm
from store_files import text
from tvm.relay.collage.costs.cost import PartCost
from tvm.relay.collage.estimators.calibration import CAUTIOUS, SHIPPED
from tvm.relay.collage.estimators.profiles import Profiles
from tvm.relay.collage.estimators.relearnt import Relearnt, pairs_of
from tvm.relay.collage.measure.options import MeasureOptions
from tvm.relay.collage.views.function_report import CostedCandidate

HOST = tvm.target.Target("llvm")
MANY = [(1e-3, 1e-3 * (1 + k / 1000)) for k in range(200)]


def relearnt(file, backends=("dnnl", "cblas"), how=None):
    return Relearnt(str(file), HOST, backends, how or MeasureOptions())


def test_without_costs_of_this_machine_those_that_are_shipped_count(tmp_path):
    assert relearnt(tmp_path / "costs.sqlite").multiples() == SHIPPED
    assert relearnt("none").multiples() == SHIPPED


def test_what_was_measured_here_takes_their_place_for_its_backend_and_size(tmp_path):
    file = tmp_path / "costs.sqlite"
    relearnt(file).keep({"dnnl": MANY, "cblas": MANY[:50], "unknown": MANY})
    found = relearnt(file).multiples()
    assert found["dnnl"].of(1e-3) == pytest.approx((1.002, 1.05))
    assert found["dnnl"].of(1e-6) == SHIPPED["dnnl"].of(1e-6)
    assert found["tvm"] == SHIPPED["tvm"]
    # Fifty are too few, and nothing is shipped for it.
    assert found["cblas"].of(1e-3) == CAUTIOUS.of(1e-3)
    relearnt(file).keep({"cblas": MANY[50:]})
    assert relearnt(file).multiples()["cblas"].of(1e-3) == pytest.approx((1.002, 1.05))


def test_the_size_of_the_network_is_no_part_of_the_key_and_other_settings_are(tmp_path):
    file = tmp_path / "costs.sqlite"
    relearnt(file).keep({"dnnl": MANY})
    assert relearnt(file, how=MeasureOptions(network_bytes=1)).multiples() != SHIPPED
    assert relearnt(file, how=MeasureOptions(sample_seconds=1.0)).multiples() == SHIPPED


def test_a_store_that_will_not_do_costs_what_was_learnt_alone(tmp_path, caplog):
    caplog.set_level("INFO")
    file = tmp_path / "costs.sqlite"
    text(file)
    relearnt(file).keep({"dnnl": MANY})
    assert relearnt(file).multiples() == SHIPPED
    assert "are not kept" in caplog.text and "as shipped" in caplog.text


def costed(backend, nodes, seconds, status="measured", rule="r"):
    return CostedCandidate(backend, rule, nodes, PartCost(status, seconds, ""))


def test_pairs_are_of_measured_costs_of_profiled_backends_one_for_equal_candidates():
    profiles = Profiles({"dnnl": {1: 1.0, 2: 2.0, 4: 4.0}}, {})
    candidates = [
        costed("dnnl", (1, 2, 3), 9.0),
        costed("dnnl", (1,), 5.0),
        costed("dnnl", (2,), 5.0),
        costed("dnnl", (4,), 4.0, status="estimated"),
        costed("dnnl", (4,), None, status="crashed"),
        costed("dnnl", (7,), 1.0),
        costed("cblas", (1,), 1.0),
    ]
    reports = [
        SimpleNamespace(skipped="", graph=SimpleNamespace(costed=candidates)),
        SimpleNamespace(skipped="no operators", graph=None),
    ]
    assert pairs_of(reports, profiles) == {"dnnl": [(3.0, 9.0), (1.5, 5.0)]}
