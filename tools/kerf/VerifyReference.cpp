//===- VerifyReference.cpp - the references of kerf verify ----------------===//
//
// By default the model as imported is run op by op in doubles: by the
// interpreter if that is fast, else by its loops in blocks ("unfused"). If that
// would take longer than --reference-seconds, only some samples of the batch
// are run. For inference the model is imported a second time without the
// rewrites behind the importer, so that these are checked as well.
//
//===----------------------------------------------------------------------===//
#include "VerifyReference.h"
#include "VerifyEvaluation.h"

#include "kerf/Dist/Dist.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <numeric>
#include <random>

using namespace kerf;
using namespace kerf::tool;

/// Up to this many seconds the interpreter itself is used.
constexpr double kQuickSeconds = 0.3;
/// A reference that takes up to so many times --reference-seconds is asked
/// before a program is called wrong.
constexpr double kPatience = 20;
namespace {

const char *const kImport = "the import of the model";
/// The shared part: the definition of an op on one element, or of a norm on a
/// row, exists once (kerf/NN/IR/Elements.h); the reference evaluates it with
/// libm.
const char *const kFormulas = "the formulas of single elements";

/// By the interpreter or its blocked loops.
class Evaluated : public Reference {
public:
  Evaluated(std::unique_ptr<Evaluation> given, const Options &options,
            bool unfused, bool simplified)
      : evaluation(std::move(given)), unfused(unfused),
        isTraining(options.train) {
    kind = unfused ? "unfused" : "interpreted";
    how = unfused ? "one operator at a time by plain loops in double precision"
                  : "one operator at a time by the interpreter, element by "
                    "element in double precision";
    shares = {kImport};
    if (simplified && !options.train)
      shares.push_back("its simplification");
    if (options.train)
      shares.push_back("autodiff");
    shares.push_back(kFormulas);
  }

  void step(const Program &judged) override {
    evaluation->gradientTolerance = isTraining ? judged.narrow : 0;
    outputs = evaluation->step(judged, unfused);
  }
  bool stepWide(const Program &judged) override {
    evaluation->rounding = interpret::Rounding::Wide;
    step(judged);
    evaluation->rounding = interpret::Rounding::Stored;
    return true;
  }
  bool stepsAgain(const Roundings &roundings) override {
    outputs = evaluation->stepsAgain(unfused, roundings);
    return true;
  }
  double secondsAgain() const override { return evaluation->seconds(unfused); }
  void restart(double) override { evaluation->restart(); }
  std::optional<double> scalar(int32_t index) const override {
    return outputs[index].data.front();
  }
  std::vector<Piece> output(const kerf_tensor_info_t &info,
                            int32_t index) override {
    interpret::Tensor &tensor = outputs[index];
    return {wholePiece({tensor.shape.begin(), tensor.shape.end()},
                       std::move(tensor.data))};
  }
  std::optional<std::vector<double>>
  parameter(const kerf_parameter_info_t &info, const std::string &) override {
    auto found = evaluation->state.find(keyOf(info));
    if (found == evaluation->state.end())
      return std::nullopt;
    return found->second.data;
  }
  const std::vector<float> *moves(const kerf_parameter_info_t &info) override {
    auto found = evaluation->moves.find(keyOf(info));
    return found == evaluation->moves.end() ? nullptr : &found->second.front();
  }

protected:
  std::unique_ptr<Evaluation> evaluation;

private:
  /// The name that interpret::sourceKey gives its source.
  static std::string keyOf(const kerf_parameter_info_t &info) {
    std::string key = info.view_starts ? info.stored.name : info.tensor.name;
    for (int32_t dim = 0; info.view_starts && dim < info.tensor.rank; ++dim)
      key += "," + std::to_string(info.view_starts[dim]);
    return key;
  }

