//===- Inputs.cpp - what --input gives to which input ---------------------===//
#include "kerf/rt/inputs.h"

#include "kerf/Format/ClosestName.h"

#include "../base/MappedFile.h"
#include "Arrays.h"
#include "Convert.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::rt;

namespace {
struct Flag {
  std::string name, file, number; ///< name empty: a file for who fits
};

[[noreturn]] void wrong(const std::string &message) {
  throw Error(KERF_INVALID_ARGUMENT, message);
}

bool namesArrays(const std::string &text) {
  return endsWith(text, ".npy") || endsWith(text, ".npz") ||
         endsWith(text, ".pt") || endsWith(text, ".pth");
}

Flag parseFlag(const std::string &text) {
  if (text.size() > 1 && text[0] == '@')
    return {"", text.substr(1), ""};
  if (size_t at = text.find("=@"); at != std::string::npos) {
    return {text.substr(0, at), text.substr(at + 2), ""};
  }
  size_t equals = text.find('=');
  if (namesArrays(text)) {
    if (equals != std::string::npos && ::access(text.c_str(), F_OK) != 0)
      wrong(cat(text, ": no such file; a file by an input's name has an @: ",
                "option input ", text.substr(0, equals), "=@",
                text.substr(equals + 1)));
    return {"", text, ""};
  }
  struct stat status = {};
  if (equals == std::string::npos && ::stat(text.c_str(), &status) == 0 &&
      S_ISDIR(status.st_mode))
    wrong(cat("option input '", text, "': is a folder, expected a file"));
  if (equals == std::string::npos)
    wrong(cat("option input '", text,
              "': expected NAME=@FILE.npy, NAME=NUMBER, FILE.npy or "
              "@FILE.npz"));
  return {text.substr(0, equals), "", text.substr(equals + 1)};
}

/// Whether a text gives an input, so that another may follow its comma.
bool isWhole(const std::string &text) {
  return text[0] == '@' || text.find('=') != std::string::npos ||
         namesArrays(text);
}

/// Whether a further input begins there: @FILE or NAME=.
bool beginsInput(const std::string &text, size_t at) {
  size_t stop = text.find_first_of(",=", at);
  return text[at] == '@' ||
         (stop != std::string::npos && stop > at && text[stop] == '=');
}

/// How long the first of the inputs in `text` is. A name of a file may have
/// commas, so the longest file that is there is taken.
size_t firstInput(const std::string &text) {
  std::vector<size_t> ends;
  for (size_t at = text.find(','); at != std::string::npos;
       at = text.find(',', at + 1))
    if (isWhole(text.substr(0, at)) && beginsInput(text, at + 1))
      ends.push_back(at);
  ends.push_back(text.size());
  size_t name = text.find("=@");
  size_t begin = text[0] == '@' ? 1 : name < ends.front() ? name + 2 : 0;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end)
    if (*end > begin &&
        ::access(text.substr(begin, *end - begin).c_str(), F_OK) == 0)
      return *end;
  return ends.front();
}

std::string quotedList(const std::vector<DataArray> &arrays) {
  std::string text;
  for (const DataArray &array : arrays)
    text += cat(text.empty() ? "\"" : ", \"", array.name, "\"");
  return text.empty() ? "none" : text;
}

std::vector<std::string> namesOf(const std::vector<InputSpec> &inputs) {
  std::vector<std::string> names;
  for (const InputSpec &input : inputs)
    names.push_back(input.name);
  return names;
}

