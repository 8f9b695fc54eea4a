# SPDX-License-Identifier: Apache-2.0
"""bench/zoo.py: the table, the draw, records of nets that run, fail, die or hang, going on where it
stopped, and the page that is written from the record. Nothing here needs torch."""

import json
import sys

import models
import pytest
import zoo
from architectures import kernels, nets, page, record, trial
from architectures.nets import NETS, Row
from bench_nets import small_classifier
from harness import records
from tree import ROOT

MACHINE = kernels.Machine(100.0, 10.0, 5e-6)


def broken_net(batch):
    model = small_classifier(batch)
    model.graph.node[0].op_type = "NoSuchOperator"
    return model


@pytest.fixture
def small(monkeypatch):
    for name, build in (("small", small_classifier), ("broken", broken_net)):
        monkeypatch.setitem(models.NETS, name, models.Net(name, "a net", build, "none"))
        row = Row(name, "plain", "models", name, (0,))
        monkeypatch.setitem(nets.NETS, name, row)


def test_the_table_has_all_families_and_a_file_for_each_row():
    assert len(NETS) >= 80
    families = {row.family for row in NETS.values()}
    assert families >= {
        *("plain", "depthwise", "squeeze-and-excite", "grouped", "dense", "transposed"),
        *("ViT", "Swin", "ConvNeXt", "hybrid", "BERT-like", "GPT-like", "T5-like"),
        *("LSTM and GRU", "detection heads", "audio", "small MLP, tabular"),
    }
    files = [row.file_name(row.sizes[0], 1, 0) for row in NETS.values()]
    assert len(set(files)) == len(NETS)
    row = NETS["resnet18"]
    others = [row.file_name(160, 1, 0), row.file_name(224, 8, 0), row.file_name(224, 1, 1)]
    assert len({row.file_name(224, 1, 0), *others}) == 4
    assert {row.make for row in NETS.values() if row.package == "models"} <= set(models.NETS)
    assert NETS["bert"].shapes(64, 8) == {"input_ids": (8, 64)}
    assert NETS["bert"].limits() == {"input_ids": 1000}
    assert NETS["audio_spectrogram_transformer"].settings_for(256)["max_length"] == 256


def test_a_draw_is_that_of_its_seed(capsys):
    def drawn(*arguments):
        return [
            (row.name, size, batch)
            for row, size, batch in zoo.chosen(zoo.parse(["--draw", "12", *arguments]))
        ]

    first = drawn("--seed", "7")
    assert first == drawn("--seed", "7") != drawn("--seed", "8")
    assert len({name for name, _, _ in first}) == 12
    assert all(size in NETS[name].sizes and batch in (1, 8) for name, size, batch in first)
    capsys.readouterr()
    unseeded = drawn()
    line = capsys.readouterr().out.splitlines()[0]
    seed = line.removeprefix("drawn with --seed ").removesuffix(":")
    assert drawn("--seed", seed) == unseeded
    for wrong, why in [
        (["--draw", "0"], "must be at least 1"),  # not: all nets
        (["--batches", "1,0"], "must be at least 1"),
        (["--backends", "foo"], "foo"),
    ]:
        with pytest.raises(SystemExit):
            zoo.parse(wrong)
        assert why in capsys.readouterr().err


def test_nets_go_by_name_and_family():
    assert {row.name for row in zoo.nets_argument("T5-like,resnet18")} == {
        *("resnet18", "t5", "t5_encoder", "bart")
    }
    with pytest.raises(zoo.argparse.ArgumentTypeError, match="no net and no family is called moa"):
        zoo.nets_argument("resnet18,moa")


def run_fake(tmp_path, net, limit=30.0):
    """A trial of bench_children.py in a process of its own."""
    request = {"net": net, "depth": "fake", "folder": str(tmp_path), "threads": 1, "limit": limit}
    return trial.run_trial(request, "bench_children:fail_as_named")


