//===- CallRuntime.cpp - ops of dist become calls of the runtime ----------===//
//
// Functions that run on ranks get the rank and the micro-batch as arguments;
// their ops of dist are replaced one by one. A collective reads the buffer of
// its operand (bufferization.to_buffer) and fills a new one, which is only read
// from then on. The operand of a started collective is read once more by the
// wait, so that nothing overwrites it in between. Linear in the ops.
//
//===----------------------------------------------------------------------===//
#include "Boundary.h"
#include "Buffers.h"
#include "LocalOps.h"

#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Ranks/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

namespace kerf::ranks {
#define GEN_PASS_DEF_CALLRUNTIME
#include "kerf/Ranks/Passes.h.inc"
} // namespace kerf::ranks

using namespace mlir;
using namespace kerf;
using namespace kerf::ranks;

namespace {

/// Replaces the ops of dist in one function.
class FunctionLowering {
public:
  FunctionLowering(func::FuncOp function, Description &description,
                   Calls &calls)
      : function(function),
        arguments{function.getArgument(0), function.getArgument(1)},
        description(description), calls(calls),
        position(description.mesh, calls, arguments),
        builder(function.getContext()) {}

  LogicalResult run() {
    SmallVector<Operation *> ops;
    function.walk([&](Operation *op) {
      if (isa_and_nonnull<dist::DistDialect>(op->getDialect()) ||
          isParameter(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      builder.setInsertionPoint(op);
      if (failed(lower(op)))
        return failure();
    }
    for (Operation *op : llvm::reverse(ops)) // waits before what they wait for
      op->erase();
    return success();
  }

private:
  /// A collective that is under way.
  struct Started {
    int64_t index;
    Value source, sourceBuffer, resultBuffer;
  };

  LogicalResult lower(Operation *op) {
    if (auto collective = dyn_cast<dist::CollectiveOpInterface>(op))
      return lowerCollective(collective);
    if (auto wait = dyn_cast<dist::WaitOp>(op))
      return lowerWait(wait);
    if (isa<dist::ReshardOp>(op))
      return op->emitOpError("is not made of collectives yet: run the passes "
                             "of kerf-partition before");
    if (isParameter(op))
      return lowerParameter(cast<SourceOpInterface>(op));
    if (auto assign = dyn_cast<dist::AssignOp>(op))
      return lowerAssign(assign);
    auto results = lowerLocalOp(builder, op, position);
    if (failed(results))
      return op->emitOpError("has no form that calls the runtime");
    op->replaceAllUsesWith(*results);
    return success();
  }

  /// A source whose parts partition has left to the ranks.
  static bool isParameter(Operation *op) {
    auto source = dyn_cast<SourceOpInterface>(op);
    return source && source.isStoredInParts();
  }

  LogicalResult lowerParameter(SourceOpInterface op) {
    dist::PartAttr part = dist::getPart(function);
    FailureOr<int64_t> index =
        description.addParameter(op, part ? part.getStage() : 0);
    if (failed(index))
      return failure();
    Value result = op->getResult(0);
    Value buffer = newBuffer(builder, op.getLoc(), typeOf(result));
    call(op.getLoc(), "kerf_load_" + Twine(*index), "kerf_rank_load", *index,
         buffer);
    Value tensor = readTensor(builder, op.getLoc(), buffer);
    parameters[tensor] = *index;
    result.replaceAllUsesWith(tensor);
    return success();
  }

  LogicalResult lowerAssign(dist::AssignOp op) {
    auto found = parameters.find(op.getSource());
    if (found == parameters.end())
      return op.emitOpError("gives a value to no parameter of its function");
    call(op.getLoc(), "kerf_store_" + Twine(found->second), "kerf_rank_store",
         found->second, calls.readBuffer(builder, op.getLoc(), op.getValue()));
    return success();
  }

  LogicalResult lowerCollective(dist::CollectiveOpInterface op) {
    FailureOr<int64_t> index = description.addCollective(op);
    if (failed(index))
      return failure();
    Location loc = op.getLoc();
    Value source = op->getOperand(0),
          buffer = calls.readBuffer(builder, loc, source);
    Value result = newBuffer(builder, loc, op.getResultTensorType());
    if (op.isStarted()) {
      call(loc, "kerf_start_" + Twine(*index), "kerf_rank_start", *index,
           {buffer, result});
      started[op] = {*index, source, buffer, result};
      return success();
    }
    call(loc, "kerf_" + op.getKindName() + "_" + Twine(*index),
         "kerf_rank_collective", *index, {buffer, result});
    op->getResult(0).replaceAllUsesWith(readTensor(builder, loc, result));
    return success();
  }

  LogicalResult lowerWait(dist::WaitOp op) {
    auto found = started.find(op.getPending().getDefiningOp());
    if (found == started.end())
      return op.emitOpError(
          "waits for a collective that does not start in its function");
    const Started &begun = found->second;
    Location loc = op.getLoc();
    // The operand is read until here.
    Value again = calls.readBuffer(builder, loc, begun.source);
    call(loc, "kerf_wait_" + Twine(begun.index), "kerf_rank_wait", begun.index,
         {}, {begun.sourceBuffer, again, begun.resultBuffer});
    op.getResult().replaceAllUsesWith(
        readTensor(builder, loc, begun.resultBuffer));
    return success();
  }

  void call(Location loc, const Twine &name, StringRef callee, int64_t index,
            ValueRange buffers, ValueRange alive = {}) {
    Value number = arith::ConstantOp::create(builder, loc,
                                             builder.getI64IntegerAttr(index));
    calls.call(builder, loc, name.str(), callee, arguments.rank, number,
               buffers, alive);
  }

  func::FuncOp function;
  RankArguments arguments;
  Description &description;
  Calls &calls;
  RankPosition position;
  OpBuilder builder;
  llvm::DenseMap<Operation *, Started> started;
  llvm::DenseMap<Value, int64_t> parameters; ///< their tensors: entries
};

/// Attributes of dist and kerf say nothing to those who lower further.
bool isOurs(NamedAttribute attribute) {
  return isa_and_nonnull<dist::DistDialect, KerfDialect>(
      attribute.getNameDialect());
}

void dropAttributes(Operation *op) {
  for (NamedAttribute attribute : llvm::to_vector(op->getDiscardableAttrs()))
    if (isOurs(attribute))
      op->removeDiscardableAttr(attribute.getName());
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return;
  auto others = [](ArrayRef<NamedAttribute> attributes) {
    return llvm::filter_to_vector(
        attributes, [](NamedAttribute each) { return !isOurs(each); });
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.setArgAttrs(i, others(function.getArgAttrs(i)));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.setResultAttrs(i, others(function.getResultAttrs(i)));
}

struct CallRuntime : kerf::ranks::impl::CallRuntimeBase<CallRuntime> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto meshes = module.getOps<dist::MeshOp>();
    if (meshes.empty()) {
      emitWarning(module.getLoc(), "has no dist.mesh, so nothing in it runs on "
                                   "ranks: kerf-plan or kerf-propagate, then "
                                   "kerf-partition come before");
      return;
    }
    dist::MeshOp mesh = *meshes.begin();
    if (failed(checkMesh(mesh)) || failed(lower(module, mesh)))
      return signalPassFailure();
    mesh.erase();
    module->walk(dropAttributes);
  }

private:
  static LogicalResult checkMesh(dist::MeshOp op) {
    dist::Mesh mesh = op.getMesh().toMesh();
    if (llvm::count_if(mesh.axes, [](const dist::MeshAxis &axis) {
          return axis.isTime;
        }) > 1)
      return op.emitOpError(
          "has several axes in time, but the runtime knows one");
    return success();
  }

  static bool runsOnRanks(func::FuncOp function) {
    return !function.isExternal() &&
           (dist::getPart(function) ||
            function
                .walk([](Operation *op) {
                  return isa_and_nonnull<dist::DistDialect>(op->getDialect())
                             ? WalkResult::interrupt()
                             : WalkResult::advance();
                })
                .wasInterrupted());
  }

  /// What a program of ranks cannot have.
  static LogicalResult check(func::FuncOp function,
                             const llvm::SetVector<func::FuncOp> &functions,
                             SymbolTable &symbols) {
    if (!function.isExternal() && !dist::getPart(function) &&
        dist::isPlanned(function))
      return function.emitError("has a plan but is not on local shapes yet: "
                                "run the passes of kerf-partition before");
    WalkResult result = function.walk([&](Operation *op) {
      auto call = dyn_cast<func::CallOp>(op);
      if (call &&
          functions.contains(symbols.lookup<func::FuncOp>(call.getCallee()))) {
        call.emitOpError("calls @")
            << call.getCallee()
            << ", which runs on ranks: dist.run alone does that";
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  LogicalResult lower(ModuleOp module, dist::MeshOp mesh) {
    for (auto symbol : module.getOps<SymbolOpInterface>())
      if (symbol.getName().starts_with("kerf_rank_") &&
          !isa<LLVM::LLVMFuncOp>(symbol))
        return symbol->emitError("has a name that is the runtime's");
    Description description(mesh.getMesh());
    Calls calls(module);
    llvm::SetVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>())
      if (runsOnRanks(function))
        functions.insert(function);
    for (auto function : module.getOps<func::FuncOp>())
      if (failed(check(function, functions, calls.symbols)))
        return failure();
    Builder builder(&getContext());
    for (func::FuncOp function : functions) {
      Type types[] = {LLVM::LLVMPointerType::get(&getContext()),
                      builder.getI64Type()};
      Location locs[] = {function.getLoc(), function.getLoc()};
      if (failed(function.insertArguments({0, 0}, types, {{}, {}}, locs)))
        return failure();
      if (failed(FunctionLowering(function, description, calls).run()))
        return failure();
      if (dist::getPart(function)) // the lists alone call it
        function.setPrivate();
    }
    std::string name = "kerf";
    if (!module.getOps<dist::ScheduleOp>().empty()) {
      func::FuncOp entry = dist::findEntry(module);
      if (!entry || !entry.isExternal())
        return (*module.getOps<dist::ScheduleOp>().begin())
            .emitError("of which function is this the list of a stage? The "
                       "declaration with shardings that kerf-partition leaves "
                       "is not there: passes that drop private functions "
                       "(symbol-dce) come behind kerf-call-runtime");
      if (failed(defineEntry(entry, description, calls)))
        return failure();
      name = entry.getName();
    }
    return addDescription(module, name, description.text(), calls.symbols);
  }

  LogicalResult addDescription(ModuleOp module, const std::string &name,
                               const std::string &text, SymbolTable &symbols) {
    std::string symbol = name + kDescriptionSuffix.str();
    if (Operation *taken = symbols.lookup(symbol))
      return taken->emitError("has the name of the program's description, @")
             << symbol;
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    std::string ended = text + '\0';
    auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), ended.size());
    auto global = LLVM::GlobalOp::create(
        builder, module.getLoc(), type, /*isConstant=*/true,
        LLVM::Linkage::External, symbol, builder.getStringAttr(ended));
    symbols.insert(global);
    return success();
  }
};

} // namespace