std::string joined(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

/// A type as f32 2x3; one dimension in brackets, so that it looks like a shape.
std::string typeText(kerf_dtype_t dtype, const std::vector<int64_t> &shape) {
  std::string text = cat(kerf_dtype_name(dtype), " ");
  return shape.size() == 1 ? cat(text, "[", shape[0], "]")
                           : text + shapeString(shape);
}

/// As above, but "f32 [batch, 32]" where sizes are open.
std::string typed(const InputSpec &input) {
  std::string text = kerf_dtype_name(input.dtype);
  bool isOpen = std::any_of(input.shape.begin(), input.shape.end(),
                            [](int64_t size) { return size < 0; });
  if (!isOpen)
    return typeText(input.dtype, input.shape);
  text += " [";
  for (size_t i = 0; i < input.shape.size(); ++i) {
    bool isNamed = input.shape[i] < 0 && i < input.symbols.size();
    text += cat(i ? ", " : "",
                isNamed ? input.symbols[i] : std::to_string(input.shape[i]));
  }
  return text + "]";
}

std::vector<DataArray> openArrays(const std::string &path) {
  try {
    if (endsWith(path, ".npz"))
      return openNpz(path);
    auto file = std::make_shared<MappedFile>(path);
    return {npyArray("", file->data(), file->size(), file)};
  } catch (const Error &error) {
    if (endsWith(path, ".pt") || endsWith(path, ".pth"))
      if (::access(path.c_str(), R_OK) == 0)
        wrong(path + ": is a file of PyTorch's torch.save, expected one of "
                     "NumPy: numpy.save(FILE, t.numpy()) writes a tensor so");
    if (size_t at = path.rfind(".npz:"); at != std::string::npos)
      wrong(error.message +
            "; of an archive the array of the input's name is "
            "taken: option input NAME=@" +
            path.substr(0, at + 4));
    if (error.code == KERF_IO_ERROR) // names the file already
      throw;
    wrong(path + ": " + error.message);
  }
}

/// Checks that an array of `file` can be the input's value.
GivenInput fitting(const DataArray &array, const std::string &file,
                   const InputSpec &input) {
  if (!array.error.empty())
    wrong(file + ": " + array.error);
  std::string is = cat(file, array.name.empty() ? "" : ":" + array.name,
                       ": is ", typeText(array.dtype, array.shape),
                       ", input \"", input.name, "\" expects ", typed(input));
  GivenInput given = {file,        0,          array.dtype,
                      array.shape, array.data, array.owner};
  if (input.takesAny)
    return given;
  bool fits = array.shape.size() == input.shape.size();
  if (fits && input.isOfFile && !input.shape.empty() && input.shape[0] >= 0 &&
      array.shape[0] != input.shape[0])
    is += ", a size that the model's file fixes: an export with dynamic_shapes "
          "(torch.onnx.export) leaves it open";
  for (size_t i = 0; fits && i < array.shape.size(); ++i)
    fits = input.shape[i] < 0 || array.shape[i] == input.shape[i];
  if (!fits)
    wrong(is + howToFit(array.shape, input.shape));
  if (!exactConversion(array.dtype, input.dtype))
    wrong(is + doesNotHold(input.dtype, array.dtype));
  return given;
}

bool isFloat(kerf_dtype_t dtype) {
  return dtype == KERF_F32 || dtype == KERF_F64 || dtype == KERF_F16 ||
         dtype == KERF_BF16;
}

/// The largest finite number of a type of floats.
double largestOf(kerf_dtype_t dtype) {
  switch (dtype) {
  case KERF_F16:
    return 65504;
  case KERF_BF16:
    return 0x1.fep127;
  case KERF_F32:
    return std::numeric_limits<float>::max();
  default:
    return std::numeric_limits<double>::max();
  }
}

/// Whether an input can be given this number. Floats are rounded; integers must
/// be what was written.
bool holds(kerf_dtype_t dtype, const std::string &text, double number) {
  if (isFloat(dtype))
    return !std::isfinite(number) || std::abs(number) <= largestOf(dtype);
  if (!(std::abs(number) < 9e18) || number != std::floor(number))
    return false;
  auto integer = static_cast<int64_t>(number);
  char *end = nullptr;
  int64_t written = std::strtoll(text.c_str(), &end, 10);
  if (!*end && written != integer) // more digits than a double has
    return false;
  if (dtype == KERF_BOOL)
    return integer == 0 || integer == 1;
  bool isSigned = dtype == KERF_I8 || dtype == KERF_I16 || dtype == KERF_I32 ||
                  dtype == KERF_I64;
  auto bits = static_cast<int>(8 * kerf_dtype_size(dtype));
  double limit = std::ldexp(1, isSigned ? bits - 1 : bits);
  return number >= (isSigned ? -limit : 0) && number < limit;
}

GivenInput numberOf(const std::string &given, const InputSpec &input) {
  bool isBool = input.dtype == KERF_BOOL && !input.takesAny;
  std::string text = !isBool                                ? given
                     : given == "true" || given == "True"   ? "1"
                     : given == "false" || given == "False" ? "0"
                                                            : given;
  char *end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  if (isBool && (text.empty() || *end || !holds(KERF_BOOL, text, number)))
    wrong(cat("input \"", input.name, "\": '", text,
              "' is no value of type bool, expected true, false, 1, 0 or "
              "@FILE.npy"));
  if (text.empty() || *end)
    wrong(cat("input \"", input.name, "\": '", text,
              "' is neither @FILE.npy nor a number"));
  if (codeBits(input.dtype))
    wrong(cat("input \"", input.name, "\": is ", kerf_dtype_name(input.dtype),
              ", which is given as @FILE.npy alone"));
  if (!input.takesAny && !holds(input.dtype, text, number))
    wrong(cat("input \"", input.name, "\": '", text,
              "' is not a number of type ", kerf_dtype_name(input.dtype)));
  GivenInput result;
  result.number = number;
  result.dtype = input.dtype;
  return result;
}

class Matcher {
public:
  Matcher(const std::vector<InputSpec> &inputs, const std::string &program,
          std::vector<std::optional<GivenInput>> &given)
      : inputs(inputs), program(program), given(given) {
    given.assign(inputs.size(), std::nullopt);
  }
  void take(const std::string &text);
  /// An array that is no input, where one with nearly its name is not given.
  void checkUnused() const;

private:
  size_t indexOf(const std::string &name) const {
    auto it =
        std::find_if(inputs.begin(), inputs.end(), [&](const InputSpec &input) {
          return input.name == name;
        });
    return static_cast<size_t>(it - inputs.begin());
  }
  void give(size_t index, GivenInput value) {
    if (given[index])
      wrong(cat("input \"", inputs[index].name, "\" is given twice"));
    given[index] = std::move(value);
  }
  [[noreturn]] void unknown(const std::string &name) const;
  void takeAll(const std::string &file);

  const std::vector<InputSpec> &inputs;
  const std::string &program;
  std::vector<std::optional<GivenInput>> &given;
  std::vector<std::pair<std::string, std::string>> unused; ///< file, array
};

void Matcher::unknown(const std::string &name) const {
  std::vector<std::string> names = namesOf(inputs);
  std::string close = kerf::closestInput(name, names);
  wrong(cat(program, ": no input \"", name, "\", ",
            close.empty() ? "there are: " + joined(names)
                          : "did you mean \"" + close + "\"?"));
}

/// A file without a name in front.
void Matcher::takeAll(const std::string &file) {
  std::vector<DataArray> arrays = openArrays(file);
  if (!endsWith(file, ".npz")) {
    if (inputs.size() != 1)
      wrong(cat(program, ": has ", inputs.size(),
                " inputs, expected option input NAME=@", file,
                " with one of: ", joined(namesOf(inputs))));
    return give(0, fitting(arrays.front(), file, inputs.front()));
  }
  bool any = false;
  for (const DataArray &array : arrays)
    if (size_t index = indexOf(array.name); index < inputs.size()) {
      give(index, fitting(array, file, inputs[index]));
      any = true;
    } else {
      unused.emplace_back(file, array.name);
    }
  if (!any)
    wrong(cat(file, ": none of its arrays (", quotedList(arrays),
              ") is an input, expected some of: ", joined(namesOf(inputs))));
}

void Matcher::checkUnused() const {
  std::vector<std::string> absent;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!given[i])
      absent.push_back(inputs[i].name);
  for (const auto &[file, name] : unused)
    if (std::string close = kerf::closestName(name, absent); !close.empty())
      wrong(cat(file, ": array \"", name, "\" is no input, and input \"", close,
                "\" is not given: did you mean that?"));
}

