//===- FileSet.cpp - files that appear together or not at all -------------===//
#include "AtomicFile.h"

#include "../base/Error.h"

#include "kerf/rt/run.h"

using namespace kerf::rt;

FileSet::FileSet() = default;
FileSet::~FileSet() = default;

bool FileSet::add(const std::string &path, const std::string &content,
                  std::string &error) {
  try {
    auto file = std::make_unique<AtomicFile>(path);
    file->write(content.data(), content.size());
    file->sync();
    files.push_back(std::move(file));
    return true;
  } catch (const Error &failure) {
    error = failure.message;
    return false;
  }
}

bool FileSet::commit(std::string &error) {
  try {
    for (; !files.empty(); files.pop_back())
      files.back()->commit();
    return true;
  } catch (const Error &failure) {
    error = failure.message;
    return false;
  }
}
