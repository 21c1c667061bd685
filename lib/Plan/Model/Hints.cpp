//===- Hints.cpp - shardings that the user asks for -----------------------===//
//
// A hint forbids all choices with another sharding than it names. Before
// choices are enumerated, its blocks are read, so that they are offered to the
// values that it matches and to all dimensions that are cut with them.
//
//===----------------------------------------------------------------------===//
#include "Graph.h"

#include "kerf/Interfaces/KerfDialect.h"
#include "kerf/Support/NamePattern.h"

#include "mlir/AsmParser/AsmParser.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;
using namespace kerf;
using namespace kerf::plan;

/// "[{},{tp}]@1" as "[{},{tp}]" and 1.
static std::pair<StringRef, std::optional<int64_t>> splitStage(StringRef text) {
  auto [sharding, number] = text.rsplit('@');
  int64_t stage = 0;
  if (number.empty() || number.getAsInteger(10, stage) || stage < 0)
    return {text, std::nullopt};
  return {sharding, stage};
}

std::optional<int64_t> kerf::plan::stageOf(const ShardHint &hint) {
  return splitStage(hint.sharding).second;
}

/// The sharding that a hint such as `[{}, {tp}:128]` names: as in plan.json,
/// where quotes and outer brackets may be left out. Nothing if it names none of
/// this mesh.
static std::optional<dist::Layout>
readHint(StringRef text, const dist::Mesh &mesh, MLIRContext *context) {
  text = splitStage(text.trim()).first.trim();
  if (text.consume_front("["))
    text.consume_back("]");
  std::string quoted;
  bool isAxis = false, isQuoted = false;
  for (StringRef rest = text; !rest.empty();) {
    StringRef name = rest.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
    bool isName =
        isAxis && !isQuoted && !name.empty() && !llvm::isDigit(name.front());
    char next = rest.front();
    isAxis = (isAxis || next == '{') && next != '}';
    isQuoted ^= next == '"';
    quoted += isName         ? ("\"" + name + "\"").str()
              : name.empty() ? std::string(1, next)
                             : name.str();
    rest = rest.drop_front(std::max<size_t>(name.size(), 1));
  }
  // What is no sharding is refused with a list of those that are.
  ScopedDiagnosticHandler quiet(context,
                                [](Diagnostic &) { return success(); });
  auto sharding = dyn_cast_if_present<dist::ShardingAttr>(
      parseAttribute("#dist.sharding<" + quoted + ">", context));
  if (!sharding)
    return std::nullopt;
  llvm::Expected<dist::Layout> layout = sharding.toLayout(mesh);
  if (!layout) {
    llvm::consumeError(layout.takeError());
    return std::nullopt;
  }
  layout->canonicalize();
  return *layout;
}

/// Whether the pattern is of a value: it matches its name, or that of an output
/// which is the value.
static bool isOf(const llvm::Regex &pattern, Value value,
                 const ValueNames &names) {
  if (pattern.match(names[value]))
    return true;
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    auto end = dyn_cast<func::ReturnOp>(use.getOwner());
    if (!end)
      return false;
    auto name =
        end->getParentOfType<func::FuncOp>().getResultAttrOfType<StringAttr>(
            use.getOperandNumber(), kNameAttr);
    return name && pattern.match(name.getValue());
  });
}

llvm::MapVector<Value, int64_t> Graph::stagesOfHints(func::FuncOp function,
                                                     const PlanOptions &options,
                                                     const ValueNames &names) {
  llvm::MapVector<Value, int64_t> stages;
  for (const ShardHint &hint : options.hints) {
    std::optional<int64_t> stage = stageOf(hint);
    if (!stage)
      continue;
    llvm::Regex regex = namePattern(hint.pattern);
    auto look = [&](Value value) {
      if (isOf(regex, value, names))
        stages[value] = *stage;
    };
    llvm::for_each(function.getArguments(), look);
    for (Operation &op : function.getBody().front())
      llvm::for_each(op.getResults(), look);
  }
  return stages;
}

