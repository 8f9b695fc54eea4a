# SPDX-License-Identifier: Apache-2.0
# %% [markdown]
# # Customization: a backend of one's own
#
# Magika, a real net that tells kinds of files apart, begins with a product of one-hot rows and a
# matrix: 2,048 rows of 257 numbers, of which one is 1. No library knows that this is a look-up.
# The backend of `custom_backend.py` does, and it has a loop for chains of elementwise operators.
# It has its own patterns with a constraint, its own pattern rule, its own code generation (C) and
# its own costs. `make demo-customization` runs this as a script, `make notebooks` as a notebook.

# %%
import inspect

import custom_backend  # a module of its own, which worker processes import
import demo_models
import tvm
from demo_compare import print_beside
from demo_settings import OPTIONS, OUTPUT, ROUNDS
from tvm.relay import collage
from tvm.relay.collage.compile import prepare
from tvm.relay.collage.costs.cost import format_seconds
from tvm.relay.collage.report import head_lines

CHAINS = {"byoc_max_depth": 10}  # the longest chain of elementwise operators has nine
net = demo_models.content()


def build(*backends):
    """The net on TVM and these backends; `.collage` of it tells what was decided."""
    targets = [collage.host_target(), *map(tvm.target.Target, backends)]
    store = {"store": str(OUTPUT / "customization.sqlite"), "log_level": "error"}
    return net.build(targets, OPTIONS | CHAINS | store)


# %% [markdown]
# ## An own pattern, with a constraint
#
# The pattern says what a look-up looks like; the predicate beside it says for which operands that
# is one, and why not for others.

# %%
print(inspect.getsource(custom_backend.Custom.patterns))
print(inspect.getsource(custom_backend.Custom.are_a_column_and_a_row))

# %% [markdown]
# ## An own pattern rule
#
# A chain is no fixed pattern: the rule says which operators, which neighbours, and which sets as a
# whole. All that it finds takes part in the search.

# %%
for part in (custom_backend.is_elementwise, custom_backend.may_follow, custom_backend.is_whole):
    print(inspect.getsource(part))
mod, params = net.load()
prepared = prepare(mod, params, collage.host_target(), opt_level=3)
targets = [collage.host_target(), tvm.target.Target("custom")]
with tvm.transform.PassContext(config={"relay.collage.byoc_max_depth": 10}):
    found = [each for each in collage.candidates(prepared, targets) if each.backend == "custom"]
print(f"What pattern and rule find in {net.title}, each a candidate of the search:")
for candidate in found:
    print(f"  {candidate.Summary()}")

# %% [markdown]
# ## Own code generation
#
# What a part becomes: C, of the operators that it holds.

# %%
print(inspect.getsource(custom_backend.Custom.compile))

# %% [markdown]
# ## What it gains
#
# The same net with oneDNN alone beside TVM, and with both. Each candidate of the new backend was
# compared with what TVM computes, then measured, and took part in the search.

# %%
without, own = build("dnnl"), build("dnnl", "custom")
(report,) = own.collage.record.searched
taken = [part for part in report.parts if part.backend == "custom"]
for part in taken:
    print(f"custom takes {part.ops}: {format_seconds(part.seconds)}")
if not taken:
    print("the op-level plan has nothing on custom")

# %% [markdown]
# ## Own costs
#
# With `-estimate=1` the backend says what its parts cost, instead of having them measured. Who
# knows better than a measurement is rare: the plan that comes of it is measured whole all the
# same.

# %%
estimated = build("dnnl", "custom -estimate=1")
libraries = {"without": without, "custom, measured": own, "custom, estimated": estimated}
print_beside(libraries, net.inputs[0], ROUNDS)

# %% [markdown]
# ## Where the operators went

# %%
picture = OUTPUT / "customization.svg"
own.collage.save_picture(picture)
print(f"The picture, with times of the search's own measurement: {picture}")
ships, *_ = head_lines(own.collage.record)
print(f"Shown: a backend of one module takes part in the search beside dnnl. With both: {ships}")
