//===- Verify.cpp - the partitioned program against one device ------------===//
//
// Compiles the model twice, as planned and for one device, runs both on the
// same inputs (given or drawn from the seed) and compares every element of
// every output: |a - b| <= atol + rtol |b|, with b from one device. NaN equals
// NaN only.
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

  TemporaryFolder folder;
  std::string description;
  kerf_package_t *package = nullptr;
  kerf_session_t *session = nullptr;

private:
  const Options &options;
  std::string path;
  std::vector<rt::HostTensor> inputs;
};

/// The largest difference of one output, and where.
struct Difference {
  std::string name;
  int64_t elements = 0, wrong = 0, worst = 0;
  double largest = 0, largestRelative = 0, found = 0, expected = 0;
  std::vector<int64_t> shape;
};

} // namespace

Program::Program(const Options &options, bool partitioned) : options(options) {
  Options own = options;
  if (!partitioned) {
    own.devices = "1";
    own.mesh = own.planFile = own.memoryLimit = own.machine = "";
    own.shards.clear();
    own.solver = "auto";
    own.microBatches = 0;
    own.dumpDir = "";
  }
  CompilationOptions compile = compilationOptions(own);
  compile.weightsInPlace = true;
  Compilation compilation(std::move(compile));
  require(compilation, compilation.runUntil("lower"));
  path = folder.file(partitioned ? "partitioned.kerf" : "reference.kerf");
  require(compilation, compilation.runPackage(path));
  for (const auto &[name, size] : compilation.getPlan().mesh)
    if (size > 1)
      description += (description.empty() ? "" : " x ") + name + "=" +
                     std::to_string(size);
  kerf_package_options_t packageOptions{};
  packageOptions.struct_size = sizeof(packageOptions);
  packageOptions.skip_hashes = 1;
  check(kerf_package_open(path.c_str(), &packageOptions, &package), path);
}

void Program::run() {
  kerf_session_options_t sessionOptions{};
  sessionOptions.struct_size = sizeof(sessionOptions);
  sessionOptions.threads = static_cast<int32_t>(options.threads);
  sessionOptions.deadline_seconds = options.timeout;
  check(kerf_session_create(package, &sessionOptions, &session), options.model);
  int32_t count = kerf_package_num_inputs(package);
  inputs.resize(count);
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
    if (!given) {
      inputs[i].data.resize(info.bytes);
      rt::fillRandom(info.name, options.seed, info.dtype,
                     info.bytes / kerf_dtype_size(info.dtype), info.range_low,
                     info.range_high, inputs[i].data.data());
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

static Difference compare(Program &partitioned, Program &reference,
                          int32_t index, const Options &options) {
  kerf_tensor_info_t info;
  check(kerf_package_output(partitioned.package, index, &info), options.model);
  const void *a = nullptr, *b = nullptr;
  size_t bytesA = 0, bytesB = 0;
  check(kerf_session_get_output(partitioned.session, index, &a, &bytesA),
        options.model);
  check(kerf_session_get_output(reference.session, index, &b, &bytesB),
        options.model);
  Difference result;
  result.name = info.name;
  result.shape.assign(info.shape, info.shape + info.rank);
  result.elements =
      static_cast<int64_t>(info.bytes / kerf_dtype_size(info.dtype));
  if (bytesA != bytesB)
    throw Failure{kInternal, "outputs have different sizes", {}};
  for (int64_t i = 0; i < result.elements; ++i) {
    double x = elementAt(a, info.dtype, i), y = elementAt(b, info.dtype, i);
    bool bothNaN = std::isnan(x) && std::isnan(y);
    if (x == y || bothNaN)
      continue;
    double difference = std::fabs(x - y);
    if (std::isnan(difference))
      difference = INFINITY;
    if (!(difference <= options.atol + options.rtol * std::fabs(y)))
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
  int32_t count = kerf_package_num_outputs(partitioned.package);
  for (int32_t i = 0; i < count; ++i) {
    Difference d = compare(partitioned, reference, i, options);
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
                   << llvm::format("%g", options.atol) << " + rtol "
                   << llvm::format("%g", options.rtol);
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
