//===- EmulatedCall.h - one library call on the emulated GPU ----*- C++ -*-===//
#ifndef KERF_UNITTESTS_GPU_EMULATEDCALL_H
#define KERF_UNITTESTS_GPU_EMULATEDCALL_H

#include "Harness.h"

namespace kerf::test {

/// `exec.library 0 {DESCRIPTOR}`, which must be a kernel on GPUs, and its
/// buffers: inputs, then results, each at the end of its memory.
class EmulatedCall {
public:
  EmulatedCall(const std::string &descriptor, llvm::ArrayRef<size_t> inputBytes,
               llvm::ArrayRef<size_t> resultBytes);

  char *input(size_t n) const { return buffers[n]->data(); }
  char *result(size_t n) const { return buffers[inputs + n]->data(); }

  /// With `inPlace`, the first result is written over that input.
  void run(int64_t inPlace = -1) const;

private:
  Parsed parsed;
  size_t inputs;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
};

} // namespace kerf::test

#endif // KERF_UNITTESTS_GPU_EMULATEDCALL_H
