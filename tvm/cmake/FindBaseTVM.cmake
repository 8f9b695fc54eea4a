# SPDX-License-Identifier: Apache-2.0
# Finds the runtime headers of the installed base TVM package and defines BaseTVM::headers.
# The package's version must be the pinned one: our adapter leans on symbols of that release.

include(LocateDistribution)
set(_wanted "${BaseTVM_FIND_VERSION}")
locate_distribution(_base_tvm xtc-tvm-python-bindings tvm/include/tvm/runtime/registry.h)
if(_base_tvm_ERROR)
  message(FATAL_ERROR "Base TVM not found: ${_base_tvm_ERROR}. "
                      "Run: pip install -r requirements.txt (or `make build`).")
endif()

if(NOT _base_tvm_VERSION MATCHES "^${_wanted}(\\.|$)")
  message(FATAL_ERROR "Base TVM is ${_base_tvm_VERSION}, this tree needs ${_wanted}. "
                      "Run: pip install -r requirements.txt (or `make build`).")
endif()

set(BaseTVM_VERSION "${_base_tvm_VERSION}")
set(BaseTVM_PACKAGE_DIR "${_base_tvm_DIR}/tvm")
set(BaseTVM_FOUND TRUE)
message(STATUS "Base TVM ${BaseTVM_VERSION}: ${BaseTVM_PACKAGE_DIR}")

if(NOT TARGET BaseTVM::headers)
  add_library(BaseTVM::headers INTERFACE IMPORTED)
  target_include_directories(BaseTVM::headers SYSTEM INTERFACE
    "${BaseTVM_PACKAGE_DIR}/include"
    "${BaseTVM_PACKAGE_DIR}/3rdparty/dlpack/include"
    "${BaseTVM_PACKAGE_DIR}/3rdparty/dmlc-core/include")
  target_compile_definitions(BaseTVM::headers INTERFACE
    "DMLC_USE_LOGGING_LIBRARY=<tvm/runtime/logging.h>")
endif()
