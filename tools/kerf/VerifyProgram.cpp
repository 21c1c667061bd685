//===- VerifyProgram.cpp - a package that is verified ---------------------===//
#include "VerifyProgram.h"

#include "../SpellFlags.h"
#include "Progress.h"

#include "kerf/Format/StepScalars.h"
#include "kerf/Pipelines/Exposure.h"
#include "kerf/rt/inputs.h"
#include "kerf/rt/run.h"

#include "kerf/Dist/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <cmath>
#include <cstring>

using namespace kerf;
using namespace kerf::tool;

void kerf::tool::check(kerf_status_t status, const std::string &file) {
  if (status)
    throw Failure{rt::reportStatus(status, file, onStderr()), "", {}};
}

Options kerf::tool::forOneDevice(const Options &options) {
  Options own = options;
  own.devices = "1";
  own.mesh = own.planFile = own.memoryLimit = own.machine = "";
  own.shards.clear();
  own.solver = own.schedule = "auto";
  own.chunks = 0;
  own.recompute = own.zero = own.train ? "none" : "auto";
  // BatchNorm's statistics are those of the same micro-batches, which a plan
  // may name.
  if (!own.train)
    own.microBatches = 0;
  else if (!options.planFile.empty())
    own.microBatches = compilationOptions(options).training->microBatches;
  own.dumpDir = "";
  // The one device is a CPU.
  if (own.precision == "tf32")
    own.precision = "f32";
  return own;
}

/// Four units of rounding of the type of a value; 0: of f32 and wider.
static double narrowestOf(mlir::Value value) {
  mlir::Type element = mlir::getElementTypeOrSelf(value.getType());
  return element.isBF16() ? 0x1p-6 : element.isF16() ? 0x1p-9 : 0;
}

/// The largest of these numbers over `value` and all that it depends on.
static double narrowest(mlir::Value value) {
  std::vector<mlir::Value> pending{value};
  llvm::DenseSet<mlir::Value> seen;
  double result = 0;
  while (!pending.empty()) {
    mlir::Value next = pending.back();
    pending.pop_back();
    if (!seen.insert(next).second)
      continue;
    result = std::max(result, narrowestOf(next));
    if (mlir::Operation *op = next.getDefiningOp())
      pending.insert(pending.end(), op->operand_begin(), op->operand_end());
  }
  return result;
}

void Program::setNarrow(mlir::ModuleOp module) {
  double min = options.precision == "bf16"  ? 0x1p-6
               : options.precision == "f32" ? 0
                                            : 0x1p-9;
  narrow = min;
  for (mlir::Value value : computedValues(module))
    narrow = std::max(narrow, narrowestOf(value));
  narrowOutputs.clear();
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  for (mlir::Value output :
       main.getBody().front().getTerminator()->getOperands())
    narrowOutputs.push_back(std::max(min, narrowest(output)));
}

/// The values of the current module, and the faults that tests put in.
void Program::setHooks(CompilationOptions &compile, Role role,
                       Exposed *exposed) {
  auto values = std::make_shared<std::vector<mlir::Value>>();
  bool *found = &damaged;
  damaged = options.damage.empty() || role == Role::OneDevice;
  std::string node = role == Role::OneDevice ? "" : options.damage;
  bool fused = node.compare(0, 6, "fused:") == 0;
  if (fused)
    node = node.substr(6);
  compile.beforePlan = [=](mlir::ModuleOp module) {
    *values = computedValues(module);
    setNarrow(module);
    if (exposed)
      exposed->values = describeValues(*values);
    if (node.empty())
      return;
    if (llvm::StringRef parameter = node; parameter.consume_front("update:")) {
      *found |= leaveUpdateOut(module, parameter);
      return;
    }
    // A fault in fused code is gone if its value is made an output.
    auto amount = [&](mlir::Value value) {
      for (size_t number : exposed ? exposed->wanted : std::vector<size_t>())
        if (fused && number < values->size() && (*values)[number] == value)
          return 0;
      return 1;
    };
    auto [value, wrong] = damageValue(module, node, amount);
    *found |= wrong != nullptr;
    std::replace(values->begin(), values->end(), value, wrong);
  };
  if (role == Role::Probe)
    compile.afterPlan = [=](mlir::ModuleOp module) {
      std::vector<mlir::Value> wanted(values->size());
      for (size_t number : exposed->wanted)
        if (number < values->size())
          wanted[number] = (*values)[number];
      exposed->given = exposeValues(module, wanted);
    };
}

