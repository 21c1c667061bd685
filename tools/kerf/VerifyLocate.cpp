//===- VerifyLocate.cpp - finds the first wrong value ---------------------===//
//
// Problem: an output is wrong; which value is the first wrong one? Only outputs
// of a program can be compared, and a value that is made an output is not fused
// away: looking at a value can remove the fault.
//
// First every value is made an output. If some differ, the first in program
// order is the answer: the values that it reads are right. If none differs, the
// fault is in what is computed together. Then values are made outputs one at a
// time: from the wrong output back to a value that is wrong while each value
// that its op reads, exposed alone, is right.
//
//===----------------------------------------------------------------------===//
#include "VerifyLocate.h"
#include "VerifyEvaluation.h"
#include "VerifySlack.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Pipelines/Exposure.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <chrono>
#include <numeric>

using namespace kerf;
using namespace kerf::tool;

/// Limits beyond which the search is not begun, or ends.
constexpr double kReferenceSeconds = 60, kSearchSeconds = 120;
constexpr int64_t kKeptElements = int64_t(1) << 28;

namespace {

class Search {
public:
  Search(const Options &options, const Program &judged,
         const Reference &reference)
      : options(options), judged(judged), reference(reference),
        evaluation(options, true), values(computedValues(evaluation.module())) {
    for (size_t i = 0; i < values.size(); ++i)
      numbers[values[i]] = i;
  }

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
    result.program->lossScale = judged.lossScale;
    // Some values are not in the reference, such as the recognised attention of
    // GPUs.
    if (result.exposed.values != describeValues(values))
      throw Failure{
          kInternal, "the program's values are not those of the reference", {}};
    return result;
  }
  /// Value `number` among the outputs of a probe, behind the model's own.
  Difference compareValue(const Probe &probe, size_t number,
                          const std::vector<Piece> &expected) const;
  /// What the reference has of value `number`, in one piece.
  std::vector<Piece> pieceOf(size_t number, std::vector<double> data) const {
    auto type = mlir::cast<mlir::RankedTensorType>(values[number].getType());
    return {wholePiece(type.getShape().vec(), std::move(data))};
  }
  /// A value that differs.
  struct Wrong {
    size_t number;
    std::vector<Piece> expected;
    Difference difference;
  };
  void dropWhatRoundingDecides(const Probe &probe, std::vector<Wrong> &wrong);
  using Each = std::function<bool(size_t, const std::vector<double> &)>;
  std::vector<interpret::Tensor> evaluate(const Program &program,
                                          const Each &each);
  std::vector<interpret::Tensor> keepValues(const Program &program);
  bool outputsDiffer(const std::vector<interpret::Tensor> &outputs);
  bool handOutAll();
  std::vector<size_t> readBy(size_t number) const;
  void handOutSingly();
  std::optional<bool> isWrong(size_t number);
  double secondsLeft() const {
    std::chrono::duration<double> spent =
        std::chrono::steady_clock::now() - began;
    return kSearchSeconds - spent.count();
  }
  mlir::Block &block() const {
    return evaluation.module()
        .lookupSymbol<mlir::func::FuncOp>("main")
        .getBody()
        .front();
  }

  const Options &options;
  const Program &judged;
  const Reference &reference;
  Evaluation evaluation;
  std::vector<mlir::Value> values;
  llvm::DenseMap<mlir::Value, size_t> numbers;
  /// The reference's values of the step that differs; empty if there are too
  /// many.
  std::vector<std::vector<double>> kept;
  std::map<size_t, std::optional<Difference>> tried; ///< none: cannot be had
  FirstDifference result;
  std::chrono::steady_clock::time_point began =
      std::chrono::steady_clock::now();
};

} // namespace

Difference Search::compareValue(const Probe &probe, size_t number,
                                const std::vector<Piece> &expected) const {
  auto place = llvm::find(probe.exposed.given, number);
  auto index = static_cast<int32_t>(judged.outputs().size() +
                                    (place - probe.exposed.given.begin()));
  kerf_tensor_info_t info = probe.program->outputs()[index];
  double largest = largestMagnitude(expected.front().numbers);
  Tolerance tolerance(options, info.dtype, judged.narrow, largest);
  // Between a large value and one that cancels it, errors are at its scale.
  if (!options.atol)
    tolerance.atol *= std::max(1.0, largest);
  return compare(info, probe.program->output(index), expected, tolerance);
}

