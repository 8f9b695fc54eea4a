// SPDX-License-Identifier: Apache-2.0
// Net-like graphs as text for G: shapes of well known networks, without their sizes.
#pragma once

#include <string>
#include <vector>

namespace tvm::collage::testing {

class NetText {
 public:
  NetText() { last_ = Leaf("var"); }
  std::string Text() const { return text_; }
  const std::string& last() const { return last_; }
  void SetLast(const std::string& name) { last_ = name; }

  std::string Add(const std::string& expression) {
    last_ = "v" + std::to_string(next_++);
    text_ += last_ + "=" + expression + ";";
    return last_;
  }
  std::string Leaf(const std::string& kind) {
    const std::string name = "v" + std::to_string(next_++);
    text_ += name + ":" + kind + ";";
    return name;
  }

  std::string ConvBiasRelu(const std::string& in) {
    const std::string conv = Add("nn.conv2d(" + in + "," + Leaf("const") + ")@4");
    return Add("nn.relu(" + Add("add(" + conv + "," + Leaf("const") + ")@1") + ")");
  }
  std::string Concat(const std::vector<std::string>& fields) {
    std::string tuple = "(";
    for (const std::string& field : fields) tuple += (tuple.size() > 1 ? "," : "") + field;
    return Add("concatenate(" + Add(tuple + ")") + ")@2");
  }

 private:
  std::string text_;
  std::string last_;
  int next_ = 0;
};

// Blocks of four branches, pooling among them, each ended by a concatenation.
inline std::string InceptionText(int num_blocks) {
  NetText net;
  for (int block = 0; block < num_blocks; ++block) {
    const std::string in = net.last();
    std::vector<std::string> ends = {net.ConvBiasRelu(in)};
    ends.push_back(net.ConvBiasRelu(net.ConvBiasRelu(in)));
    ends.push_back(net.ConvBiasRelu(net.ConvBiasRelu(net.ConvBiasRelu(in))));
    ends.push_back(net.ConvBiasRelu(net.Add("nn.avg_pool2d(" + in + ")@4")));
    net.Concat(ends);
  }
  return net.Text();
}

// Concatenations one onto the other; each is normalised, activated and convolved twice.
inline std::string DenseNetText(int num_layers) {
  NetText net;
  for (int layer = 0; layer < num_layers; ++layer) {
    const std::string in = net.last();
    const std::string scaled = net.Add("multiply(" + in + "," + net.Leaf("const") + ")@1");
    const std::string shifted = net.Add("add(" + scaled + "," + net.Leaf("const") + ")@1");
    const std::string active = net.Add("nn.relu(" + shifted + ")");
    const std::string narrow = net.ConvBiasRelu(active);
    const std::string conv = net.Add("nn.conv2d(" + narrow + "," + net.Leaf("const") + ")@4");
    net.Concat({in, conv});
  }
  return net.Text();
}

// Transformer layers: attention of one batched head, two norms, a gelu.
inline std::string BertText(int num_layers) {
  NetText net;
  auto constant = [&]() { return net.Leaf("const"); };
  auto call = [&](const std::string& op, const std::string& args, int kind) {
    return net.Add(op + "(" + args + ")@" + std::to_string(kind));
  };
  auto dense = [&](const std::string& in) {
    const std::string flat = call("reshape", in, 2);
    const std::string product = call("nn.dense", flat + "," + constant(), 4);
    return call("add", call("reshape", product, 2) + "," + constant(), 1);
  };
  auto heads = [&](const std::string& in) {
    return call("transpose", call("reshape", dense(in), 2), 2);
  };
  auto norm = [&](const std::string& in) {
    const std::string centred = call("subtract", in + "," + call("mean", in, 3), 1);
    const std::string square = call("power", centred + "," + constant(), 1);
    const std::string variance = call("add", call("mean", square, 3) + "," + constant(), 1);
    const std::string unit = call("divide", centred + "," + call("sqrt", variance, 0), 1);
    const std::string scaled = call("multiply", unit + "," + constant(), 1);
    return call("add", scaled + "," + constant(), 1);
  };
  for (int layer = 0; layer < num_layers; ++layer) {
    const std::string in = net.last();
    const std::string query = heads(in);
    const std::string key = heads(in);
    const std::string value = heads(in);
    const std::string score = call("nn.batch_matmul", query + "," + key, 4);
    const std::string scaled = call("divide", score + "," + constant(), 1);
    const std::string weight = call("nn.softmax", scaled, 8);
    const std::string mixed = call("nn.batch_matmul", weight + "," + value, 4);
    const std::string joined = call("reshape", call("transpose", mixed, 2), 2);
    const std::string first = norm(call("add", dense(joined) + "," + in, 1));
    const std::string wide = dense(first);
    const std::string erf = call("erf", call("multiply", wide + "," + constant(), 1), 0);
    const std::string half = call("multiply", wide + "," + constant(), 1);
    const std::string gelu =
        call("multiply", half + "," + call("add", erf + "," + constant(), 1), 1);
    norm(call("add", dense(gelu) + "," + first, 1));
  }
  return net.Text();
}

// Residual blocks of two convolutions.
inline std::string ResNetText(int num_blocks) {
  NetText net;
  for (int block = 0; block < num_blocks; ++block) {
    const std::string in = net.last();
    const std::string conv =
        net.Add("nn.conv2d(" + net.ConvBiasRelu(in) + "," + net.Leaf("const") + ")@4");
    const std::string sum = net.Add("add(" + conv + "," + in + ")@1");
    net.Add("nn.relu(" + sum + ")");
  }
  return net.Text();
}

}  // namespace tvm::collage::testing
