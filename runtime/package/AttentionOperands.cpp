//===- AttentionOperands.cpp - the operands of attention ------------------===//
#include "AttentionOperands.h"

using namespace kerf::rt;

Shape AttentionOperand::strides() const {
  return operand->strides.empty() ? denseStrides(dims) : operand->strides;
}

std::vector<AttentionOperand>
kerf::rt::attentionOperands(const LibraryDesc &desc) {
  const AttentionDesc &a = desc.attention;
  int64_t b = desc.batch.at(0);
  Shape q = {b, a.heads, a.queries, a.headSize},
        k = {b, a.keyHeads, a.keys, a.headSize},
        v = {b, a.keyHeads, a.keys, a.valueSize},
        out = {b, a.heads, a.queries, a.valueSize},
        scores = {b, a.heads, a.queries, a.keys},
        stats = {b, a.heads, a.queries};
  kerf_dtype_t type = desc.dtype;
  std::vector<AttentionOperand> all = {{"q", &desc.lhs, q, type},
                                       {"k", &desc.rhs, k, type},
                                       {"v", &a.v, v, type}};
  bool gradient = desc.kind == LibraryDesc::AttentionGradient;
  if (gradient) {
    all.push_back({"out", &a.out, out, type});
    all.push_back({"stats", &a.stats, stats, KERF_F32});
    all.push_back({"diff", &a.diff, out, type});
  }
  all.push_back({"bias", &desc.bias, scores, a.biasDtype, false, true});
  if (gradient) {
    all.push_back({"dst", &desc.dst, q, type, true});
    all.push_back({"dk", &a.dk, k, type, true});
    all.push_back({"dv", &a.dv, v, type, true});
  } else {
    all.push_back({"dst", &desc.dst, out, type, true});
    all.push_back({"stats", &a.stats, stats, KERF_F32, true});
  }
  return all;
}
