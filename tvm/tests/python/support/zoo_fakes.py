# SPDX-License-Identifier: Apache-2.0
"""The process of a trial whose net fails in the way that its name says: bench/test_zoo.py."""

import json
import sys
import time

from architectures import trial


def fake(request, note):
    """Reads no model."""
    note(stage="import", model={"nodes": 3})
    if request["net"] == "raises":
        raise ValueError("stack\n\nno such operator: Moa")
    note(stage="measure")
    if request["net"] == "dies":
        sys.exit(3)
    if request["net"] == "hangs":
        time.sleep(60)
    note(rows=[{"name": "dnnl alone", "is_peer": False, "status": "measured", "ms": 1.0}])


if __name__ == "__main__":
    sys.exit(trial.main(json.loads(sys.argv[1]), {"fake": fake}))
