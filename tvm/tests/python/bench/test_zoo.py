# SPDX-License-Identifier: Apache-2.0
"""bench/zoo.py: the table, the draw, records of nets that run, fail, die or hang, and going on
where it stopped. Nothing here needs torch."""

import sys

import models
import pytest
import zoo
from architectures.nets import NETS
from bench_nets import small_classifier
from harness import records
from summaries import mixes
from trials import trial
from tvm.relay.collage.backends import BUILTIN, get_backend


def broken_net(batch):
    model = small_classifier(batch)
    model.graph.node[0].op_type = "NoSuchOperator"
    return model


@pytest.fixture
def small(monkeypatch):
    for name, build in (("small", small_classifier), ("broken", broken_net)):
        monkeypatch.setitem(models.NETS, name, models.Net(name, "a net", build, "none"))


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
        return zoo.chosen(zoo.parse(["--draw", "12", *arguments]))

    first = drawn("--seed", "7")
    assert first == drawn("--seed", "7") != drawn("--seed", "8")
    assert len({row.name for row, *_ in first}) == 12
    assert all(size in row.sizes and batch in (1, 8) for row, size, batch, _ in first)
    capsys.readouterr()
    unseeded = drawn()
    line = capsys.readouterr().out.splitlines()[0]
    seed = line.removeprefix("drawn with --seed ").removesuffix(":")
    assert drawn("--seed", seed) == unseeded
    assert {source for *_, source in unseeded} == {mixes.ZOO}


def test_nets_go_by_name_and_family_and_those_of_the_bench_beside_them():
    def chosen(*arguments):
        found = zoo.chosen(zoo.parse(list(arguments)))
        return {(row.name, source) for row, _, _, source in found}

    named = {(name, mixes.NAMED) for name in ("resnet18", "t5", "t5_encoder", "bart")}
    assert chosen("--nets", "T5-like,resnet18") == named
    of_bench = {("dcgan", mixes.MODELS)}
    assert chosen("--models", "dcgan") == of_bench
    assert chosen("--models", "dcgan", "--nets", "T5-like,resnet18") == named | of_bench
    assert len(chosen()) == len(NETS)


@pytest.mark.parametrize("depth", zoo.DEPTHS)
def test_each_depth_has_settings_of_its_own(depth):
    found, row = zoo.parse(["--depth", depth]), zoo.DEPTHS[depth]
    assert (found.rounds, found.limit, found.record) == (row.rounds, row.limit, row.record)
    assert ",".join(found.backends) == row.backends
    given = ["--rounds", "3", "--backends", "dnnl", "--collage", "time_limit=4"]
    found = zoo.parse(["--depth", depth, *given])
    assert (found.rounds, found.backends) == (3, ["dnnl"])
    assert found.collage == [("time_limit", 4.0)]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--draw", "0"], "must be at least 1"),  # not: all nets
        (["--batches", "1,0"], "must be at least 1"),
        (["--rounds", "0"], "must be at least 1"),
        (["--backends", "foo"], "unknown backend 'foo'"),
        (["--nets", "resnet18,moa"], "no net and no family is called moa"),
        (["--models", "foo"], "unknown net foo: choose of resnet50, "),
        (["--collage", "graph_search=foo"], "takes one of none, evolutionary"),
        (["--collage", "graph=1"], "takes NAME=VALUE with one of"),
        (["--collage", "guard=False"], "option relay.collage.guard takes a bool, got 'False'"),
        (["--tuned", "nowhere.jsonl"], "tuning log nowhere.jsonl: No such file"),
    ],
)
def test_what_is_refused(given, why, capsys):
    with pytest.raises(SystemExit) as stopped:
        zoo.parse(given)
    assert stopped.value.code == 2 and why in capsys.readouterr().err


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
    assert facts["failure"] is None and facts["rows"][0]["seconds"] == 1e-3


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    measured = []

    def fake(request, function):
        measured.append(request["net"])
        failure = {"stage": "import", "message": "no"} if request["net"] == "nasrnn" else None
        return {"rows": [], "failure": failure}

    monkeypatch.setattr(trial, "run_trial", fake)
    arguments = ["--record", str(tmp_path / "zoo.jsonl"), "--models"]
    assert zoo.main([*arguments, "nasrnn"]) == 0
    assert zoo.main([*arguments, "nasrnn,ppocr_cls"]) == 0
    assert measured == ["nasrnn", "ppocr_cls"]
    assert "1 of 2 ended early" in capsys.readouterr().out
    # Another number of rounds is another measurement; --keep takes the old one for it.
    assert zoo.main([*arguments, "nasrnn", "--rounds", "3", "--keep"]) == 0
    assert measured == ["nasrnn", "ppocr_cls"]
    assert zoo.main([*arguments, "nasrnn", "--rounds", "3"]) == 0
    assert measured[2:] == ["nasrnn"]
    found = records.load(tmp_path / "zoo.jsonl", zoo.KEY)
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
        (found,) = records.load(tmp_path / "zoo.jsonl", zoo.KEY).values()
        assert found["failure"]["stage"] == "export"
    assert "No such file" in found["failure"]["message"]


