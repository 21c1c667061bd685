//===- Importer.h - the walk over a model -----------------------*- C++ -*-===//
//
// Nodes are imported in the file's order into one block; local functions and
// `If` on constants are entered where they stand. Only nodes that something
// needs are imported. Errors do not stop the walk: what depends on a failed
// node is skipped, everything else is still looked at.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_IMPORTER_H
#define KERF_LIB_IMPORT_IMPORTER_H

#include "Graph/Node.h"

#include "kerf/Import/Import.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <set>

namespace kerf::onnx_import {

/// An input or output as the file declares it, with the sizes that are bound.
ModelValue describe(const onnx::ValueInfoProto &info,
                    const std::map<std::string, int64_t> &dims);

class Importer {
public:
  Importer(mlir::MLIRContext &context, const ImportOptions &options,
           ImportReport &report);

  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> run(llvm::StringRef path);
  bool isTooLarge() const { return nodesImported > kMaxNodes; }

  mlir::OpBuilder ops;
  Bounds bounds;
  ModelFiles &files() { return *modelFiles; }
  ImportOptions::TrainingForms trainingForms() const {
    return options.trainingForms;
  }

  /// Errors: at a node or value (may be empty).
  /// Of several errors with one cause only the first is said in full.
  void refuse(llvm::StringRef node, const llvm::Twine &message,
              llvm::StringRef cause = "");
  void usage(llvm::StringRef node, const llvm::Twine &message,
             llvm::StringRef cause = "");
  /// Of the sizes that were given: another one may mend it.
  void usageOfSizes(llvm::StringRef node, const llvm::Twine &message);
  /// `form`: what would be taken instead.
  void note(std::string text) { report.notes.push_back(std::move(text)); }
  void unsupported(const std::string &what, llvm::StringRef node,
                   llvm::StringRef form = "");
  /// A node in training mode is taken as what it is in inference.
  void noteAsInference() { ++numAsInference; }
  /// A BatchNormalization takes the statistics of the batch.
  void noteBatchStatistics() { ++numBatchStatistics; }
  /// An input that steers a shape must be known.
  void noteSteering(llvm::StringRef input) {
    if (!llvm::is_contained(report.steeringInputs, input))
      report.steeringInputs.push_back(input.str());
  }
  /// If `result` has elements that are a mean of none of x.
  void noteMeanOfNothing(llvm::StringRef node, mlir::Value x,
                         mlir::Value result) {
    if (result && mlir::isa<mlir::FloatType>(elementOf(x)) &&
        typeOf(x).getNumElements() == 0 && typeOf(result).getNumElements() > 0)
      meansOfNothing.insert(node.str());
  }
  /// A stream of random numbers (nn.philox) that no other op has; autodiff
  /// counts those of Dropout from 0.
  int64_t nextRandomStream() { return (int64_t(1) << 31) + numRandom++; }
  /// Whether the last error was at this node.
  bool hasIssueAt(llvm::StringRef node) const {
    return !report.issues.empty() && report.issues.back().node == node;
  }
  bool isUsed(llvm::StringRef name) const { return used.contains(name); }
  /// Whether a name is that of integers which the file or an option gives.
  bool storesIntegers(llvm::StringRef name) const;
  /// The sizes that options bind, "batch=2, seq=16"; empty: none.
  std::string boundSizes() const;

  /// A tensor as nn.constant (integers, one element, typed payloads) or
  /// nn.weight. Null after reporting at `node`.
  /// `isWeight`: nn.weight although it has one element.
  mlir::Value literal(const onnx::TensorProto &tensor, llvm::StringRef name,
                      llvm::StringRef node, bool isWeight = false);

  /// Imports a subgraph where it stands, with `arguments` for its inputs; its
  /// outputs are appended to `results` (null where they failed).
  mlir::LogicalResult
  importSubgraph(const onnx::GraphProto &graph, const Scope &parent,
                 llvm::StringRef prefix, llvm::ArrayRef<mlir::Value> arguments,
                 llvm::SmallVectorImpl<mlir::Value> &results);

