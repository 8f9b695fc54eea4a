# SPDX-License-Identifier: Apache-2.0
"""Lets tests import helper modules beside them, and the worker processes of those tests as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
