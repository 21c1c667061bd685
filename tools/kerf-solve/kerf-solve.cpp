//===- kerf-solve.cpp - solve planning problems from files ----------------===//
//
// Reads an IOPDDL contest instance (.json or .json.gz), solves it and prints
// the solution line, then cost, proven bound and gap:
//
//     kerf-solve INSTANCE [--solver=auto] [--deadline=60] [--seed=0]
//
// Exit codes: 0 a legal solution; 2 wrong usage or a bad file; 4 no solution.
//
//===----------------------------------------------------------------------===//
#include "kerf/Plan/IOPDDL.h"
#include "kerf/Plan/Solvers.h"

#include "../ParseErrors.h"
#include "../Validators.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <zlib.h>

using namespace kerf::plan;

namespace {
enum class Solver { Auto, BruteForce, Random, Eliminate };

struct Options {
  std::string input, hint;
  Solver solver = Solver::Auto;
  double deadline = 60;
  uint64_t seed = 0;
  bool statistics = false;
};
} // namespace

/// The exit code for a file that cannot be used.
static int refuse(llvm::StringRef file, const llvm::Twine &reason) {
  llvm::errs() << "error: " << file << ": " << reason << "\n";
  return 2;
}

/// A gzip member unpacked; an error for damaged or truncated data.
static llvm::Expected<std::string> gunzip(llvm::StringRef packed) {
  z_stream stream = {};
  // 16: expect a gzip header.
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
    return llvm::createStringError("cannot start zlib");
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed.data()));
  stream.avail_in = packed.size();
  std::string text;
  int status = Z_OK;
  while (status == Z_OK) {
    size_t done = text.size();
    text.resize(std::max<size_t>(1 << 20, done * 2));
    stream.next_out = reinterpret_cast<Bytef *>(text.data() + done);
    stream.avail_out = text.size() - done;
    status = inflate(&stream, Z_NO_FLUSH);
    text.resize(text.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END)
    return llvm::createStringError("damaged or truncated gzip data");
  return text;
}

static llvm::Expected<Problem> readProblem(llvm::StringRef file) {
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer =
      llvm::MemoryBuffer::getFileOrSTDIN(file);
  if (!buffer)
    return llvm::createStringError(buffer.getError().message());
  llvm::StringRef text = (*buffer)->getBuffer();
  if (!text.starts_with("\x1f\x8b"))
    return parseIOPDDL(text);
  llvm::Expected<std::string> unpacked = gunzip(text);
  if (!unpacked)
    return unpacked.takeError();
  return parseIOPDDL(*unpacked);
}

static SolveResult run(const Problem &problem, Solver solver,
                       const SolveOptions &options) {
  switch (solver) {
  case Solver::BruteForce:
    return bruteForce(problem);
  case Solver::Random:
    return randomSolution(problem, options.seed);
  case Solver::Eliminate:
    return eliminate(problem, options);
  case Solver::Auto:
    break;
  }
  return solve(problem, options);
}

static void printStatistics(const Statistics &s) {
  llvm::outs() << "nodes " << s.nodes << " -> " << s.nodesAfterPruning
               << ", choices " << s.choices << " -> " << s.choicesAfterPruning
               << ", edges " << s.edges << " -> " << s.edgesAfterPruning << "\n"
               << "width " << s.inducedWidth << ", largest table "
               << llvm::format("%.3g", s.maxTableEntries) << ", eliminations "
               << s.eliminations << " (reused " << s.eliminationsReused << ")\n"
               << "lagrangian rounds " << s.lagrangianRounds << ", branches "
               << s.branches << ", local search moves " << s.localSearchMoves
               << "\n";
}

static void print(const Problem &problem, const SolveResult &result,
                  bool statistics) {
  if (result.hasSolution()) {
    llvm::outs() << writeSolution(result.solution) << "\n"
                 << "cost " << toString(result.cost()) << " bound "
                 << toString(result.lowerBound) << " gap "
                 << llvm::format("%.6f", result.gap());
    for (size_t r = 0; r < problem.resources.size(); ++r)
      llvm::outs() << " " << problem.resources[r].name << " "
                   << toString(result.evaluation.peaks[r].amount);
    llvm::outs() << "\n";
  }
  llvm::outs() << "status " << toString(result.status) << " after "
               << llvm::format("%.3f", result.statistics.seconds)
               << " s, stopped by " << result.statistics.stoppedBy << "\n";
  if (!result.hasSolution())
    for (size_t r = 0; r < problem.resources.size(); ++r) {
      const Problem::Resource &resource = problem.resources[r];
      llvm::outs() << resource.name << ": needs at least "
                   << toString(result.minNeeded[r]);
      if (resource.limit)
        llvm::outs() << ", limit " << *resource.limit;
      if (result.minFound[r])
        llvm::outs() << ", " << toString(*result.minFound[r]) << " is enough";
      llvm::outs() << "\n";
    }
  if (statistics)
    printStatistics(result.statistics);
}

static void addOptions(CLI::App &app, Options &options) {
  app.add_option("instance", options.input, "INSTANCE.json[.gz], - for stdin")
      ->required();
  static const std::map<std::string, Solver> solvers = {
      {"auto", Solver::Auto},
      {"brute-force", Solver::BruteForce},
      {"random", Solver::Random},
      {"eliminate", Solver::Eliminate}};
  app.add_option_function<std::string>(
         "--solver",
         [&](const std::string &name) { options.solver = solvers.at(name); },
         "auto: all of them; brute-force: every combination, for small "
         "instances; random: any legal solution; eliminate: variable "
         "elimination, limits ignored")
      ->check(CLI::IsMember(
          std::set<std::string>{"auto", "brute-force", "random", "eliminate"}));
  app.add_option("--deadline", options.deadline, "Seconds (60), 0 for none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.seed, "Of the random choices");
  app.add_option("--hint", options.hint, "File with a solution line");
  app.add_flag("--statistics", options.statistics, "Print what was done");
}

static int solveFile(const Options &given) {
  llvm::Expected<Problem> problem = readProblem(given.input);
  if (!problem)
    return refuse(given.input, llvm::toString(problem.takeError()));
  SolveOptions options;
  options.deadlineSeconds = given.deadline;
  options.seed = given.seed;
  if (!given.hint.empty()) {
    llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> buffer =
        llvm::MemoryBuffer::getFile(given.hint);
    if (!buffer)
      return refuse(given.hint, buffer.getError().message());
    llvm::Expected<Solution> solution =
        parseSolution((*buffer)->getBuffer().split('\n').first);
    if (!solution)
      return refuse(given.hint, llvm::toString(solution.takeError()));
    options.hint = std::move(*solution);
  }
  SolveResult result = run(*problem, given.solver, options);
  if (result.hasSolution())
    if (llvm::Error error = verify(*problem, result.solution).takeError()) {
      llvm::errs() << "error: " << given.input
                   << ": solver gave a bad solution: "
                   << llvm::toString(std::move(error)) << "\n";
      return 70;
    }
  print(*problem, result, given.statistics);
  return result.hasSolution() ? 0 : 4;
}

int main(int argc, char **argv) {
  Options options;
  CLI::App app("Solves planning problems");
  app.name("kerf-solve");
  addOptions(app, options);
  try {
    kerf::tool::parse(app, argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0)
      return app.exit(error); // --help
    llvm::errs() << "error: " << error.what()
                 << "\nnote: see kerf-solve --help\n";
    return 2;
  }
  return solveFile(options);
}
