//===- RecordingDriver.h - the recording driver, from tests -----*- C++ -*-===//
#ifndef KERF_UNITTESTS_CUDA_RECORDINGDRIVER_H
#define KERF_UNITTESTS_CUDA_RECORDINGDRIVER_H

#include <string>

namespace kerf::rt::test {

/// The library stays loaded; each test begins with a clean state.
class RecordingDriver {
public:
  /// "key=value;key=value", see recording/Engine.h.
  explicit RecordingDriver(const std::string &settings = "");
  void configure(const std::string &settings);
  /// What was wrong so far.
  std::string report() const;
  /// What was put on streams, stream by stream.
  std::string dump() const;
};

} // namespace kerf::rt::test

#endif // KERF_UNITTESTS_CUDA_RECORDINGDRIVER_H
