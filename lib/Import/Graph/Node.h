//===- Node.h - one ONNX node while it is imported --------------*- C++ -*-===//
//
// The interface of an operator's handler: its inputs as values, its attributes
// with their types checked, and functions that build nn ops. An op on constants
// becomes a constant at once, so handlers need no special case for shape
// computations. A failed step gives a null value; null operands give null
// results; the first error of the node is the one that is reported.
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_GRAPH_NODE_H
#define KERF_LIB_IMPORT_GRAPH_NODE_H

#include "../Bounds/Bounds.h"
#include "../File/Tensors.h"
#include "Scope.h"

#include "kerf/Import/Import.h"
#include "kerf/NN/NN.h"
#include "kerf/Support/TensorTypes.h"

#include "llvm/ADT/StringSet.h"

namespace kerf::onnx_import {

class Importer;

/// A number from a file as an integer of `width` bits; defined for every
/// double.
llvm::APInt integerOf(double value, unsigned width);

/// Builds nn ops at the end of a block and folds constants. Checks before it
/// builds, so that bad input is an error and not an assertion.
class GraphBuilder {
public:
  GraphBuilder(mlir::OpBuilder &builder, ModelFiles &files, Bounds &bounds)
      : ops(builder), files(files), bounds(bounds),
        context(builder.getContext()) {}

  mlir::OpBuilder &ops;
  ModelFiles &files;
  Bounds &bounds; ///< of all values; ops that are built keep it true
  mlir::MLIRContext *context;
  mlir::Location loc = mlir::UnknownLoc::get(context);

  /// Op with inferred result type.
  template <typename Op>
  mlir::Value make(mlir::ValueRange operands,
                   llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  /// Op with the result type given.
  mlir::Value makeTyped(llvm::StringRef op, mlir::RankedTensorType type,
                        mlir::ValueRange operands,
                        llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

  mlir::Value constant(mlir::DenseElementsAttr elements);
  mlir::Value integers(llvm::ArrayRef<int64_t> values); ///< tensor<nxi64>
  /// Rounded to a float type, towards zero to an integer one.
  mlir::Attribute number(double value, mlir::Type element);
  mlir::Value scalar(double value, mlir::Type element); ///< rank 0
  mlir::Value splat(llvm::ArrayRef<int64_t> shape, double value,
                    mlir::Type element);
  mlir::Value iota(int64_t size, mlir::Type element); ///< 0 .. size-1

  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm);
  mlir::Value slice(mlir::Value x, int64_t dim, int64_t start, int64_t size,
                    int64_t stride = 1);
  mlir::Value concat(mlir::ValueRange inputs, int64_t dim);
  mlir::Value gather(mlir::Value data, mlir::Value indices, int64_t dim);
  mlir::Value cast(mlir::Value x, mlir::Type element);
  mlir::Value reduce(mlir::Value x, nn::ReduceKind kind,
                     llvm::ArrayRef<int64_t> dims, bool keepDims);
  mlir::Value mean(mlir::Value x, llvm::ArrayRef<int64_t> dims, bool keepDims);
  mlir::Value matmul(mlir::Value lhs, mlir::Value rhs,
                     bool transposeLhs = false, bool transposeRhs = false);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  /// `b` as a scalar of the element type of `a`.
  mlir::Value add(mlir::Value a, double b);
  mlir::Value mul(mlir::Value a, double b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);

  /// The size of a dimension as an i64, computed where it is bounded.
  mlir::Value sizeOf(mlir::Value x, int64_t dim);
  mlir::Value times(mlir::Value length, int64_t factor);
  mlir::Value dividedBy(mlir::Value length, int64_t divisor);
  /// Whether an element along `dim` is one of the first `length`; of the shape
  /// [size, 1, ...] that broadcasts to x.
  mlir::Value within(mlir::Value x, int64_t dim, mlir::Value length);
  /// x with `fill` for what lies behind.
  mlir::Value filled(mlir::Value x, int64_t dim, mlir::Value length,
                     mlir::Attribute fill);
  /// The same in all its bounded dimensions.
  mlir::Value filled(mlir::Value x, double fill);
  /// x as a tensor of its largest size, whatever lies behind.
  mlir::Value whole(mlir::Value x);
  /// The numbers of a short list of integers, as i64 without dimensions; those
  /// that follow from sizes are the lengths themselves, or constants.
  std::optional<llvm::SmallVector<mlir::Value>> numbersOf(mlir::Value x);

  /// The elements of a constant, of a weight of at most 16 MiB, or of a short
  /// list that up to `depth` ops make of such; else null.
  mlir::DenseElementsAttr elements(mlir::Value x, int64_t depth = 8);
  std::optional<llvm::SmallVector<int64_t>> integerElements(mlir::Value x);
  std::optional<double> scalarElement(mlir::Value x);
  /// A constant whose elements handlers may use, if the weight is small.
  mlir::Value asConstant(mlir::Value x);
  /// Marks an unnamed float constant of more than one element as a parameter.
  mlir::Value asParameter(mlir::Value x, llvm::StringRef name);

  mlir::NamedAttribute i64(llvm::StringRef name, int64_t value);
  mlir::NamedAttribute i64s(llvm::StringRef name,
                            llvm::ArrayRef<int64_t> values);
  mlir::NamedAttribute f64(llvm::StringRef name, double value);
  mlir::NamedAttribute unit(llvm::StringRef name);

private:
  mlir::DenseElementsAttr evaluated(mlir::Value x, int64_t depth);
  mlir::Value finish(mlir::OperationState &state);
  /// The result of an op that has bounded operands; null after reporting that
  /// it reads across them.
  mlir::Value passBounds(mlir::Operation *op);
  bool tooLarge(mlir::Type type);
};

class Node : public GraphBuilder {
public:
  Node(Importer &importer, const onnx::NodeProto &proto, const Scope &scope,
       std::string name, int64_t opset);

