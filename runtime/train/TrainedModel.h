//===- TrainedModel.h - the model with other weights ------------*- C++ -*-===//
//
// Weights are ranges of bytes of the model's files, and training changes
// neither their type nor their size. So the trained model is a copy of each
// file with those ranges overwritten: graph, names, metadata and order stay the
// same, bit for bit. External data keeps its names beside the new file.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_TRAIN_TRAINEDMODEL_H
#define KERF_RT_TRAIN_TRAINEDMODEL_H

#include "Weights.h"
#include "kerf/rt/train.h"

namespace kerf::rt {

/// The destination of each of the model's files when the model goes to
/// `output`. Throws KERF_INVALID_ARGUMENT if a copy would replace an original's
/// external data, or a folder cannot be written.
std::vector<std::string> placesOf(const TrainOptions &options);

/// Throws KERF_IO_ERROR if no file can be made at `path`: one is made beside
/// it, and removed.
void requireWritable(const std::string &path);

/// Writes all of them (to temporary files, then renamed, external data first).
/// Throws KERF_PROGRAM_FAILURE, before anything changes, if a trained value is
/// not finite; `step` is for the message. `options` has the files, their image
/// and where the model goes.
void writeTrainedModel(const TrainOptions &options, const Weights &weights,
                       kerf_session_t *session, int64_t step);

/// Every weight that the step reads, by name, trained or frozen.
/// `shapes`: what to call the shapes of some.
void writeTrainedSafetensors(const std::string &path, const Weights &weights,
                             const std::map<std::string, Shape> &shapes,
                             kerf_session_t *session, int64_t step);

} // namespace kerf::rt

#endif // KERF_RT_TRAIN_TRAINEDMODEL_H
