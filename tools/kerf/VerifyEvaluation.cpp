//===- VerifyEvaluation.cpp - the model run op by op ----------------------===//
#include "VerifyEvaluation.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Format/HostCores.h"
#include "kerf/Import/Import.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interpret/Bounded.h"

#include "mlir/IR/Diagnostics.h"

#include <cmath>
#include <thread>
#include <utility>

using namespace kerf;
using namespace kerf::tool;
using mlir::cast;
using mlir::RankedTensorType;

/// Operations per second of the interpreter, and of blocked loops on a core.
constexpr double kInterpretedRate = 1e8, kUnfusedRate = 1.2e10;
/// Elements per second of ops that are no products.
constexpr double kInterpretedElementRate = 3e7, kElementRate = 2e8;

static unsigned numCores() { return static_cast<unsigned>(hostCores().usable); }

static CompilationOptions importOptions(const Options &options,
                                        bool simplified) {
  CompilationOptions compile = compilationOptions(forOneDevice(options));
  if (compile.training) // which ranks have statistics of their own
    compile.training->dataParallel =
        compilationOptions(options).training->dataParallel;
  compile.simplify = simplified;
  compile.fusedAttention = false;
  return compile;
}

Evaluation::Evaluation(const Options &options, bool simplified)
    : model(options.model), isTraining(options.train),
      compilation(
          std::make_shared<Compilation>(importOptions(options, simplified))) {
  require(*compilation,
          compilation->runUntil(options.train ? "autodiff" : "import"));
  if (!options.train || !needsParts())
    return;
  // The micro-batches, and the ranks of each that have their own.
  const autodiff::AutodiffOptions training =
      *compilationOptions(options).training;
  int64_t parts = training.microBatches;
  if (training.batchNorm == autodiff::BatchNormMode::Local)
    parts *= training.dataParallel;
  inParts = interpret::StepInParts::split(module(), parts, obstacleToParts);
}

bool Evaluation::needsParts() const {
  bool found = false;
  module()->walk([&](mlir::Operation *op) {
    found |= dist::getReductionReach(op) != dist::ReductionReach::Batch;
  });
  return found;
}

std::unique_ptr<Evaluation> Evaluation::ofSample(const Evaluation &whole,
                                                 int64_t sample) {
  std::unique_ptr<Evaluation> result(new Evaluation);
  result->model = whole.model;
  result->compilation = whole.compilation;
  result->sample = sample;
  result->cut = whole.module().clone();
  auto dims = interpret::cutSample(
      result->cut->lookupSymbol<mlir::func::FuncOp>("main"), sample);
  if (failed(dims))
    return nullptr;
  result->sampleDims = std::move(*dims);
  return result;
}

double Evaluation::operations() const {
  return static_cast<double>(costOfModule(module()).flops);
}

double Evaluation::seconds(bool unfused) const {
  double elements = 0;
  module()->walk([&](mlir::Operation *op) {
    for (mlir::Type type : op->getResultTypes())
      if (auto tensor = mlir::dyn_cast<RankedTensorType>(type))
        elements += static_cast<double>(tensor.getNumElements());
  });
  return unfused ? operations() / (kUnfusedRate * numCores()) +
                       elements / kElementRate
                 : operations() / kInterpretedRate +
                       elements / kInterpretedElementRate;
}

