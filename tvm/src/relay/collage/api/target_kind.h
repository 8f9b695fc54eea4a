// SPDX-License-Identifier: Apache-2.0
// Target kinds of backends: `Target("<name> -option=value")`, marked as external code generators.
// Precondition: libtvm.so is loaded. Test: tvm/tests/python/collage/test_target_kind.py.
#ifndef TVM_RELAY_COLLAGE_API_TARGET_KIND_H_
#define TVM_RELAY_COLLAGE_API_TARGET_KIND_H_

#include <string>

#include "../relay/fields.h"

namespace tvm::collage {

/*!
 * \brief Makes `name` a target kind on the device type that TVM's CompilationConfig takes beside a
 * host or device target. Kinds that exist already (TVM's own, or of an earlier call) stay as they
 * are.
 * \return whether the kind is new.
 */
bool RegisterTargetKind(const std::string& name, int device_type);

/*!
 * \brief Makes the kind accept these attributes, by name: "bool", "int" or "str". Those that it
 * accepts already stay as they are.
 */
void AddTargetOptions(const std::string& kind, const Map<String, String>& types);

/*!
 * \brief Has the kind a compiler of its own? As TVM sees it: the attribute `is_external_codegen`,
 * or a lowering of whole functions to TIR (RFC 10, `RelayToTIR`). No backend has a name here.
 */
bool IsExternalKind(const ObjectRef& kind);

}  // namespace tvm::collage

#endif  // TVM_RELAY_COLLAGE_API_TARGET_KIND_H_