  bool unfused, isTraining;
  std::vector<interpret::Tensor> outputs;
};

/// The shapes of the program's outputs are those of the whole batch.
class Sampled : public Evaluated {
public:
  Sampled(std::unique_ptr<Evaluation> given, const Options &options,
          bool simplified, const std::vector<int64_t> &which, int64_t all)
      : Evaluated(std::move(given), options, /*unfused=*/true, simplified),
        which(which) {
    for (int64_t sample : which)
      sampled += (sampled.empty() ? "" : ", ") + std::to_string(sample);
    sampled = (which.size() == 1 ? "sample " : "samples ") + sampled + " of " +
              std::to_string(all) + ", drawn from the seed";
  }
  void step(const Program &judged) override {
    parts.clear();
    results.clear();
    for (int64_t sample : which) {
      parts.push_back(Evaluation::ofSample(*evaluation, sample));
      parts.back()->rounding = evaluation->rounding;
      results.push_back(parts.back()->step(judged, /*unfused=*/true));
    }
  }
  bool stepsAgain(const Roundings &roundings) override {
    for (size_t i = 0; i < parts.size(); ++i)
      results[i] = parts[i]->stepsAgain(/*unfused=*/true, roundings);
    return true;
  }
  std::vector<Piece> output(const kerf_tensor_info_t &info,
                            int32_t index) override {
    std::vector<Piece> pieces;
    for (size_t i = 0; i < parts.size(); ++i) {
      std::optional<interpret::SampleDim> at = parts[i]->dims().outputs[index];
      interpret::Tensor &tensor = results[i][index];
      Piece piece{std::vector<int64_t>(info.rank, 0),
                  {tensor.shape.begin(), tensor.shape.end()},
                  std::move(tensor.data),
                  {},
                  false};
      if (at)
        piece.starts[at->dim] = which[i] * at->inner;
      pieces.push_back(std::move(piece));
      if (!at)
        break; // the same for all samples
    }
    return pieces;
  }

private:
  std::vector<int64_t> which;
  std::vector<std::unique_ptr<Evaluation>> parts;
  std::vector<std::vector<interpret::Tensor>> results;
};

/// The reference that is the same model, compiled by Kerf for one device.
class OneDevice : public Reference {
public:
  explicit OneDevice(const Options &options)
      : program(options, Program::Role::OneDevice) {
    kind = "compiled";
    how = "compiled for one device";
    shares = {kImport};
    if (options.train)
      shares.push_back("autodiff");
    for (const char *part : {"fusion", "library calls", "generated code",
                             "layouts", "the runtime"})
      shares.push_back(part);
    for (auto [name, index] : program.mutableParameters())
      known[name] = index;
  }
  /// Takes the slower reference that it stands for.
  void standFor(std::unique_ptr<Reference> other) { slower = std::move(other); }
  std::unique_ptr<Reference> independent() override {
    return std::move(slower);
  }
  void step(const Program &) override { program.step(); }
  void restart(double lossScale) override { program.restart(lossScale); }
  std::optional<double> scalar(int32_t index) const override {
    return elementAt(program.output(index), program.outputs()[index].dtype, 0);
  }
  std::vector<Piece> output(const kerf_tensor_info_t &,
                            int32_t index) override {
    kerf_tensor_info_t info = program.outputs()[index];
    return {wholePiece(
        info, toNumbers(program.output(index), info.dtype,
                        static_cast<int64_t>(info.bytes /
                                             kerf_dtype_size(info.dtype))))};
  }
  std::optional<std::vector<double>>
  parameter(const kerf_parameter_info_t &info,
            const std::string &name) override {
    auto found = known.find(name);
    if (found == known.end())
      return std::nullopt;
    std::vector<char> data = program.parameterData(found->second);
    return toNumbers(
        data.data(), info.tensor.dtype,
        static_cast<int64_t>(data.size() / kerf_dtype_size(info.tensor.dtype)));
  }

private:
  Program program;
  std::map<std::string, int32_t> known;
  std::unique_ptr<Reference> slower;
};

/// Outputs in files from elsewhere; every output must have one.
class Expected : public Reference {
public:
  Expected(const Options &options, const Program &judged)
      : folder(options.expected) {
    kind = "expected";
    how = "the files of " + folder;
    std::vector<kerf_tensor_info_t> outputs = judged.outputs();
    std::vector<std::string> names, missing;
    for (const kerf_tensor_info_t &info : outputs)
      names.push_back(info.name);
    names = rt::outputFileNames(names);
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::string path = folder + "/" + names[i], error;
      if (!llvm::sys::fs::exists(path)) {
        missing.push_back("output " + std::string(outputs[i].name) +
                          " has no file: " + path);
        continue;
      }
      files.emplace_back();
      if (!rt::readNpy(path, files.back(), error))
        throw Failure{kUsage, "--expected: " + error, {}};
      checkType(judged, static_cast<int32_t>(i), outputs[i], files.back(),
                path);
    }
    if (!missing.empty()) {
      std::string first = missing.front();
      missing.erase(missing.begin());
      throw Failure{kUsage, "--expected: " + first, missing};
    }
    if (options.train)
      notes.push_back("files have no parameters: what steps write is not "
                      "compared");
  }
  void step(const Program &) override {}
  std::vector<Piece> output(const kerf_tensor_info_t &info,
                            int32_t index) override {
    const rt::HostTensor &file = files[index];
    return {wholePiece(
        file.shape,
        toNumbers(file.data.data(), info.dtype,
                  static_cast<int64_t>(file.data.size() /
                                       kerf_dtype_size(info.dtype))))};
  }
  std::optional<std::vector<double>> parameter(const kerf_parameter_info_t &,
                                               const std::string &) override {
    return std::nullopt;
  }

private:
  static std::string typeText(kerf_dtype_t dtype,
                              const std::vector<int64_t> &shape) {
    return std::string(kerf_dtype_name(dtype)) + indexText(shape);
  }
  static void checkType(const Program &judged, int32_t index,
                        const kerf_tensor_info_t &info,
                        const rt::HostTensor &file, const std::string &path) {
    std::vector<int64_t> shape(info.shape, info.shape + info.rank);
    // Of what the program computes it says the most.
    for (int32_t d = 0; d < info.rank; ++d)
      if (file.shape.size() == shape.size() && judged.isBounded(index, d))
        shape[d] = std::min(shape[d], file.shape[d]);
    if (file.dtype != info.dtype || file.shape != shape)
      throw Failure{kUsage,
                    "--expected: " + path + " has " +
                        typeText(file.dtype, file.shape) + ", output " +
                        info.name + " is " + typeText(info.dtype, shape),
                    {}};
  }

