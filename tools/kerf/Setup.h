//===- Setup.h - from options to a compilation ------------------*- C++ -*-===//
#ifndef KERF_TOOLS_SETUP_H
#define KERF_TOOLS_SETUP_H

#include "Options.h"

#include "kerf/Pipelines/Compilation.h"

#include "kerf/rt/job.h"
#include "kerf/rt/stop.h"

#include <optional>
#include <set>

namespace kerf::tool {

/// The library's options from the command line's. Reads plan and machine files.
CompilationOptions compilationOptions(const Options &options);

/// --from: the path of its plan; throws if options would have no effect behind
/// that phase, or if the model is IR without --from.
void takeResumption(Options &options);

/// --devices, if the option is absent, from the plan of --plan, --machine or
/// --mesh; throws if a plan is for another number.
void takeDevices(Options &options);

/// As many --devices as a mesh has that no other option gives a number.
void takeMesh(Options &options);

/// Says so where --memory-limit is more than a device of --machine has.
void noteLimit(const Options &options);

/// Says so where a plan that is made for GPUs is for ranks of a CPU: where
/// those were asked for, or the command makes a program for them.
void noteOtherMachine(const Options &options, bool makesProgram);

/// Says so where --devices is the number of a GPU that could be taken for a
/// number of GPUs.
void noteOneGpu(const Options &options);

/// --input of a model, before it is imported: names, types and sizes must fit,
/// and sizes that are open in the model are bound as by --dim. `all`: those
/// that are not given must be drawn by request. Does nothing for packages,
/// which say themselves what they take, and for training steps, whose inputs
/// are not the model's alone.
void takeInputs(Options &options, bool all);

/// Zeros for inputs that no output depends on and no flag gives. In a job each
/// process does so for itself.
void giveIdleInputs(Options &options);

/// The option that asks for inputs to be drawn, and for nothing else; empty:
/// none.
std::string drawnBy(const Options &options);

/// --data and --eval-data of a model: binds sizes of samples that are open in
/// it, as by --dim. Throws where files differ from each other or from --dim.
void takeData(Options &options);

/// Of the symbols of the dimensions of each input: those of sizes within a
/// sample, which some input has behind its first dimension, and which are
/// therefore none of samples where another begins with one that is not such.
std::set<std::string>
sizesWithinSamples(const std::vector<std::vector<std::string>> &symbols);

/// The library's options of --state.
StateOptions stateOptions(const Options &options);

/// --cache-length: binds the open sizes of a decoder, as by --dim, and asks for
/// --state=auto where no pair is given. Does nothing for packages.
void takeState(Options &options);

/// --prompt-tokens: the program of a prompt, lowered, that shares weights and
/// caches with a decoder that is; null without the option. Throws.
std::unique_ptr<Compilation> compilePrompt(const Options &options,
                                           const Compilation &decoder);

/// Patterns of --trainable without the `+` of those that add.
std::vector<std::string> namesOf(const std::vector<std::string> &trainable);

/// Prints the IR if --stop-after names a phase; true if it did.
bool stopAfter(Compilation &compilation, const Options &options);

/// Throws a Failure with the compilation's messages unless `outcome` is Fine.
void require(const Compilation &compilation, Outcome outcome);

/// The notes of the phases, with flags as the command line spells them.
std::vector<std::string> notesOf(const Compilation &compilation,
                                 const Options &options);
/// Prints them on stderr; nothing with -q.
void printNotes(const Compilation &compilation, const Options &options);

/// Whether the path names a package folder rather than a model.
bool isPackage(const std::string &path);

/// A folder that is removed with everything in it: of a command that is killed,
/// by the next one that makes such a folder.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  std::string file(const std::string &name) const { return path + "/" + name; }

private:
  std::string path;
  int lock = -1;
};

/// Makes the folder, and has Ctrl-C say that nothing is written, for as long as
/// `early` lives: until the run takes signals. A signal comes before both or
/// behind both. `alone`: in no job, whose processes would all say it.
void openTemporary(std::optional<TemporaryFolder> &folder,
                   std::optional<rt::StopNote> &early, bool alone);

/// Writes a package, with the objects to be linked in a temporary folder. One
/// that is in such a folder itself has them beside it.
Outcome packageInto(Compilation &compilation, const std::string &path,
                    llvm::ArrayRef<Compilation::Further> further = {});
Outcome packageWith(const TemporaryFolder &objects, Compilation &compilation,
                    const std::string &path,
                    llvm::ArrayRef<Compilation::Further> further,
                    const std::string &sizes);

/// Compiles the model into a package that lives as long as the command, and
/// says what was decided. `folder`: for files that are needed until the program
/// has run. `alone`: in no job, whose ranks may be elsewhere. Throws.
void compileInto(const std::string &package, const std::string &folder,
                 Options &options, bool alone);

/// "runs on 2 ranks of this CPU as x=2", with the command that shows the plan;
/// empty: on one device. `folder`: of files that are not kept, or empty.
/// `wasStopped`: the search was, which no other would be.
std::string runsAs(const Options &options, const Compilation &compilation,
                   const std::string &folder, bool wasStopped);

/// Runs `body` as this process's part of the job that mpirun, torchrun or srun
/// has started; without one the scope is empty. Sets --devices to the size of
/// the job. A failure on rank 0 ends all processes with its message and exit
/// code.
int withJob(const Options &options, bool takesPackages, bool handlesTermination,
            const std::function<int(Options &, rt::JobScope &)> &body);
/// Throws a Failure with the message of a runtime status.
void requireStatus(kerf_status_t status);
/// Whether this command starts processes of its own.
bool startsProcesses(const Options &options, const rt::JobScope &job);

/// Writes a text file under a temporary name and renames it. Throws.
void writeFile(const std::string &path, const std::string &content);

} // namespace kerf::tool

#endif // KERF_TOOLS_SETUP_H
