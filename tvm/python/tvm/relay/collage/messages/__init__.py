# SPDX-License-Identifier: Apache-2.0
"""How long work tells how far it is, and what is read out of the messages of others."""
