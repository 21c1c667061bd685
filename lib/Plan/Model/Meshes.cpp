//===- Meshes.cpp - the mesh shapes that are tried ------------------------===//
#include "Meshes.h"

#include "../Zero/ZeroParts.h"

#include "kerf/Plan/MeshText.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace kerf;
using namespace kerf::plan;

namespace {
struct NamedAxis {
  std::string name;
  int64_t size;
  AxisRole role;
};
} // namespace

static MeshCandidate makeCandidate(int64_t stages, int64_t microBatches,
                                   const std::vector<NamedAxis> &axes) {
  MeshCandidate candidate;
  candidate.stages = stages;
  candidate.microBatches = microBatches;
  auto add = [&](std::string name, int64_t size, AxisRole role, bool isTime) {
    candidate.mesh.axes.push_back({std::move(name), size, isTime});
    candidate.roles.push_back(role);
    return static_cast<unsigned>(candidate.roles.size() - 1);
  };
  if (stages > 1)
    candidate.stageAxis = add("pp", stages, AxisRole::Fixed, false);
  for (const NamedAxis &axis : axes)
    if (axis.size > 1)
      add(axis.name, axis.size, axis.role, false);
  if (microBatches > 1)
    candidate.timeAxis = add("mb", microBatches, AxisRole::Fixed, true);
  return candidate;
}

/// Micro-batches to try for a pipeline: multiples of the stages that divide the
/// batch, up to four rounds, and 1 (stages wait for each other, but hold and
/// update less than copies would, send little and read their weights once);
/// what the user says. Of an interleaved schedule multiples alone, or none.
static std::vector<int64_t> microBatchChoices(const PlanOptions &options,
                                              int64_t stages, int64_t batch,
                                              bool canMicroBatch,
                                              bool isInterleaved) {
  if (isInterleaved) {
    std::vector<int64_t> choices;
    for (int64_t rounds : {1, 2, 4})
      if (canMicroBatch && batch % (rounds * stages) == 0)
        choices.push_back(rounds * stages);
    if (options.microBatches)
      choices.assign(*options.microBatches % stages == 0,
                     *options.microBatches);
    return choices;
  }
  if (options.microBatches)
    return {*options.microBatches};
  if (stages == 1 || !canMicroBatch)
    return {1};
  std::vector<int64_t> choices;
  for (int64_t count : {stages / 2, stages, 2 * stages, 4 * stages})
    if (count > 1 && batch % count == 0)
      choices.push_back(count);
  if (choices.empty())
    for (int64_t count = std::min(batch, 4 * stages); count > 1; --count)
      if (batch % count == 0) {
        choices.push_back(count);
        break;
      }
  choices.push_back(1);
  return choices;
}

/// Divisors of the batch above `last`, each the smallest that is at least twice
/// the one before.
static std::vector<int64_t> doublings(int64_t batch, int64_t last) {
  std::vector<int64_t> counts;
  for (int64_t part = batch / (2 * last); part > 0; --part)
    if (batch % part == 0 && batch / part / 2 >= last)
      counts.push_back(last = batch / part);
  return counts;
}

/// Numbers of micro-batches of one stage that are tried where the memory limit
/// makes fewer cost more: each up to kMaxAccumulations that divides the batch,
/// then doublings.
static std::vector<int64_t> accumulations(int64_t batch) {
  std::vector<int64_t> counts;
  for (int64_t count = 2; count <= std::min(batch, kMaxAccumulations); ++count)
    if (batch % count == 0)
      counts.push_back(count);
  llvm::append_range(counts,
                     doublings(batch, counts.empty() ? 1 : counts.back()));
  return counts;
}

/// All ways to put `count` devices on free axes. A training step gets at most
/// one free axis; two axes are the batch and the rest (dp x tp), since a step
/// has three times the ops of a forward pass and many shared values between
/// them.
static std::vector<std::vector<NamedAxis>>
freeAxes(int64_t count, bool orderMatters, bool isTraining, bool onlyOne,
         bool twoFirst) {
  std::vector<std::vector<NamedAxis>> shapes;
  // Cheap meshes first: their cost is the cutoff for the others.
  std::vector<NamedAxis> one = {{"x", count, AxisRole::Free}};
  if (!isTraining || !twoFirst)
    shapes.push_back(one);
  for (int64_t outer = 2; isTraining && outer <= count && !onlyOne; ++outer)
    if (count % outer == 0)
      shapes.push_back({{"dp", outer, AxisRole::Batch},
                        {"tp", count / outer, AxisRole::NonBatch}});
  if (isTraining && twoFirst)
    shapes.push_back(one);
  if (isTraining)
    return shapes;
  for (int64_t outer = 2; outer < count; ++outer) {
    if (count % outer != 0)
      continue;
    int64_t inner = count / outer;
    if (!orderMatters && outer < inner)
      continue;
    shapes.push_back(
        {{"x", outer, AxisRole::Free}, {"y", inner, AxisRole::Free}});
  }
  return shapes;
}

