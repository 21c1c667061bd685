//===- Checkpoints.h - a run that can be taken up again ---------*- C++ -*-===//
//
// A folder with the newest checkpoints, checkpoint-000000100.safetensors after
// step 100: every parameter and every state of the optimizer as global tensors,
// and the position of the run. Each is written to a temporary file, synced and
// renamed, and only then the oldest is removed: at any time one loads.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_CHECKPOINTS_H
#define KERF_RT_TRAIN_CHECKPOINTS_H

#include "LossScale.h"
#include "TensorFile.h"
#include "Weights.h"

#include "kerf/rt/files.h"

#include <optional>

namespace kerf::rt {

/// Says that checkpoints are made, and old ones removed, in a folder.
void keepCheckpoints(UsedFiles &files, const std::string &folder);

/// Whether a folder has any, whole or damaged.
bool hasCheckpoints(const std::string &folder);

/// Why a new run does not take such a folder.
std::string holdsCheckpoints(const std::string &folder);

/// The position of a run between two steps, and the facts that must be equal to
/// continue it.
struct RunState {
  int64_t step = 0;             ///< steps done
  int64_t updates = 0;          ///< of them not skipped
  int64_t epoch = 0, index = 0; ///< of the next batch
  uint64_t seed = 0;
  int64_t batch = 0, samples = 0, perEpoch = 0;
  uint64_t data = 0; ///< fingerprint of the samples
  bool shuffle = true, keepLast = false;
  std::optional<LossScale> lossScale; ///< of a step in float16
};

/// What a run computes its updates by, which may change when it goes on; by
/// keys of a checkpoint's metadata.
using Recipe = std::map<std::string, std::string>;

constexpr size_t keptCheckpoints = 3;

/// A folder that one run at a time writes checkpoints to. Creates it. Throws
/// KERF_INVALID_ARGUMENT while another process holds it, or where there are
/// checkpoints by now and `mayHaveSome` is not set, and KERF_IO_ERROR. A
/// process that is killed holds nothing any more.
class FolderLock {
public:
  FolderLock(const std::string &folder, bool mayHaveSome);
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

private:
  int file = -1;
};

/// Writes the checkpoint of `state` and removes all before it but the newest.
/// Creates the folder. Throws KERF_IO_ERROR, and KERF_PROGRAM_FAILURE where a
/// value is not finite.
void writeCheckpoint(const std::string &folder, const RunState &state,
                     const Recipe &recipe, const Weights &weights,
                     kerf_session_t *session);

/// Opens one file, checks its hash, format and position, and stores step,
/// updates, epoch, batch index and the loss's scale in `state`. Throws
/// KERF_INVALID_ARGUMENT, KERF_OTHER_VERSION, KERF_BAD_PACKAGE or
/// KERF_IO_ERROR; only the last names the file.
Safetensors openCheckpoint(const std::string &path, RunState &state);

/// Loads the newest undamaged checkpoint into the session; `state` gives what
/// must be equal and receives the position. Damaged ones are added to
/// `refused`, one line each; `changed` says what of `recipe` is another than
/// the checkpoint's, of those that it has. False if the folder has no
/// checkpoints; throws KERF_INVALID_ARGUMENT if all are damaged, or if the
/// newest that is not belongs to another run or another version of Kerf.
bool loadNewestCheckpoint(const std::string &folder, const Recipe &recipe,
                          const Weights &weights, kerf_session_t *session,
                          RunState &state, std::vector<std::string> &refused,
                          std::string &changed);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_CHECKPOINTS_H