void Matcher::take(const std::string &text) {
  Flag flag = parseFlag(text);
  if (flag.name.empty() && !flag.file.empty())
    return takeAll(flag.file);
  size_t index = indexOf(flag.name);
  if (index == inputs.size())
    unknown(flag.name);
  const InputSpec &input = inputs[index];
  if (flag.file.empty())
    return give(index, numberOf(flag.number, input));
  std::vector<DataArray> arrays = openArrays(flag.file);
  auto array = arrays.begin();
  if (endsWith(flag.file, ".npz")) {
    array =
        std::find_if(arrays.begin(), arrays.end(), [&](const DataArray &each) {
          return each.name == input.name;
        });
    if (array == arrays.end())
      wrong(cat(flag.file, ": has no array \"", input.name,
                "\", there are: ", quotedList(arrays)));
  }
  give(index, fitting(*array, flag.file, input));
}

void fillNumber(double value, HostTensor &tensor) {
  size_t count = tensor.data.size() / kerf_dtype_size(tensor.dtype);
  auto fill = [&](auto number) {
    for (size_t i = 0; i < count; ++i)
      std::memcpy(tensor.data.data() + i * sizeof(number), &number,
                  sizeof(number));
  };
  auto integer = static_cast<int64_t>(value);
  switch (tensor.dtype) {
  case KERF_F32:
    return fill(static_cast<float>(value));
  case KERF_F64:
    return fill(value);
  case KERF_F16:
    return fill(static_cast<_Float16>(value));
  case KERF_BF16: {
    float f = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return fill(
        static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16));
  }
  case KERF_BOOL:
    return fill(static_cast<uint8_t>(value != 0));
  case KERF_I8:
  case KERF_U8:
    return fill(static_cast<uint8_t>(integer));
  case KERF_I16:
  case KERF_U16:
    return fill(static_cast<uint16_t>(integer));
  case KERF_I32:
  case KERF_U32:
    return fill(static_cast<uint32_t>(integer));
  case KERF_I64:
  case KERF_U64:
    return fill(static_cast<uint64_t>(integer));
  default: // codes are not given as numbers
    return;
  }
}
} // namespace

