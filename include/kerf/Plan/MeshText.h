//===- MeshText.h - degrees of axes as text ---------------------*- C++ -*-===//
#ifndef KERF_PLAN_MESHTEXT_H
#define KERF_PLAN_MESHTEXT_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kerf::plan {

/// Adds the axes of `text` ("dp=2,tp=4") to PlanOptions::mesh, which planning
/// checks. The error text, or empty.
std::string parseMeshText(llvm::StringRef text,
                          std::vector<std::pair<std::string, int64_t>> &mesh);

/// Whether the degrees of `mesh` multiply to a divisor of `devices`. The error
/// text, or empty; also where a degree is below 1, which planning refuses.
std::string
checkDegrees(const std::vector<std::pair<std::string, int64_t>> &mesh,
             int64_t devices);

/// ", which 2, 4, 8 and 16 do": numbers above 1 that divide `size`, those
/// nearest to `wanted` where there are many.
std::string divisorsText(int64_t size, int64_t wanted);

} // namespace kerf::plan

#endif // KERF_PLAN_MESHTEXT_H
