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
  auto append = [&](dnnl_alg_kind_t kind, double alpha, double beta) {
    Dnnl::check(dnnl.dnnl_post_ops_append_eltwise(rawOps, 1.f, kind,
                                                  static_cast<float>(alpha),
                                                  static_cast<float>(beta)),
                "post-op");
    ++count;
  };
  for (const PostOp &op : ops) {
    if (op.kind == "sum") {
      if (count != 0)
        throw Error(KERF_BAD_PACKAGE, "post-op sum must come first");
      Dnnl::check(dnnl.dnnl_post_ops_append_sum(rawOps, 1.f), "post-op sum");
      ++count;
    } else if (op.kind == "hardsigmoid") {
      append(dnnl_eltwise_linear, op.alpha, op.beta);
      append(dnnl_eltwise_clip_v2, 0, 1);
    } else if (const NamedAlgorithm *entry = find(eltwise, op.kind)) {
      // relu without slope, swish with the plain sigmoid.
      double alpha = op.kind == "relu" ? 0 : op.kind == "silu" ? 1 : op.alpha;
      append(entry->kind, alpha, op.beta);
    } else if (const NamedAlgorithm *entry = find(binary, op.kind)) {
      if (op.operand.kind == Operand::None)
        throw Error(KERF_BAD_PACKAGE, "post-op " + op.kind + " has no operand");
      binaries.push_back({count++, &op.operand, describe(op.operand)});
      Dnnl::check(dnnl.dnnl_post_ops_append_binary(rawOps, entry->kind,
                                                   &binaries.back().desc),
                  "post-op");
    } else {
      throw Error(KERF_BAD_PACKAGE, "unknown post-op \"" + op.kind + "\"");
    }
  }
  Dnnl::check(dnnl.dnnl_primitive_attr_set_post_ops(rawAttr, rawOps),
              "post-ops");
  return attr;
}
