//===- GemmLevels.h - a test for each set of kernels ------------*- C++ -*-===//
#ifndef KERF_UNITTESTS_RUNTIME_GEMMLEVELS_H
#define KERF_UNITTESTS_RUNTIME_GEMMLEVELS_H

#include "device/cpu/gemm/Gemm.h"

#include <gtest/gtest.h>

namespace kerf::rt {

/// Runs where this CPU and system have the level's instructions.
class GemmLevels : public testing::TestWithParam<GemmLevel> {
protected:
  void SetUp() override {
    kernels = gemmKernels(GetParam());
    if (!kernels)
      GTEST_SKIP() << "this CPU or system does not run them";
  }
  const GemmKernels *kernels = nullptr;
};

inline auto gemmLevels() {
  return testing::Values(GemmLevel::Avx512, GemmLevel::Amx);
}
inline std::string
gemmLevelName(const testing::TestParamInfo<GemmLevel> &info) {
  return info.param == GemmLevel::Amx ? "Amx" : "Avx512";
}

} // namespace kerf::rt

#endif // KERF_UNITTESTS_RUNTIME_GEMMLEVELS_H
