# SPDX-License-Identifier: Apache-2.0
"""`tvmc compile --collage`, end to end, and stock tvmc without the flag."""

import contextlib
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import onnx_nets
import pytest
import tflite_nets
import tuning_nets
import tvm
from option_values import changed
from tvm.driver import tvmc
from tvm.driver.tvmc import compiler as tvmc_compiler
from tvm.driver.tvmc.main import _main
from tvm.driver.tvmc.pass_config import parse_configs
from tvm.relay import collage
from tvm.relay.collage import importer
from tvm.relay.collage.options import option_table
from tvm.relay.collage.tvmc import compiler as collage_compiler
from tvm_collage.cli import main as collage_command
from tvm_collage.words import Effort
from tvm_collage_hook import end_on_interrupt, is_tvmc_with_collage

SHAPES = ["--input-shapes", "x:[1,8,12,12]"]
QUICK = [
    "--collage-measure-seconds=0.01",
    "--collage-guard-rounds=8",
    "--collage-guard-seconds=0.1",
    "--collage-workers=1",
    "--collage-progress=quiet",
]
HOST = "llvm -mcpu=x86-64-v2"


def write_relay(path, mod):
    path.write_text(tvm.relay.transform.InferType()(mod).astext())
    return str(path)


def call(*arguments):
    """Run tvmc in this process: exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = _main([str(each) for each in arguments])
        except SystemExit as end:
            code = end.code
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A convolution and a running sum in Relay's text: oneDNN's and TVM's work."""
    weight = np.random.default_rng(0).standard_normal((8, 8, 3, 3)).astype("float32")
    x = tvm.relay.var("x", shape=(1, 8, 12, 12))
    y = tvm.relay.const(weight)
    y = tvm.relay.nn.conv2d(x, y, padding=(1, 1), channels=8, kernel_size=(3, 3))
    y = tvm.relay.cumsum(tvm.relay.nn.relu(y), axis=1)
    mod = tvm.IRModule.from_expr(tvm.relay.Function([x], y))
    return write_relay(tmp_path_factory.mktemp("tvmc") / "net.relay", mod)


@pytest.fixture(scope="module")
def built(model, tmp_path_factory):
    """What one real search and build printed and wrote."""
    folder = tmp_path_factory.mktemp("built")
    done = call(
        *("compile", "--collage", model, *SHAPES, *QUICK, "-o", folder / "net.tar"),
        *("--target", f"dnnl -winograd=never, {HOST}", "--dump-code", "asm,relay"),
        *("--collage-report", folder / "report.json"),
        *("--collage-save-placement", folder / "placement.json"),
    )
    assert done.code == 0, done.err
    return SimpleNamespace(folder=folder, out=done.out, tar=str(folder / "net.tar"))


@pytest.fixture
def stopped(monkeypatch):
    """The --target and the options that tvmc's compile_model would get of a command line; nothing
    is compiled."""

    def run(*arguments):
        seen = []

        def stop(_, target, **__):
            seen.append((target, parse_configs([])))
            raise collage.CollageError("enough")

        monkeypatch.setattr(tvmc_compiler, "compile_model", stop)
        done = call(*arguments)
        assert (done.code, done.err) == (4, "Error: enough\n")
        return seen[0]

    return run


def test_the_terminal_has_a_short_report(built):
    lines = built.out.splitlines()
    assert all(line.startswith("collage: ") for line in lines)
    report = json.loads((built.folder / "report.json").read_text())
    plan = report["plan"]
    assert re.match(rf"collage: plan {plan}, \S+ [nm]?u?s (\(.*\) )?\[.* x the best", lines[0])
    names = [row["name"] for row in report["plans"] if row["is_single_backend"]]
    assert {"tvm", "dnnl"} <= set(names)
    alone = [re.match(r"collage: (\S+) alone, .* x the best backend", line) for line in lines]
    assert [found[1] for found in alone if found] == [each for each in names if each != plan]
    assert "operator" in lines[-2]
    for name in ("net.tar", "report.json", "placement.json"):
        assert str(built.folder / name) in lines[-1]


