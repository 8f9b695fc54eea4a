# SPDX-License-Identifier: Apache-2.0
# %% [markdown]
# # Performance: one backend more at a time
#
# Collage places each part of a net on the backend that was measured fastest there. Here two real
# nets are compiled for TVM alone, then for TVM and one backend, then for one backend more, up to
# all that can run on this machine. All searches share one store of costs, so that each measures
# only what the new backend can take. `make demo-performance` runs this as a script, `make
# notebooks` as a notebook.

# %%
import demo_models
import tvm
from demo_compare import beside_each_other
from demo_settings import OPTIONS, OUTPUT, ROUNDS
from tvm import relay
from tvm.relay import collage
from tvm.relay.collage.costs.cost import format_seconds
from tvm.relay.collage.timing.comparison import paired_ratio

NETS = ("magika", "cls")
host, *backends = collage.available_targets()
names = ["tvm", *(f"+ {backend.kind.name}" for backend in backends)]
print("one more in each step:", ", ".join(names))

# %% [markdown]
# ## One step
#
# `relay.build` with Collage searches a plan, measures it whole beside each backend alone, and
# keeps the fastest. `lib.collage` tells what it decided.


# %%
def build(net, targets):
    mod, params = net.load()
    config = {f"relay.collage.{name}": value for name, value in OPTIONS.items()}
    config |= {"relay.collage.store": str(OUTPUT / "performance.sqlite")}
    config |= {"relay.collage.enable_collage": True, "relay.collage.progress": "quiet"}
    with tvm.transform.PassContext(opt_level=3, config=config):
        return relay.build(mod, target=targets, params=params)


# %% [markdown]
# ## All steps beside each other
#
# The guard chose each winner by its own measurement, which flatters it. So all that was built is
# measured once more, in turns, each library in a process of its own.


# %%
def steps_of(net):
    targets = [[host, *backends[:count]] for count in range(len(names))]
    libraries = {name: build(net, each) for name, each in zip(names, targets, strict=True)}
    rows = {item.name: item for item in beside_each_other(libraries, net.inputs[0], ROUNDS)}
    print(f"\n{net.title}")
    for name, library in libraries.items():
        ratio = paired_ratio(rows["tvm"].samples, rows[name].samples)
        print(
            f"  {name:14}{format_seconds(rows[name].cost.seconds):>9}",
            "{:6.2f} [{:.2f}, {:.2f}] x TVM alone".format(*ratio),
            f" ships {library.collage.plan}",
        )
    return libraries


placed = {name: steps_of(demo_models.MODELS[name]()) for name in NETS}

# %% [markdown]
# ## Where the operators went
#
# One picture for each net and step, coloured by backend.

# %%
for net, libraries in placed.items():
    for number, (name, library) in enumerate(libraries.items()):
        picture = OUTPUT / f"{net}-{number}-{name.removeprefix('+ ')}.svg"
        library.collage.save_picture(picture)
        print(picture)