/// Names of the axes that are searched beside those that are given.
static void avoidNames(std::vector<NamedAxis> &axes,
                       llvm::ArrayRef<NamedAxis> given) {
  auto isTaken = [](llvm::ArrayRef<NamedAxis> list, const std::string &name) {
    return llvm::any_of(
        list, [&](const NamedAxis &axis) { return axis.name == name; });
  };
  for (NamedAxis &axis : axes)
    for (char other = 'x'; isTaken(given, axis.name);
         other = other == 'z' ? 'a' : static_cast<char>(other + 1))
      if (!isTaken(axes, std::string(1, other)))
        axis.name = other;
}

bool kerf::plan::mayCutData(const PlanOptions &options) {
  int64_t rest = options.devices;
  bool isFixed = false; // axes other than stages
  for (const auto &[name, size] : options.mesh) {
    if (name == "dp")
      return size > 1;
    isFixed |= name != "pp";
    rest /= std::max<int64_t>(size, 1);
  }
  return !isFixed && rest > 1;
}

/// ZeRO needs an axis of data parallelism.
static void keepDataParallel(MeshSet &set) {
  for (auto *list : {&set.candidates, &set.accumulations, &set.further})
    llvm::erase_if(*list, [](const MeshCandidate &candidate) {
      return !llvm::is_contained(candidate.roles, AxisRole::Batch);
    });
}

/// Numbers of chunks that are tried where none is asked for.
static constexpr int64_t kChunks[] = {2, 3, 4};

/// "2, 3 or 4", or what was asked for.
static std::string chunksText(const PlanOptions &options) {
  if (options.chunks)
    return std::to_string(*options.chunks);
  std::string text;
  for (int64_t number : llvm::ArrayRef(kChunks).drop_back())
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text + " or " + std::to_string(std::end(kChunks)[-1]);
}

/// Whether a search may look at interleaved schedules that nobody asked for.
/// Chunks shorten the wait, which is no matter for bytes.
static bool mayInterleave(const PlanOptions &options, bool isTraining) {
  return isTraining && !options.schedule &&
         options.objective == Objective::Time;
}

llvm::SmallVector<ChunkChoice>
kerf::plan::chunkChoices(const PlanOptions &options, bool isTraining,
                         int64_t stages, int64_t microBatches,
                         size_t numGroups) {
  using cost::ScheduleKind;
  bool isPipeline = isTraining && stages > 1;
  bool isAsked = isPipeline && options.schedule == ScheduleKind::Interleaved;
  llvm::SmallVector<ChunkChoice> choices;
  auto add = [&](int64_t number, ScheduleKind kind) {
    if (choices.empty() || stages * number <= static_cast<int64_t>(numGroups))
      choices.push_back(
          {number, cost::minShares(kind, stages, microBatches, number)});
  };
  if (!isPipeline)
    choices.emplace_back().weights = {static_cast<double>(microBatches), 1};
  else if (!isAsked)
    add(1, options.schedule.value_or(ScheduleKind::OneFOneB));
  if (isAsked && options.chunks)
    add(*options.chunks, ScheduleKind::Interleaved);
  else if (isAsked || (isPipeline && microBatches % stages == 0 &&
                       mayInterleave(options, isTraining)))
    for (int64_t number : kChunks)
      add(number, ScheduleKind::Interleaved);
  return choices;
}

namespace {
/// What option mesh says: the number of stages, if it has one, and the other
/// axes.
struct FixedMesh {
  std::optional<int64_t> stages;
  std::vector<NamedAxis> axes;
};
} // namespace