def test_the_package_carries_the_report(built, capsys):
    report = json.loads((built.folder / "report.json").read_text())
    assert collage.load(built.tar).report == report
    for command in ("report", "explain"):
        assert collage_command([command, built.tar]) == 0
        assert f"Plan {report['plan']} ships" in capsys.readouterr().out


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("nan")])
def test_a_report_that_cannot_be_added_is_one_line(
    built, model, tmp_path, monkeypatch, caplog, error
):
    def fail(*_):
        raise error

    monkeypatch.setattr(collage_compiler, "add_report", fail)
    done = call(
        *("compile", "--collage", model, *SHAPES, "--target", f"dnnl -winograd=never, {HOST}"),
        *("--collage-placement", built.folder / "placement.json", "-o", tmp_path / "net.tar"),
    )
    assert done.code == 0 and (tmp_path / "net.tar").exists(), done.err
    [told] = [each.getMessage() for each in caplog.records if each.name == "TVMC"]
    assert told.endswith(f"net.tar carries no report, which could not be added: {error}")


def test_stock_tvmc_runs_the_library(built, model, tmp_path):
    x = np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype("float32")
    np.savez(tmp_path / "in.npz", x=x)
    call("run", built.tar, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    mod = tvm.relay.fromtext(Path(model).read_text())
    expected = tvm.relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()(x).numpy()
    found = np.load(tmp_path / "out.npz")["output_0"]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_array_equal(collage.load_runner(built.tar)(x=x)[0], found)


def test_dumps_are_of_the_whole_library_though_constants_have_no_source(built):
    assert ".text" in (built.folder / "net.tar.asm").read_text()
    assert "nn.conv2d" in (built.folder / "net.tar.relay").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        "--collage --collage-placement {}",
        "--pass-config relay.collage.enable_collage=1 --pass-config relay.collage.placement={} "
        "--pass-config relay.collage.guard=false",
    ],
)
def test_a_placement_is_used_again_without_measuring(built, model, monkeypatch, arguments):
    arguments = arguments.format(built.folder / "placement.json").split()
    monkeypatch.setattr("tvm.relay.collage.optimizer.open_session", pytest.fail)
    monkeypatch.setattr("tvm.relay.collage.plans.whole_plans.guard", pytest.fail)
    target = ["--target", f"{HOST}, dnnl -winograd=never"]
    output = built.folder / "again.tar"
    done = call("compile", model, *SHAPES, *target, "-o", output, *arguments)
    assert done.code == 0, done.err
    report = json.loads((built.folder / "report.json").read_text())
    assert f"collage: plan {report['plan']}\n" in done.out
    with tarfile.open(output) as again, tarfile.open(built.tar) as first:
        names = ["mod.so", "mod.json", "mod.params", "collage_report.json.gz"]
        assert again.getnames() == first.getnames() == names
        assert again.extractfile("mod.json").read() == first.extractfile("mod.json").read()


def test_a_program_compiles_for_the_vm(built, model, tmp_path):
    loaded = tvmc.load(model, shape_dict={"x": [1, 8, 12, 12]})
    configs = ["enable_collage=1", f"placement={built.folder}/placement.json"]
    package = tvmc.compile(
        loaded,
        f"dnnl -winograd=never, {HOST}",
        use_vm=True,
        package_path=str(tmp_path / "vm.tar"),
        pass_context_configs=[f"relay.collage.{text}" for text in configs],
    )
    x = np.ones((1, 8, 12, 12), "float32")
    outputs = tvmc.run(package, device="cpu", inputs={"x": x}).outputs
    assert package.collage.plan and [value.shape for value in outputs.values()] == [x.shape]


