//===- Loops.cpp - checks of exec.loop ------------------------------------===//
#include "kerf/Exec/Exec.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace kerf::exec;

/// A tensor or a buffer, whichever it is written as.
static RankedTensorType tensorOf(Type type) {
  auto shaped = cast<ShapedType>(type);
  return RankedTensorType::get(shaped.getShape(), shaped.getElementType());
}

static SmallVector<Type> tensorsOf(TypeRange types) {
  return llvm::map_to_vector(types,
                             [](Type type) -> Type { return tensorOf(type); });
}

LogicalResult LoopOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto body = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getBodyAttr());
  if (!body)
    return emitOpError("names ") << getBodyAttr() << ", which is no function";
  SmallVector<Type> arguments = tensorsOf(body.getArgumentTypes());
  SmallVector<Type> results = tensorsOf(body.getResultTypes());
  bool isOnBuffers = isa<FuncOp>(body);
  if (isOnBuffers) {
    size_t inputs = cast<FuncOp>(body).getNumInputs();
    results.assign(arguments.begin() + inputs, arguments.end());
    arguments.truncate(inputs);
  }
  // loop C1
  Type count = tensorOf(getTrip().getType());
  SmallVector<Type> carried = tensorsOf(getInits().getTypes());
  SmallVector<Type> given{count}, yielded{tensorOf(getCondition().getType())};
  llvm::append_range(given, carried);
  llvm::append_range(given, tensorsOf(getCaptures().getTypes()));
  llvm::append_range(yielded, carried);
  if (given != arguments || results.size() < yielded.size() ||
      ArrayRef(results).take_front(yielded.size()) != ArrayRef(yielded))
    return emitOpError("hands (")
           << given << ") to a function of (" << arguments << ") that gives ("
           << results << ")";
  // loop C2
  ArrayRef<Type> stacked = ArrayRef(results).drop_front(yielded.size());
  if (!stacked.empty() && !getLimit())
    return emitOpError("stacks tensors without a limit");
  if (getLimit() && static_cast<int64_t>(*getLimit()) < 0)
    return emitOpError("has a limit of ") << static_cast<int64_t>(*getLimit());
  SmallVector<Type> outs{count};
  llvm::append_range(outs, carried);
  for (Type type : stacked) {
    SmallVector<int64_t> shape(cast<ShapedType>(type).getShape());
    shape.insert(shape.begin(), *getLimit());
    outs.push_back(cast<RankedTensorType>(type).clone(shape));
  }
  SmallVector<Type> named =
      tensorsOf(isOnBuffers ? TypeRange(getOuts().getTypes())
                            : TypeRange(getResultTypes()));
  if (named != outs ||
      (isOnBuffers ? !getResults().empty()
                   : !getOuts().empty() || !getTemporaries().empty()))
    return emitOpError("gives (") << named << "), expected (" << outs << ")";
  if (!isOnBuffers)
    return success();
  // loop C3
  SmallVector<Type> needed{count};
  llvm::append_range(needed, results);
  SmallVector<Type> temporaries = tensorsOf(getTemporaries().getTypes());
  bool hasMemory =
      temporaries.size() == needed.size() + 1 &&
      cast<ShapedType>(temporaries.back()).getElementType().isInteger(8);
  if (hasMemory)
    temporaries.pop_back();
  if (temporaries != needed)
    return emitOpError("has (") << getTemporaries().getTypes()
                                << ") besides, expected (" << needed << ")";
  return success();
}
