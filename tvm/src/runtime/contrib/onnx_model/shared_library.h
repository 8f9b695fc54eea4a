// SPDX-License-Identifier: Apache-2.0
/*!
 * \file shared_library.h
 * \brief Finds and opens a library that came with a Python package, or wherever the user says.
 *
 * Tested by test_onnx_backends.py.
 */
#ifndef TVM_COLLAGE_RUNTIME_ONNX_MODEL_SHARED_LIBRARY_H_
#define TVM_COLLAGE_RUNTIME_ONNX_MODEL_SHARED_LIBRARY_H_

#include <string>

namespace tvm {
namespace collage {
namespace onnx_model {

/*! \brief What to look for. */
struct LibraryPlace {
  const char* title;     // for people
  const char* variable;  // environment variable that names the file; then nothing else is tried
  const char* soname;    // for the loader's own search
  const char* pattern;   // glob below each directory above our libraries and TVM's
  const char* package;   // what to install
};

/*!
 * \brief Returns the handle of the first file that opens; nullptr, with all reasons in `problem`,
 * when none does. What is opened stays open: its threads may run its code.
 */
void* OpenLibrary(const LibraryPlace& place, std::string* problem);

}  // namespace onnx_model
}  // namespace collage
}  // namespace tvm
#endif  // TVM_COLLAGE_RUNTIME_ONNX_MODEL_SHARED_LIBRARY_H_