def test_every_option_goes_through_pass_config_and_through_its_flag(model, monkeypatch, stopped):
    wanted = {
        f"relay.collage.{row.name}": changed(row.name, row.default)
        for row in option_table()
        if row.name != "enable_collage"
    }
    texts = {
        key: ",".join(value) if isinstance(value, list) else str(value)
        for key, value in wanted.items()
    }
    assert parse_configs([f"{key}={text}" for key, text in texts.items()]) == wanted
    monkeypatch.setattr("tvm.relay.collage.tvmc.compiler.check_file_path", lambda *_: None)
    flags = []
    for key, value in wanted.items():
        flag = "--collage-" + key.rpartition(".")[2].replace("_", "-")
        if isinstance(value, bool):
            flags.append(flag if value else "--no-" + flag[2:])
        else:
            flags += [flag, texts[key]]
    given = ("compile", "--collage", "--target", "llvm", model, *SHAPES, *flags)
    assert stopped(*given) == ("llvm", wanted)


@pytest.mark.parametrize("effort", Effort)
def test_each_effort_is_read_from_its_flag_and_from_pass_config(model, stopped, effort):
    wanted = {"relay.collage.effort": effort.value}
    assert parse_configs([f"relay.collage.effort={effort.value}"]) == wanted
    compile = ("compile", "--collage", "--target", "llvm", model, *SHAPES)
    _, options = stopped(*compile, "--collage-effort", effort.value)
    assert wanted.items() <= options.items()


def test_lists_are_joined_and_stocks_own_configs_are_read_beside_ours():
    found = parse_configs(
        [
            "relay.collage.placement_allow=weights, version",
            "relay.FuseOps.max_depth=3",
            "relay.collage.placement_allow=target",
            "relay.collage.store=/a=b",
        ]
    )
    assert found == {
        "relay.collage.placement_allow": ["weights", "version", "target"],
        "relay.FuseOps.max_depth": 3,
        "relay.collage.store": "/a=b",
    }


def test_a_config_file_has_defaults_of_ours(model, tmp_path, stopped):
    values = {"collage": True, "collage-guard": False, "collage-tune": 3, "collage-verify": "all"}
    config = {"targets": [{"kind": "llvm"}], **values, "collage-tuning-log": "a.log,b.log"}
    (tmp_path / "my.json").write_text(json.dumps(config))
    given = ("compile", model, *SHAPES, "--target", "llvm", "--collage-verify", "none")
    target, seen = stopped("--config", tmp_path / "my.json", *given)
    wanted = {"guard": False, "tune": 3, "verify": "none", "tuning_log": ["a.log", "b.log"]}
    wanted["original"] = ""
    assert target == "llvm"
    assert seen == {f"relay.collage.{name}": each for name, each in wanted.items()}


def test_defaults_are_this_cpu_and_every_backend_that_can_run(stopped, model):
    host, *backends = collage.available_targets()
    found, _ = stopped("compile", "--collage", model, *SHAPES)
    assert sorted(found.split(", ")) == sorted([str(host), *(b.kind.name for b in backends)])
    assert "dnnl" in found


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (["llvm"], "llvm"),  # which is no default though it reads alike
        (
            [f"cblas, {HOST}, dnnl", "--target-dnnl-winograd", "never"],
            f"cblas, dnnl -winograd=never, {HOST}",
        ),
    ],
)
def test_a_target_is_the_given_one_with_attributes_by_flag(stopped, model, given, target):
    assert stopped("compile", "--collage", model, *SHAPES, "--target", *given)[0] == target


def test_warnings_are_on_standard_error(model, monkeypatch, tmp_path):
    def warn(*_, **__):
        logging.getLogger("tvm.relay.collage").warning("the machine was busy")
        raise collage.CollageError("enough")

    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a new process
    monkeypatch.setattr(tvmc_compiler, "compile_model", warn)
    done = call("compile", "--collage", "--target", HOST, model, *SHAPES, "-o", tmp_path / "n.tar")
    line = "WARNING:tvm.relay.collage:the machine was busy\n"
    assert (done.out, done.err) == ("", f"{line}Error: enough\n")