/// Runs a step of the reference on the inputs of `program`; calls `each` with
/// the number of every value, until it returns false.
std::vector<interpret::Tensor> Search::evaluate(const Program &program,
                                                const Each &each) {
  return evaluation.step(
      program, /*unfused=*/true,
      [&](mlir::Operation *op, llvm::ArrayRef<interpret::Tensor> results) {
        for (auto [value, tensor] : llvm::zip(op->getResults(), results))
          if (auto number = numbers.find(value);
              number != numbers.end() && !each(number->second, tensor.data))
            return false;
        return true;
      });
}

/// Runs a step of the reference and keeps its values, unless they are too many.
std::vector<interpret::Tensor> Search::keepValues(const Program &program) {
  int64_t elements = 0;
  for (mlir::Value value : values)
    elements +=
        mlir::cast<mlir::RankedTensorType>(value.getType()).getNumElements();
  kept.assign(elements <= kKeptElements ? values.size() : 0, {});
  return evaluate(program, [&](size_t number, const std::vector<double> &data) {
    if (!kept.empty())
      kept[number] = data;
    return true;
  });
}

/// Whether the program's outputs differ from those of the model run op by op;
/// if not, the fault is in a phase that both share.
bool Search::outputsDiffer(const std::vector<interpret::Tensor> &outputs) {
  bool differs = false;
  for (auto [index, info] : llvm::enumerate(judged.outputs())) {
    Difference d = compare(
        info, judged.output(static_cast<int32_t>(index)),
        {wholePiece({outputs[index].shape.begin(), outputs[index].shape.end()},
                    outputs[index].data)},
        Tolerance(options, info.dtype, judged.narrowOutputs[index],
                  largestMagnitude(outputs[index].data)));
    if (!d.wrong)
      continue;
    differs = true;
    if (auto number = numbers.find(block().getTerminator()->getOperand(index));
        number != numbers.end())
      tried[number->second] = std::move(d);
  }
  return differs;
}

/// Keeps of the values that differ in the last step only those that differ by
/// more than other roundings of the reference explain, as in the verdict.
void Search::dropWhatRoundingDecides(const Probe &probe,
                                     std::vector<Wrong> &wrong) {
  interpret::State state = std::move(evaluation.state);
  for (const Roundings &roundings : otherRoundings()) {
    if (wrong.empty() || secondsLeft() <= 0)
      break;
    size_t next = 0; // in program order, as the values are computed
    evaluation.stepsAgain(
        /*unfused=*/true, roundings,
        [&](mlir::Operation *op, llvm::ArrayRef<interpret::Tensor> results) {
          for (auto [value, tensor] : llvm::zip(op->getResults(), results))
            if (next < wrong.size() && values[wrong[next].number] == value) {
              Wrong &one = wrong[next++];
              widenSlack(one.expected, pieceOf(one.number, tensor.data),
                         slackFactor(roundings, Moved::State),
                         one.difference.tolerance);
            }
          return next < wrong.size();
        });
    llvm::erase_if(wrong, [&](Wrong &one) {
      one.difference = compareValue(probe, one.number, one.expected);
      return one.difference.wrong == 0;
    });
  }
  llvm::erase_if(wrong, [&](Wrong &one) {
    explainByChance(one.difference, one.expected);
    return one.difference.wrong == 0;
  });
  evaluation.state = std::move(state);
}

/// How many values that differ are looked at: a fault spreads to most values
/// that are computed from it, and the first ones tell where it is.
static constexpr size_t kMaxWrong = 64;

