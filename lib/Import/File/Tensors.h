//===- Tensors.h - the model's files and the tensors in them ----*- C++ -*-===//
//
// A TensorProto is a type and a payload: a range of the model file, a range of
// an external file, or typed numbers. Every size is checked against the payload
// before anything is allocated, and payloads in files are not copied.
//===----------------------------------------------------------------------===//
#ifndef KERF_LIB_IMPORT_FILE_TENSORS_H
#define KERF_LIB_IMPORT_FILE_TENSORS_H

#include "kerf/Support/MappedFile.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include "onnx.pb.h"

#include <map>
#include <optional>
#include <vector>

namespace kerf::onnx_import {

/// Tensors larger than this are refused before allocation (2^47 bytes).
constexpr int64_t kMaxTensorBytes = int64_t(1) << 47;

/// Larger tensors are used where they lie in their file, unless no shape or
/// mask is computed from them anyway.
constexpr int64_t kMaxConstantBytes = 16 << 20;

/// Elements that a file has in a byte: 1, but for types of 4 and 2 bits.
int64_t elementsPerByte(mlir::Type element);

/// Bytes that the elements occupy; none if negative or over kMaxTensorBytes.
std::optional<int64_t> tensorBytes(llvm::ArrayRef<int64_t> shape,
                                   mlir::Type element);

/// The element type for an ONNX data type; null if Kerf does not have it.
mlir::Type elementType(mlir::MLIRContext *context, int64_t dataType);
/// ONNX's name of a data type, "float16"; "data type 99" if it is unknown.
std::string dataTypeName(int64_t dataType);

/// A tensor's type and bytes (raw little-endian; elements of less than 8 bits
/// as one byte each).
struct TensorData {
  std::string name;
  mlir::RankedTensorType type;
  int64_t file = -1;   ///< index of the file, -1 if the bytes are `owned`
  uint64_t offset = 0; ///< in that file
  int64_t sizeBytes = 0;
  llvm::ArrayRef<uint8_t> bytes; ///< empty if the file is absent
  /// The file is not there: only the type is known.
  bool isAbsent = false;
  /// The bytes are those of the file, with several elements in each.
  bool isPacked = false;
  std::vector<uint8_t> owned;
};

/// The elements as an attribute (copies them).
mlir::DenseElementsAttr toElements(const TensorData &data);

/// Whether an element of a tensor of floats is infinite.
bool holdsInfinity(const TensorData &data);

class ModelFiles {
public:
  /// Maps the model. Null on failure with the reason.
  static std::unique_ptr<ModelFiles>
  open(llvm::StringRef path, bool allowAbsentData, std::string &error);

  llvm::ArrayRef<uint8_t> modelBytes() const { return files[0]->bytes(); }
  /// Absolute paths, in the order that nn.weight's `file` counts.
  std::vector<std::string> paths() const;
  llvm::ArrayRef<uint8_t> bytes(int64_t file) const {
    return files[file]->bytes();
  }
  bool isAbsent(int64_t file) const { return files[file]->isAbsent(); }

  /// Why a tensor cannot be had.
  enum class Fault { Malformed, UnsupportedType, NoFile };
  /// Checks the tensor and finds its bytes. None on failure with the reason.
  std::optional<TensorData> read(mlir::MLIRContext *context,
                                 const onnx::TensorProto &tensor,
                                 std::string &error, Fault &fault);

private:
  /// Finds the payload, of `size` bytes, or the typed numbers.
  bool readBytes(const onnx::TensorProto &tensor, int64_t size,
                 const std::string &shape, TensorData &data, std::string &error,
                 Fault &fault);
  bool readExternal(const onnx::TensorProto &tensor, int64_t size,
                    TensorData &data, std::string &error, Fault &fault);
  bool readTyped(const onnx::TensorProto &tensor, int64_t count,
                 TensorData &data, std::string &error);

  std::string modelPath, directory;
  bool allowAbsentData = false;
  std::vector<std::unique_ptr<MappedFile>> files;
  std::map<std::string, int64_t> externals;
};

} // namespace kerf::onnx_import

#endif // KERF_LIB_IMPORT_FILE_TENSORS_H
