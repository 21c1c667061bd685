//===- Interfaces.td - the contract between ops and phases -*- tablegen -*-===//
#ifndef KERF_INTERFACES_TD
#define KERF_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Kerf_ShardingRuleInterface : OpInterface<"ShardingRuleInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    The op as a factor mapping (see ShardingRule.h), and the op on local shapes.
  }];
  let methods = [
    InterfaceMethod<"The factors of this op on its present (global) shapes.",
      "::kerf::ShardingRule", "getShardingRule", (ins)>,
    InterfaceMethod<[{
        Builds the op on local shapes: `operands` are the local operands (already
        masked where the rule asks for it), `resultTypes` the local types. The
        default clones the op with the new types; ops whose attributes or
        semantics name global sizes or indices override it.
      }],
      "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "buildLocal",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
           "::mlir::TypeRange":$resultTypes, "::kerf::LocalContext &":$context),
      [{}], [{
        ::mlir::IRMapping mapping;
        mapping.map($_op->getOperands(), operands);
        ::mlir::Operation *local = builder.clone(*$_op.getOperation(), mapping);
        for (auto [result, type] : ::llvm::zip(local->getResults(), resultTypes))
          result.setType(type);
        return ::llvm::SmallVector<::mlir::Value>(local->getResults());
      }]>
  ];
}

def Kerf_OpCostInterface : OpInterface<"OpCostInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    Floating-point operations and bytes touched as functions of local shapes, so
    that a sharded op is costed without being built. A multiply-add is two.
  }];
  let methods = [
    InterfaceMethod<"Floating-point operations on these local shapes.",
      "int64_t", "getFlops",
      (ins "::llvm::ArrayRef<::mlir::RankedTensorType>":$operands,
           "::llvm::ArrayRef<::mlir::RankedTensorType>":$results)>,
    InterfaceMethod<[{
        Bytes read and written: by default every operand and result once; a
        gather reads only what it selects.
      }],
      "int64_t", "getBytesTouched",
      (ins "::llvm::ArrayRef<::mlir::RankedTensorType>":$operands,
           "::llvm::ArrayRef<::mlir::RankedTensorType>":$results),
      [{}], [{ return ::kerf::defaultBytesTouched($_op.getCostClass(), operands, results); }]>,
    InterfaceMethod<"Which resource limits the op.",
      "::kerf::CostClass", "getCostClass", (ins)>,
    InterfaceMethod<"What the device's library does of the op.",
      "::kerf::LibraryWork", "getLibraryWork", (ins)>,
    InterfaceMethod<"What a library can do of the op behind a product.",
      "::kerf::EpilogueStep", "getEpilogueStep", (ins), [{}], [{ return ::kerf::EpilogueStep::None; }]>,
    InterfaceMethod<[{
        The dimension of the only result along which its elements are those of
        the operands, one operand behind the other; -1: the op is no
        concatenation.
      }],
      "int64_t", "getJoinedDim", (ins), [{}], [{ return -1; }]>
  ];
}

def Kerf_SourceOpInterface : OpInterface<"SourceOpInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    An op without operands whose whole content is known before the program runs
    (weights, constants). A parameter can be stored in any sharding; partition
    gives it its local type and records the sharding, and every rank loads its
    slice. A constant that is no splat is whole on every rank.
  }];
  let methods = [
    InterfaceMethod<"Whether the content is a parameter of the model (a weight).",
      "bool", "isParameter", (ins)>,
    InterfaceMethod<"Whether steps give it new values (dist.assign).",
      "bool", "isMutable", (ins), [{}], [{ return false; }]>,
    InterfaceMethod<"Whether the slices of all ranks are alike (a splat).",
      "bool", "isUniform", (ins)>,
    InterfaceMethod<"Whether ranks can load slices of the content.",
      "bool", "isStoredInParts", (ins), [{}], [{ return $_op.isParameter(); }]>,
    InterfaceMethod<"The name of the parameter, empty for a constant.",
      "::llvm::StringRef", "getSourceName", (ins)>
  ];
}

def Kerf_DifferentiableInterface : OpInterface<"DifferentiableInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    The vector-Jacobian product of the op, in ops of any dialect. Upstream ops
    have none of their own: a host that trains attaches models, or has ops.
  }];
  let methods = [
    InterfaceMethod<[{
        Given d(loss)/d(result) for each result (null where nothing depends on
        it), gives d(loss)/d(operand) for each operand; null where it is zero or
        where the operand is not differentiable (integers). Failure: the op has
        no gradient for these attributes; the error says which.
      }],
      "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>",
      "buildVectorJacobianProduct",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGradients)>
  ];
}

def Kerf_IntervalInterface : OpInterface<"IntervalInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    Which values the elements of the results may have (see Interval.h): by it
    partial sums are kept from products with infinity.
  }];
  let methods = [
    InterfaceMethod<[{
        The interval of a result before it is rounded to its type, given those of
        the operands.
      }],
      "::kerf::Interval", "getInterval",
      (ins "unsigned":$result, "::llvm::ArrayRef<::kerf::Interval>":$x)>
  ];
}

def Kerf_OperandRoleInterface : OpInterface<"OperandRoleInterface"> {
  let cppNamespace = "::kerf";
  let description = [{
    What a constant is that stands at an operand (see OperandRole.h): by it
    training tells parameters from masks, tables and numbers.
  }];
  let methods = [
    InterfaceMethod<"The role of a constant at this operand.",
      "::kerf::OperandRole", "getOperandRole", (ins "unsigned":$operand)>
  ];
}

#endif // KERF_INTERFACES_TD
