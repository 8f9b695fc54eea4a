// SPDX-License-Identifier: Apache-2.0
/*!
 * \file find_library.h
 * \brief Where a library may lie that a backend opens when a model first needs it.
 *
 * Nothing of such a library is linked: libtvm_collage_runtime.so loads where it is absent, and a
 * model that needs it gets one clear error. Tested by test_onednn_errors.py, test_blas_errors.py.
 */
#ifndef TVM_COLLAGE_RUNTIME_PARTITION_FIND_LIBRARY_H_
#define TVM_COLLAGE_RUNTIME_PARTITION_FIND_LIBRARY_H_

#include <string>
#include <vector>

namespace tvm {
namespace collage {
namespace partition {

/*!
 * \brief Names to try with dlopen, in order.
 *
 * Only what the environment variable says where it is set; else the soname (the loader's search),
 * then the file in each sub-folder ("/", "/lib/") of the folders above our library and TVM's.
 */
std::vector<std::string> LibraryCandidates(const std::string& soname, const char* variable,
                                           const std::vector<std::string>& sub_folders);

}  // namespace partition
}  // namespace collage
}  // namespace tvm
#endif  // TVM_COLLAGE_RUNTIME_PARTITION_FIND_LIBRARY_H_
