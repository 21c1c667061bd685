//===- PlanNotes.cpp - notes for the user on a plan -----------------------===//
#include "PlanNotes.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Dist/Entry.h"
#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Support/TensorTypes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kerf;

/// Into how many parts each axis of the mesh cuts a value at most.
static void collect(Attribute attribute, const dist::Mesh &mesh,
                    std::vector<int64_t> &parts) {
  auto sharding = dyn_cast_or_null<dist::ShardingAttr>(attribute);
  if (!sharding)
    return;
  std::vector<int64_t> own(mesh.axes.size(), 1);
  for (dist::AxesAttr dim : sharding.getDims())
    for (dist::AxisAttr axis : dim.getAxes())
      if (std::optional<unsigned> number = mesh.find(axis.getName()))
        own[*number] *=
            axis.isWhole() ? mesh.axes[*number].size : axis.getSize();
  for (auto [most, count] : llvm::zip_equal(parts, own))
    most = std::max(most, count);
}

/// "2 of 18 along dimension 0 of input "x" (dp=3 cuts 16 into parts of 6)"; all
/// inputs in one note, those that are cut alike together.
static void notePadding(func::FuncOp function, const dist::Mesh &mesh,
                        std::vector<std::string> &notes) {
  // How, in words before and behind the names, and the names.
  std::vector<std::pair<std::pair<std::string, std::string>, std::string>>
      padded;
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    auto sharding =
        function.getArgAttrOfType<dist::ShardingAttr>(number, dist::kSharding);
    auto name = function.getArgAttrOfType<StringAttr>(number, kNameAttr);
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!sharding || !name || !type)
      continue;
    for (auto [d, axes] : llvm::enumerate(sharding.getDims())) {
      std::string cut;
      int64_t parts = 1, size = type.getDimSize(d);
      for (dist::AxisAttr axis : axes.getAxes()) {
        std::optional<unsigned> found = mesh.find(axis.getName());
        if (!found)
          continue;
        int64_t degree =
            axis.isWhole() ? mesh.axes[*found].size : axis.getSize();
        cut += (cut.empty() ? "" : ",") + axis.getName().str() + "=" +
               std::to_string(degree);
        parts *= degree;
      }
      int64_t part = sharding.getBlock(d);
      if (!part)
        part = dist::localSize(size, parts);
      if (part * parts == size)
        continue;
      int64_t whole = part * parts;
      std::pair<std::string, std::string> how = {
          (Twine(whole - size) + " of " + Twine(whole) + " along dimension " +
           Twine(d) + " of input")
              .str(),
          (cut + " cuts " + Twine(size) + " into parts of " + Twine(part))
              .str()};
      auto alike = llvm::find_if(
          padded, [&](const auto &each) { return each.first == how; });
      if (alike == padded.end())
        alike = padded.insert(padded.end(), {how, ""});
      std::string &names = alike->second;
      names += names.empty() ? " \"" : ", \"";
      names += name.getValue().str() + "\"";
    }
  }
  std::string text;
  for (const auto &[how, names] : padded)
    text += (text.empty() ? "" : "; ") + how.first +
            (names.find(", ") == std::string::npos ? "" : "s") + names + " (" +
            how.second + ")";
  if (!text.empty())
    notes.push_back("padding, computed and thrown away: " + text);
}

/// No input is known to hold samples: what is cut as the batch then is the
/// leading dimension of the first one, and those of its size (BatchAnalysis).
static void noteGuessedBatch(func::FuncOp function, const dist::Mesh &mesh,
                             std::vector<std::string> &notes) {
  std::string first;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (function.getArgAttr(i, kBatchDimAttr))
      return;
    auto name = function.getArgAttrOfType<StringAttr>(i, kNameAttr);
    auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[i]);
    if (first.empty() && name && type && type.getRank() > 0)
      first = name.str();
  }
  bool isCut = llvm::any_of(mesh.axes, [](const dist::MeshAxis &axis) {
    return axis.size > 1 && (axis.isTime || axis.name == "dp");
  });
  if (isCut && !first.empty())
    notes.push_back("dimension 0 of \"" + first +
                    "\" is taken for the batch: inputs and outputs begin with "
                    "different sizes (option batch-dim " +
                    first + "=-1: it has no samples)");
}

/// Why a data-parallel axis may have too little to cut: the samples of a
/// micro-batch are not filled up, and a batch to less than twice its size.
/// Empty if that is not the reason.
static std::string whyUncut(func::FuncOp function, const dist::Mesh &mesh,
                            const dist::MeshAxis &axis) {
  int64_t microBatches = mesh.numMicroBatches();
  for (BlockArgument argument : function.getArguments()) {
    auto dim = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(),
                                                      kBatchDimAttr);
    if (axis.name != "dp" || !dim || dim.getInt() < 0)
      continue;
    int64_t samples = shapeOf(argument)[dim.getInt()] / microBatches;
    if (microBatches == 1) {
      if (int64_t most = 2 * samples - 1; axis.size > most)
        return "; dp cuts the batch alone, " +
               (samples == 1 ? "which is one sample"
                             : "and " + std::to_string(samples) +
                                   " samples are filled up to at most " +
                                   std::to_string(most));
      continue;
    }
    if (samples % axis.size != 0)
      return "; a micro-batch of " + std::to_string(samples) +
             " samples does not divide into " + std::to_string(axis.size) +
             ", and only a batch without micro-batches is filled up";
  }
  return "";
}

std::vector<std::string> kerf::planNotes(ModuleOp module) {
  std::vector<std::string> notes;
  auto function = dist::findEntry(module);
  dist::MeshAttr attribute =
      function ? dist::getMesh(function) : dist::MeshAttr();
  if (!attribute)
    return notes;
  dist::Mesh mesh = attribute.toMesh();
  std::vector<int64_t> parts(mesh.axes.size(), 1);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    collect(function.getArgAttr(i, dist::kSharding), mesh, parts);
  function.walk([&](Operation *op) {
    for (dist::ShardingAttr sharding : dist::getResultShardings(op))
      collect(sharding, mesh, parts);
    for (dist::ShardingAttr sharding : dist::getOperandShardings(op))
      collect(sharding, mesh, parts);
    if (dist::findStage(op))
      if (std::optional<unsigned> stages = mesh.find("pp"))
        parts[*stages] = mesh.axes[*stages].size;
  });
  for (auto [axis, count] : llvm::zip_equal(mesh.axes, parts)) {
    if (axis.isTime || count >= axis.size)
      continue;
    std::string name = axis.name + "=" + std::to_string(axis.size);
    if (count == 1)
      notes.push_back("nothing is cut over " + name +
                      ": all devices along it compute the same" +
                      whyUncut(function, mesh, axis));
    else
      notes.push_back(
          name + " cuts nothing into more than " + std::to_string(count) +
          " parts: of its devices " + std::to_string(axis.size / count) +
          " each compute the same" + whyUncut(function, mesh, axis));
  }
  noteGuessedBatch(function, mesh, notes);
  notePadding(function, mesh, notes);
  return notes;
}
