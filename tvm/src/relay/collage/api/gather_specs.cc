// SPDX-License-Identifier: Apache-2.0
#include "gather_specs.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "../relay/device_domains.h"
#include "../relay/fields.h"
#include "backend_rules.h"
#include "rule_objects.h"
#include "target_kind.h"

namespace tvm::collage {
namespace {

RulePtr ExternalRule(const std::string& name, const ObjectRef& target) {
  // Looked up each time: a test or a user may have replaced it.
  const PackedFunc* make = runtime::Registry::Get("tvm.relay.collage.make_byoc_partition_rule");
  ICHECK(make) << "InternalError: tvm.relay.collage is not imported";
  // TVM's prototype has the name alone, which says all of a target without attributes.
  const bool has_attrs = !RefFieldAs<Map<String, ObjectRef>>(target, "attrs").empty();
  ObjectRef rule = FromPython(has_attrs ? (*make)(String(name), target) : (*make)(String(name)));
  return runtime::Downcast<PartitionRuleRef>(rule)->rule;
}

/*!
 * \brief Says once of each style in the option that it is for a backend which is not a target: a
 * script may list styles of backends that it does not always use.
 */
void WarnOfUnusedStyles(const CollageOptions& options, const std::vector<TargetSpec>& specs) {
  static std::mutex mutex;
  static std::set<std::string> warned;
  for (const std::string& text : options.byoc_fusion_style) {
    const std::string backend = SplitFusionStyle(text).backend;
    const bool is_used = std::any_of(specs.begin(), specs.end(), [&](const TargetSpec& target) {
      return target.spec.is_external && target.spec.name == backend;
    });
    if (is_used) continue;
    std::lock_guard<std::mutex> lock(mutex);
    if (!warned.insert(text).second) continue;
    LOG(WARNING) << "option relay.collage.byoc_fusion_style has " << text << ", but " << backend
                 << " is no external target of this build: it has no effect";
  }
}

}  // namespace

std::vector<TargetSpec> GatherSpecs(const ObjectRef& compilation_config,
                                    const CollageOptions& options) {
  Fields config(compilation_config);
  std::vector<TargetSpec> specs;
  for (const ObjectRef& target :
       runtime::Downcast<Array<ObjectRef>>(config.Ref("primitive_targets"))) {
    ObjectRef kind = RefField(target, "kind");
    std::string name = Fields(kind).Str("name");
    bool is_external = IsExternalKind(kind);
    RulePtr rule = OwnRuleOf(target);
    if (!rule) rule = is_external ? ExternalRule(name, target) : TvmRule(TvmRuleOptions(options));
    specs.push_back({{name, is_external, rule, DeviceOfTarget(target)}, target});
  }
  WarnOfUnusedStyles(options, specs);
  ObjectRef host = config.Ref("host_target");
  specs.push_back({{"host", false, HostRule(), DeviceOfTarget(host)}, host});
  return specs;
}

}  // namespace tvm::collage
