//===- RuntimeEntries.cpp - files that the runtime reads ------------------===//
//
// See Entries.h. Inputs that are used where they lie are copied to a block of
// exactly their size, so that AddressSanitizer sees the first byte past it.
//
//===----------------------------------------------------------------------===//
#include "Entries.h"

#include "package/Manifest.h"
#include "package/Safetensors.h"
#include "run/Npy.h"
#include "train/Checkpoints.h"
#include "train/Data.h"

#include <cstring>

using namespace kerf::rt;
using kerf::fuzz::Entry;
using kerf::fuzz::Format;
using kerf::fuzz::InputFile;

namespace {

/// Runs a reader; what it throws must blame the file.
template <typename Read> std::string refusesOr(Read &&read) {
  try {
    return read();
  } catch (const Error &error) {
    if (error.code != KERF_BAD_PACKAGE && error.code != KERF_OTHER_VERSION &&
        error.code != KERF_INVALID_ARGUMENT && error.code != KERF_IO_ERROR)
      return "refused with code " + std::to_string(error.code) + ": " +
             error.message;
    if (error.message.empty())
      return "refused without a reason";
    return "";
  } catch (const std::exception &error) {
    return std::string("unexpected exception: ") + error.what();
  }
}

std::string runManifest(const uint8_t *data, size_t size) {
  return refusesOr([&]() -> std::string {
    std::vector<char> exact(data, data + size);
    Manifest m = parseManifest(exact.data(), exact.size());
    // Whoever holds one may trust every index and size in it.
    for (int64_t rank = 0; rank < std::min<int64_t>(m.mesh.numRanks(), 8);
         ++rank) {
      for (const Parameter &p : m.parameters)
        if (p.source != Parameter::Derived)
          partOf(m.mesh, p.sharding, p.globalShape, rank, 0);
      for (const GlobalTensor &t : m.outputs)
        for (int64_t size : partOf(m.mesh, t.sharding, t.globalShape, rank,
                                   m.mesh.numMicroBatches() - 1)
                                .sizes)
          if (size < 0)
            return "a part of output " + t.name + " has a negative size";
      for (const CollectiveDesc &c : m.collectives)
        m.mesh.group(rank, c.axes);
    }
    for (const LibraryDesc &call : m.library)
      call.numBuffers();
    return "";
  });
}

/// Every tensor lies in `file`.
std::string checkTensors(const Safetensors &tensors, const MappedFile &file) {
  const char *end = file.data() + file.size();
  for (auto &[name, tensor] : tensors.all())
    if (tensor.data < file.data() || tensor.bytes < 0 ||
        tensor.bytes > end - tensor.data ||
        tensor.bytes != numBytes(tensor.shape, tensor.dtype))
      return "tensor " + name + " leaves the file";
  return "";
}

std::string runSafetensors(const uint8_t *data, size_t size) {
  static InputFile file(".safetensors");
  const std::string &path = file.write(data, size);
  return refusesOr([&]() -> std::string {
    auto mapped = std::make_shared<MappedFile>(path);
    return checkTensors(Safetensors(mapped, "weights.safetensors"), *mapped);
  });
}

std::string runNpy(const uint8_t *data, size_t size) {
  return refusesOr([&]() -> std::string {
    std::vector<char> exact(data, data + size);
    NpyView view = parseNpy(exact.data(), exact.size());
    int64_t bytes = numBytes(view.shape, view.dtype);
    if (view.data + bytes != exact.data() + exact.size())
      return "the data do not end with the file";
    std::vector<char> copy(static_cast<size_t>(bytes));
    copyFortran(view, copy.data());
    return "";
  });
}

/// Opens samples as `kerf train` does and reads the first and the last.
std::string useSamples(const std::string &path) {
  DataSet set = openData(path, 0);
  std::vector<DataInput> inputs;
  for (const DataArray &array : set.arrays)
    if (array.error.empty() && !array.shape.empty())
      inputs.push_back({array.name, array.dtype, array.shape, false});
  if (set.isTokens)
    inputs = {{"ids", KERF_I64, {1, 2}, false}};
  // Of arrays of one name the first is taken; batches must agree.
  if (inputs.empty())
    return "";
  for (DataInput &input : inputs)
    input.shape[0] = 1;
  Samples samples = bindColumns(set, inputs);
  for (const Column &column : samples.columns) {
    std::vector<char> sample(static_cast<size_t>(column.sampleBytes()));
    for (int64_t index : {int64_t(0), samples.count - 1})
      if (index >= 0 && index < samples.count)
        column.read(index, sample.data());
  }
  if (samples.count > 0)
    fingerprint(samples);
  return "";
}

std::string runNpz(const uint8_t *data, size_t size) {
  static InputFile file(".npz");
  const std::string &path = file.write(data, size);
  return refusesOr([&] { return useSamples(path); });
}

/// Twice: as it is, and with the hash that makes the rest of it readable.
std::string runCheckpoint(const uint8_t *data, size_t size) {
  static InputFile file(".safetensors");
  std::vector<uint8_t> bytes(data, data + size);
  for (bool hashed : {false, true}) {
    const std::string &path = file.write(bytes.data(), bytes.size());
    std::string broken = refusesOr([&]() -> std::string {
      RunState state;
      Safetensors tensors = openCheckpoint(path, state);
      if (state.step < 0 || state.updates > state.step || state.index < 0 ||
          state.index > state.step || state.epoch > state.step)
        return "a run goes on at an impossible place";
      for (auto &[name, tensor] : tensors.all())
        hashHex(tensor.data, static_cast<size_t>(tensor.bytes));
      return "";
    });
    if (!broken.empty())
      return broken;
    std::string text(bytes.begin(), bytes.end());
    size_t at = text.find("\"xxh3\":\"");
    if (hashed || at == std::string::npos || at + 24 > text.size())
      return "";
    text.replace(at + 8, 16, "0000000000000000");
    text.replace(at + 8, 16, hashHex(text.data(), text.size()));
    bytes.assign(text.begin(), text.end());
  }
  return "";
}

} // namespace

const std::vector<Entry> &kerf::fuzz::runtimeEntries() {
  static const std::vector<Entry> entries = {
      {"manifest", Format::Json, runManifest},
      {"safetensors", Format::JsonHeader, runSafetensors},
      {"npy", Format::Binary, runNpy},
      {"npz", Format::Binary, runNpz},
      {"checkpoint", Format::JsonHeader, runCheckpoint}};
  return entries;
}
