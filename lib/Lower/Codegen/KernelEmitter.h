//===- KernelEmitter.h - a planned kernel as LLVM IR ------------*- C++ -*-===//
//
// Problem: turn a KernelPlan into a loop nest in LLVM IR that is already
// vectorised, so that performance does not depend on the optimiser.
//
// Idea: PullEmitter computes elements; this file has the loops around them. The
// body of a loop is emitted once per width: for full vectors, and for a last
// one with exactly the remaining elements, whose number is a constant since
// shapes are.
//
// Invariant: nothing outside of the buffers is read or written.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_KERNELEMITTER_H
#define KERF_LOWER_CODEGEN_KERNELEMITTER_H

#include "PullEmitter.h"

#include "llvm/IR/Module.h"

namespace kerf::codegen {

/// The properties of a CPU that the emitter uses.
struct VectorTarget {
  unsigned vectorBits = 128;
  bool hasF16C = false;
};

/// Position of an entry in kerf_program_api, in bytes.
enum ApiOffset : int64_t {
  kApiLaunch = 8,
  kApiLibrary = 16,
  kApiCollective = 24,
  kApiCollectiveStart = 32,
  kApiCollectiveWait = 40,
  kApiCopy = 56,
  kApiFail = 64,
  kApiStoreShardIndex = 72,
  kApiFailIndex = 80
};

/// How to launch an emitted kernel.
struct KernelLaunch {
  int64_t count = 0; ///< iterations of the parallel loop
  int64_t grain = 1; ///< fewest iterations that are worth a thread
  /// Whether it takes the table, the context and `numNames` names as further
  /// buffers behind inputs and outputs.
  bool canFail = false;
  /// Names of nodes, one of each of its failingOps().
  int64_t numNames = 0;
};

class KernelEmitter : private PullEmitter<LlvmBuilder> {
public:
  KernelEmitter(KernelPlan &plan, llvm::Module &module, VectorTarget target);
  /// Defines `void name(ptr buffers, ptr scalars, i64 begin, i64 end)`.
  KernelLaunch emit(llvm::StringRef name);

private:
  // KernelEmitter.cpp: function, parallel loop, stores.
  void emitParallelLoop(V begin, V end);
  void emitBlocks(V iteration, int64_t outerVars);
  void emitNest(int64_t next, int64_t outerVars, Body innermost);
  void emitRow();
  void storeOutputs(bool full);
  KernelLaunch chooseLaunch();
  void decompose(V iteration, llvm::ArrayRef<LoopVar> vars);
  void pullHoists();

  // Tiles.cpp: transposed reads.
  void chooseTile();
  void emitTiles(V iteration);
  void fillTiles();
  /// The register-sized rows of a square matrix to its columns.
  void transpose(llvm::MutableArrayRef<V> rows);

  // Loops.cpp
  void forStatic(int64_t count, int64_t step, V base,
                 llvm::function_ref<void(V)> body) override;
  void ifThen(V condition, Body then) override;
  V ifElse(V condition, llvm::function_ref<V()> then,
           llvm::function_ref<V()> otherwise) override;
  /// Vectors over `extent` values of `atom` from `base`: as many of `wide`
  /// lanes as fit, then native ones, then one of the rest.
  void forLanes(AtomId atom, V base, int64_t extent, int64_t wide, Body body);
  /// With `lanesOuter` by scalar loops.
  void forRow(Flat &flat, int64_t wide, Body body) override;
  /// The widths that forRow will use.
  llvm::SmallVector<int64_t> rowWidths(const Flat &flat, int64_t wide);
  llvm::SmallVector<std::pair<int64_t, int64_t>> segments(const LoopVar &var);
  State reduceRow(Flat &flat, int64_t wide, const State &identity,
                  llvm::function_ref<State()> element,
                  const Combine &combine) override;
  State foldLanes(State state, const State &identity, const Combine &combine);

  // Memory.cpp: loads, stores, element types.
  llvm::Type *indexType() override { return b.getInt64Ty(); }
  V loadInput(mlir::Value value, const Index &flat) override;
  V load(V pointer, mlir::Type element, const Index &flat,
         bool invariant) override;
  void store(V value, V pointer, mlir::Type element, const Index &flat);
  V constantData(mlir::Operation *op, mlir::DenseElementsAttr data) override;
  llvm::Type *storageType(mlir::Type element) override;
  V fromStorage(V raw, mlir::Type element) override;
  V toStorage(V value, mlir::Type element) override;
  V halfToFloat(V bits);
  V floatToHalf(V value);
  V floatToBFloat(V value);
  V rowBuffer(int64_t count, llvm::Type *type) override;
  V rowPlace(V buffer, llvm::Type *type, const Index &position) override;
  V loadRow(V place, llvm::Type *type) override;
  void storeRow(V value, V place) override;
  V entryAlloca(llvm::Type *type) override;
  /// Calls api->fail(context, code, node, detail).
  void failIf(mlir::Operation *op, V bad, V detail, int code) override;
  /// Calls api->fail_index(context, node, index, size).
  void failIndexIf(mlir::Operation *op, V bad, V index, int64_t size) override;
  /// Calls the entry with what `arguments` makes of the detail of the first bad
  /// lane.
  void reportIf(V bad, V detail, ApiOffset entry,
                llvm::function_ref<llvm::SmallVector<V>(V)> arguments);

  llvm::Module &module;
  llvm::LLVMContext &context;
  VectorTarget target;
  llvm::Function *function = nullptr;
  KernelLaunch launch;
  int64_t outerLoops = 0; ///< loops of `outer` that are parallel
  /// A transposed read: an input that is contiguous along another loop than the
  /// vectorised one. It is read in squares, which are transposed in registers
  /// into a buffer on the stack.
  struct Tile {
    mlir::Value value;
    Index flat;
    V buffer;
  };
  std::vector<Tile> tiles;
  int64_t tileLoop = -1; ///< in `outer`, the loop along which they are read
  int64_t tileBlock = 0; ///< iterations of it in one parallel iteration
  V tileRow = nullptr;   ///< row of the square that is being computed
  int64_t blockSize = 0; ///< of the vectorised loop, if it is parallel, too

  llvm::DenseMap<mlir::Value, V> pointers;
  llvm::SmallVector<V> outputPointers;
  llvm::DenseMap<mlir::Value, bool> invariant;
  V api = nullptr, apiContext = nullptr;
  llvm::DenseMap<mlir::Operation *, V> names; ///< of ops that can fail

  int64_t stackBytes = 0;
};

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_KERNELEMITTER_H
