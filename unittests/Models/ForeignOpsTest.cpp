//===- ForeignOpsTest.cpp - ops of a host that does its part badly --------===//
//
// A dialect that Kerf does not know: a gradient in ops with regions is taken
// through all phases; rules and local forms that are wrong are errors at the
// op, whatever is wrong with them.
//
//===----------------------------------------------------------------------===//
#include "kerf/Interfaces/AnyOp.h"
#include "kerf/Pipelines/Register.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace kerf;

namespace {

/// guest.twice: x + x, or what its attribute `wrong` says.
class TwiceOp
    : public Op<TwiceOp, OpTrait::ZeroRegions, OpTrait::OneResult,
                OpTrait::ZeroSuccessors, OpTrait::OneOperand,
                MemoryEffectOpInterface::Trait, ShardingRuleInterface::Trait,
                OpCostInterface::Trait, DifferentiableInterface::Trait> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TwiceOp)
  using Op::Op;
  static StringRef getOperationName() { return "guest.twice"; }
  static ArrayRef<StringRef> getAttributeNames() { return {}; }
  static ParseResult parse(OpAsmParser &parser, OperationState &result) {
    OpAsmParser::UnresolvedOperand x;
    Type type;
    if (parser.parseOperand(x) ||
        parser.parseOptionalAttrDict(result.attributes) ||
        parser.parseColonType(type) ||
        parser.resolveOperand(x, type, result.operands))
      return failure();
    result.addTypes(type);
    return success();
  }
  void print(OpAsmPrinter &printer) {
    printer << ' ' << getOperation()->getOperand(0);
    printer.printOptionalAttrDict((*this)->getAttrs());
    printer << " : " << getOperation()->getResult(0).getType();
  }
  void getEffects(
      SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &) {}

  int64_t getFlops(ArrayRef<RankedTensorType>,
                   ArrayRef<RankedTensorType> results) {
    return results[0].getNumElements();
  }
  CostClass getCostClass() { return CostClass::Elementwise; }
  LibraryWork getLibraryWork() { return LibraryWork::None; }

  StringRef wrong() {
    auto attr = (*this)->getAttrOfType<StringAttr>("wrong");
    return attr ? attr.getValue() : "";
  }

  ShardingRule getShardingRule() {
    ShardingRule rule = elementwiseShardingRule(getOperation());
    rule.linearGroups = {{0}};
    if (wrong() == "size")
      rule.factors[0].size = 99;
    if (wrong() == "operands")
      rule.operands.clear();
    if (wrong() == "factor")
      rule.operands[0][0] = {77};
    if (wrong() == "linear")
      rule.linearGroups = {{9}};
    if (wrong() == "multiplier")
      rule.multipliers = {9};
    if (wrong() == "divisor")
      rule.divisors = {9};
    if (wrong() == "fill")
      rule.paddingFills = {{9, 0}};
    if (wrong() == "reduction")
      rule.factors[0].kind = FactorKind::Reduction;
    return rule;
  }

  FailureOr<SmallVector<Value>> buildLocal(OpBuilder &builder,
                                           ValueRange operands, TypeRange types,
                                           LocalContext &) {
    if (wrong() == "fails")
      return failure();
    if (wrong() == "none")
      return SmallVector<Value>();
    if (wrong() == "null")
      return SmallVector<Value>{Value()};
    IRMapping mapping;
    mapping.map((*this)->getOperands(), operands);
    Operation *local = builder.clone(*getOperation(), mapping);
    if (wrong() != "type")
      local->getResult(0).setType(types[0]);
    return SmallVector<Value>{local->getResult(0)};
  }

  /// 2 g, in an op with a region.
  FailureOr<SmallVector<Value>>
  buildVectorJacobianProduct(OpBuilder &builder, ValueRange gradients) {
    Value zero = arith::ConstantOp::create(
        builder, getLoc(), builder.getZeroAttr(gradients[0].getType()));
    auto twice = linalg::MapOp::create(
        builder, getLoc(), ValueRange{gradients[0]}, zero,
        [](OpBuilder &inside, Location loc, ValueRange elements) {
          Value sum =
              arith::AddFOp::create(inside, loc, elements[0], elements[0]);
          linalg::YieldOp::create(inside, loc, sum);
        });
    return SmallVector<Value>{twice->getResult(0)};
  }
};

