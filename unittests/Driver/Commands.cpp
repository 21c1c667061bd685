//===- Commands.cpp - many commands of kerf in one process ----------------===//
//
// Reads commands from stdin, a JSON array of arguments a line:
//   ["run", "model.onnx", "--devices=cpu:2", "--output-dir=out"]
// and runs each as the program `kerf` would. What it prints on stdout and
// stderr goes to the files that are given; after each command one line of JSON
// with its exit code and seconds goes to stdout. A crash ends the process, and
// so names the command that was last read. Starting a process and loading LLVM
// costs more than a small model: so thousands of cases fit into a minute.
//
//===----------------------------------------------------------------------===//
#include "Commands.h"

#include "llvm/Support/JSON.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <unistd.h>
#include <vector>

namespace json = llvm::json;

/// Empties the file behind a standard stream and starts it anew.
static void restart(FILE *stream) {
  std::fflush(stream);
  if (ftruncate(fileno(stream), 0) == 0)
    lseek(fileno(stream), 0, SEEK_SET);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: kerf-commands STDOUT_FILE STDERR_FILE\n");
    return 2;
  }
  FILE *answers = fdopen(dup(STDOUT_FILENO), "w");
  if (!answers || !std::freopen(argv[1], "w", stdout) ||
      !std::freopen(argv[2], "w", stderr))
    return 2;
  std::string line;
  while (std::getline(std::cin, line)) {
    llvm::Expected<json::Value> parsed = json::parse(line);
    const json::Array *array = parsed ? parsed->getAsArray() : nullptr;
    if (!array)
      return 2;
    std::vector<std::string> words{"kerf"};
    for (const json::Value &word : *array)
      words.push_back(word.getAsString().value_or("").str());
    std::vector<const char *> arguments;
    for (const std::string &word : words)
      arguments.push_back(word.c_str());
    restart(stdout);
    restart(stderr);
    auto start = std::chrono::steady_clock::now();
    int code = kerf::tool::runCommandLine(static_cast<int>(arguments.size()),
                                          arguments.data());
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    std::fflush(stdout);
    std::fflush(stderr);
    std::fprintf(answers, "{\"code\": %d, \"seconds\": %.6f}\n", code,
                 seconds.count());
    std::fflush(answers);
  }
  // As the program does: a rank that hangs must not keep the process.
  std::fflush(nullptr);
  _exit(0);
}
