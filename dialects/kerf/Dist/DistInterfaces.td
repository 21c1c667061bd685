//===- DistInterfaces.td - the interface of collectives ----*- tablegen -*-===//
#ifndef KERF_DIST_INTERFACES_TD
#define KERF_DIST_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Dist_CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::kerf::dist";
  let description = [{
    An op in which the ranks of a group take part together. Its result is a
    tensor, or `!dist.pending` when it is only started.
  }];
  let methods = [
    InterfaceMethod<"Which collective it is.", "::kerf::CollectiveKind", "getKind", (ins), [{}], [{
        return *::kerf::parseCollectiveKind($_op.getOperation()->getName().stripDialect());
      }]>,
    InterfaceMethod<"Name in packages and plans.", "::llvm::StringRef", "getKindName", (ins), [{}], [{
        return $_op.getOperation()->getName().stripDialect();
      }]>,
    InterfaceMethod<"The group, major to minor.", "::kerf::dist::AxesAttr", "getGroup", (ins), [{}], [{
        return $_op.getAxes();
      }]>,
    InterfaceMethod<"Its arguments besides the group; which it has depends on its kind.",
      "::kerf::dist::CollectiveArguments", "getArguments", (ins), [{}], [{
        return ::kerf::dist::CollectiveArguments::of($_op);
      }]>,
    InterfaceMethod<"Local tensor that a rank contributes.", "::mlir::RankedTensorType", "getSourceType", (ins), [{}], [{
        return ::llvm::cast<::mlir::RankedTensorType>($_op.getOperation()->getOperand(0).getType());
      }]>,
    InterfaceMethod<"Local tensor that a rank receives.", "::mlir::RankedTensorType", "getResultTensorType", (ins), [{}], [{
        return ::kerf::dist::tensorOf($_op.getOperation()->getResult(0).getType());
      }]>,
    InterfaceMethod<"Whether the op only starts the collective.", "bool", "isStarted", (ins), [{}], [{
        return ::llvm::isa<::kerf::dist::PendingType>($_op.getOperation()->getResult(0).getType());
      }]>,
    InterfaceMethod<"What it moves; activation unless said otherwise.", "::kerf::dist::Purpose", "getPurposeOrDefault", (ins), [{}], [{
        return $_op.getPurpose().value_or(::kerf::dist::Purpose::Activation);
      }]>,
    InterfaceMethod<"Its own phase, in a function of several; none: the function's.",
      "::std::optional<::kerf::dist::Phase>", "getOwnPhase", (ins), [{}], [{ return $_op.getPhase(); }]>,
    InterfaceMethod<[{Bytes that the ranks of a group of this size send together in one execution.}],
      "int64_t", "getGroupBytes", (ins "int64_t":$groupSize)>,
    InterfaceMethod<[{S of the cost model: bytes of the full logical buffer of one group.}],
      "int64_t", "getBufferBytes", (ins "int64_t":$groupSize)>
  ];
}

#endif // KERF_DIST_INTERFACES_TD
