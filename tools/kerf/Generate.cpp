//===- Generate.cpp - generate --------------------------------------------===//
//
// A decoder is compiled into a temporary package with a cache that holds the
// prompt and the tokens; a package is run as it is.
//
//===----------------------------------------------------------------------===//
#include "../SpellFlags.h"
#include "Commands.h"
#include "Setup.h"
#include "report/Report.h"

#include "kerf/rt/generate.h"

#include "llvm/Support/FileSystem.h"

using namespace kerf;
using namespace kerf::tool;

/// "1,2,3" and "1 2 3".
static std::vector<int64_t> parseIds(const std::vector<std::string> &texts,
                                     const std::string &flag) {
  std::vector<int64_t> ids;
  for (const std::string &text : texts) {
    llvm::SmallVector<llvm::StringRef> parts;
    llvm::StringRef(text).split(parts, ',');
    for (llvm::StringRef part : parts)
      if (part.trim().getAsInteger(10, ids.emplace_back()))
        throw Failure{kUsage,
                      flag + ": \"" + part.trim().str() +
                          "\" is no id, expected integers as 1,2,3",
                      {}};
  }
  return ids;
}

static int generateInJob(Options &options, rt::JobScope &job) {
  rt::GenerateOptions o;
  o.prompt = parseIds(options.promptIds, "--prompt-ids");
  o.endIds = parseIds(options.endIds, "--eos");
  o.tokens = options.tokens;
  o.sampling = {options.temperature, options.topK, options.topP, options.seed};
  std::optional<TemporaryFolder> folder;
  if (isPackage(options.model)) {
    if (options.cacheLength)
      throw Failure{kUsage,
                    "--cache-length: " + options.model +
                        " is a package, which has its cache",
                    {}};
    o.package = options.model;
  } else {
    // The last token is chosen, not fed; a cache has two positions at least.
    if (!options.cacheLength)
      options.cacheLength = std::max<int64_t>(
          2, static_cast<int64_t>(o.prompt.size()) + o.tokens - 1);
    std::optional<rt::StopNote> early; // until the run takes signals
    openTemporary(folder, early, !job);
    o.package = folder->file("generate.kerf");
    o.model = options.model;
    o.skipHashes = true; // written a moment ago
    if (job.leads()) {
      takeState(options);
      compileInto(o.package, folder->file(""), options, !job);
    } else {
      llvm::sys::fs::create_directory(o.package);
    }
    requireStatus(job.shareFolder(o.package));
  }
  o.statsFile = options.stats;
  o.inject = options.inject;
  o.threads = static_cast<int32_t>(options.threads);
  o.timeoutSeconds = options.timeout;
  o.json = options.json;
  o.quiet = options.quiet;
  if (startsProcesses(options, job))
    return rt::generateInProcesses(o, stdout, onStderr());
  return rt::generate(o, job, stdout, onStderr());
}

int kerf::tool::generate(const Options &given) {
  return withJob(given, /*takesPackages=*/true, /*handlesTermination=*/false,
                 generateInJob);
}
