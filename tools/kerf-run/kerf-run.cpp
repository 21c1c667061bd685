//===- kerf-run.cpp - run a package, with the runtime alone ---------------===//
//
//   kerf-run out.kerf --input x=@x.npy --output-dir=out --stats=run.json
//   mpirun -n 4 kerf-run out.kerf ...        ranks are processes
//   kerf-run out.kerf --processes ...        the same without mpirun
//
// Flags become RunOptions; the rest is kerf/rt/run.h. The process leaves with
// _Exit: a rank that hangs must not keep it.
//
//===----------------------------------------------------------------------===//
#include "../Completion.h"
#include "../PackageRanks.h"
#include "../ParseErrors.h"
#include "../SpellFlags.h"
#include "../Validators.h"

#include "kerf/Format/Schemas.h"
#include "kerf/rt/inputs.h"
#include "kerf/rt/job.h"
#include "kerf/rt/printable.h"
#include "kerf/rt/run.h"

#include <CLI/CLI.hpp>
#include <csignal>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

[[noreturn]] static void leave(int code) {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    std::fprintf(stderr, "error: stdout: cannot write: %s\n",
                 std::strerror(errno));
    code = std::max(code, 5);
  }
  std::fflush(nullptr);
  std::_Exit(code);
}

/// The flags of `kerf compile`: what they decide is decided in a package.
/// (test/Driver/flags.py asks `kerf compile --help` for them.)
static bool isOfCompilation(const std::string &flag) {
  static const std::string all =
      " "
      "--accumulate --as-inference --batch-dim --batch-norm "
      "--cache-length --chunks --clip-norm --constant --cost-model "
      "--deadline --devices --dump-dir --from --frozen --fused-attention "
      "--gradient-dtype --host-kernels --kernel-dump-dir --loss "
      "--machine --memory-limit --mesh --micro-batches --no-kernel-cache "
      "--objective --on-nan --optimizer --plan --precision "
      "--print-pipeline --prompt-tokens --ptxas --recompute --schedule "
      "--shard --solver --state --stop-after --target-cpu --tied --train "
      "--trainable --zero ";
  return all.find(" " + flag + " ") != std::string::npos;
}

/// What is wrong with the command line; flags of compilation are refused as
/// `kerf run` refuses them for a package.
static std::string whatIsWrong(const CLI::App &app, const std::string &package,
                               const CLI::ParseError &error, int argc,
                               const char *const *argv) {
  std::vector<std::string> unknown = app.remaining(), flags;
  for (const std::string &text : unknown) {
    std::string flag = text.substr(0, text.find('='));
    if (isOfCompilation(flag) &&
        std::count(flags.begin(), flags.end(), flag) == 0)
      flags.push_back(flag);
    if (flags.empty()) // what comes first is of none
      return kerf::tool::describeParseError(app, error, argc, argv);
  }
  if (flags.empty())
    return kerf::tool::describeParseError(app, error, argc, argv);
  // Of "--devices cpu:4 out.kerf" the value was taken for the package.
  std::error_code ignored;
  bool isThere = std::filesystem::is_directory(package, ignored);
  return kerf::tool::compiledAlready(flags, isThere ? package : "");
}

int main(int argc, char **argv) {
  // Exceeding ulimit -f is then an error of the write, not the end of the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  kerf::rt::RunOptions options;
  CLI::App app("Runs a package that kerf compile wrote.");
  app.name("kerf-run");
  app.set_version_flag("--version", kerf_runtime_version() +
                                        ("\n" + kerf::packageSchema.text()) +
                                        " " + kerf::sizesSchema.text() + " " +
                                        kerf::runSchema.text());
  kerf::tool::addCompletion(app);
  app.add_option("package", options.package, "folder NAME.kerf")->required();
  app.add_option("--dim", options.dims,
                 "NAME=SIZE of a dimension of which the package takes several "
                 "sizes")
      ->delimiter(',');
  app.add_option("--input,-i", options.inputs,
                 "NAME=@FILE.npy, NAME=NUMBER, FILE.npy (the only input) or "
                 "@FILE.npz (all that it has), with commas between or "
                 "repeatable")
      ->allow_extra_args(false);
  auto *seed = app.add_option("--seed", options.seed,
                              "draw inputs that are not given, from this seed")
                   ->check(kerf::tool::atLeast(0));
  app.add_flag("--random-inputs", options.drawsInputs,
               "draw inputs that are not given");
  app.add_option("--output-dir", options.outputDir,
                 "write each output as NAME.npy");
  std::string outputType = "model";
  app.add_option("--output-dtype", outputType,
                 "of these files: model (as computed), or f32 for outputs of "
                 "16 bits")
      ->check(CLI::IsMember({"model", "f32"}))
      ->needs("--output-dir");
  app.add_option("--stats", options.statsFile, "write run.json (kerf.run/1)");
  app.add_option("--trace", options.traceFile,
                 "write a Chrome trace of the last step");
  app.add_option("--repeat", options.repeat, "number of steps")
      ->check(kerf::tool::atLeast(1));
  app.add_option("--threads", options.threads,
                 "threads per rank, for what is worth them (default: the cores "
                 "divided by the ranks)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--timeout", options.timeoutSeconds,
                 "seconds any rank waits for another")
      ->check(kerf::tool::positiveAndFinite());
  app.add_option("--inject", options.inject,
                 "test only: rank=R,collective=K,fault=die|hang|skip");
  bool processes = false;
  app.add_flag("--processes", processes,
               "a process of this host for each rank: --ranks=processes");
  std::string ranks = "threads";
  app.add_option("--ranks", ranks,
                 "what ranks are where no launcher has started processes")
      ->check(CLI::IsMember({"auto", "threads", "processes"}))
      ->excludes("--processes");
  app.add_flag("--skip-hashes", options.skipHashes,
               "compare sizes of files only");
  app.add_flag("--json", options.json, "print run.json");
  CLI::Option *quiet =
      app.add_flag("-q,--quiet", options.quiet, "print no summary");
  app.add_flag("-v,--verbose", options.verbose, "say what is done on stderr")
      ->excludes(quiet);
  try {
    kerf::tool::parse(app, argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      leave(app.exit(error)); // --help, --version
    kerf::rt::say(stderr, "error: " +
                              kerf::rt::printable(whatIsWrong(
                                  app, options.package, error, argc, argv)) +
                              "\n");
    leave(2);
  }
  options.inputs = kerf::rt::eachInput(options.inputs);
  processes |= ranks == "processes";
  options.drawsInputs |= seed->count() != 0;
  if (options.drawsInputs)
    options.drawnBy = seed->count() != 0 ? "seed" : "random-inputs";
  options.widenOutputs = outputType == "f32";
  if (kerf::rt::insideJob()) {
    if (processes) {
      std::fprintf(stderr, "error: --processes: this process is one of a job "
                           "that mpirun or the like has started\n");
      leave(2);
    }
    // mpirun ends the other processes when one is gone: their signal handlers
    // report which rank it was.
    options.signals = kerf::rt::handleJobSignals();
  }
  if (processes)
    leave(kerf::rt::runPackageInProcesses(options, stdout,
                                          kerf::tool::onStderr()));
  leave(kerf::rt::runPackage(options, stdout, kerf::tool::onStderr()));
}
