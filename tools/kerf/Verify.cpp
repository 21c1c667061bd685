//===- Verify.cpp - the partitioned program against one device ------------===//
//
// Compiles the model twice, as planned and for one device, runs both on the
// same inputs (given or drawn from the seed) and compares every element of
// every output: |a - b| <= atol + rtol |b|, with b from one device. NaN equals
// NaN only. With --train both take --steps steps of training on the same data;
// compared are what the last one reports and every parameter that steps write.
// Both round alike (--precision), but a sum of other parts rounds elsewhere: in
// a narrow precision atol is at the scale of the largest element.
//
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "Setup.h"

#include "kerf/rt/run.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>
#include <map>

using namespace kerf;
using namespace kerf::tool;

namespace {

void check(kerf_status_t status, const std::string &file) {
  if (status)
    throw Failure{rt::reportStatus(status, file, stderr), "", {}};
}

/// A package under execution, with its inputs.
class Program {
public:
  Program(const Options &options, bool partitioned);
  ~Program() {
    kerf_session_destroy(session);
    kerf_package_close(package);
  }
  void run();
  /// Parameters that steps write.
  std::vector<int32_t> mutableParameters() const;

  TemporaryFolder folder;
  std::string description;
  kerf_package_t *package = nullptr;
  kerf_session_t *session = nullptr;

private:
  /// A scalar that the caller of a training step sets, as `kerf train` does.
  bool setStepScalar(const kerf_tensor_info_t &info, rt::HostTensor &input);
  void runStep();

  const Options &options;
  std::optional<autodiff::OptimizerSpec> optimizer;
  int64_t step = 0;
  std::string path;
  std::vector<rt::HostTensor> inputs;
};

/// The largest difference of one output, and where.
struct Difference {
  std::string name;
  int64_t elements = 0, wrong = 0, worst = 0;
  double largest = 0, largestRelative = 0, found = 0, expected = 0;
  double rtol = 0, atol = 0;
  std::vector<int64_t> shape;
};

} // namespace

Program::Program(const Options &options, bool partitioned) : options(options) {
  Options own = options;
  if (!partitioned) {
    own.devices = "1";
    own.mesh = own.planFile = own.memoryLimit = own.machine = "";
    own.shards.clear();
    own.solver = own.schedule = "auto";
    // BatchNorm's statistics are those of the same micro-batches.
    if (!own.train)
      own.microBatches = 0;
    own.dumpDir = "";
    // The one device is a CPU.
    if (own.precision == "tf32")
      own.precision = "f32";
  }
  CompilationOptions compile = compilationOptions(own);
  compile.weightsInPlace = true;
  if (compile.training)
    optimizer = compile.training->optimizer;
  Compilation compilation(std::move(compile));
  require(compilation, compilation.runUntil("lower"));
  path = folder.file(partitioned ? "partitioned.kerf" : "reference.kerf");
  require(compilation, compilation.runPackage(path));
  if (partitioned)
    printNotes(compilation, own);
  for (const auto &[name, size] : compilation.getPlan().mesh)
    if (size > 1)
      description += (description.empty() ? "" : " x ") + name + "=" +
                     std::to_string(size);
  kerf_package_options_t packageOptions{};
  packageOptions.struct_size = sizeof(packageOptions);
  packageOptions.skip_hashes = 1;
  check(kerf_package_open(path.c_str(), &packageOptions, &package), path);
}

std::vector<int32_t> Program::mutableParameters() const {
  std::vector<int32_t> result;
  for (int32_t i = 0; i < kerf_package_num_parameters(package); ++i) {
    kerf_parameter_info_t info;
    check(kerf_package_parameter(package, i, &info), options.model);
    if (info.is_mutable)
      result.push_back(i);
  }
  return result;
}

bool Program::setStepScalar(const kerf_tensor_info_t &info,
                            rt::HostTensor &input) {
  std::string name = info.name;
  if (!optimizer || name.compare(0, 6, "train.") != 0)
    return false;
  auto t = static_cast<double>(step + 1);
  if (info.dtype == KERF_F32) {
    auto value = static_cast<float>(
        name == "train.learning_rate" ? optimizer->learningRate
        : name == "train.gradient_weight"
            ? (step == 0 ? 1 : 1 - optimizer->dampening)
        : name == "train.bias_correction_1"
            ? 1 - std::pow(optimizer->beta1, t)
            : 1 - std::pow(optimizer->beta2, t));
    std::memcpy(input.data.data(), &value, sizeof(value));
  } else {
    int64_t value =
        name == "train.seed" ? static_cast<int64_t>(options.seed) : step + 1;
    std::memcpy(input.data.data(), &value, sizeof(value));
  }
  return true;
}