/// What a reference holds in doubles: the values of a step, each until its last
/// use, and of training the parameters and states before and behind it, which
/// are compared in doubles as well.
static int64_t bytesOfReference(mlir::ModuleOp module) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  if (!main)
    return 0;
  auto elementsOf = [](mlir::Value value) -> int64_t {
    auto type = mlir::dyn_cast<mlir::RankedTensorType>(value.getType());
    return type && type.hasStaticShape() ? type.getNumElements() : 0;
  };
  mlir::Block &body = main.getBody().front();
  llvm::DenseMap<mlir::Value, mlir::Operation *> lastUses;
  for (mlir::Operation &op : body)
    for (mlir::Value operand : op.getOperands())
      lastUses[operand] = &op;
  int64_t live = 0, most = 0, assigned = 0;
  for (mlir::Value argument : body.getArguments())
    live += elementsOf(argument);
  for (mlir::Operation &op : body) {
    for (mlir::Value result : op.getResults())
      live += elementsOf(result);
    most = std::max(most, live);
    if (mlir::isa<dist::AssignOp>(op))
      assigned += elementsOf(op.getOperand(0));
    llvm::SmallPtrSet<mlir::Value, 4> over;
    for (mlir::Value operand : op.getOperands())
      if (lastUses[operand] == &op && over.insert(operand).second)
        live -= elementsOf(operand);
  }
  return static_cast<int64_t>(sizeof(double)) *
         std::max(most + 2 * assigned, 4 * assigned);
}

Program::Program(const Options &given, Role role, Exposed *exposed)
    : options(given) {
  Options own = role == Role::OneDevice ? forOneDevice(given) : given;
  if (role == Role::Probe)
    own.dumpDir = "";
  CompilationOptions compile = compilationOptions(own);
  compile.weightsInPlace = true;
  if (role == Role::Judged && options.expected.empty())
    compile.callerBytesOf = bytesOfReference;
  if (compile.training)
    optimizer = compile.training->optimizer;
  if (exposed) {
    compile.givenPlan = exposed->plan;
    compile.givenPlanPath = options.model;
  }
  setHooks(compile, role, exposed);
  std::optional<Progress> progress; // of others verify() shows it
  if (role == Role::Judged)
    progress.emplace(own, compile);
  Compilation compilation(std::move(compile));
  require(compilation, compilation.runUntil("lower"));
  if (!damaged)
    throw Failure{
        kUsage, "--damage: no float value of a node " + options.damage, {}};
  std::string path = folder.file("program.kerf");
  require(compilation, packageInto(compilation, path));
  if (progress) {
    progress->finish();
    progress.reset();
    printNotes(compilation, own);
  }
  planJson = compilation.getPlanJson();
  for (const auto &[name, size] : compilation.getPlan().mesh)
    if (size > 1)
      description += (description.empty() ? "" : " x ") + name + "=" +
                     std::to_string(size);
  kerf_package_options_t packageOptions{};
  packageOptions.struct_size = sizeof(packageOptions);
  packageOptions.skip_hashes = 1;
  check(kerf_package_open(path.c_str(), &packageOptions, &package),
        options.model);
}

Program::~Program() {
  kerf_session_destroy(session);
  kerf_package_close(package);
}

int64_t Program::numSteps() const {
  return optimizer ? std::max<int64_t>(options.steps, 1) : 1;
}

bool Program::setStepScalar(const kerf_tensor_info_t &info,
                            rt::HostTensor &input) {
  std::string name = info.name;
  if (!optimizer || !isStepScalar(name))
    return false;
  auto t = static_cast<double>(stepNumber + 1);
  if (info.dtype == KERF_F32) {
    auto value = static_cast<float>(
        name == kLearningRateInput ? optimizer->learningRate
        : name == kLossScaleInput  ? lossScale
        : name == kGradientWeightInput
            ? (stepNumber == 0 ? 1 : 1 - optimizer->option("dampening"))
        : name == kBiasCorrection1Input
            ? 1 - std::pow(optimizer->option("beta1"), t)
            : 1 - std::pow(optimizer->option("beta2"), t));
    std::memcpy(input.data.data(), &value, sizeof(value));
  } else {
    int64_t value = name == kSeedInput ? static_cast<int64_t>(options.seed)
                                       : stepNumber + 1;
    std::memcpy(input.data.data(), &value, sizeof(value));
  }
  return true;
}

