# SPDX-License-Identifier: Apache-2.0
"""`collage tt` on made-up logs, and what users do wrong; real trials: test_tt_compare.py."""

import contextlib
import dataclasses
import os
from types import SimpleNamespace

import onnx
import pytest
from cli_nets import write_net
from transfer_nets import TARGET, conv, dense, kernel, source
from tt_runs import answer, net
from tuning_nets import some_lines
from tvm.relay.collage.cli.tt import common, compare, logs, many, search
from tvm.relay.collage.errors import ModelError
from tvm.relay.collage.files.text import append_line
from tvm.relay.collage.importer import onnx_file
from tvm.relay.collage.importer.onnx_file import onnx_module
from tvm.relay.collage.tuning.log import note_kernel
from tvm.relay.collage.tuning.model import Model, Searched, Unfinished
from tvm.relay.collage.tuning.transfer.log import note_trial, read_ansor
from tvm.relay.collage.tuning.transfer.transfer import Trial
from tvm_collage.cli import main


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "ansor.jsonl"
    note_kernel(path, kernel(conv))
    for each in (source([], conv, 2e-3), source([["CI", 5]], conv, 1e-3), source([], dense)):
        append_line(path, each.line)
    return path


def test_info_tells_classes_and_what_no_log_knows(log, capsys):
    found = answer(capsys, "info", log)
    assert [row["workload"] for row in found["kernels"]] == [kernel(conv).workload]
    assert found["unknown_workloads"] == [kernel(dense).workload]
    assert main(["tt", "info", str(log)]) == 0
    text = capsys.readouterr().out
    assert f"class {kernel(conv).kind}: 1 kernel, 100 % of the time" in text
    [line] = [line for line in text.splitlines() if "2 trials" in line]
    assert line == "  1 x conv, 1x4x8x8x4, 2 trials, best 1 ms"
    assert "1 workloads have trials, but no comment of a log says what kernels they are" in text
    assert "`collage tt autoschedule MODEL --log LOG --trials 1`" in text
    assert found["share_of"] == "time"


def test_info_tells_targets_apart(log, capsys):
    """What one of them is faster at is nothing that another one takes, and no share of a time."""
    other = source([["CI", 5]], conv, 5e-4).line.replace(str(TARGET), "llvm -mcpu=other")
    append_line(log, other)
    found = answer(capsys, "info", log)
    assert [(row["target"], row["trials"], row["seconds"]) for row in found["kernels"]] == [
        (str(TARGET), 2, 1e-3),
        ("llvm -mcpu=other", 1, 5e-4),
    ]
    assert found["share_of"] == "operations"
    assert main(["tt", "info", str(log)]) == 0
    text = capsys.readouterr().out
    assert f"class {kernel(conv).kind}: 1 kernel, 100 % of the operations" in text
    assert "  1 x conv, 1x4x8x8x4, 1 trial for llvm -mcpu=other, best 500 us" in text
    assert f"  1 x conv, 1x4x8x8x4, 2 trials for {TARGET}, best 1 ms" in text


def test_info_joins_a_models_kernels_with_those_of_logs(log, tmp_path, monkeypatch, capsys):
    model = [dataclasses.replace(kernel(conv), calls=3)]
    monkeypatch.setattr(logs, "kernels_of_model", lambda *_: model)
    for name in ("net.onnx", "other.onnx"):
        (tmp_path / name).touch()
    [row] = answer(capsys, "info", tmp_path / "net.onnx", log)["kernels"]
    assert (row["calls"], row["trials"], row["seconds"]) == (3, 2, 1e-3)
    [row] = answer(capsys, "info", tmp_path / "net.onnx", tmp_path / "other.onnx")["kernels"]
    assert (row["calls"], row["trials"]) == (6, 0)


@pytest.fixture
def opened(monkeypatch):
    """A model of two kernels, of which a log tells one."""
    net = SimpleNamespace(target=str(TARGET), label="net.onnx")
    model = Model(net, [kernel(conv), kernel(dense)])
    for module in (search, many):
        monkeypatch.setattr(module, "open_net", lambda *_: model)


