//===- DnnlPostOps.cpp - post-ops of the manifest as oneDNN's -------------===//
//
// Two tables, elementwise and binary; the rest composes them.
//
//===----------------------------------------------------------------------===//
#include "DnnlPostOps.h"

using namespace kerf::rt;

namespace {
struct NamedAlgorithm {
  const char *name;
  dnnl_alg_kind_t kind;
};
constexpr NamedAlgorithm eltwise[] = {{"relu", dnnl_eltwise_relu},
                                      {"leaky_relu", dnnl_eltwise_relu},
                                      {"tanh", dnnl_eltwise_tanh},
                                      {"sigmoid", dnnl_eltwise_logistic},
                                      {"gelu_erf", dnnl_eltwise_gelu_erf},
                                      {"gelu_tanh", dnnl_eltwise_gelu_tanh},
                                      {"silu", dnnl_eltwise_swish},
                                      {"exp", dnnl_eltwise_exp},
                                      {"abs", dnnl_eltwise_abs},
                                      {"sqrt", dnnl_eltwise_sqrt},
                                      {"square", dnnl_eltwise_square},
                                      {"elu", dnnl_eltwise_elu},
                                      {"clip", dnnl_eltwise_clip_v2},
                                      {"linear", dnnl_eltwise_linear},
                                      {"hardswish", dnnl_eltwise_hardswish}};
constexpr NamedAlgorithm binary[] = {
    {"add", dnnl_binary_add}, {"sub", dnnl_binary_sub},
    {"mul", dnnl_binary_mul}, {"div", dnnl_binary_div},
    {"max", dnnl_binary_max}, {"min", dnnl_binary_min}};

template <size_t N>
const NamedAlgorithm *find(const NamedAlgorithm (&table)[N],
                           const std::string &name) {
  for (const NamedAlgorithm &entry : table)
    if (name == entry.name)
      return &entry;
  return nullptr;
}
} // namespace

std::vector<SimplePostOp> kerf::rt::simplify(const PostOp &op) {
  auto eltwiseOf = [](dnnl_alg_kind_t kind, double alpha, double beta) {
    return SimplePostOp{SimplePostOp::Eltwise, kind, static_cast<float>(alpha),
                        static_cast<float>(beta), nullptr};
  };
  if (op.kind == "sum")
    return {{SimplePostOp::Sum, dnnl_alg_kind_undef, 0, 0, nullptr}};
  if (op.kind == "hardsigmoid")
    return {eltwiseOf(dnnl_eltwise_linear, op.alpha, op.beta),
            eltwiseOf(dnnl_eltwise_clip_v2, 0, 1)};
  if (const NamedAlgorithm *entry = find(eltwise, op.kind)) {
    // relu without slope, swish with the plain sigmoid.
    double alpha = op.kind == "relu" ? 0 : op.kind == "silu" ? 1 : op.alpha;
    return {eltwiseOf(entry->kind, alpha, op.beta)};
  }
  if (const NamedAlgorithm *entry = find(binary, op.kind)) {
    if (op.operand.kind == Operand::None)
      throw Error(KERF_BAD_PACKAGE, "post-op " + op.kind + " has no operand");
    return {{SimplePostOp::Binary, entry->kind, 0, 0, &op.operand}};
  }
  throw Error(KERF_BAD_PACKAGE, "unknown post-op \"" + op.kind + "\"");
}

bool kerf::rt::sharesConstants(const SimplePostOp &a, const SimplePostOp &b) {
  return a.kind == SimplePostOp::Eltwise && b.kind == SimplePostOp::Eltwise &&
         a.algorithm == b.algorithm && (a.alpha != b.alpha || a.beta != b.beta);
}

DnnlHandle<dnnl_primitive_attr_t> kerf::rt::makeAttributes(
    const std::vector<PostOp> &ops,
    const std::function<dnnl_memory_desc_t(const Operand &)> &describe,
    std::vector<BinaryPostOp> &binaries) {
  const Dnnl &dnnl = Dnnl::get();
  dnnl_primitive_attr_t rawAttr = nullptr;
  Dnnl::check(dnnl.dnnl_primitive_attr_create(&rawAttr), "attributes");
  DnnlHandle<dnnl_primitive_attr_t> attr(rawAttr,
                                         dnnl.dnnl_primitive_attr_destroy);
  Dnnl::check(dnnl.dnnl_primitive_attr_set_scratchpad_mode(
                  rawAttr, dnnl_scratchpad_mode_user),
              "scratchpad mode");
  dnnl_post_ops_t rawOps = nullptr;
  Dnnl::check(dnnl.dnnl_post_ops_create(&rawOps), "post-ops");
  DnnlHandle<dnnl_post_ops_t> postOps(rawOps, dnnl.dnnl_post_ops_destroy);
  int count = 0;
  for (const PostOp &op : ops)
    for (const SimplePostOp &simple : simplify(op)) {
      switch (simple.kind) {
      case SimplePostOp::Sum:
        if (count != 0)
          throw Error(KERF_BAD_PACKAGE, "post-op sum must come first");
        Dnnl::check(dnnl.dnnl_post_ops_append_sum(rawOps, 1.f), "post-op sum");
        break;
      case SimplePostOp::Eltwise:
        Dnnl::check(
            dnnl.dnnl_post_ops_append_eltwise(rawOps, 1.f, simple.algorithm,
                                              simple.alpha, simple.beta),
            "post-op");
        break;
      case SimplePostOp::Binary:
        binaries.push_back({count, simple.operand, describe(*simple.operand)});
        Dnnl::check(dnnl.dnnl_post_ops_append_binary(rawOps, simple.algorithm,
                                                     &binaries.back().desc),
                    "post-op");
        break;
      }
      ++count;
    }
  Dnnl::check(dnnl.dnnl_primitive_attr_set_post_ops(rawAttr, rawOps),
              "post-ops");
  return attr;
}
