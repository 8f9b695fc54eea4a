# SPDX-License-Identifier: Apache-2.0
"""`python -m tvm.relay.collage`: the same as the command `collage`. Test: cli/test_store.py.

Python imports TVM before the first line here, so that a Ctrl-C until then has a traceback.
"""

import sys

from tvm_collage.command import main

sys.exit(main())
