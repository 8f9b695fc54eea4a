// SPDX-License-Identifier: Apache-2.0
#include "rule_objects.h"

#include "import_pattern.h"
#include "options.h"
#include "user_error.h"

namespace tvm::collage {

TVM_REGISTER_OBJECT_TYPE(PartitionRuleNode);

PartitionRuleRef::PartitionRuleRef(RulePtr rule, PatternEntry entry) {
  auto node = runtime::make_object<PartitionRuleNode>();
  node->rule = std::move(rule);
  node->entry = std::move(entry);
  data_ = std::move(node);
}

namespace {

thread_local const ImportedFunction* current_import = nullptr;

/*! \brief What the predicate raised, without the stack that TVM's errors carry. */
std::string LastLine(std::string message) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  size_t end_of_line = message.rfind('\n');
  return end_of_line == std::string::npos ? message : message.substr(end_of_line + 1);
}

/*!
 * \brief A user's predicate over the matched expression: true accepts, false refuses, a text
 * refuses with that reason. What it raises is a refusal too, never an abort.
 */
Verdict Ask(const PackedFunc& predicate, const ObjectRef& expr) {
  try {
    TVMRetValue answer = predicate(expr);
    if (answer.type_code() == kTVMStr || answer.IsObjectRef<String>()) {
      std::string reason = answer;
      return reason.empty() ? Verdict::Accept() : Verdict::Refuse(reason);
    }
    const bool accepted = answer;
    return accepted ? Verdict::Accept() : Verdict::Refuse("its predicate refused");
  } catch (const std::exception& error) {
    return Verdict::Refuse("unsupported: its predicate raised " + LastLine(error.what()));
  }
}

MatchPredicate AsPredicate(const PackedFunc& predicate) {
  return [predicate](const DataflowGraph&, const Match& match) {
    return Ask(predicate, ImportScope::Current().exprs[match.root]);
  };
}

/*! \brief What the op attribute `target.<compiler>` says of a call outside any pattern. */
CallPredicate BareCallPredicate(const std::string& compiler) {
  return [attribute = "target." + compiler](const DataflowGraph&, NodeIndex index) {
    const ObjectRef& call = ImportScope::Current().exprs[index];
    TVMRetValue takes = CallGlobal("ir.OpGetAttr", RefField(call, "op"), String(attribute));
    if (takes.type_code() != kTVMPackedFuncHandle) {
      return Verdict::Refuse("it takes the op only inside its patterns, if at all");
    }
    return Ask(takes, call);
  };
}

FusionStyle StyleFromName(const std::string& name, const std::string& compiler) {
  if (name == "NoFusion") return FusionStyle::kNone;
  if (name == "TVMFusion") return FusionStyle::kTvm;
  if (name == "ArbitraryFusion") return FusionStyle::kArbitrary;
  ThrowUserError("ValueError", "option relay.collage.byoc_fusion_style has " + compiler + "." +
                                   name + ": use NoFusion, TVMFusion or ArbitraryFusion");
}

/*! \brief The style that the option "<compiler>.<style>" asks for, else the backend's own. */
FusionStyle StyleOf(const std::string& compiler, const std::string& own,
                    const CollageOptions& options) {
  std::string name = own;
  for (const std::string& text : options.byoc_fusion_style) {
    if (text.compare(0, compiler.size() + 1, compiler + ".") == 0) {
      name = text.substr(compiler.size() + 1);
    }
  }
  return StyleFromName(name, compiler);
}

PartitionRuleRef MakeEntry(const String& compiler, const String& composite,
                           const ObjectRef& pattern, MatchPredicate predicate) {
  PatternEntry entry;
  entry.composite = composite;
  entry.pattern = ImportPattern(pattern);
  entry.predicate = std::move(predicate);
  std::string reason = UnsupportedReason(entry.pattern);
  if (!reason.empty()) {
    LOG(WARNING) << "pattern " << composite << " of backend " << compiler
                 << " is left out: " << reason;
  }
  return PartitionRuleRef(nullptr, std::move(entry));
}

/*! \brief TVM asks for an op even where the question is about all of them. */
ObjectRef AnyOp() { return CallGlobal("ir.GetOp", String("add")); }

PartitionRuleRef MakeBackendRule(String compiler, Array<PartitionRuleRef> entries, String style,
                                 bool regions) {
  CollageOptions options = CollageOptions::Current();
  RuleOptions rule_options;
  rule_options.max_depth = static_cast<int>(options.byoc_max_depth);
  rule_options.max_candidates_per_node = static_cast<int>(options.max_candidates_per_node);
  rule_options.fusion_style = StyleOf(compiler, style, options);
  rule_options.regions = regions;
  std::vector<PatternEntry> table;
  for (const PartitionRuleRef& entry : entries) table.push_back(entry->entry);
  // An attribute that no op has ever had is an error to ask for in TVM.
  const bool has_attribute =
      CallGlobal("ir.OpHasAttr", AnyOp(), String("target." + std::string(compiler)));
  return PartitionRuleRef(PatternBackendRule(
      table, rule_options, has_attribute ? BareCallPredicate(compiler) : CallPredicate()));
}

}  // namespace

ImportScope::ImportScope(const ImportedFunction* imported) : outer_(current_import) {
  current_import = imported;
}
// A predicate may itself run the pass, so scopes nest.
ImportScope::~ImportScope() { current_import = outer_; }
const ImportedFunction& ImportScope::Current() {
  ICHECK(current_import) << "InternalError: a predicate was asked outside of the pass";
  return *current_import;
}

TVM_REGISTER_GLOBAL("collage.MakeBackendRule").set_body_typed(MakeBackendRule);
// TVM's prototype lets patterns of a backend that says nothing else join freely.
TVM_REGISTER_GLOBAL("collage.MakePatternBackendRule")
    .set_body_typed([](String compiler, Array<PartitionRuleRef> entries) {
      return MakeBackendRule(compiler, entries, "ArbitraryFusion", false);
    });
TVM_REGISTER_GLOBAL("collage.RuleSummary").set_body_typed([](PartitionRuleRef rule) {
  return String(rule->rule ? rule->rule->Summary() : Summary(rule->entry.pattern));
});

TVM_REGISTER_GLOBAL("collage.MakePatternEntry")
    .set_body_typed([](String compiler, String composite, ObjectRef pattern) {
      return MakeEntry(compiler, composite, pattern, nullptr);
    });
TVM_REGISTER_GLOBAL("collage.MakePatternEntryWithPredicate")
    .set_body_typed([](String compiler, String composite, ObjectRef pattern, PackedFunc predicate) {
      return MakeEntry(compiler, composite, pattern, AsPredicate(predicate));
    });

}  // namespace tvm::collage
