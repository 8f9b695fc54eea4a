# SPDX-License-Identifier: Apache-2.0
"""Transfer-Tuning (Gibson and Cano, PACT 2022): Ansor's schedules for other kernels of their class.

Nothing here builds or measures: which kernels are alike, what a schedule becomes for another
kernel, whose schedules to try. Docs: docs/transfer.md.
"""
