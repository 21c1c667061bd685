//===- NNBase.td - the nn dialect and its op classes ------*- tablegen -*-===//
#ifndef KERF_NN_BASE_TD
#define KERF_NN_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "kerf/Interfaces/Interfaces.td"
include "kerf/NN/NNInterfaces.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::kerf::nn";
  let summary = "what to compute: tensor ops with value semantics";
  let description = [{
    A small orthogonal set of tensor ops into which ONNX's operators are
    decomposed at import. Every shape is static. What libraries do well as a
    whole (matmul, convolution, softmax, normalization, gather) stays whole.
    Each op carries its sharding rule, its cost and its result types beside its
    definition. Images are laid out NHWC, convolution weights OIHW.

    Printed lines omit what follows from the rest: one type if operands and
    result have the same, `3x3` for the sizes of a window, and no attribute with
    its default value. No attribute with the prefix `nn.` stands on ops, modules
    or functions: one that does is an error.
  }];
  let dependentDialects = ["::kerf::KerfDialect"];
  let hasConstantMaterializer = 0;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

// Types with which nothing is computed (kerf/Support/NarrowTypes.h) stand only
// where elements are moved or converted.
def NN_NotNarrow : CPred<"!::kerf::isNarrow($_self)">;
def NN_AnyTensor : StaticShapeTensorOf<[AnyType]>;
def NN_Tensor : StaticShapeTensorOf<[Type<NN_NotNarrow, "any type but those of 2 to 8 bits that are only converted">]>;
def NN_Float : StaticShapeTensorOf<[Type<And<[AnyFloat.predicate, NN_NotNarrow]>, "floating-point">]>;
def NN_Integer : StaticShapeTensorOf<[Type<And<[AnyInteger.predicate, NN_NotNarrow]>, "integer">]>;
def NN_Bool : StaticShapeTensorOf<[I1]>;

// Every op: no side effects, a sharding rule, a cost.
class NN_Op<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, !listconcat(traits, [Pure,
        DeclareOpInterfaceMethods<Kerf_OpCostInterface, ["getEpilogueStep", "getJoinedDim"]>])>;

// Floating-point operations (a multiply-add counts as two) as a C++ expression of
// `operands` and `results`, the types of an op that need not be built: those of a
// sharded op are local ones; the kind of work, a CostClass; what a library does
// of it, a LibraryWork; what it does of it behind a product, an EpilogueStep; and,
// of a concatenation, the dimension. Part of an op's `extraClassDefinition`.
class NN_Cost<string work, string flops, string library = "::kerf::LibraryWork::None",
              string step = "EpilogueStep::None", string joined = "-1"> {
  string definition = [{
    int64_t $cppClass::getFlops(
        [[maybe_unused]] ::llvm::ArrayRef<::mlir::RankedTensorType> operands,
        [[maybe_unused]] ::llvm::ArrayRef<::mlir::RankedTensorType> results) {
      return }] # flops # [{;
    }
    ::kerf::CostClass $cppClass::getCostClass() { return ::kerf::CostClass::}] # work # [{; }
    ::kerf::LibraryWork $cppClass::getLibraryWork() { return }] # library # [{; }
    ::kerf::EpilogueStep $cppClass::getEpilogueStep() { return }] # step # [{; }
    int64_t $cppClass::getJoinedDim() { return }] # joined # [{; }
  }];
}

// Says which values its results may hold (Intervals.cpp).
def NN_Interval : DeclareOpInterfaceMethods<Kerf_IntervalInterface>;

// Ops whose rule is written out in ShardingRules.cpp.
class NN_RuleOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat(traits, [NN_Interval,
        DeclareOpInterfaceMethods<Kerf_ShardingRuleInterface>])>;

// The same, and rebuilt on local shapes by code in Local.cpp.
class NN_LocalOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat(traits, [NN_Interval,
        DeclareOpInterfaceMethods<Kerf_ShardingRuleInterface, ["buildLocal"]>])>;

// Has a vector-Jacobian product (Gradients*.cpp).
def NN_Gradient : DeclareOpInterfaceMethods<Kerf_DifferentiableInterface>;

