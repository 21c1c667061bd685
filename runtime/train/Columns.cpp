//===- Columns.cpp - samples meet the inputs of a step --------------------===//
//
// See Data.h.
//
//===----------------------------------------------------------------------===//
#include "Data.h"

#include "kerf/Format/ClosestName.h"

#include <algorithm>

using namespace kerf::rt;

namespace {
std::string typed(kerf_dtype_t dtype, const Shape &shape) {
  return cat(kerf_dtype_name(dtype), " ", shapeString(shape));
}

[[noreturn]] void bad(const DataSet &data, const std::string &reason) {
  throw Error(KERF_INVALID_ARGUMENT, data.path + ": " + reason);
}

std::string listOf(const std::vector<DataArray> &arrays) {
  std::string text;
  for (const DataArray &array : arrays)
    text +=
        cat(text.empty() ? "" : ", ", "\"", array.name, "\" (",
            array.error.empty() ? typed(array.dtype, array.shape)
                                : std::string("of a type that is not taken"),
            ")");
  return text;
}

/// The shape of an input's samples, N of them: Nx16, or N x seq where sizes are
/// open.
std::string samplesText(const DataInput &input) {
  bool isOpen = std::any_of(input.shape.begin(), input.shape.end(),
                            [](int64_t size) { return size < 0; });
  std::string text = "N";
  for (size_t i = 1; i < input.shape.size(); ++i)
    text += cat(isOpen ? " x " : "x", input.shape[i] < 0
                                          ? input.symbols[i]
                                          : std::to_string(input.shape[i]));
  return text;
}

/// The shape, with any number of samples.
Shape samplesOf(const DataInput &input) {
  Shape shape = input.shape;
  if (!shape.empty())
    shape[0] = -1;
  return shape;
}

std::string whoExpects(const DataInput &input) {
  return input.isLabels ? cat("labels \"", input.name, "\" expect ")
                        : cat("input \"", input.name, "\" expects ");
}

/// The loss with classes along dimension 1, as the user would write it.
std::string alongOne(const TrainLoss &loss) {
  size_t end = loss.text.rfind(')');
  return end == std::string::npos
             ? "dim=1"
             : loss.text.substr(0, end) + ",dim=1" + loss.text.substr(end);
}

/// What may be meant by labels of a shape that does not fit: those of another
/// dimension of classes, one-hot ones, numbers of classes.
std::string whatLabelsAre(const DataArray &array, const DataInput &input) {
  if (!input.isLabels)
    return "";
  if (input.dtype != KERF_I64)
    return isInteger(array.dtype) &&
                   array.shape.size() + 1 == input.shape.size()
               ? "; numbers of classes are for cross_entropy"
               : "";
  Shape output = input.loss ? input.loss->outputShape : Shape();
  auto isSample = [&](const Shape &shape) {
    return !shape.empty() && array.shape.size() == shape.size() &&
           std::equal(shape.begin() + 1, shape.end(), array.shape.begin() + 1);
  };
  // Classes are the last dimension where nothing else is said.
  bool isOpen = output.size() > 2 && input.loss->classDim == -1;
  Shape others = output;
  if (isOpen)
    others.erase(others.begin() + 1);
  if (isOpen && isSample(others))
    return cat(", or ", alongOne(*input.loss),
               " for classes along dimension 1");
  if (array.shape.size() != input.shape.size() + 1 || array.shape.back() <= 1)
    return "";
  if (isOpen && isSample(output))
    return cat("; of one-hot labels that is NumPy's .argmax(-1), or .argmax(1) "
               "with ",
               alongOne(*input.loss), " for classes along dimension 1");
  return cat("; of one-hot labels that is NumPy's .argmax(",
             isSample(output) ? input.loss->classDim : -1, ")");
}

/// The array that has an input's samples, or the input itself if samples share
/// it; null if there is none.
const DataArray *findArray(const DataSet &data, const DataInput &input) {
  auto it = std::find_if(
      data.arrays.begin(), data.arrays.end(),
      [&](const DataArray &array) { return array.name == input.name; });
  if (it == data.arrays.end())
    return nullptr;
  if (!it->error.empty())
    bad(data, it->error);
  bool fits = it->shape.size() == input.shape.size();
  for (size_t i = !input.isShared; fits && i < it->shape.size(); ++i)
    fits = input.shape[i] < 0 || it->shape[i] == input.shape[i];
  if (!fits && input.isShared)
    bad(data, cat("array \"", it->name, "\" has shape ", shapeString(it->shape),
                  ", ", whoExpects(input), shapeString(input.shape),
                  ", the same in every step: it has no dimension of samples"));
  bool isVectors = input.isLabels && input.dtype == KERF_I64 &&
                   it->shape.size() == input.shape.size() + 1;
  if (!fits)
    bad(data,
        cat("array \"", it->name, "\" has shape ", shapeString(it->shape), ", ",
            whoExpects(input), samplesText(input), " (N samples",
            isVectors ? ", each the number of its class)" : ")",
            howToFit(it->shape, samplesOf(input)), whatLabelsAre(*it, input)));
  return &*it;
}

ConvertFn requireExact(const DataSet &data, const DataArray &array,
                       const DataInput &input) {
  if (ConvertFn fn = exactConversion(array.dtype, input.dtype))
    return fn;
  bad(data,
      cat("array \"", array.name, "\" is ", typed(array.dtype, array.shape),
          ", ", whoExpects(input), kerf_dtype_name(input.dtype),
          doesNotHold(input.dtype, array.dtype)));
}

/// Names the arrays that no input reads: a slip, or more than the step needs.
std::string unreadArrays(const DataSet &data,
                         const std::vector<DataInput> &inputs) {
  std::string names;
  int64_t count = 0;
  for (const DataArray &array : data.arrays)
    if (std::none_of(inputs.begin(), inputs.end(), [&](const DataInput &input) {
          return input.name == array.name;
        }))
      names += cat(count++ ? ", " : "", "\"", array.name, "\"");
  return count == 0 ? ""
                    : cat(data.path, ": the step reads no ",
                          count == 1 ? "array " : "arrays ", names);
}

Samples bindArrays(const DataSet &data, const std::vector<DataInput> &inputs) {
  Samples samples;
  samples.count = -1;
  const DataArray *first = nullptr;
  for (const DataInput &input : inputs) {
    const DataArray *found = findArray(data, input);
    if (!found) {
      std::vector<std::string> names;
      for (const DataArray &array : data.arrays)
        names.push_back(array.name);
      std::string close = kerf::closestInput(input.name, names);
      bad(data,
          cat("no array for ", input.isLabels ? "labels" : "input", " \"",
              input.name, "\" (", typed(input.dtype, input.shape), ")",
              ", there are: ", listOf(data.arrays),
              close.empty() ? "" : cat("; did you mean \"", close, "\"?")));
    }
    const DataArray &array = *found;
    if (!first && !input.isShared) {
      first = &array;
      samples.count = array.shape[0];
    }
    if (!input.isShared && array.shape[0] != samples.count)
      bad(data, cat("array \"", array.name, "\" has ", array.shape[0],
                    " samples, \"", first->name, "\" has ", samples.count));
    Column column;
    column.name = input.name;
    column.dtype = input.dtype;
    column.data = array.data;
    column.elements = numElements(
        Shape(input.shape.begin() + !input.isShared, input.shape.end()));
    column.strideBytes =
        input.isShared ? 0 : column.elements * dtypeSize(array.dtype);
    column.convert = requireExact(data, array, input);
    column.isLabels = input.isLabels;
    column.isShared = input.isShared;
    column.owner = array.owner;
    samples.columns.push_back(std::move(column));
  }
  samples.unread = unreadArrays(data, inputs);
  return samples;
}

Samples bindTokens(const DataSet &data, const std::vector<DataInput> &inputs) {
  const DataArray &tokens = data.arrays.front();
  const DataInput *text = nullptr;
  for (const DataInput &input : inputs) {
    if (input.isLabels)
      continue;
    if (text || !isInteger(input.dtype) || input.shape.size() != 2)
      bad(data, cat("tokens can only feed a model with one input, integers of "
                    "shape batch x sequence; ",
                    text ? "there are " : "there is ",
                    text ? cat("\"", text->name, "\" and ") : "", "\"",
                    input.name, "\" (", typed(input.dtype, input.shape), ")"));
    text = &input;
  }
  if (!text)
    bad(data, "the model has no input for tokens");
  int64_t length = text->shape[1];
  if (data.sequenceLength > 0 && data.sequenceLength != length)
    bad(data, cat("option sequence-length is ", data.sequenceLength,
                  ", input \"", text->name, "\" has sequences of ", length));
  Samples samples;
  samples.isTokens = true;
  samples.isBytes = data.isBytes;
  samples.count = length > 0 ? (tokens.shape[0] - 1) / length : 0;
  if (samples.count < 1)
    bad(data, cat("has ", tokens.shape[0], " tokens, a sequence of ", length,
                  " and its labels need ", length + 1));
  for (const DataInput &input : inputs) {
    if (input.isLabels && (input.shape.size() != 2 || input.shape[1] != length))
      bad(data, cat("labels \"", input.name, "\" are ",
                    typed(input.dtype, input.shape),
                    ", next tokens are one for each of the ", length,
                    " of a sequence"));
    Column column;
    column.name = input.name;
    column.dtype = input.dtype;
    column.data = tokens.data + (input.isLabels ? dtypeSize(tokens.dtype) : 0);
    column.elements = length;
    column.strideBytes = length * dtypeSize(tokens.dtype);
    column.convert = requireExact(data, tokens, input);
    column.isLabels = input.isLabels;
    column.owner = tokens.owner;
    samples.columns.push_back(std::move(column));
  }
  return samples;
}
} // namespace

