//===- EmulatedCall.h - one library call on the emulated GPU ----*- C++ -*-===//
#ifndef KERF_UNITTESTS_GPU_EMULATEDCALL_H
#define KERF_UNITTESTS_GPU_EMULATEDCALL_H

#include "Harness.h"

#include <string>

namespace kerf::test {

/// A library call, which must be a kernel on GPUs, and its buffers: inputs,
/// then results, each at the end of its memory.
class EmulatedCall {
public:
  /// `call` is the op's text; its operands are %a0, %a1, ... of these types.
  EmulatedCall(const std::string &call, llvm::ArrayRef<std::string> inputs,
               llvm::ArrayRef<std::string> results);

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
