//===- KernelEmitter.h - a planned kernel as LLVM IR ------------*- C++ -*-===//
//
// Problem: turn a KernelPlan into a loop nest in LLVM IR that is already in
// vectors, so that nothing depends on what an optimiser recognises.
//
// Idea: `pull` computes a value at symbolic indices. A result that does not
// change over the lanes of the innermost loop is a scalar, any other a vector
// of `lanes` elements; operators widen where both meet. The body of a loop is
// emitted once per width: the full vectors, and a last one of exactly the rest,
// which is known, as every shape is.
//
// Invariant: what `pull` returns dominates the current insertion point; entries
// of the innermost scope of the memo are dropped when the loop or branch that
// they were computed in ends. Nothing outside of the buffers is read or
// written.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LOWER_CODEGEN_KERNELEMITTER_H
#define KERF_LOWER_CODEGEN_KERNELEMITTER_H

#include "KernelPlan.h"
#include "VectorMath.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <functional>

namespace kerf::codegen {

/// What the emitter must know of a CPU.
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
  kApiShardIndex = 48,
  kApiCopy = 56,
  kApiFail = 64
};

/// How to launch an emitted kernel.
struct KernelLaunch {
  int64_t count = 0; ///< iterations of the parallel loop
  int64_t grain = 1; ///< fewest that are worth a thread
  /// Behind inputs and outputs it takes the table, the context and the node's
  /// name as further buffers.
  bool canFail = false;
};