bool kerf::rt::isSharedInput(const TrainOptions &options,
                             const kerf_tensor_info_t &info) {
  return info.rank == 0 ||
         std::find(options.sharedInputs.begin(), options.sharedInputs.end(),
                   info.name) != options.sharedInputs.end();
}

int64_t kerf::rt::batchOf(const std::vector<DataInput> &inputs) {
  for (const DataInput &input : inputs)
    if (!input.isShared && !input.shape.empty())
      return input.shape[0];
  return 0;
}

Samples kerf::rt::bindColumns(const DataSet &data,
                              const std::vector<DataInput> &inputs) {
  if (std::all_of(inputs.begin(), inputs.end(),
                  [](const DataInput &input) { return input.isShared; }))
    bad(data, "the model has no inputs to feed with samples");
  for (const DataInput &input : inputs)
    if (!input.isShared &&
        (input.shape.empty() || input.shape[0] != batchOf(inputs)))
      bad(data,
          cat("input \"", input.name, "\" has shape ", shapeString(input.shape),
              ", expected its first dimension to be the batch of ",
              batchOf(inputs)));
  return data.isTokens ? bindTokens(data, inputs) : bindArrays(data, inputs);
}

bool kerf::rt::matchData(const std::string &path,
                         const std::vector<InputSpec> &inputs,
                         std::vector<std::optional<GivenInput>> &given,
                         std::string &error) {
  given.clear();
  try {
    DataSet data = openData(path, 0);
    if (data.isTokens)
      return true;
    for (const InputSpec &input : inputs) {
      auto &array = given.emplace_back();
      if (input.shape.empty()) // has no open size
        continue;
      if (const DataArray *found =
              findArray(data, {input.name, input.dtype, input.shape,
                               /*isLabels=*/false, input.symbols}))
        array = {path,         0,           found->dtype,
                 found->shape, found->data, found->owner};
    }
    return true;
  } catch (...) {
    error = currentError().message;
    return false;
  }
}
