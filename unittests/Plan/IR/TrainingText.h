//===- TrainingText.h - a training step as IR, written by hand --*- C++ -*-===//
//
// A chain of linear layers with biases and nonlinearities, a mean squared
// error, its gradient and momentum updates, in the form that docs/Training.md
// asks of autodiff. Weights of the first and last layer may be tied.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_PLAN_TRAININGTEXT_H
#define KERF_UNITTESTS_PLAN_TRAININGTEXT_H

#include <map>
#include <string>
#include <vector>

namespace kerf::testing {

struct MlpSize {
  int batch = 8, width = 8, layers = 3;
  bool tied = false, clipped = false;
};

class MlpText {
public:
  explicit MlpText(const MlpSize &size) : s(size) {}

  std::string build() {
    std::string x = type({s.batch, s.width}), w = type({s.width, s.width}),
                b = type({s.width}), scalar = type({});
    types["%x"] = types["%labels"] = x;
    types["%lr"] = scalar;
    for (int i = 0; i < numWeights(); ++i) {
      source("%w" + std::to_string(i), "w" + std::to_string(i), w);
      source("%m" + std::to_string(i), "", w);
    }
    for (int i = 0; i < s.layers; ++i)
      source("%b" + std::to_string(i), "b" + std::to_string(i), b);
    constant("%mu", 0.9);
    constant("%one", 1);
    phase = "prologue";
    colocation = s.layers;
    op("%sq", "mul", {"%labels", "%labels"}, x);
    op("%n", "reduce sum", {"%sq"}, scalar, "", "dims [0, 1] ");
    op("%some", "max", {"%n", "%one"}, scalar);
    op("%inv", "div", {"%one", "%some"}, scalar);
    phase = "forward";
    std::string value = "%x";
    for (int i = 0; i < s.layers; ++i) {
      std::string n = std::to_string(i);
      colocation = i;
      op("%y" + n, "matmul", {value, weightOf(i)}, x);
      op("%z" + n, "add", {"%y" + n, "%b" + n}, x);
      op("%a" + n, "tanh", {"%z" + n}, x);
      value = "%a" + n;
    }
    colocation = s.layers;
    op("%d", "sub", {value, "%labels"}, x);
    op("%d2", "mul", {"%d", "%d"}, x);
    op("%sum", "reduce sum", {"%d2"}, scalar, "", "dims [0, 1] ");
    op("%loss", "mul", {"%sum", "%inv"}, scalar);
    accumulate("%l", "%loss");
    phase = "backward_input";
    op("%g" + std::to_string(s.layers), "mul", {"%d", "%inv"}, x);
    for (int i = s.layers - 1; i >= 0; --i) {
      std::string n = std::to_string(i);
      colocation = i;
      phase = "backward_input";
      op("%p" + n, "mul", {"%g" + std::to_string(i + 1), "%a" + n}, x);
      if (i > 0)
        op("%g" + n, "matmul", {"%p" + n, weightOf(i)}, x, "transpose_rhs");
      phase = "backward_weight";
      op("%db" + n, "reduce sum", {"%p" + n}, b, "", "dims [0] ");
      op("%dw" + n, "matmul",
         {i > 0 ? "%a" + std::to_string(i - 1) : "%x", "%p" + n}, w,
         "transpose_lhs");
      accumulate("%gb" + n, "%db" + n);
      if (!s.tied || (i > 0 && i + 1 < s.layers))
        accumulate("%gw" + n, "%dw" + n);
    }
    if (s.tied) {
      op("%dtied", "add", {"%dw0", "%dw" + std::to_string(s.layers - 1)}, w);
      accumulate("%gw0", "%dtied");
    }
    phase = "update";
    std::string norm;
    if (s.clipped) { // a sum over all gradients that all updates need
      for (int i = 0; i < numWeights(); ++i) {
        std::string n = std::to_string(i);
        colocation = i;
        op("%gg" + n, "mul", {"%gw" + n, "%gw" + n}, w);
        op("%gs" + n, "reduce sum", {"%gg" + n}, scalar, "", "dims [0, 1] ");
        if (i > 0)
          op("%gt" + n, "add", {norm, "%gs" + n}, scalar);
        norm = i > 0 ? "%gt" + n : "%gs" + n;
      }
    }
    for (int i = 0; i < numWeights(); ++i) {
      std::string n = std::to_string(i), g = "%gw" + n;
      colocation = i;
      if (s.clipped) {
        op("%gc" + n, "div", {g, norm}, w);
        g = "%gc" + n;
      }
      op("%mm" + n, "mul", {"%m" + n, "%mu"}, w);
      op("%mn" + n, "add", {"%mm" + n, g}, w);
      op("%s" + n, "mul", {"%mn" + n, "%lr"}, w);
      op("%wn" + n, "sub", {"%w" + n, "%s" + n}, w);
      assign("%w" + n, "%wn" + n);
      assign("%m" + n, "%mn" + n);
    }
    for (int i = 0; i < s.layers; ++i) {
      std::string n = std::to_string(i);
      colocation = i;
      op("%sb" + n, "mul", {"%gb" + n, "%lr"}, b);
      op("%bn" + n, "sub", {"%b" + n, "%sb" + n}, b);
      assign("%b" + n, "%bn" + n);
    }
    return "func.func @main(%x: " + x + " {kerf.name = \"x\"}, %labels: " + x +
           " {kerf.name = \"labels\"}, %lr: " + scalar +
           " {kerf.name = \"train.learning_rate\"}) -> (" + scalar +
           " {kerf.name = \"loss\"}) {\n" + body + "  return %l : " + scalar +
           "\n}\n";
  }

private:
  int numWeights() const { return s.tied ? s.layers - 1 : s.layers; }
  std::string weightOf(int layer) const {
    return "%w" + std::to_string(s.tied && layer + 1 == s.layers ? 0 : layer);
  }
  static std::string type(const std::vector<int> &shape) {
    std::string text = "tensor<";
    for (int size : shape)
      text += std::to_string(size) + "x";
    return text + "f32>";
  }
  std::string marks(const std::string &purpose = "") const {
    return "dist.step = #dist.step<" + phase + ", colocation " +
           std::to_string(colocation) +
           (purpose.empty() ? "" : ", " + purpose) + ">";
  }
  void source(const std::string &value, const std::string &weight,
              const std::string &of) {
    types[value] = of;
    body +=
        "  " + value +
        (weight.empty()
             ? " = nn.state \"m/" + value.substr(1) + "\" {init = 0.0 : f32}"
             : " = nn.weight \"" + weight + "\" file 0 at 0 {variable}") +
        " : " + of + "\n";
  }
  void constant(const std::string &value, double number) {
    types[value] = type({});
    body += "  " + value + " = nn.constant dense<" + std::to_string(number) +
            "> : tensor<f32>\n";
  }
  void op(const std::string &value, const std::string &name,
          const std::vector<std::string> &operands, const std::string &result,
          const std::string &attrs = "", const std::string &words = "") {
    types[value] = result;
    std::string list, of;
    for (const std::string &operand : operands) {
      list += (list.empty() ? "" : ", ") + operand;
      of += (of.empty() ? "" : ", ") + types.at(operand);
    }
    body += "  " + value + " = nn." + name + " " + list + " " + words + "{" +
            attrs + (attrs.empty() ? "" : ", ") + marks() + "} : (" + of +
            ") -> " + result + "\n";
  }
  void accumulate(const std::string &value, const std::string &from) {
    types[value] = types.at(from);
    body += "  " + value + " = dist.accumulate " + from + " {" +
            marks(value == "%l" ? "" : "gradient") + "} : (" + types[from] +
            ") -> " + types[from] + "\n";
  }
  void assign(const std::string &source, const std::string &value) {
    body += "  dist.assign " + source + ", " + value + " {" + marks() +
            "} : " + types.at(source) + "\n";
  }

  MlpSize s;
  std::string body, phase;
  int colocation = 0;
  std::map<std::string, std::string> types;
};

} // namespace kerf::testing

#endif // KERF_UNITTESTS_PLAN_TRAININGTEXT_H
