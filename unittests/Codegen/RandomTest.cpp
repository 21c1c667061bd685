//===- RandomTest.cpp - random groups that canFuse accepts ----------------===//
//
// Grows groups of random ops on random shapes, op by op, keeping what canFuse
// accepts, and compares the kernels with the reference. Many groups are
// compiled as one program. KERF_RANDOM_GROUPS sets their number.
//
//===----------------------------------------------------------------------===//
#include "Harness.h"

#include "kerf/NN/NN.h"

#include "gtest/gtest.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kerf;
using namespace kerf::test;

namespace {

class Grower {
public:
  Grower(ModuleOp module, uint64_t seed)
      : builder(module.getContext()), random(seed) {
    OperationState state(builder.getUnknownLoc(),
                         exec::KernelOp::getOperationName());
    state.addAttribute("sym_name",
                       builder.getStringAttr("k" + std::to_string(seed)));
    state.addAttribute("function_type",
                       TypeAttr::get(builder.getFunctionType({}, {})));
    state.addAttribute("index", builder.getI64IntegerAttr(0));
    state.addAttribute("node", builder.getStringAttr("/node"));
    state.addRegion();
    builder.setInsertionPointToEnd(module.getBody());
    kernel = cast<exec::KernelOp>(builder.create(state));
    body = builder.createBlock(&kernel.getBody());
    loc = builder.getUnknownLoc();
  }

  void grow() {
    const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 12, 16, 17, 31, 33, 64, 70, 130};
    SmallVector<int64_t> shape;
    int64_t rank = 1 + pick(4), count = 1;
    for (int64_t d = 0; d < rank; ++d) {
      int64_t size = sizes[pick(std::size(sizes))];
      if (count * size > 20000)
        size = 2;
      count *= size;
      shape.push_back(size);
    }
    element = pick(5) ? Type(builder.getF32Type()) : builder.getF64Type();
    Value current = argument(shape, element);
    values.push_back(current);
    int64_t wanted = 1 + pick(8);
    for (int64_t tries = 0; tries < 40 && (int64_t)ops.size() < wanted;
         ++tries) {
      size_t before = ops.size();
      Value next = step();
      while (!builder.getInsertionBlock()->empty() && ops.size() == before)
        break;
      if (!next)
        continue;
      for (Operation &op : *body)
        if (!llvm::is_contained(ops, &op))
          ops.push_back(&op);
      // Extra outputs now and then; at least the last value.
      outputs.push_back(next);
      if (outputs.size() > 1 && pick(4))
        outputs.erase(outputs.end() - 2);
      if (accepted()) {
        values.push_back(next);
        continue;
      }
      ++refused;
      outputs.pop_back();
      while (ops.size() > before) {
        ops.back()->erase();
        ops.pop_back();
      }
      if (outputs.empty() && !values.empty() && values.back().getDefiningOp())
        outputs.push_back(values.back());
    }
    finish();
  }

