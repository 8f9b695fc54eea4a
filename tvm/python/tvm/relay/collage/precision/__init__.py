# SPDX-License-Identifier: Apache-2.0
"""Backend and precision of every part, least time within an error that the user allows.

place.py is the way in and the road; Docs: docs/precision.md. Test: precision/.
"""
