//===- VerifyLocate.cpp - where a program goes wrong ----------------------===//
//
// Problem: an output is wrong; which value is the first that is? A program
// hands out what it was made to hand out, and what is handed out is not fused
// away: to look at a value can mend it.
//
// First every value is handed out. If some differ, the first in program order
// is it: what it reads is right. If none does, the fault is in what is computed
// together. Then values are handed out one at a time: from the wrong output
// back to a value that is wrong while all that its op reads, each handed out
// alone, is right.
//
//===----------------------------------------------------------------------===//
#include "VerifyLocate.h"

#include "kerf/Pipelines/Exposure.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/STLExtras.h"

#include <chrono>
#include <cmath>

using namespace kerf;
using namespace kerf::tool;

/// Beyond these nothing is looked for, or no further.
constexpr double kReferenceSeconds = 60, kSearchSeconds = 120;
constexpr int64_t kKeptElements = int64_t(1) << 28;

namespace {

class Search {
public:
  Search(const Options &options, const Program &judged)
      : options(options), judged(judged), evaluation(options, true),
        values(computedValues(evaluation.module())) {}

  FirstDifference run();

private:
  struct Probe {
    Program::Exposed exposed;
    std::unique_ptr<Program> program;
  };
  Probe probe(std::vector<size_t> wanted) {
    Probe result;
    result.exposed.plan = llvm::json::Object(judged.planJson);
    result.exposed.wanted = std::move(wanted);
    result.program = std::make_unique<Program>(options, Program::Role::Probe,
                                               &result.exposed);
    return result;
  }
  /// Value `number` as a probe hands it out, behind the model's own outputs.
  Difference compareValue(const Probe &probe, size_t number,
                          const std::vector<double> &reference) const;
  bool handOutAll();
  void handOutSingly();
  std::optional<bool> isWrong(size_t number);
  double secondsLeft() const {
    std::chrono::duration<double> spent =
        std::chrono::steady_clock::now() - began;
    return kSearchSeconds - spent.count();
  }
  double narrow() const;

  const Options &options;
  const Program &judged;
  Evaluation evaluation;
  std::vector<mlir::Value> values;
  /// The reference's, of the step that differs; empty where there are too many.
  std::vector<std::vector<double>> kept;
  std::map<size_t, std::optional<Difference>> tried; ///< none: cannot be had
  FirstDifference result;
  std::chrono::steady_clock::time_point began =
      std::chrono::steady_clock::now();
};

} // namespace

double Search::narrow() const {
  return options.precision == "bf16"  ? 0x1p-6
         : options.precision == "f32" ? 0
                                      : 0x1p-9;
}

Difference Search::compareValue(const Probe &probe, size_t number,
                                const std::vector<double> &reference) const {
  auto place = llvm::find(probe.exposed.given, number);
  auto index = static_cast<int32_t>(judged.outputs().size() +
                                    (place - probe.exposed.given.begin()));
  kerf_tensor_info_t info = probe.program->outputs()[index];
  double largest = largestMagnitude(reference);
  Tolerance tolerance(options, info.dtype, narrow(), largest);
  // Between a large value and what cancels it, rounding is at its scale.
  if (!options.atol)
    tolerance.atol *= std::max(1.0, largest);
  return compare(info, probe.program->output(index),
                 {wholePiece(info, reference)}, tolerance);
}