/// Whether some value differs when all are outputs.
bool Search::handOutAll() {
  std::vector<size_t> all(values.size());
  std::iota(all.begin(), all.end(), 0);
  Probe everything = probe(all);
  std::vector<Wrong> wrong;
  auto look = [&](size_t number, const std::vector<double> &data) {
    if (!llvm::is_contained(everything.exposed.given, number))
      return true;
    std::vector<Piece> expected = pieceOf(number, data);
    Difference d = compareValue(everything, number, expected);
    if (d.wrong)
      wrong.push_back({number, std::move(expected), std::move(d)});
    return wrong.size() < kMaxWrong;
  };
  for (int64_t step = 0; step < judged.numSteps() && result.value.empty();
       ++step) {
    everything.program->step();
    if (options.train && step == 0)
      keepValues(*everything.program);
    if (kept.empty() || step > 0)
      evaluate(*everything.program, look);
    else
      for (size_t number = 0; number < kept.size(); ++number)
        if (!look(number, kept[number]))
          break;
    if (options.train)
      dropWhatRoundingDecides(everything, wrong);
    if (wrong.empty())
      continue;
    result.value = describeValue(values[wrong.front().number]);
    result.difference = std::move(wrong.front().difference);
  }
  return !result.value.empty();
}

/// Whether a value is wrong when it alone is an output; none: it cannot be one.
std::optional<bool> Search::isWrong(size_t number) {
  auto known = tried.find(number);
  if (known == tried.end()) {
    Probe alone = probe({number});
    std::optional<Difference> difference;
    if (!alone.exposed.given.empty()) {
      alone.program->step();
      difference = compareValue(alone, number, pieceOf(number, kept[number]));
    }
    known = tried.insert({number, std::move(difference)}).first;
  }
  if (!known->second)
    return std::nullopt;
  return known->second->wrong > 0;
}

/// The values that the op of a value reads, also through sums over
/// micro-batches.
std::vector<size_t> Search::readBy(size_t number) const {
  std::vector<size_t> result;
  for (mlir::Value operand : values[number].getDefiningOp()->getOperands()) {
    if (auto sum = operand.getDefiningOp<dist::AccumulateOp>())
      operand = sum.getX();
    if (auto found = numbers.find(operand); found != numbers.end())
      result.push_back(found->second);
  }
  return result;
}

void Search::handOutSingly() {
  // A value that a step assigns counts as an output.
  for (auto assign : block().getOps<dist::AssignOp>())
    if (auto number = numbers.find(assign.getValue());
        number != numbers.end() && secondsLeft() > 0 &&
        isWrong(number->second).value_or(false))
      break;
  // The first wrong output, and the values that it depends on.
  auto wrong = llvm::find_if(tried, [](const auto &entry) {
    return entry.second && entry.second->wrong > 0;
  });
  if (wrong == tried.end()) {
    result.remarks.push_back("with every value handed out nothing differs: "
                             "the fault is in what is computed together");
    return;
  }
  size_t good = 0, bad = wrong->first;
  while (good < bad && secondsLeft() > 0) {
    size_t middle = good + (bad - good) / 2;
    if (isWrong(middle).value_or(false))
      bad = middle;
    else
      good = middle + 1;
  }
  // Program order is no chain: continue with what the value reads, while that
  // is wrong.
  bool moved = true;
  while (moved && secondsLeft() > 0) {
    moved = false;
    for (size_t number : readBy(bad))
      if (!moved && isWrong(number).value_or(false)) {
        bad = number;
        moved = true;
      }
  }
  result.value = describeValue(values[bad]);
  result.difference = *tried[bad];
  std::string reads;
  for (size_t number : readBy(bad))
    reads += (reads.empty() ? "" : ", ") + describeValue(values[number]);
  result.remarks.push_back(
      secondsLeft() > 0
          ? "what it reads" + (reads.empty() ? "" : ", " + reads + ",") +
                " is right where it is handed out; with all values handed out "
                "nothing differs: the fault is in what is computed together "
                "with it"
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
  if (evaluation.runsInParts()) {
    result.remarks.push_back("values of a step that is run on parts of the "
                             "batch are not looked at");
    return result;
  }
  try {
    if (!options.train && !outputsDiffer(keepValues(judged))) {
      result.remarks.push_back(
          "the model run one operator at a time gives the program's outputs: " +
          std::string(reference.kind == "expected"
                          ? "the fault is in its import, or the files are of "
                            "other inputs"
                      : reference.kind == "compiled"
                          ? "what is wrong is the program for one device"
                          : "the fault is in its simplification"));
      return result;
    }
    if (handOutAll())
      result.remarks.push_back("every value was handed out to find it; those "
                               "in front of it are right");
    else if (kept.empty())
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
                                   const Program &judged,
                                   const Reference &reference) {
  return Search(options, judged, reference).run();
}
