//===- Options.h - the driver's command line --------------------*- C++ -*-===//
//
// One struct holds every option; the subcommands add the groups they
// understand. Parsing turns text into the structs of the library; an
// impossible value is an error that shows the text and what was expected.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_OPTIONS_H
#define KERF_TOOLS_OPTIONS_H

#include "kerf/Support/Units.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kerf::tool {

using kerf::formatBytes;
using kerf::formatBytesBeside;
using kerf::formatCount;
using kerf::formatFlops;
using kerf::formatSeconds;

/// Exit codes (docs/CommandLine.md).
enum ExitCode {
  kFine = 0,
  kResultsDiffer = 1,
  kUsage = 2,
  kModelRefused = 3,
  kNoPlan = 4,
  kRunTime = 5,
  kInternal = 70,
};

/// Thrown by parsing and by subcommands; main() prints it and returns `code`.
struct Failure {
  int code;
  std::string message; ///< without the leading "error: "
  std::vector<std::string> notes;
};

struct Devices {
  std::string kind = "cpu"; ///< cpu or cuda
  int64_t count = 1;
  std::vector<int64_t> ids; ///< of GPUs, empty: 0..count-1
};

/// A dimension of which `kerf compile` is to take several sizes (Sizes.h).
struct OpenSize {
  std::string name;
  std::vector<int64_t> sizes; ///< of the programs, ascending
};

struct Options {
  std::string model;
  // Binding the model.
  std::vector<std::string> dims, constants, batchDims;
  std::vector<OpenSize> openSizes; ///< --dim of several sizes
  // State that stays on the ranks.
  std::vector<std::string> states;    ///< OUTPUT=INPUT or auto
  int64_t cacheLength = 0;            ///< 0: not given
  std::vector<std::string> givenDims; ///< --dim, before sizes were found
  bool weightsInPlace = false;        ///< of a package that is not kept
  int64_t promptTokens = 0; ///< in a step of the prompt; 0: no program
  // Planning.
  std::string devices = "1";
  bool devicesGiven = false;     ///< else a given plan has the number
  bool devicesOfMachine = false; ///< the number is the machine's
  bool plansAlone = false; ///< `kerf plan`: the machine says of which kind
  std::string explain;     ///< an op, by its name
  std::vector<std::string> whatIf;
  std::string row; ///< of them, for whoever waits
  /// Lines that somebody who waits is to see by now, called now and then from
  /// another thread while a compilation runs; null: there are none.
  std::function<std::string()> meanwhile;
  std::string machine, mesh, planFile;
  std::vector<std::string> shards;
  std::string solver = "auto", costModel = "ring", objective = "time";
  std::string memoryLimit;
  int64_t microBatches = 0;
  int64_t chunks = 0;
  std::string schedule = "auto", recompute = "auto", zero = "auto";
  double deadline = 0;
  uint64_t seed = 0;
  std::string precision = "f32";
  /// Flags of this command that `kerf plan` has, too, as they were given; but
  /// for those of sizes, devices and the machine, which are found out.
  std::vector<std::string> planFlags;
  // Compiling.
  std::string output, targetCpu, stopAfter, from, dumpDir, failPhase, without;
  double noteAfter = 30; ///< seconds of a phase, where there is no terminal
  bool printPipeline = false;
  std::string ptxas, kernelDumpDir;
  bool hostKernels = false, fusedAttention = false, noKernelCache = false;
  // Running.
  std::vector<std::string> inputs;
  bool seedGiven = false, randomInputs = false;
  std::string outputType = "model"; ///< of files of outputs; or f32
  std::string outputDir, stats, trace;
  int64_t threads = 0, repeat = 1;
  double timeout = 30;
  std::string inject, ranks = "auto"; ///< or threads, processes
  // Generating.
  std::vector<std::string> promptIds, endIds;
  int64_t tokens = 128, topK = 0;
  double temperature = 0, topP = 1;
  // A training step.
  bool train = false, asInference = false;
  std::string loss, optimizer, learningRate, batchNorm = "sync", onNan = "stop";
  std::string gradientDtype; ///< empty: the precision
  bool noOutput = false;
  std::vector<std::string> trainable, frozen, tied;
  double clipNorm = 0;
  int64_t accumulate = 1;
  int64_t lossScale = 0;         ///< of float16 at the start; 0: the default
  int64_t lossScaleInterval = 0; ///< 0: the default
  // The loop of training.
  std::string data, evalData, shuffle = "on", lastBatch = "drop", log,
                              safetensors, checkpointDir;
  int64_t sequenceLength = 0, batchSize = 0, steps = 0, epochs = 0,
          evalEvery = 0, checkpointEvery = 0;
  bool resume = false;
  // Reporting.
  std::string document, otherDocument, html;
  // Comparing.
  std::optional<double> rtol, atol; ///< none: by the precision
  std::string reference = "auto";   ///< or interpreted, unfused, compiled
  double referenceSeconds = 30;     ///< that `auto` may take
  bool referenceSecondsGiven = false;
  std::string expected; ///< a folder of NAME.npy
  std::string damage;   ///< test only: a node whose value is wrong, or
                        ///< update:NAME of a parameter whose lr is 0
  // Printing.
  bool json = false, quiet = false, verbose = false;
};

void addModel(CLI::App &app, Options &options);
void addPlanning(CLI::App &app, Options &options);
/// What is asked of plans besides: `plan` alone, behind addPhases().
void addQuestions(CLI::App &app, Options &options);
/// A model in training form, where it is not trained.
void addForms(CLI::App &app, Options &options);
/// Outputs that are inputs of the next step.
void addState(CLI::App &app, Options &options);
/// What shows the phases of a compilation that ends there.
void addPhases(CLI::App &app, Options &options);
/// IR instead of a model; call after addModel().
void addResuming(CLI::App &app, Options &options);
void addCompiling(CLI::App &app, Options &options);
/// Inputs from files.
void addInputs(CLI::App &app, Options &options);
/// What `run` alone makes of outputs and of inputs that are missing.
void addRunning(CLI::App &app, Options &options);
/// Threads and deadlines of ranks.
void addThreads(CLI::App &app, Options &options);
/// These, and what ranks are.
void addRanks(CLI::App &app, Options &options);
/// A program for prompts: `compile` and `generate`.
void addPrompt(CLI::App &app, Options &options);
/// Prompt and choice of ids: `generate` alone.
void addGenerating(CLI::App &app, Options &options);
/// Options of the training step: `plan|compile|verify --train` and `train`.
void addTraining(CLI::App &app, Options &options);
/// Data, steps, logs, checkpoints: `train` alone.
void addLoop(CLI::App &app, Options &options);
/// What a command can print; --quiet is for all.
enum class Prints { Text, Verbose, Json, VerboseAndJson };
void addPrinting(CLI::App &app, Options &options, Prints prints);
/// The group of flags that --help does not list.
extern const char *const kTestOnly;

Devices parseDevices(const std::string &text);
/// "NAME=NUMBER" for a flag that may be repeated.
std::pair<std::string, int64_t> parseBinding(const std::string &text,
                                             const std::string &flag);
/// "80GiB", "512MiB", "1.5GB", "4096".
int64_t parseBytes(const std::string &text, const std::string &flag);

/// "1 element", "12.4 k elements".
std::string elementsText(int64_t elements);

} // namespace kerf::tool

#endif // KERF_TOOLS_OPTIONS_H
