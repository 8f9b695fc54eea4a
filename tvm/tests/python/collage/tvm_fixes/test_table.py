# SPDX-License-Identifier: Apache-2.0
"""The table of what is other in TVM: its rows hold, and nothing is changed without one."""

import ast
import importlib
import operator
from pathlib import Path

import pytest
import tvm
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.compile import fast_passes, module_check
from tvm.relay.collage.tvm_fixes import apply
from tvm.relay.collage.tvm_fixes.table import FIXES, Scope

PACKAGE = Path(collage.__file__).parent
TESTS = Path(__file__).parents[1]
# Where functions of ours get names that are made; elsewhere the name says whose a function is.
REGISTERING = ("integration.py", "backends/__init__.py", "backends/registry.py")
OURS = ("collage.", "tvm.relay.collage.", "relay.collage.", "relay.ext.")
# Of places: who first asks makes them, or they are no place in TVM's memory.
OTHER_KINDS = ("logger", "attribute", "global", "field", "input", "result")
# Calls that change what TVM has registered, and the files that call them for what is ours.
CHANGING = {
    "register_op_attr": ("compile/vector_math.py",),
    "register_shape_func": ("ops/onnx_node.py",),
    "remove_global_func": ("backends/registry.py",),
    "reset_attr": (),
    "override_renderer": (),
}


def root_of(node):
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def patches_in(source, file):
    """Return the lines of a source file that change TVM."""
    tree = ast.parse(source)
    of_tvm, found = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            if f"{node.module}.".startswith("tvm.") and "collage" not in node.module:
                of_tvm |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Import):
            names = [each.asname or each.name.partition(".")[0] for each in node.names]
            of_tvm |= {name for name, each in zip(names, node.names) if each.name[:3] == "tvm"}
    for node in ast.walk(tree):
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            changed = [each for each in targets if not isinstance(each, ast.Name)]
            found += [node.lineno for each in changed if root_of(each) in of_tvm]
        elif isinstance(node, ast.Call):
            found += [node.lineno] * is_change(node, of_tvm, file)
    return found


def is_change(call, of_tvm, file):
    name = ast.unparse(call.func).rpartition(".")[2]
    if name in ("setattr", "delattr") and isinstance(call.func, ast.Name):
        is_of_others = file.startswith("process_wide/")  # Python's hook, our logger, lazy names
        return root_of(call.args[0]) not in ("cls", "self", "sys") and not is_of_others
    if name == "register_func" and call.keywords:
        text = ast.unparse(call.args[0]).lstrip("f").strip("'\"")
        is_made = isinstance(call.args[0], ast.Name)
        return file not in REGISTERING if is_made else not text.startswith(OURS)
    return name in CHANGING and file not in CHANGING[name]


CHANGES = [
    "import tvm\ntvm.relay.build = print",
    "from tvm import relay\nrelay.build_module.build = print",
    "from tvm.relay import vm as machine\nmachine.compile: object = print",
    "from tvm import topi\ndel topi.nn.matmul",
    "import tvm.topi\nsetattr(tvm.topi.nn, 'matmul', print)",
    "setattr(found, 'matmul', print)",
    "from tvm import register_func\nregister_func('relay.ir.any', print, override=True)",
    "import tvm\ntvm.register_func(name, print, override=True)",
    "op.reset_attr('target.dnnl')",
]
OTHERS = [
    "import tvm\nfound = tvm.relay.build\nfound.collage = 1",
    "class A:\n    def f(self):\n        self.build = print\n        setattr(self, 'a', 1)",
    "import tvm\n@tvm.register_func('collage.any', override=True)\ndef f(): pass",
    "import tvm\ntvm.register_func(f'relay.ext.{name}', print, override=True)",
]


@pytest.mark.parametrize("source", CHANGES)
def test_a_change_of_tvm_is_found(source):
    assert len(patches_in(source, "any.py")) == 1


@pytest.mark.parametrize("source", OTHERS)
def test_what_is_ours_is_no_change(source):
    assert patches_in(source, "any.py") == []


def test_nothing_but_the_table_changes_tvm():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if not file.startswith("tvm_fixes/"):
            lines = patches_in(path.read_text(encoding="utf-8"), file)
            found += [f"{file}:{line} changes TVM: by tvm_fixes/apply.py" for line in lines]
    assert found == []


@pytest.mark.parametrize("name", FIXES)
def test_a_row_names_who_applies_it_and_its_test(name):
    fix = FIXES[name]
    assert f'"{name}"' in (PACKAGE / fix.by).read_text(encoding="utf-8")
    assert (TESTS / fix.test).is_file()
    assert fix.why and fix.places


def attribute_at(place):
    """Return what stands in a place that is an attribute of a module or class."""
    module, _, path = place.partition(":")
    return operator.attrgetter(path)(importlib.import_module(module))


def there_is(place):
    kind, _, name = place.partition(":")
    if kind == "pass":
        prefix = "tir.transform." if name.startswith("tir.") else "relay._transform."
        return tvm.get_global_func(prefix + name.removeprefix("tir."), True) is not None
    if kind == "converter":
        return name in relay.frontend.onnx._get_convert_map(17)
    return kind in OTHER_KINDS or attribute_at(place) is not NotImplemented


@pytest.mark.parametrize("name", FIXES)
def test_tvm_has_the_places_of_a_row(name):
    assert all(there_is(place) for place in FIXES[name].places)


def values(scope):
    """Return what stands in each place of the rows of a scope that is other in all of it."""
    found = {}
    for place in (each for fix in FIXES.values() if fix.scope is scope for each in fix.places):
        kind, _, name = place.partition(":")
        if kind == "global":
            function = tvm.get_global_func(name, True)
            found[place] = function and function.handle.value
        elif kind.startswith("tvm.") and "TracingEnvironment" not in name:
            found[place] = attribute_at(place)
    return found


@pytest.mark.parametrize(
    "scope, context",
    [
        (Scope.BUILD, fast_passes),
        (Scope.IMPORT, collage.quick_import),
        (Scope.CHECK, module_check.collected_diagnostics),
    ],
)
def test_a_row_holds_in_its_scope_and_not_outside_of_it(scope, context):
    before = values(scope)
    with context():
        inside = values(scope)
        assert all(inside[place] != before[place] for place in before)
        with context():
            assert values(scope) == inside
    assert before and values(scope) == before


def test_what_no_row_has_cannot_be_changed():
    for change in (apply.replace, apply.ScopedFix):
        with pytest.raises(KeyError):
            change("another function", lambda stock: stock)
    with pytest.raises(KeyError):
        apply.stock("builds", "another")
    with pytest.raises(KeyError):
        apply.put("another place", None)


def test_stocks_own_function_is_kept_and_none_is_replaced_twice():
    build = tvm.relay.build_module.build
    assert apply.stock("builds", "build") is build.__wrapped__
    apply.replace("builds", lambda stock: pytest.fail(f"{stock} is replaced again"))
    assert tvm.relay.build_module.build is build
    assert apply.stock("build info", "libinfo") is tvm.relay.backend.te_compiler.libinfo
