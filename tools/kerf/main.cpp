//===- main.cpp - the kerf command line -----------------------------------===//
//
// The process leaves with _Exit: a rank that hangs must not keep it.
//
//===----------------------------------------------------------------------===//
#include "Commands.h"

#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv) {
  int code = kerf::tool::runCommandLine(argc, argv);
  std::fflush(nullptr);
  std::_Exit(code);
}
