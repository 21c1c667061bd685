//===- Import.h - from ONNX models to nn functions --------------*- C++ -*-===//
//
// Problem: an ONNX file, with symbolic dimensions, shape subgraphs, local
// functions and many operator versions, becomes one function of nn ops with
// static shapes. Nothing that the file holds as raw bytes is copied: nn.weight
// refers to ranges of the mapped file. Everything that is wrong or unsupported
// is collected in one report; bad input never aborts.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_IMPORT_IMPORT_H
#define KERF_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <string>
#include <vector>

namespace kerf {

/// Whether a dimension is called a batch, as exporters and their users write
/// it: batch, batch_size, decoder_batch, bs.
bool namesBatch(llvm::StringRef symbol);

/// The bindings that the user gives before shapes are known.
struct ImportOptions {
  /// `--dim batch=8`: symbolic dimension to size. An anonymous dimension is
  /// called INPUT.INDEX.
  std::map<std::string, int64_t> dims;
  /// `--constant NAME=@file.npy` or `NAME=1,2,3`: graph inputs that become
  /// constants. The value is the text after '='.
  std::map<std::string, std::string> constants;
  /// `--batch-dim x=0`: the batch dimension of an input; -1 for none.
  std::map<std::string, int64_t> batchDims;
  /// Files of external data may be missing: the cost of a plan follows from
  /// shapes. Constants that shapes depend on must still be there.
  bool allowAbsentData = false;
  /// How Dropout and BatchNormalization in training mode are imported: as an
  /// error, since that is not inference; as nn.dropout and nn.batch_norm, which
  /// autodiff expands; or in their inference form.
  enum class TrainingForms { Refuse, Keep, AsInference };
  TrainingForms trainingForms = TrainingForms::Refuse;
  /// That AsInference is what the user asks for: an error of the request where
  /// no node is in training mode.
  bool formsAreAsked = false;
  /// For training: float initializers of one element become weights; those with
  /// dimensions, and of scalars those with these names. Without training they
  /// are constants, by which ops are simplified.
  bool smallWeights = false;
  std::vector<std::string> scalarWeights;
  /// For training: vectors, and tensors of equal elements, that several nodes
  /// read are copied, one copy per node (Untie.h); those whose names match one
  /// of `tied` stay one.
  bool untie = false;
  std::vector<std::string> tied;
  /// Test only: a precondition that is not asked (Support/Preconditions.h).
  std::string without;
};

/// One thing that is wrong. `node` is the ONNX node, value or empty.
struct ImportIssue {
  /// OpenSize: a usage error of everything but a look at the model.
  enum class Kind { Usage, OpenSize, Refused, Internal };
  Kind kind = Kind::Refused;
  std::string node;
  std::string message;
  std::vector<std::string> notes;
  /// What several issues have in common, which is then said once; empty: none.
  std::string cause;
  /// A usage error of the sizes that were given: another one may mend it.
  bool isOfSizes = false;
};

/// An operator, type or attribute that Kerf does not support, with every node
/// that needs it.
struct UnsupportedItem {
  std::string what;
  std::vector<std::string> nodes;
  std::string form; ///< what would be taken instead; may be empty
};

/// A graph input or output as the file declares it.
struct ModelValue {
  struct Dim {
    int64_t size = -1;  ///< -1 where it is symbolic and not bound.
    std::string symbol; ///< empty where the file gives a number.
  };
  std::string name;
  std::string elementType;
  std::vector<Dim> dims;
  bool hasShape = false; ///< else `dims` says nothing
  bool isRead = true;    ///< of an input: an output depends on it
};

/// An initializer that was copied for one input of a node (Untie.h).
struct UntiedCopy {
  std::string name, original;
  int node = 0, input = 0; ///< by their numbers in the main graph
};

/// A node's read of an initializer `other` that holds the same numbers of the
/// same parameter as `name`, which it reads instead (Join.h).
struct JoinedRead {
  std::string name, other;
  int node = 0, input = 0; ///< by their numbers in the main graph
};

/// What was found, whether or not the import succeeded.
struct ImportReport {
  std::string file;
  std::string graphName, producer;
  int64_t irVersion = 0;
  std::map<std::string, int64_t> opsets;
  std::vector<ModelValue> inputs, outputs;
  std::map<std::string, int64_t> operatorCounts;
  int64_t numParameters = 0; ///< tensors, tied ones once
  int64_t parameterElements = 0;
  int64_t parameterBytes = 0;
  int64_t bufferElements = 0; ///< of these, as the exporter says
  /// For stored tensors, their shapes in the file, which simplification may
  /// change.
  std::map<std::string, std::vector<int64_t>> parameterShapes;
  std::vector<UntiedCopy> untied;
  std::vector<JoinedRead> joined;
  /// Parameters of PyTorch's that the file lacks, as far as it tells.
  std::vector<std::string> leftOut;
  /// Float initializers without dimensions that were imported as constants.
  std::vector<std::string> numbers;
  /// Others that are no size of what layers learn: infinities, masks' bounds.
  std::vector<std::string> bounds;
  /// Others that say how much Dropout drops, and nothing else.
  std::vector<std::string> ratios;
  /// Dropout that drops nothing in training, where it was meant to; may be
  /// empty. One of the notes of a model that is imported to be trained.
  std::string quietDropout;
  /// Notes on the file that are no errors.
  std::vector<std::string> notes;
  /// The node that defines an output of a node of the main graph.
  std::map<std::string, std::string> nodeOfOutput;
  std::vector<std::string> unboundDims;
  /// Inputs that steer shapes, and are no constants.
  std::vector<std::string> steeringInputs;
  std::vector<UnsupportedItem> unsupported;
  std::vector<ImportIssue> issues;

  /// 0, 2 (wrong usage: unbound dims, constants), 3 (model refused) or 70.
  int exitCode() const;
  /// `error: FILE[:NODE]: reason` lines with their notes.
  void print(llvm::raw_ostream &stream) const;
};

/// Imports the model at `path`. The result holds `func.func @main`, the module
/// attribute `kerf.files` (absolute paths that nn.weight's `file` indexes),
/// argument and result attributes `kerf.name` (ONNX names) and the argument
/// attribute `kerf.batch_dim` (i64) where an input has a batch dimension.
/// Locations are the ONNX node names. On failure the report has the errors.
/// Thread-safe for distinct contexts.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
           const ImportOptions &options, ImportReport &report);

/// Floating-point operations of a module by the OpCost interface.
struct ModuleCost {
  int64_t flops = 0;
  std::map<std::string, int64_t> opCounts; ///< "nn.matmul" -> uses
};
ModuleCost costOfModule(mlir::ModuleOp module);

/// `kerf inspect`: text for people or one JSON object. `module` may be null
/// (then FLOPs are unknown).
void printInspection(llvm::raw_ostream &stream, const ImportReport &report,
                     mlir::ModuleOp module);
void printInspectionJson(llvm::raw_ostream &stream, const ImportReport &report,
                         mlir::ModuleOp module);

} // namespace kerf

#endif // KERF_IMPORT_IMPORT_H
