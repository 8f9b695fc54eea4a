# SPDX-License-Identifier: Apache-2.0
# Finds the headers of oneDNN's package and defines OneDNN::headers.
# Only headers: the runtime library opens libdnnl.so.3 itself when a oneDNN module is first used.

include(LocateDistribution)
locate_distribution(_onednn onednn-devel-cpu-gomp include/oneapi/dnnl/dnnl.h)
if(_onednn_ERROR)
  message(FATAL_ERROR "oneDNN headers not found: ${_onednn_ERROR}. "
                      "Run: pip install -r requirements.txt (or `make build`).")
endif()

set(OneDNN_VERSION "${_onednn_VERSION}")
set(OneDNN_FOUND TRUE)
message(STATUS "oneDNN headers ${OneDNN_VERSION}: ${_onednn_DIR}/include")

if(NOT TARGET OneDNN::headers)
  add_library(OneDNN::headers INTERFACE IMPORTED)
  target_include_directories(OneDNN::headers SYSTEM INTERFACE "${_onednn_DIR}/include")
endif()