@pytest.mark.parametrize("is_late", [True, False])
def test_a_search_fails_by_what_is_no_lateness(log, is_late, opened, monkeypatch, capsys):
    log.write_text("\n".join(log.read_text().splitlines()[:2]) + "\n")
    unfinished = {kernel(dense).workload: Unfinished("why", is_late)}
    monkeypatch.setattr(search, "autoschedule", lambda *_, **__: Searched("how", unfinished))
    given = ["autoschedule", "net.onnx", "--log", log, "--search-model", "random"]
    found = answer(capsys, *given, code=int(not is_late))
    assert (found["kernels"], found["searched"], found["ended"]) == (2, 1, "how")
    assert found["late"] == int(is_late)
    assert found["failed"] == ({} if is_late else {kernel(dense).name: "why"})


def test_transfer_tells_why_schedules_did_not_work_and_what_was_not_tried(
    log, tmp_path, opened, monkeypatch, capsys
):
    tried = [Trial(source([]), "invalid", None, "5 does not divide 7")] * 2
    tried += [Trial(source([]), "died", None, "timeout"), Trial(source([]), "adapted", 2e-3)]
    trials = {kernel(conv).workload: tried, kernel(dense).workload: []}
    monkeypatch.setattr(common, "transfer_to", lambda *_, **__: trials)
    given = ["transfer", "net.onnx", "--from", log, "--log", tmp_path / "new"]
    assert main(["tt", *map(str, given)]) == 0
    text = capsys.readouterr().out
    assert "2 schedules did not work: 5 does not divide 7\n" in text
    assert "1 schedule did not work: timeout\n" in text
    assert "1 schedule was not tried: run the same command again" in text
    assert text.endswith(
        "\nnot compared with TVM's own kernels: `collage tt compare`, or the option transfer_log "
        "of a build, does that\n"
    )
    found = answer(capsys, *given)
    assert (found["untried"], found["reasons"]["timeout"]) == (1, 1)


class Meter:
    """Tells these loads, one after the other; 0 where it has begun again since."""

    def __init__(self, loads):
        self._loads, self._is_new = iter(loads), False

    def begin(self):
        self._is_new = True

    def load(self):
        load, is_new = next(self._loads), self._is_new
        self._is_new = False
        return 0.0 if is_new else load


@pytest.mark.parametrize(
    ("loads", "busiest"),
    [((0.9, 0.4, 0.9, 0.2), "40 %"), ((0.9, 0.0, 0.9, 0.2), "20 %"), ((0.9, 0.0, 0.9, 0.0), None)],
    ids=["a kernel", "the end", "none"],
)
@pytest.mark.parametrize("end", [None, KeyboardInterrupt], ids=["finished", "interrupted"])
def test_trials_that_others_may_have_slowed_are_told(loads, busiest, end, monkeypatch, caplog):
    monkeypatch.setattr(common, "LoadMeter", lambda workers: Meter(loads))
    with (
        pytest.raises(end) if end else contextlib.nullcontext(),
        common.making_trials(SimpleNamespace(pids=[]), "quiet") as on_step,
    ):
        on_step("a kernel", 0, 2)
        on_step("another search", 1, 2, is_waiting=True)
        on_step("another kernel", 1, 2)  # what was before is the other search's
        assert not caplog.messages
        if end:
            raise end
    assert len(caplog.messages) == (busiest is not None)
    assert not busiest or f"others took up to {busiest} of the CPUs while" in caplog.messages[0]


def test_a_transfer_that_cannot_be_says_why_and_what_to_do(
    log, tmp_path, opened, monkeypatch, capsys
):
    new = tmp_path / "new"
    given = ["transfer", "net.onnx", "--from", log, "--log", new]
    (tmp_path / "net.onnx").touch()
    of_many = ["many", tmp_path / "net.onnx", "--from", log, "-o", tmp_path / "folder"]
    for command in (given, of_many):
        found = answer(capsys, *command, "--without", "conv", "--without", "dense", code=2)
        assert found["error"] == (
            "--without conv --without dense leaves none of the 2 kernels of net.onnx: give fewer "
            "words, or longer ones"
        )
    # Of the product the log does not tell, so that only a convolution could get a schedule.
    for more in ([], ["--choose"]):
        found = answer(capsys, *given, "--without", "conv", *more, code=1)
        assert f"no schedule in {log} is of a class of the model's kernels" in found["error"]
        assert "name logs of models that are more like it (collage tt info" in found["error"]
    assert not new.exists()


