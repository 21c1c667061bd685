//===- main.cpp - the kerf command line -----------------------------------===//
//
// The process leaves with _Exit: a rank that hangs must not keep it.
//
//===----------------------------------------------------------------------===//
#include "Commands.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv) {
  // Exceeding ulimit -f is then an error of the write, not the end of the
  // process.
  std::signal(SIGXFSZ, SIG_IGN);
  int code = kerf::tool::runCommandLine(argc, argv);
  std::fflush(nullptr);
  std::_Exit(code);
}