std::vector<std::string>
kerf::rt::eachInput(const std::vector<std::string> &flags) {
  std::vector<std::string> inputs;
  for (std::string rest : flags)
    while (true) {
      size_t length = firstInput(rest);
      inputs.push_back(rest.substr(0, length));
      if (length == rest.size())
        break;
      rest = rest.substr(length + 1);
    }
  return inputs;
}

bool kerf::rt::matchInputs(const std::vector<std::string> &flags,
                           const std::vector<InputSpec> &inputs,
                           const std::string &program,
                           std::vector<std::optional<GivenInput>> &given,
                           std::string &error) {
  try {
    Matcher matcher(inputs, program, given);
    for (const std::string &flag : flags)
      matcher.take(flag);
    matcher.checkUnused();
    return true;
  } catch (...) {
    error = currentError().message;
    return false;
  }
}

HostTensor kerf::rt::inputTensor(const GivenInput &given,
                                 const InputSpec &input) {
  HostTensor tensor;
  tensor.dtype = input.dtype;
  tensor.shape = input.shape;
  tensor.data.resize(static_cast<size_t>(numBytes(input.shape, input.dtype)));
  if (given.file.empty())
    fillNumber(given.number, tensor);
  else if (!tensor.data.empty())
    exactConversion(given.dtype, input.dtype)(given.data, tensor.data.data(),
                                              numElements(input.shape));
  return tensor;
}

std::string kerf::rt::howToFit(const std::vector<int64_t> &found,
                               const std::vector<int64_t> &wanted) {
  auto fits = [&](const std::vector<int64_t> &shape) {
    bool same = shape.size() == wanted.size();
    for (size_t i = 0; same && i < shape.size(); ++i)
      same = wanted[i] < 0 || shape[i] == wanted[i];
    return same;
  };
  size_t rank = found.size();
  if (rank + 1 == wanted.size() && rank > 0) {
    std::vector<int64_t> one = found;
    one.insert(one.begin(), 1);
    return fits(one) ? "; NumPy's [None] makes it a batch of one" : "";
  }
  if (rank == wanted.size() + 1 && found.back() == 1 &&
      fits({found.begin(), found.end() - 1}))
    return "; NumPy's .squeeze(-1) leaves the last one out";
  if (rank != wanted.size() || rank < 3)
    return "";
  // The last dimension behind the samples, or the one behind these last.
  for (bool isLast : {true, false}) {
    std::vector<int64_t> order;
    for (size_t i = 0; i < rank; ++i)
      order.push_back(static_cast<int64_t>(i));
    if (isLast)
      std::rotate(order.begin() + 1, order.end() - 1, order.end());
    else
      std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    std::vector<int64_t> shape;
    std::string text;
    for (int64_t dim : order) {
      shape.push_back(found[static_cast<size_t>(dim)]);
      text += cat(text.empty() ? "" : ", ", dim);
    }
    if (fits(shape))
      return cat("; NumPy's .transpose(", text,
                 ") brings dimensions into that order");
  }
  return "";
}

std::string
kerf::rt::missingInputs(const std::vector<InputSpec> &inputs,
                        const std::vector<std::optional<GivenInput>> &given,
                        const std::vector<std::string> &flags,
                        const std::string &program) {
  std::string list, name, others;
  size_t count = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (given[i])
      continue;
    list += cat(count ? ", \"" : "\"", inputs[i].name, "\" (", typed(inputs[i]),
                ")");
    name = inputs[i].name;
    ++count;
  }
  if (count == 0)
    return "";
  for (const std::string &flag : flags)
    if (std::vector<std::string> arrays = arraysOf(flag); !arrays.empty())
      others += cat("; arrays of ", inputFile(flag), ": ", joined(arrays));
  return cat(program, count == 1 ? ": input " : ": inputs ", list,
             count == 1 ? " is missing: give option input "
                        : " are missing: give option input ",
             count == 1 ? name : "NAME", "=@FILE.npy",
             count == 1 ? "" : " for each, or option input @FILE.npz",
             ", or option random-inputs or option seed=S for random ones",
             others);
}

std::vector<std::string> kerf::rt::arraysOf(const std::string &flag) {
  std::vector<std::string> names;
  try {
    Flag parsed = parseFlag(flag);
    if (parsed.name.empty() && endsWith(parsed.file, ".npz"))
      for (const DataArray &array : openArrays(parsed.file))
        names.push_back(array.name);
  } catch (const Error &) { // said where it is matched
  }
  return names;
}

std::string kerf::rt::inputFile(const std::string &flag) {
  try {
    return parseFlag(flag).file;
  } catch (const Error &) {
    return ""; // said where it is matched
  }
}

bool kerf::rt::namesTokens(const std::string &name) {
  std::string lower = name;
  for (char &c : lower)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  auto has = [&](const char *part) {
    return lower.find(part) != std::string::npos;
  };
  return lower == "ids" || lower == "idx" || has("input_ids") || has("token");
}