class KernelEmitter {
public:
  KernelEmitter(KernelPlan &plan, llvm::Module &module, VectorTarget target);
  /// Defines `void name(ptr buffers, ptr scalars, i64 begin, i64 end)`.
  KernelLaunch emit(llvm::StringRef name);

private:
  using V = llvm::Value *;
  /// Values that are reduced together: one, or element and position.
  using State = llvm::SmallVector<V, 2>;
  using Combine = std::function<State(const State &, const State &)>;
  using Body = llvm::function_ref<void()>;

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
                 llvm::function_ref<void(V)> body);
  void ifThen(V condition, Body then);
  /// A value from one of two branches.
  V ifElse(V condition, llvm::function_ref<V()> then,
           llvm::function_ref<V()> otherwise);
  /// Vectors over `extent` values of `atom` from `base`: as many of `wide`
  /// lanes as fit, then native ones, then one of the rest.
  void forLanes(AtomId atom, V base, int64_t extent, int64_t wide, Body body);
  /// All elements of a row. With `lanesOuter` by scalar loops.
  void forRow(Flat &flat, int64_t wide, Body body);
  /// The widths that forRow will use.
  llvm::SmallVector<int64_t> rowWidths(const Flat &flat, int64_t wide);
  llvm::SmallVector<std::pair<int64_t, int64_t>> segments(const LoopVar &var);
  State reduceRow(Flat &flat, int64_t wide, const State &identity,
                  llvm::function_ref<State()> element, const Combine &combine);
  State foldLanes(State state, const State &identity, const Combine &combine);

  // Memory.cpp: indices, loads, stores, element types.
  V scalarIndex(const Index &index);
  V scalarAtom(AtomId atom);
  V laneIndex(const Index &index);
  V laneIndexAs(const Index &index, llvm::Type *type);
  bool variesOverLanes(const Index &index);
  std::optional<int64_t> laneStride(const Index &index);
  AtomId runtimeAtom(V value, int64_t low, int64_t high);
  V load(V pointer, mlir::Type element, const Index &flat, bool invariant);
  void store(V value, V pointer, mlir::Type element, const Index &flat);
  V widen(V value, int64_t to = 0);
  void widenAll(llvm::MutableArrayRef<V> values);
  llvm::Type *storageType(mlir::Type element);
  llvm::Type *computeType(mlir::Type element);
  llvm::Type *vectorOf(llvm::Type *type, int64_t width);
  V fromStorage(V raw, mlir::Type element);
  V toStorage(V value, mlir::Type element);
  V halfToFloat(V bits);
  V floatToHalf(V value);
  V floatToBFloat(V value);
  V constantOf(mlir::Type element, double value);
  V constantOf(mlir::Type element, mlir::Attribute value);
  V rowBuffer(int64_t count, llvm::Type *type);
  V entryAlloca(llvm::Type *type);

  // Values.cpp: ops that move elements.
  V pull(mlir::Value value, llvm::ArrayRef<Index> index);
  V pullOp(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullUses(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullGuarded(mlir::Value operand, const OperandUse &use,
                llvm::function_ref<V()> otherwise);
  V guardCondition(llvm::ArrayRef<Guard> guards);
  V pullConstant(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullIota(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullGather(mlir::Operation *op, llvm::ArrayRef<Index> index);
  void failIf(V bad, V detail, int code);

  // Elementwise.cpp
  V elementwise(mlir::Operation *op, llvm::MutableArrayRef<V> operands);
  V elementwiseFloat(mlir::Operation *op, llvm::ArrayRef<V> operands);
  V elementwiseInteger(mlir::Operation *op, llvm::ArrayRef<V> operands);
  V integerDivision(mlir::Operation *op, llvm::ArrayRef<V> operands);
  V integerPower(V base, V exponent, bool isUnsigned);
  V convert(V value, mlir::Type from, mlir::Type to);
  V powConstant(V x, double exponent);
  V philoxUniform(uint64_t stream, llvm::ArrayRef<V> operands);

  // Rows.cpp
  void computeRow(mlir::Operation *op);
  V pullRow(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V rowElement(mlir::Operation *op);
  State reduceFor(mlir::Operation *op, Flat &flat);
  State argReduceFor(mlir::Operation *op, Flat &flat);
  V sumRow(Flat &flat, int64_t wide, V like, llvm::function_ref<V()> element);

  // Windows.cpp
  V pullPool(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullLRN(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullMatmul(mlir::Operation *op, llvm::ArrayRef<Index> index);
  V pullConv(mlir::Operation *op, llvm::ArrayRef<Index> index);
  void forWindow(llvm::ArrayRef<int64_t> sizes, IndexVec &window, Body body);

  void pushScope() { scopes.emplace_back(); }
  void popScope() { scopes.pop_back(); }

  KernelPlan &plan;
  IndexSpace &space;
  llvm::Module &module;
  llvm::LLVMContext &context;
  VectorTarget target;
  llvm::IRBuilder<> b;
  VectorMath math;
  llvm::Function *function = nullptr;
  int64_t native; ///< lanes of one vector register of f32
  KernelLaunch launch;
  int64_t outerLoops = 0; ///< loops of `outer` that are parallel
  /// An input that is contiguous along another loop than the vectors': read in
  /// squares, which are transposed in registers into a buffer on the stack.
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

  /// Lanes of the code being emitted, and the atom that they run over.
  int64_t lanes = 1;
  AtomId laneAtom = ~0u;
  /// Current values: of loops (of lane 0), and of runtime atoms.
  llvm::DenseMap<AtomId, V> atomValues;
  llvm::DenseMap<mlir::Value, V> pointers;
  llvm::SmallVector<V> outputPointers;
  llvm::DenseMap<mlir::Value, bool> invariant;
  llvm::DenseMap<mlir::Operation *, V> constants;
  V api = nullptr, apiContext = nullptr, node = nullptr;

  std::vector<std::map<std::pair<void *, IndexVec>, V>> scopes;

  /// Of the current row: statistics of a Row op, and rows that are kept.
  llvm::DenseMap<mlir::Operation *, State> rowState;
  struct Kept {
    V buffer;
    IndexVec index;
    Index position;
  };
  llvm::DenseMap<mlir::Value, Kept> kept;
  llvm::DenseMap<mlir::Operation *, Kept> keptExp;
  int64_t stackBytes = 0;
};

} // namespace kerf::codegen

#endif // KERF_LOWER_CODEGEN_KERNELEMITTER_H