REQUEST = {"size": 0, "batch": 2, "file": None, "threads": 1, "rounds": 2, "rtol": 1e-3}


@pytest.mark.slow("a net searched, built and timed on each side")
def test_small_nets_at_depth_seconds(small):
    """The whole way, in this process; the broken net fails where it is imported."""
    pytest.importorskip("onnxruntime")
    request = {**REQUEST, "net": "small", "backends": ["dnnl", "moa"]}
    facts, stages = {}, []
    for each in trial.alone(request):
        facts |= each
        stages += [each["stage"]] if "stage" in each else []
    assert stages == ["import", "build dnnl", "build moa", "measure"]
    assert facts["model"]["nodes"] > 3
    rows = {row["name"]: row for row in facts["rows"]}
    ours = rows["dnnl alone"]
    assert ours["status"] == "measured" and ours["output_error"] < 1e-5
    assert ours["ratio"] is not None and rows["onnxruntime"]["is_peer"]
    assert rows["moa alone"]["status"] == "compile_failed" and "moa" in rows["moa alone"]["message"]
    found = trial.alone(request | {"net": "broken"})
    assert next(found)["stage"] == "import" and next(found)["model"]
    with pytest.raises(Exception, match="NoSuchOperator"):
        next(found)


@pytest.mark.slow("a net built for each backend, and one in 8 bits")
@pytest.mark.parametrize("net", ["small", "small_int8"])
def test_each_backend_that_is_there_is_right(small, net):
    ours = [name for name in BUILTIN if get_backend(name).available() is None]
    facts = {}
    for each in trial.alone({**REQUEST, "net": net, "batch": 1, "backends": ["tvm", *ours]}):
        facts |= each
    wrong = [row for row in facts["rows"] if row["status"] not in ("measured", "compile_failed")]
    assert not wrong
    assert {"tvm alone", "dnnl alone"} <= {
        row["name"] for row in facts["rows"] if row["status"] == "measured"
    }
    # What is not built takes nothing of the net.
    failed = [row["message"] for row in facts["rows"] if row["status"] == "compile_failed"]
    assert all("takes nothing of this net" in message for message in failed)


def test_a_table_says_what_each_side_did():
    rows = [
        {"name": "bad", "seconds": None, "ratio": None, "output_error": None}
        | {"status": "crashed", "message": "signal 11"},
        {"name": "slow", "seconds": 2e-3, "ratio": [0.5, 0.4, 0.6], "output_error": 1e-5}
        | {"status": "measured", "message": "", "noisy": True},
        {"name": "fast", "seconds": 1e-3, "ratio": [1.0, 1.0, 1.0], "output_error": 0.0}
        | {"status": "measured", "message": ""},
    ]
    lines = zoo.table({"net": "net", "batch": 1, "rows": rows}).splitlines()
    assert [line.split()[0] for line in lines] == ["net", "fast", "slow", "bad"]
    assert lines[2].split() == ["slow", "2.000", "0.50", "[0.40,", "0.60]", "1.0e-05", "noisy"]
    assert lines[3].endswith("crashed: signal 11")
    assert zoo.table({"net": "net", "batch": 1, "failure": {}}) == ""
