//===- VerifyJudge.cpp - all that a program computes against a reference --===//
#include "VerifyJudge.h"

#include "VerifySlack.h"
#include "VerifyUpdates.h"

#include "kerf/Format/StepScalars.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace kerf;
using namespace kerf::tool;

static double largestMagnitude(const std::vector<Piece> &pieces) {
  double result = 0;
  for (const Piece &piece : pieces)
    result = std::max(result, tool::largestMagnitude(piece.numbers));
  return result;
}

/// A tensor of the program and of the reference.
struct Pair {
  std::string name;
  kerf_tensor_info_t info;
  std::vector<char> held; ///< a parameter's elements
  const void *data = nullptr;
  std::vector<Piece> pieces;
  Tolerance tolerance;
  std::vector<Piece> wide;      ///< without the rounding of 16-bit values
  std::optional<Update> update; ///< of a parameter that is judged by its change
  Tolerance ofAll;              ///< at the scale of the largest parameter

  Difference compare() const {
    Difference result = tool::compare(info, data, pieces, tolerance, wide);
    result.name = name;
    result.isUpdate = update.has_value();
    judgeWhole(result);
    return result;
  }
  /// Where not all other roundings were tried: each element at the scale of
  /// all parameters, and the change as a whole.
  void judgeRoughly(Difference &difference) const {
    int64_t open = difference.wrong;
    if (!update || open == 0 || !difference.whole.empty())
      return;
    difference = tool::compare(info, data, pieces, ofAll);
    difference.name = name;
    difference.undecided += open;
    judgeWhole(difference);
  }
  void judgeWhole(Difference &difference) const {
    if (update)
      update->judgeWhole(info, data, difference);
  }
};

static std::vector<Pair> outputPairs(const Program &judged,
                                     Reference &reference,
                                     const Options &options) {
  std::vector<Pair> result;
  for (auto [index, info] : llvm::enumerate(judged.outputs())) {
    auto number = static_cast<int32_t>(index);
    Pair pair{info.name, info, {}, judged.output(number), {}, {}, {}, {}, {}};
    pair.pieces = reference.output(info, number);
    pair.tolerance = Tolerance(options, info.dtype, judged.narrowOutputs[index],
                               largestMagnitude(pair.pieces));
    result.push_back(std::move(pair));
  }
  return result;
}

/// An element of an output that depends on 16-bit values is right if it is
/// right with or without the rounding of those values: the model rounds each
/// value, while a program may keep values that it does not store in wider types
/// (a fully masked row can depend on it).
static void compareWide(const Program &judged, Reference &reference,
                        std::vector<Pair> &outputs,
                        std::vector<Difference> &differences) {
  auto isOpen = [&](size_t index) {
    return differences[index].wrong > 0 && judged.narrowOutputs[index] > 0;
  };
  if (llvm::none_of(llvm::seq(outputs.size()), isOpen) ||
      !reference.stepWide(judged))
    return;
  for (size_t index = 0; index < outputs.size(); ++index)
    if (isOpen(index)) {
      outputs[index].wide =
          reference.output(outputs[index].info, static_cast<int32_t>(index));
      differences[index] = outputs[index].compare();
    }
}

/// "adam.v" of "adam.v/w"; empty for a parameter of the model.
static std::string kindOfState(const kerf_parameter_info_t &info) {
  std::string name = info.tensor.name;
  return info.stored.name ? "" : name.substr(0, name.find('/'));
}

/// Every parameter that steps write; `before`: the same before the first step,
/// or nothing where they are not judged by their change. States of the
/// optimizer can be tiny (squares of gradients): their absolute tolerance is
/// relative to the largest element of their kind.
static std::vector<Pair>
parameterPairs(const Program &judged, Reference &reference,
               const Options &options,
               const std::vector<std::vector<double>> &before) {
  std::vector<Pair> result;
  std::map<std::string, double> scales;
  for (auto &[name, index] : judged.mutableParameters()) {
    kerf_parameter_info_t info = judged.parameter(index);
    std::optional<std::vector<double>> numbers =
        reference.parameter(info, name);
    if (!numbers)
      throw Failure{
          kInternal, "the reference does not write parameter " + name, {}};
    Pair pair{name, info.tensor, judged.parameterData(index), nullptr, {}, {},
              {},   {}};
    pair.pieces = {wholePiece(info.tensor, std::move(*numbers))};
    double &scale = scales[kindOfState(info)];
    scale = std::max(scale, largestMagnitude(pair.pieces));
    result.push_back(std::move(pair));
  }
  for (auto [number, pair] : llvm::enumerate(result)) {
    kerf_parameter_info_t info =
        judged.parameter(judged.mutableParameters()[number].second);
    double scale = scales[kindOfState(info)];
    pair.tolerance =
        Tolerance(options, info.tensor.dtype, judged.narrow, scale);
    if (!kindOfState(info).empty() && (options.atol || judged.narrow == 0))
      pair.tolerance.atol *= std::min(1.0, scale);
    pair.data = pair.held.data();
    if (before.empty() || !kindOfState(info).empty())
      continue;
    pair.update = Update::make(options, judged, reference, info, before[number],
                               pair.pieces.front());
    pair.ofAll = pair.tolerance;
    if (pair.update)
      pair.tolerance = pair.update->tolerance();
  }
  return result;
}

