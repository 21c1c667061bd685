//===- Calls.cpp - calls of the runtime's functions -----------------------===//
#include "Calls.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace kerf::ranks;

func::FuncOp Calls::declare(StringRef name, FunctionType type) {
  if (auto known = symbols.lookup<func::FuncOp>(name))
    return known;
  auto function = func::FuncOp::create(module.getLoc(), name, type);
  function.setPrivate();
  symbols.insert(function);
  return function;
}

/// The address of the first element of a dense buffer.
static Value addressOf(OpBuilder &builder, Location loc, Value buffer) {
  Value index =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, loc, buffer);
  Value number =
      arith::IndexCastOp::create(builder, loc, builder.getI64Type(), index);
  return LLVM::IntToPtrOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext()), number);
}

func::CallOp Calls::call(OpBuilder &builder, Location loc, StringRef name,
                         StringRef callee, Value rank, ValueRange numbers,
                         ValueRange buffers, ValueRange alive) {
  SmallVector<Value> operands{rank};
  llvm::append_range(operands, numbers);
  llvm::append_range(operands, buffers);
  llvm::append_range(operands, alive);
  auto type = builder.getFunctionType(ValueRange(operands).getTypes(), {});
  func::FuncOp &function = made[{name.str(), type.getAsOpaquePointer()}];
  if (function)
    return func::CallOp::create(builder, loc, function, operands);
  function = func::FuncOp::create(loc, name, type);
  function.setPrivate();
  function.setNoInline(true);
  symbols.insert(function);

  OpBuilder inner = OpBuilder::atBlockBegin(function.addEntryBlock());
  SmallVector<Value> passed;
  for (Value argument :
       function.getArguments().take_front(1 + numbers.size() + buffers.size()))
    passed.push_back(isa<MemRefType>(argument.getType())
                         ? addressOf(inner, loc, argument)
                         : argument);
  auto runtime =
      declare(callee, inner.getFunctionType(ValueRange(passed).getTypes(), {}));
  func::CallOp::create(inner, loc, runtime, passed);
  func::ReturnOp::create(inner, loc);
  return func::CallOp::create(builder, loc, function, operands);
}

Value Calls::rankNumber(OpBuilder &builder, Location loc, Value rank) {
  auto runtime =
      declare("kerf_rank_number",
              builder.getFunctionType(rank.getType(), builder.getI64Type()));
  return func::CallOp::create(builder, loc, runtime, rank).getResult(0);
}
