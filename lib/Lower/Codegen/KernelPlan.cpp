//===- KernelPlan.cpp - choosing the loops of a kernel --------------------===//
//
// See KernelPlan.h. A kernel is refused if an expensive op would be computed
// several times per element, if rows do not correspond, or if the walk visits
// far more elements than there are ops (each value at several indices).
//===----------------------------------------------------------------------===//
#include "KernelPlan.h"

#include "kerf/NN/NN.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace kerf::codegen {

namespace {

/// Divisors at which a flat range has been split, ascending; key: -1 for the
/// outer range, else the size of a row.
using Splits = std::map<int64_t, std::set<int64_t>>;

constexpr int64_t kMinVectorLoop = 8;
/// Ranges that a loop is cut into, each with code of its own; where each has
/// little (a buffer of gradients is filled), and without cuts every element
/// would ask in which it lies.
constexpr size_t kMaxCuts = 16, kMaxCutsOfCopies = 512;
constexpr int64_t kMaxGuards = 4;

int64_t flopsOf(Operation *op) {
  auto cost = dyn_cast<OpCostInterface>(op);
  if (!cost)
    return 0;
  auto types = [](TypeRange all) {
    return llvm::map_to_vector(
        all, [](Type type) { return cast<RankedTensorType>(type); });
  };
  return cost.getFlops(types(op->getOperandTypes()),
                       types(op->getResultTypes()));
}

class Walk {
public:
  Walk(KernelPlan &plan, Splits &splits) : plan(plan), splits(splits) {}

  /// Walks all outputs; false: `plan.reason` says why not.
  bool run();
  /// Adds to `splits`; true if there is something new.
  bool suggestSplits();

private:
  Flat makeFlat(int64_t size, int64_t key);
  bool makeRows();
  bool visit(Value value, ArrayRef<Index> index);
  bool visitUses(Operation *op, ArrayRef<Index> index);
  bool readsRow(Value value);
  bool visitGather(nn::GatherOp op, ArrayRef<Index> index);
  bool visitRow(Operation *op, ArrayRef<Index> index);
  bool visitWhole(Operation *op, ArrayRef<Index> index);
  bool refuse(const Twine &reason) {
    plan.reason = reason.str();
    return false;
  }
  bool dependsOnVector(ArrayRef<Index> index);
  void cutAt(const Guard &guard);
  void needs(const Index &index);
  bool isExpensive(Operation *op);

  KernelPlan &plan;
  Splits &splits;
  std::set<std::pair<void *, IndexVec>> visited;
  size_t maxVisits = 64; ///< and as the ops allow that are visited
  DenseMap<Operation *, int64_t> visits;
  /// Atoms on which it depends which element is read, or what is computed: a
  /// reshape of a dense operand makes others, which cancel. Known once the walk
  /// is complete.
  std::set<AtomId> needed;
  bool isComplete = false;
  int64_t undecided = 0;
};

Flat Walk::makeFlat(int64_t size, int64_t key) {
  Flat flat;
  flat.size = size;
  int64_t stride = 1;
  SmallVector<LoopVar> reversed;
  for (int64_t divisor : splits[key]) {
    reversed.push_back({0, divisor / stride, stride});
    stride = divisor;
  }
  reversed.push_back({0, std::max<int64_t>(size, 1) / stride, stride});
  for (LoopVar var : llvm::reverse(reversed)) {
    var.atom = plan.space.addLoop(var.size);
    flat.index =
        plan.space.add(flat.index, plan.space.get(var.atom, var.stride));
    flat.vars.push_back(var);
  }
  return flat;
}

/// Whether the op is a function by polynomial, with many operations per
/// element.
bool Walk::isExpensive(Operation *op) {
  constexpr int64_t kFewOperations = 9;
  return kindOf(op) == KernelKind::Elementwise &&
         flopsOf(op) > kFewOperations * numElements(op->getResult(0));
}

bool Walk::dependsOnVector(ArrayRef<Index> index) {
  for (const Index &i : index)
    for (AtomId atom = 0; atom < plan.space.size(); ++atom)
      if (plan.isVectorAtom(atom) && plan.space.dependsOn(i, atom))
        return true;
  return false;
}

void Walk::needs(const Index &index) {
  for (auto [atom, factor] : index.terms)
    if (needed.insert(atom).second)
      needs(Index(plan.space[atom].argument));
}

void Walk::cutAt(const Guard &guard) {
  if (guard.index.terms.size() != 1 || guard.index.terms[0].second != 1 ||
      !plan.isVectorAtom(guard.index.terms[0].first))
    return;
  AtomId atom = guard.index.terms[0].first;
  for (int64_t border : {guard.low, guard.high}) {
    int64_t position = border - guard.index.constant;
    if (position > 0 && position <= plan.space[atom].high)
      plan.cuts[atom].insert(position);
  }
}

bool Walk::visitUses(Operation *op, ArrayRef<Index> index) {
  for (OperandUse &use : operandUses(op, index, plan.space)) {
    bool never = false, always = true;
    for (const Guard &guard : use.guards) {
      auto [low, high] = plan.space.range(guard.index);
      if (high < guard.low || low >= guard.high || guard.low >= guard.high)
        never = true;
      if (low < guard.low || high >= guard.high) {
        always = false;
        cutAt(guard);
        needs(guard.index);
      }
    }
    if (never)
      continue;
    // Each branch recomputes the ops that it reads.
    if (!always && undecided >= kMaxGuards)
      return refuse("pads and concats are nested too deeply");
    undecided += !always;
    bool ok = visit(op->getOperand(use.operand), use.index);
    undecided -= !always;
    if (!ok)
      return false;
  }
  return true;
}

/// Whether the value depends on a row op of this kernel: it is then known only
/// after a pass over the row.
bool Walk::readsRow(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !plan.ops.contains(op))
    return false;
  return kindOf(op) == KernelKind::Row ||
         llvm::any_of(op->getOperands(),
                      [&](Value operand) { return readsRow(operand); });
}

