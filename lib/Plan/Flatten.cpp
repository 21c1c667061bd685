//===- Flatten.cpp - one flat block for planning --------------------------===//
//
// Problem: planning decides op by op, over the operands of each op. Calls and
// regions hide ops, and a region may use values that are no operands of its op.
// Inputs and outputs of a program must be tensors, since these can be cut and
// sent.
//
// Idea: inputs and outputs that are numbers become tensors without dimensions.
// Calls of functions of one block are inlined. Numbers that are known (the size
// of a tensor) become constants. Constants that a region uses from outside are
// repeated inside; other numbers become operands where the op can take more of
// them (CaptureInterface). An op that still uses values from outside, a loop or
// a branch becomes a call of a new function, with these values as arguments. Of
// calls, only dimensions are cut of which no op inside needs the whole
// (lib/Models/Calls.cpp).
//
// Linear in the ops after inlining.
//
//===----------------------------------------------------------------------===//
#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Interfaces/Capture.h"
#include "kerf/Interfaces/Repeat.h"
#include "kerf/Plan/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/FoldUtils.h"
#include "mlir/Transforms/RegionUtils.h"

namespace kerf::plan {
#define GEN_PASS_DEF_FLATTEN
#include "kerf/Plan/Passes.h.inc"
} // namespace kerf::plan

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

namespace {

struct Flatten : plan::impl::FlattenBase<Flatten> {
  void runOnOperation() override {
    SymbolTable table(getOperation());
    symbols = &table;
    inlined.clear();
    if (func::FuncOp program = dist::findEntry(getOperation());
        program && llvm::hasSingleElement(program.getBody()) &&
        SymbolTable::symbolKnownUseEmpty(program, getOperation()))
      passNumbersAsTensors(program);
    SmallVector<func::FuncOp> functions, callees;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (llvm::hasSingleElement(function.getBody()))
        (function.isPublic() ? functions : callees).push_back(function);
    for (func::FuncOp function : functions)
      flatten(function);
    // The rule of a call sees every op of what it calls.
    for (func::FuncOp callee : callees)
      simplify(callee.getBody().front(), callee);
    for (func::FuncOp callee : inlined)
      if (callee.isPrivate() &&
          SymbolTable::symbolKnownUseEmpty(callee, getOperation()))
        table.erase(callee);
  }

private:
  void flatten(func::FuncOp function) {
    Block &block = function.getBody().front();
    simplify(block, function);
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      if (!capturedValues(&op).empty() || branches(&op))
        outline(&op, function);
  }

  /// Inlines, folds and takes captures in a block, and in the blocks of loops
  /// and branches in it.
  void simplify(Block &block, func::FuncOp function) {
    SmallVector<func::CallOp> calls(block.getOps<func::CallOp>());
    for (func::CallOp call : calls)
      inlineCall(call, {function});
    foldNumbers(block);
    for (Operation &op :
         llvm::make_early_inc_range(block.without_terminator())) {
      if (isa<RegionBranchOpInterface>(op))
        for (Region &region : op.getRegions())
          if (llvm::hasSingleElement(region))
            simplify(region.front(), function);
      repeatInRegions(&op);
      takeCaptures(&op);
    }
  }