@pytest.mark.parametrize("kind", ["autotvm", "ansor"])
def test_tuning_records_are_used(kind, tmp_path):
    mod = tuning_nets.dense()
    log = tmp_path / "log.json"
    log.write_text("".join(f"{line}\n" for line in tuning_nets.some_lines(kind, mod)))
    placement = tmp_path / "placement.json"
    done = call(
        *("compile", "--collage", write_relay(tmp_path / "net.relay", mod)),
        *("--input-shapes", "x:[4,32]", "--target", str(tuning_nets.TARGET)),
        *("--tuning-records", log, "-o", tmp_path / "net.tar"),
        *("--collage-save-placement", placement),
    )
    assert done.code == 0, done.err
    found = collage.load_placement(placement).made_with.tuning
    assert found.kinds == (kind,) and found.records


def test_onnx_and_tflite_files(tmp_path):
    onnx_file = str(tmp_path / "net.onnx")
    onnx.save(onnx_nets.conv_net(), onnx_file)
    tflite_file = tmp_path / "net.tflite"
    tflite_file.write_bytes(tflite_nets.conv_net()[0])
    for file in (onnx_file, tflite_file):
        done = call("compile", "--collage", file, "--target", HOST, "-o", tmp_path / "net.tar")
        assert done.code == 0, done.err
        assert "collage: runs on tvm: " in done.out


def test_only_with_the_flag_is_an_import_the_quick_one(tmp_path, monkeypatch, stopped):
    file = str(tmp_path / "net.onnx")
    onnx.save(onnx_nets.conv_net(), file)
    opened, quick_import = [], importer.quick_import

    def opening():
        opened.append(True)
        return quick_import()

    monkeypatch.setattr("tvm.relay.collage.importer.quick_import", opening)
    with pytest.raises(collage.CollageError, match="enough"):  # of no Collage's command
        stopped("compile", file, "--target", "llvm")
    assert not opened
    stopped("compile", "--collage", file, "--target", "llvm", "-o", tmp_path / "net.tar")
    assert opened == [True]


