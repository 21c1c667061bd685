//===- Data.h - training data in mapped files -------------------*- C++ -*-===//
//
// Problem: samples come as .npz, safetensors, a folder of .npy files or one
// flat file of tokens, larger than memory, and must meet the inputs of a
// training step by name, shape and type.
//
// Idea: everything becomes arrays of mapped memory, then *columns*: for each
// input a base pointer, a stride from sample to sample and an exact conversion
// to the input's type. Windows of tokens are columns whose stride is shorter
// than the file, so inputs and next-token labels share its bytes.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_DATA_H
#define KERF_RT_TRAIN_DATA_H

#include "../run/Arrays.h"
#include "../run/Convert.h"
#include "kerf/rt/train.h"

#include <string>

namespace kerf::rt {

struct DataSet {
  std::string path;
  std::vector<DataArray> arrays; ///< sorted by name
  bool isTokens = false;         ///< one flat array of integers
  bool isBytes = false;          ///< tokens are the bytes of the file
  int64_t sequenceLength = 0;    ///< of tokens; 0: as the input has it
};

/// Opens `path`: *.npz, *.safetensors, a folder of *.npy, or tokens: a *.npy of
/// one dimension, *.bin (16 bits, little endian), *.txt and *.u8 (bytes).
/// `sequenceLength` > 0 is for tokens only. Throws KERF_INVALID_ARGUMENT or
/// KERF_IO_ERROR naming the file.
DataSet openData(const std::string &path, int64_t sequenceLength);

/// What a step wants: a batch of samples along dimension 0, or one array that
/// is the same in every step.
struct DataInput {
  std::string name;
  kerf_dtype_t dtype = KERF_F32;
  Shape shape; ///< with the batch; -1: open
  bool isLabels = false;
  std::vector<std::string> symbols = {}; ///< of open sizes
  bool isShared = false;                 ///< the same in every step
  const TrainLoss *loss = nullptr;       ///< that has the labels
};

/// Whether an input is the same in every step: a single number, or `options`
/// says so.
bool isSharedInput(const TrainOptions &options, const kerf_tensor_info_t &info);
/// Samples in a batch: the leading size of the first input that has samples; 0
/// if none has.
int64_t batchOf(const std::vector<DataInput> &inputs);

/// Samples of one input, or what all samples share.
struct Column {
  std::string name;
  kerf_dtype_t dtype = KERF_F32; ///< of the input
  const char *data = nullptr;
  int64_t strideBytes = 0; ///< from sample to sample, as stored
  int64_t elements = 0;    ///< of one sample, or of the array that all share
  ConvertFn convert = nullptr;
  bool isLabels = false;
  bool isShared = false; ///< every sample is the same, and stands once
  std::shared_ptr<const void> owner;

  int64_t sampleBytes() const { return elements * dtypeSize(dtype); }
  /// Sample `index`, converted, to `to`.
  void read(int64_t index, char *to) const {
    convert(data + index * strideBytes, to, elements);
  }
};

struct Samples {
  int64_t count = 0;
  std::vector<Column> columns;            ///< as the inputs
  bool isTokens = false, isBytes = false; ///< DataSet's
  /// Which arrays no input reads, as a note; empty: each is read.
  std::string unread;
};

/// Finds every input in the data. Tokens: the only integer input that is not
/// labels gets tokens [i, i+s), labels get [i+1, i+s+1), for i = 0, s, 2s, ...
/// Throws KERF_INVALID_ARGUMENT showing both sides where they do not fit.
Samples bindColumns(const DataSet &data, const std::vector<DataInput> &inputs);

/// Labels of classes are compared, and the last batch is filled up with ignored
/// ones: both need a type that can say so. Throws KERF_INVALID_ARGUMENT.
void requireLabelType(const DataInput &input, const TrainLoss &loss);

/// A number that other samples hardly have: XXH3 of names, types, sizes and of
/// up to 256 samples, evenly spread.
uint64_t fingerprint(const Samples &samples);

/// Looks at every label of every sample of the file `path`: one that is neither
/// in [0, classes) nor one that the loss ignores throws KERF_INVALID_ARGUMENT,
/// which names file and sample, or the place of a token in a flat file. Labels
/// that are no integers have no range.
void requireLabels(const Samples &samples, const TrainLoss &loss,
                   const std::string &path);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_DATA_H
