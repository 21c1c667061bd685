//===- GptText.h - GPT-2 of any size as nn IR -------------------*- C++ -*-===//
//
// Weights are literals that stand for parameters, so the full size needs no
// memory. q, k and v are apart, as the importer leaves fused projections.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_PLAN_GPTTEXT_H
#define KERF_UNITTESTS_PLAN_GPTTEXT_H

#include <map>
#include <string>
#include <vector>

namespace kerf::testing {

struct GptSize {
  int layers = 12, batch = 8, sequence = 128, hidden = 768, heads = 12,
      vocabulary = 50257;
  bool embedding = true; ///< else one input of hidden states, no head
};

class GptText {
public:
  explicit GptText(const GptSize &size) : s(size) {}

  std::string build() {
    std::string state = type({s.batch, s.sequence, s.hidden});
    std::string argument =
        s.embedding ? type({s.batch, s.sequence}, "i64") : state;
    types["%in"] = argument;
    std::string value = "%in", wte;
    if (s.embedding) {
      wte = weight("wte", {s.vocabulary, s.hidden});
      value = op("gather", {wte, "%in"}, state, "dim 0");
      value = op("add", {value, weight("wpe", {s.sequence, s.hidden})}, state);
    }
    for (int layer = 0; layer < s.layers; ++layer)
      value = block(value, "h" + std::to_string(layer) + ".");
    if (s.embedding)
      value = op("matmul", {norm(value, "lnf"), wte},
                 type({s.batch, s.sequence, s.vocabulary}), "{transpose_rhs}");
    return "func.func @main(%in: " + argument + ") -> " + types[value] +
           " {\n" + body + "  return " + value + " : " + types[value] + "\n}\n";
  }

private:
  static std::string type(std::vector<int> shape, std::string element = "f32") {
    std::string text = "tensor<";
    for (int size : shape)
      text += std::to_string(size) + "x";
    return text + element + ">";
  }
  std::string fresh(const std::string &of) {
    std::string name = "%v" + std::to_string(count++);
    types[name] = of;
    return name;
  }
  std::string weight(const std::string &name, std::vector<int> shape) {
    std::string of = type(shape), value = fresh(of);
    body += "  " + value + " = nn.constant {name = \"" + name +
            "\"} dense<0.01> : " + of + "\n";
    return value;
  }
  std::string op(const std::string &name, std::vector<std::string> operands,
                 const std::string &result, const std::string &attrs = "") {
    std::string value = fresh(result), list, of;
    for (const std::string &operand : operands) {
      list += (list.empty() ? "" : ", ") + operand;
      of += (of.empty() ? "" : ", ") + types[operand];
    }
    body += "  " + value + " = nn." + name + " " + list + " " + attrs + " : (" +
            of + ") -> " + result + "\n";
    return value;
  }
  std::string norm(const std::string &x, const std::string &name) {
    return op(
        "layer_norm",
        {x, weight(name + ".g", {s.hidden}), weight(name + ".b", {s.hidden})},
        types[x], "dim 2 epsilon 1.0e-5");
  }
  std::string linear(const std::string &x, const std::string &name, int from,
                     int to) {
    std::string of = type({s.batch, s.sequence, to});
    return op("add",
              {op("matmul", {x, weight(name + ".w", {from, to})}, of),
               weight(name + ".b", {to})},
              of);
  }
  std::string block(const std::string &x, const std::string &p) {
    int depth = s.hidden / s.heads;
    std::string y = norm(x, p + "ln1");
    auto heads = [&](const char *name) {
      std::string z = linear(y, p + name, s.hidden, s.hidden);
      z = op("reshape", {z}, type({s.batch, s.sequence, s.heads, depth}));
      return op("transpose", {z}, type({s.batch, s.heads, s.sequence, depth}),
                "perm [0, 2, 1, 3]");
    };
    std::string q = heads("q"), k = heads("k"), v = heads("v");
    std::string square = type({s.batch, s.heads, s.sequence, s.sequence});
    std::string a = op("matmul", {q, k}, square, "{transpose_rhs}");
    a = op("softmax", {op("mul", {a, weight(p + "scale", {1})}, square)},
           square, "dim 3");
    std::string c =
        op("matmul", {a, v}, type({s.batch, s.heads, s.sequence, depth}));
    c = op("transpose", {c}, type({s.batch, s.sequence, s.heads, depth}),
           "perm [0, 2, 1, 3]");
    c = op("reshape", {c}, types[x]);
    std::string r =
        op("add", {x, linear(c, p + "o", s.hidden, s.hidden)}, types[x]);
    y = linear(norm(r, p + "ln2"), p + "fc", s.hidden, 4 * s.hidden);
    y = linear(op("gelu", {y}, types[y], "{tanh}"), p + "proj", 4 * s.hidden,
               s.hidden);
    return op("add", {r, y}, types[x]);
  }

  GptSize s;
  std::string body;
  std::map<std::string, std::string> types;
  int count = 0;
};

} // namespace kerf::testing

#endif // KERF_UNITTESTS_PLAN_GPTTEXT_H