def test_torchscript_files(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not among the requirements")
    module = torch.jit.trace(torch.nn.Conv2d(3, 4, 3).eval(), torch.ones(1, 3, 8, 8))
    module.save(str(tmp_path / "net.pth"))
    done = call(
        *("compile", "--collage", tmp_path / "net.pth", "--input-shapes", "x:[1,3,8,8]"),
        *("--target", HOST, "-o", tmp_path / "net.tar"),
    )
    assert done.code == 0, done.err


ERRORS = {
    "--collage --collage-effort slow": (
        "--collage-effort takes one of quick, normal, exhaustive, got 'slow'"
    ),
    "--collage --collage-workers -1": "--collage-workers takes an int from 0 to 1024, got -1",
    "--collage --collage-workers few": "--collage-workers takes an int from 0 to 1024, got 'few'",
    "--collage --collage-verify no": "--collage-verify takes one of all, external, none, got 'no'",
    "--collage-workers 2": "Passed --collage-workers but did not specify --collage",
    "--target-dnnl-winograd never": "Passed --target-dnnl-winograd but did not specify --collage",
    "--collage --target llvm --target-dnnl-winograd never": (
        "Passed --target-dnnl-winograd but did not specify dnnl target"
    ),
    "--collage --target dnl,llvm": (
        "unknown backend or target kind 'dnl', did you mean dnnl?: registered backends are"
    ),
    "--collage --target broken,llvm": "backend 'broken' is not available: its library is missing",
    "--collage --target dnnl~-winograd=no,~llvm": (
        "--target: backend dnnl: option winograd is one of auto, always, never, got 'no'"
    ),
    "--collage --target dnnl~-wino=no,~llvm": "Cannot recognize 'wino'. Candidates are: winograd",
    "--collage --target dnnl,llvm~-mcup=no": "Cannot recognize 'mcup'",
    "--collage --target dnnl,llvm~-mcpu=no": "the host target has -mcpu=no, which is no CPU of",
    "--collage --target dnnl,llvm --executor aot": "--executor aot: TVM 0.19's tvmc packages",
    "--collage --target dnnl,llvm --runtime crt": "the crt runtime cannot call parts of external",
    "--collage --target llvm --collage-placement nowhere.json": (
        "placement file 'nowhere.json' cannot be read: No such file"
    ),
    "--collage --target llvm --tuning-records nowhere.log": "tuning log nowhere.log: No such file",
    "--collage --target llvm -o /no/such/net.tar": "--output: '/no/such/net.tar' cannot be written",
    "--collage --target llvm --collage-report /no/such/r": "'/no/such/r' cannot be written: there",
    "--collage --target llvm --collage-save-placement /no/such/p": (
        "--collage-save-placement: '/no/such/p' cannot be written"
    ),
    "--collage --target llvm --dump-offloads -": "what Collage places where is in --collage-report",
    "--pass-config relay.collage.workers=few": "takes an int from 0 to 1024, got 'few'",
    "--pass-config relay.collage.guard=maybe": "relay.collage.guard takes a bool, got 'maybe'",
}


@pytest.fixture
def broken():
    from tvm.relay.collage.backends import registry

    class Broken(collage.Backend):
        name = "broken"

        def available(self):
            return "its library is missing"

    yield registry.register_backend(Broken())
    registry.REGISTERED.pop("broken")


@pytest.mark.parametrize("arguments", ERRORS)
def test_what_a_user_got_wrong_is_one_line(arguments, broken, model, tmp_path):
    words = [word.replace("~", " ") for word in arguments.split()]
    if "-o" not in words:
        words += ["-o", str(tmp_path / "net.tar")]
    done = call("compile", model, *SHAPES, *words)
    assert (done.code, done.out) == (4, "")
    assert ERRORS[arguments] in done.err
    assert done.err.startswith("Error: ") and done.err.count("\n") == 1


def test_no_compiler_is_one_line_before_anything_is_imported(model, monkeypatch, tmp_path):
    for name in ("CXX", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tvm.driver.tvmc.frontends.load_model", pytest.fail)
    done = call("compile", "--collage", "--target", "dnnl, llvm", model, *SHAPES)
    assert done.code == 4
    assert re.fullmatch(r"Error: no C\+\+ compiler, which .* Install g\+\+ .*\n", done.err)


def test_a_file_that_is_no_model_is_one_line(tmp_path):
    (tmp_path / "bad.onnx").write_text("no model")
    done = call("compile", "--collage", "--target", "llvm", tmp_path / "bad.onnx")
    assert done.code == 4
    assert re.fullmatch(r"Error: '.*bad.onnx' cannot be imported: DecodeError: .*\n", done.err)


def test_open_dimensions_are_one_line_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("tvm.relay.build", pytest.fail)
    file = tmp_path / "net.onnx"
    onnx.save(onnx_nets.conv_net("batch"), str(file))
    done = call("compile", "--collage", "--target", HOST, file)
    assert (done.code, done.err) == (
        4,
        "Error: inputs have open dimensions (x [?, 3, 16, 16]): fix them by "
        '--input-shapes "x:[1,3,16,16]"; the graph executor takes fixed shapes alone\n',
    )


def test_ctrl_c_is_one_line_and_leaves_tvmc_as_it_was(model, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(tvmc_compiler, "compile_model", interrupt)
    done = call("compile", "--collage", "--target", "dnnl, llvm", model, *SHAPES)
    assert (done.code, done.err) == (130, "tvmc: interrupted\n")
    with pytest.raises(tvmc.TVMCException, match="Composite target dnnl"):
        tvmc.composite_target.get_codegen_by_target(
            tvmc.target.target_from_cli("dnnl, llvm")[1][0]["name"]
        )


INTERRUPT = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"


@pytest.mark.parametrize("imported", ["numpy", "onnx"])
def test_ctrl_c_is_one_line_while_modules_and_the_model_are_imported(imported, tmp_path):
    """TVM imports numpy at its start, tvmc onnx when it reads such a model."""
    (tmp_path / f"{imported}.py").write_text(INTERRUPT)
    (tmp_path / "net.onnx").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "tvm.driver.tvmc", "compile", "--collage", tmp_path / "net.onnx"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tvmc: interrupted\n")


def test_while_it_compiles_ctrl_c_is_an_exception_again(model, monkeypatch):
    """Which closes workers and temporary folders; before and after nothing is there to close."""
    command = [sys.executable, "/bin/tvmc", "compile", "--collage"]
    monkeypatch.setattr(sys, "orig_argv", command)
    before = signal.signal(signal.SIGINT, end_on_interrupt)
    seen = []

    def build(*_, **__):
        seen.append(signal.getsignal(signal.SIGINT))
        raise KeyboardInterrupt

    monkeypatch.setattr("tvm.relay.build", build)
    try:
        done = call("compile", "--collage", "--target", HOST, model, *SHAPES)
        after = signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.code, done.err) == (130, "tvmc: interrupted\n")
    assert (seen, after) == ([signal.default_int_handler], end_on_interrupt)


@pytest.mark.parametrize(
    "words, is_ours",
    [
        ("python /usr/bin/tvmc compile --collage net.onnx", True),
        ("python -m tvm.driver.tvmc -v compile --collage-guard net.onnx", True),
        ("tvmc compile --pass-config relay.collage.enable_collage=1 net.onnx", True),
        ("tvmc compile net.onnx", False),
        ("tvmc run --collage", False),
        ("python my.py compile --collage tvmc", False),
    ],
)
def test_whose_ctrl_c_it_is(words, is_ours):
    assert is_tvmc_with_collage(words.split()) == is_ours


def stock_and_ours(code):
    """What a Python program prints in stock TVM and with ours, as JSON."""
    found = []
    for disabled in ("1", "0"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "COLLAGE_DISABLE": disabled, "COLUMNS": "80"},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found


HELPS = """
import contextlib, io, json, sys
import tvm
before = "tvm.driver.tvmc" in sys.modules or "tvm.relay.collage.tvmc" in sys.modules
from tvm.driver.tvmc.main import _main

def said(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = _main(list(words))
        except SystemExit as end:
            code = end.code
    return [code, out.getvalue()]

helps = [said(*words.split(), "--help") for words in ("", "compile", "run", "tune")]
compile = ("compile", %(model)r, "--input-shapes", "x:[1,8,12,12]", "--target")
targets = ("dnnl,llvm", "llvm,dnnl", "dnnl", "dnnl -winograd=never, llvm", "none", "llvm, llvm")
errors = [said(*compile, target) for target in targets]
print(json.dumps([before, helps, errors]))
"""


def test_without_the_flag_it_is_stock_but_for_the_group(model):
    stock, ours = stock_and_ours(HELPS % {"model": model})
    assert not ours[0]
    (_, [code, text]), (_, [our_code, our_text]) = stock[1][:2], ours[1][:2]
    assert (code, stock[1][0], stock[1][2:]) == (our_code, ours[1][0], ours[1][2:])
    usage, group = re.split(r"(?=^\s+\[--collage\])", our_text, maxsplit=1, flags=re.MULTILINE)
    in_usage, rest = re.split(r"(?=^\s+FILE$)", group, maxsplit=1, flags=re.MULTILINE)
    rest, group = re.split(r"^\ncollage:$", rest, maxsplit=1, flags=re.MULTILINE)
    assert usage + rest == text
    for row in option_table():
        if row.name != "enable_collage":
            assert (
                f"--collage-{row.name.replace('_', '-')}" in in_usage
                and row.name in group.replace("-", "_")
            )
    assert "--collage" in group and "--target-dnnl-winograd" in group

    assert stock[2] == ours[2]
    assert [code for code, _ in ours[2]] == [4] * 6
    assert all(text.startswith("Error: ") and text.count("\n") == 1 for _, text in ours[2])


def test_stock_compiles_what_it_always_did(model, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "tvm.relay.collage"):
        done = call("compile", model, *SHAPES, "-o", tmp_path / "net.tar")
    # TVM says once a process that nothing is tuned.
    ours = [record for record in caplog.records if record.name.startswith("tvm.relay.collage")]
    assert (done.code, done.out, done.err, ours) == (0, "", "", [])
