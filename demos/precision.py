# SPDX-License-Identifier: Apache-2.0
# %% [markdown]
# # Precision: fewer bits where they cost little
#
# PP-OCR reads a line of text. Its network is placed in float32, in fewer bits everywhere, and
# with the precision of each layer that saves most while nearly all letters stay the same: the
# metric `argmax` counts the places where another letter would be read. `make demo-precision` runs
# this as a script, `make notebooks` as a notebook.

# %%
import tempfile

import onnx
from demo_models import DemoModel, classification, recognition
from demo_ocr import draw_words, to_tensor
from demo_onnx import run_once
from demo_settings import IS_QUICK, OPTIONS, OUTPUT
from tvm.relay import collage
from tvm.relay.collage.precision.quantiser import quantise
from tvm.relay.collage.report.precision import precision_lines

BUDGET = 0.01  # of all places one in a hundred may be read otherwise
COUNT = 8 if IS_QUICK else 32
net: DemoModel = classification() if IS_QUICK else recognition()
(name,) = net.inputs[0]
height, width = net.inputs[0][name].shape[2:]

# %% [markdown]
# ## Samples
#
# Real inputs, a few dozen: here lines that are drawn. Half of them tell which numbers there are, so
# that 8 bits can stand for them, a quarter how much each layer errs, a quarter checks what ships.

# %%
words = draw_words(COUNT, width, height)
samples = [{name: to_tensor(image)} for _, image in words]

# %% [markdown]
# ## The choice
#
# `collage compile MODEL -o LIB --accuracy-budget 0.01 --calibration samples.npz --metric argmax`
# does the same.

# %%
options = OPTIONS | {
    "accuracy_budget": BUDGET,
    "metric": "argmax",
    "effort": "quick" if IS_QUICK else "normal",
    "store": str(OUTPUT / "precision.sqlite"),
    "time_limit": 0.0,
    "log_level": "error",
}
found = collage.optimize_precision(
    str(net.onnx),
    collage.available_targets(BUDGET),
    collage.CollageOptions(**options),
    calibration=samples,
)
print("\n".join(precision_lines(found.precision)))

# %% [markdown]
# ## What it reads
#
# Each line as float32 reads it, as what ships does, and as all of it in 8 bits does.

# %%
run = found.runner()
with tempfile.TemporaryDirectory() as folder:
    in_bytes = quantise(onnx.load(str(net.onnx)), samples[: COUNT // 2], folder).quantised
    print(f"{'drawn':16}{'float32':16}{'ships':16}{'all in 8 bits':16}")
    for (word, _), sample in list(zip(words, samples, strict=True))[:6]:
        answers = [
            net.read(run_once(net.onnx, sample)),
            net.read(run(sample)),
            net.read(run_once(in_bytes, sample)),
        ]
        print("".join(f"{each:16}" for each in (word, *answers)).rstrip())

# %% [markdown]
# ## The picture
#
# Parts by backend, at the left of each, and by precision, at the right; the page has the front of
# time against error and a table of the layers, too.

# %%
for suffix, save in (("svg", found.save_picture), ("html", found.save_html)):
    file = OUTPUT / f"precision.{suffix}"
    save(file)
    print(file)
