# SPDX-License-Identifier: Apache-2.0
# %% [markdown]
# # Autotuning: one net untuned, with schedules of other nets, and tuned
#
# TVM compiles a kernel by a *schedule*. Ansor searches good schedules, which takes minutes or
# hours. Transfer-tuning tries schedules that were found for kernels of other nets, which takes
# seconds. Here a small net is compiled with TVM's default schedules, then with transferred ones,
# then with tuned ones, and Collage searches each time which parts TVM gets beside oneDNN.
# `make notebooks` runs this as a notebook; `make demo-autotune` does the same with options.

# %%
import tempfile

import demo_autotune as demo
from demo_settings import IS_QUICK, OUTPUT

QUICK = "--quick --pixels 16 --trials 2 --tune-seconds 5 --search-model random --rounds 3"
options = demo.parse([*(QUICK.split() if IS_QUICK else []), "--progress", "lines"])
net = demo.make_net(options.pixels)

# %% [markdown]
# ## Three searches
#
# All share one store of costs, so that what is measured already is not measured again. Where the
# package has no schedules for this kind of CPU, Ansor searches those of a smaller net first.

# %%
scratch = tempfile.TemporaryDirectory(prefix="collage-demo-")
folder = scratch.name
rows, results = [], {}
for row, result in demo.searches(net, folder, options):
    rows.append(row)
    results[row["name"]] = result
    print(demo.text_of(row))

# %% [markdown]
# ## What each ships, beside the others
#
# The libraries run in turns, each in a process of its own. A ratio is the median of the rounds'
# ratios, with its 95 % interval.

# %%
demo.add_latencies(rows, results, options)
scratch.cleanup()
for row in rows:
    print(demo.latency_text(row))
picture = OUTPUT / "autotune.png"
if demo.draw(rows, picture):
    print(picture)
