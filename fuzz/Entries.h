//===- Entries.h - readers of files, as functions of bytes ------*- C++ -*-===//
//
// Everything that Kerf reads from a file that others may have written (or that
// a disk has damaged) has an entry here: bytes go in, and what comes out says
// whether the reader kept its promises. libFuzzer drives the entries in an
// instrumented build (FuzzTarget.cpp), a unit test replays the corpus and fixed
// mutations of it in every build (unittests/Fuzz).
//
// An entry's promise is more than not to crash: a refusal has a kind that
// blames the file, one line of text, no internal error, no failed allocation;
// what is accepted is held against the file and used.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_FUZZ_ENTRIES_H
#define KERF_FUZZ_ENTRIES_H

#include <cstdint>
#include <string>
#include <vector>

namespace kerf::fuzz {

/// How mutations keep an input near to what the reader takes.
enum class Format {
  Binary,
  Json,       ///< text
  JsonHeader, ///< 8 bytes of length, JSON, data (safetensors)
  Protobuf
};

struct Entry {
  const char *name; ///< of the fuzz target and of its folder in fuzz/corpus
  Format format;
  /// Empty, or the promise that was broken.
  std::string (*run)(const uint8_t *data, size_t size);
};

/// Those that need the runtime alone: manifest, safetensors, npy, npz,
/// checkpoint.
const std::vector<Entry> &runtimeEntries();
/// Those of the compiler: onnx, plan, machine, constant.
const std::vector<Entry> &compilerEntries();

/// A file with an ending that is written again for every input, and removed at
/// the end of the process.
class InputFile {
public:
  explicit InputFile(const std::string &ending);
  ~InputFile();
  InputFile(const InputFile &) = delete;
  InputFile &operator=(const InputFile &) = delete;
  const std::string &write(const uint8_t *data, size_t size);

private:
  std::string path;
  int descriptor = -1;
};

} // namespace kerf::fuzz

#endif // KERF_FUZZ_ENTRIES_H
