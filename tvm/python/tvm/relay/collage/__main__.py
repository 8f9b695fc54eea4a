# SPDX-License-Identifier: Apache-2.0
"""`python -m tvm.relay.collage`: the same as the command `collage`. Test: cli/test_store.py."""

import sys

from .cli import main

sys.exit(main())
