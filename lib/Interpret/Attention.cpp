//===- Attention.cpp - attention and its gradient -------------------------===//
//
// The formulas of NNAttention.td as loops over batch, heads, queries and keys.
//
//===----------------------------------------------------------------------===//
#include "Evaluate.h"

#include "kerf/NN/NN.h"

#include <cmath>

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

using Results = llvm::SmallVector<Tensor, 1>;

namespace {

/// What both ops share: sizes, scores of a query, rows of operands.
struct Rows {
  const Tensor &q, &k, &v;
  const Tensor *bias;
  double scale;
  bool causal;
  int64_t group;

  template <typename Op>
  Rows(Op op, Operands in, size_t biasAt)
      : q(*in[0]), k(*in[1]), v(*in[2]),
        bias(op.getBias() ? in[biasAt] : nullptr),
        scale(op.getScale().convertToDouble()), causal(op.getCausal()),
        group(q.shape[1] / k.shape[1]) {}

  int64_t seen(int64_t i) const {
    return causal ? std::min(i + 1, k.shape[2]) : k.shape[2];
  }
  /// The row `i` of a head.
  static double *row(std::vector<double> &data, const Tensor &of, int64_t b,
                     int64_t h, int64_t i) {
    return &data[((b * of.shape[1] + h) * of.shape[2] + i) * of.shape[3]];
  }
  static const double *row(const Tensor &of, int64_t b, int64_t h, int64_t i) {
    return row(const_cast<std::vector<double> &>(of.data), of, b, h, i);
  }
  static double dot(const double *x, const double *y, int64_t size) {
    double sum = 0;
    for (int64_t d = 0; d < size; ++d)
      sum += x[d] * y[d];
    return sum;
  }
  std::vector<double> scores(int64_t b, int64_t h, int64_t i) const {
    std::vector<double> s(seen(i));
    for (size_t j = 0; j < s.size(); ++j) {
      auto at = static_cast<int64_t>(j);
      s[j] = scale * dot(row(q, b, h, i), row(k, b, h / group, at), q.shape[3]);
      if (bias)
        s[j] += bias->broadcastAt({b, h, i, at});
    }
    return s;
  }
  void forEachQuery(
      llvm::function_ref<void(int64_t, int64_t, int64_t)> visit) const {
    for (int64_t b = 0; b < q.shape[0]; ++b)
      for (int64_t h = 0; h < q.shape[1]; ++h)
        for (int64_t i = 0; i < q.shape[2]; ++i)
          visit(b, h, i);
  }
};

Results attention(nn::AttentionOp op, Operands in) {
  Rows rows(op, in, 3);
  Tensor result(resultShape(op)), stats(ArrayRef(rows.q.shape).take_front(3));
  int64_t width = result.shape[3];
  rows.forEachQuery([&](int64_t b, int64_t h, int64_t i) {
    std::vector<double> s = rows.scores(b, h, i);
    double max = *std::max_element(s.begin(), s.end()), sum = 0;
    double *out = Rows::row(result.data, result, b, h, i);
    for (size_t j = 0; j < s.size(); ++j) {
      double p = std::exp(s[j] - max);
      sum += p;
      const double *from =
          Rows::row(rows.v, b, h / rows.group, static_cast<int64_t>(j));
      for (int64_t e = 0; e < width; ++e)
        out[e] += p * from[e];
    }
    for (int64_t e = 0; e < width; ++e)
      out[e] /= sum;
    stats.at({b, h, i}) = max + std::log(sum);
  });
  return {std::move(result), std::move(stats)};
}

Results attentionGradient(nn::AttentionGradientOp op, Operands in) {
  Rows rows(op, in, 6);
  const Tensor &result = *in[3], &stats = *in[4], &dy = *in[5];
  Tensor dq(rows.q.shape), dk(rows.k.shape), dv(rows.v.shape);
  int64_t size = rows.q.shape[3], width = rows.v.shape[3];
  rows.forEachQuery([&](int64_t b, int64_t h, int64_t i) {
    int64_t keyHead = h / rows.group;
    std::vector<double> s = rows.scores(b, h, i);
    const double *given = Rows::row(dy, b, h, i);
    double delta = Rows::dot(given, Rows::row(result, b, h, i), width);
    double *toQuery = Rows::row(dq.data, dq, b, h, i);
    for (size_t at = 0; at < s.size(); ++at) {
      auto j = static_cast<int64_t>(at);
      double p = std::exp(s[at] - stats.at({b, h, i}));
      const double *value = Rows::row(rows.v, b, keyHead, j);
      double ds = rows.scale * p * (Rows::dot(given, value, width) - delta);
      double *toKey = Rows::row(dk.data, dk, b, keyHead, j);
      double *toValue = Rows::row(dv.data, dv, b, keyHead, j);
      for (int64_t d = 0; d < size; ++d) {
        toQuery[d] += ds * Rows::row(rows.k, b, keyHead, j)[d];
        toKey[d] += ds * Rows::row(rows.q, b, h, i)[d];
      }
      for (int64_t e = 0; e < width; ++e)
        toValue[e] += p * given[e];
    }
  });
  return {std::move(dq), std::move(dk), std::move(dv)};
}

} // namespace

Results kerf::interpret::evaluateAttention(Operation *op, Operands operands) {
  if (auto it = dyn_cast<nn::AttentionOp>(op))
    return attention(it, operands);
  if (auto it = dyn_cast<nn::AttentionGradientOp>(op))
    return attentionGradient(it, operands);
  return {};
}
