//===- run.h - running a package as a whole ---------------------*- C++ -*-===//
//
// What kerf-run and `kerf run` share above the C ABI: .npy files, seeded random
// inputs, files that are never half written, and the run itself with its exit
// code and messages. Nothing here throws; functions that can fail return false
// and set `error` to one line without a file name in front unless said so.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_RT_RUN_H
#define KERF_RT_RUN_H

#include "kerf/rt/printable.h"
#include "kerf/rt/runtime.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace kerf::rt {

/// A dense row-major tensor in memory. data starts at 16-byte alignment.
struct HostTensor {
  kerf_dtype_t dtype = KERF_F32;
  std::vector<int64_t> shape;
  std::vector<char> data;
};

/// Reads NumPy's .npy format, versions 1 to 3, little endian, C or Fortran
/// order. bf16 is the 2-byte void type. Errors name the file.
bool readNpy(const std::string &path, HostTensor &tensor, std::string &error);
/// The bytes of a .npy file (version 1.0) of `bytes` bytes of data.
bool formatNpy(kerf_dtype_t dtype, const std::vector<int64_t> &shape,
               const void *data, size_t bytes, std::string &file);

/// The files that outputs of these names are written to in a folder, in their
/// order: NAME.npy, with what a file name cannot have replaced.
std::vector<std::string>
outputFileNames(const std::vector<std::string> &outputs);

class AtomicFile;

/// Files that appear all together or not at all: each is written beside its
/// place and synced, then all are renamed. Errors name the file.
class FileSet {
public:
  FileSet();
  FileSet(const FileSet &) = delete;
  FileSet &operator=(const FileSet &) = delete;
  ~FileSet(); ///< removes files that were not committed
  bool add(const std::string &path, const std::string &content,
           std::string &error);
  bool commit(std::string &error);

private:
  std::vector<std::unique_ptr<AtomicFile>> files;
};

/// Element i depends on (seed, name, i) alone, so every mesh gets the same
/// data. Floats are uniform in [-1, 1), integers in [low, high), bools fair.
void fillRandom(const std::string &name, uint64_t seed, kerf_dtype_t dtype,
                int64_t count, int64_t low, int64_t high, void *data);

/// Fills an input "train.*", one element that the training loop gives to a
/// step. A random number would be a random learning rate, so it is one that
/// leaves all parameters as they are: 0 for the learning rate, 1 for factors
/// and divisors. False: `name` is another input, and nothing is written.
bool fillTrainingScalar(const std::string &name, kerf_dtype_t dtype,
                        uint64_t seed, void *data);

class JobScope;

struct RunOptions {
  std::string package;
  std::string model; ///< that was compiled into it just now, for messages
  std::vector<std::string> inputs; ///< flags, see kerf/rt/inputs.h
  /// NAME=SIZE of dimensions of which the package takes several sizes.
  std::vector<std::string> dims;
  bool drawsInputs = false; ///< what is not given is drawn from `seed`
  /// The option that asked for drawn inputs: it is an error to give it where
  /// all inputs are given. Empty: drawing was not asked for by an option.
  std::string drawnBy;
  uint64_t seed = 0;
  bool widenOutputs = false; ///< files of f16 and bf16 outputs are f32
  std::string outputDir, statsFile, traceFile, inject; ///< empty: none
  int32_t repeat = 1, threads = 0;
  double timeoutSeconds = 30;
  bool json = false;  ///< print run.json on `out` instead of a summary
  bool quiet = false; ///< no summary
  bool verbose = false;
  bool skipHashes = false;
  /// What the user has named.
  const std::string &named() const { return model.empty() ? package : model; }
  /// Of a process in a job: see kerf_job_options_t.
  const kerf_signals_t *signals = nullptr;
};

/// libgomp's threads spin for milliseconds before they sleep unless told
/// otherwise, which costs a busy machine a factor of five; some 20 to 50 us
/// cover the gaps between kernels. Sets the environment unless the user did;
/// must come before the first session.
void preferShortSpins();

/// Runs a package, in a job if the environment says so (kerf/rt/job.h); prints
/// results on `out`, `error: FILE[:NODE]: reason` and notes on `err`; returns
/// the exit code. After exit code 5 a rank may still hang in the background:
/// end the process with _Exit rather than by waiting for it.
int runPackage(const RunOptions &options, std::FILE *out, const Messages &err);
/// The same for a process that has joined its job already.
int runPackage(const RunOptions &options, JobScope &job, std::FILE *out,
               const Messages &err);
/// In as many processes of this host as the package has ranks.
int runPackageInProcesses(const RunOptions &options, std::FILE *out,
                          const Messages &err);

/// The error of a fault that was to be injected into a run that went well.
std::string unmetFault(const std::string &inject);

/// Prints a status as an error line with notes, frees it, gives its exit code
/// (0 for none).
int reportStatus(kerf_status_t status, const std::string &file,
                 const Messages &err);

} // namespace kerf::rt

#endif // KERF_RT_RUN_H