/// An argument as the program got it, or its sample.
interpret::Tensor Evaluation::input(const Program &program,
                                    unsigned index) const {
  mlir::ModuleOp all = compilation->getModule();
  auto main = all.lookupSymbol<mlir::func::FuncOp>("main");
  auto name = main.getArgAttrOfType<mlir::StringAttr>(index, kNameAttr);
  auto type = cast<RankedTensorType>(main.getArgument(index).getType());
  const rt::HostTensor *given = program.input(name.getValue().str());
  if (!given)
    throw Failure{kInternal,
                  model + ": the program has no input " + name.getValue().str(),
                  {}};
  interpret::Tensor whole = interpret::fromBytes(
      type, {reinterpret_cast<const uint8_t *>(given->data.data()),
             given->data.size()});
  if (!cut || !sampleDims.inputs[index])
    return whole;
  interpret::SampleDim at = *sampleDims.inputs[index];
  interpret::Index shape(whole.shape);
  shape[at.dim] = at.inner;
  interpret::Tensor part(shape);
  size_t next = 0;
  interpret::forEachIndex(shape, [&](llvm::ArrayRef<int64_t> position) {
    interpret::Index from(position);
    from[at.dim] += sample * at.inner;
    part.data[next++] = whole.at(from);
  });
  return part;
}

std::vector<interpret::Tensor> Evaluation::step(const Program &program,
                                                bool unfused, Seen seen) {
  auto main = module().lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<interpret::Tensor> inputs;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    inputs.push_back(input(program, i));
  if (isTraining || inputsOfSteps.empty())
    inputsOfSteps.push_back(inputs);
  return run(std::move(inputs), unfused, {rounding}, std::move(seen),
             gradientTolerance > 0);
}

std::vector<interpret::Tensor>
Evaluation::stepsAgain(bool unfused, const Roundings &others, Seen seen) {
  state.clear();
  std::vector<interpret::Tensor> outputs;
  for (auto [number, inputs] : llvm::enumerate(inputsOfSteps)) {
    Roundings roundings = others;
    roundings.seed = (others.seed << 32) + number;
    outputs = run(inputs, unfused, roundings,
                  number + 1 == inputsOfSteps.size() ? seen : nullptr);
  }
  return outputs;
}

void Evaluation::move(mlir::Operation *update,
                      llvm::ArrayRef<const interpret::Tensor *> operands) {
  mlir::Operation *parameter = update->getOperand(0).getDefiningOp();
  if (!parameter || !mlir::isa<SourceOpInterface>(parameter))
    return;
  double largest = 0;
  for (double number : operands[1]->data) {
    if (!std::isfinite(number))
      return; // such a step changes nothing
    largest = std::max(largest, std::fabs(number));
  }
  interpret::moveUpdate(update, operands, gradientTolerance * largest,
                        numCores(), moves[interpret::sourceKey(parameter)]);
}

std::vector<interpret::Tensor>
Evaluation::run(std::vector<interpret::Tensor> inputs, bool unfused,
                const Roundings &roundings, Seen seen, bool moving) {
  auto main = module().lookupSymbol<mlir::func::FuncOp>("main");
  interpret::RunOptions run;
  run.rounding = roundings.kind;
  run.seed = roundings.seed;
  run.roundingUnits = roundings.units;
  run.unfused = unfused;
  run.threads = numCores();
  run.state = &state;
  run.seen = std::move(seen);
  if (moving)
    run.updates = [this](mlir::Operation *op,
                         llvm::ArrayRef<const interpret::Tensor *> operands) {
      move(op, operands);
    };
  std::string complaint;
  mlir::ScopedDiagnosticHandler handler(
      module()->getContext(), [&](mlir::Diagnostic &diagnostic) {
        if (complaint.empty()) {
          if (auto at =
                  diagnostic.getLocation()->findInstanceOf<mlir::NameLoc>())
            complaint = at.getName().str() + ": ";
          complaint += diagnostic.str();
        }
        return mlir::success();
      });
  bool unread = false;
  interpret::Weights weights = interpret::weightsOfFiles(module(), unread);
  auto outputs = inParts
                     ? inParts->run(std::move(inputs), weights, run)
                     : interpret::run(main, std::move(inputs), weights, run);
  if (failed(outputs) || unread)
    throw Failure{kInternal,
                  model + ":" + complaint,
                  {"the reference cannot run this model; "
                   "--reference=compiled compares two compiled programs"}};
  return interpret::modelOutputs(main, *outputs);
}