DimBlocks Graph::withHints(DimBlocks dimBlocks, func::FuncOp function,
                           const dist::Mesh &mesh, const PlanOptions &options,
                           const ValueNames &names) {
  bool any = false;
  for (const ShardHint &hint : options.hints) {
    auto wish = readHint(hint.sharding, mesh, function.getContext());
    if (!wish || wish->isReplicated())
      continue;
    llvm::Regex regex = namePattern(hint.pattern);
    auto look = [&](Value value) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type || type.getRank() != static_cast<int64_t>(wish->dims.size()))
        return;
      for (auto [dim, axes] : llvm::enumerate(wish->dims)) {
        int64_t parts = dist::numShards(axes), size = type.getDimSize(dim);
        if ((size % parts == 0 && !wish->block(dim)) ||
            !isOf(regex, value, names))
          continue;
        dimBlocks.add(value, dim, {parts, wish->localSize(dim, size)});
        any = true;
      }
    };
    for (BlockArgument argument : function.getArguments())
      look(argument);
    for (Operation &op : function.getBody().front())
      for (Value result : op.getResults())
        look(result);
  }
  if (any)
    dimBlocks.spread();
  return dimBlocks;
}

/// Adds to `sizes` a block size for each number of parts into which the axes of
/// a mesh can cut a dimension that they do not divide, as a hint would.
static void addAllBlocks(BlockSizes &sizes, int64_t size,
                         const MeshCandidate &candidate) {
  std::set<int64_t> counts{1};
  for (auto [number, axis] : llvm::enumerate(candidate.mesh.axes))
    if (candidate.roles[number] != AxisRole::Fixed)
      for (int64_t count : std::vector<int64_t>(counts.begin(), counts.end()))
        counts.insert(count * axis.size);
  for (int64_t parts : counts)
    if (size % parts != 0)
      sizes.push_back({parts, dist::localSize(size, parts)});
  llvm::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
}

std::vector<LayoutId> Graph::layoutsForHints(Value value) {
  RankedTensorType type = tensorType(value);
  Operation *op = value.getDefiningOp();
  if (!op) {
    StrategyOptions given = strategyOptions(value);
    given.blockSizes.resize(static_cast<size_t>(type.getRank()));
    for (auto [sizes, size] :
         llvm::zip_equal(given.blockSizes, type.getShape()))
      addAllBlocks(sizes, size, candidate);
    return enumerateLayouts(type, batch.batchDim(value), candidate, given,
                            layouts);
  }
  ShardingRule rule = placementRule(op);
  StrategyOptions given = strategyOptions(op);
  given.blockSizes = dimBlocks.ofFactors(op, rule);
  given.blockSizes.resize(rule.factors.size());
  for (auto [sizes, factor] : llvm::zip_equal(given.blockSizes, rule.factors))
    addAllBlocks(sizes, factor.size, candidate);
  std::vector<LayoutId> all;
  auto number = cast<OpResult>(value).getResultNumber();
  for (const Strategy &strategy :
       enumerateStrategies(rule, candidate, given, layouts))
    all.push_back(strategy.results[number]);
  return all;
}

/// The time axis is the schedule's, not the user's.
dist::Layout Graph::withoutTime(LayoutId id) const {
  dist::Layout layout = layouts[id];
  auto isTime = [&](const dist::AxisRef &ref) {
    return candidate.timeAxis == ref.axis;
  };
  for (dist::AxisList &axes : layout.dims)
    llvm::erase_if(axes, isTime);
  llvm::erase_if(layout.partial, isTime);
  return layout;
}

std::string Graph::hintText(LayoutId id) const {
  std::string text = dist::toString(withoutTime(id), candidate.mesh);
  if (text.size() > 1 && text.front() == '<') // <{tp}, {}>: written [..]
    text = "[" + text.substr(1, text.size() - 2) + "]";
  return text;
}

