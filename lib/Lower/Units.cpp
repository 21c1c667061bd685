//===- Units.cpp - which ops are computed together; see Units.h -----------===//
#include "Units.h"

#include "Offers.h"
#include "OpKinds.h"
#include "Parameters.h"
#include "Recompute.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Exec/Exec.h"
#include "kerf/Lower/Codegen.h"
#include "kerf/Lower/Lower.h"
#include "kerf/NN/NN.h"

#include <queue>

using namespace mlir;
using namespace kerf;

static constexpr int64_t mostHeldBytes = 32 << 20; // docs/Cuda.md, Batches

namespace {
class UnitBuilder {
public:
  UnitBuilder(func::FuncOp function, SmallVectorImpl<Destination> &destinations)
      : function(function), block(function.getBody().front()),
        destinations(destinations) {
    int64_t n = 0;
    for (Operation &op : block)
      position[&op] = n++;
  }

  FailureOr<std::vector<Unit>> build() {
    mergeViews(block);
    findConstants();
    selectLibrary();
    if (failed(formKernels()))
      return failure();
    if (exec::TargetAttr::of(function).getMemoryBound())
      recomputeValues({units, unitOf, position});
    return schedule();
  }

private:
  bool isConst(Operation *op) const { return constants.contains(op); }

  /// The ops that depend on parameters alone. A shape op that something else
  /// reads is left to its reader, which sees through it.
  void findConstants() {
    for (Operation &op : block) {
      if (op.hasTrait<OpTrait::IsTerminator>())
        continue;
      bool constant =
          isa<nn::NNDialect>(op.getDialect()) && !isMutableSource(&op);
      if (auto index = dyn_cast<dist::ShardIndexOp>(op)) {
        dist::MeshAttr mesh = dist::getMesh(&op);
        auto axes = dist::toAxisList(index.getAxes(), mesh.toMesh());
        if (axes)
          constant = llvm::all_of(*axes, [&](const dist::AxisRef &axis) {
            return !mesh.toMesh().axes[axis.axis].isTime;
          });
        else
          llvm::consumeError(axes.takeError());
      }
      for (Value operand : op.getOperands())
        constant &= operand.getDefiningOp() && isConst(operand.getDefiningOp());
      if (constant)
        constants.insert(&op);
    }
    for (Operation &op : llvm::reverse(block))
      if (isShapeOp(&op) && isConst(&op) &&
          llvm::any_of(op.getUsers(),
                       [&](Operation *user) { return !isConst(user); }))
        constants.erase(&op);
  }

  int64_t newUnit(Unit::Kind kind, ArrayRef<Operation *> ops, bool init) {
    Unit unit;
    unit.kind = kind;
    unit.ops.assign(ops.begin(), ops.end());
    unit.init = init;
    sortOps(unit);
    int64_t id = units.size();
    for (Operation *op : unit.ops)
      unitOf[op] = id;
    units.push_back(std::move(unit));
    return id;
  }

  void sortOps(Unit &unit) {
    llvm::sort(unit.ops, [&](Operation *a, Operation *b) {
      return position.lookup(a) < position.lookup(b);
    });
    unit.ops.erase(std::unique(unit.ops.begin(), unit.ops.end()),
                   unit.ops.end());
  }

  void selectLibrary() {
    for (Operation &op : block) {
      if (isConst(&op) || taken.contains(&op))
        continue;
      auto call = selectLibraryCall(&op, taken);
      if (!call)
        continue;
      int64_t id = newUnit(Unit::Kind::Library, call->ops, false);
      taken.insert(call->ops.begin(), call->ops.end());
      units[id].call = std::move(call);
    }
  }

  /// Whether the op is computed where it is used: it moves elements or is a
  /// small constant, and its one user stands in a kernel.
  bool follows(Operation *op) const {
    if (!(isShapeOp(op) || isInline(op)) || taken.contains(op) ||
        stays.contains(op) || !op->getResult(0).hasOneUse())
      return false;
    Operation *user = *op->user_begin();
    if (!isa<nn::NNDialect>(user->getDialect()) || taken.contains(user) ||
        (isConst(user) != isConst(op) && !isInline(op)))
      return false;
    // A parameter's part of a bucket of gradients is a view: with the offset in
    // their code no two updates would be the same kernel.
    if (isa<nn::SliceOp>(op) && isAlias(op) && !isConst(op) &&
        isReadByUpdate(op))
      return false;
    return !isAlias(user) || follows(user);
  }
  void collect(Operation *op, SmallVectorImpl<Operation *> &ops) {
    ops.push_back(op);
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && follows(def))
        collect(def, ops);
  }

