//===- KeepState.cpp - the pass kerf-keep-state; see State.h --------------===//
//
// A pair is found in the function by the names of its result and argument. If
// both have the same type, the result is assigned to the state. Else the state
// grows, and the result must be the argument with new positions behind it. With
// one new position the cache has room for it: the concatenation becomes a write
// at `state.position`. With more (a prompt) the model still reads the filled
// positions concatenated with the new ones, as it was exported, and the new
// ones are also written into the cache.
//
// attention_mask and position_ids are computed from `state.position`, so a
// caller cannot contradict what the cache holds.
//
//===----------------------------------------------------------------------===//
#include "KnownValues.h"
#include "Padding.h"

#include "kerf/Dist/Dist.h"
#include "kerf/Format/State.h"
#include "kerf/Import/Passes.h"
#include "kerf/Import/State.h"
#include "kerf/Interfaces/Bounded.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/DescribeType.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"

namespace kerf {
#define GEN_PASS_DEF_KEEPSTATE
#include "kerf/Import/Passes.h.inc"
} // namespace kerf

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

namespace {

/// A pair whose output has new positions behind the input's.
struct Growing {
  BlockArgument past;
  ConcatOp whole;
  unsigned dim;
};

class Keeper {
public:
  Keeper(func::FuncOp main, StateRun &run)
      : main(main), block(main.getBody().front()), builder(main.getContext()),
        result(run) {
    i64 = builder.getI64Type();
  }

  LogicalResult run(const StateOptions &options) {
    std::vector<std::string> inputs, outputs;
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      inputs.push_back(nameOf(main.getArgAttrOfType<StringAttr>(i, kNameAttr)));
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      outputs.push_back(
          nameOf(main.getResultAttrOfType<StringAttr>(i, kNameAttr)));
    if (std::string error = checkStateNames(options, inputs, outputs);
        !error.empty())
      return fail(error, true);
    std::vector<StatePair> pairs = findStatePairs(options, inputs, outputs);
    if (pairs.empty())
      return fail("no output is an input of the next step, as exporters name "
                  "them (present.N.key and past_key_values.N.key)",
                  true);
    for (const StatePair &pair : pairs) {
      if (failed(keep(pair, inputs, outputs)))
        return failure();
      result.states.push_back(pair.input);
    }
    if (!growing.empty() ? failed(keepGrowing()) : failed(keepFixed()))
      return failure();
    eraseUnused();
    return success();
  }

private:
  static std::string nameOf(StringAttr name) {
    return name ? name.getValue().str() : std::string();
  }
  LogicalResult fail(const Twine &message, bool isRequest = false) {
    result.message = message.str();
    result.isRequest = isRequest;
    return failure();
  }
  static std::string quoted(BlockArgument argument, func::FuncOp main) {
    return "\"" +
           nameOf(main.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                    kNameAttr)) +
           "\"";
  }

  LogicalResult keep(const StatePair &pair, ArrayRef<std::string> inputs,
                     ArrayRef<std::string> outputs) {
    const auto *input = llvm::find(inputs, pair.input);
    const auto *output = llvm::find(outputs, pair.output);
    BlockArgument past = main.getArgument(input - inputs.begin());
    auto number = static_cast<unsigned>(output - outputs.begin());
    Value value = block.getTerminator()->getOperand(number);
    if (!keptArguments.insert(past.getArgNumber()) ||
        !keptResults.insert(number))
      return fail("option state: \"" + pair.output + "=" + pair.input +
                      "\" has an input or output of another pair",
                  true);
    auto from = cast<RankedTensorType>(past.getType());
    if (value.getType() == from) {
      Value state = makeState(pair.input, from, past.getLoc());
      if (from.getRank() > 2)
        total = from.getDimSize(from.getRank() - 2);
      past.replaceAllUsesWith(state);
      Value next = value == past ? state : value;
      builder.setInsertionPointAfterValue(isa<BlockArgument>(next) ? state
                                                                   : next);
      dist::AssignOp::create(builder, next.getLoc(), state, next);
      return success();
    }
    auto concat = value.getDefiningOp<ConcatOp>();
    auto to = cast<RankedTensorType>(value.getType());
    if (!concat || concat->getNumOperands() != 2 ||
        concat->getOperand(0) != past ||
        from.getElementType() != to.getElementType())
      return fail("output \"" + pair.output + "\" (" + describeType(to) +
                  ") is neither of the type of input \"" + pair.input + "\" (" +
                  describeType(from) +
                  ") nor that input with new positions behind it");
    growing.push_back({past, concat, static_cast<unsigned>(concat.getDim())});
    return success();
  }