/// What roles of axes say against a wish of the value's rank; empty if nothing.
std::string Graph::whyNotLegal(Value value, const dist::Layout &wish) const {
  std::string why;
  std::optional<int64_t> ofBatch = batch.batchDim(value);
  for (auto [dim, axes] : llvm::enumerate(wish.dims))
    for (const dist::AxisRef &ref : axes) {
      const std::string &axis = candidate.mesh.axes[ref.axis].name;
      bool isBatch = ofBatch == static_cast<int64_t>(dim);
      AxisRole role = candidate.roles[ref.axis];
      if (role == AxisRole::NonBatch && isBatch)
        why += "\nnote: dimension " + std::to_string(dim) + " of '" +
               names[value].str() + "' is the batch, which '" + axis +
               "' does not cut; dp does, and so does an axis of another name";
      if (role == AxisRole::Batch && !isBatch)
        why += "\nnote: '" + axis + "' cuts nothing but the batch, which is " +
               (ofBatch ? "dimension " + std::to_string(*ofBatch) + " of '" +
                              names[value].str() + "'"
                        : "no dimension of '" + names[value].str() + "'");
    }
  return why;
}

void Graph::applyHints(Value value, uint32_t node,
                       llvm::function_ref<LayoutId(size_t)> layoutOf) {
  for (const ShardHint &hint : options.hints) {
    if (!isOf(namePattern(hint.pattern), value, names))
      continue;
    bool any = false;
    std::optional<dist::Layout> wish =
        readHint(hint.sharding, candidate.mesh, function.getContext());
    RankedTensorType type = tensorType(value);
    auto rank = static_cast<size_t>(type.getRank());
    bool isOfRank = wish && wish->dims.size() == rank;
    // Of 8 numbers in 4 parts, {tp}:2 is {tp}.
    for (size_t dim = 0; isOfRank && dim < rank; ++dim)
      wish->setBlock(dim, type.getDimSize(dim), wish->block(dim));
    std::vector<std::string> legal;
    auto addLegal = [&](std::string text) {
      if (!llvm::is_contained(legal, text))
        legal.push_back(std::move(text));
    };
    for (size_t choice = 0; choice < problem.numChoices(node); ++choice) {
      addLegal(hintText(layoutOf(choice)));
      if (isOfRank && withoutTime(layoutOf(choice)) == *wish)
        any = true;
      else
        problem.nodes[node].costs.forbid(choice);
    }
    hinted.insert(node);
    if (any || !error.empty())
      continue;
    for (LayoutId layout : layoutsForHints(value))
      addLegal(hintText(layout));
    error = ("option shard: '" + hint.sharding +
             "' is not a legal sharding of '" + names[value] +
             "'\nnote: legal on this mesh: " + llvm::join(legal, "  "))
                .str();
    size_t given = wish ? wish->dims.size() : rank;
    if (given != rank)
      error += "\nnote: '" + names[value].str() + "' has " +
               std::to_string(rank) +
               (rank == 1 ? " dimension" : " dimensions") + ", not " +
               std::to_string(given);
    else if (wish)
      error += whyNotLegal(value, *wish);
  }
}

std::string kerf::plan::noteShared(func::FuncOp function,
                                   const ValueNames &names) {
  constexpr size_t kMaxNames = 4; // names
  std::vector<std::string> shared;
  for (Operation &op : function.getBody().front()) {
    auto source = dyn_cast<SourceOpInterface>(op);
    if (!source || !source.isParameter())
      continue;
    int64_t reads = llvm::count_if(op.getUsers(), [](Operation *user) {
      return dist::getPhase(user) == dist::Phase::Forward;
    });
    if (reads > 1)
      shared.push_back("'" + names[op.getResult(0)].str() + "'");
  }
  return shared.empty()
             ? ""
             : "\nnote: a weight that several layers share has one name; "
               "several read " +
                   llvm::join(ArrayRef(shared).take_front(kMaxNames), ", ") +
                   (shared.size() > kMaxNames ? ", ..." : "");
}

