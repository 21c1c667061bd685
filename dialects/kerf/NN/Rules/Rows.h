//===- Rows.h - indices of rows that no device holds ------------*- C++ -*-===//
//
// A gather whose rows are cut gives zero for rows of other devices, but an
// index that no device holds must stay an error at run time.
// GatherOp::buildLocal turns such an index i into kNoRow + i (i clamped to
// +-2^40); evaluating a `partial` gather fails on any index below kNoRow / 2.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_NN_RULES_ROWS_H
#define KERF_NN_RULES_ROWS_H

#include <cstdint>

namespace kerf::nn {

inline constexpr int64_t kNoRow = -(int64_t(1) << 62);

} // namespace kerf::nn

#endif // KERF_NN_RULES_ROWS_H
