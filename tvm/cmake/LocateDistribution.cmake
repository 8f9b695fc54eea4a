# SPDX-License-Identifier: Apache-2.0
# locate_distribution(PREFIX NAME FILE) asks Python where an installed distribution put FILE.
# It sets PREFIX_VERSION and PREFIX_DIR, or PREFIX_ERROR. Needs Python_EXECUTABLE.

function(locate_distribution prefix name file)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/base_distribution.py"
            "${name}" "${file}"
    RESULT_VARIABLE status
    OUTPUT_VARIABLE answer
    ERROR_VARIABLE error
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(${prefix}_ERROR "${error}" PARENT_SCOPE)
    return()
  endif()
  list(GET answer 0 version)
  list(GET answer 1 directory)
  set(${prefix}_VERSION "${version}" PARENT_SCOPE)
  set(${prefix}_DIR "${directory}" PARENT_SCOPE)
endfunction()