def NN_Infer : DeclareOpInterfaceMethods<InferTypeOpInterface, ["inferReturnTypes"]>;

// An op that says in C++, beside its arguments, what a constant is at `operand`.
class NN_Role<string role> {
  string method = "::kerf::OperandRole getOperandRole([[maybe_unused]] unsigned operand) { return "
    # role # "; }\n";
}

// How code generation treats the op (KernelKind.h); only such ops occur in kernels.
class NN_KernelKind<string kind> : ParamNativeOpTrait<"OfKernelKind", "::kerf::nn::KernelKind::" # kind> {
  let cppNamespace = "::kerf::nn";
}
class NN_Kernel<string kind> : TraitList<[NN_KernelInterface, NN_KernelKind<kind>]>;

// Each element of the result is a function of the operands' elements at its place.
def NN_ByElement : NativeOpTrait<"ByElement"> {
  let cppNamespace = "::kerf::nn";
}

defvar NN_Element = [NN_Infer, NN_ByElement, NN_Kernel<"Elementwise">];

// Divides its first operand by its second. For integers a divisor of 0 is a
// failure at run time.
def NN_Division : NativeOpTrait<"Division"> {
  let cppNamespace = "::kerf::nn";
}

// The result, or its slope, jumps where a float is as large as the other
// operand or a whole number (`Border`), or where it is 0 (`BorderAtZero`): on
// which side of that it falls may be a matter of rounding.
def NN_Border : NativeOpTrait<"Border"> {
  let cppNamespace = "::kerf::nn";
}
def NN_BorderAtZero : NativeOpTrait<"BorderAtZero"> {
  let cppNamespace = "::kerf::nn";
}

// The expression as a method of the op, and whether there is one.
class NN_Meaning<string elements, string expression> {
  string method = "static constexpr bool kIsOn" # elements # " = "
    # !if(!empty(expression), "false;\n", [{true;
    template <typename S>
    auto on}] # elements # [{([[maybe_unused]] S &s,
        [[maybe_unused]] ::llvm::ArrayRef<typename S::V> x) {
      return }] # expression # [{;
    }
  }]);
}

// An element of the result is a sum of products, each of one element of every
// float operand and a number that is not negative. So of operands without their
// signs the op computes what the numbers that it adds up come to without theirs,
// of which the rounding errors of the sum are a part, however small the sum is.
def NN_SumOfProducts : NativeOpTrait<"SumOfProducts"> {
  let cppNamespace = "::kerf::nn";
}

// Elementwise with right-aligned broadcasting. `onFloats` and `onIntegers` are
// what the op does to one element, each a C++ expression of `x`, the operands'
// elements, and `s`, what can be done with them (Elements.h); `onElements` is
// both. Folding, the interpreter and code generation know the op from there
// alone. `linear` holds the operand groups in which the op is jointly linear, as
// a C++ initializer; `cost` the floating-point operations per element of the
// result; `fills` the operands of whose integers it can fail
// (ShardingRule::paddingFills); `role` says what a constant is at `operand`, as a
// C++ expression (OperandRole.h). `interval` is which values the result may have
// (Interval.h), a C++ expression of x, the intervals of the operands;
// `multipliers`, `divisors` and `linearInTime` are those of ShardingRule; `epilogue` is what a
// library does of the op behind a product (EpilogueStep), a C++ expression.
class NN_ElementwiseOp<string mnemonic, string linear = "{}", int cost = 1,
                       list<Trait> traits = [NN_Infer], string fills = "{}",
                       string role = "::kerf::OperandRole::Number">
    : NN_Op<mnemonic, !listconcat(traits, [NN_Gradient, NN_Interval,
        DeclareOpInterfaceMethods<Kerf_OperandRoleInterface>,
        DeclareOpInterfaceMethods<Kerf_ShardingRuleInterface>])> {
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  string onElements = "";
  string onFloats = onElements;
  string onIntegers = onElements;
  let extraClassDeclaration = NN_Meaning<"Floats", onFloats>.method
    # NN_Meaning<"Integers", onIntegers>.method;
  string interval = "::kerf::Interval::all()";
  string multipliers = "{}";
  string divisors = "{}";
  string linearInTime = "false";
  string epilogue = "EpilogueStep::None";
  string elementwiseDefinition = [{
    ::kerf::ShardingRule $cppClass::getShardingRule() {
      ::kerf::ShardingRule rule = ::kerf::elementwiseShardingRule(getOperation());
      rule.linearGroups = }] # linear # [{;
      rule.multipliers = }] # multipliers # [{;
      rule.divisors = }] # divisors # [{;
      rule.isLinearInTime = }] # linearInTime # [{;
      rule.paddingFills = }] # fills # [{;
      return rule;
    }
    ::kerf::Interval $cppClass::getInterval(unsigned,
                                            [[maybe_unused]] ::llvm::ArrayRef<::kerf::Interval> x) {
      return }] # interval # [{;
    }
    ::kerf::OperandRole $cppClass::getOperandRole([[maybe_unused]] unsigned operand) {
      return }] # role # [{;
    }
  }] # NN_Cost<"Elementwise", "results[0].getNumElements() * " # cost,
               "::kerf::LibraryWork::None", epilogue>.definition;
  let extraClassDefinition = elementwiseDefinition;
}

