//===- StepPlanner.cpp - a function, and kinds of it that hold less -------===//
#include "StepPlanner.h"

#include "EntryFunction.h"
#include "Model/Layouts.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// Seconds after the first rejected plan at which the search ends, where no
/// deadline was asked for, and how many known plans are laid out then.
static constexpr double kMaxSeconds = 60, kMaxSecondsOfSmall = 30;
static constexpr int kLateTries = 12;
/// The share of a deadline that the search may spend on the step as it is, if
/// the user has set a memory limit or the machine's may bind; the rest is for
/// kinds that hold less.
static constexpr double kShareAsItIs = 0.6;

/// Whether what the backward pass reads of the forward pass, divided among all
/// devices, is about as much as a device has. No bound: kernels keep less.
static bool mayBind(func::FuncOp function, const PlanOptions &options) {
  using dist::getPhase;
  using dist::Phase;
  double bytes = 0;
  for (Operation &op : function.getBody().front().without_terminator())
    for (Value result : op.getResults())
      if (!isa<SourceOpInterface>(op) && getPhase(&op) == Phase::Forward &&
          isa<RankedTensorType>(result.getType()) &&
          llvm::any_of(result.getUsers(), [&](Operation *user) {
            return getPhase(user) != Phase::Forward;
          }))
        bytes += static_cast<double>(sizeBytes(tensorType(result)));
  std::optional<int64_t> limit = memoryLimitOf(options);
  return limit && bytes / static_cast<double>(options.devices) >
                      0.5 * static_cast<double>(*limit);
}

StepPlanner::StepPlanner(ModuleOp module, func::FuncOp function,
                         const PlanOptions &options, Effort &effort,
                         OpRules rules)
    : module(module), function(function), options(options), spent(effort) {
  Variant &first = variants.emplace_back();
  first.zero = options.zero;
  first.options = options;
  func::FuncOp main = function;
  // The unchanged step is planned without a copy. ZeRO (states kept in parts)
  // and recomputation change the step, so they get a copy of the module.
  if (first.zero != Zero::None || first.every != 0) {
    OwningOpRef<ModuleOp> copy = module.clone();
    if (makeKind(copy->lookupSymbol<func::FuncOp>(function.getName()), first)) {
      first.module = std::move(copy);
      main = first.module->lookupSymbol<func::FuncOp>(function.getName());
      rules = OpRules();
    }
  }
  first.planner =
      std::make_unique<Planner>(main, first.options, spent, std::move(rules));
  if (mayHoldLess() && (options.memoryLimitBytes || mayBind(function, options)))
    first.options.deadlineSeconds *= kShareAsItIs;
  first.planner->mustEnd(options.deadlineSeconds, /*mayBeEmpty=*/false);
}

bool StepPlanner::mayHoldLess() { return mayRecompute() || mayUseZero(); }

bool StepPlanner::mayRecompute() {
  // Computing again saves no byte that is sent, so it is no candidate for the
  // objective volume.
  return options.searchRecomputation && unmodified().isTraining() &&
         options.objective == Objective::Time &&
         options.solver == SolverKind::Auto && memoryLimitOf(options);
}

bool StepPlanner::mayUseZero() {
  return options.searchZero && unmodified().isTraining() &&
         mayCutData(options) && options.solver == SolverKind::Auto &&
         memoryLimitOf(options);
}

void StepPlanner::fitPostponed() {
  FitTime time = fitTime(0.25 * unmodified().elapsed());
  for (;;) {
    compare();
    if (time.isOver(unmodified().elapsed(), unmodified().incumbent()))
      return;
    Variant *next = nullptr;
    Attempt *first = nullptr;
    size_t count = 0;
    for (Variant &variant : variants) {
      variant.options.deadlineSeconds = options.deadlineSeconds;
      count += variant.planner->countPostponed();
      Attempt *own = variant.planner->postponed();
      if (own && (!first || variant.planner->isSooner(*own, *first))) {
        first = own;
        next = &variant;
      }
    }
    if (!next)
      return;
    next->planner->fit(*first, count - 1);
  }
}

std::pair<StepPlanner::Variant *, Attempt *> StepPlanner::best() {
  std::pair<Variant *, Attempt *> found = {nullptr, nullptr};
  for (Variant &variant : variants)
    if (Attempt *own = variant.planner->best();
        own && (!found.second || isBetter(own->summary, found.second->summary)))
      found = {&variant, own};
  return found;
}

bool StepPlanner::searchFurther() {
  bool isAny = false;
  FitTime time = fitTime(0.5 * unmodified().elapsed());
  for (Variant &variant : variants) {
    compare();
    variant.options.deadlineSeconds = options.deadlineSeconds;
    isAny |= variant.planner->searchFurther(time);
  }
  if (isAny)
    fitPostponed();
  return isAny;
}

