# SPDX-License-Identifier: Apache-2.0
"""Draw what the op-level search makes of a small net, measured on this machine.

    python docs/pictures/placed.py [FILE.svg]

It writes placed.svg beside this file, which README.md and docs/concept.md show. Test:
docs/test_site.py.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import models
import tvm
from tvm.relay import collage
from tvm.relay.collage.report.picture import Picture, to_svg

BACKENDS = ("dnnl", "openvino", "onnxruntime")


def main(file: Path) -> None:
    mod, params = models.relay_of("dcgan")
    targets = [collage.host_target(), *map(tvm.target.Target, BACKENDS)]
    # Whole plans are not compared: the picture shows the plan that the parts' times give.
    options = collage.CollageOptions(measure_seconds=0.1, guard=False)
    with tvm.transform.PassContext(opt_level=3):
        result = collage.optimize(mod, params, targets, options)
    # Not every measurement keeps this plan, so that the picture does not say that it ships.
    title = "A plan for the generator of DCGAN"
    picture = Picture(result.record)
    picture.title = title
    file.write_text(to_svg(picture))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("placed.svg"))
