//===- CanonicalizeGelu.cpp - gelu recognised by its polynomial -----------===//
//
// Gelu is written in a dozen ways: x/2 (1 + erf(x/sqrt 2)), (x/2)(1 + erf ...),
// x * (0.5 * (1 + tanh(...))), with products and cubes in any order. Instead of
// listing them, the expression is expanded into a polynomial in x and t, where
// t is the erf or tanh in it, and that polynomial is compared:
//   gelu = x/2 + x t/2,  t = erf(x / sqrt 2)
//                     or t = tanh(sqrt(2/pi) (x + 0.044715 x^3)).
// Work is bounded: expressions deeper than 8 ops are not expanded.
//
//===----------------------------------------------------------------------===//
#include "../IR/PatternUtils.h"
#include "kerf/NN/Transforms/Simplify.h"
#include "kerf/Support/Preconditions.h"

#include <cmath>
#include <map>

using namespace kerf;
using namespace kerf::nn;
using namespace mlir;

namespace {

/// Coefficients by (power of x, power of t).
using Polynomial = std::map<std::pair<int, int>, double>;
constexpr int kMaxDepth = 8;

std::optional<Polynomial> expand(Value value, Value x, Value t, int depth) {
  if (value == x)
    return Polynomial{{{1, 0}, 1.0}};
  if (value == t)
    return Polynomial{{{0, 1}, 1.0}};
  if (auto number = splatOf(value))
    return Polynomial{{{0, 0}, *number}};
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0 || !isa<AddOp, SubOp, MulOp, DivOp, PowOp, NegOp>(op))
    return std::nullopt;
  auto a = expand(op->getOperand(0), x, t, depth - 1);
  if (!a)
    return std::nullopt;
  if (isa<NegOp>(op)) {
    for (auto &term : *a)
      term.second = -term.second;
    return a;
  }
  auto b = expand(op->getOperand(1), x, t, depth - 1);
  if (!b)
    return std::nullopt;
  auto constant = [](const Polynomial &p) -> std::optional<double> {
    if (p.size() == 1 && p.begin()->first == std::make_pair(0, 0))
      return p.begin()->second;
    return std::nullopt;
  };
  auto multiply = [](const Polynomial &p, const Polynomial &q) {
    Polynomial result;
    for (const auto &[i, c] : p)
      for (const auto &[j, d] : q)
        result[{i.first + j.first, i.second + j.second}] += c * d;
    return result;
  };
  if (isa<AddOp, SubOp>(op)) {
    for (const auto &[power, c] : *b)
      (*a)[power] += isa<AddOp>(op) ? c : -c;
    return a;
  }
  if (isa<DivOp>(op)) {
    auto by = constant(*b);
    if (!by || *by == 0)
      return std::nullopt;
    for (auto &term : *a)
      term.second /= *by;
    return a;
  }
  if (isa<PowOp>(op)) {
    auto power = constant(*b);
    if (!power || (*power != 2 && *power != 3))
      return std::nullopt;
    Polynomial square = multiply(*a, *a);
    return *power == 2 ? square : multiply(square, *a);
  }
  if (a->size() * b->size() > 16)
    return std::nullopt;
  return multiply(*a, *b);
}

bool equals(const std::optional<Polynomial> &found,
            const Polynomial &expected) {
  if (!found)
    return false;
  size_t matched = 0;
  for (const auto &[power, c] : *found) {
    auto want = expected.find(power);
    double target = want == expected.end() ? 0 : want->second;
    if (std::fabs(c - target) > 1e-4 * std::max(std::fabs(target), 1e-3))
      return false;
    matched += want != expected.end();
  }
  return matched == expected.size();
}

void collect(Value value, int depth, llvm::SmallVectorImpl<Value> &found) {
  Operation *op = value.getDefiningOp();
  if (!splatOf(value) && !llvm::is_contained(found, value))
    found.push_back(value);
  if (!op || depth == 0 || !isa<AddOp, SubOp, MulOp, DivOp, PowOp, NegOp>(op))
    return;
  for (Value operand : op->getOperands())
    collect(operand, depth - 1, found);
}

struct RecogniseGelu : OpRewritePattern<MulOp> {
  RecogniseGelu(MLIRContext *context) : OpRewritePattern(context, 6) {}
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    if (isPlanned(op))
      return failure();
    SmallVector<Value> parts;
    collect(op.getResult(), 5, parts);
    Value t;
    for (Value part : parts)
      if (isa_and_nonnull<ErfOp, TanhOp>(part.getDefiningOp()))
        t = part;
    if (!t)
      return failure();
    bool tanh = isa<TanhOp>(t.getDefiningOp());
    Value argument = t.getDefiningOp()->getOperand(0);
    constexpr double kRootHalf = 0.70710678118654752;
    constexpr double kRootTwoOverPi = 0.79788456080286536;
    Polynomial inner = tanh ? Polynomial{{{1, 0}, kRootTwoOverPi},
                                         {{3, 0}, kRootTwoOverPi * 0.044715}}
                            : Polynomial{{{1, 0}, kRootHalf}};
    SmallVector<Value> candidates;
    collect(argument, 6, candidates);
    for (Value x : candidates) {
      if (x.getType() != op.getType() ||
          !holds(op, Precondition::GeluInside,
                 equals(expand(argument, x, t, kMaxDepth), inner)) ||
          !holds(op, Precondition::GeluOutside,
                 equals(expand(op.getResult(), x, t, kMaxDepth),
                        {{{1, 0}, 0.5}, {{1, 1}, 0.5}})))
        continue;
      rewriter.replaceOpWithNewOp<GeluOp>(op, op.getType(), x, tanh);
      return success();
    }
    return failure();
  }
};

/// x sigmoid(x): of two ops the gradient would keep the sigmoid as well as x.
struct RecogniseSilu : OpRewritePattern<MulOp> {
  RecogniseSilu(MLIRContext *context) : OpRewritePattern(context, 2) {}
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    if (isPlanned(op))
      return failure();
    for (auto [x, gate] : {std::pair(op.getLhs(), op.getRhs()),
                           std::pair(op.getRhs(), op.getLhs())}) {
      auto sigmoid = gate.getDefiningOp<SigmoidOp>();
      if (!sigmoid || !sigmoid->hasOneUse() || x.getType() != op.getType() ||
          gate.getType() != op.getType() ||
          !holds(op, Precondition::SiluOfItself, sigmoid.getX() == x))
        continue;
      rewriter.replaceOpWithNewOp<SiluOp>(op, op.getType(), x);
      return success();
    }
    return failure();
  }
};

} // namespace

void kerf::nn::populateGeluPattern(RewritePatternSet &patterns) {
  patterns.add<RecogniseGelu, RecogniseSilu>(patterns.getContext());
}