bool Walk::visitGather(nn::GatherOp op, ArrayRef<Index> index) {
  int64_t dim = op.getDim(), shared = op.getBatched() ? dim : 0;
  int64_t rank = shapeOf(op.getIndices()).size() - shared;
  ArrayRef<int64_t> shape = shapeOf(op.getData());
  IndexVec at(index.begin() + dim - shared, index.begin() + dim + rank);
  plan.canFail = true;
  if (!undecided && !dependsOnVector(at) && !readsRow(op.getIndices()) &&
      llvm::none_of(at, [&](const Index &i) {
        return plan.space.dependsOnAny(i, plan.innerAtoms()) ||
               plan.space.dependsOnRuntime(i);
      }))
    plan.hoists.push_back({op.getIndices(), at});
  if (!visit(op.getIndices(), at))
    return false;
  IndexVec data(index.begin(), index.begin() + dim);
  AtomId row = plan.space.addRuntime(0, std::max<int64_t>(shape[dim], 1) - 1);
  data.push_back(plan.space.get(row));
  data.append(index.begin() + dim + rank, index.end());
  return visit(op.getData(), data);
}

bool Walk::visitRow(Operation *op, ArrayRef<Index> index) {
  for (const Index &i : index)
    needs(i);
  SmallVector<int64_t> dims = rowDims(op);
  IndexVec outer;
  for (auto [dim, i] : llvm::enumerate(index))
    if (!keepsRowDims(op) || !llvm::is_contained(dims, dim))
      outer.push_back(i);
  Index row = plan.space.linearize(outer, outerShape(op));
  if (row != plan.outer.index)
    return refuse("rows of " + op->getName().getStringRef() +
                  " are used in another order");
  if (!keepsRowDims(op))
    return true;
  if (!visit(op->getOperand(0), index))
    return false;
  IndexVec trailing(index.begin() + dims[0], index.end());
  for (Value operand : op->getOperands().drop_front())
    if (!visit(operand, trailing))
      return false;
  return true;
}

/// Window and Contraction: their operands may not be computed in the group,
/// since each element is read several times.
static bool isCheapSource(Value value, const KernelPlan &plan) {
  Operation *op = value.getDefiningOp();
  while (op && plan.ops.contains(op)) {
    KernelKind kind = kindOf(op);
    if (kind == KernelKind::Constant)
      return true;
    if (kind != KernelKind::Shape && !isa<nn::CastOp>(op))
      return false;
    op = op->getOperand(0).getDefiningOp();
  }
  return true;
}