void Program::run() {
  kerf_session_options_t sessionOptions{};
  sessionOptions.struct_size = sizeof(sessionOptions);
  sessionOptions.threads = static_cast<int32_t>(options.threads);
  sessionOptions.deadline_seconds = options.timeout;
  check(kerf_session_create(package, &sessionOptions, &session), options.model);
  inputs.resize(kerf_package_num_inputs(package));
  for (; step < (optimizer ? std::max<int64_t>(options.steps, 1) : 1); ++step)
    runStep();
}

void Program::runStep() {
  auto count = static_cast<int32_t>(inputs.size());
  std::vector<bool> used(options.inputs.size(), false);
  for (int32_t i = 0; i < count; ++i) {
    kerf_tensor_info_t info;
    check(kerf_package_input(package, i, &info), options.model);
    bool given = false;
    for (size_t k = 0; k < options.inputs.size(); ++k) {
      const std::string &text = options.inputs[k];
      size_t equals = text.find("=@");
      if (equals == std::string::npos)
        throw Failure{
            kUsage, "--input: '" + text + "', expected NAME=@FILE.npy", {}};
      if (text.substr(0, equals) != info.name)
        continue;
      std::string error;
      if (!rt::readNpy(text.substr(equals + 2), inputs[i], error))
        throw Failure{kUsage, error, {}};
      if (inputs[i].dtype != info.dtype || inputs[i].data.size() != info.bytes)
        throw Failure{kUsage,
                      "--input: " + std::string(info.name) + " has " +
                          std::to_string(inputs[i].data.size()) + " bytes of " +
                          kerf_dtype_name(inputs[i].dtype) + ", expected " +
                          std::to_string(info.bytes) + " of " +
                          kerf_dtype_name(info.dtype),
                      {}};
      used[k] = given = true;
    }
    if (!given)
      inputs[i].data.resize(info.bytes);
    if (!given && !setStepScalar(info, inputs[i])) {
      // Each step has samples of its own.
      rt::fillRandom(info.name, options.seed + static_cast<uint64_t>(step),
                     info.dtype, info.bytes / kerf_dtype_size(info.dtype),
                     info.range_low, info.range_high, inputs[i].data.data());
    }
    check(kerf_session_set_input(session, i, inputs[i].data.data(),
                                 inputs[i].data.size()),
          options.model);
  }
  for (size_t k = 0; k < used.size(); ++k)
    if (!used[k])
      throw Failure{kUsage,
                    "--input: the model has no input for '" +
                        options.inputs[k] + "'",
                    {}};
  check(kerf_session_run(session), options.model);
}

static double halfToDouble(uint16_t bits) {
  int sign = bits >> 15, exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? std::nan("") : INFINITY)
                                  : std::ldexp(1024 + mantissa, exponent - 25);
  return sign ? -value : value;
}