std::pair<StepPlanner::Variant *, Attempt *> StepPlanner::trustLess() {
  FitTime time = fitTime(0);
  for (Variant &variant : variants) {
    compare();
    variant.planner->trustLess(time);
  }
  return best();
}

void StepPlanner::compare() {
  for (Variant &variant : variants) {
    double cost = std::numeric_limits<double>::infinity(), bound = cost;
    for (Variant &other : variants) {
      if (&other == &variant)
        continue;
      if (Attempt *best = other.planner->best();
          best && best->summary.reason.empty())
        cost = std::min(cost, best->summary.cost);
      bound = std::min(bound, other.planner->lowerBound());
    }
    variant.planner->compareWith(cost, bound);
  }
}

MemoryNeeds StepPlanner::memoryNeeds() const {
  MemoryNeeds needs;
  needs.proven = std::numeric_limits<int64_t>::max();
  for (const Variant &variant : variants) {
    MemoryNeeds own = variant.planner->memoryNeeds();
    own.smallest.candidate.recomputeEvery = variant.every;
    own.smallest.candidate.zero = variant.zero;
    needs.proven = std::min(needs.proven, own.proven);
    needs.smallest.consider(own.smallest);
  }
  if (!unsearched.empty())
    needs.proven = 0;
  return needs;
}

std::vector<CandidateSummary> StepPlanner::summaries() const {
  std::vector<CandidateSummary> all;
  for (const Variant &variant : variants)
    for (CandidateSummary &summary : variant.planner->summaries()) {
      summary.recomputeEvery = variant.every;
      summary.zero = variant.zero;
      all.push_back(std::move(summary));
    }
  return all;
}

FailureOr<PlanResult> StepPlanner::run(ModuleOp target, PlanError &error,
                                       std::string &message) {
  Attempt *first = unmodified().search(error, message);
  auto stopped = [&] {
    error = PlanError::Stopped;
    message = "planning was ended before there was a plan";
    std::optional<int64_t> limit = memoryLimitOf(options);
    if (!limit)
      return failure();
    message += " that fits in memory";
    if (SmallestPlan smallest = memoryNeeds().smallest; smallest.isKnown())
      message += ": the smallest that was found is predicted to need about " +
                 bytesText(smallest.bytes) + " per device, the limit is " +
                 bytesText(*limit);
    if (options.deadlineSeconds <= 0)
      message += "\nnote: with option deadline every candidate has its share "
                 "of the time, so that one that fits may be found sooner";
    return failure();
  };
  bool isHopeless = unmodified().isOutOfReach();
  if (first && !isHopeless && mayHoldLess() && unmodified().isLimitBinding())
    searchVariants();
  fitPostponed();
  searchNeighbours();
  auto [variant, found] = best();
  if (found && !found->summary.reason.empty() && !isHopeless && searchFurther())
    std::tie(variant, found) = best();
  if (found && !found->summary.reason.empty())
    std::tie(variant, found) = trustLess();
  if (unmodified().isStopped() && (!found || !found->summary.reason.empty()))
    return stopped();
  if (!first)
    return failure();
  if (found->summary.reason.empty())
    return write(*variant, *found, target);
  if (std::optional<std::string> wrong = unmodified().wrongRequest()) {
    error = PlanError::BadRequest;
    message = std::move(*wrong);
    return failure();
  }
  MemoryNeeds needs = memoryNeeds();
  needs.isOfAll = isHopeless;
  Infeasibility why = explainInfeasible(
      options, needs,
      isHopeless
          ? std::string("\nnote: parameters and ") +
                (unmodified().isTraining() ? "what the optimizer keeps"
                                           : "other constants") +
                " take that much, however they are cut"
          : candidateNotes(summaries(), memoryLimitOf(options).value_or(0)),
      isCutShort(), unmodified().hasMoreMicroBatches(), spent.effort(),
      [&](const PlanOptions &trial) {
        // Reasons are found in what is left of the time; they are nothing that
        // the search for a plan has reached.
        PlanOptions own = trial;
        own.progress = nullptr;
        if (options.deadlineSeconds > 0) {
          double left = options.deadlineSeconds - unmodified().elapsed();
          if (left <= 0)
            return Tried();
          own.deadlineSeconds = std::min(own.deadlineSeconds, left);
        }
        return StepPlanner(module, function, own, spent.effort()).tryOut();
      });
  if (unmodified().isStopped())
    return stopped();
  error = why.error;
  message = std::move(why.message);
  if (!isHopeless)
    message += microBatchesNote();
  return failure();
}