  std::string folder;
  std::vector<rt::HostTensor> files;
};

std::string secondsText(double seconds) {
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format(seconds < 100 ? "%.2g" : "%.0f", seconds) << " s";
  return text;
}

} // namespace

/// Imported without simplification if possible: for inference in f32. With a
/// narrow precision the roundings depend on the products that the program has.
static std::unique_ptr<Evaluation> import(const Options &options,
                                          bool &simplified) {
  simplified = options.train || options.precision != "f32";
  if (!simplified) {
    try {
      return std::make_unique<Evaluation>(options, false);
    } catch (const Failure &) {
      simplified = true; // some constants are known only behind it
    }
  }
  return std::make_unique<Evaluation>(options, true);
}

/// Whether BatchNorm takes statistics of each device's part of the batch: one
/// device has no such parts.
static bool hasStatisticsOfDevices(const Evaluation &evaluation) {
  bool found = false;
  evaluation.module()->walk([&](mlir::Operation *op) {
    found |= dist::getReductionReach(op) == dist::ReductionReach::Device;
  });
  return found;
}

const char *const kOtherStatistics =
    "with --batch-norm=sync the step can be verified; --expected compares its "
    "outputs with those of another program";

/// No compiled program is a reference, and perhaps no other either: `cannotRun`
/// says why.
[[noreturn]] static void
refuseStatisticsOfDevices(const Options &options,
                          const std::string &cannotRun) {
  std::string flag = options.reference == "compiled" ? "--reference=compiled"
                                                     : "--batch-norm=local";
  std::string oneDevice =
      "a program for one device has no statistics of each device's part of the "
      "batch";
  if (cannotRun.empty())
    throw Failure{kUsage,
                  flag + ": with --batch-norm=local " + oneDevice,
                  {"--reference=unfused runs the step on each part"}};
  throw Failure{kUsage,
                flag + ": nothing to compare with: " + cannotRun + ", and " +
                    oneDevice,
                {kOtherStatistics}};
}

