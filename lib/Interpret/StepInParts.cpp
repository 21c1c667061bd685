//===- StepInParts.cpp - forward and backward on parts of the batch -------===//
//
// A step's forward and backward phases run once per micro-batch, its prologue
// and update once (docs/Training.md). If an op is not linear in sums over
// samples, as with BatchNorm's statistics, a step on the whole batch is a
// different function. So the step is divided into three functions: prologue;
// forward and backward, for each part of the batch (Samples.cpp); update, on
// the sums of the operands of dist.accumulate over the parts. A value that does
// not depend on the batch is passed on, not summed.
//
// Each function has the step's arguments, then the results of earlier
// functions.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interpret/Samples.h"

#include "kerf/Dist/Dist.h"
#include "kerf/NN/NN.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::interpret;

namespace {

enum class Stage { Prologue, Body, Update };

Stage stageOf(Operation *op) {
  dist::Phase phase = dist::getPhase(op);
  return phase == dist::Phase::Prologue ? Stage::Prologue
         : phase == dist::Phase::Update ? Stage::Update
                                        : Stage::Body;
}

/// Results of ops of stage `from` that later stages read. Those of the body are
/// summed over the parts.
std::vector<Value> handedOn(func::FuncOp main, Stage from) {
  std::vector<Value> result;
  for (Operation &op : main.getBody().front().without_terminator()) {
    if (isa<SourceOpInterface>(op) || stageOf(&op) != from)
      continue;
    for (Value value : op.getResults())
      if (llvm::any_of(value.getUsers(), [&](Operation *user) {
            return isa<func::ReturnOp>(user) || stageOf(user) != from;
          }))
        result.push_back(value);
  }
  return result;
}

/// The ops of `stage` with `given` as further arguments and `results`.
OwningOpRef<ModuleOp> extract(ModuleOp step, Stage stage, ArrayRef<Value> given,
                              ArrayRef<Value> results) {
  auto main = step.lookupSymbol<func::FuncOp>("main");
  IRMapping map;
  OwningOpRef<ModuleOp> module(cast<ModuleOp>(step.getOperation()->clone(map)));
  auto copy = module->lookupSymbol<func::FuncOp>("main");
  Block &block = copy.getBody().front();
  for (Value value : given) {
    BlockArgument argument = block.addArgument(value.getType(), copy.getLoc());
    map.lookup(value).replaceAllUsesWith(argument);
    map.map(value, argument);
  }
  SmallVector<Value> returned;
  for (Value value : results)
    returned.push_back(map.lookup(value));
  block.getTerminator()->setOperands(returned);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    bool kept =
        isa<SourceOpInterface, func::ReturnOp>(op) || stageOf(&op) == stage;
    if (!kept || (op.use_empty() && !isa<func::ReturnOp, dist::AssignOp>(op))) {
      op.dropAllUses();
      op.erase();
    }
  }
  // Arguments that were added have no attributes: none has a batch dimension.
  Builder builder(copy.getContext());
  SmallVector<Attribute> attributes;
  for (unsigned i = 0; i < block.getNumArguments(); ++i)
    attributes.push_back(i < main.getNumArguments() && main.getArgAttrDict(i)
                             ? main.getArgAttrDict(i)
                             : builder.getDictionaryAttr({}));
  copy.removeResAttrsAttr();
  copy.setFunctionType(builder.getFunctionType(
      block.getArgumentTypes(), TypeRange(ValueRange(returned))));
  copy.setArgAttrsAttr(builder.getArrayAttr(attributes));
  return module;
}

Tensor partOf(const Tensor &whole, const SampleDim &at, int64_t part) {
  Index shape(whole.shape);
  shape[at.dim] = at.inner;
  Tensor result(shape);
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    Index from(index);
    from[at.dim] += part * at.inner;
    result.data[next++] = whole.at(from);
  });
  return result;
}

} // namespace

std::unique_ptr<StepInParts> StepInParts::split(ModuleOp step, int64_t parts,
                                                std::string &obstacle) {
  auto main = step.lookupSymbol<func::FuncOp>("main");
  auto result = std::make_unique<StepInParts>();
  std::vector<Value> first = handedOn(main, Stage::Prologue);
  std::vector<Value> sums = handedOn(main, Stage::Body);
  result->prologue.module = extract(step, Stage::Prologue, {}, first);
  for (int64_t part = 0; part < parts; ++part) {
    Piece body{extract(step, Stage::Body, first, sums)};
    FailureOr<SampleDims> cut = cutPart(body.main(), part, parts, obstacle);
    if (failed(cut))
      return nullptr;
    result->dims.push_back(std::move(*cut));
    result->bodies.push_back(std::move(body));
  }
  std::vector<Value> given = first;
  given.insert(given.end(), sums.begin(), sums.end());
  std::vector<Value> outputs(
      main.getBody().front().getTerminator()->operand_begin(),
      main.getBody().front().getTerminator()->operand_end());
  result->update.module = extract(step, Stage::Update, given, outputs);
  return result;
}

FailureOr<std::vector<Tensor>>
StepInParts::run(std::vector<Tensor> inputs, const Weights &weights,
                 const RunOptions &options) const {
  auto first = interpret::run(prologue.main(), inputs, weights, options);
  if (failed(first))
    return failure();
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), first->begin(), first->end());
  std::vector<Tensor> sums;
  for (size_t part = 0; part < bodies.size(); ++part) {
    std::vector<Tensor> own;
    for (auto [input, at] : llvm::zip(all, dims[part].inputs))
      own.push_back(at ? partOf(input, *at, int64_t(part)) : input);
    auto given =
        interpret::run(bodies[part].main(), std::move(own), weights, options);
    if (failed(given))
      return failure();
    if (part == 0)
      sums = std::move(*given);
    else
      for (size_t i = 0; i < sums.size(); ++i)
        if (dims[part].sums[i])
          for (auto [sum, more] : llvm::zip(sums[i].data, (*given)[i].data))
            sum += more;
  }
  all.insert(all.end(), sums.begin(), sums.end());
  return interpret::run(update.main(), std::move(all), weights, options);
}
