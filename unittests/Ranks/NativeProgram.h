//===- NativeProgram.h - programs of ranks as native code -------*- C++ -*-===//
//
// What a compiler that embeds Kerf does: kerf-call-runtime, then upstream
// passes down to LLVM, then machine code in memory, run by the runtime's thread
// ranks.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_RANKS_NATIVEPROGRAM_H
#define KERF_UNITTESTS_RANKS_NATIVEPROGRAM_H

#include "kerf/Interpret/Tensor.h"
#include "kerf/rt/ranks.h"

#include "mlir/ExecutionEngine/ExecutionEngine.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <map>
#include <memory>

namespace kerf::test {

/// A context of one thread with all dialects of Kerf and of MLIR.
struct NativeContext {
  NativeContext();
  mlir::MLIRContext context;
};

/// A dense buffer in host memory, as functions with a C interface take it.
class HostBuffer {
public:
  /// Elements of a tensor, rounded to the type.
  HostBuffer(mlir::RankedTensorType type, const interpret::Tensor &tensor);
  /// Bytes of no meaning.
  explicit HostBuffer(mlir::RankedTensorType type);

  interpret::Tensor tensor() const;
  void *data() { return bytes.data(); }
  /// The descriptor of a memref: allocated, aligned, offset, sizes, strides.
  void *descriptor() { return fields.data(); }

private:
  mlir::RankedTensorType type;
  std::vector<uint8_t> bytes;
  std::vector<int64_t> fields;
};

/// The arguments of a native function behind the rank: what it reads, and room
/// for what it gives.
class HostBuffers {
public:
  HostBuffers(mlir::FunctionType type,
              llvm::ArrayRef<interpret::Tensor> inputs);

  llvm::ArrayRef<HostBuffer *> all() const { return pointers; }
  interpret::Tensor input(size_t index) const {
    return buffers[index]->tensor();
  }
  interpret::Tensor result(size_t index) const {
    return buffers[numInputs + index]->tensor();
  }

private:
  size_t numInputs;
  std::vector<std::unique_ptr<HostBuffer>> buffers;
  std::vector<HostBuffer *> pointers;
};

class NativeProgram {
public:
  /// Lowers a partitioned module, which is changed, and compiles it. Null with
  /// a text in `why` if a pass or the compiler fails. `between`: passes to run
  /// between kerf-call-runtime and bufferization.
  static std::unique_ptr<NativeProgram>
  create(mlir::ModuleOp module, std::string &why, llvm::StringRef between = "");
  /// The address of a function or of data; null if there is none.
  void *lookup(llvm::StringRef name) const;

  /// Runs function `name` on all ranks, `times` over; buffers are its
  /// arguments behind the rank. Returns what the runtime says, empty if all is
  /// well. `sentBytes`, if given: what the ranks have sent in all. `parameters`
  /// by name: written before the first run, read behind the last.
  using Parameters = std::map<std::string, HostBuffer *>;
  std::string run(llvm::StringRef name, llvm::ArrayRef<HostBuffer *> buffers,
                  int times = 1, int64_t *sentBytes = nullptr,
                  const Parameters &parameters = {}) const;

private:
  std::unique_ptr<mlir::ExecutionEngine> engine;
};

} // namespace kerf::test

#endif // KERF_UNITTESTS_RANKS_NATIVEPROGRAM_H
