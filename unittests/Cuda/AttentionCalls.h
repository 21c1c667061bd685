//===- AttentionCalls.h - calls of attention in memory ----------*- C++ -*-===//
//
// A descriptor with memory for each of its operands, filled with random
// numbers, and what docs/Package.md says that it computes, as loops in double.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_CUDA_ATTENTIONCALLS_H
#define KERF_UNITTESTS_CUDA_ATTENTIONCALLS_H

#include "package/AttentionOperands.h"

#include <map>
#include <string>
#include <vector>

namespace kerf::test {

using namespace kerf::rt;

/// A tensor over its logical dimensions, dense.
struct Dense {
  Shape dims;
  std::vector<double> values;
  double &at(int64_t b, int64_t h, int64_t i, int64_t c = 0) {
    int64_t columns = dims.size() > 3 ? dims[3] : 1;
    return values[static_cast<size_t>(
        ((b * dims[1] + h) * dims[2] + i) * columns + c)];
  }
};

/// To the nearest number of the type.
float rounded(double value, kerf_dtype_t dtype);

template <typename Visit> void forEachPlace(const Shape &dims, Visit visit) {
  Shape at(dims.size(), 0);
  for (int64_t n = 0; n < numElements(dims); ++n) {
    visit(at, n);
    for (size_t d = dims.size(); d-- > 0 && ++at[d] == dims[d];)
      at[d] = 0;
  }
}

struct AttentionCallData {
  LibraryDesc desc;
  /// Inputs, and what the reference makes of them (dst: out, or dq).
  std::map<std::string, Dense> tensors;
  std::vector<std::vector<char>> memory;

  bool gradient() const { return desc.kind == LibraryDesc::AttentionGradient; }
  std::string logical(const std::string &name) const {
    return name == "dst" ? gradient() ? "dq" : "out" : name;
  }
  /// Element `at` of an operand in its memory.
  void write(const AttentionOperand &o, int64_t at, double value);
  double read(const AttentionOperand &o, int64_t at) const;
  /// Inputs into memory, rounded; then the reference of what they are there.
  void finish();
  /// Every result against the reference, within `unit` of the largest.
  void compare(double unit);
};

/// How far results of this type may be off, of the largest.
double unitOf(kerf_dtype_t dtype);

Operand bufferOperand(int64_t index);

/// Random sizes, values and views.
AttentionCallData randomAttention(unsigned seed, bool gradient,
                                  kerf_dtype_t dtype);

} // namespace kerf::test

#endif // KERF_UNITTESTS_CUDA_ATTENTIONCALLS_H