Tried StepPlanner::tryOut() {
  Tried tried = unmodified().tryOut();
  if (tried.verdict == Trial::Found || !mayHoldLess() ||
      !unmodified().isLimitBinding())
    return tried;
  // The last takes least.
  std::vector<Kind> kinds = otherKinds();
  Variant *all = kinds.empty() ? nullptr : addVariant(kinds.back());
  if (!all)
    return tried;
  all->planner->mustEnd(options.deadlineSeconds, /*mayBeEmpty=*/true);
  Tried again = all->planner->tryOut();
  again.smallest.candidate.recomputeEvery = all->every;
  again.smallest.candidate.zero = all->zero;
  tried.smallest.consider(again.smallest);
  if (again.verdict == Trial::Found ||
      (again.verdict == Trial::Unknown && tried.verdict == Trial::None))
    tried.verdict = again.verdict;
  return tried;
}

FailureOr<PlanResult> StepPlanner::write(Variant &variant, Attempt &best,
                                         ModuleOp target) {
  PlanResult result = describe(variant, best);
  (void)makeKind(target.lookupSymbol<func::FuncOp>(function.getName()),
                 variant);
  variant.planner->write(best, target);
  written = &variant;
  CandidateSummary summary = best.summary;
  summary.recomputeEvery = variant.every;
  summary.zero = variant.zero;
  writtenName = nameOf(summary);
  result.planningSeconds = spent.wallSeconds();
  return result;
}

void StepPlanner::reject(int64_t laidOutBytes) {
  mlir::func::FuncOp step = function;
  countWork(&spent.effort(), WorkPiece::OpLaidOut,
            static_cast<double>(llvm::range_size(step.getBody().front())));
  if (minLaidOutBytes == std::numeric_limits<int64_t>::max())
    firstRejection = unmodified().elapsed();
  noteLaidOut(laidOutBytes, writtenName);
  maxExcess =
      std::max(maxExcess, static_cast<double>(laidOutBytes) /
                              static_cast<double>(std::max<int64_t>(
                                  written->planner->predictedBytes(), 1)));
  compare();
  if (isLate())
    return written->planner->reject(laidOutBytes, /*searches=*/false);
  written->planner->reject(laidOutBytes);
  compare();
  if (mayHoldLess() && !hasVariants) {
    searchVariants();
    fitPostponed();
  } else {
    for (Variant &variant : variants)
      if (&variant != written) {
        variant.planner->reopen();
        compare();
      }
  }
  searchNeighbours();
}

void StepPlanner::noteLaidOut(int64_t bytes, const std::string &name) {
  int64_t &own = laidOut.try_emplace(name, bytes).first->second;
  own = std::min(own, bytes);
  if (bytes >= minLaidOutBytes)
    return;
  minLaidOutBytes = bytes;
  minLaidOutName = name;
}

FailureOr<PlanResult> StepPlanner::next(ModuleOp target) {
  auto [variant, found] = best();
  if (!found->summary.reason.empty())
    return failure();
  if (isLate()) {
    if (++lateTries > kLateTries)
      return failure();
    // What is laid out may need more than was predicted, `maxExcess` times as
    // much in the worst case so far. Each try therefore asks for a plan that
    // stays further below the limit, up to that factor; the last try takes the
    // smallest plan of all.
    double share = 1 / (1 + (maxExcess - 1) * lateTries / (kLateTries - 1));
    if (lateTries < kLateTries && llvm::any_of(
                                      variants,
                                      [&](const Variant &other) {
                                        return other.planner->hasWithin(share);
                                      })) {
      for (Variant &other : variants)
        other.planner->allowAtMost(share);
      std::tie(variant, found) = best();
      return write(*variant, *found, target);
    }
    for (Variant &other : variants)
      if (Attempt *own = other.planner->smallest();
          own && own->summary.peakMemoryBytes < found->summary.peakMemoryBytes)
        std::tie(variant, found) = std::pair(&other, own);
  }
  return write(*variant, *found, target);
}

double StepPlanner::maxSeconds() const {
  mlir::func::FuncOp step = function;
  return llvm::range_size(step.getBody().front()) <= kQuickNodes
             ? kMaxSecondsOfSmall
             : kMaxSeconds;
}

bool StepPlanner::isLate() const {
  return unmodified().isStopped() ||
         unmodified().elapsed() - firstRejection >= maxSeconds();
}

bool StepPlanner::isCutShort() const {
  // Candidates have shares of the deadline: the last may end well before it.
  return !unsearched.empty() ||
         (options.deadlineSeconds > 0 &&
          unmodified().elapsed() > 0.5 * options.deadlineSeconds);
}

FailureOr<PlanResult> StepPlanner::runQuietly(ModuleOp target) {
  PlanError error = PlanError::None;
  std::string message;
  Attempt *first = unmodified().search(error, message);
  if (first && mayHoldLess() && unmodified().isLimitBinding())
    searchVariants();
  fitPostponed();
  searchNeighbours();
  auto [variant, found] = best();
  if (found && !found->summary.reason.empty())
    std::tie(variant, found) = trustLess();
  if (!found || !found->summary.reason.empty())
    return failure();
  return write(*variant, *found, target);
}