@pytest.mark.parametrize(
    ("net", "stage", "message"),
    [
        ("raises", "import", "ValueError: no such operator: Moa"),
        ("dies", "measure", "ended with 3: no output"),
        ("hangs", "measure", "took longer than 3 s"),
    ],
)
def test_what_a_net_does_wrong_is_data(tmp_path, net, stage, message):
    facts = run_fake(tmp_path, net, limit=3.0)
    assert facts["failure"]["stage"] == stage
    assert facts["failure"]["message"].startswith(message)
    assert facts["model"] == {"nodes": 3}  # what it told before stands


def test_a_net_that_runs_has_no_failure(tmp_path):
    facts = run_fake(tmp_path, "fine")
    assert facts["failure"] is None and facts["rows"][0]["ms"] == 1.0


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    measured = []

    def fake(request, function):
        measured.append(request["net"])
        failure = {"stage": "import", "message": "no"} if request["net"] == "nasrnn" else None
        return {"rows": [], "slow": [], "failure": failure}

    monkeypatch.setattr(trial, "run_trial", fake)
    arguments = ["--record", str(tmp_path / "zoo.jsonl"), "--nets"]
    assert zoo.main([*arguments, "nasrnn"]) == 0
    assert zoo.main([*arguments, "nasrnn,ppocr_cls"]) == 0
    assert measured == ["nasrnn", "ppocr_cls"]
    assert "1 of 2 ended early" in capsys.readouterr().out
    # Another number of rounds is another measurement; --keep takes the old one for it.
    assert zoo.main([*arguments, "nasrnn", "--rounds", "3", "--keep"]) == 0
    assert measured == ["nasrnn", "ppocr_cls"]
    assert zoo.main([*arguments, "nasrnn", "--rounds", "3"]) == 0
    assert measured[2:] == ["nasrnn"]
    found = records.load(tmp_path / "zoo.jsonl", record.KEY)
    assert sorted(found) == [("nasrnn", 0, 1, "seconds"), ("ppocr_cls", 0, 1, "seconds")]
    assert found["nasrnn", 0, 1, "seconds"]["conditions"]["rounds"] == 3
    assert zoo.main([*arguments, "ppocr_det", "--budget", "-1"]) == 0
    assert measured[3:] == []


def test_a_net_that_cannot_be_exported_is_data(tmp_path, capsys):
    """The interpreter that is to export has no torch, or is not there."""
    arguments = ["--record", str(tmp_path / "zoo.jsonl"), "--folder", str(tmp_path / "files")]
    arguments += ["--nets", "resnet18", "--torch-python"]
    for python in (sys.executable, str(tmp_path / "python")):
        zoo.main([*arguments, python, "--rounds", "2" if python == sys.executable else "3"])
        (found,) = records.load(tmp_path / "zoo.jsonl", record.KEY).values()
        assert found["failure"]["stage"] == "export"
    assert "No such file" in found["failure"]["message"]


@pytest.mark.slow("a net searched, built and timed on each side")
def test_small_nets_at_depth_seconds(tmp_path, small):
    """The whole way, in this process; the broken net fails where it is imported."""
    pytest.importorskip("onnxruntime")
    request = {"net": "small", "size": 0, "batch": 2, "depth": "seconds", "file": None}
    request |= {"threads": 1, "backends": ["dnnl", "moa"], "rounds": 2, "rtol": 1e-3}
    facts, stages = {}, []
    for each in trial.trial(request):
        facts |= each
        stages += [each["stage"]] if "stage" in each else []
    assert stages == ["import", "build dnnl", "build moa", "measure", "kernels"]
    assert list(facts["stages"]) == ["start", *stages]
    assert facts["model"]["nodes"] > 3
    rows = {row["name"]: row for row in facts["rows"]}
    assert rows["dnnl alone"]["status"] == "measured" and rows["dnnl alone"]["error"] < 1e-5
    assert rows["dnnl alone"]["ratio"] is not None and rows["onnxruntime"]["is_peer"]
    assert rows["moa alone"]["status"] == "compile_failed" and "moa" in rows["moa alone"]["message"]
    assert all("share" in kernel for kernel in facts["slow"])
    found = trial.trial(request | {"net": "broken"})
    assert next(found)["stage"] == "import" and next(found)["model"]
    with pytest.raises(Exception, match="NoSuchOperator"):
        next(found)


