//===- GpuEmitter.h - a planned kernel as a gpu.func ------------*- C++ -*-===//
//
// Problem: map the loops of a KernelPlan to blocks and threads so that memory
// is read in whole lines, in 16 bytes per thread where that can be.
//
// Idea: PullEmitter computes elements; this file maps loops to threads.
//
// - Elementwise (also windows and contractions): a thread computes `lanes`
//   neighbours in the innermost loop, several times over where there is enough
//   work. Neighbouring threads take neighbouring vectors.
// - Tiles: where an input is contiguous along another loop, a block of 32 x 8
//   threads brings a 32 x 32 square of it through shared memory.
// - Rows: a team of threads computes one row (of `lanes` rows, where lanes run
//   over rows). It shares the elements of the row; sums are taken per thread,
//   over lanes, by shuffles within a warp, then through shared memory.
//
// Invariant: all threads of a block reach each barrier and each shuffle: those
// beyond the last row compute it again and store nothing. The order of every
// reduction follows from the shape.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_GPU_GPUEMITTER_H
#define KERF_LOWER_GPU_GPUEMITTER_H

#include "GpuBuilder.h"

#include "../Codegen/PullEmitter.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <array>

namespace kerf::cuda {

using codegen::AtomId;
using codegen::Flat;
using codegen::Guard;
using codegen::Index;
using codegen::IndexVec;
using codegen::KernelPlan;
using codegen::LoopVar;

/// How to launch an entry.
struct GpuLaunch {
  std::array<int64_t, 3> grid = {0, 1, 1}, block = {1, 1, 1};
  bool canFail = false;
};

class GpuEmitter : private codegen::PullEmitter<GpuBuilder> {
public:
  /// `kernel`: the index that a failure records.
  GpuEmitter(KernelPlan &plan, mlir::gpu::GPUModuleOp module, int64_t kernel);
  /// Adds the gpu.func `name`.
  GpuLaunch emit(llvm::StringRef name);
  /// Adds the gpu.func `name` of a batch (GpuBatch.h); the plan is that of its
  /// form, which is one loop over elements, `parts` what batchParts gives.
  GpuLaunch emitBatch(llvm::StringRef name, llvm::ArrayRef<int64_t> parts);

private:
  using T = mlir::Type;
  /// Current values of loops, kept while several vectors are computed.
  using Atoms = llvm::DenseMap<AtomId, V>;

  // GpuEmitter.cpp: mapping of elements.
  void makeFunction(llvm::StringRef name);
  int64_t elementwiseLanes();
  void emitElementwise();
  void emitVectors(int64_t vectors, int64_t width, int64_t unroll);
  void emitTail(int64_t from);
  /// Values of the loops, the last in steps of `lanes`, from a linear number.
  void decompose(V number, llvm::ArrayRef<LoopVar> vars, int64_t lastStep);
  llvm::SmallVector<V> computeOutputs(bool full);
  void storeOutputs(llvm::ArrayRef<V> values, bool full);
  V threadIndex();
  V blockIndex();
  /// number < limit, or nothing to check.
  void guarded(V number, int64_t limit, int64_t threads, Body body);

  // GpuTiles.cpp
  bool chooseTiles();
  void emitTiles();

  // GpuRows.cpp
  void chooseTeam();
  int64_t lanesOf(const Flat &flat);
  void emitRows();
  void eachStep(int64_t count, int64_t step, llvm::function_ref<void(V)> body);
  State foldLanes(State state, const Combine &combine);
  State foldTeam(State state, const Combine &combine);
  V shuffle(V value, int64_t distance);

  // GpuMemory.cpp
  void forStatic(int64_t count, int64_t step, V base,
                 llvm::function_ref<void(V)> body) override;
  void ifThen(V condition, Body then) override;
  V ifElse(V condition, llvm::function_ref<V()> then,
           llvm::function_ref<V()> otherwise) override;
  V entryAlloca(T type) override;
  V loadInput(mlir::Value value, const Index &flat) override;
  V load(V pointer, mlir::Type element, const Index &flat,
         bool invariant) override;
  void store(V value, V pointer, mlir::Type element, const Index &flat);
  V constantData(mlir::Operation *op, mlir::DenseElementsAttr data) override;
  T storageType(mlir::Type element) override;
  V fromStorage(V raw, mlir::Type element) override;
  V toStorage(V value, mlir::Type element) override;
  void failIf(mlir::Operation *op, V bad, V detail, int code) override;
  // The record has no place for the size.
  void failIndexIf(mlir::Operation *op, V bad, V index, int64_t) override {
    failIf(op, bad, index, 1);
  }
  T indexType() override { return index; }
  bool lanesAgree(const Guard &guard) override;
  V shared(T element, int64_t count);
  /// Bytes that every reduction through shared memory may use in turn.
  V sharedScratch(int64_t bytes);
  void barrier();
  /// Elements of a vector at `flat` that one access may take.
  int64_t accessWidth(mlir::Type element, const Index &flat);

  void forRow(Flat &flat, int64_t wide, Body body) override;
  State reduceRow(Flat &flat, int64_t wide, const State &identity,
                  llvm::function_ref<State()> element,
                  const Combine &combine) override;
  V rowBuffer(int64_t count, T type) override;
  V rowPlace(V buffer, T type, const Index &position) override;
  V loadRow(V place, T type) override { return b.CreateLoad(type, place); }
  void storeRow(V value, V place) override { b.CreateStore(value, place); }

  /// What the module is lowered for; limits of blocks and accesses.
  exec::TargetAttr target;
  mlir::gpu::GPUModuleOp module;
  mlir::gpu::GPUFuncOp function;
  std::string name;
  int64_t kernel;
  T index;
  GpuLaunch launch;
  llvm::DenseMap<mlir::Value, V> pointers;
  llvm::SmallVector<V> outputPointers;
  llvm::DenseMap<mlir::Value, bool> invariant;
  V record = nullptr;
  int64_t numGlobals = 0, scratchBytes = 0;
  mlir::LLVM::GlobalOp lastShared, scratch;
  V scratchAddress = nullptr;
  /// The largest width of a vector here, by the types of the kernel.
  int64_t maxLanes = 4;

  /// Squares in shared memory, and the row of it that this thread computes.
  struct Tile {
    mlir::Value value;
    Index flat;
    V memory;
  };
  std::vector<Tile> tiles;
  int64_t tileLoop = -1;
  V tilePosition = nullptr;

  /// Threads that share a row, which of them this is, rows side by side.
  int64_t teamSize = 1, teams = 1;
  V teamThread = nullptr, teamNumber = nullptr;
  /// The step of an unrolled row loop that is being emitted, or -1.
  int64_t rowStep = -1;
  int64_t keptRegisters = 0;
};

} // namespace kerf::cuda

extern template class kerf::codegen::VectorMathOf<kerf::cuda::GpuBuilder>;
extern template class kerf::codegen::PullEmitter<kerf::cuda::GpuBuilder>;

#endif // KERF_LOWER_GPU_GPUEMITTER_H