/// The parameters that steps write, before the first step.
static std::vector<std::vector<double>> firstParameters(Program &judged) {
  judged.load();
  std::vector<std::vector<double>> result;
  for (auto &[name, index] : judged.mutableParameters()) {
    kerf_tensor_info_t info = judged.parameter(index).tensor;
    std::vector<char> data = judged.parameterData(index);
    result.push_back(toNumbers(
        data.data(), info.dtype,
        static_cast<int64_t>(data.size() / kerf_dtype_size(info.dtype))));
  }
  return result;
}

/// In 16 bits a parameter that is not judged by its change may differ by a part
/// of the largest of all, which can be more than a few steps change; and
/// rounding may be all that a change consists of. What is not judged there is
/// said.
static void noteSmallUpdates(const Program &judged, Reference &reference,
                             const std::vector<Pair> &parameters,
                             const std::vector<std::vector<double>> &before) {
  size_t count = 0, small = 0, blind = 0;
  double atol = 0;
  for (auto [pair, parameter, old] :
       llvm::zip_equal(parameters, judged.mutableParameters(), before)) {
    if (!kindOfState(judged.parameter(parameter.second)).empty())
      continue;
    ++count;
    if (pair.update) {
      blind += pair.update->isBlind(pair.info, pair.pieces);
      continue;
    }
    double change = 0;
    for (auto [a, b] : llvm::zip_equal(pair.pieces.front().numbers, old))
      change = std::max(change, std::fabs(a - b));
    small += change <= pair.tolerance.atol;
    atol = std::max(atol, pair.tolerance.atol);
  }
  std::string note;
  llvm::raw_string_ostream stream(note);
  if (small)
    stream << small << " of " << count
           << " parameters change by no more than 16 bits let them differ ("
           << llvm::format("%.3g", atol)
           << "): of their updates the gradients' norm and the optimizer's "
              "states are judged; --atol=A, or f32, judges them as well";
  if (blind)
    stream << (small ? "; " : "") << blind << " of " << count
           << " parameters change by no more than rounding leaves of their "
              "updates: one that is left out would not be seen";
  if (small || blind)
    reference.notes.push_back(std::move(note));
}

/// Runs with other roundings for updates alone: as many as take this long by
/// estimate, and the first two.
static constexpr double kSecondsForUpdates = 30;

/// Of a slow reference as many runs are done as take about this long, in pairs
/// of opposite moves, and kMinPairs of these.
static constexpr double kSecondsForRuns = 300;
static constexpr size_t kMinPairs = 3;

/// The runs with other roundings; of a slow reference every n-th pair, so that
/// each kind is among them.
static std::vector<Roundings> runsWithin(double secondsOfRun) {
  std::vector<Roundings> all = otherRoundings(), some;
  size_t pairs = all.size() / 2;
  auto most = static_cast<size_t>(kSecondsForRuns / (2 * secondsOfRun + 1e-9));
  most = std::clamp(most, kMinPairs, pairs);
  for (size_t i = 0; i < most; ++i)
    for (size_t sign : {0, 1})
      some.push_back(all[2 * (i * pairs / most) + sign]);
  return some;
}