CONVOLUTION = (
    "onednn_verbose,exec,cpu,convolution,brgconv:avx512_core,forward_inference,src_f32,attr,"
    "alg:convolution_direct,mb2_ic16oc32_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1,0.05"
)
REDUCTION = (
    "onednn_verbose,exec,cpu,reduction,ref:any,undef,src_f32 dst_f32,attr,"
    "alg:reduction_mean p:0 eps:0,1x64x56x56:1x64x1x1,2.5"
)


@pytest.mark.parametrize(
    ("kind", "problem", "flops", "floats"),
    [
        ("convolution", "mb2_ic16oc32_ih8oh8kh3_iw8ow8kw3", 2 * 2 * 32 * 16 * 9 * 64, None),
        ("convolution", "g16mb1_ic16oc16_ih8oh8kh3_iw8ow8kw3", 2 * 16 * 9 * 64, None),
        ("deconvolution", "mb1_ic8oc4_ih4oh8kh2_iw4ow8kw2", 2 * 8 * 4 * 4 * 16, None),
        ("inner_product", "mb64ic256oc512", 2 * 64 * 256 * 512, 64 * 768 + 256 * 512),
        ("matmul", "3x5x7:3x7x11", 2 * 3 * 5 * 11 * 7, 3 * (35 + 77 + 55)),
        ("pooling", "mb1ic64_ih56oh1kh56_iw56ow1kw56", 0, 64 * (56 * 56 + 1)),
        ("reduction", "1x64x56x56:1x64x1x1", 0, 64 * (56 * 56 + 1)),
        ("eltwise", "1x64x56x56", 0, 2 * 64 * 56 * 56),
    ],
)
def test_what_a_primitive_computes_and_moves(kind, problem, flops, floats):
    line = f"onednn_verbose,exec,cpu,{kind},jit:uni,undef,src,attr,alg:x,{problem},0.5"
    name, told, microseconds, (computed, moved) = kernels.onednn_call(line)
    assert (name, told, microseconds) == (f"{kind} x by jit:uni", problem, 500.0)
    assert computed == flops and (floats is None or moved == 4 * floats)


def test_slow_kernels_are_references_and_those_far_off_the_roofline():
    calls = [
        ("mean", 900.0, "float32[1, 64, 64, 64], float32[1, 64]"),  # 1 MB: 105 us by the memory
        ("tanh", 2000.0, "float32[1, 64, 64, 64], float32[1, 64, 64, 64]"),  # 210 us: 9.5 times
        ("erf", 2400.0, "float32[1, 64, 64, 64], float32[1, 64, 64, 64]"),
        ("nn_dense", 1500.0, "float32[1, 8], float32[1, 8]"),
        ("add", 100.0, "float32[1], float32[1]"),
    ]
    end = {"run": False, "microseconds": 10_000.0, "tvm": calls}
    begin, slow = 'zoo {"run": true}', REDUCTION.replace(",2.5", ",25")
    lines = [begin, CONVOLUTION, slow, begin, CONVOLUTION, REDUCTION, f"zoo {json.dumps(end)}"]
    # Before and after the runs nothing counts, and of the runs the quicker one.
    found = kernels.judge([REDUCTION, *lines, REDUCTION], MACHINE)
    names = [(each["where"], each["kernel"], each["count"]) for each in found]
    assert names == [
        ("onednn", "reduction reduction_mean by ref:any", 1),
        ("tvm", "erf", 1),
        ("tvm", "nn_dense", 1),
    ]
    assert found[0]["is_reference"] and found[0]["share"] == 0.265 and found[0]["ms"] == 2.5
    assert found[1]["off"] == pytest.approx(11.2, abs=0.1) and found[2]["off"] is None


