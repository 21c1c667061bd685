//===- Execute.cpp - run
//---------------------------------------------------===//
//
// A model is compiled into a temporary package whose weights stay in the model
// file; a package is run as it is.
//
//===----------------------------------------------------------------------===//
#include "Commands.h"
#include "Setup.h"

#include "kerf/rt/run.h"

#include "llvm/Support/raw_ostream.h"

using namespace kerf;
using namespace kerf::tool;

int kerf::tool::run(const Options &options) {
  rt::RunOptions run;
  std::optional<TemporaryFolder> folder;
  if (isPackage(options.model)) {
    run.package = options.model;
    // A package says itself which inputs it needs; the seed fills the rest.
  } else {
    CompilationOptions compile = compilationOptions(options);
    compile.weightsInPlace = true;
    Compilation compilation(std::move(compile));
    folder.emplace();
    run.package = folder->file("run.kerf");
    run.skipHashes = true; // written a moment ago
    require(compilation, compilation.runUntil("lower"));
    require(compilation, compilation.runPackage(run.package));
  }
  run.inputs = options.inputs;
  run.hasSeed = true;
  run.seed = options.seed;
  run.outputDir = options.outputDir;
  run.statsFile = options.stats;
  run.traceFile = options.trace;
  run.inject = options.inject;
  run.repeat = static_cast<int32_t>(options.repeat);
  run.threads = static_cast<int32_t>(options.threads);
  run.timeoutSeconds = options.timeout;
  run.json = options.json;
  run.quiet = options.quiet;
  run.verbose = options.verbose;
  return rt::runPackage(run, stdout, stderr);
}
