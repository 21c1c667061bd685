//===- Safetensors.cpp - named tensors in a mapped file -------------------===//
//
// Every range is checked against the file and against dtype and shape, so that
// a damaged header cannot lead a read out of the mapping.
//
//===----------------------------------------------------------------------===//
#include "Safetensors.h"

#include "JsonReader.h"

#include <cstring>

using namespace kerf::rt;

static bool parseSafetensorsType(const std::string &name, kerf_dtype_t &dtype) {
  static constexpr struct {
    const char *name;
    kerf_dtype_t dtype;
  } types[] = {{"F32", KERF_F32},        {"F64", KERF_F64},
               {"F16", KERF_F16},        {"BF16", KERF_BF16},
               {"I8", KERF_I8},          {"I16", KERF_I16},
               {"I32", KERF_I32},        {"I64", KERF_I64},
               {"U8", KERF_U8},          {"U16", KERF_U16},
               {"U32", KERF_U32},        {"U64", KERF_U64},
               {"BOOL", KERF_BOOL},      {"F8_E4M3", KERF_F8E4M3FN},
               {"F8_E5M2", KERF_F8E5M2}, {"F8_E8M0", KERF_F8E8M0FNU}};
  for (auto &type : types)
    if (name == type.name) {
      dtype = type.dtype;
      return true;
    }
  return false;
}

Safetensors::Safetensors(std::shared_ptr<MappedFile> mapped,
                         const std::string &name)
    : file(std::move(mapped)) {
  auto bad = [&](const std::string &reason) {
    return Error(KERF_BAD_PACKAGE, name + ": " + reason);
  };
  uint64_t headerBytes = 0;
  if (file->size() < 8)
    throw bad("shorter than the header length");
  std::memcpy(&headerBytes, file->data(), 8);
  if (headerBytes > file->size() - 8)
    throw bad(
        cat("header of ", headerBytes, " bytes in a file of ", file->size()));
  const char *base = file->data() + 8 + headerBytes;
  int64_t dataBytes = static_cast<int64_t>(file->size() - 8 - headerBytes);
  nlohmann::json header;
  try {
    header = nlohmann::json::parse(file->data() + 8, base);
  } catch (const nlohmann::json::parse_error &error) {
    throw bad(cat("header is not valid JSON at byte ", error.byte));
  } catch (const nlohmann::json::exception &) {
    throw bad("header is not valid JSON");
  }
  JsonReader in(header, name + ": ");
  if (!header.is_object())
    in.fail("expected an object");
  for (auto &item : header.items()) {
    if (item.key() == "__metadata__") {
      if (item.value().is_object())
        for (auto &note : item.value().items())
          if (note.value().is_string())
            notes[note.key()] = note.value().get<std::string>();
      continue;
    }
    // By reference: a name may hold any character, a zero as well.
    JsonReader entry(item.value(), name + ": " + item.key());
    Tensor tensor;
    if (!parseSafetensorsType(entry["dtype"].string(), tensor.dtype))
      entry["dtype"].fail("unknown data type \"" + entry["dtype"].string() +
                          "\"");
    tensor.shape = entry["shape"].shape();
    tensor.bytes =
        entry.located([&] { return numBytes(tensor.shape, tensor.dtype); });
    Shape range = entry["data_offsets"].shape();
    if (range.size() != 2 || range[0] > range[1] || range[1] > dataBytes ||
        range[1] - range[0] != tensor.bytes)
      entry["data_offsets"].fail(
          cat("is not a range of ", tensor.bytes, " bytes in ", dataBytes));
    tensor.data = base + range[0];
    tensors[item.key()] = tensor;
  }
}

const Safetensors::Tensor *Safetensors::find(const std::string &name) const {
  auto it = tensors.find(name);
  return it == tensors.end() ? nullptr : &it->second;
}
