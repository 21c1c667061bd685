//===- StepKinds.cpp - kinds of a training step that hold less ------------===//
//
// Problem: a step can keep its parameters, gradients and states in parts in
// three ways, and compute again all, half or a quarter of its blocks. Searching
// every combination takes sixteen times as long as searching the step as it is.
//
// Idea: each way by itself and the combination that holds least are searched
// first. Then those one step away from the best, as long as one of them is
// better: the cheapest plan is one that saves just enough memory.
//
//===----------------------------------------------------------------------===//
#include "StepPlanner.h"

#include "kerf/Plan/Recompute.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Every K-th block is computed again, for these K in the order in which they
/// are searched: the first holds least memory.
static constexpr int64_t kEvery[] = {1, 2, 4};
bool StepPlanner::makeKind(func::FuncOp function, Kind kind) {
  bool isChanged = recomputeEvery(function, kind.every);
  isChanged |= roundInPrologue(function, kind.zero);
  return isChanged;
}

StepPlanner::Variant *StepPlanner::addVariant(Kind kind) {
  OwningOpRef<ModuleOp> copy = module.clone();
  countWork(&spent.effort(), WorkPiece::OpOfStep,
            static_cast<double>(llvm::range_size(function.getBody().front())));
  auto main = copy->lookupSymbol<func::FuncOp>(function.getName());
  if (!makeKind(main, kind) && kind.zero == options.zero)
    return nullptr;
  Variant &variant = variants.emplace_back();
  static_cast<Kind &>(variant) = kind;
  variant.options = options;
  variant.options.zero = kind.zero;
  variant.module = std::move(copy);
  variant.planner = std::make_unique<Planner>(main, variant.options, spent);
  return &variant;
}

std::vector<StepPlanner::Kind> StepPlanner::otherKinds() {
  std::vector<Kind> kinds;
  if (mayUseZero())
    for (Zero zero : kZeros)
      if (zero > options.zero)
        kinds.push_back({0, zero});
  if (!mayRecompute())
    return kinds;
  size_t count = countBlocks(function), known = 0;
  for (int64_t every : kEvery)
    if (size_t blocks = (count + every - 1) / every; blocks != known) {
      kinds.push_back({every, options.zero});
      known = blocks;
    }
  // The combination that holds least memory.
  if (mayUseZero() && count > 0)
    kinds.push_back({kEvery[0], Zero::Parameters});
  return kinds;
}

void StepPlanner::searchVariants() {
  hasVariants = true;
  searched.push_back(variants.front());
  std::vector<Kind> kinds = otherKinds();
  // The last one holds least: where there is no plan yet, it is the likeliest
  // to have one, and the others are compared with that.
  if (Attempt *known = unmodified().best();
      !kinds.empty() && (!known || !known->summary.reason.empty()))
    std::rotate(kinds.begin(), kinds.end() - 1, kinds.end());
  // As long as nothing fits they get as long as the step as it is took.
  search(kinds, fitTime(unmodified().elapsed()), &unsearched);
}

void StepPlanner::search(ArrayRef<Kind> kinds, FitTime time,
                         std::vector<Kind> *late) {
  for (auto [number, kind] : llvm::enumerate(kinds)) {
    compare();
    double left = options.deadlineSeconds - unmodified().elapsed();
    bool isLate =
        options.deadlineSeconds > 0 ? left < 0.05 * options.deadlineSeconds
        : late ? time.isInVain(unmodified().elapsed(), unmodified().incumbent())
               : time.isOver(unmodified().elapsed(), unmodified().incumbent());
    if (isLate || unmodified().isStopped()) {
      if (late)
        late->push_back(kind);
      continue;
    }
    searched.push_back(kind);
    Variant *variant = addVariant(kind);
    if (!variant)
      continue;
    if (options.deadlineSeconds > 0)
      variant->options.deadlineSeconds =
          unmodified().elapsed() +
          left / static_cast<double>(kinds.size() - number);
    variant->planner->mustEnd(variant->options.deadlineSeconds,
                              /*mayBeEmpty=*/true);
    PlanError error = PlanError::None;
    std::string message;
    (void)variant->planner->search(error, message);
  }
  compare();
}

/// The elements before and behind `value`.
template <typename T>
static SmallVector<T, 2> besides(ArrayRef<T> list, T value) {
  SmallVector<T, 2> found;
  for (auto [index, element] : llvm::enumerate(list))
    if ((index > 0 && list[index - 1] == value) ||
        (index + 1 < list.size() && list[index + 1] == value))
      found.push_back(element);
  return found;
}

std::vector<StepPlanner::Kind> StepPlanner::neighbours(const Kind &kind) {
  // From what holds most to what holds least.
  SmallVector<int64_t, 4> everies = {0};
  SmallVector<Zero, 4> zeros = {options.zero};
  for (const Kind &other : otherKinds()) {
    if (!llvm::is_contained(everies, other.every))
      everies.push_back(other.every);
    if (!llvm::is_contained(zeros, other.zero))
      zeros.push_back(other.zero);
  }
  std::sort(everies.begin() + 1, everies.end(), std::greater<>());
  llvm::sort(zeros);
  std::vector<Kind> around;
  auto add = [&](Kind other) {
    if (!llvm::is_contained(searched, other))
      around.push_back(other);
  };
  for (Zero zero : besides<Zero>(zeros, kind.zero))
    add({kind.every, zero});
  for (int64_t every : besides<int64_t>(everies, kind.every))
    add({every, kind.zero});
  return around;
}

void StepPlanner::searchNeighbours() {
  while (hasVariants) {
    auto [variant, found] = best();
    if (!found || !found->summary.reason.empty())
      return;
    std::vector<Kind> around = neighbours(*variant);
    if (around.empty())
      return;
    search(around, fitTime(0), nullptr);
    fitPostponed();
    if (unmodified().isStopped() || best().first == variant)
      return;
  }
}