/// A program is not wrong where rounding alone decides a result. Three cases: a
/// gradient whose exact value is 0 (of a key's bias, of a bias in front of
/// BatchNorm) consists of rounding errors, and an optimizer that divides it by
/// its own size moves the parameter by a whole step in a random direction. An
/// index (ArgMax, TopK) or a bool (Greater) is a choice between numbers that
/// may be nearer to each other than their rounding errors, and no tolerance
/// applies to it. A float may be what is left of much larger ones (a loss of
/// 0.06 of scores near 20 that 16 bits round). So before a program is called
/// wrong, the reference is run again with other roundings, and each element may
/// differ as much as the reference's moves. All others hardly move.
static void compareWithSlack(const Program &judged, Reference &reference,
                             std::vector<Pair> &outputs,
                             std::vector<Pair> &parameters,
                             std::vector<Difference> &differences,
                             Progress &progress) {
  auto kind = [&](size_t index) {
    return index >= outputs.size()              ? Moved::State
           : isExact(outputs[index].info.dtype) ? Moved::Choices
           : judged.numSteps() > 1              ? Moved::State
                                                : Moved::Floats;
  };
  auto pairOf = [&](size_t index) -> Pair & {
    return index < outputs.size() ? outputs[index]
                                  : parameters[index - outputs.size()];
  };
  double perRun =
      reference.secondsAgain() * static_cast<double>(judged.numSteps());
  const std::vector<Roundings> runs = runsWithin(perRun);
  auto forUpdates =
      static_cast<size_t>(perRun * double(runs.size()) <= kSecondsForUpdates
                              ? double(runs.size())
                              : std::max(2.0, kSecondsForUpdates / perRun));
  for (auto [number, roundings] : llvm::enumerate(runs)) {
    bool isForUpdates = number < forUpdates;
    auto mayMove = [&](size_t index) {
      return differences[index].wrong > 0 &&
             (isForUpdates || !differences[index].isUpdate) &&
             slackFactor(roundings, kind(index)) > 0;
    };
    if (llvm::none_of(llvm::seq(differences.size()), mayMove))
      continue;
    progress.rename(
        llvm::formatv("something differs: running the reference with other "
                      "roundings, {0} of {1}",
                      number + 1, runs.size()));
    if (!reference.stepsAgain(roundings))
      return;
    for (auto [index, pair] : llvm::enumerate(outputs))
      if (double factor = slackFactor(roundings, kind(index)))
        widenSlack(pair.pieces,
                   reference.output(pair.info, static_cast<int32_t>(index)),
                   factor, pair.tolerance);
    for (auto [pair, parameter] :
         llvm::zip_equal(parameters, judged.mutableParameters())) {
      kerf_parameter_info_t info = judged.parameter(parameter.second);
      std::vector<Piece> run = {
          wholePiece(info.tensor, *reference.parameter(info, pair.name))};
      widenSlack(pair.pieces, run, slackFactor(roundings, Moved::State),
                 pair.tolerance);
      if (pair.update)
        pair.update->addRun(roundings, run.front().numbers);
    }
    for (size_t index = 0; index < differences.size(); ++index)
      if (mayMove(index))
        differences[index] = pairOf(index).compare();
  }
  for (size_t index = outputs.size(); index < differences.size(); ++index) {
    explainByChance(differences[index], pairOf(index).pieces);
    pairOf(index).judgeWhole(differences[index]);
    if (forUpdates < runs.size())
      pairOf(index).judgeRoughly(differences[index]);
  }
}

/// Whether the last step changed nothing because its gradients overflow in
/// float16, in the program or in the reference.
static bool isSkipped(const Program &judged, const Reference &reference) {
  bool isFinite = true, overflows = false;
  for (auto [number, info] : llvm::enumerate(judged.outputs())) {
    bool isNorm = llvm::StringRef(info.name) == kGradientNormOutput;
    if (number != 0 && !isNorm) // the loss is the first
      continue;
    auto index = static_cast<int32_t>(number);
    double own = elementAt(judged.output(index), info.dtype, 0),
           other = reference.scalar(index).value_or(own);
    bool both = std::isfinite(own) && std::isfinite(other);
    (isNorm ? overflows : isFinite) = isNorm ? !both : both;
  }
  return isFinite && overflows;
}

/// A step that changes nothing is no test of the update: a smaller scale of the
/// loss mends what overflows, down to one where small gradients are lost.
static constexpr double kScaleSteps = 32, kMinScale = 1.0 / 1024;

/// All steps of the program and of the reference. Both take the largest scale
/// of the loss with which no step is skipped.
static void runSteps(Program &judged, Reference &reference,
                     Progress &progress) {
  const double first = judged.lossScale;
  for (int64_t step = 0; step < judged.numSteps(); ++step) {
    progress.enter("running the program");
    judged.step();
    progress.enter("running the reference");
    reference.step(judged);
    if (!judged.scalesLoss() || !isSkipped(judged, reference))
      continue;
    double smaller = judged.lossScale / kScaleSteps;
    if (smaller < kMinScale) {
      reference.notes.push_back(
          "step " + std::to_string(step + 1) +
          " changes no parameter: its gradients overflow float16 even with the "
          "loss divided by " +
          std::to_string(std::lround(1 / judged.lossScale)));
      continue;
    }
    judged.restart(smaller);
    reference.restart(smaller);
    step = -1;
  }
  if (judged.lossScale != first)
    reference.notes.push_back(
        (judged.lossScale >= 1
             ? "the loss is multiplied by " +
                   std::to_string(std::lround(judged.lossScale))
             : "the loss is divided by " +
                   std::to_string(std::lround(1 / judged.lossScale))) +
        ": multiplied by " + std::to_string(std::lround(first)) +
        " gradients overflow float16, and such a step changes nothing");
}

Judgement kerf::tool::judge(const Options &options, Program &judged,
                            Reference &reference, Progress &progress) {
  std::vector<std::vector<double>> before;
  if (options.train && options.expected.empty() && judged.narrow > 0)
    before = firstParameters(judged);
  runSteps(judged, reference, progress);
  progress.enter("comparing");
  std::vector<Pair> outputs = outputPairs(judged, reference, options),
                    parameters;
  if (options.train && options.expected.empty())
    parameters = parameterPairs(judged, reference, options, before);
  Judgement result;
  result.numOutputs = outputs.size();
  for (const std::vector<Pair> *pairs : {&outputs, &parameters})
    for (const Pair &pair : *pairs)
      result.differences.push_back(pair.compare());
  if (!options.train)
    compareWide(judged, reference, outputs, result.differences);
  compareWithSlack(judged, reference, outputs, parameters, result.differences,
                   progress);
  if (!before.empty())
    noteSmallUpdates(judged, reference, parameters, before);
  return result;
}
