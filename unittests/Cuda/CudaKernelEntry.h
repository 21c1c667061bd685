//===- CudaKernelEntry.h - the manifest's entry of a kernel -----*- C++ -*-===//
#ifndef KERF_UNITTESTS_CUDA_CUDAKERNELENTRY_H
#define KERF_UNITTESTS_CUDA_CUDAKERNELENTRY_H

#include <nlohmann/json.hpp>

namespace kerf::rt::test {

/// Of a kernel whose buffers have 32 bytes each; the last is written.
inline nlohmann::json cudaKernel(const char *entry, int64_t buffers,
                                 int64_t scalars, bool fails = false) {
  nlohmann::json access = nlohmann::json::array(),
                 bytes = nlohmann::json::array();
  for (int64_t i = 0; i < buffers; ++i) {
    access.push_back(i + 1 == buffers ? "write" : "read");
    bytes.push_back(32);
  }
  return {{"entry", entry},     {"grid", {1, 1, 1}},  {"block", {32, 1, 1}},
          {"buffers", buffers}, {"scalars", scalars}, {"fails", fails},
          {"access", access},   {"bytes", bytes}};
}

} // namespace kerf::rt::test

#endif // KERF_UNITTESTS_CUDA_CUDAKERNELENTRY_H
