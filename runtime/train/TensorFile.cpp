//===- TensorFile.cpp - checkpoints and safetensors -----------------------===//
#include "TensorFile.h"

#include "../run/AtomicFile.h"

#include <nlohmann/json.hpp>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

using namespace kerf::rt;

static constexpr const char *noHash = "0000000000000000";

std::string kerf::rt::hexDigits(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(hash));
  return text;
}

/// Exponent and fraction alone decide: all ones is infinite or no number.
template <typename Bits>
static int64_t firstBad(const char *data, int64_t count, Bits exponent) {
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof(Bits)),
                sizeof(Bits));
    if ((bits & exponent) == exponent)
      return i;
  }
  return -1;
}

void kerf::rt::requireFinite(const NamedTensor &tensor, const char *data,
                             int64_t step) {
  int64_t count = numElements(tensor.shape), bad = -1;
  if (tensor.dtype == KERF_F32)
    bad = firstBad<uint32_t>(data, count, 0x7f800000u);
  else if (tensor.dtype == KERF_F64)
    bad = firstBad<uint64_t>(data, count, 0x7ff0000000000000ull);
  else if (tensor.dtype == KERF_F16)
    bad = firstBad<uint16_t>(data, count, 0x7c00u);
  else if (tensor.dtype == KERF_BF16)
    bad = firstBad<uint16_t>(data, count, 0x7f80u);
  if (bad >= 0)
    throw Error(KERF_PROGRAM_FAILURE,
                cat("after step ", step, " element ", bad, " of \"",
                    tensor.name,
                    "\" is not a finite number, nothing is written"));
}

static const char *safetensorsType(kerf_dtype_t dtype) {
  constexpr const char *names[] = {"F32", "F64", "F16", "BF16", "I8",
                                   "I16", "I32", "I64", "U8",   "U16",
                                   "U32", "U64", "BOOL"};
  return codeBits(dtype) ? "U8" : names[dtype];
}

namespace {
/// XXH3 of a stream of bytes.
class Hasher {
public:
  Hasher() : state(XXH3_createState()) {
    if (!state)
      throw std::bad_alloc();
    XXH3_64bits_reset(state);
  }
  ~Hasher() { XXH3_freeState(state); }
  Hasher(const Hasher &) = delete;
  Hasher &operator=(const Hasher &) = delete;
  void add(const void *data, size_t bytes) {
    XXH3_64bits_update(state, data, bytes);
  }
  uint64_t value() const { return XXH3_64bits_digest(state); }

private:
  XXH3_state_t *state;
};
} // namespace

void kerf::rt::writeTensorFile(const std::string &path,
                               const std::vector<NamedTensor> &tensors,
                               const TensorReader &read, Metadata metadata,
                               bool hashed) {
  // Keys of a JSON object come out sorted: same tensors, same bytes.
  nlohmann::json header = nlohmann::json::object();
  int64_t offset = 0;
  for (const NamedTensor &tensor : tensors) {
    int64_t end = addChecked(offset, numBytes(tensor.shape, tensor.dtype));
    header[tensor.name] = {{"dtype", safetensorsType(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  if (hashed)
    metadata["xxh3"] = noHash;
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  std::string text =
      header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  uint64_t length = text.size();
  std::string begin(reinterpret_cast<const char *>(&length), 8);
  begin += text;

  AtomicFile file(path);
  Hasher hash;
  auto append = [&](const void *data, size_t bytes) {
    file.write(data, bytes);
    if (hashed)
      hash.add(data, bytes);
  };
  append(begin.data(), begin.size());
  std::vector<char> data;
  for (size_t i = 0; i < tensors.size(); ++i) {
    data.resize(
        static_cast<size_t>(numBytes(tensors[i].shape, tensors[i].dtype)));
    read(i, data);
    append(data.data(), data.size());
  }
  if (hashed)
    file.writeAt(begin.find(cat("\"xxh3\":\"", noHash)) + 8,
                 hexDigits(hash.value()).data(), 16);
  file.commit();
}

/// How large a file is whose header is whole; -1: it is not.
static int64_t sizeByHeader(const std::string &header) {
  auto tensors = nlohmann::json::parse(header.begin() + 8, header.end(),
                                       nullptr, /*allow_exceptions=*/false);
  int64_t end = 0;
  if (!tensors.is_object())
    return -1;
  for (const auto &[name, tensor] : tensors.items()) {
    if (name == "__metadata__")
      continue;
    auto offsets =
        tensor.is_object() ? tensor.find("data_offsets") : tensor.end();
    if (offsets == tensor.end() || !offsets->is_array() ||
        offsets->size() != 2 || !(*offsets)[1].is_number_unsigned())
      return -1;
    end = std::max(end, (*offsets)[1].get<int64_t>());
  }
  return addChecked(static_cast<int64_t>(header.size()), end);
}

Safetensors kerf::rt::openHashed(const std::string &path) {
  auto file = std::make_shared<MappedFile>(path);
  uint64_t length = 0;
  if (file->size() >= 8)
    std::memcpy(&length, file->data(), 8);
  if (file->size() < 8 || length > file->size() - 8)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("ends early: has ", file->size(),
                    " bytes, which is less than its header"));
  std::string header(file->data(), 8 + length);
  size_t at = header.find("\"xxh3\":\"");
  if (at == std::string::npos || at + 8 + 16 > header.size())
    throw Error(KERF_INVALID_ARGUMENT, "has no hash");
  std::string expected = header.substr(at + 8, 16);
  header.replace(at + 8, 16, noHash);
  Hasher hash;
  hash.add(header.data(), header.size());
  hash.add(file->data() + header.size(), file->size() - header.size());
  if (hexDigits(hash.value()) == expected)
    return Safetensors(file, "header");
  auto size = static_cast<int64_t>(file->size());
  if (int64_t whole = sizeByHeader(header); size < whole)
    throw Error(KERF_INVALID_ARGUMENT, cat("ends early: has ", size,
                                           " bytes, its header says ", whole));
  throw Error(KERF_INVALID_ARGUMENT, cat("has hash ", hexDigits(hash.value()),
                                         ", expected ", expected));
}