bool Walk::visitWhole(Operation *op, ArrayRef<Index> index) {
  for (const Index &i : index)
    needs(i);
  if (visits[op] > 1)
    return refuse(op->getName().getStringRef() + " is used at two indices");
  for (Value operand : op->getOperands()) {
    if (!isCheapSource(operand, plan))
      return refuse("an operand of " + op->getName().getStringRef() +
                    " is computed in the group");
    // Every index of the result must be a loop variable of its own.
    for (const Index &i : index)
      for (auto [atom, k] : i.terms)
        if (plan.space[atom].kind == Atom::Kind::Runtime)
          return refuse(op->getName().getStringRef() + " is gathered from");
  }
  if (auto lrn = dyn_cast<nn::LRNOp>(op)) {
    int64_t channels = shapeOf(op->getResult(0)).back();
    int64_t before = (lrn.getSize() - 1) / 2, after = lrn.getSize() / 2;
    for (int64_t k = -before; k <= after; ++k)
      cutAt({plan.space.add(index.back(), Index(k)), 0, channels});
  }
  return true;
}

bool Walk::visit(Value value, ArrayRef<Index> index) {
  if (!visited.insert({value.getAsOpaquePointer(), IndexVec(index)}).second)
    return true;
  if (visited.size() > maxVisits)
    return refuse("values are used at too many indices");
  Operation *op = value.getDefiningOp();
  if (!op || !plan.ops.contains(op)) {
    Index flat = plan.space.linearize(index, shapeOf(value));
    needs(flat);
    auto &accesses = plan.accesses[value];
    if (!llvm::is_contained(accesses, flat))
      accesses.push_back(flat);
    if (!undecided)
      plan.freeAccesses.push_back({value, flat});
    return true;
  }
  int64_t count = ++visits[op];
  maxVisits += count == 1 ? 16 + op->getNumOperands() : 0;
  if (isExpensive(op)) {
    int64_t rowSize = plan.rowOps.empty()
                          ? 1
                          : numElements(plan.rowOps[0]->getOperand(0)) /
                                std::max<int64_t>(plan.outer.size, 1);
    if (count > 2 + (plan.rowOps.empty() ? 0 : 1))
      return refuse(op->getName().getStringRef() + " is used at many indices");
    if (numElements(value) * 2 <= plan.outer.size * rowSize &&
        plan.ops.size() > 1 && dependsOnVector(index))
      return refuse(op->getName().getStringRef() +
                    " is broadcast after it is computed");
  }
  switch (kindOf(op)) {
  case KernelKind::Elementwise:
    if (nn::dividesIntegers(op) && !isNonZeroConstant(op->getOperand(1)))
      plan.canFail = true;
    return visitUses(op, index);
  case KernelKind::Shape:
  case KernelKind::Pad:
  case KernelKind::Concat:
    return visitUses(op, index);
  case KernelKind::Constant:
    needs(plan.space.linearize(index, shapeOf(value)));
    return true;
  case KernelKind::Iota:
    needs(index[cast<nn::IotaOp>(op).getDim()]);
    return true;
  case KernelKind::Gather:
    return visitGather(cast<nn::GatherOp>(op), index);
  case KernelKind::Row:
    return visitRow(op, index);
  case KernelKind::Window:
  case KernelKind::Contraction:
    return visitWhole(op, index);
  case KernelKind::Unsupported:
    break;
  }
  return refuse("no code generation for " + op->getName().getStringRef());
}

/// Rows and the loops over their elements; lanes where memory is contiguous.
bool Walk::makeRows() {
  Operation *first = plan.rowOps.front();
  int64_t rows = llvm::product_of(outerShape(first));
  plan.outer = makeFlat(rows, -1);
  for (Operation *op : plan.rowOps) {
    if (llvm::product_of(outerShape(op)) != rows)
      return refuse(first->getName().getStringRef() + " and " +
                    op->getName().getStringRef() +
                    " have different numbers of rows");
    // A value pulled in the loop over one row length is not valid in another's.
    int64_t count = llvm::product_of(innerShape(op));
    if (count != llvm::product_of(innerShape(first)))
      return refuse(first->getName().getStringRef() + " and " +
                    op->getName().getStringRef() +
                    " have rows of different lengths");
    if (!plan.inner.count(count))
      plan.inner[count] = makeFlat(count, count);
  }
  SmallVector<int64_t> dims = rowDims(first);
  ArrayRef<int64_t> shape = shapeOf(first->getOperand(0));
  int64_t last = shape.size() - 1;
  while (last > 0 && shape[last] == 1)
    --last;
  plan.lanesOuter =
      !dims.empty() && rows > 1 && !llvm::is_contained(dims, last);
  int64_t count = llvm::product_of(innerShape(first));
  if (count < kMinVectorLoop && rows >= kMinVectorLoop)
    plan.lanesOuter = true;
  for (Value output : plan.outputs) {
    bool full = numElements(output) == rows * count &&
                !(count == 1 && !keepsRowDims(first));
    if (!full && numElements(output) != rows)
      return refuse("an output is neither one element per row nor full size");
    plan.outputIsFull.push_back(full);
    Index flat = plan.outer.index;
    if (full)
      flat = plan.space.linearize(rowOperandIndex(first, plan), shape);
    plan.outputIndex.push_back(plan.space.delinearize(flat, shapeOf(output)));
  }
  return true;
}