/// Reads option mesh into `fixed`; what is wrong with it, or empty.
static std::string readFixedMesh(const PlanOptions &options, FixedMesh &fixed) {
  std::set<std::string> names;
  for (const auto &[name, size] : options.mesh) {
    bool isName = !name.empty() && llvm::all_of(name, [](char c) {
      return llvm::isAlnum(c) || c == '_' || c == '-';
    });
    if (!isName)
      return "option mesh: axis name \"" + name +
             "\", expected letters, digits, _ and -";
    if (size < 1)
      return "option mesh: axis \"" + name + "\" has size " +
             std::to_string(size) + ", expected at least 1";
    if (!names.insert(name).second)
      return "option mesh: axis \"" + name + "\" is given twice";
    if (name == "pp") {
      fixed.stages = size;
      continue;
    }
    if (name == "mb")
      return "option mesh: axis name \"mb\" is reserved for "
             "micro-batches, expected option " +
             options.microBatchesOption + "=N";
    AxisRole role = name == "dp"   ? AxisRole::Batch
                    : name == "tp" ? AxisRole::NonBatch
                                   : AxisRole::Free;
    fixed.axes.push_back({name, size, role});
  }
  return checkDegrees(options.mesh, options.devices);
}

/// What is wrong with option micro-batches; empty: nothing.
static std::string checkMicroBatches(const PlanOptions &options,
                                     const MeshRequest &request) {
  int64_t count = options.microBatches.value_or(1);
  if (count <= 1)
    return "";
  if (!request.canMicroBatch)
    return "option " + options.microBatchesOption +
           ": the batch cannot be cut into micro-batches" +
           (request.whyNot.empty() ? "" : ": " + request.whyNot);
  if (request.batchSize % count != 0)
    return "option " + options.microBatchesOption + ": " +
           std::to_string(count) + " does not divide the batch of " +
           std::to_string(request.batchSize) +
           divisorsText(request.batchSize, count);
  return "";
}

/// What is wrong with options zero and chunks; empty: nothing.
static std::string checkZeroAndChunks(const PlanOptions &options,
                                      bool isTraining) {
  if (options.zero != Zero::None && !isTraining)
    return "option zero: expected none for a function that does not train";
  if (options.zero != Zero::None && !mayCutData(options))
    return "option zero: there is no axis of data parallelism over which " +
           llvm::join(partNames(options.zero), " and ") +
           " could lie in parts, expected option mesh with dp of at least 2" +
           (options.devices == 1 ? ", which takes several devices" : "");
  if (options.chunks && *options.chunks < 2)
    return "option chunks: " + std::to_string(*options.chunks) +
           ", expected at least 2";
  if (options.chunks && options.schedule != cost::ScheduleKind::Interleaved)
    return "option chunks: is of the schedule interleaved, expected option "
           "schedule to say so";
  return "";
}

/// Whether all pipelines are interleaved, since option schedule says so.
static bool mustInterleave(const PlanOptions &options, bool isTraining) {
  return isTraining && options.schedule == cost::ScheduleKind::Interleaved;
}

/// The candidates of so many stages, whose devices are `inner`, those of the
/// fixed axes apart.
static void addCandidates(MeshSet &set, const PlanOptions &options,
                          const MeshRequest &request, const FixedMesh &fixed,
                          int64_t stages, int64_t inner) {
  bool canMicroBatch = request.canMicroBatch;
  bool isInterleaved =
      stages > 1 && mustInterleave(options, request.isTraining);
  std::vector<int64_t> counts = microBatchChoices(
      options, stages, request.batchSize, canMicroBatch, isInterleaved);
  auto addAll = [&](int64_t micro, std::vector<MeshCandidate> &candidates) {
    llvm::SmallVector<ChunkChoice> chunks = chunkChoices(
        options, request.isTraining, stages, micro, request.numGroups);
    for (std::vector<NamedAxis> &free :
         freeAxes(inner, /*orderMatters=*/options.machine.nodes > 1,
                  request.isTraining, /*onlyOne=*/!fixed.axes.empty(),
                  options.objective == Objective::Time)) {
      avoidNames(free, fixed.axes);
      std::vector<NamedAxis> axes = fixed.axes;
      axes.insert(axes.end(), free.begin(), free.end());
      candidates.push_back(makeCandidate(stages, micro, axes));
      candidates.back().chunks = chunks;
    }
  };
  for (int64_t micro : counts)
    addAll(micro, set.candidates);
  if (!canMicroBatch || options.microBatches)
    return;
  if (stages == 1)
    for (int64_t micro : accumulations(request.batchSize))
      addAll(micro, set.accumulations);
  else if (!isInterleaved)
    for (int64_t micro :
         doublings(request.batchSize, *llvm::max_element(counts)))
      addAll(micro, set.further);
}