/// Reads the inputs that are given in files; all steps get the same ones.
void Program::readInputs() {
  int32_t count = kerf_package_num_inputs(package);
  std::vector<rt::InputSpec> specs;
  for (int32_t i = 0; i < count; ++i) {
    kerf_tensor_info_t info;
    check(kerf_package_input(package, i, &info), options.model);
    names.push_back(info.name);
    specs.push_back(
        {info.name, info.dtype, {info.shape, info.shape + info.rank}, {}});
  }
  std::vector<std::optional<rt::GivenInput>> given;
  std::string error;
  if (!rt::matchInputs(options.inputs, specs, options.model, given, error))
    throw Failure{kUsage, error, {}};
  for (int32_t i = 0; i < count; ++i) {
    isGiven.push_back(given[i].has_value());
    // A number for where nothing is: each step fills it with its own.
    inputs.push_back(
        rt::inputTensor(given[i].value_or(rt::GivenInput()), specs[i]));
  }
}

void Program::load() {
  if (session)
    return;
  rt::preferShortSpins();
  kerf_session_options_t sessionOptions{};
  sessionOptions.struct_size = sizeof(sessionOptions);
  sessionOptions.threads = static_cast<int32_t>(options.threads);
  sessionOptions.deadline_seconds = options.timeout;
  check(kerf_session_create(package, &sessionOptions, &session), options.model);
  readInputs();
}

void Program::step() {
  load();
  for (int32_t i = 0; i < static_cast<int32_t>(inputs.size()); ++i) {
    kerf_tensor_info_t info;
    check(kerf_package_input(package, i, &info), options.model);
    if (!isGiven[i] && !setStepScalar(info, inputs[i])) {
      // Each step has samples of its own.
      rt::fillRandom(info.name,
                     options.seed + static_cast<uint64_t>(stepNumber),
                     info.dtype, info.bytes / kerf_dtype_size(info.dtype),
                     info.range_low, info.range_high, inputs[i].data.data());
    }
    check(kerf_session_set_input(session, i, inputs[i].data.data(),
                                 inputs[i].data.size()),
          options.model);
  }
  check(kerf_session_run(session), options.model);
  ++stepNumber;
}

void Program::restart(double scale) {
  kerf_session_destroy(session);
  session = nullptr;
  names.clear();
  isGiven.clear();
  inputs.clear();
  stepNumber = 0;
  lossScale = scale;
}

const rt::HostTensor *Program::input(const std::string &name) const {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name)
      return &inputs[i];
  return nullptr;
}

std::vector<kerf_tensor_info_t> Program::outputs() const {
  std::vector<kerf_tensor_info_t> result(kerf_package_num_outputs(package));
  for (int32_t i = 0; i < static_cast<int32_t>(result.size()); ++i)
    check(kerf_package_output(package, i, &result[i]), options.model);
  if (stepNumber == 0)
    return result;
  for (int32_t i = 0; i < static_cast<int32_t>(result.size()); ++i) {
    kerf_tensor_info_t &info = result[i];
    bool bounded = false;
    for (int32_t dim = 0; dim < info.rank; ++dim)
      bounded |= isBounded(i, dim);
    if (!bounded)
      continue;
    std::vector<int64_t> &shape = shapes.emplace_back(info.rank);
    check(kerf_session_output_shape(session, i, shape.data(), info.rank),
          options.model);
    info.shape = shape.data();
    info.bytes = kerf_dtype_size(info.dtype);
    for (int64_t size : shape)
      info.bytes *= static_cast<size_t>(size);
  }
  return result;
}

const void *Program::output(int32_t index) const {
  const void *data = nullptr;
  size_t bytes = 0;
  check(kerf_session_get_output(session, index, &data, &bytes), options.model);
  return data;
}

std::vector<std::pair<std::string, int32_t>>
Program::mutableParameters() const {
  std::vector<std::pair<std::string, int32_t>> result;
  for (int32_t i = 0; i < kerf_package_num_parameters(package); ++i) {
    kerf_parameter_info_t info = parameter(i);
    if (!info.is_mutable)
      continue;
    result.push_back({info.tensor.name, i});
  }
  return result;
}

kerf_parameter_info_t Program::parameter(int32_t index) const {
  kerf_parameter_info_t info;
  check(kerf_package_parameter(package, index, &info), options.model);
  return info;
}

std::vector<char> Program::parameterData(int32_t index) const {
  std::vector<char> data(parameter(index).tensor.bytes);
  check(kerf_session_get_parameter(session, index, data.data(), data.size()),
        options.model);
  return data;
}