def test_a_transfer_without_a_schedule_has_nothing_to_compare(
    log, tmp_path, opened, monkeypatch, capsys
):
    trials = {kernel(conv).workload: [], kernel(dense).workload: []}
    monkeypatch.setattr(common, "transfer_to", lambda *_, **__: trials)
    given = ["transfer", "net.onnx", "--from", log, "--log", tmp_path / "new"]
    assert main(["tt", *map(str, given)]) == 1
    assert "not compared" not in capsys.readouterr().out


def test_nothing_is_written_into_a_log_of_from(tmp_path, log, monkeypatch, capsys):
    for module in (search, many):
        monkeypatch.delattr(module, "open_net")
    before = log.read_text()
    link = tmp_path / "link.jsonl"
    link.symlink_to(log)
    for own in (log, link):
        found = answer(capsys, "transfer", "net.onnx", "--from", log, "--log", own, code=2)
        assert found["error"] == "--log is one of --from: name another file"
    records = log.rename(tmp_path / "many.jsonl")
    found = answer(capsys, "many", "net.onnx", "--from", records, "-o", tmp_path, code=2)
    assert found["error"] == (
        f"{records}, the results of --output, is one of --from: name another folder"
    )
    assert records.read_text() == before


def test_split_makes_a_log_a_class(log, tmp_path, capsys):
    kind = kernel(conv).kind
    assert answer(capsys, "split", log, "-o", tmp_path / "parts") == {kind: 2, "unknown": 1}
    assert len(read_ansor(tmp_path / "parts" / f"{kind}.jsonl")) == 2
    assert "# kernel" in (tmp_path / "parts" / f"{kind}.jsonl").read_text()
    found = answer(capsys, "split", log, "-o", tmp_path / "parts", code=2)
    assert "exists already" in found["error"]


def test_user_errors_name_the_file_and_what_to_do(tmp_path, log, capsys):
    (tmp_path / "no.onnx").write_text("no model")
    for arguments, words in [
        (["distil", tmp_path / "absent", "-o", tmp_path / "out"], "absent: No such file"),
        (["info", tmp_path / "no.onnx"], "no.onnx cannot be read as an ONNX model"),
        (["info", tmp_path / "gone.onnx"], "gone.onnx cannot be read"),
        (["info", net(tmp_path / "open.onnx", 0, (1, 16, "h", "w"))], "--shape x="),
    ]:
        assert words in answer(capsys, *arguments, code=1)["error"]
    found = answer(capsys, "distil", log, "-o", log, code=2)
    assert "exists already: name another" in found["error"]