  Importer &importer;
  const onnx::NodeProto &proto;
  const Scope &scope;
  std::string name;
  int64_t opset;
  llvm::SmallVector<mlir::Value> inputs; ///< null where absent
  llvm::SmallVector<mlir::Value> outputs;

  /// Input `index`, null if absent. `require` reports absence.
  mlir::Value in(size_t index) const {
    return index < inputs.size() ? inputs[index] : mlir::Value();
  }
  bool has(size_t index) const { return bool(in(index)); }
  /// The same as a parameter of its name in the file: a literal that is one
  /// (asParameter).
  mlir::Value parameter(size_t index);
  /// Whether output `index` is used.
  bool wants(size_t index) const;
  /// Checks the number of inputs (the required ones) and outputs.
  mlir::LogicalResult arity(size_t min, size_t max, size_t outputs = 1);

  int64_t integer(llvm::StringRef name, int64_t otherwise);
  double real(llvm::StringRef name, double otherwise);
  std::string text(llvm::StringRef name, llvm::StringRef otherwise);
  std::optional<llvm::SmallVector<int64_t>> integerList(llvm::StringRef name);
  std::optional<llvm::SmallVector<double>> realList(llvm::StringRef name);
  std::optional<llvm::SmallVector<std::string>> textList(llvm::StringRef name);
  const onnx::TensorProto *tensor(llvm::StringRef name);
  const onnx::GraphProto *graph(llvm::StringRef name);
  bool hasAttribute(llvm::StringRef name);
  /// A required attribute: reports its absence.
  void requireAttribute(llvm::StringRef name);

  /// The integers of a constant input; reports if it is not constant.
  std::optional<llvm::SmallVector<int64_t>> constantIntegers(size_t index);
  /// The same of floats, rounded to f32.
  std::optional<llvm::SmallVector<float>> constantFloats(size_t index);
  /// The elements of any type; null after reporting an input that is not
  /// constant.
  mlir::DenseElementsAttr constantElements(size_t index);
  std::optional<double> constantReal(size_t index);
  /// The number in a constant input of one element, exactly if the input has
  /// this type; reports if it is not constant.
  mlir::Attribute constantNumber(size_t index, mlir::Type element);

  /// `axis` counted from the front, within [0, limit); reports otherwise.
  std::optional<int64_t> axisWithin(int64_t axis, int64_t rank,
                                    bool endAllowed = false);
  std::optional<llvm::SmallVector<int64_t>>
  axesWithin(llvm::ArrayRef<int64_t> axes, int64_t rank);

  /// Reports the first error of this node; returns failure.
  mlir::LogicalResult error(const llvm::Twine &message);
  /// The same of integers that are outside of something: where the file does
  /// not store them they come from sizes, which options bind.
  mlir::LogicalResult outside(const llvm::Twine &message);
  /// The same of what an option would mend.
  mlir::LogicalResult wrongUsage(const llvm::Twine &message);
  /// Fails; a diagnostic of type inference becomes the node's error.
  mlir::LogicalResult fail();
  /// Reports something that Kerf does not have (mode, attribute value).
  mlir::LogicalResult unsupported(const llvm::Twine &what,
                                  llvm::StringRef form = "");
  /// The same of a `value` that is computed but must be known here; where it
  /// follows from an input that steers, the error says how to bind that.
  mlir::LogicalResult unsupportedComputed(mlir::Value value,
                                          const llvm::Twine &what,
                                          llvm::StringRef form);
  /// Sets output 0; failure if the value is null.
  mlir::LogicalResult set(mlir::Value value) { return set(0, value); }
  mlir::LogicalResult set(size_t index, mlir::Value value);

  bool failed = false;
  /// Attributes that the handler did not ask for are reported.
  void checkAttributes();

private:
  /// An input that must be known when the model is compiled.
  void reportNotConstant(size_t index);
  const onnx::AttributeProto *find(llvm::StringRef name,
                                   onnx::AttributeProto::AttributeType type);
  llvm::StringSet<> asked;
};

template <typename Op>
mlir::Value
GraphBuilder::make(mlir::ValueRange operands,
                   llvm::ArrayRef<mlir::NamedAttribute> attributes) {
  if (llvm::is_contained(operands, mlir::Value()))
    return {};
  mlir::OperationState state(loc, Op::getOperationName());
  state.addOperands(operands);
  mlir::DictionaryAttr dictionary = ops.getDictionaryAttr(attributes);
  mlir::OpaqueProperties properties(nullptr);
  if constexpr (!std::is_same_v<typename Op::Properties,
                                mlir::EmptyProperties>) {
    auto &props = state.getOrAddProperties<typename Op::Properties>();
    if (failed(Op::setPropertiesFromAttr(props, dictionary,
                                         [&] { return mlir::emitError(loc); })))
      return {};
    properties = state.getRawProperties();
  }
  llvm::SmallVector<mlir::Type> types;
  if (failed(Op::inferReturnTypes(context, loc, operands, dictionary,
                                  properties, state.regions, types)))
    return {};
  state.addTypes(types);
  return finish(state);
}

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_GRAPH_NODE_H
