//===- Graph.h - blocks of ops that mean nothing ----------------*- C++ -*-===//
//
// What is decided about groups, orders and memory depends on who reads whom and
// on the answers to a few questions. So the tests make blocks of ops that no
// dialect knows, and answer from tables.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_UNITTESTS_FUSION_GRAPH_H
#define KERF_UNITTESTS_FUSION_GRAPH_H

#include "kerf/Fusion/Groups.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"

#include <functional>
#include <string>

namespace kerf::test {

class Graph {
public:
  Graph() { context.allowUnregisteredDialects(); }

  /// An op behind all others that reads `operands`.
  mlir::Operation *add(llvm::ArrayRef<mlir::Value> operands,
                       unsigned numResults = 1) {
    mlir::OpBuilder builder(&context);
    builder.setInsertionPointToEnd(&block);
    mlir::OperationState state(builder.getUnknownLoc(), "test.op");
    state.addOperands(operands);
    state.addTypes(
        llvm::SmallVector<mlir::Type>(numResults, builder.getI8Type()));
    return builder.create(state);
  }
  /// The same of the first results of `makers`.
  mlir::Operation *addReader(llvm::ArrayRef<mlir::Operation *> makers,
                             unsigned numResults = 1) {
    llvm::SmallVector<mlir::Value> operands;
    for (mlir::Operation *maker : makers)
      operands.push_back(maker->getResult(0));
    return add(operands, numResults);
  }

  llvm::SmallVector<mlir::Operation *> ops() {
    llvm::SmallVector<mlir::Operation *> list;
    for (mlir::Operation &op : block)
      list.push_back(&op);
    return list;
  }

  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::Block block;
};

/// Answers from tables. An op of which nothing is said is a kernel's, may be
/// computed with any other and is read wherever its result is.
class Answers : public FusionQuestions {
public:
  using Ops = llvm::ArrayRef<mlir::Operation *>;

  Role roleOf(mlir::Operation *op) const override {
    auto it = roles.find(op);
    return it == roles.end() ? Role::Kernel : it->second;
  }
  bool isDead(mlir::Operation *op) const override { return dead.contains(op); }
  bool follows(mlir::Operation *op) const override {
    if (!followers.contains(op) || !op->hasOneUse())
      return false;
    Role reader = roleOf(*op->user_begin());
    if (isAtLoad(*op->user_begin()) != isAtLoad(op))
      return false;
    return reader == Role::Kernel || reader == Role::Alone;
  }
  bool isAtLoad(mlir::Operation *op) const override {
    return atLoad.contains(op);
  }
  bool isCommunication(mlir::Operation *op) const override {
    return communication.contains(op);
  }
  bool mayJoin(mlir::Operation *op) const override {
    return !single.contains(op);
  }
  std::string whyNoKernel(Ops ops) const override {
    return refusal ? refusal(ops) : std::string();
  }
  bool canStay(mlir::Operation *op) const override {
    return !inlined.contains(op);
  }
  bool canFuse(Ops ops) const override { return !fuse || fuse(ops); }
  bool takesIn(Ops, mlir::OpOperand &read) const override {
    return taken.contains(read.getOwner());
  }
  /// Views are looked through.
  mlir::Operation *makerOf(mlir::OpOperand &read) const override {
    return memoryOf(read.get()).getDefiningOp();
  }
  llvm::SmallVector<mlir::OpOperand *>
  readsOf(mlir::Operation *op) const override {
    llvm::SmallVector<mlir::OpOperand *> reads;
    for (mlir::OpOperand &use : op->getUses())
      if (views.contains(use.getOwner()))
        llvm::append_range(reads, readsOf(use.getOwner()));
      else
        reads.push_back(&use);
    return reads;
  }
  bool isApart(mlir::OpOperand &read) const override {
    return apart.contains({read.getOwner(), read.getOperandNumber()});
  }
  mlir::Value memoryOf(mlir::Value value) const override {
    while (mlir::Operation *def = value.getDefiningOp()) {
      if (!views.contains(def))
        break;
      value = def->getOperand(0);
    }
    return value;
  }
  int64_t bytesOf(mlir::Value memory) const override {
    auto it = bytes.find(memory.getDefiningOp());
    return it == bytes.end() ? 1 : it->second;
  }

  void addView(mlir::Operation *op) {
    views.insert(op);
    roles[op] = Role::None;
  }

  llvm::DenseMap<mlir::Operation *, Role> roles;
  llvm::DenseMap<mlir::Operation *, int64_t> bytes;
  llvm::DenseSet<mlir::Operation *> dead, followers, atLoad, communication,
      single, inlined, taken, views;
  llvm::DenseSet<std::pair<mlir::Operation *, unsigned>> apart;
  std::function<bool(Ops)> fuse;
  std::function<std::string(Ops)> refusal;
};

} // namespace kerf::test

#endif // KERF_UNITTESTS_FUSION_GRAPH_H
