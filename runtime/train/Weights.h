//===- Weights.h - trained parameters and tensors, by name ------*- C++ -*-===//
//
// Problem: a parameter of the package may be a view of a tensor of the model
// (fused projections are taken apart), may occur twice in the manifest, and
// optimizers add state that the model does not have.
//
// Idea: two lists. *Parameters* are all that steps write, each name once: the
// content of a checkpoint. *Tensors* are those of the model that are stored in
// a file, with the parameters that are parts of them: the content of a trained
// model. Invariant: a tensor is the file's bytes overwritten by every trained
// part.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_WEIGHTS_H
#define KERF_RT_TRAIN_WEIGHTS_H

#include "../base/MappedFile.h"
#include "../base/Types.h"

#include <map>
#include <memory>
#include <optional>

namespace kerf::rt {

class Weights {
public:
  struct Parameter {
    std::string name;
    kerf_dtype_t dtype;
    Shape shape;
    std::vector<int32_t> indices; ///< in the package; all hold the same
    bool isState = false;         ///< an optimizer's
    int64_t bytes() const { return numBytes(shape, dtype); }
  };
  struct Tensor {
    std::string name, file;
    uint64_t offset = 0;
    kerf_dtype_t dtype;
    Shape shape;
    struct Part {
      size_t parameter;
      Shape starts, sizes; ///< empty: all of the tensor
    };
    std::vector<Part> parts; ///< none: frozen
    int64_t bytes() const { return numBytes(shape, dtype); }
  };

  /// Throws if two parameters of one name differ, or on an index out of range.
  explicit Weights(const kerf_package_t *package);

  const std::vector<Parameter> &parameters() const { return all; }
  const std::vector<Tensor> &tensors() const { return stored; }

  /// The global value of a parameter. KERF_MISMATCH where ranks differ.
  void get(kerf_session_t *session, size_t parameter, char *data) const;
  void set(kerf_session_t *session, size_t parameter, const char *data) const;
  /// Of the model's tensors as their files have them, trained or frozen: the
  /// same on every mesh. Reads all of them, once.
  uint64_t fingerprint() const;
  /// The whole tensor after the training so far.
  std::vector<char> gather(kerf_session_t *session, const Tensor &tensor) const;

private:
  std::vector<Parameter> all;
  std::vector<Tensor> stored;
  mutable std::optional<uint64_t> knownFingerprint;
  std::map<std::string, std::shared_ptr<MappedFile>> files;
};

/// Throws what a status says, and frees it.
void checkStatus(kerf_status_t status);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_WEIGHTS_H