double StepPlanner::lowerBound() {
  double min = unsearched.empty() ? std::numeric_limits<double>::infinity()
                                  : unmodified().dividedWork();
  for (const Variant &variant : variants)
    min = std::min(min, variant.planner->lowerBound());
  return min;
}

double StepPlanner::secondsLeft() const {
  if (unmodified().isStopped())
    return 0;
  double elapsed = unmodified().elapsed();
  double left = maxSeconds() / 2 - (elapsed - firstRejection);
  if (options.deadlineSeconds > 0)
    left = std::min(left, options.deadlineSeconds - elapsed);
  return std::max(left, 0.0);
}

static func::FuncOp functionOf(ModuleOp module, PlanError &error,
                               OpRules *rules = nullptr) {
  func::FuncOp function = entryToPlan(module, rules);
  error = function ? PlanError::None : PlanError::BadRequest;
  return function;
}

FailureOr<PlanResult> kerf::plan::planModule(ModuleOp module,
                                             const PlanOptions &options,
                                             PlanError &error,
                                             std::string &message) {
  if (options.rejectedBytes.empty()) {
    OpRules rules;
    func::FuncOp function = functionOf(module, error, &rules);
    if (!function)
      return failure();
    Effort effort;
    return StepPlanner(module, function, options, effort, std::move(rules))
        .run(module, error, message);
  }
  if (!memoryLimitOf(options)) {
    error = PlanError::BadRequest;
    message = "rejected: there is no memory limit that a plan could not keep";
    return failure();
  }
  // Only the last plan is written onto the module.
  Planning planning(OwningOpRef<ModuleOp>(module.clone()), options);
  OwningOpRef<ModuleOp> passedOver(module.clone());
  if (auto first = planning.run(*passedOver, error, message); failed(first))
    return failure();
  error = PlanError::Infeasible;
  for (int64_t bytes : ArrayRef(options.rejectedBytes).drop_back()) {
    passedOver = module.clone();
    if (failed(planning.runWithout(bytes, *passedOver, message)))
      return failure();
  }
  auto last =
      planning.runWithout(options.rejectedBytes.back(), module, message);
  if (succeeded(last))
    error = PlanError::None;
  return last;
}

Planning::Planning(OwningOpRef<ModuleOp> module, const PlanOptions &options)
    : module(std::move(module)), options(options),
      effort(std::make_unique<Effort>()) {}
Planning::~Planning() = default;

FailureOr<PlanResult> Planning::run(ModuleOp target, PlanError &error,
                                    std::string &message) {
  func::FuncOp function = functionOf(*module, error);
  if (!function)
    return failure();
  planner = std::make_unique<StepPlanner>(*module, function, options, *effort);
  return planner->run(target, error, message);
}

FailureOr<Explanation> Planning::explain(StringRef name, std::string &message) {
  return (tighter ? *tighter : *planner).explain(name, message);
}

/// Shares of the limit for which plans are searched once more where those for
/// the limit itself have all taken too much: which solutions a search comes
/// upon depends on the limit, and what keeps a tighter one keeps this one.
static constexpr double kTighter[] = {0.96, 0.9, 0.82};

FailureOr<PlanResult> Planning::runWithout(int64_t laidOutBytes,
                                           ModuleOp target,
                                           std::string &message) {
  StepPlanner &current = tighter ? *tighter : *planner;
  current.reject(laidOutBytes);
  if (tighter)
    planner->noteLaidOut(laidOutBytes, tighter->nameOfWritten());
  FailureOr<PlanResult> next = current.next(target);
  auto limit = static_cast<double>(*memoryLimitOf(options));
  PlanError error = PlanError::None;
  while (failed(next) && numTighter < std::size(kTighter)) {
    PlanOptions own = options;
    double left = planner->secondsLeft();
    if (left <= 0)
      break;
    // Without a deadline the search ends by itself.
    if (options.deadlineSeconds > 0)
      own.deadlineSeconds = left;
    own.memoryLimitBytes = static_cast<int64_t>(kTighter[numTighter++] * limit);
    tighter = std::make_unique<StepPlanner>(*module, functionOf(*module, error),
                                            own, *effort);
    next = tighter->runQuietly(target);
  }
  if (failed(next)) {
    message = planner->refusal();
  } else if (tighter) {
    // Plans for the whole limit may cost less.
    next->lowerBound = std::min(next->lowerBound, planner->lowerBound());
    next->gap =
        next->cost > 0 ? (next->cost - next->lowerBound) / next->cost : 0;
  }
  return next;
}
