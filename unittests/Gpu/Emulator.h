//===- Emulator.h - GPU kernels on the CPU ----------------------*- C++ -*-===//
//
// Problem: a kernel for GPUs must be shown to be right on a machine without
// one.
//
// Idea: the very LLVM IR from which PTX is made is compiled for this CPU, with
// the few things that are a GPU's own (thread and block numbers, barriers of
// blocks and warps, shuffles, ballots) turned into calls. Each thread of a
// block is a fiber; between two points where threads meet, fibers run one after
// the other in random order, so that a missing barrier gives wrong results.
// Blocks run in random order, too, and find garbage in shared memory.
//
// Errors: a barrier that not all threads of the block (or warp) reach, a
// shuffle or ballot that not all threads of a warp reach with the same
// distance, an access outside of a buffer (which ends at a page that may not be
// touched), a vector access that is not aligned.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_GPU_EMULATOR_H
#define KERF_UNITTESTS_GPU_EMULATOR_H

#include "kerf/Lower/Gpu.h"

#include <memory>
#include <random>

namespace kerf::test {

/// The record of docs/Cuda.md.
struct FailureRecord {
  uint32_t state, code, kernel, pad;
  int64_t detail;
};

class Emulator {
public:
  ~Emulator();

  /// Adds the code of an exec.kernel or of a library call; false: it has none.
  bool add(mlir::Operation *op, const std::string &name);
  /// The same of the batches of a kernel (docs/Cuda.md).
  bool addBatch(exec::KernelOp kernel, const std::string &name);
  /// Compiles what was added; an error message or nothing.
  std::string compile();
  /// Launches an entry with its buffers (without the record). An error message
  /// or nothing.
  /// With `only`, these blocks instead of all of the entry.
  std::string launch(const std::string &name, std::vector<void *> buffers,
                     FailureRecord &record, uint64_t seed,
                     const std::vector<uint32_t> &only = {});
  /// To show that a missing one is noticed: leave out all barriers of what is
  /// added from now on.
  bool dropBarriers = false;
  const GpuEntry &entry(const std::string &name) const {
    return entries.at(name).info;
  }

private:
  struct Entry {
    std::unique_ptr<llvm::LLVMContext> context;
    GpuEntry info;
    bool meets = false; ///< has barriers or shuffles
    std::vector<std::pair<std::string, int64_t>> shared; ///< name, bytes
  };
  bool take(Entry entry, const std::string &name);

  std::map<std::string, Entry> entries;
  void *library = nullptr;
};

} // namespace kerf::test

#endif // KERF_UNITTESTS_GPU_EMULATOR_H
