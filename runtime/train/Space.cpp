//===- Space.cpp - disk space that a run needs ----------------------------===//
#include "Space.h"

#include "../run/AtomicFile.h"
#include "Checkpoints.h"
#include "TrainedModel.h"

#include <algorithm>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

using namespace kerf::rt;

namespace {
struct Planned {
  std::string flag, path;
  uint64_t bytes = 0; ///< of the largest file
  uint64_t count = 1;
};
} // namespace

static uint64_t sizeOf(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size)
                                          : 0;
}

static std::vector<Planned> plannedFiles(const TrainOptions &options,
                                         const Weights &weights) {
  std::vector<Planned> files;
  constexpr uint64_t kHeader = 1 << 12; // names and shapes, roughly
  if (!options.output.empty() && !options.modelFiles.empty()) {
    std::vector<std::string> places = placesOf(options);
    for (size_t i = 0; i < places.size(); ++i) {
      uint64_t bytes = 0;
      if (i > 0 || options.image.empty())
        bytes = sizeOf(options.modelFiles[i]);
      else
        for (const TrainOptions::Piece &piece : options.image)
          bytes += piece.length > 0 ? piece.length : piece.bytes.size();
      files.push_back({"option output", places[i], bytes});
    }
  }
  if (!options.safetensors.empty()) {
    uint64_t bytes = kHeader;
    for (const Weights::Tensor &tensor : weights.tensors())
      bytes += static_cast<uint64_t>(tensor.bytes());
    files.push_back({"option save-safetensors", options.safetensors, bytes});
  }
  if (!options.checkpointDir.empty()) {
    uint64_t bytes = kHeader;
    for (const Weights::Parameter &parameter : weights.parameters())
      bytes += static_cast<uint64_t>(parameter.bytes());
    // One more than is kept: the oldest is removed after the newest is written.
    files.push_back({"option checkpoint-dir", options.checkpointDir + "/any",
                     bytes,
                     options.checkpointEvery > 0 ? keptCheckpoints + 1 : 1});
  }
  return files;
}

/// The folder of a file, or the nearest one above it that there is.
static std::string existingFolder(const std::string &path) {
  std::string folder = folderOf(path);
  struct stat info;
  while (::stat(folder.c_str(), &info) != 0 && folder != "." && folder != "/")
    folder = folderOf(folder);
  return folder;
}

void kerf::rt::requireSpace(const TrainOptions &options,
                            const Weights &weights) {
  struct Disk {
    uint64_t needed = 0, free = 0;
    std::string flags;
  };
  std::map<dev_t, Disk> disks;
  struct rlimit largest;
  if (::getrlimit(RLIMIT_FSIZE, &largest) != 0)
    largest.rlim_cur = RLIM_INFINITY;
  for (const Planned &file : plannedFiles(options, weights)) {
    // A checkpoint that cannot be written leaves the one before it.
    if (file.flag != "option checkpoint-dir" &&
        largest.rlim_cur != RLIM_INFINITY && file.bytes > largest.rlim_cur)
      throw Error(KERF_INVALID_ARGUMENT,
                  cat(file.path, ": ", file.flag, " needs a file of ",
                      file.bytes, " bytes, this process may write ",
                      static_cast<uint64_t>(largest.rlim_cur), " (ulimit -f)"));
    std::string folder = existingFolder(file.path);
    struct stat info;
    struct statvfs space;
    if (::stat(folder.c_str(), &info) != 0 ||
        ::statvfs(folder.c_str(), &space) != 0 || space.f_blocks == 0)
      continue;
    Disk &disk = disks[info.st_dev];
    disk.needed += file.bytes * file.count;
    disk.free = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
    if (disk.flags.find(file.flag) == std::string::npos)
      disk.flags += (disk.flags.empty() ? "" : ", ") + file.flag;
    if (disk.needed > disk.free)
      throw Error(KERF_INVALID_ARGUMENT,
                  cat(folder, ": ", disk.needed, " bytes are needed for ",
                      disk.flags, ", ", disk.free, " are free"));
  }
}
