// SPDX-License-Identifier: Apache-2.0
#include "device_domains.h"

#include <tvm/runtime/device_api.h>

#include <numeric>

namespace tvm::collage {
namespace {

std::string DeviceText(int64_t type, int64_t id) {
  const std::string name = runtime::DLDeviceType2Str(static_cast<int>(type));
  return name + ":" + std::to_string(id < 0 ? 0 : id);
}

// Text of a VirtualDevice; empty when it leaves device and memory scope open.
std::string DeviceOf(const ObjectRef& virtual_device) {
  if (!virtual_device.defined()) return "";
  Fields fields(virtual_device);
  const int64_t type = fields.Int("device_type_int");
  const std::string scope = fields.Str("memory_scope");
  constexpr int64_t kNoDevice = -1;
  std::string text = type == kNoDevice ? "" : DeviceText(type, fields.Int("virtual_device_id"));
  if (!scope.empty() && scope != "global") text += " " + scope;
  return text;
}

// Sets of values on one device, and what is demanded of each set.
class Domains {
 public:
  // A node's value; one more value a node is what `on_device` and `device_copy` read.
  explicit Domains(int num_values) : parent_(num_values), demand_(num_values) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  void Join(int a, int b) {
    a = Find(a);
    b = Find(b);
    if (a == b) return;
    parent_[b] = a;
    Demand(a, demand_[b]);
  }
  void Demand(int value, const std::string& device) {
    if (device.empty()) return;
    is_any_ = true;
    std::string& demand = demand_[Find(value)];
    demand = demand.empty() || demand == device ? device : "several devices";
  }
  const std::string& DemandOf(int value) { return demand_[Find(value)]; }
  bool is_any() const { return is_any_; }

 private:
  int Find(int value) {
    while (parent_[value] != value) value = parent_[value] = parent_[parent_[value]];
    return value;
  }

  std::vector<int> parent_;
  std::vector<std::string> demand_;
  bool is_any_ = false;
};

// Does the node's input lie on the node's own device?
bool IsOnNodesDevice(const Node& node, size_t input, const Node& read) {
  switch (read.type) {
    case NodeType::kConstant:  // copied to where it is read
    case NodeType::kOp:
    case NodeType::kGlobalVar:
    case NodeType::kConstructor:
      return false;
    default:
      break;
  }
  // A condition is read by the host, a let's value is on its variable's device.
  const bool has_own_head =
      node.type == NodeType::kOther && (node.name == "If" || node.name == "Let");
  return !has_own_head || input > 0;
}

void JoinInputs(const std::vector<Node>& nodes, NodeIndex index, Domains* domains) {
  const Node& node = nodes[index];
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (IsOnNodesDevice(node, k, nodes[node.inputs[k]])) domains->Join(index, node.inputs[k]);
  }
}

// `on_device` and `device_copy` separate what they read from what they give.
void ReadAnnotation(const Node& node, NodeIndex index, const ObjectRef& call, Domains* domains) {
  Fields attrs(RefField(call, "attrs"));
  const NodeIndex body = node.inputs.back();
  if (node.name == "device_copy") {
    domains->Demand(body, DeviceOf(attrs.Ref("src_virtual_device")));
    domains->Demand(index, DeviceOf(attrs.Ref("dst_virtual_device")));
    return;
  }
  const std::string device = DeviceOf(attrs.Ref("virtual_device"));
  const bool is_body = attrs.Int("constrain_body") != 0;
  const bool is_result = attrs.Int("constrain_result") != 0;
  if (is_body) domains->Demand(body, device);
  if (is_result) domains->Demand(index, device);
  if (is_body == is_result) domains->Join(index, body);
}

}  // namespace

std::vector<std::string> DevicesOf(const ObjectRef& function, const std::vector<Node>& nodes,
                                   const std::vector<ObjectRef>& exprs, NodeIndex result) {
  Domains domains(static_cast<int>(nodes.size()));
  std::vector<NodeIndex> annotations;
  for (NodeIndex i = 0; i < static_cast<NodeIndex>(nodes.size()); ++i) {
    const Node& node = nodes[i];
    if (node.IsOpCall("on_device") || node.IsOpCall("device_copy")) {
      ReadAnnotation(node, i, exprs[i], &domains);
      annotations.push_back(i);
    } else if (node.type == NodeType::kVar || node.type == NodeType::kFunction) {
      domains.Demand(i, DeviceOf(RefField(exprs[i], "virtual_device_")));
    }
  }
  domains.Demand(result, DeviceOf(RefField(function, "virtual_device_")));
  std::vector<std::string> devices(nodes.size());
  if (!domains.is_any()) return devices;
  size_t next = 0;
  for (NodeIndex i = 0; i < static_cast<NodeIndex>(nodes.size()); ++i) {
    if (next < annotations.size() && annotations[next] == i) {
      ++next;
    } else {
      JoinInputs(nodes, i, &domains);
    }
  }
  for (NodeIndex i = 0; i < static_cast<NodeIndex>(nodes.size()); ++i) {
    devices[i] = domains.DemandOf(i);
  }
  return devices;
}

bool HasOwnDevice(const ObjectRef& expr) {
  return !DeviceOf(RefField(expr, "virtual_device_")).empty();
}

std::string DeviceOfTarget(const ObjectRef& target) {
  return DeviceText(CallGlobal("target.TargetGetDeviceType", target), 0);
}

}  // namespace tvm::collage
