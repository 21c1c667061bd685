//===- MatmulPlan.cpp - a row-major matmul as column-major ones -----------===//
//
// A view with strides (sr, sc) of an R x C matrix is column-major if sr = 1,
// and the transpose of a column-major one if sc = 1. Batch dimensions are
// merged as far as the strides of all operands allow; the largest remaining one
// becomes cuBLASLt's batch, the others are loops.
//
//===----------------------------------------------------------------------===//
#include "MatmulPlan.h"

#include <algorithm>

using namespace kerf::rt;

namespace {
[[noreturn]] void refuse(const std::string &why) {
  throw Error(KERF_BAD_PACKAGE, "matmul on a GPU: " + why);
}

Shape stridesOf(const Operand &operand, const Shape &dims) {
  if (!operand.strides.empty())
    return operand.strides;
  Shape strides = denseStrides(dims);
  if (operand.transpose) {
    size_t last = dims.size() - 1;
    strides[last - 1] = 1;
    strides[last] = dims[last - 1];
  }
  return strides;
}

// Describes op(X), rows x cols with strides sr and sc, as a matrix with a
// leading dimension, transposed or not; false if the strides allow neither.
bool makeMatrix(int64_t rows, int64_t cols, int64_t sr, int64_t sc,
                LtMatrix &x) {
  if (rows == 1)
    sr = 1;
  if (cols == 1 && sr == 1)
    sc = rows;
  if (sr == 1 && sc >= rows) {
    x.rows = rows;
    x.cols = cols;
    x.ld = sc;
    return true;
  }
  if (cols == 1)
    sc = 1;
  if (sc == 1 && sr >= cols) {
    x.rows = cols;
    x.cols = rows;
    x.ld = sr;
    x.transposed = true;
    return true;
  }
  return false;
}

LtMatrix matrixOf(int64_t rows, int64_t cols, int64_t sr, int64_t sc,
                  const char *what) {
  LtMatrix x;
  if (makeMatrix(rows, cols, sr, sc, x))
    return x;
  refuse(cat(what, " has strides ", sr, " and ", sc,
             ", expected one of them to be 1 and none to be 0"));
}

struct Batch {
  int64_t count, lhs, rhs, dst, added;
};

/// The post-ops as one epilogue of cuBLASLt, which has its steps in one order.
void takePostOps(const LibraryDesc &desc, MatmulPlan &plan) {
  size_t i = 0;
  const auto &ops = desc.postOps;
  plan.bias = desc.bias.kind != Operand::None;
  if (i < ops.size() && ops[i].kind == "linear" && ops[i].beta == 0 &&
      !plan.bias) {
    plan.alpha = ops[i].alpha;
    ++i;
  }
  if (i < ops.size() && ops[i].kind == "sum") {
    plan.addsDst = true;
    ++i;
  } else if (i < ops.size() && ops[i].kind == "add") {
    plan.added = &ops[i].operand;
    ++i;
  }
  if (i < ops.size() && (ops[i].kind == "relu" || ops[i].kind == "gelu_tanh")) {
    plan.activation =
        ops[i].kind == "relu" ? MatmulPlan::Relu : MatmulPlan::Gelu;
    ++i;
  }
  if (i < ops.size() && ops[i].kind == "gelu_tanh_gradient" &&
      plan.activation == MatmulPlan::None && !plan.usesC() && !plan.bias) {
    plan.activation = MatmulPlan::GeluGradient;
    plan.aux = &ops[i++].operand;
    if (desc.dtype == KERF_F64)
      refuse("gelu_tanh_gradient of f64");
  }
  if (i != ops.size())
    refuse("post-op " + ops[i].kind + " is none of its epilogues");
}

/// The product as strides, while its batch dimensions are merged.
class Product {
public:
  Product(const LibraryDesc &desc, const MatmulPlan &plan);
  /// Batches that share rhs become more rows of one product.
  void mergeIntoRows();
  /// The matrices of one product, in the order that cuBLASLt wants.
  void setMatrices(MatmulPlan &plan) const;
  /// The largest batch is cuBLASLt's, others are loops.
  void setBatches(MatmulPlan &plan);

private:
  Shape dimsOf(int64_t rows, int64_t columns) const {
    Shape dims = desc.batch;
    dims.push_back(rows);
    dims.push_back(columns);
    return dims;
  }
  void mergeBatches();