bool Walk::run() {
  if (!plan.rowOps.empty()) {
    if (!makeRows())
      return false;
    for (Operation *op : plan.rowOps)
      if (!visit(op->getOperand(0), rowOperandIndex(op, plan)))
        return false;
  } else {
    int64_t size = numElements(plan.outputs.front());
    for (Value output : plan.outputs)
      if (numElements(output) != size)
        return refuse("outputs have different numbers of elements");
    plan.outer = makeFlat(size, -1);
    for (Value output : plan.outputs)
      plan.outputIndex.push_back(
          plan.space.delinearize(plan.outer.index, shapeOf(output)));
  }
  for (auto [output, index] : llvm::zip_equal(plan.outputs, plan.outputIndex)) {
    needs(plan.space.linearize(index, shapeOf(output)));
    if (!visit(output, index))
      return false;
  }
  bool copies = llvm::all_of(plan.ops, [](Operation *op) {
    KernelKind kind = kindOf(op);
    return kind == KernelKind::Concat || kind == KernelKind::Shape;
  });
  for (auto &cut : plan.cuts)
    if (cut.second.size() > (copies ? kMaxCutsOfCopies : kMaxCuts))
      cut.second.clear();
  isComplete = true;
  return true;
}

bool Walk::suggestSplits() {
  bool anyWindow =
      plan.form == KernelForm::Window || plan.form == KernelForm::Contraction;
  auto splitFlat = [&](const Flat &flat, int64_t key) {
    int64_t best = 0;
    for (AtomId id = 0; id < plan.space.size(); ++id) {
      const Atom &atom = plan.space[id];
      if ((atom.kind != Atom::Kind::Quotient &&
           atom.kind != Atom::Kind::Remainder) ||
          (isComplete && !needed.count(id)))
        continue;
      const Index &of = atom.argument;
      if (of.constant || of.terms.size() != 1 || of.terms[0].second != 1)
        continue;
      for (const LoopVar &var : flat.vars) {
        if (var.atom != of.terms[0].first || var.size % atom.divisor)
          continue;
        bool tiny = &var == &flat.vars.back() && !anyWindow &&
                    atom.divisor < kMinVectorLoop &&
                    var.size >= kMinVectorLoop && plan.isVectorAtom(var.atom);
        int64_t divisor = var.stride * atom.divisor;
        if (!tiny && (!best || divisor < best))
          best = divisor;
      }
    }
    return best && splits[key].insert(best).second;
  };
  bool changed = splitFlat(plan.outer, -1);
  for (auto &[size, flat] : plan.inner)
    changed |= splitFlat(flat, size);
  return changed;
}

} // namespace

bool isNonZeroConstant(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  if (!constant || !isa<IntegerType>(elementOf(value)))
    return false;
  auto elements = dyn_cast<DenseIntElementsAttr>(constant.getElements());
  return elements && elements.isSplat() &&
         !elements.getSplatValue<APInt>().isZero() &&
         !elements.getSplatValue<APInt>().isAllOnes();
}

bool KernelPlan::isVectorAtom(AtomId atom) const {
  if (lanesOuter)
    return atom == outer.last();
  return llvm::any_of(inner,
                      [&](auto &entry) { return entry.second.last() == atom; });
}

bool KernelPlan::mayShare(unsigned input, unsigned output) {
  Value in = inputs[input], out = outputs[output];
  if (form == KernelForm::Window || form == KernelForm::Contraction ||
      elementOf(in) != elementOf(out) || numElements(in) != numElements(out))
    return false;
  // A value of one element per row is stored after the row was read, other
  // outputs before.
  if (!rowOps.empty() && !outputIsFull[output] &&
      llvm::is_contained(outputIsFull, true))
    return false;
  Index flat = space.linearize(outputIndex[output], shapeOf(out));
  return llvm::all_of(accesses[in],
                      [&](const Index &access) { return access == flat; });
}

SmallVector<AtomId> KernelPlan::innerAtoms() const {
  SmallVector<AtomId> atoms;
  for (auto &[size, flat] : inner)
    for (const LoopVar &var : flat.vars)
      atoms.push_back(var.atom);
  return atoms;
}

