//===- Arrays.cpp - arrays of .npy and .npz files, where they lie ---------===//
#include "Arrays.h"

#include "../base/MappedFile.h"
#include "Npy.h"
#include "Zip.h"
#include "kerf/rt/inputs.h"

using namespace kerf::rt;

bool kerf::rt::endsWith(const std::string &text, const char *ending) {
  std::string tail = ending;
  return text.size() > tail.size() &&
         text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

std::string kerf::rt::withoutEnding(const std::string &name) {
  return name.substr(0, name.rfind('.'));
}

DataArray kerf::rt::npyArray(const std::string &name, const char *data,
                             size_t size, std::shared_ptr<const void> owner) {
  NpyView view = parseNpy(data, size);
  DataArray array{name, view.dtype, view.shape, view.data, std::move(owner)};
  if (view.fortran && view.shape.size() > 1) {
    auto copy = std::make_shared<std::vector<char>>(
        static_cast<size_t>(numBytes(view.shape, view.dtype)));
    copyFortran(view, copy->data());
    array.data = copy->data();
    array.owner = copy;
  }
  return array;
}

std::vector<DataArray> kerf::rt::openNpz(const std::string &path) {
  auto file = std::make_shared<MappedFile>(path);
  std::vector<DataArray> arrays;
  for (const ZipMember &member : readZip(*file)) {
    if (!endsWith(member.name, ".npy"))
      continue;
    arrays.push_back(readableArray(member.name, [&] {
      std::string name = withoutEnding(member.name);
      if (member.method == 0) {
        checkStored(member);
        return npyArray(name, member.packed, member.bytes, file);
      }
      auto data = std::make_shared<std::vector<char>>(inflateMember(member));
      return npyArray(name, data->data(), data->size(), data);
    }));
  }
  return arrays;
}

int64_t kerf::rt::unpackedBytes(const std::string &path) {
  if (!endsWith(path, ".npz"))
    return 0;
  try {
    int64_t bytes = 0;
    MappedFile file(path);
    for (const ZipMember &member : readZip(file))
      if (member.method != 0)
        bytes += static_cast<int64_t>(member.bytes);
    return bytes;
  } catch (const Error &) {
    return 0; // said where it is opened
  }
}