  int64_t refused = 0;

private:
  int64_t pick(int64_t below) { return random() % below; }
  static ArrayRef<int64_t> shapeOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getShape();
  }
  Value argument(ArrayRef<int64_t> shape, Type type) {
    return body->addArgument(RankedTensorType::get(shape, type), loc);
  }
  Value anyValue() { return values[pick(values.size())]; }

  /// Would the group with these outputs be one kernel? Everything unused must
  /// be an output, too.
  bool accepted() {
    for (Operation *op : ops)
      if (op->use_empty() && !llvm::is_contained(outputs, op->getResult(0)))
        outputs.insert(outputs.end() - 1, op->getResult(0));
    builder.setInsertionPointToEnd(body);
    SmallVector<Value> unique;
    for (Value output : outputs)
      if (!llvm::is_contained(unique, output))
        unique.push_back(output);
    outputs.assign(unique.begin(), unique.end());
    auto yield = exec::YieldOp::create(builder, loc, ValueRange(outputs));
    bool ok = canFuse(ops);
    yield.erase();
    return ok;
  }

  Value step() {
    builder.setInsertionPointToEnd(body);
    Value x = pick(3) ? values.back() : anyValue();
    int64_t rank = shapeOf(x).size();
    int64_t dim = rank ? pick(rank) : 0;
    switch (pick(20)) {
    case 0:
      return nn::TanhOp::create(builder, loc, x);
    case 1:
      return nn::ExpOp::create(builder, loc,
                               Value(nn::TanhOp::create(builder, loc, x)));
    case 2: {
      UnitAttr form = pick(2) ? builder.getUnitAttr() : UnitAttr();
      if (pick(2))
        return nn::GeluOp::create(builder, loc, x.getType(), x, form);
      Value dy = nn::TanhOp::create(builder, loc, x);
      return nn::GeluGradientOp::create(builder, loc, x.getType(), dy, x, form);
    }
    case 3:
      return nn::ReluOp::create(builder, loc, x);
    case 4:
      return nn::SqrtOp::create(builder, loc,
                                Value(nn::AbsOp::create(builder, loc, x)));
    case 5:
      return nn::SigmoidOp::create(builder, loc, x);
    case 6:
    case 7:
      return withBroadcast(x);
    case 8:
    case 9:
      return withAnother(x);
    case 10:
      return chosen(x);
    case 11:
      return transposed(x);
    case 12:
      return reshaped(x, dim);
    case 13:
      return sliced(x);
    case 14:
      return padded(x, dim);
    case 15:
      return joined(x, dim);
    case 16:
      return gathered(x, dim);
    case 17:
      return softmax(x, dim);
    case 18:
      return normalized(x, dim);
    default:
      return reduced(x, dim);
    }
  }

  /// With an operand that repeats.
  Value withBroadcast(Value x) {
    SmallVector<int64_t> shape(shapeOf(x));
    int64_t rank = shape.size();
    SmallVector<int64_t> other(shape.begin() + pick(rank + 1), shape.end());
    for (int64_t &size : other)
      if (!pick(3))
        size = 1;
    Value y = argument(other, element);
    if (pick(2))
      std::swap(x, y);
    if (pick(2))
      return nn::AddOp::create(builder, loc, x, y);
    return nn::MulOp::create(builder, loc, x, y);
  }

  /// With a value that exists.
  Value withAnother(Value x) {
    SmallVector<int64_t> shape(shapeOf(x));
    Value y = anyValue();
    if (!nn::broadcastShapes(shape, shapeOf(y)))
      return nullptr;
    if (pick(2))
      return nn::SubOp::create(builder, loc, x, y);
    return nn::MaxOp::create(builder, loc, x, y);
  }

  /// A select by a comparison of inputs.
  Value chosen(Value x) {
    SmallVector<int64_t> shape(shapeOf(x));
    Value a = argument(shape, element), c = argument({}, element);
    Value less = nn::LessOp::create(builder, loc, a, c);
    return nn::SelectOp::create(builder, loc, x.getType(), less, x, c);
  }

  Value transposed(Value x) {
    int64_t rank = shapeOf(x).size();
    if (rank < 2)
      return nullptr;
    SmallVector<int64_t> perm(rank);
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), random);
    return nn::TransposeOp::create(builder, loc, x, perm);
  }

  /// Two dimensions merged, or one split.
  Value reshaped(Value x, int64_t dim) {
    SmallVector<int64_t> shape(shapeOf(x));
    int64_t rank = shape.size();
    SmallVector<int64_t> to(shape);
    if (rank >= 2 && pick(2)) {
      int64_t at = pick(rank - 1);
      to[at] *= to[at + 1];
      to.erase(to.begin() + at + 1);
    } else if (rank && rank < 5) {
      for (int64_t divisor : {2, 3, 5, 7, 4})
        if (to[dim] % divisor == 0 && pick(2)) {
          to[dim] /= divisor;
          to.insert(to.begin() + dim + 1, divisor);
          break;
        }
      if (to.size() == shape.size())
        to.insert(to.begin() + dim, 1);
    }
    return nn::ReshapeOp::create(builder, loc,
                                 RankedTensorType::get(to, element), x);
  }

  Value sliced(Value x) {
    SmallVector<int64_t> shape(shapeOf(x));
    int64_t rank = shape.size();
    if (!rank)
      return nullptr;
    SmallVector<int64_t> starts, lengths, strides;
    for (int64_t size : shape) {
      int64_t stride = pick(4) ? 1 : 2;
      int64_t length = std::max<int64_t>(
          1, (size - pick(std::min<int64_t>(size, 4))) / stride);
      int64_t room = size - ((length - 1) * stride + 1), start = pick(room + 1);
      if (!pick(5)) {
        start += (length - 1) * stride;
        stride = -stride;
      }
      starts.push_back(start);
      lengths.push_back(length);
      strides.push_back(stride);
    }
    return nn::SliceOp::create(builder, loc, x, starts, lengths, strides);
  }

  Value padded(Value x, int64_t dim) {
    int64_t rank = shapeOf(x).size();
    if (!rank)
      return nullptr;
    SmallVector<int64_t> low(rank), high(rank);
    low[dim] = pick(4);
    high[dim] = pick(20);
    return nn::PadOp::create(builder, loc, x, low, high,
                             builder.getFloatAttr(element, 0.5));
  }

  Value joined(Value x, int64_t dim) {
    SmallVector<int64_t> shape(shapeOf(x));
    int64_t rank = shape.size();
    if (!rank)
      return nullptr;
    SmallVector<int64_t> other(shape);
    other[dim] = 1 + pick(20);
    Value y = argument(other, element);
    SmallVector<Value> parts = {x, y};
    if (pick(2))
      std::swap(parts[0], parts[1]);
    return nn::ConcatOp::create(builder, loc, ValueRange(parts), dim);
  }

  Value gathered(Value x, int64_t dim) {
    SmallVector<int64_t> shape(shapeOf(x));
    int64_t rank = shape.size();
    if (!rank)
      return nullptr;
    Value index = argument({1 + pick(12)}, builder.getI64Type());
    ranges.push_back({index, shape[dim]});
    return nn::GatherOp::create(builder, loc, x, index, dim);
  }

  Value softmax(Value x, int64_t dim) {
    int64_t rank = shapeOf(x).size();
    if (!rank)
      return nullptr;
    if (pick(3) == 0)
      return nn::LogSoftmaxOp::create(builder, loc, x, dim);
    return nn::SoftmaxOp::create(builder, loc, x, dim);
  }

  Value normalized(Value x, int64_t dim) {
    SmallVector<int64_t> shape(shapeOf(x));
    int64_t rank = shape.size();
    if (!rank)
      return nullptr;
    SmallVector<int64_t> row(shape.begin() + dim, shape.end());
    Value scale = argument(row, element), bias = argument(row, element);
    if (pick(2))
      return nn::LayerNormOp::create(builder, loc, x, scale, bias, dim,
                                     APFloat(0.1));
    return nn::RMSNormOp::create(builder, loc, x, scale, dim, APFloat(0.1));
  }

  Value reduced(Value x, int64_t dim) {
    int64_t rank = shapeOf(x).size();
    if (!rank)
      return nullptr;
    SmallVector<int64_t> dims;
    for (int64_t d = 0; d < rank; ++d)
      if (d == dim || !pick(3))
        dims.push_back(d);
    auto kind = pick(2) ? nn::ReduceKind::Max : nn::ReduceKind::Min;
    if (!pick(3))
      kind = nn::ReduceKind::Sum;
    return nn::ReduceOp::create(builder, loc, x, kind, dims);
  }

  void finish() {
    // Outputs that became intermediate stay outputs; drop what is not defined.
    if (outputs.empty()) {
      kernel.erase();
      return;
    }
    builder.setInsertionPointToEnd(body);
    exec::YieldOp::create(builder, loc, ValueRange(outputs));
    SmallVector<Type> results;
    for (Value output : outputs)
      results.push_back(output.getType());
    kernel.setFunctionType(
        builder.getFunctionType(body->getArgumentTypes(), results));
    if (ranges.empty())
      return;
    SmallVector<Attribute> attributes(body->getNumArguments(),
                                      builder.getDictionaryAttr({}));
    for (auto [value, size] : ranges)
      attributes[cast<BlockArgument>(value).getArgNumber()] =
          builder.getDictionaryAttr(
              {builder.getNamedAttr("test.low",
                                    builder.getF64FloatAttr(-double(size))),
               builder.getNamedAttr("test.high",
                                    builder.getF64FloatAttr(size))});
    kernel.setArgAttrsAttr(builder.getArrayAttr(attributes));
  }

  OpBuilder builder;
  Location loc = builder.getUnknownLoc();
  std::mt19937_64 random;
  exec::KernelOp kernel;
  Block *body = nullptr;
  Type element;
  SmallVector<Operation *> ops;
  SmallVector<Value> values, outputs;
  SmallVector<std::pair<Value, int64_t>> ranges;
};

TEST(Random, GroupsEqualReference) {
  int64_t groups = getenv("KERF_FULL") ? 200 : 150, refused = 0;
  if (const char *wanted = getenv("KERF_RANDOM_GROUPS"))
    groups = atoll(wanted);
  uint64_t first = 1;
  if (const char *seed = getenv("KERF_RANDOM_SEED"))
    first = atoll(seed);
  const char *cpus[] = {"host", "x86-64-v3", "x86-64-v2"};
  for (int64_t start = 0; start < groups; start += 50) {
    auto context = makeContext();
    OwningOpRef<ModuleOp> module =
        ModuleOp::create(UnknownLoc::get(context.get()));
    for (int64_t at = start; at < std::min(groups, start + 50); ++at) {
      Grower grower(*module, first + at);
      grower.grow();
      refused += grower.refused;
    }
    EXPECT_EQ(check(*module, cpus[(start / 50) % 3], start, 1e-3), "");
  }
  RecordProperty("refused", refused);
  std::printf("%lld groups, %lld ops refused\n", (long long)groups,
              (long long)refused);
}

} // namespace
