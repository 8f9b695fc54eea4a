# SPDX-License-Identifier: Apache-2.0
"""Candidates are built in the user's PassContext, which travels to the workers as JSON."""

import json
import logging

import pytest
import tvm
from candidate_nets import conv
from measure_fakes import fake_candidate, fake_options, measure
from tvm.relay.collage.estimators.row import build_options
from tvm.relay.collage.process_wide import logs

TARGET = "llvm"
UNROLL = {"auto_max_step": 7, "explicit_unroll": False}


def round_trip(**context):
    with tvm.transform.PassContext(opt_level=3, **context) as current:
        fields, left_out = measure.context_to_json(current)
    fields = json.loads(json.dumps(fields))
    return fields, left_out, measure.context_from_json(fields)


def test_a_default_context_is_empty():
    assert round_trip()[:2] == ({}, [])
    config = {"relay.collage.guard_rounds": 3, "relay.collage.vector_math": True}
    assert round_trip(config=config)[:2] == ({}, [])


def test_entries_come_back_as_they_were():
    config = {
        "tir.disable_vectorize": True,
        "relay.FuseOps.max_depth": 3,
        "relay.backend.tir_converter": "default",
        "tir.UnrollLoop": UNROLL,
        "relay.collage.vector_math": False,
    }
    lists = {"required_pass": ["FastMath"], "disabled_pass": ["AlterOpLayout"]}
    fields, left_out, back = round_trip(config=config, **lists)
    assert left_out == [] and fields["config"]["tir.disable_vectorize"] is True
    assert sorted(back.config) == sorted(config)
    assert (
        bool(back.config["tir.disable_vectorize"]) and back.config["relay.FuseOps.max_depth"] == 3
    )
    assert int(back.config["tir.UnrollLoop"].auto_max_step) == 7
    assert list(back.required_pass) == ["FastMath"]
    assert list(back.disabled_pass) == ["AlterOpLayout"]


def test_code_stays_behind_and_is_named_once(caplog, monkeypatch):
    monkeypatch.setattr(logs, "warned", set())
    config = {"tir.add_lower_pass": [(1, tvm.tir.transform.Simplify())], "tir.noalias": True}
    assert round_trip(config=config)[1] == ["tir.add_lower_pass"]
    with caplog.at_level(logging.WARNING), tvm.transform.PassContext(config=config):
        options = [build_options() for _ in range(2)]
    assert options[0]["pass_context"] == {"config": {"tir.noalias": True}}
    [record] = caplog.records
    assert "tir.add_lower_pass holds code" in record.getMessage()


@pytest.fixture(scope="module")
def estimator():
    options = measure.MeasureOptions(workers=1, builder="measure_fakes:report_context")
    with measure.MeasuredCostEstimator(options) as estimator:
        yield estimator


def test_the_workers_build_is_in_the_context(estimator):
    keys = []
    for config in ({}, {"tir.disable_vectorize": True}):
        with tvm.transform.PassContext(
            opt_level=2, config=config, disabled_pass=["FastMath"] if config else []
        ):
            options = build_options()
        candidate = measure.candidate_module(conv(0), "tvm", TARGET, options)
        keys.append(candidate.key())
        [cost] = estimator.estimate([candidate])
        assert ("tir.disable_vectorize" in cost.message) == bool(config), cost.message
        assert "level 2" in cost.message and ("FastMath" in cost.message) == bool(config)
    assert keys[0] != keys[1]


def test_more_imports_keep_the_costs():
    with measure.MeasuredCostEstimator(fake_options(workers=1)) as estimator:
        estimator.estimate([fake_candidate("a")])
        estimator.require(["json"])
        estimator.require(["json"])
        assert estimator.options.imports == ("json",)
        estimator.estimate([fake_candidate("a"), fake_candidate("b")])
        assert (estimator.hits, estimator.misses) == (1, 2)
