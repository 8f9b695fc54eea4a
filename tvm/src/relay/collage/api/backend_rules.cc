// SPDX-License-Identifier: Apache-2.0
#include "backend_rules.h"

#include <algorithm>
#include <atomic>

#include "../graph/json.h"
#include "../relay/import_pattern.h"
#include "../rules/rule_registry.h"
#include "rule_objects.h"
#include "user_functions.h"

namespace tvm::collage {
namespace {

constexpr char kPartitionRule[] = "partition_rule";

struct StockTargetKind {
  std::string name;
  Map<String, String> types;  // by option
};

/*! \brief TVM's own target kinds and their options, both in its order, which ours would change. */
std::vector<StockTargetKind>& StockTargetKinds() {
  static auto& kinds = *new std::vector<StockTargetKind>();
  return kinds;
}

String StockTargetKindsJson() {
  std::vector<Json> rows;
  for (const StockTargetKind& kind : StockTargetKinds()) {
    std::vector<Json> options;
    for (const auto& [name, type] : kind.types) {
      options.push_back(JsonObject({{"name", std::string(name)}, {"type", std::string(type)}}));
    }
    rows.push_back(JsonObject({{"name", kind.name}, {"options", options}}));
  }
  return Json(rows).text();
}

/*! \brief The style that the option "<compiler>.<style>" asks for, else the backend's own. */
FusionStyle StyleOf(const std::string& compiler, const std::string& own,
                    const CollageOptions& options) {
  std::string name = own;
  for (const std::string& text : options.byoc_fusion_style) {
    const NamedStyle named = SplitFusionStyle(text);
    if (named.backend == compiler) name = named.style;
  }
  const Names& names = FusionStyleNames();
  const auto found = std::find(names.begin(), names.end(), name);
  ICHECK(found != names.end()) << "InternalError: no fusion style is called " << name;
  return static_cast<FusionStyle>(found - names.begin());
}

RuleOptions CommonOptions(const CollageOptions& options) {
  RuleOptions rule_options;
  rule_options.max_candidates_per_node = static_cast<int>(options.max_candidates_per_node);
  rule_options.max_exits = static_cast<int>(options.max_exits);
  rule_options.region_cuts = static_cast<int>(options.region_cuts);
  return rule_options;
}

/*!
 * \brief The backend's rule from those of its table's lines and from its op attribute
 * `collage.target.<compiler>`, whose answers have reasons, else `target.<compiler>`, if any op has
 * it.
 */
PartitionRuleRef MakeBackendRule(String compiler, Array<PartitionRuleRef> entries, String style,
                                 bool regions) {
  const CollageOptions options = CollageOptions::Current();
  RuleOptions rule_options = CommonOptions(options);
  rule_options.max_depth = static_cast<int>(options.byoc_max_depth);
  rule_options.fusion_style = StyleOf(compiler, style, options);
  rule_options.regions = regions;
  std::vector<RulePtr> parts;
  for (const PartitionRuleRef& entry : entries) parts.push_back(entry->rule);
  CallPredicate bare;
  for (const char* prefix : {"target.", "collage.target."}) {
    const std::string attribute = prefix + std::string(compiler);
    if (HasOpAttribute(attribute)) {
      bare = AttributePredicate(attribute, HasLocalPredicates(compiler));
    }
  }
  return PartitionRuleRef(BackendRule(std::move(parts), rule_options, std::move(bare)));
}

/*! \brief One line of a pattern table; predicate and attrs getter may be null. */
PartitionRuleRef MakePatternEntry(String compiler, String composite, ObjectRef pattern,
                                  PackedFunc predicate, PackedFunc attrs) {
  PatternEntry entry{composite, ImportPattern(pattern, ExprOf),
                     AsMatchPredicate(predicate, HasLocalPredicates(compiler)),
                     AsAttrsGetter(attrs)};
  std::string reason = UnsupportedReason(entry.pattern);
  if (!reason.empty()) {
    LOG(WARNING) << "pattern " << composite << " of backend " << compiler
                 << " is left out: " << reason;
  }
  return PartitionRuleRef(PatternEntryRule(std::move(entry)));
}

RulePtr RegisteredRule(const std::string& name, const std::string& whose) {
  RulePtr rule = FindRule(name);
  if (rule) return rule;
  std::string known;
  for (const std::string& other : RegisteredRuleNames()) {
    if (other == name) {
      ThrowUserError("ValueError",
                     whose + ": what is registered as '" + name + "' made no rule but null");
    }
    known += (known.empty() ? "" : ", ") + other;
  }
  ThrowUserError("ValueError", whose + ": no rule is registered as '" + name +
                                   "'; registered are: " + (known.empty() ? "none" : known));
}

/*! \brief A kind's attribute, or what its function gave, as a rule. */
RulePtr AsRule(const TVMRetValue& value, const std::string& whose) {
  if (value.IsObjectRef<PartitionRuleRef>()) {
    const PartitionRuleRef rule = value;
    return rule->rule;
  }
  ThrowUserError("TypeError", whose +
                                  ": its partition_rule is no rule of collage.rules, no "
                                  "function that makes one and no registered name");
}

}  // namespace

RuleOptions TvmRuleOptions(const CollageOptions& options) {
  RuleOptions rule_options = CommonOptions(options);
  rule_options.max_depth = static_cast<int>(options.tvm_max_depth);
  rule_options.regions = options.tvm_regions;
  return rule_options;
}

RulePtr OwnRuleOf(const ObjectRef& target) {
  ObjectRef kind = RefField(target, "kind");
  const std::string whose = "target " + Fields(kind).Str("name");
  auto attrs = RefFieldAs<Map<String, ObjectRef>>(target, "attrs");
  if (auto name = attrs.Get(kPartitionRule)) {
    return RegisteredRule(runtime::Downcast<String>(name.value()), whose);
  }
  TVMRetValue value = CallGlobal("target.TargetKindGetAttr", kind, String(kPartitionRule));
  if (value.type_code() == kTVMNullptr) return nullptr;
  if (value.type_code() == kTVMStr || value.IsObjectRef<String>()) {
    const std::string name = value.operator String();
    return name.empty() ? nullptr : RegisteredRule(name, whose);
  }
  if (value.type_code() == kTVMPackedFuncHandle) {
    const PackedFunc make = value;
    return AsRule(make(), whose);
  }
  return AsRule(value, whose);
}

void RegisterPartitionRuleAttribute() {
  for (const String& kind : Array<String>(CallGlobal("target.ListTargetKinds"))) {
    StockTargetKinds().push_back({kind, CallGlobal("target.ListTargetKindOptionsFromName", kind)});
    AddPartitionRuleOption(kind);
  }
}

void AddPartitionRuleOption(const std::string& kind) {
  auto options = Map<String, String>(CallGlobal("target.ListTargetKindOptionsFromName", kind));
  if (options.count(kPartitionRule)) return;
  TargetKindRegEntry& entry = TargetKindRegEntry::RegisterOrGet(kind);
  entry.add_attr_option<String>(kPartitionRule);
  // An attribute that no kind has is an error to ask for; the empty name stands for no rule.
  TVMRetValue none;
  none = String("");
  entry.UpdateAttr(kPartitionRule, none, 1);
}

// [[kind, {option: type}], ...] as TVM has them without this library: what stock tvmc lists.
TVM_REGISTER_GLOBAL("collage.StockTargetKinds").set_body_typed(StockTargetKindsJson);
TVM_REGISTER_GLOBAL("collage.MakeBackendRule").set_body_typed(MakeBackendRule);
TVM_REGISTER_GLOBAL("collage.MakePatternEntry").set_body_typed(MakePatternEntry);
// What answers to the names of TVM's prototype.
TVM_REGISTER_GLOBAL("collage.MakeBarePatternEntry")
    .set_body_typed([](String compiler, String composite, ObjectRef pattern) {
      return MakePatternEntry(compiler, composite, pattern, nullptr, nullptr);
    });
TVM_REGISTER_GLOBAL("collage.MakePatternEntryWithPredicate")
    .set_body_typed([](String compiler, String composite, ObjectRef pattern, PackedFunc predicate) {
      return MakePatternEntry(compiler, composite, pattern, Guarded(predicate), nullptr);
    });
// TVM's prototype lets patterns of a backend that says nothing else join freely, and joins chosen
// parts that touch.
TVM_REGISTER_GLOBAL("collage.MakePatternBackendRule")
    .set_body_typed([](String compiler, Array<PartitionRuleRef> entries) {
      PartitionRuleRef rule = MakeBackendRule(compiler, entries, "ArbitraryFusion", false);
      return PartitionRuleRef(JoinableRule(rule->rule));
    });
TVM_REGISTER_GLOBAL("collage.HasOpAttribute").set_body_typed([](String attribute) {
  return HasOpAttribute(attribute);
});
TVM_REGISTER_GLOBAL("collage.rules.Tvm").set_body_typed([] {
  return PartitionRuleRef(TvmRule(TvmRuleOptions(CollageOptions::Current())));
});
TVM_REGISTER_GLOBAL("collage.rules.Registered").set_body_typed([](String name) {
  return PartitionRuleRef(RegisteredRule(name, "collage.rules"));
});
// The rule, a function that makes one, a registered name, or "" for none.
TVM_REGISTER_GLOBAL("collage.SetPartitionRule").set_body([](runtime::TVMArgs args, TVMRetValue*) {
  static std::atomic<int> level{100};  // a kind keeps the value of the highest level
  TVMRetValue value;
  value = args[1];
  TargetKindRegEntry::RegisterOrGet(args[0].operator String())
      .UpdateAttr(kPartitionRule, value, ++level);
});

}  // namespace tvm::collage
