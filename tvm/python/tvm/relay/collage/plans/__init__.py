# SPDX-License-Identifier: Apache-2.0
"""The ways to ship a module: how they are made, searched, compared, saved and replayed."""
