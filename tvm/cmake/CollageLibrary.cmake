# SPDX-License-Identifier: Apache-2.0
# collage_library(NAME SOURCES... ) adds one of our shared libraries, if its folder has sources, and
# collage_objects(NAME SOURCES... ) objects that become part of one. Symbols are hidden unless
# exported; TVM's are left undefined, libtvm or libtvm_runtime has them.

function(collage_library name)
  if(NOT ARGN)
    message(STATUS "${name}: no sources, left out")
    return()
  endif()
  if(COLLAGE_PREBUILT_DIR)
    install(FILES "${COLLAGE_PREBUILT_DIR}/lib${name}.so" DESTINATION tvm_collage/lib)
    return()
  endif()
  add_library(${name} SHARED ${ARGN})
  _collage_hide_symbols(${name})
  set_target_properties(${name} PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN")
  target_link_options(${name} PRIVATE -Wl,-z,lazy -Wl,--enable-new-dtags)
  install(TARGETS ${name} LIBRARY DESTINATION tvm_collage/lib)
endfunction()

function(collage_objects name)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${ARGN})
  _collage_hide_symbols(${name})
endfunction()

function(_collage_hide_symbols name)
  set_target_properties(${name} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${name} PRIVATE "${COLLAGE_SOURCE_DIR}")
endfunction()
