//===- Philox.h - numbers that depend on seed, name and index ---*- C++ -*-===//
//
// Philox 4x32-10 (Salmon et al., 2011): counter-based, so any part of a tensor
// can be drawn alone and every mesh and device gets the same numbers. Block b
// of four words gives elements 4 b to 4 b + 3.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RUNTIME_EXECUTION_PHILOX_H
#define KERF_RUNTIME_EXECUTION_PHILOX_H

#include "../package/Manifest.h"

namespace kerf::rt {

/// The four words of a block.
void philox(uint64_t key, uint64_t block, uint32_t (&words)[4]);

/// Draws elements of one stored tensor.
class SeededTensor {
public:
  SeededTensor(const SeededValues &values, const std::string &name);
  double at(int64_t element);

private:
  SeededValues values;
  uint64_t key;
  int64_t block = -1; ///< whose numbers are in `drawn`
  double drawn[4];
};

} // namespace kerf::rt

#endif // KERF_RUNTIME_EXECUTION_PHILOX_H