static double elementAt(const void *data, kerf_dtype_t dtype, int64_t index) {
  const char *at = static_cast<const char *>(data) +
                   index * static_cast<int64_t>(kerf_dtype_size(dtype));
  auto as = [&](auto zero) {
    std::memcpy(&zero, at, sizeof(zero));
    return zero;
  };
  switch (dtype) {
  case KERF_F32:
    return as(float());
  case KERF_F64:
    return as(double());
  case KERF_F16:
    return halfToDouble(as(uint16_t()));
  case KERF_BF16: {
    uint32_t bits = uint32_t(as(uint16_t())) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  case KERF_I8:
    return as(int8_t());
  case KERF_I16:
    return as(int16_t());
  case KERF_I32:
    return as(int32_t());
  case KERF_I64:
    return static_cast<double>(as(int64_t()));
  case KERF_U8:
  case KERF_BOOL:
    return as(uint8_t());
  case KERF_U16:
    return as(uint16_t());
  case KERF_U32:
    return as(uint32_t());
  case KERF_U64:
    return static_cast<double>(as(uint64_t()));
  }
  return 0;
}

/// |a - b| <= atol + rtol |b|.
struct Tolerance {
  double rtol, atol;
  /// `given` by the user, else 1e-3 and 1e-5, or in a narrow precision four
  /// units of rounding of `largest`, the largest magnitude that is compared.
  Tolerance(const Options &given, double largest)
      : rtol(given.rtol.value_or(1e-3)) {
    double narrow = given.precision == "bf16"  ? 0x1p-6
                    : given.precision == "f32" ? 0
                                               : 0x1p-9;
    atol = given.atol.value_or(narrow > 0 ? narrow * largest : 1e-5);
  }
};

static double largestMagnitude(const void *data,
                               const kerf_tensor_info_t &info) {
  double result = 0;
  auto count = static_cast<int64_t>(info.bytes / kerf_dtype_size(info.dtype));
  for (int64_t i = 0; i < count; ++i) {
    double value = std::fabs(elementAt(data, info.dtype, i));
    if (std::isfinite(value))
      result = std::max(result, value);
  }
  return result;
}

static Difference compare(const kerf_tensor_info_t &info, const void *a,
                          const void *b, const Tolerance &tolerance) {
  Difference result;
  result.rtol = tolerance.rtol;
  result.atol = tolerance.atol;
  result.name = info.name;
  result.shape.assign(info.shape, info.shape + info.rank);
  result.elements =
      static_cast<int64_t>(info.bytes / kerf_dtype_size(info.dtype));
  for (int64_t i = 0; i < result.elements; ++i) {
    double x = elementAt(a, info.dtype, i), y = elementAt(b, info.dtype, i);
    bool bothNaN = std::isnan(x) && std::isnan(y);
    if (x == y || bothNaN)
      continue;
    double difference = std::fabs(x - y);
    if (std::isnan(difference))
      difference = INFINITY;
    if (!(difference <= tolerance.atol + tolerance.rtol * std::fabs(y)))
      ++result.wrong;
    if (difference > result.largest) {
      result.largest = difference;
      result.worst = i;
      result.found = x;
      result.expected = y;
    }
    if (y != 0)
      result.largestRelative =
          std::max(result.largestRelative, difference / std::fabs(y));
  }
  return result;
}

static Difference compareOutput(Program &partitioned, Program &reference,
                                int32_t index, const Options &options) {
  kerf_tensor_info_t info;
  check(kerf_package_output(partitioned.package, index, &info), options.model);
  const void *a = nullptr, *b = nullptr;
  size_t bytesA = 0, bytesB = 0;
  check(kerf_session_get_output(partitioned.session, index, &a, &bytesA),
        options.model);
  check(kerf_session_get_output(reference.session, index, &b, &bytesB),
        options.model);
  if (bytesA != bytesB)
    throw Failure{kInternal, "outputs have different sizes", {}};
  return compare(info, a, b, Tolerance(options, largestMagnitude(b, info)));
}

/// "w", or "w[0, 64]" for the view that begins there.
static std::string parameterName(const kerf_parameter_info_t &info) {
  std::string name = info.tensor.name;
  if (!info.view_starts)
    return name;
  name += "[";
  for (int32_t dim = 0; dim < info.tensor.rank; ++dim)
    name += (dim ? ", " : "") + std::to_string(info.view_starts[dim]);
  return name + "]";
}

static std::vector<char> readParameter(Program &program, int32_t index,
                                       size_t bytes, const Options &options) {
  std::vector<char> data(bytes);
  check(kerf_session_get_parameter(program.session, index, data.data(), bytes),
        options.model);
  return data;
}

/// A parameter that steps write, as both programs have it.
struct ParameterPair {
  kerf_parameter_info_t info;
  std::string name;
  std::vector<char> partitioned, reference;

  double largest() const {
    return largestMagnitude(reference.data(), info.tensor);
  }
  /// "adam.v" of "adam.v/w"; empty for a parameter of the model.
  std::string kindOfState() const {
    return info.stored.name ? "" : name.substr(0, name.find('/'));
  }
};

/// Every parameter that steps write; the two packages may list them in
/// different orders. What an optimizer remembers can be tiny (squares of
/// gradients): its absolute tolerance is at the scale of its kind.
static std::vector<Difference> compareParameters(Program &partitioned,
                                                 Program &reference,
                                                 const Options &options) {
  std::map<std::string, int32_t> known;
  kerf_parameter_info_t info;
  for (int32_t index : reference.mutableParameters()) {
    check(kerf_package_parameter(reference.package, index, &info),
          options.model);
    known[parameterName(info)] = index;
  }
  std::vector<ParameterPair> pairs;
  std::map<std::string, double> scales;
  for (int32_t index : partitioned.mutableParameters()) {
    check(kerf_package_parameter(partitioned.package, index, &info),
          options.model);
    std::string name = parameterName(info);
    auto other = known.find(name);
    if (other == known.end())
      throw Failure{
          kInternal, "parameter " + name + " is in one package alone", {}};
    pairs.push_back(
        {info, name,
         readParameter(partitioned, index, info.tensor.bytes, options),
         readParameter(reference, other->second, info.tensor.bytes, options)});
    double &scale = scales[pairs.back().kindOfState()];
    scale = std::max(scale, pairs.back().largest());
  }
  std::vector<Difference> result;
  for (const ParameterPair &pair : pairs) {
    double scale = scales[pair.kindOfState()];
    Tolerance tolerance(options, scale);
    if (!pair.kindOfState().empty() &&
        (options.atol || options.precision == "f32"))
      tolerance.atol *= std::min(1.0, scale);
    result.push_back(compare(pair.info.tensor, pair.partitioned.data(),
                             pair.reference.data(), tolerance));
    result.back().name = pair.name;
  }
  return result;
}

static std::string indexText(int64_t linear, llvm::ArrayRef<int64_t> shape) {
  std::string text;
  for (size_t dim = shape.size(); dim-- > 0;) {
    text =
        std::to_string(linear % shape[dim]) + (text.empty() ? "" : ", ") + text;
    linear /= shape[dim];
  }
  return "[" + text + "]";
}

int kerf::tool::verify(const Options &options) {
  Program reference(options, /*partitioned=*/false);
  Program partitioned(options, /*partitioned=*/true);
  reference.run();
  partitioned.run();
  llvm::json::Array rows;
  bool fine = true;
  std::vector<Difference> differences;
  int32_t count = kerf_package_num_outputs(partitioned.package);
  for (int32_t i = 0; i < count; ++i)
    differences.push_back(compareOutput(partitioned, reference, i, options));
  if (options.train)
    for (Difference &d : compareParameters(partitioned, reference, options))
      differences.push_back(std::move(d));
  for (const Difference &d : differences) {
    fine &= d.wrong == 0;
    std::string where = indexText(d.worst, d.shape);
    rows.push_back(
        llvm::json::Object{{"name", d.name},
                           {"elements", d.elements},
                           {"wrong", d.wrong},
                           {"largest_difference", d.largest},
                           {"largest_relative_difference", d.largestRelative},
                           {"at", where}});
    if (options.json || (options.quiet && d.wrong == 0))
      continue;
    llvm::outs() << (d.wrong ? "differs  " : "equal    ") << d.name << ": "
                 << d.elements << " elements, largest difference "
                 << llvm::format("%.3g", d.largest);
    if (d.largest > 0)
      llvm::outs() << " at " << where << " ("
                   << llvm::format("%.7g against %.7g", d.found, d.expected)
                   << "), largest relative "
                   << llvm::format("%.3g", d.largestRelative);
    if (d.wrong)
      llvm::outs() << "; " << d.wrong << " outside atol "
                   << llvm::format("%g", d.atol) << " + rtol "
                   << llvm::format("%g", d.rtol);
    llvm::outs() << "\n";
  }
  int32_t ranks = kerf_package_num_ranks(partitioned.package);
  if (options.json)
    llvm::outs() << llvm::formatv(
        "{0:2}\n",
        llvm::json::Value(llvm::json::Object{{"schema", "kerf.verify/1"},
                                             {"equal", fine},
                                             {"ranks", ranks},
                                             {"outputs", std::move(rows)}}));
  else if (!options.quiet)
    llvm::outs() << (fine ? "verified" : "NOT equal") << ": " << ranks
                 << (ranks == 1 ? " rank" : " ranks")
                 << (partitioned.description.empty()
                         ? ""
                         : " (" + partitioned.description + ")")
                 << " against one, bytes sent as planned\n";
  llvm::outs().flush();
  return fine ? kFine : kResultsDiffer;
}
