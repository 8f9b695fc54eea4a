# SPDX-License-Identifier: Apache-2.0
"""The zoo: a table of nets from packages that others keep, how a net becomes an ONNX file, what is
measured of it, and the page that is written from the records. Docs: docs/bench.md."""
