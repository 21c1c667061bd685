//===- inputs.h - what --input gives to which input -------------*- C++ -*-===//
//
// A flag is NAME=@FILE.npy, NAME=@FILE.npz (its array of that name),
// NAME=NUMBER, FILE.npy for the only input there is, or @FILE.npz for all whose
// names it has; of a boolean input the number is true or false as well. Whoever
// knows the inputs, a package or a model that is not compiled yet, asks here
// which of them are given and whether they fit; sizes that are open take any.
// Messages are one line and say inputs, files and sizes as the user does.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_INPUTS_H
#define KERF_RT_INPUTS_H

#include "kerf/rt/run.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kerf::rt {

/// Whether exporters call an input of tokens so: input_ids, decoder_input_ids,
/// tokens, token_ids, ids, idx. Other integers may be categories.
bool namesTokens(const std::string &name);

struct InputSpec {
  std::string name;
  kerf_dtype_t dtype = KERF_F32;
  std::vector<int64_t> shape;       ///< -1: open
  std::vector<std::string> symbols; ///< of open sizes; may be shorter
  bool takesAny = false;            ///< its type and shape are not known yet
  bool isOfFile = false; ///< sizes that are not open are the model file's
};

/// An array where it lies in its file, or a number for every element.
struct GivenInput {
  std::string file; ///< empty: `number`
  double number = 0;
  kerf_dtype_t dtype = KERF_F32; ///< as stored
  std::vector<int64_t> shape;
  const char *data = nullptr; ///< unaligned, lives as long as `owner`
  std::shared_ptr<const void> owner;
};

/// "x=@x.npy,mask=1" as two flags, and every other as it is. A comma that a
/// file has in its name is left there.
std::vector<std::string> eachInput(const std::vector<std::string> &flags);

/// What `flags` give to each of `inputs`. `program` stands in front of messages
/// about names. False and `error` where a flag, a name, a type, a rank or a
/// size is wrong; types must hold every value of the file's.
bool matchInputs(const std::vector<std::string> &flags,
                 const std::vector<InputSpec> &inputs,
                 const std::string &program,
                 std::vector<std::optional<GivenInput>> &given,
                 std::string &error);

/// The elements in the input's type, whose shape has no open size.
HostTensor inputTensor(const GivenInput &given, const InputSpec &input);

/// How NumPy makes an array of one shape have another, whose open sizes are
/// -1, where that is likely to be meant: channels last, a sample without its
/// batch, a dimension of size 1 behind the others. Empty: it is not known.
std::string howToFit(const std::vector<int64_t> &found,
                     const std::vector<int64_t> &wanted);

/// Empty, or what is said where some are not given by `flags` and none are to
/// be drawn.
std::string missingInputs(const std::vector<InputSpec> &inputs,
                          const std::vector<std::optional<GivenInput>> &given,
                          const std::vector<std::string> &flags,
                          const std::string &program);

/// The arrays of a flag that gives a whole .npz file; empty for others.
std::vector<std::string> arraysOf(const std::string &flag);

/// What a packed .npz takes in memory once it is open; 0 for other files, which
/// are mapped, and for what cannot be read.
int64_t unpackedBytes(const std::string &path);

/// The file of a flag; empty if it has none.
std::string inputFile(const std::string &flag);

} // namespace kerf::rt

#endif // KERF_RT_INPUTS_H