  /// Arguments and results that are numbers become tensors without dimensions.
  static void passNumbersAsTensors(func::FuncOp function) {
    Block &block = function.getBody().front();
    OpBuilder builder(function.getContext());
    // An index has as many bits as the machine: what is sent has 64.
    auto boxed = [&](Type type) {
      return RankedTensorType::get({}, type.isIndex() ? builder.getI64Type()
                                                      : type);
    };
    for (BlockArgument argument : block.getArguments()) {
      Type type = argument.getType();
      if (!type.isIntOrIndexOrFloat())
        continue;
      Location loc = argument.getLoc();
      SmallVector<OpOperand *> uses = llvm::map_to_vector(
          argument.getUses(), [](OpOperand &use) { return &use; });
      argument.setType(boxed(type));
      // Each op reads the tensor itself: stages are given tensors, not numbers.
      DenseMap<Operation *, Value> readFor;
      for (OpOperand *use : uses) {
        Operation *user = block.findAncestorOpInBlock(*use->getOwner());
        Value &number = readFor[user];
        if (!number) {
          builder.setInsertionPoint(user);
          number = tensor::ExtractOp::create(builder, loc, argument);
          if (type.isIndex())
            number = arith::IndexCastOp::create(builder, loc, type, number);
        }
        use->set(number);
      }
    }
    builder.setInsertionPoint(block.getTerminator());
    for (OpOperand &result : block.getTerminator()->getOpOperands()) {
      Value number = result.get();
      Type type = number.getType();
      if (!type.isIntOrIndexOrFloat())
        continue;
      Location loc = block.getTerminator()->getLoc();
      if (type.isIndex())
        number = arith::IndexCastOp::create(builder, loc, builder.getI64Type(),
                                            number);
      result.set(tensor::FromElementsOp::create(builder, loc, boxed(type),
                                                ValueRange{number}));
    }
    function.setType(builder.getFunctionType(
        block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
  }

  /// Numbers that follow from constants and types are constants.
  static void foldNumbers(Block &block) {
    OperationFolder folder(block.getParentOp()->getContext());
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      if (isPure(&op) && op.getNumResults() > 0 &&
          !op.hasTrait<OpTrait::ConstantLike>() &&
          llvm::none_of(op.getResultTypes(), canBeCut))
        (void)folder.tryToFold(&op);
  }

  /// Makes values that the op's regions use from outside its operands, as far
  /// as it can take them.
  static void takeCaptures(Operation *op) {
    auto takes = dyn_cast<CaptureInterface>(op);
    SmallVector<Value> captured = capturedValues(op);
    if (!takes || captured.empty())
      return;
    OpBuilder builder(op);
    Operation *made = takes.buildWithOperands(builder, captured);
    if (!made)
      return;
    op->replaceAllUsesWith(made->getResults());
    op->erase();
  }

  /// `callers`: the functions that are being inlined, so that recursion ends.
  void inlineCall(func::CallOp call, ArrayRef<func::FuncOp> callers) {
    auto callee = symbols->lookup<func::FuncOp>(call.getCallee());
    if (!callee || callee.isExternal() || callee.getNoInline() ||
        call.getNoInline() || !llvm::hasSingleElement(callee.getBody()) ||
        llvm::is_contained(callers, callee))
      return;
    inlined.insert(callee);
    SmallVector<func::FuncOp> inner(callers);
    inner.push_back(callee);
    OpBuilder builder(call);
    IRMapping mapping;
    Block &body = callee.getBody().front();
    mapping.map(body.getArguments(), call.getOperands());
    SmallVector<func::CallOp> calls;
    for (Operation &op : body.without_terminator()) {
      Operation *copy = builder.clone(op, mapping);
      copy->setLoc(CallSiteLoc::get(op.getLoc(), call.getLoc()));
      if (auto nested = dyn_cast<func::CallOp>(copy))
        calls.push_back(nested);
    }
    SmallVector<Value> results;
    for (Value value : body.getTerminator()->getOperands())
      results.push_back(mapping.lookup(value));
    call.replaceAllUsesWith(results);
    call.erase();
    for (func::CallOp nested : calls)
      inlineCall(nested, inner);
  }

  /// Whether ops that could be cut may be hidden in regions: a call of a
  /// function that holds the op has a rule that sees them.
  static bool branches(Operation *op) {
    return isa<RegionBranchOpInterface>(op) &&
           !isa<ShardingRuleInterface>(op) &&
           llvm::any_of(op->getResultTypes(), canBeCut);
  }

  /// Makes `op` a call of a function that holds it.
  void outline(Operation *op, func::FuncOp before) {
    llvm::SetVector<Value> inputs;
    inputs.insert(op->operand_begin(), op->operand_end());
    SmallVector<Value> captured = capturedValues(op);
    inputs.insert(captured.begin(), captured.end());
    OpBuilder builder(op);
    auto type = builder.getFunctionType(
        TypeRange(ValueRange(inputs.getArrayRef())), op->getResultTypes());
    auto function = func::FuncOp::create(op->getLoc(), "whole", type);
    function.setPrivate();
    function.setNoInline(true);
    symbols->insert(function, std::next(before->getIterator()));
    Block *body = function.addEntryBlock();
    IRMapping mapping;
    mapping.map(inputs.getArrayRef(), body->getArguments());
    auto inside = OpBuilder::atBlockEnd(body);
    Operation *copy = inside.clone(*op, mapping);
    func::ReturnOp::create(inside, op->getLoc(), copy->getResults());
    auto call = func::CallOp::create(builder, op->getLoc(), function,
                                     inputs.getArrayRef());
    call.setNoInline(true);
    op->replaceAllUsesWith(call.getResults());
    op->erase();
  }

  SymbolTable *symbols = nullptr;
  llvm::SetVector<func::FuncOp> inlined;
};

} // namespace