def made(net, ratio, failure=None, **facts):
    row = {"name": "dnnl alone", "is_peer": False, "status": "measured", "ms": 2.0, "fastest": 1.6}
    peer = {
        "name": "openvino",
        "is_peer": True,
        "status": "measured",
        "ms": 1.0,
        "fastest": 0.8,
        "ratio": [1, 1, 1],
    }
    conditions = {
        "commit": "abc",
        "versions": {"collage": "hash", "tvm": "0.19.0"},
        "machine": {"cpu": "a CPU"},
        "threads": 2,
    }
    return {
        **{"net": net, "size": 224, "batch": 1, "depth": "seconds", "conditions": conditions},
        **{"date": "2026-11-22", "failure": failure, "seconds": 9.0},
        "rows": [{**row, "ratio": [ratio, ratio, ratio]}, peer] if ratio else [],
        **facts,
    }


def test_the_page_says_what_the_records_say():
    kernel = {"backend": "dnnl", "where": "onednn", "kernel": "reduction by ref:any", "count": 16}
    kernel |= {"ms": 3.0, "share": 0.5, "off": 40.0, "shapes": "1x2", "is_reference": True}
    fault = {"stage": "import", "message": "no such operator: a|b"}
    made_records = [
        made("resnet18", 1.25, slow=[kernel]),
        made("efficientnet_b0", 0.8, slow=[{**kernel, "share": 0.7}]),
        made("llama", None, fault),
        made("bert", None, fault),
    ]
    text = page.tables(made_records)
    assert "geometric mean 1.000 over 2, of which 1 are at 0.97 or more" in text
    assert "by the quickest run of each" in text and "- on " not in text
    conditions = {**made_records[0]["conditions"], "machine": {"cpu": "another"}}
    both = page.tables([*made_records[1:], {**made_records[0], "conditions": conditions}])
    assert "- on another: geometric mean 1.250 over 1," in both
    assert "geometric mean 0.500 over 2, of which 0 are at 0.97 or more; the least 0.50" in text
    assert "| plain | resnet18 | 224 | 1 | openvino 1 | 1.25 | 0.50 dnnl alone |" in text
    assert "| squeeze-and-excite | efficientnet_b0 | 224 | 1 | openvino 1 | **0.80** |" in text
    assert "| import | no such operator: a\\|b | llama, bert |" in text
    assert "| dnnl | **reduction by ref:any** | 2 | 70 % | efficientnet_b0 | 16 | 3 | 40 |" in text
    unknown = made("bert", 9.5)
    unknown["rows"][0] |= {"ratio": [9.5, 0.0, None], "own": [9.5, 0.0, None]}
    rough = page.tables([*made_records[:3], unknown])
    assert "geometric mean 1.000 over 2," in rough and "| ~9.5 |" in rough and "9.50" not in rough
    assert "2 ended early" in text and "hash" not in text


@pytest.mark.parametrize(
    "record, text, why",
    [
        (
            "absent.jsonl",
            "# Zoo\n<!-- zoo.jsonl: begin -->\n<!-- zoo.jsonl: end -->\n",
            "no such file",
        ),
        (ROOT / "docs/zoo.jsonl", "# Zoo\n", "lacks the line"),
        (ROOT / "docs/zoo.jsonl", None, "No such file"),
    ],
    ids=["record", "marks", "page"],
)
def test_a_page_that_cannot_be_written_stays_as_it_is(record, text, why, tmp_path, capsys):
    file = tmp_path / "zoo.md"
    if text:
        file.write_text(text)
    arguments = ["--write-docs", "--docs", str(file), "--record", str(tmp_path / record)]
    assert zoo.main(arguments) == 1
    assert why in capsys.readouterr().err
    assert (file.read_text() if file.exists() else None) == text
