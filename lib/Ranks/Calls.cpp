//===- Calls.cpp - calls of the runtime's functions -----------------------===//
#include "Calls.h"

#include "Buffers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace kerf::ranks;

/// On reads of buffers: a number that makes each differ from all others.
static constexpr llvm::StringLiteral kReadNumber = "read";

LLVM::CallOp Calls::callRuntime(OpBuilder &builder, Location loc,
                                StringRef name, Type result,
                                ValueRange operands) {
  auto function = symbols.lookup<LLVM::LLVMFuncOp>(name);
  if (!function) {
    OpBuilder end = OpBuilder::atBlockEnd(module.getBody());
    function = LLVM::LLVMFuncOp::create(
        end, module.getLoc(), name,
        LLVM::LLVMFunctionType::get(result,
                                    llvm::to_vector(operands.getTypes())));
    symbols.insert(function);
  }
  return LLVM::CallOp::create(builder, loc, function, operands);
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
  callRuntime(inner, loc, callee, LLVM::LLVMVoidType::get(builder.getContext()),
              passed);
  func::ReturnOp::create(inner, loc);
  return func::CallOp::create(builder, loc, function, operands);
}

Value Calls::readBuffer(OpBuilder &builder, Location loc, Value tensor) {
  auto read = bufferization::ToBufferOp::create(
      builder, loc, bufferType(typeOf(tensor)), tensor, /*read_only=*/true);
  read->setAttr(kReadNumber, builder.getI64IntegerAttr(numReads++));
  return read;
}

Value Calls::rankNumber(OpBuilder &builder, Location loc, Value rank) {
  return callRuntime(builder, loc, "kerf_rank_number", builder.getI64Type(),
                     rank)
      .getResult();
}