// result[i] = f(x[i]), same type.
class NN_UnaryOp<string mnemonic, string formula, string linear = "{}", int cost = 1,
                 TypeConstraint type = NN_Tensor, string role = "::kerf::OperandRole::Through",
                 list<Trait> traits = []>
    : NN_ElementwiseOp<mnemonic, linear, cost, !listconcat(NN_Element, traits), "{}", role> {
  let assemblyFormat = "$x attr-dict `:` custom<Types>(type($x), type($result))";
  let summary = "elementwise " # formula;
  let description = "`result[i] = " # formula # "`, elementwise.\n\n"
    # "```mlir\n%r = nn." # mnemonic # " %x : tensor<2x3x" # !if(!eq(type, NN_Integer), "i32", "f32") # ">\n```";
  let arguments = (ins type:$x);
  let extraClassDefinition = elementwiseDefinition # [{
    ::mlir::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *, std::optional<::mlir::Location>, ::mlir::ValueRange operands,
        ::mlir::DictionaryAttr, ::mlir::OpaqueProperties, ::mlir::RegionRange,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      types.push_back(operands[0].getType());
      return ::mlir::success();
    }
  }];
}

// result[i] = f(lhs[i], rhs[i]) with broadcasting, element type of the operands
// or, where `boolean` is set, i1.
class NN_BinaryOp<string mnemonic, string formula, string linear = "{}", int cost = 1,
                  bit boolean = 0, TypeConstraint type = NN_Tensor,
                  string fills = "{}", string role = "::kerf::OperandRole::Number",
                  list<Trait> traits = []>
    : NN_ElementwiseOp<mnemonic, linear, cost, !listconcat(NN_Element, traits), fills, role> {
  string example = !if(!eq(type, NN_Integer), "i32", "f32");
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` custom<Types>(type($lhs), type($rhs), type($result))";
  let summary = "elementwise " # formula;
  let description = "`result[i] = " # formula # "`, elementwise; dimensions of "
    # "size 1 and missing leading dimensions are broadcast.\n\n```mlir\n"
    # "%r = nn." # mnemonic # " %a, %b : (tensor<2x3x" # example # ">, tensor<3x" # example # ">) -> tensor<2x3x"
    # !if(boolean, "i1", example) # ">\n```\n\nC1: operands have one element type and broadcast.";
  let arguments = (ins type:$lhs, type:$rhs);
  let extraClassDefinition = elementwiseDefinition # [{
    ::mlir::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *context, std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr, ::mlir::OpaqueProperties,
        ::mlir::RegionRange, ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::kerf::nn::inferElementwise(context, location, operands, }]
        # !if(boolean, "true", "false") # [{, types);
    }
  }];
}

#endif // KERF_NN_BASE_TD