  /// A kernel for one op with what follows into it. Where code generation does
  /// not take them together, what is not a constant is computed first.
  LogicalResult formKernel(Operation *op) {
    SmallVector<Operation *> ops;
    collect(op, ops);
    int64_t id = newUnit(Unit::Kind::Kernel, ops, isConst(op));
    lastKernel = std::max(lastKernel, position.lookup(op));
    KernelVerdict verdict = classifyKernel(units[id].ops);
    if (verdict.supported) {
      drawInProducers(id);
      return success();
    }
    bool retry = false;
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && follows(def) && !isInline(def)) {
        stays.insert(def);
        retry = true;
      }
    if (!retry)
      return op->emitError("cannot be compiled: ") << verdict.reason;
    for (Operation *member : units[id].ops)
      unitOf.erase(member);
    units[id].ops.clear();
    for (Operation *member : llvm::reverse(ops))
      if (stays.contains(member) && !unitOf.count(member))
        if (failed(formUnit(member)))
          return failure();
    return formKernel(op);
  }

  LogicalResult formUnit(Operation *op) {
    if (!isAlias(op))
      return formKernel(op);
    newUnit(Unit::Kind::Alias, {op}, isConst(op));
    return success();
  }

  LogicalResult formKernels() {
    for (Operation &op : block) {
      if (op.hasTrait<OpTrait::IsTerminator>() || taken.contains(&op))
        continue;
      if (!isa<nn::NNDialect>(op.getDialect())) {
        newUnit(Unit::Kind::Other, {&op}, isConst(&op));
        continue;
      }
      if (op.use_empty() || follows(&op))
        continue;
      if (isa<SourceOpInterface>(op))
        continue; // parameters
      if (failed(formUnit(&op)))
        return failure();
    }
    return success();
  }

  void drawInProducers(int64_t id) {
    SmallVector<int64_t> producers;
    for (Operation *op : units[id].ops)
      for (Value operand : op->getOperands())
        if (Operation *def = operand.getDefiningOp()) {
          auto it = unitOf.find(def);
          if (it != unitOf.end() && it->second != id &&
              units[it->second].kind == Unit::Kind::Kernel &&
              units[it->second].init == units[id].init)
            producers.push_back(it->second);
        }
    // The latest first: it is the likeliest to stand in between others.
    llvm::sort(producers, [&](int64_t a, int64_t b) {
      return position.lookup(units[a].ops.back()) >
             position.lookup(units[b].ops.back());
    });
    producers.erase(std::unique(producers.begin(), producers.end()),
                    producers.end());
    for (int64_t producer : producers) {
      Unit merged;
      merged.ops = units[producer].ops;
      merged.ops.append(units[id].ops);
      sortOps(merged);
      // A detour is looked for along all that lies between: seldom, please.
      if (merged.ops.size() > kMaxKernelOps || !canFuse(merged.ops) ||
          hasDetour(producer, id))
        continue;
      for (Operation *op : units[producer].ops)
        unitOf[op] = id;
      units[id].ops = std::move(merged.ops);
      units[producer].ops.clear();
    }
  }

  /// Whether a path leads from one unit to another through a third. Kernels so
  /// far end at `lastKernel`, other units have one result, of their last op: so
  /// no path leads back from behind it.
  bool hasDetour(int64_t from, int64_t to) {
    DenseSet<int64_t> seenUnits = {from};
    DenseSet<Operation *> seenOps;
    SmallVector<Operation *> stack;
    auto visit = [&](Operation *op) {
      if (op->getBlock() == &block && position.lookup(op) <= lastKernel &&
          seenOps.insert(op).second)
        stack.push_back(op);
    };
    auto push = [&](Operation *op) {
      for (Operation *user : op->getUsers())
        visit(user);
    };
    for (Operation *op : units[from].ops)
      for (Operation *user : op->getUsers()) {
        auto it = unitOf.find(user);
        bool direct =
            it != unitOf.end() && (it->second == to || it->second == from);
        if (!direct)
          visit(user);
      }
    while (!stack.empty()) {
      Operation *op = stack.pop_back_val();
      auto it = unitOf.find(op);
      if (it == unitOf.end()) {
        // No unit yet: it stands behind `to` or moves elements for such an op.
        push(op);
        continue;
      }
      if (it->second == to)
        return true;
      if (seenUnits.insert(it->second).second)
        for (Operation *member : units[it->second].ops)
          push(member);
    }
    return false;
  }

  /// Fills inputs and outputs, drops merged units, orders the rest.
  FailureOr<std::vector<Unit>> schedule() {
    SmallVector<int64_t> live;
    for (auto [id, unit] : llvm::enumerate(units)) {
      if (unit.ops.empty())
        continue;
      live.push_back(id);
      finish(unit, id);
    }
    // Kahn's algorithm, the earliest last op first.
    SmallVector<SmallVector<int64_t>> successors(units.size());
    SmallVector<int64_t> waiting(units.size(), 0);
    for (int64_t id : live) {
      DenseSet<int64_t> before;
      for (Value input : units[id].inputs)
        if (Operation *def = input.getDefiningOp()) {
          auto it = unitOf.find(def);
          if (it != unitOf.end() && before.insert(it->second).second) {
            successors[it->second].push_back(id);
            ++waiting[id];
          }
        }
    }
    bool gpu = exec::TargetAttr::of(function).isCuda();
    UnitGraph graph{{units, unitOf, position}, live, successors, waiting};
    orderWrites(graph);
    orderCommunication(graph);
    if (gpu) {
      offerSums(graph, destinations);
      offerMasks(graph, destinations);
    }
    // An update ends the life of a gradient, and what adds to a sum over
    // micro-batches that of its operands: they run as soon as they can.
    DenseSet<int64_t> urgent;
    for (const Destination &destination : destinations)
      if (destination.direct)
        urgent.insert(unitOf.lookup(writtenBy(destination.value)));
    drawInNumbers(urgent);
    using Entry = std::pair<int64_t, int64_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
    SmallVector<int64_t> held;
    int64_t heldBytes = 0;
    auto enqueue = [&](int64_t id) {
      if (gpu && isUpdate(units[id])) {
        held.push_back(id);
        heldBytes += gradientBytes(units[id]);
        return;
      }
      ready.push({urgent.contains(id) ? -1
                  : gpu && isWeightRounding(units[id])
                      ? -4
                      : position.lookup(units[id].ops.back()),
                  id});
    };
    for (int64_t id : live)
      if (!waiting[id])
        enqueue(id);
    std::vector<Unit> ordered;
    SmallVector<int64_t> order;
    while (!ready.empty() || !held.empty()) {
      if (heldBytes >= mostHeldBytes || ready.empty()) {
        for (int64_t id : std::exchange(held, {}))
          ready.push({llvm::any_of(units[id].ops, llvm::IsaPred<nn::ReduceOp>)
                          ? -3 // with its gradient: before all batches
                          : -2,
                      id});
        heldBytes = 0;
      }
      int64_t id = ready.top().second;
      ready.pop();
      order.push_back(id);
      for (int64_t next : successors[id])
        if (--waiting[next] == 0)
          enqueue(next);
    }
    if (order.size() != live.size())
      return function.emitError("units form a cycle"); // a bug of ours
    for (int64_t id : order)
      ordered.push_back(std::move(units[id]));
    return ordered;
  }

  /// Units that compute single numbers (a learning rate, Adam's corrections)
  /// for members of the set become members.
  void drawInNumbers(DenseSet<int64_t> &members) const {
    SmallVector<int64_t> work(members.begin(), members.end());
    while (!work.empty())
      for (Value input : units[work.pop_back_val()].inputs) {
        Operation *def = input.getDefiningOp();
        auto it = def ? unitOf.find(def) : unitOf.end();
        if (it == unitOf.end() ||
            units[it->second].kind != Unit::Kind::Kernel ||
            !llvm::all_of(units[it->second].outputs, [](Value output) {
              return cast<RankedTensorType>(output.getType())
                         .getNumElements() == 1;
            }))
          continue;
        if (members.insert(it->second).second)
          work.push_back(it->second);
      }
  }

  /// A parameter in 16 bits that lives long anyway, or is small: all of them
  /// come first, in a few launches.
  bool isWeightRounding(const Unit &unit) const {
    constexpr int64_t small = 64 << 10;
    if (unit.kind != Unit::Kind::Kernel || unit.init || unit.ops.size() != 1)
      return false;
    auto cast = dyn_cast<nn::CastOp>(unit.ops.front());
    if (!cast || !isMutableSource(memoryOf(cast.getX()).getDefiningOp()))
      return false;
    DenseSet<int64_t> readers;
    for (Operation *user : cast->getUsers())
      readers.insert(unitOf.lookup(user));
    return readers.size() > 1 || exec::sizeBytes(cast.getType()) <= small;
  }

  static bool isUpdate(const Unit &unit) {
    auto marked = [](Operation *op) { return op->hasAttr(exec::kUpdateMark); };
    auto isTensor = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getNumElements() > 1;
    };
    return unit.kind == Unit::Kind::Kernel && !unit.init &&
           llvm::any_of(unit.ops, marked) &&
           llvm::all_of(unit.outputs, isTensor);
  }

  /// What an update reads and does not write: it lives until then.
  int64_t gradientBytes(const Unit &unit) const {
    int64_t bytes = 0;
    for (Value input : unit.inputs)
      if (!isMutableSource(memoryOf(input).getDefiningOp()))
        bytes += exec::sizeBytes(cast<RankedTensorType>(input.getType()));
    return bytes;
  }

  /// The value whose memory holds `value`: behind views and waits.
  Value memoryOf(Value value) const {
    while (Operation *def = value.getDefiningOp()) {
      auto it = unitOf.find(def);
      bool alias =
          it != unitOf.end() && units[it->second].kind == Unit::Kind::Alias;
      if (!alias && !isa<dist::WaitOp>(def))
        break;
      value = def->getOperand(0);
    }
    return value;
  }

  /// The op that computes `value`, behind reshapes that are views and waits.
  Operation *writtenBy(Value value) const {
    while (Operation *def = value.getDefiningOp()) {
      auto it = unitOf.find(def);
      bool reshape = isa<nn::ReshapeOp>(def) && it != unitOf.end() &&
                     units[it->second].kind == Unit::Kind::Alias;
      if (!reshape && !isa<dist::WaitOp>(def))
        return def;
      value = def->getOperand(0);
    }
    return nullptr;
  }

  void findDestinations() {
    for (Operation &op : block)
      if (auto assign = dyn_cast<dist::AssignOp>(op))
        destinations.push_back(
            {assign.getValue(), assign.getSource(), &op, false});
    Operation *terminator = block.getTerminator();
    for (BlockArgument argument : block.getArguments())
      if (auto result = dist::numberFrom(function, argument.getArgNumber(),
                                         dist::From::Accumulator))
        destinations.push_back(
            {terminator->getOperand(*result), argument, nullptr, false});
  }

  /// Whether the unit may write `output` over `place`, which it may read, too.
  bool mayOverwrite(const Unit &unit, Value output, Value place) const {
    unsigned number = llvm::find(unit.outputs, output) - unit.outputs.begin();
    if (unit.init || number == unit.outputs.size() ||
        unit.kind == Unit::Kind::Alias)
      return false;
    for (auto [i, input] : llvm::enumerate(unit.inputs)) {
      if (memoryOf(input) != place)
        continue;
      if (unit.kind == Unit::Kind::Kernel) {
        if (!mayShareBuffer(unit.ops, i, number))
          return false;
      } else if (!unit.call || !unit.call->accumulates) {
        return false;
      }
    }
    return true;
  }

  /// Starts and waits stay in the order that was planned, so that not more are
  /// under way, except where what was fused stands between them.
  void orderCommunication(const UnitGraph &graph) {
    SmallVector<int64_t> calls;
    for (int64_t id : graph.live)
      if (isa<dist::CollectiveOpInterface, dist::WaitOp>(units[id].ops.front()))
        calls.push_back(id);
    llvm::sort(calls, [&](int64_t a, int64_t b) {
      return position.lookup(units[a].ops.front()) <
             position.lookup(units[b].ops.front());
    });
    for (size_t i = 1; i < calls.size(); ++i)
      if (!graph.isReachable(calls[i], {calls[i - 1]}))
        graph.addEdge(calls[i - 1], calls[i]);
  }

  /// Decides which destinations are written directly, and adds to the graph of
  /// units that what reads an old value comes before what writes the new one.
  void orderWrites(const UnitGraph &graph) {
    findDestinations();
    if (destinations.empty())
      return;
    DenseMap<Value, SmallVector<int64_t>> readers;
    for (const Destination &destination : destinations)
      readers[destination.place];
    for (int64_t id : graph.live) {
      const Unit &unit = units[id];
      if (unit.kind == Unit::Kind::Alias)
        continue;
      for (Value input : unit.inputs) {
        auto it = readers.find(memoryOf(input));
        if (it == readers.end() || (isa<dist::AssignOp>(unit.ops.front()) &&
                                    input == unit.ops.front()->getOperand(0)))
          continue;
        it->second.push_back(id);
        // What has been started reads until it is waited for.
        auto collective =
            dyn_cast<dist::CollectiveOpInterface>(unit.ops.front());
        if (collective && collective.isStarted())
          for (Operation *wait : unit.ops.front()->getUsers())
            it->second.push_back(unitOf.lookup(wait));
      }
    }
    auto before = [&](ArrayRef<int64_t> first, int64_t second) {
      for (int64_t id : first)
        if (id != second)
          graph.addEdge(id, second);
    };
    DenseSet<Value> claimed;
    for (Destination &destination : destinations) {
      Operation *writer = writtenBy(destination.value);
      auto it = writer ? unitOf.find(writer) : unitOf.end();
      ArrayRef<int64_t> old = readers[destination.place];
      if (it != unitOf.end()) {
        int64_t id = it->second;
        Value output = writer->getResult(0);
        for (Value result : units[id].outputs)
          if (result == memoryOf(destination.value))
            output = result;
        DenseSet<int64_t> others(old.begin(), old.end());
        others.erase(id);
        destination.direct =
            !claimed.contains(output) &&
            mayOverwrite(units[id], output, destination.place) &&
            !graph.isReachable(id, others);
        if (destination.direct) {
          claimed.insert(output);
          destination.value = output;
          before(old, id);
        }
      }
      if (destination.assign)
        before(old, unitOf.lookup(destination.assign));
    }
  }

  void finish(Unit &unit, int64_t id) {
    if (unit.kind == Unit::Kind::Kernel) {
      KernelVerdict verdict = classifyKernel(unit.ops);
      unit.inputs = verdict.inputs;
      unit.outputs = verdict.outputs;
      return;
    }
    DenseSet<Operation *> members(unit.ops.begin(), unit.ops.end());
    DenseSet<Value> seen;
    for (Operation *op : unit.ops)
      for (Value operand : op->getOperands())
        if (!members.contains(operand.getDefiningOp()) &&
            seen.insert(operand).second)
          unit.inputs.push_back(operand);
    if (unit.call) {
      unit.outputs.push_back(unit.call->result);
      for (const LibraryCall::Result &more : unit.call->moreResults)
        unit.outputs.push_back(more.value);
    } else {
      llvm::append_range(unit.outputs, unit.ops.back()->getResults());
    }
  }

  func::FuncOp function;
  Block &block;
  SmallVectorImpl<Destination> &destinations;
  DenseMap<Operation *, int64_t> position;
  int64_t lastKernel = -1; ///< position of the last op of all kernels so far
  DenseSet<Operation *> constants, taken;
  /// Shape ops that are computed by themselves although a kernel reads them.
  DenseSet<Operation *> stays;
  DenseMap<Operation *, int64_t> unitOf;
  std::vector<Unit> units;
};
} // namespace

FailureOr<std::vector<Unit>>
kerf::formUnits(func::FuncOp function,
                SmallVectorImpl<Destination> &destinations) {
  return UnitBuilder(function, destinations).build();
}