/// Whether some value differs when all are handed out.
bool Search::handOutAll() {
  std::vector<size_t> all(values.size());
  int64_t elements = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
    elements += mlir::cast<mlir::RankedTensorType>(values[i].getType())
                    .getNumElements();
  }
  Probe everything = probe(all);
  bool keep = elements <= kKeptElements && !options.train;
  std::map<mlir::Value, size_t, bool (*)(mlir::Value, mlir::Value)> numbers(
      [](mlir::Value a, mlir::Value b) {
        return a.getAsOpaquePointer() < b.getAsOpaquePointer();
      });
  for (size_t i = 0; i < values.size(); ++i)
    numbers[values[i]] = i;
  for (int64_t step = 0; step < judged.numSteps() && result.value.empty();
       ++step) {
    everything.program->step();
    kept.assign(keep ? values.size() : 0, {});
    auto seen = [&](mlir::Operation *op,
                    llvm::ArrayRef<interpret::Tensor> results) {
      for (auto [value, tensor] : llvm::zip(op->getResults(), results)) {
        auto number = numbers.find(value);
        if (number == numbers.end())
          continue;
        if (keep)
          kept[number->second] = tensor.data;
        if (!llvm::is_contained(everything.exposed.given, number->second))
          continue;
        Difference d = compareValue(everything, number->second, tensor.data);
        if (!d.wrong)
          continue;
        result.value = describeValue(value);
        result.difference = std::move(d);
        return false;
      }
      return true;
    };
    evaluation.step(*everything.program, /*unfused=*/true, seen);
  }
  return !result.value.empty();
}

/// Whether a value is wrong when it alone is handed out; none: it cannot be.
std::optional<bool> Search::isWrong(size_t number) {
  auto known = tried.find(number);
  if (known == tried.end()) {
    Probe alone = probe({number});
    std::optional<Difference> difference;
    if (!alone.exposed.given.empty()) {
      alone.program->step();
      difference = compareValue(alone, number, kept[number]);
    }
    known = tried.insert({number, std::move(difference)}).first;
  }
  if (!known->second)
    return std::nullopt;
  return known->second->wrong > 0;
}

void Search::handOutSingly() {
  auto numberOf = [&](mlir::Value value) {
    return static_cast<size_t>(llvm::find(values, value) - values.begin());
  };
  // Wrong values lie in front of the last one, if any is.
  size_t good = 0, bad = values.size();
  for (size_t i = values.size(); i-- > 0 && bad == values.size();)
    if (secondsLeft() > 0 && isWrong(i).value_or(false))
      bad = i;
    else if (values.size() - i > 8)
      break;
  if (bad == values.size()) {
    result.remarks.push_back("whichever value is handed out is right");
    return;
  }
  while (good < bad && secondsLeft() > 0) {
    size_t middle = good + (bad - good) / 2;
    if (isWrong(middle).value_or(false))
      bad = middle;
    else
      good = middle + 1;
  }
  // Program order is no chain: on to what it reads, while that is wrong.
  bool moved = true;
  while (moved && secondsLeft() > 0) {
    moved = false;
    for (mlir::Value operand : values[bad].getDefiningOp()->getOperands()) {
      size_t number = numberOf(operand);
      if (number >= bad || !isWrong(number).value_or(false))
        continue;
      bad = number;
      moved = true;
      break;
    }
  }
  result.value = describeValue(values[bad]);
  result.difference = *tried[bad];
  result.remarks.push_back(
      secondsLeft() > 0
          ? "what it reads is right, each handed out alone; with all values "
            "handed out nothing differs: the fault is in what is computed "
            "together with it"
          : "the search for an earlier one was ended after " +
                std::to_string(static_cast<int64_t>(kSearchSeconds)) + " s");
}

FirstDifference Search::run() {
  double seconds =
      evaluation.seconds(true) * static_cast<double>(judged.numSteps());
  if (seconds > kReferenceSeconds) {
    result.remarks.push_back("the model is too large to look for the first "
                             "value that differs");
    return result;
  }
  try {
    if (handOutAll()) {
      result.remarks.push_back(
          "every value was handed out to find it; those in front of it are "
          "right");
      return result;
    }
    if (kept.empty())
      result.remarks.push_back("with every value handed out nothing differs: "
                               "the fault is in what is computed together");
    else
      handOutSingly();
  } catch (const Failure &failure) {
    result.remarks.push_back("the first value that differs is not known: " +
                             (failure.message.empty() && !failure.notes.empty()
                                  ? failure.notes.front()
                                  : failure.message));
  }
  return result;
}

FirstDifference kerf::tool::locate(const Options &options,
                                   const Program &judged) {
  return Search(options, judged).run();
}
