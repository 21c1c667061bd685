//===- Commands.h - the subcommands of kerf ---------------------*- C++ -*-===//
//
// Each takes the parsed options and returns the exit code; errors are thrown as
// Failure. Results go to stdout, everything else to stderr.
//
//===----------------------------------------------------------------------===//
#ifndef KERF_TOOLS_COMMANDS_H
#define KERF_TOOLS_COMMANDS_H

#include "Options.h"

namespace kerf::tool {

int inspect(const Options &options);
int plan(const Options &options);
int compile(const Options &options);
int run(const Options &options);
int verify(const Options &options);
int generate(const Options &options);
int train(const Options &options);
int report(const Options &options);
int calibrate(const Options &options);

/// Throws where a flag would change nothing: one for GPUs without any, for
/// training without it, for pipelines of a mesh without stages, for drawing
/// what is not drawn, or one that leaves a command without output.
void refuseIdle(const Options &options, int (*command)(const Options &));

/// Runs `kerf ARGUMENTS...` (argv[0] is the program's name) and returns its
/// exit code. Throws nothing; may be called repeatedly in one process, by one
/// thread at a time.
int runCommandLine(int argc, const char *const *argv);

/// Prints a failure, gives its exit code.
int printFailure(const Failure &failure);

} // namespace kerf::tool

#endif // KERF_TOOLS_COMMANDS_H