def test_files_are_looked_at_before_any_work(tmp_path, log, monkeypatch, capsys):
    def work(*_):
        raise AssertionError("it takes a minute to find a model's kernels")

    for module in (search, compare, many):
        monkeypatch.setattr(module, "open_net", work)
    for module in (search, logs):
        monkeypatch.setattr(module, "kernels_of_model", work)
    made = net(tmp_path / "net.onnx", 6)
    gone, new = tmp_path / "gone", ["--log", tmp_path / "new", "--search-model", "random"]
    library, autotvm = tmp_path / "net.so", tmp_path / "autotvm.jsonl"
    moved, empty = tmp_path / "moved.jsonl", tmp_path / "empty.jsonl"
    append_line(moved, source([], conv).line)
    note_trial(moved, "a", {"outcome": "adapted", "seconds": 1.0, "reason": "", "took": 1.0})
    empty.touch()
    library.write_bytes(b"\x7fELF\x02\xff")
    autotvm.write_text("\n".join(some_lines("autotvm", conv(), 1)) + "\n")
    of_another = "autotvm.jsonl: all its trials are of autotvm, and only those of ansor"
    no_trials = "empty.jsonl has no trials: name a log of `collage tt autoschedule`"
    no_transfer = ".jsonl has no trials of a transfer: name what `collage tt transfer` wrote"
    of_transfer = "moved.jsonl has trials of a transfer: name what `collage tt autoschedule` wrote"

    def given_for_schedules(path):
        yield ["transfer", made, "--from", log, path, "--log", new[1]]
        yield ["choose", made, "--from", path]
        yield ["many", made, "--from", path, "-o", tmp_path / "out"]
        yield ["autoschedule", made, *new, "--match", path]
        yield ["compare", made, "--transferred", moved, "--ansor", path]
        yield ["info", made, path]
        yield ["distil", log, path, "-o", tmp_path / "out"]
        yield ["split", path, "-o", tmp_path / "out"]

    for arguments, words in [
        (["transfer", made, "--from", log, gone, "--log", new[1]], "gone: No such file"),
        (["transfer", made, "--from", log, "--log", library], "it seems to be a library"),
        (["choose", made, "--from", library], "it seems to be a library"),
        (["many", made, "--from", gone, "-o", tmp_path / "out"], "gone: No such file"),
        (["many", made, gone, "--from", log, "-o", tmp_path / "out"], "gone cannot be read"),
        (["autoschedule", made, *new, "--match", gone], "gone: No such file"),
        (["autoschedule", made, *new, "--same-time", library], "it seems to be a library"),
        (["compare", made, "--transferred", gone, "--ansor", log], "gone: No such file"),
        (["compare", made, "--transferred", moved, "--ansor", gone], "gone: No such file"),
        (["info", made, library], "it seems to be a library; it should be a log of Ansor's, such"),
        (["info", made, library], "; a model is named by its ONNX file (*.onnx)"),
        (["info", made, tmp_path / "gone.onnx"], "gone.onnx cannot be read"),
        (["split", library, "-o", tmp_path / "out"], "it seems to be a library"),
        *((arguments, of_another) for arguments in given_for_schedules(autotvm)),
        *((arguments, no_trials) for arguments in given_for_schedules(empty)),
        (["compare", made, "--transferred", empty, "--ansor", log], f"empty{no_transfer}"),
        (["compare", made, "--transferred", log, "--ansor", moved], f"ansor{no_transfer}"),
        (["compare", made, "--transferred", autotvm, "--ansor", log], f"autotvm{no_transfer}"),
        (["autoschedule", made, *new, "--same-time", autotvm], f"autotvm{no_transfer}"),
        (["autoschedule", made, *new, "--same-time", log], f"ansor{no_transfer}"),
        (["compare", made, "--transferred", moved, "--ansor", moved], of_transfer),
    ]:
        assert words in answer(capsys, *arguments, code=1)["error"]
    assert not (tmp_path / "out").exists()


def why_no_model(path):
    with pytest.raises(ModelError) as caught:
        onnx_module(path, {})
    text = str(caught.value)
    assert text.startswith(f"{path} ") and "\n" not in text
    return text.removeprefix(f"{path} ")


def test_what_is_no_onnx_file_is_told_with_one_advice_for_each_cause(tmp_path, monkeypatch):
    cannot = "cannot be read as an ONNX model: "
    (tmp_path / "net.tflite").write_bytes(b"\xff\x00TFL3")
    text = why_no_model(tmp_path / "net.tflite")
    assert text == f"{cannot}it seems to be a TFLite model; name an ONNX file"
    (tmp_path / "cut.onnx").write_bytes(b"\xff\x00nothing")
    text = why_no_model(tmp_path / "cut.onnx")
    assert text.startswith(f"{cannot}it is cut off or damaged (")
    assert text.endswith("); copy or export it again")
    monkeypatch.setattr(os, "access", lambda *_: False)
    text = why_no_model(tmp_path / "cut.onnx")
    assert text == "cannot be read: it may not be read; name an ONNX file"


def test_what_no_converter_could_read_is_told_with_the_file(tmp_path, monkeypatch):
    def fail(*_):
        raise KeyError("ghost")

    path = write_net(tmp_path / "net.onnx")
    monkeypatch.setattr(onnx_file, "from_onnx", fail)
    with pytest.raises(ModelError) as caught:
        onnx_module(path, {})
    why = "TVM cannot import the model: 'ghost' is not known; export it again, or name another"
    assert str(caught.value) == f"{path}: {why}"


def test_weights_in_files_beside_a_model_are_needed(tmp_path):
    path, weights = write_net(tmp_path / "net.onnx"), tmp_path / "weights"
    onnx.save(
        onnx.load(path), path, save_as_external_data=True, location="weights", size_threshold=0
    )
    assert onnx_module(path, {})["main"].params
    weights.unlink()
    text = why_no_model(path)
    assert text.startswith("keeps weights in files beside it, and these cannot be read (")
    assert text.endswith("); copy them into its folder, or export it again")


def test_a_search_without_its_cost_model_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = answer(capsys, "autoschedule", "net.onnx", "--log", tmp_path / "log", code=2)
    assert "pip install 'tvm-collage[tune]', or --search-model random" in found["error"]
