# SPDX-License-Identifier: Apache-2.0
"""Everything that Collage changes in TVM, one row a change.

Nothing else in the package writes to a module, a class or a registry of TVM: `apply` alone does,
for a row of this table. Forms that a pass of TVM treats badly are rewritten before it instead
(rewrites/table.py). Test: tvm_fixes/test_table.py.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Scope(enum.Enum):
    """Time during which a row holds."""

    PROCESS = "from the import of TVM on"
    TVMC = "once tvm.driver.tvmc is imported"
    BUILD = "while something is built by `fast_passes`"
    RECORDS = "in a context with tuning records"
    SEARCH = "in a worker that searches schedules"
    IMPORT = "while an ONNX model is imported"
    CHECK = "while errors of TVM are collected"


class Fix(NamedTuple):
    """A row: what of TVM is other, why, when, by what, and where that is tested."""

    # "module:attribute", "global:function", "attribute:of operators", "logger:name",
    # "pass:name" for a pass before, behind or instead of which `fast_passes` does something,
    # "converter:operator" for nodes of ONNX that are changed before TVM converts them,
    # "field:", "input:" and "result:" for objects of TVM that are changed where they are used.
    places: tuple[str, ...]
    why: str
    scope: Scope
    by: str  # the file of this package that applies the row
    test: str


_BUILD_MODULE, _VM = "tvm.relay.build_module", "tvm.relay.backend.vm"
_TE_COMPILER = "tvm.relay.backend.te_compiler"
_COMMON, _ONNX = "tvm.relay.frontend.common", "tvm.relay.frontend.onnx"
_X86 = "tvm.topi.x86"
_DOT = "dot_16x1x16_uint8_int8_int32"
_TVMC = "tvm.driver.tvmc"
_TARGET = "tvm.target.target"

_ON_PROCESS = {
    "builds": Fix((f"{_BUILD_MODULE}:build", f"{_BUILD_MODULE}:create_executor", f"{_VM}:compile"),
        "no defect: the option enable_collage is looked at here",
        Scope.PROCESS, "integration.py", "test_integration.py"),
    "unknown options": Fix(("tvm.ir.transform:PassContext.__init__",),
        "of a key that is nearly an option of ours it lists all options that there are",
        Scope.PROCESS, "integration.py", "test_integration.py"),
    "prototype": Fix(("tvm.relay.transform._ffi_api:CollagePartition",),
        "it was bound before our library had the function",
        Scope.PROCESS, "integration.py", "test_collage_partition.py"),
    "predicates": Fix(("attribute:target.<backend>",),
        "no defect: AnnotateTarget asks TVM's predicates, and is to ask ours",
        Scope.PROCESS, "backends/registry.py", "backends/dnnl/test_stock.py"),
    "layout queries": Fix(("global:relay.ir.get_optimal_layout_for_conv",
         "global:relay.ir.get_optimal_layout_for_conv_transpose",
         "tvm.relay._ffi_api:get_optimal_layout_for_conv",
         "tvm.relay._ffi_api:get_optimal_layout_for_conv_transpose"),
        "they are only in a TVM that is built with oneDNN",
        Scope.PROCESS, "backends/stock.py", "backends/dnnl/test_stock.py"),
    "shape functions": Fix(("attribute:FShapeFunc",),
        "elementwise operators such as cos have none, so the VM cannot run them on open shapes",
        Scope.PROCESS, "tvm_fixes/shape_functions.py", "tvm_fixes/test_shape_functions.py"),
}  # fmt: skip
_ON_TVMC = {
    "tvmc targets": Fix(
        tuple(f"{_TVMC}.target:{name}" for name in (
            "generate_target_args", "reconstruct_target_args", "parse_target", "validate_targets",
            "target_from_cli")),
        "it knows external kinds as composite targets alone, and wants TVM's own last",
        Scope.TVMC, "tvmc/targets.py", "tvmc/test_targets.py"),
    "target kinds": Fix((f"{_TARGET}:Target.list_kinds", f"{_TARGET}:TargetKind.options_from_name"),
        "no defect: the help of stock tvmc is not to list our kinds and options",
        Scope.TVMC, "tvmc/targets.py", "tvmc/test_targets.py"),
    "tvmc options": Fix((f"{_TVMC}.pass_config:parse_configs",),
        "it takes no bool, int, float or list of options that are not TVM's own",
        Scope.TVMC, "tvmc/compilation.py", "tvmc/test_tvmc.py"),
    "tvmc import": Fix((f"{_TVMC}.frontends:load_model",),
        "a model that cannot be imported is a trace of many lines",
        Scope.TVMC, "tvmc/compilation.py", "tvmc/test_tvmc.py"),
    "tvmc compile": Fix(
        tuple(f"{_TVMC}.compiler:{name}" for name in (
            "add_compile_parser", "drive_compile", "compile_model", "build")),
        "no defect: --collage is done here",
        Scope.TVMC, "tvmc/compiler.py", "tvmc/test_tvmc.py"),
    "tvmc parsers": Fix((f"{_TVMC}.main:REGISTERED_PARSER",),
        "no defect: it holds the maker of the parser that 'tvmc compile' replaces",
        Scope.TVMC, "tvmc/compiler.py", "tvmc/test_tvmc.py"),
}  # fmt: skip
_ON_BUILD = {
    "build info": Fix((f"{_TE_COMPILER}:libinfo",),
        "the whole table of how TVM was compiled, a hundred calls over the FFI, is asked for at "
        "every dimension of every kernel's output; the table is fixed",
        Scope.BUILD, "compile/fast_passes.py", "compile/test_library.py"),
    "advice to tune": Fix(("logger:autotvm",),
        "once a process it says that kernels were not tuned, also where Collage has tuned them",
        Scope.BUILD, "compile/library.py", "compile/test_library.py"),
    "exact bytes": Fix(
        tuple(f"{_X86}.{name}:{_DOT}" for name in ("conv2d_avx_1x1", "conv2d_avx_common", "dense")),
        "without VNNI products of bytes are added in 16 bits, which overflow",
        Scope.BUILD, "tvm_fixes/exact_bytes.py", "tvm_fixes/test_exact_bytes.py"),
    "matmul": Fix(("tvm.topi.nn:matmul", "tvm.topi.nn.dense:matmul"),
        "the digits of its axes' names are read as lengths where Ansor lays a weight out anew",
        Scope.BUILD, "tvm_fixes/ansor.py", "tvm_fixes/test_ansor.py"),
    "batch_matmul": Fix(("tvm.topi.nn:batch_matmul",),
        "where Ansor lays out the weight of a batch of one: 'The indices must be expression'",
        Scope.BUILD, "tvm_fixes/ansor.py", "tvm_fixes/test_ansor.py"),
    "keys of Ansor's kernels": Fix(("tvm.auto_scheduler._ffi_api:ComputeDAGPrintDAG",),
        "no defect: a key is a hash of names that 'matmul' changes, and stays TVM's own",
        Scope.BUILD, "tvm_fixes/ansor.py", "tvm_fixes/test_ansor.py"),
    "tracing": Fix(("tvm.auto_scheduler.relay_integration:TracingEnvironment.current",),
        "one place of the process, where another thread's build finds it and gets default "
        "schedules; it stays there after an error",
        Scope.BUILD, "tvm_fixes/ansor.py", "tvm_fixes/test_ansor.py"),
    "products without a record": Fix((f"{_TE_COMPILER}:select_implementation",),
        "where Ansor's records are used, products that none is for get loops nobody scheduled",
        Scope.BUILD, "tvm_fixes/ansor.py", "tvm_fixes/test_unserved_products.py"),
    "instruments": Fix(("field:PassContext.instruments",),
        "leaving a context in another ends the work of the other's instruments, so ours join it",
        Scope.BUILD, "compile/fast_passes.py", "compile/test_library.py"),
    "external functions": Fix(("input:relay.build",),
        "the graph executor skips one that is not to be inlined, without a word; AOT refuses it",
        Scope.BUILD, "compile/library.py", "compile/test_library.py"),
    "features for 8 bits": Fix(("input:relay.build",),
        "kernels for VNNI and AMX have types that LLVM 22 does not take, which ends the process",
        Scope.BUILD, "compile/target.py", "compile/test_target.py"),
    "constants of a library": Fix(("result:relay.build", "result:relay.vm.compile"),
        "with parts of backends those of TVM's kernels are there twice; one that is called as an "
        "input hides it",
        Scope.BUILD, "compile/constants.py", "compile/test_constants.py"),
    "types": Fix(("pass:InferType",),
        "most passes infer all types before and after, of functions that did not change, too",
        Scope.BUILD, "compile/fast_passes.py", "compile/test_library.py"),
    "constants": Fix(("pass:FoldConstant",),
        "it compiles each transformation of a weight with LLVM",
        Scope.BUILD, "compile/fast_passes.py", "compile/test_fold.py"),
    "types of laid out weights": Fix(("pass:DefuseOps",),
        "it returns functions without types, which folding asks for",
        Scope.BUILD, "compile/fast_passes.py", "tvm_fixes/test_ansor.py"),
    "common sub-expressions": Fix(("pass:tir.CommonSubexprElimTIR",),
        "LLVM 22 rejects the debug information of some of its bindings and has such a pass itself; "
        "on kernels with unrolled loops it takes several times as long as all else of a build",
        Scope.BUILD, "compile/fast_passes.py", "compile/test_library.py"),
    "small loops": Fix(("pass:tir.LowerTVMBuiltin",),
        "the outermost loop of a kernel is parallel however little it does",
        Scope.BUILD, "compile/fast_passes.py", "compile/test_small_loops.py"),
    "rounding": Fix(("pass:tir.LowerIntrin",),
        "halves are rounded away from zero, and not to the even number",
        Scope.BUILD, "compile/fast_passes.py", "rewrites/test_quantised.py"),
    "loops with erf": Fix(("pass:tir.VectorizeLoop",),
        "a loop with erf in it is taken for one that cannot be vectorised",
        Scope.BUILD, "compile/vector_math.py", "compile/test_vector_math.py"),
    "vector math": Fix(("pass:tir.LowerIntrin",),
        "exp and its like are a call of the C library for each number, and tanh loses half of its "
        "digits near 0",
        Scope.BUILD, "compile/vector_math.py", "compile/test_vector_math.py"),
}  # fmt: skip
_ON_RECORDS = {
    "AutoTVM's contexts": Fix(("tvm.autotvm.task.dispatcher:DispatchContext.current",),
        "the innermost one is a class's: two threads that leave theirs in another order than they "
        "entered leave one that serves all later builds",
        Scope.RECORDS, "tuning/autotvm.py", "process_wide/test_shared_patch.py"),
    "Ansor's contexts": Fix(("tvm.auto_scheduler.dispatcher:DispatchContext.current",),
        "the same",
        Scope.RECORDS, "tuning/ansor.py", "process_wide/test_shared_patch.py"),
    "Ansor's trials": Fix(
        ("global:auto_scheduler.local_builder.build", "global:auto_scheduler.local_runner.run"),
        "no defect: a trial is in the log before the next begins, as the search may be killed",
        Scope.SEARCH, "tuning/ansor.py", "tuning/test_search.py"),
}  # fmt: skip
_CONVERTERS = "tvm_fixes/onnx_converters.py", "tvm_fixes/test_onnx_converters.py"
_ON_IMPORT = {
    "diagnostics": Fix(("global:diagnostics.OverrideRenderer",),
        "errors go to stderr, of all threads",
        Scope.CHECK, "compile/module_check.py", "process_wide/test_shared_patch.py"),
    "infer_type": Fix((f"{_COMMON}:infer_type", f"{_ONNX}:infer_type"),
        "for each node all is inferred from the inputs on",
        Scope.IMPORT, "importer/onnx.py", "importer/test_onnx.py"),
    "fold_constant": Fix((f"{_COMMON}:fold_constant", f"{_ONNX}:fold_constant"),
        "for each node all is folded from the inputs on, and compiled by LLVM, which rejects some",
        Scope.IMPORT, "importer/onnx.py", "importer/test_onnx.py"),
    "set_span": Fix((f"{_ONNX}:set_span",),
        "it makes copies, of which types and folded constants would not be known",
        Scope.IMPORT, "importer/onnx.py", "importer/test_onnx.py"),
    "convert_map": Fix((f"{_ONNX}:_get_convert_map",),
        "the table is made for each node, and converters note the same names at each call",
        Scope.IMPORT, "importer/onnx.py", "importer/test_onnx.py"),
    "from_onnx": Fix(("tvm.relay.frontend:from_onnx",),
        "it reads functions of the model and others of ONNX's newer forms not at all",
        Scope.IMPORT, "importer/onnx.py", "importer/test_onnx.py"),
    "check_for_unsupported_ops": Fix((f"{_ONNX}:GraphProto._check_for_unsupported_ops",),
        "it refuses a model for one node, which onnxruntime could compute",
        Scope.IMPORT, "importer/onnx.py", "importer/test_opaque.py"),
    "construct_nodes": Fix((f"{_ONNX}:GraphProto._construct_nodes",),
        "a converter that fails, or gives another type than ONNX infers, ends or spoils an import",
        Scope.IMPORT, "importer/onnx.py", "importer/test_opaque.py"),
    "convert_operator": Fix((f"{_ONNX}:GraphProto._convert_operator",),
        "recurrent layers become the operators of all their steps; softplus and mish overflow",
        Scope.IMPORT, "importer/onnx.py", "importer/test_activations.py"),
    "predicate of If": Fix(("converter:If",),
        "it takes the first element of a constant, which one of rank 0 does not have",
        Scope.IMPORT, *_CONVERTERS),
    "inputs of branches": Fix(("converter:If",),
        "the first node that reads an input gives its name to it, by a copy: where two branches "
        "each make one, the model knows only the other's",
        Scope.IMPORT, *_CONVERTERS),
    "one of several axes": Fix(
        tuple(f"converter:Reduce{name}" for name in (
            "Max", "Min", "Sum", "Mean", "Prod", "LogSumExp")),
        "of several axes that are an input the first is reduced, without a word",
        Scope.IMPORT, *_CONVERTERS),
    "axes that are an input": Fix(
        tuple(f"converter:Reduce{name}" for name in ("L1", "L2", "LogSum", "SumSquare")),
        "they are refused: \"multiple values for argument 'axis'\"",
        Scope.IMPORT, *_CONVERTERS),
    "bounds of Clip": Fix(("converter:Clip",),
        "they are dropped unless both are constants, or neither is, as a copy of one",
        Scope.IMPORT, *_CONVERTERS),
    "saturation of Cast": Fix(("converter:Cast",),
        "it is refused, although it is about types of eight bits that TVM has none of",
        Scope.IMPORT, *_CONVERTERS),
    "operands of Concat": Fix(("converter:Concat",),
        "the kernel divides by the elements of an operand, of which it may have none",
        Scope.IMPORT, *_CONVERTERS),
}  # fmt: skip

FIXES = {**_ON_PROCESS, **_ON_TVMC, **_ON_BUILD, **_ON_RECORDS, **_ON_IMPORT}


def pass_of(name: str) -> str:
    """Return the name of the one pass that a row is about."""
    [place] = FIXES[name].places
    return place.removeprefix("pass:")