  /// In front of all ops.
  Value makeState(StringRef name, RankedTensorType type, Location loc) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&block);
    return StateOp::create(
        builder, loc, type, name,
        cast<TypedAttr>(builder.getZeroAttr(type.getElementType())));
  }

  BlockArgument argumentCalled(StringRef name) {
    for (BlockArgument argument : main.getArguments())
      if (nameOf(main.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                   kNameAttr)) == name)
        return argument;
    return {};
  }

  /// A decoder that writes into caches of fixed length itself (TensorScatter)
  /// and bounds what it reads: both numbers follow from the position. The
  /// inputs have the operators' names for them.
  LogicalResult keepFixed() {
    BlockArgument first = argumentCalled("write_indices"),
                  filled = argumentCalled("nonpad_kv_seqlen"),
                  tokens = argumentCalled("input_ids");
    if (!first || !tokens)
      return success(); // state of another kind
    auto type = cast<RankedTensorType>(first.getType());
    auto idsType = cast<RankedTensorType>(tokens.getType());
    if (type.getRank() != 1 || idsType.getRank() != 2 ||
        (filled && filled.getType() != type))
      return fail("\"write_indices\" is " + describeType(type) +
                  ", expected a number for each sample");
    samples = type.getDimSize(0);
    count = idsType.getDimSize(1);
    past = total;
    if (count > 1)
      return fail("several tokens in a step are for a cache that grows: what "
                  "hides them from each other is not known here");
    replace(first, castTo(position(), type.getElementType()));
    if (filled) {
      loc = main.getLoc();
      builder.setInsertionPointToStart(&block);
      Value more = ConstantOp::create(builder, loc,
                                      cast<ElementsAttr>(DenseElementsAttr::get(
                                          RankedTensorType::get({}, i64),
                                          builder.getI64IntegerAttr(count))));
      replace(filled,
              castTo(add(position(), more, {samples}), type.getElementType()));
    }
    BlockArgument ids = argumentCalled("position_ids");
    if (!ids || cast<RankedTensorType>(ids.getType()).getShape() !=
                    ArrayRef<int64_t>{samples, count})
      return success();
    return replacePositions(ids, total);
  }

  /// An input that is computed from now on.
  void replace(BlockArgument argument, Value value) {
    argument.replaceAllUsesWith(value);
    keptArguments.insert(argument.getArgNumber());
  }

  LogicalResult keepGrowing() {
    Growing &one = growing.front();
    past = cast<RankedTensorType>(one.past.getType()).getDimSize(one.dim);
    total = one.whole.getType().getDimSize(one.dim);
    count = total - past;
    BlockArgument mask = argumentCalled("attention_mask"),
                  ids = argumentCalled("position_ids");
    if (!mask || !ids || ids.use_empty())
      return fail("the cache grows, and " +
                  std::string(!mask  ? "there is no input \"attention_mask\""
                              : !ids ? "there is no input \"position_ids\""
                                     : "\"position_ids\" is not used") +
                  ": positions of a cache of fixed length are hidden by the "
                  "one and told by the other");
    auto maskType = cast<RankedTensorType>(mask.getType());
    if (maskType.getRank() != 2 || maskType.getDimSize(1) != total)
      return fail("\"attention_mask\" is " + describeType(maskType) +
                  ", expected samples x " + Twine(total) + " positions");
    samples = maskType.getDimSize(0);
    if (cast<RankedTensorType>(ids.getType()).getShape() !=
        ArrayRef<int64_t>{samples, count})
      return fail("\"position_ids\" is " + describeType(ids.getType()) +
                  ", expected " + Twine(samples) + " x " + Twine(count));
    CacheUse use;
    for (Growing &each : growing) {
      auto type = cast<RankedTensorType>(each.past.getType());
      if (type.getDimSize(each.dim) != past ||
          each.whole.getType().getDimSize(each.dim) != total)
        return fail("input " + quoted(each.past, main) + " has " +
                    Twine(type.getDimSize(each.dim)) + " positions, expected " +
                    Twine(past) + " as " + quoted(one.past, main));
      if (each.dim == 0 || type.getDimSize(0) != samples)
        return fail("input " + quoted(each.past, main) + " is " +
                    describeType(type) + ", expected one of " + Twine(samples) +
                    " samples in its first dimension");
      use.caches.push_back(each.whole);
      use.dims.push_back(each.dim);
    }
    use.mask = mask;
    use.length = count == 1 ? total : past;
    use.newCount = count;
    if (std::optional<Seen> seen = findSeenPadding(use)) {
      result.note =
          std::string(isDecidedBy(seen->where, ids)
                          ? "which positions see which is computed from "
                            "\"position_ids\" here: export the model so that "
                            "it follows from shapes (torch.arange over past "
                            "and new positions); "
                          : "") +
          "docs/Generate.md says what a model may do with its mask";
      return fail("cannot prove that positions of the cache that are not "
                  "filled are hidden: " +
                  nodeOf(seen->where) + "(" +
                  seen->where->getName().getStringRef() + ") " + seen->why);
    }
    for (Growing &each : growing)
      write(each);
    replace(mask, visible(maskType));
    return replacePositions(ids, count == 1 ? total : past);
  }

  static void addOrigins(Operation *op, llvm::SetVector<Value> &values) {
    values.insert_range(op->getOperands());
    for (size_t i = 0; i < values.size(); ++i) // grows on the way
      if (Operation *from = values[i].getDefiningOp())
        values.insert_range(from->getOperands());
  }

  /// Whether a decision that the op's operands follow from is made by the
  /// value.
  static bool isDecidedBy(Operation *op, Value value) {
    llvm::SetVector<Value> all;
    addOrigins(op, all);
    return llvm::any_of(all, [&](Value each) {
      llvm::SetVector<Value> origins;
      if (Operation *from = each.getDefiningOp();
          from && getElementTypeOrSelf(each.getType()).isInteger(1))
        addOrigins(from, origins);
      return origins.contains(value);
    });
  }

  /// Replaces the positions by those of a cache of `length` positions. Fails if
  /// a table in which the model looks them up has no row for the last one.
  LogicalResult replacePositions(BlockArgument ids, int64_t length) {
    KnownValues last(ids, length - 1);
    for (auto gather : block.getOps<GatherOp>()) {
      int64_t rows = gather.getData().getType().getDimSize(gather.getDim());
      DenseElementsAttr found = last.get(gather.getIndices());
      if (!found)
        continue;
      for (const APInt &row : found.getValues<APInt>())
        if (row.getSExtValue() >= rows)
          return fail("a cache of " + Twine(length) +
                          " positions, expected at "
                          "most " +
                          Twine(length - 1 - row.getSExtValue() + rows) + ": " +
                          nodeOf(gather) + "looks up row " +
                          Twine(row.getSExtValue()) +
                          " for the last one, in a table of " + Twine(rows),
                      /*isRequest=*/true);
    }
    replace(ids, positions(cast<RankedTensorType>(ids.getType())));
    return success();
  }

  /// "NODE " for messages, if the op comes from one.
  static std::string nodeOf(Operation *op) {
    auto name = op->getLoc()->findInstanceOf<NameLoc>();
    return name ? name.getName().str() + " " : std::string();
  }

  /// The input `state.position`, made when it is first asked for.
  Value position() {
    if (!filled) {
      auto type = RankedTensorType::get({samples}, i64);
      unsigned number = main.getNumArguments();
      (void)main.insertArgument(
          number, type,
          builder.getDictionaryAttr(
              {builder.getNamedAttr(kNameAttr,
                                    builder.getStringAttr(kStatePosition)),
               builder.getNamedAttr(kBatchDimAttr,
                                    builder.getI64IntegerAttr(0)),
               builder.getNamedAttr(
                   kRangeAttr,
                   builder.getI64ArrayAttr({0, count == 1 ? total : past}))}),
          main.getLoc());
      filled = main.getArgument(number);
    }
    return filled;
  }

  Value reshape(Value value, ArrayRef<int64_t> shape) {
    auto type = cast<RankedTensorType>(value.getType());
    return ReshapeOp::create(builder, loc, type.clone(shape), value);
  }
  Value iota(ArrayRef<int64_t> shape, int64_t dim) {
    return IotaOp::create(builder, loc, RankedTensorType::get(shape, i64), dim);
  }
  Value add(Value lhs, Value rhs, ArrayRef<int64_t> shape) {
    return AddOp::create(builder, loc, RankedTensorType::get(shape, i64), lhs,
                         rhs);
  }
  Value castTo(Value value, Type element) {
    auto type = cast<RankedTensorType>(value.getType());
    return type.getElementType() == element
               ? value
               : CastOp::create(builder, loc, type.clone(element), value);
  }

  /// Where each sample's new positions are, of rank `rank` with the positions
  /// at `dim`, in front of an op.
  Value places(unsigned rank, unsigned dim) {
    SmallVector<int64_t> samplesShape(rank, 1), newShape(rank, 1), shape;
    samplesShape[0] = samples;
    newShape[dim] = count;
    shape = newShape;
    shape[0] = samples;
    return add(reshape(position(), samplesShape), iota(newShape, dim), shape);
  }

  void write(Growing &each) {
    ConcatOp whole = each.whole;
    loc = whole.getLoc();
    Value fresh = whole->getOperand(1);
    RankedTensorType type = count == 1
                                ? cast<RankedTensorType>(whole.getType())
                                : cast<RankedTensorType>(each.past.getType());
    Value state = makeState(nameOf(main.getArgAttrOfType<StringAttr>(
                                each.past.getArgNumber(), kNameAttr)),
                            type, each.past.getLoc());
    builder.setInsertionPointAfter(whole);
    SmallVector<int64_t> rows(type.getShape().take_front(each.dim));
    rows.push_back(count);
    Value indices =
        BroadcastOp::create(builder, loc, RankedTensorType::get(rows, i64),
                            places(each.dim + 1, each.dim));
    auto kind = ScatterKindAttr::get(builder.getContext(), ScatterKind::Set);
    Value written =
        ScatterOp::create(builder, loc, type, state, indices, fresh, kind,
                          builder.getI64IntegerAttr(each.dim), UnitAttr());
    dist::AssignOp::create(builder, loc, state, written);
    if (count == 1) {
      whole.replaceAllUsesWith(written);
      whole.erase();
    } else {
      each.past.replaceAllUsesWith(state);
    }
  }

  /// 1 where a position is filled or new, by its place.
  Value visible(RankedTensorType type) {
    loc = main.getLoc();
    builder.setInsertionPointToStart(&block);
    ArrayRef<int64_t> shape = type.getShape();
    // Behind the cache are the new positions of a prompt.
    int64_t cached = count == 1 ? total : past;
    auto row = RankedTensorType::get({samples, cached}, builder.getI1Type());
    Value places = iota({1, cached}, 1);
    Value first = reshape(position(), {samples, 1});
    Value seen =
        count == 1
            ? LessEqualOp::create(builder, loc, row, places, first).getResult()
            : LessOp::create(builder, loc, row, places, first).getResult();
    if (count > 1) {
      auto news = RankedTensorType::get({samples, count}, builder.getI1Type());
      Value all = ConstantOp::create(
          builder, loc, cast<ElementsAttr>(DenseElementsAttr::get(news, true)));
      seen = ConcatOp::create(
          builder, loc, RankedTensorType::get(shape, builder.getI1Type()),
          ValueRange{seen, all}, builder.getI64IntegerAttr(1));
    }
    return castTo(seen, type.getElementType());
  }

  Value positions(RankedTensorType type) {
    loc = main.getLoc();
    builder.setInsertionPointToStart(&block);
    Value all = places(2, 1);
    if (count > 1) { // those behind a prompt's end are nowhere
      auto scalar = RankedTensorType::get({}, i64);
      int64_t last = past - 1;
      all = MinOp::create(
          builder, loc, cast<RankedTensorType>(all.getType()), all,
          ConstantOp::create(builder, loc,
                             cast<ElementsAttr>(DenseElementsAttr::get(
                                 scalar, builder.getI64IntegerAttr(last)))));
    }
    return castTo(all, type.getElementType());
  }

  /// kerf.bounded counts the results that stay.
  void renumberLengths(const llvm::BitVector &erased) {
    for (unsigned i = 0; i < main.getNumResults(); ++i) {
      auto bounded = main.getResultAttrOfType<ArrayAttr>(i, kBoundedAttr);
      if (!bounded || erased.test(i))
        continue;
      SmallVector<int64_t> pairs;
      for (auto number : bounded.getAsRange<IntegerAttr>()) {
        int64_t value = number.getInt();
        if (pairs.size() % 2 == 1) // not a dimension
          for (unsigned other : erased.set_bits())
            value -= other < number.getInt();
        pairs.push_back(value);
      }
      main.setResultAttr(i, kBoundedAttr, builder.getI64ArrayAttr(pairs));
    }
  }

  /// Arguments and results of pairs.
  void eraseUnused() {
    llvm::BitVector arguments(main.getNumArguments()),
        results(main.getNumResults());
    for (unsigned number : keptArguments)
      arguments.set(number);
    for (unsigned number : keptResults)
      results.set(number);
    renumberLengths(results);
    Operation *terminator = block.getTerminator();
    terminator->eraseOperands(results);
    (void)main.eraseArguments(arguments);
    (void)main.eraseResults(results);
  }

  func::FuncOp main;
  Block &block;
  OpBuilder builder;
  StateRun &result;
  Type i64;
  Location loc = UnknownLoc::get(main.getContext());
  SmallVector<Growing> growing;
  llvm::SetVector<unsigned> keptArguments, keptResults;
  Value filled;
  int64_t past = 0, total = 0, count = 0, samples = 0;
};

struct KeepState : kerf::impl::KeepStateBase<KeepState> {
  using KeepStateBase::KeepStateBase;
  KeepState(const StateOptions &options, StateRun &run) : run(&run) {
    pairs = llvm::map_to_vector(options.pairs, [](const StatePair &pair) {
      return pair.output + "=" + pair.input;
    });
    automatic = options.automatic;
  }

  void runOnOperation() override {
    StateOptions options;
    StateRun own;
    StateRun &out = run ? *run : own;
    std::string error;
    options.automatic = automatic;
    for (const std::string &pair : pairs)
      if (!parseState(pair, options, error)) {
        getOperation().emitError("pairs: ") << error;
        return signalPassFailure();
      }
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || failed(Keeper(main, out).run(options))) {
      getOperation().emitError(main ? out.message : "expected @main");
      signalPassFailure();
    }
  }

  StateRun *run = nullptr;
};
} // namespace

std::unique_ptr<Pass> kerf::createKeepStatePass(const StateOptions &options,
                                                StateRun &run) {
  return std::make_unique<KeepState>(options, run);
}