  const LibraryDesc &desc;
  size_t dims; ///< of the batch; rows are dimension `dims` of strides
  Shape lhs, rhs, dst, added; ///< strides
  int64_t m, lhsRow, dstRow, addedRow;
  std::vector<Batch> batches; ///< outermost first
};

Product::Product(const LibraryDesc &desc, const MatmulPlan &plan)
    : desc(desc), dims(desc.batch.size()),
      lhs(stridesOf(desc.lhs, dimsOf(desc.m, desc.k))),
      rhs(stridesOf(desc.rhs, dimsOf(desc.k, desc.n))),
      dst(stridesOf(desc.dst, dimsOf(desc.m, desc.n))), m(desc.m) {
  const Operand *side = plan.added ? plan.added : plan.aux;
  added = side ? stridesOf(*side, dimsOf(desc.m, desc.n)) : dst;
  lhsRow = lhs[dims];
  dstRow = dst[dims];
  addedRow = added[dims];
  mergeBatches();
}

/// Neighbouring batch dimensions become one where one stride describes both for
/// every tensor.
void Product::mergeBatches() {
  for (size_t d = 0; d < dims; ++d) {
    Batch next{desc.batch[d], lhs[d], rhs[d], dst[d], added[d]};
    if (next.count == 1)
      continue;
    if (next.dst == 0)
      refuse("dst has a batch stride of 0");
    if (!batches.empty()) {
      Batch &outer = batches.back();
      if (outer.lhs == next.lhs * next.count &&
          outer.rhs == next.rhs * next.count &&
          outer.dst == next.dst * next.count &&
          outer.added == next.added * next.count) {
        next.count *= outer.count;
        batches.pop_back();
      }
    }
    batches.push_back(next);
  }
}

void Product::mergeIntoRows() {
  while (!batches.empty()) {
    const Batch &last = batches.back();
    if (m == 1) { // rows are then as far apart as the batches
      lhsRow = last.lhs;
      dstRow = last.dst;
      addedRow = last.added;
    }
    LtMatrix x, y, z;
    int64_t rows = m * last.count;
    if (last.rhs != 0 || last.lhs != m * lhsRow || last.dst != m * dstRow ||
        last.added != m * addedRow ||
        !makeMatrix(rows, desc.k, lhsRow, lhs[dims + 1], x) ||
        !makeMatrix(rows, desc.n, dstRow, dst[dims + 1], y) ||
        !makeMatrix(rows, desc.n, addedRow, added[dims + 1], z) ||
        !y.transposed || !z.transposed)
      break;
    m = rows;
    batches.pop_back();
  }
  if (m == desc.m) { // nothing was merged
    lhsRow = lhs[dims];
    dstRow = dst[dims];
    addedRow = added[dims];
  }
}

void Product::setMatrices(MatmulPlan &plan) const {
  int64_t lhsCol = lhs[dims + 1], dstCol = dst[dims + 1],
          addedCol = added[dims + 1];
  // Row-major dst: its transposed is column-major and A is rhs.
  plan.lhsIsA = !(dstCol == 1 || desc.n == 1) && (dstRow == 1 || m == 1);
  plan.k = desc.k;
  if (plan.lhsIsA) {
    plan.m = m;
    plan.n = desc.n;
    plan.a = matrixOf(m, desc.k, lhsRow, lhsCol, "lhs");
    plan.b = matrixOf(desc.k, desc.n, rhs[dims], rhs[dims + 1], "rhs");
    plan.d = matrixOf(m, desc.n, dstRow, dstCol, "dst");
    plan.c = matrixOf(m, desc.n, addedRow, addedCol, "the added tensor");
    if (plan.bias)
      refuse("a bias along a dimension of dst whose stride is not 1");
  } else {
    plan.m = desc.n;
    plan.n = m;
    plan.a = matrixOf(desc.n, desc.k, rhs[dims + 1], rhs[dims], "rhs");
    plan.b = matrixOf(desc.k, m, lhsCol, lhsRow, "lhs");
    plan.d = matrixOf(desc.n, m, dstCol, dstRow, "dst");
    plan.c = matrixOf(desc.n, m, addedCol, addedRow, "the added tensor");
  }
  if (plan.d.transposed || plan.c.transposed)
    refuse("dst and the added tensor lie in different orders");
  if (plan.bias && !desc.bias.strides.empty() && desc.bias.strides[0] != 1 &&
      desc.n != 1)
    refuse("the bias has a stride other than 1");
}

void Product::setBatches(MatmulPlan &plan) {
  if (!batches.empty()) {
    auto largest = std::max_element(
        batches.begin(), batches.end(),
        [](const Batch &x, const Batch &y) { return x.count < y.count; });
    plan.batch = largest->count;
    (plan.lhsIsA ? plan.a : plan.b).batchStride = largest->lhs;
    (plan.lhsIsA ? plan.b : plan.a).batchStride = largest->rhs;
    plan.d.batchStride = largest->dst;
    plan.c.batchStride = largest->added;
    batches.erase(largest);
  }
  for (const Batch &b : batches)
    plan.loops.push_back({b.count, plan.lhsIsA ? b.lhs : b.rhs,
                          plan.lhsIsA ? b.rhs : b.lhs, b.added, b.dst});
}
} // namespace

MatmulPlan kerf::rt::planMatmul(const LibraryDesc &desc) {
  MatmulPlan plan;
  takePostOps(desc, plan);
  Product product(desc, plan);
  product.mergeIntoRows();
  product.setMatrices(plan);
  product.setBatches(plan);
  return plan;
}

int64_t kerf::rt::extentOf(const MatmulPlan &plan, const LtMatrix &x,
                           int64_t MatmulPlan::Loop::*stride) {
  int64_t last =
      (x.cols - 1) * x.ld + x.rows - 1 + (plan.batch - 1) * x.batchStride;
  for (const MatmulPlan::Loop &loop : plan.loops)
    last += (loop.count - 1) * (loop.*stride);
  return last + 1;
}
