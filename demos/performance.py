# SPDX-License-Identifier: Apache-2.0
# %% [markdown]
# # Performance: one backend more at a time
#
# Collage places each part of a net on the backend that was measured fastest there. Here two nets
# are compiled for TVM alone, then for TVM and one backend, then for one backend more, up to all
# that can run on this machine. All searches share one store of costs, so that each measures only
# what the new backend can take. `make demo-performance` runs this as a script, `make notebooks`
# as a notebook.

# %%
import demo_models
from demo_compare import print_beside
from demo_settings import IS_QUICK, OPTIONS, OUTPUT, ROUNDS
from tvm.relay import collage

# %% [markdown]
# ## The steps
#
# The backends that can run on this machine, each with all those before it.

# %%
NETS = ("magika",) if IS_QUICK else ("magika", "dcgan")
host, *backends = collage.available_targets()
backends = backends[:2] if IS_QUICK else backends
names = ["tvm", *(f"+ {backend.kind.name}" for backend in backends)]
print("one more in each step:", ", ".join(names))

# %% [markdown]
# ## All steps beside each other
#
# `DemoModel.build` is `relay.build` with Collage. In the steps it places operators by their
# measured costs alone, as the paper's search does. What a border between two parts costs the
# whole net shows only when that runs, so a step may be slower than the one before it. This is
# what the guard is for, which is on unless it is turned off: in the last line it measures that
# plan whole, beside each backend alone, and ships the fastest.
#
# The guard's own figures flatter its winner, so all that was built is measured once more, in
# turns, each library in a process of its own. Where the operators went is drawn for each step,
# coloured by backend; with TVM alone all is of one colour.

# %%
options = OPTIONS | {
    "store": str(OUTPUT / "performance.sqlite"),
    "reuse_decision": False,  # the guard is what is shown
    "log_level": "error",
    # Short chains of calls are measured in half the time.
    **{name: min(2, OPTIONS[name]) for name in ("tvm_max_depth", "byoc_max_depth")},
}
for net in (demo_models.MODELS[name]() for name in NETS):
    steps = {name: [host, *backends[:count]] for count, name in enumerate(names)}
    placed = {
        name: net.build(targets, options | {"guard": False}) for name, targets in steps.items()
    }
    placed["with the guard"] = net.build([host, *backends], options)
    print(f"\n{net.title}")
    print_beside(placed, net.inputs[0], ROUNDS)
    print("Pictures, with times of the searches' own measurements:")
    for number, (name, library) in list(enumerate(placed.items()))[1:]:
        step = name.removeprefix("+ ").replace(" ", "-")
        picture = OUTPUT / f"{net.name}-{number}-{step}.svg"
        library.collage.save_picture(picture)
        print(picture)
