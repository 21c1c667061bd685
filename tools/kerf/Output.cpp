//===- Output.cpp - text of the driver on stdout and stderr ---------------===//
#include "Output.h"

#include "kerf/rt/printable.h"

#include <cstdio>

using namespace kerf;
using namespace kerf::tool;

PrintableStream::~PrintableStream() {
  out << rt::printable(rest, /*lines=*/true);
}

void PrintableStream::write_impl(const char *data, size_t size) {
  rest.append(data, size);
  std::string later = rest.substr(rest.size() - rt::unfinishedBytes(rest));
  rest.resize(rest.size() - later.size());
  out << rt::printable(rest, /*lines=*/true);
  rest = std::move(later);
}

bool kerf::tool::finishOutput() {
  llvm::outs().flush();
  std::error_code code = llvm::outs().error();
  llvm::outs().clear_error(); // an uncleared error ends the process
  if (!code && (std::fflush(stdout) != 0 || std::ferror(stdout)))
    code = std::error_code(errno, std::generic_category());
  std::clearerr(stdout);
  if (code)
    rt::say(stderr, "error: stdout: cannot write: " + code.message() + "\n");
  return !code;
}
