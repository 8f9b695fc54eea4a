# SPDX-License-Identifier: Apache-2.0
"""`tvmc compile --collage`: what of TVM's command line ours stands before, module by module.

Imported when somebody imports `tvm.driver.tvmc` (integration.py), never by `import tvm`. Without
--collage all goes to TVM's functions. Docs: docs/tvmc.md.
Test: tvmc/test_tvmc.py.
"""

from types import ModuleType


def wrap(module: ModuleType) -> None:
    """Put our functions into a module of tvmc that was just executed."""
    from . import compilation, compiler, targets

    ours = {
        "target": targets.wrap,
        "pass_config": compilation.wrap_pass_config,
        "frontends": compilation.wrap_frontends,
        "compiler": compiler.wrap,
    }
    ours[module.__name__.rpartition(".")[2]](module)
