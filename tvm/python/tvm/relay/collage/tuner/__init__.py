# SPDX-License-Identifier: Apache-2.0
"""The search for schedules of TVM's candidates, before they are measured (docs/tuning.md)."""