std::string kerf::plan::checkHints(func::FuncOp function,
                                   const ValueNames &names,
                                   ArrayRef<ShardHint> hints) {
  for (const ShardHint &hint : hints) {
    std::string why;
    llvm::Regex pattern = namePattern(hint.pattern);
    if (!pattern.isValid(why))
      return "option shard: '" + hint.pattern +
             "' is not a regular expression: " + why +
             (StringRef(hint.pattern).contains('*')
                  ? " (any characters are '.*')"
                  : "");
    bool any = false;
    std::string examples;
    std::vector<std::string> all;
    auto visit = [&](Value value) {
      any |= isOf(pattern, value, names);
      all.push_back(names[value].str());
      if (examples.size() < 100)
        examples += (examples.empty() ? "'" : ", '") + names[value].str() + "'";
    };
    llvm::for_each(function.getArguments(), visit);
    for (Operation &op : function.getBody().front())
      llvm::for_each(op.getResults(), visit);
    if (!any) {
      std::string close = closestPattern(hint.pattern, all);
      return "option shard: no value is named '" + hint.pattern + "'" + close +
             (close.empty()
                  ? noteShared(function, names) + "\nnote: there are " +
                        examples + " and others; plan.json lists all"
                  : "");
    }
  }
  return "";
}

std::string
kerf::plan::checkBatchDims(const ValueNames &names,
                           const llvm::StringMap<int64_t> &batchDims) {
  // Sorted, so that the same one of several is named in every run.
  std::map<StringRef, int64_t> sorted;
  for (const auto &entry : batchDims)
    sorted.insert({entry.getKey(), entry.getValue()});
  for (auto [name, dim] : sorted) {
    auto argument = dyn_cast_or_null<BlockArgument>(names.find(name));
    if (!argument)
      return ("option batch-dim: no argument is named '" + name +
              "'\nnote: kerf.name names arguments; the first one without it is "
              "'arg'")
          .str();
    int64_t rank = tensorType(argument).getRank();
    if (dim < -1 || dim >= rank)
      return ("option batch-dim: '" + name + "' has no dimension " +
              Twine(dim) + ", expected less than its rank, " + Twine(rank) +
              ", or -1: no batch")
          .str();
  }
  return "";
}

std::string kerf::plan::checkHintAxes(ArrayRef<ShardHint> hints,
                                      ArrayRef<MeshCandidate> candidates) {
  llvm::SetVector<StringRef> known;
  int64_t stages = 1;
  for (const MeshCandidate &candidate : candidates) {
    stages = std::max(stages, candidate.stages);
    for (const dist::MeshAxis &axis : candidate.mesh.axes)
      if (!axis.isTime)
        known.insert(axis.name);
  }
  for (const ShardHint &hint : hints) {
    if (std::optional<int64_t> stage = stageOf(hint); stage && *stage >= stages)
      return ("option shard: '" + hint.sharding + "': no mesh has a stage " +
              Twine(*stage) + ", " +
              (stages == 1 ? Twine("there is one, 0\nnote: option mesh=pp=S "
                                   "makes S stages")
                           : "expected 0 to " + Twine(stages - 1)))
          .str();
    // Names stand in braces, "tp" or a part of it, "tp":(1)2.
    for (StringRef rest = hint.sharding; rest.contains('{');) {
      StringRef inside;
      std::tie(inside, rest) = rest.split('{').second.split('}');
      SmallVector<StringRef> names;
      inside.split(names, ',', -1, /*KeepEmpty=*/false);
      for (StringRef name : names) {
        name = name.split(':').first.trim(" \"");
        if (name.empty() || known.contains(name))
          continue;
        return ("option shard: '" + hint.sharding + "': no mesh has an axis '" +
                name + "', expected " +
                (known.empty() ? "none: there is one device"
                               : llvm::join(known, " or ")) +
                "\nnote: option mesh names the axes")
            .str();
      }
    }
  }
  return "";
}