  /// Whether the model is imported to be trained.
  bool isTrained() const { return options.smallWeights; }
  /// A block to import the body of a loop into. It lives as long as the import,
  /// unless an op takes it.
  mlir::Block *startBody();
  /// Whether `import` succeeds without an error; otherwise nothing is said of
  /// it.
  bool attempt(llvm::function_ref<mlir::LogicalResult()> import);

private:
  /// A weight that is so many bytes of a file.
  nn::WeightOp weightAt(const TensorData &data, mlir::RankedTensorType type,
                        llvm::StringRef name, mlir::Location loc);
  mlir::Value unpacked(const TensorData &data, llvm::StringRef name,
                       mlir::Location loc);

  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  bool checkModel();
  bool importInputs(const onnx::GraphProto &graph, Scope &scope);
  /// Names arguments, and the dimension of each that counts samples.
  void findBatch(llvm::ArrayRef<const onnx::ValueInfoProto *> arguments);
  void requireOneBatch();
  /// The same of inputs that begin with different sizes, once the sizes of
  /// outputs are known. What the user or a name says stays.
  void settleBatch();
  bool bindConstants();
  void importInitializers(const onnx::GraphProto &graph, Scope &scope);
  void importNodes(const Nodes &nodes, Scope &scope,
                   llvm::ArrayRef<llvm::StringRef> results);
  /// Refuses a model of more than kMaxNodes, by the loop or call that it is in.
  void refuseSize(llvm::StringRef prefix);
  bool checkNames(const Nodes &nodes, const Scope &scope);
  void importNode(const onnx::NodeProto &proto, Scope &scope,
                  llvm::StringRef name);
  void importCall(const onnx::NodeProto &proto,
                  const onnx::FunctionProto &function, Scope &scope,
                  llvm::StringRef name);
  void defineOutputs(const onnx::NodeProto &proto,
                     llvm::ArrayRef<mlir::Value> values, Scope &scope);
  void checkDeclared(const onnx::ValueInfoProto &info, mlir::Value value,
                     bool isRounded);
  llvm::SmallVector<llvm::SmallVector<int64_t>>
  addLengths(llvm::SmallVectorImpl<mlir::Value> &results,
             llvm::SmallVectorImpl<std::string> &names);
  bool finish(const onnx::GraphProto &graph, Scope &scope);
  void noteKinds(const onnx::GraphProto &graph);
  void surveyOperators(const Nodes &nodes, const Scope &scope, unsigned depth);
  int64_t opsetOf(llvm::StringRef domain, const Scope &scope) const;
  const onnx::FunctionProto *functionFor(const onnx::NodeProto &proto) const;
  std::optional<llvm::SmallVector<int64_t>>
  bindShape(const onnx::ValueInfoProto &info, bool input);

  mlir::MLIRContext &context;
  const ImportOptions &options;
  ImportReport &report;
  std::unique_ptr<ModelFiles> modelFiles;
  onnx::ModelProto model;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  std::map<std::string, const onnx::FunctionProto *> functions;
  llvm::StringMap<const onnx::TensorProto *> initializers;
  llvm::StringMap<mlir::DenseElementsAttr> constants;
  llvm::StringMap<const onnx::ValueInfoProto *> declared;
  /// Names that a node, subgraph or output reads.
  llvm::StringSet<> used;
  llvm::SmallVector<const onnx::FunctionProto *> callStack;
  std::map<std::string, unsigned> unsupportedIndex;
  /// Nodes that take the mean of nothing.
  llvm::SetVector<std::string, std::vector<std::string>, std::set<std::string>>
      meansOfNothing;
  int64_t numAsInference = 0, numBatchStatistics = 0, numRandom = 0;
  mlir::Operation *lastWeight = nullptr;
  /// Bodies of loops; what is left of them reads values of the function.
  std::vector<std::unique_ptr<mlir::Region>> bodies;
  /// What is declared behind a pool with ceil_mode is not believed any more.
  bool isAnnotationWrong = false;
  static constexpr int64_t kMaxNodes = 1'000'000;
  int64_t nodesImported = 0;
  unsigned depth = 0;
};

/// The inputs of the model that `value` is, or is computed from if they are
/// lists of integers or one: sizes, counts, axes. Else none: what is computed
/// from data or weights no constant makes known.
llvm::SmallVector<mlir::BlockArgument> steeringInputs(mlir::Value value);

/// "a: the mean of nothing is NaN ...; the same of 2 more: b, c".
std::string noteOnMeansOfNothing(llvm::ArrayRef<std::string> nodes);

/// Behind an import that failed: notes the sizes of `options` that what is
/// wrong depends on, and what helps where an export has fixed them.
/// What binds the open sizes of a decoder that was exported with its cache.
std::vector<std::string> notesOnOpenSizes(const onnx::GraphProto &graph);
void noteFixedSizes(mlir::MLIRContext &context, llvm::StringRef path,
                    const ImportOptions &options, ImportReport &report);

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_IMPORTER_H
