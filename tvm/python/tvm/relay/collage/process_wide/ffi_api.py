# SPDX-License-Identifier: Apache-2.0
"""TVM's global functions ``relay.collage.*``, those that we replaced included."""

import tvm._ffi

tvm._ffi._init_api("relay.collage", __name__)