/// The reference for as many samples of the batch as fit into the time; null if
/// the model mixes samples, or one takes too long.
static std::unique_ptr<Reference>
samples(std::unique_ptr<Evaluation> &evaluation, const Options &options,
        bool simplified) {
  auto main = evaluation->module().lookupSymbol<mlir::func::FuncOp>("main");
  int64_t all = interpret::numSamples(main);
  std::unique_ptr<Evaluation> one =
      all > 1 ? Evaluation::ofSample(*evaluation, 0) : nullptr;
  if (!one && all > 1 && !simplified) {
    // Gathers by computed rows may need the simplified function.
    auto simple = std::make_unique<Evaluation>(options, true);
    one = Evaluation::ofSample(*simple, 0);
    if (one) {
      evaluation = std::move(simple);
      simplified = true;
    }
  }
  if (!one || one->seconds(true) > options.referenceSeconds)
    return nullptr;
  auto count = static_cast<int64_t>(std::min(
      static_cast<double>(all), options.referenceSeconds / one->seconds(true)));
  std::vector<int64_t> which(all);
  std::iota(which.begin(), which.end(), 0);
  std::mt19937_64 random(options.seed);
  for (int64_t i = 0; i < count; ++i)
    std::swap(which[i], which[i + static_cast<int64_t>(random() % (all - i))]);
  which.resize(count);
  llvm::sort(which);
  return std::make_unique<Sampled>(std::move(evaluation), options, simplified,
                                   which, all);
}

std::unique_ptr<Reference> kerf::tool::makeReference(const Options &options,
                                                     const Program &judged) {
  if (!options.expected.empty())
    return std::make_unique<Expected>(options, judged);
  bool simplified = false;
  std::unique_ptr<Evaluation> evaluation;
  if (options.train || options.reference != "compiled")
    evaluation = import(options, simplified);
  bool canRun = evaluation && (!options.train || !evaluation->needsParts() ||
                               evaluation->runsInParts());
  bool canCompile = !options.train || !hasStatisticsOfDevices(*evaluation);
  std::string cannotRun;
  if (evaluation && !canRun)
    cannotRun = "BatchNorm's statistics are those of parts of the batch, and "
                "an independent reference cannot run " +
                (evaluation->obstacle().empty() ? "this step"
                                                : evaluation->obstacle()) +
                " on a part";
  if (options.reference == "compiled" ||
      (options.reference == "auto" && !canRun)) {
    if (!canCompile)
      refuseStatisticsOfDevices(options, cannotRun);
    auto reference = std::make_unique<OneDevice>(options);
    if (options.reference == "auto")
      reference->notes.push_back(cannotRun);
    return reference;
  }
  if (!canRun)
    throw Failure{kUsage,
                  "--reference=" + options.reference + ": " + cannotRun,
                  {canCompile ? "--reference=compiled compares two compiled "
                                "programs"
                              : kOtherStatistics}};
  auto steps = static_cast<double>(judged.numSteps());
  bool unfused = options.reference == "unfused";
  if (options.reference == "auto") {
    unfused = steps * evaluation->seconds(false) >
              std::min(kQuickSeconds, options.referenceSeconds);
    double seconds = steps * evaluation->seconds(unfused);
    if (unfused && seconds > options.referenceSeconds && !options.train)
      if (auto reference = samples(evaluation, options, simplified))
        return reference;
    if (unfused && seconds > options.referenceSeconds && canCompile) {
      auto reference = std::make_unique<OneDevice>(options);
      reference->notes.push_back(
          "an independent reference would take about " + secondsText(seconds) +
          "; --reference=unfused computes it all the same");
      if (seconds <= kPatience * options.referenceSeconds)
        reference->standFor(std::make_unique<Evaluated>(
            std::move(evaluation), options, unfused, simplified));
      return reference;
    }
  }
  return std::make_unique<Evaluated>(std::move(evaluation), options, unfused,
                                     simplified);
}
