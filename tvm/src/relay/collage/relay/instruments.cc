// SPDX-License-Identifier: Apache-2.0
// Exchanges a PassContext's instruments without telling them that the context is left and entered
// again, at which some forget what they have seen. Precondition: no pass runs in that context.
// Test: tvm/tests/python/collage/test_build_library.py.
#include <cstring>

#include "fields.h"

namespace tvm::collage {
namespace {

/*! \brief Puts another object into the field "instruments". */
class InstrumentsSetter final : public AttrVisitor {
 public:
  explicit InstrumentsSetter(ObjectRef instruments) : instruments_(std::move(instruments)) {}

  void Visit(const char* key, ObjectRef* value) final {
    if (std::strcmp(key, "instruments") != 0) return;
    *value = instruments_;
    is_done_ = true;
  }
  void Visit(const char*, double*) final {}
  void Visit(const char*, int64_t*) final {}
  void Visit(const char*, uint64_t*) final {}
  void Visit(const char*, int*) final {}
  void Visit(const char*, bool*) final {}
  void Visit(const char*, std::string*) final {}
  void Visit(const char*, void**) final {}
  void Visit(const char*, runtime::DataType*) final {}
  void Visit(const char*, NDArray*) final {}

  bool is_done() const { return is_done_; }

 private:
  ObjectRef instruments_;
  bool is_done_ = false;
};

TVM_REGISTER_GLOBAL("collage.SetInstruments")
    .set_body_typed([](ObjectRef context, Array<ObjectRef> instruments) {
      ICHECK(IsA(context, "transform.PassContext")) << "only a PassContext has instruments";
      InstrumentsSetter setter(std::move(instruments));
      ReflectionVTable::Global()->VisitAttrs(const_cast<Object*>(context.get()), &setter);
      ICHECK(setter.is_done()) << "the PassContext of the base TVM package has no instruments";
    });

}  // namespace
}  // namespace tvm::collage