class GuestDialect : public Dialect {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GuestDialect)
  explicit GuestDialect(MLIRContext *context)
      : Dialect("guest", context, TypeID::get<GuestDialect>()) {
    context->loadDialect<linalg::LinalgDialect, arith::ArithDialect>();
    addOperations<TwiceOp>();
  }
  static StringRef getDialectNamespace() { return "guest"; }
};

struct Foreign : testing::Test {
  Foreign() {
    DialectRegistry registry;
    registerDialects(registry);
    registerUpstreamDialects(registry);
    registry.insert<GuestDialect>();
    context.appendDialectRegistry(registry);
    registerPasses();
  }

  bool run(ModuleOp module, StringRef pipeline) {
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      messages += diagnostic.str() + "\n";
      return success();
    });
    PassManager passes(&context);
    return succeeded(parsePassPipeline(pipeline, passes)) &&
           succeeded(passes.run(module));
  }

  MLIRContext context;
  std::string messages;
};

TEST_F(Foreign, GradientsInRegionsAreTaken) {
  auto module = parseSourceString<ModuleOp>(R"(
func.func @step(%x: tensor<8x4xf32> {kerf.name = "x"},
                %w: tensor<8x4xf32> {kerf.name = "w", kerf.parameter})
    -> (tensor<8x4xf32> {kerf.name = "y"}) {
  %a = arith.addf %x, %w : tensor<8x4xf32>
  %y = guest.twice %w : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
})",
                                            &context);
  ASSERT_TRUE(module);
  ASSERT_TRUE(run(*module,
                  "kerf-hold-parameters,kerf-autodiff{loss=mse(y,target) "
                  "optimizer=sgd,lr=0.1},kerf-plan{devices=4 mesh=dp=2,tp=2},"
                  "kerf-partition,kerf-collectives"))
      << messages;
  unsigned maps = 0;
  module->walk([&](linalg::MapOp) { ++maps; });
  EXPECT_GE(maps, 1u);
}

TEST_F(Foreign, WhatIsWrongIsSaid) {
  const std::pair<const char *, const char *> kWrong[] = {
      {"size", "multiply to 99, expected 8"},
      {"operands", "has 0 operands, expected 1"},
      {"factor", "names factor 77, expected less than"},
      {"linear", "linear in operand 9, expected less than 1"},
      {"multiplier", "has operand 9 as a multiplier, expected less than 1"},
      {"divisor", "has operand 9 as a divisor, expected less than 1"},
      {"fill", "has operand 9 as one whose padding is filled"},
      {"reduction", "reduction factor 0 in a result"},
      {"fails", "cannot be built on local shapes"},
      {"none", "built on local shapes with 0 results, expected 1"},
      {"null", "built on local shapes without result 0"},
      {"type", "built on local shapes as 'tensor<8x4xf32>', expected "
               "'tensor<4x4xf32>'"}};
  for (auto [wrong, expected] : kWrong) {
    SCOPED_TRACE(wrong);
    messages.clear();
    std::string text = std::string(R"(
#cut = #dist.sharding<{"a"}, {}>
dist.mesh @mesh ["a"=2]
func.func @f(%x: tensor<8x4xf32> {dist.sharding = #cut})
    -> (tensor<8x4xf32> {dist.sharding = #cut}) {
  %y = guest.twice %x {wrong = ")") +
                       wrong +
                       R"("} : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
})";
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
    EXPECT_FALSE(run(*module, "kerf-propagate,kerf-partition"));
    EXPECT_NE(messages.find(expected), std::string::npos) << messages;
  }
}

} // namespace