/// Why no number of micro-batches suits an interleaved schedule of so many
/// stages.
static std::string whyNotInterleaved(const PlanOptions &options,
                                     const MeshRequest &request,
                                     int64_t stages) {
  std::string text = "option schedule: interleaved takes a multiple of the " +
                     std::to_string(stages) + " stages as micro-batches";
  if (options.microBatches)
    return text + ", option " + options.microBatchesOption + " is " +
           std::to_string(*options.microBatches);
  if (request.canMicroBatch)
    return text + ", of which none divides the batch of " +
           std::to_string(request.batchSize);
  return text + ", and none is looked at" +
         (request.whyNot.empty() ? "" : ": " + request.whyNot) +
         "\nnote: option " + options.microBatchesOption + "=M asks for them";
}

/// The numbers of micro-batches of all candidates, for MeshSet::description.
static std::string describeMicroBatches(const PlanOptions &options,
                                        const MeshRequest &request) {
  if (mustInterleave(options, request.isTraining))
    return "of " + chunksText(options) +
           " chunks in an interleaved schedule, with p, 2p or 4p "
           "micro-batches that divide the batch; ";
  if (!request.canMicroBatch && !request.whyNot.empty())
    return "without micro-batches, since " + request.whyNot + "; ";
  return "p/2, p, 2p or 4p micro-batches, of these what is above "
         "1 and divides the batch, or the most up to 4p that "
         "do, and 1, and doublings where nothing else fits; ";
}

/// All candidates in words: MeshSet::description.
static std::string describe(const PlanOptions &options,
                            const MeshRequest &request,
                            const FixedMesh &fixed) {
  bool isTraining = request.isTraining, canMicroBatch = request.canMicroBatch;
  std::string fixedText;
  for (const auto &[name, size] : options.mesh)
    fixedText +=
        (fixedText.empty() ? "" : ",") + name + "=" + std::to_string(size);
  return (fixedText.empty() ? "" : " with " + fixedText) +
         " (stages that divide the devices; " +
         describeMicroBatches(options, request) +
         (!canMicroBatch && !request.whyNot.empty()
              ? ""
              : "with one stage 1, where the memory limit makes that cost more "
                "also each number up to " +
                    std::to_string(kMaxAccumulations) +
                    " that divides the batch, above it by doublings; ") +
         (mayInterleave(options, isTraining) && canMicroBatch &&
                  fixed.stages.value_or(options.devices) > 1
              ? "1F1B and GPipe, and where the micro-batches are a multiple of "
                "p also interleaved 1F1B of " +
                    chunksText(options) + " chunks per stage; "
              : "") +
         "the rest of the devices on one free axis" +
         std::string(!isTraining          ? " or on two"
                     : fixed.axes.empty() ? ", on dp or on dp x tp"
                                          : "") +
         "), every sharding of every op over the factors of its rule with at "
         "most one major sub-axis per axis and at most a quarter of padding "
         "(in blocks of ceiling size or of whole units of reshapes), " +
         std::string(isTraining ? "stages, or their chunks, contiguous in the "
                                  "order of the forward"
                                : "stages contiguous in program order");
}

MeshSet kerf::plan::enumerateMeshes(const PlanOptions &options,
                                    const MeshRequest &request) {
  MeshSet set;
  FixedMesh fixed;
  set.error = readFixedMesh(options, fixed);
  if (set.error.empty())
    set.error = checkMicroBatches(options, request);
  if (set.error.empty())
    set.error = checkZeroAndChunks(options, request.isTraining);
  if (!set.error.empty())
    return set;
  int64_t rest = options.devices;
  for (const auto &[name, size] : options.mesh)
    rest /= size;
  if (fixed.stages)
    addCandidates(set, options, request, fixed, *fixed.stages, rest);
  else
    for (int64_t stages = 1; stages <= options.devices; ++stages)
      if (rest % stages == 0)
        addCandidates(set, options, request, fixed, stages, rest / stages);
  if (set.candidates.empty()) {
    set.error = whyNotInterleaved(options, request, *fixed.stages);
    return set;
  }
  if (options.zero != Zero::None)
    keepDataParallel(set);
  set.description = describe(options, request, fixed);
  return set;
}
