//===- Data.cpp - opening files of samples --------------------------------===//
//
// See Data.h. The kind of a file follows from its name, never from its content.
//
//===----------------------------------------------------------------------===//
#include "Data.h"

#include "../package/Safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <sys/stat.h>

using namespace kerf::rt;

static void openSafetensors(const std::string &path, DataSet &set) {
  auto file = std::make_shared<MappedFile>(path);
  Safetensors tensors(file, "header");
  for (auto &[name, tensor] : tensors.all())
    set.arrays.push_back({name, tensor.dtype, tensor.shape, tensor.data, file});
}

[[noreturn]] static void cannotOpen() {
  throw Error(KERF_INVALID_ARGUMENT,
              cat("cannot open: ", std::strerror(errno)));
}

static void openFolder(const std::string &path, DataSet &set) {
  std::vector<std::string> names;
  DIR *folder = ::opendir(path.c_str());
  if (!folder)
    cannotOpen();
  while (const dirent *entry = ::readdir(folder))
    if (endsWith(entry->d_name, ".npy") && entry->d_name[0] != '.')
      names.push_back(entry->d_name);
  ::closedir(folder);
  for (const std::string &name : names) {
    set.arrays.push_back(readableArray(name, [&] {
      auto file = std::make_shared<MappedFile>(path + "/" + name);
      return npyArray(withoutEnding(name), file->data(), file->size(), file);
    }));
  }
}

static void openTokens(const std::string &path, kerf_dtype_t dtype,
                       DataSet &set) {
  auto file = std::make_shared<MappedFile>(path);
  int64_t size = static_cast<int64_t>(file->size());
  if (size % dtypeSize(dtype) != 0)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("has ", size, size == 1 ? " byte" : " bytes",
                    ", not a multiple of the ", dtypeSize(dtype),
                    " of a token"));
  set.isTokens = true;
  set.arrays.push_back(
      {"tokens", dtype, {size / dtypeSize(dtype)}, file->data(), file});
}

static void open(const std::string &path, DataSet &set) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    cannotOpen();
  if (S_ISDIR(info.st_mode)) {
    openFolder(path, set);
    if (set.arrays.empty())
      throw Error(KERF_INVALID_ARGUMENT, "has no .npy files");
    return;
  }
  if (endsWith(path, ".npz")) {
    set.arrays = openNpz(path);
    return;
  }
  if (endsWith(path, ".safetensors"))
    return openSafetensors(path, set);
  if (endsWith(path, ".bin"))
    return openTokens(path, KERF_U16, set);
  set.isBytes = endsWith(path, ".txt") || endsWith(path, ".u8");
  if (set.isBytes)
    return openTokens(path, KERF_U8, set);
  if (endsWith(path, ".npy")) {
    auto file = std::make_shared<MappedFile>(path);
    set.arrays.push_back(npyArray("tokens", file->data(), file->size(), file));
    const DataArray &array = set.arrays.back();
    if (array.shape.size() != 1 || !isInteger(array.dtype))
      throw Error(KERF_INVALID_ARGUMENT,
                  cat("is ", kerf_dtype_name(array.dtype), " ",
                      shapeString(array.shape),
                      ", expected a flat array of integer tokens (several "
                      "arrays come as .npz, .safetensors or a folder)"));
    set.isTokens = true;
    return;
  }
  throw Error(KERF_INVALID_ARGUMENT,
              "is no data: expected FILE.npz, FILE.safetensors, a folder of "
              ".npy files, or tokens in FILE.npy, FILE.bin or FILE.txt");
}

DataSet kerf::rt::openData(const std::string &path, int64_t sequenceLength) {
  DataSet set;
  set.path = path;
  try {
    open(path, set);
    if (set.arrays.empty())
      throw Error(KERF_INVALID_ARGUMENT, "has no arrays");
    if (sequenceLength > 0 && !set.isTokens)
      throw Error(KERF_INVALID_ARGUMENT,
                  "a sequence length is for a flat file of tokens");
  } catch (Error &error) {
    if (error.code == KERF_IO_ERROR) // names the file already
      throw Error(KERF_INVALID_ARGUMENT, error.message);
    if (error.code == KERF_BAD_PACKAGE)
      error.code = KERF_INVALID_ARGUMENT;
    error.message = path + ": " + error.message;
    throw;
  }
  set.sequenceLength = sequenceLength;
  std::sort(
      set.arrays.begin(), set.arrays.end(),
      [](const DataArray &a, const DataArray &b) { return a.name < b.name; });
  return set;
}