IndexVec rowOperandIndex(Operation *op, KernelPlan &plan) {
  SmallVector<int64_t> inner = innerShape(op);
  IndexVec outerIndex =
      plan.space.delinearize(plan.outer.index, outerShape(op));
  IndexVec innerIndex =
      plan.space.delinearize(plan.inner[llvm::product_of(inner)].index, inner);
  return joinRowIndex(op, outerIndex, innerIndex);
}

static int64_t workOf(const KernelPlan &plan) {
  int64_t work = 0;
  for (Operation *op : plan.ops)
    work += flopsOf(op);
  for (Value value : plan.inputs)
    work += numElements(value);
  for (Value value : plan.outputs)
    work += 2 * numElements(value);
  return work;
}

KernelPlan planKernel(ArrayRef<Operation *> ops, ArrayRef<Value> outputs) {
  KernelPlan base;
  base.ops.insert(ops.begin(), ops.end());
  for (Operation *op : ops) {
    KernelKind kind = kindOf(op);
    if (kind == KernelKind::Unsupported) {
      base.reason =
          ("no code generation for " + op->getName().getStringRef()).str();
      return base;
    }
    if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      DenseElementsAttr elements = constant.getElements();
      if (ops.size() > 1 && !elements.isSplat() &&
          static_cast<int64_t>(elements.getRawData().size()) >
              kMaxInlineConstantBytes) {
        base.reason = "a constant has more than " +
                      std::to_string(kMaxInlineConstantBytes) + " bytes";
        return base;
      }
    }
    auto lift = [&](KernelForm form) {
      if (base.form != KernelForm::Elementwise && base.form != form)
        base.reason = ("a " + stringifyKernelForm(base.form) + " and a " +
                       stringifyKernelForm(form) + " op in one group")
                          .str();
      base.form = form;
    };
    if (kind == KernelKind::Row) {
      lift(KernelForm::Row);
      base.rowOps.push_back(op);
    } else if (kind == KernelKind::Window) {
      lift(KernelForm::Window);
    } else if (kind == KernelKind::Contraction) {
      lift(KernelForm::Contraction);
    }
    for (Value operand : op->getOperands())
      if (!base.ops.contains(operand.getDefiningOp()))
        base.inputs.insert(operand);
    if (outputs.empty())
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !base.ops.contains(user);
            }))
          base.outputs.push_back(result);
  }
  if (!outputs.empty())
    base.outputs.append(outputs.begin(), outputs.end());
  if (!base.reason.empty())
    return base;
  if (base.outputs.empty()) {
    base.reason = "no output";
    return base;
  }
  for (Value output : base.outputs) {
    if (!base.ops.contains(output.getDefiningOp())) {
      base.reason = "an output is an input";
      return base;
    }
  }
  base.work = workOf(base);
  Splits splits;
  while (true) {
    KernelPlan plan = base;
    Walk walk(plan, splits);
    bool walked = walk.run();
    // A plan that was refused may be possible once dimensions are separate
    // loops.
    if (walk.suggestSplits())
      continue;
    plan.supported = walked;
    return plan;
  }
}

} // namespace kerf::codegen

//===----------------------------------------------------------------------===//
// The public questions.
//===----------------------------------------------------------------------===//

llvm::StringRef kerf::stringifyKernelForm(KernelForm form) {
  switch (form) {
  case KernelForm::Elementwise:
    return "elementwise";
  case KernelForm::Row:
    return "row";
  case KernelForm::Window:
    return "window";
  case KernelForm::Contraction:
    return "contraction";
  }
  return "";
}

kerf::KernelVerdict kerf::classifyKernel(ArrayRef<Operation *> ops) {
  codegen::KernelPlan plan = codegen::planKernel(ops);
  KernelVerdict verdict;
  verdict.supported = plan.supported;
  verdict.form = plan.form;
  verdict.reason = plan.reason;
  verdict.outputs = plan.outputs;
  verdict.inputs.append(plan.inputs.begin(), plan.inputs.end());
  return verdict;
}

bool kerf::mayShareBuffer(ArrayRef<Operation *> ops, unsigned input,
                          unsigned output) {
  codegen::KernelPlan plan = codegen::planKernel(ops);
  return plan.supported && input < plan.inputs.size() &&
         output < plan.outputs.size() && plan.mayShare(input, output);
}

bool kerf::canFuse(ArrayRef<Operation *> ops) {
  return codegen::planKernel(ops).supported;
}
