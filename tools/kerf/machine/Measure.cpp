//===- Measure.cpp - a function, compiled, run and timed ------------------===//
//
// Uses the same path as a model, so that plans are made for the measured code.
//
//===----------------------------------------------------------------------===//
#include "Measure.h"

#include "../Setup.h"

#include "kerf/Collectives/Passes.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Interfaces/ShardingRule.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Passes.h"
#include "kerf/NN/NN.h"
#include "kerf/Package/Package.h"
#include "kerf/Partition/Passes.h"
#include "kerf/Pipelines/Register.h"
#include "kerf/rt/run.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <chrono>
#include <map>

using namespace kerf;
using namespace kerf::tool;

static void require(kerf_status_t status) {
  if (!status)
    return;
  std::string message = kerf_status_message(status);
  kerf_status_free(status);
  throw Failure{kRunTime, message, {}};
}

/// Arithmetic and traffic of the function's ops on their own shapes.
static void addCosts(mlir::ModuleOp module, Measurement &result) {
  module.walk([&](OpCostInterface op) {
    auto types = [](mlir::TypeRange range) {
      llvm::SmallVector<mlir::RankedTensorType> list;
      for (mlir::Type type : range)
        list.push_back(llvm::cast<mlir::RankedTensorType>(type));
      return list;
    };
    auto operands = types(op->getOperandTypes());
    auto results = types(op->getResultTypes());
    result.flops += static_cast<double>(op.getFlops(operands, results));
    result.bytes += static_cast<double>(op.getBytesTouched(operands, results));
  });
}

/// Writes a file of ones that is long enough to stand in for all weights.
static void storeWeights(mlir::ModuleOp module, const std::string &path) {
  int64_t bytes = 0;
  module.walk([&](nn::WeightOp weight) {
    bytes = std::max(bytes, static_cast<int64_t>(weight.getLength()));
  });
  if (bytes == 0)
    return;
  std::vector<float> ones(bytes / sizeof(float), 1.f);
  writeFile(path, std::string(reinterpret_cast<char *>(ones.data()), bytes));
  module->setAttr(kFilesAttr,
                  mlir::Builder(module.getContext()).getStrArrayAttr({path}));
}

static void compile(mlir::ModuleOp module, bool partitioned,
                    const std::string &folder) {
  mlir::PassManager passes(module.getContext());
  if (partitioned) {
    buildPartitionPipeline(passes);
    buildCollectivesPipeline(passes);
  }
  buildLowerPipeline(passes);
  if (passes.run(module).failed())
    throw Failure{kInternal, "calibration: a sample does not lower", {}};
  auto program = compileProgram(module, CodegenOptions());
  if (mlir::failed(program))
    throw Failure{kInternal, "calibration: a sample does not compile", {}};
  PackageContents contents;
  contents.name = "sample";
  contents.cpu = program->target.cpu;
  contents.features = program->target.features;
  contents.sharedObject = std::move(program->sharedObject);
  contents.weightsInPlace = true;
  if (writePackage(module, contents, folder).failed())
    throw Failure{kRunTime, "calibration: cannot write a package", {}};
}

namespace {

class Session {
public:
  Session(const std::string &path, int64_t threads) {
    require(kerf_package_open(path.c_str(), nullptr, &package));
    kerf_session_options_t options = {};
    options.struct_size = sizeof options;
    options.threads = static_cast<int32_t>(threads);
    options.trace = 1;
    require(kerf_session_create(package, &options, &session));
    for (int32_t i = 0; i < kerf_package_num_inputs(package); ++i) {
      kerf_tensor_info_t info;
      require(kerf_package_input(package, i, &info));
      inputs.emplace_back(info.bytes);
      rt::fillRandom(info.name, 1, info.dtype,
                     info.bytes / kerf_dtype_size(info.dtype), info.range_low,
                     info.range_high, inputs.back().data());
      require(
          kerf_session_set_input(session, i, inputs.back().data(), info.bytes));
    }
  }
  ~Session() {
    if (session)
      kerf_session_destroy(session);
    if (package)
      kerf_package_close(package);
  }
  /// One step: seconds of rank 0's compute, of the shortest rank's collectives.
  std::pair<double, double> step() {
    require(kerf_session_run(session));
    char *text = nullptr;
    require(kerf_session_trace(session, &text));
    auto trace = llvm::json::parse(text);
    kerf_string_free(text);
    if (!trace)
      throw Failure{kInternal, llvm::toString(trace.takeError()), {}};
    const llvm::json::Array *events = trace->getAsArray();
    if (const llvm::json::Object *root = trace->getAsObject())
      events = root->getArray("traceEvents");
    double compute = 0;
    std::map<int64_t, double> collective;
    for (const llvm::json::Value &value : *events) {
      const llvm::json::Object *event = value.getAsObject();
      llvm::StringRef kind = event->getString("cat").value_or("");
      int64_t rank = event->getInteger("tid").value_or(0);
      double seconds = 1e-6 * event->getNumber("dur").value_or(0);
      if (kind == "launch" || kind == "library")
        compute += rank == 0 ? seconds : 0;
      else if (kind == "collective")
        collective[rank] += seconds;
    }
    double shortest = 0;
    for (auto [rank, seconds] : collective)
      shortest = shortest == 0 ? seconds : std::min(shortest, seconds);
    return {compute, shortest};
  }

private:
  kerf_package_t *package = nullptr;
  kerf_session_t *session = nullptr;
  std::vector<std::vector<char>> inputs;
};

double median(std::vector<double> values) {
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

} // namespace

Measurement kerf::tool::measure(const std::string &text, int64_t ranks,
                                int64_t threads, double seconds, int steps) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    throw Failure{kInternal, "calibration: a sample does not parse", {}};
  Measurement result;
  addCosts(*module, result);
  result.flops /= static_cast<double>(ranks);
  result.bytes /= static_cast<double>(ranks);
  TemporaryFolder folder;
  storeWeights(*module, folder.file("weights"));
  compile(*module, ranks > 1, folder.file("sample.kerf"));
  Session session(folder.file("sample.kerf"), threads);
  std::vector<double> compute, collective;
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps + 3 || std::chrono::duration<double>(
                                       std::chrono::steady_clock::now() - start)
                                           .count() < seconds;
       ++i) {
    auto [first, second] = session.step();
    if (i < 3) // caches and page tables
      continue;
    compute.push_back(first);
    collective.push_back(second);
  }
  result.computeSeconds = median(compute);
  result.collectiveSeconds = median(collective);
  return result;
}
