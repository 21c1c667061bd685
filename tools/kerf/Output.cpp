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

std::string kerf::tool::shortName(const std::string &name) {
  constexpr size_t kMost = 60, kKept = 28; // at each end
  if (name.size() <= kMost)
    return name;
  auto isInside = [&](size_t at) { // of a character
    return at < name.size() &&
           (static_cast<unsigned char>(name[at]) & 0xC0) == 0x80;
  };
  size_t head = kKept, tail = name.size() - kKept;
  while (isInside(head))
    --head;
  while (isInside(tail))
    ++tail;
  return name.substr(0, head) + "..." + name.substr(tail);
}

std::string kerf::tool::fitLines(llvm::StringRef text) {
  constexpr size_t kColumns = 120;
  std::string result;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    bool isEnded = line.size() < text.size();
    text = rest;
    // Behind the name that a line of text begins with, or below a row.
    size_t blanks = line.size() - line.ltrim(' ').size();
    std::string indent(blanks == 0 ? 10 : blanks + 4, ' ');
    std::string begun;
    while (begun.size() + line.size() > kColumns) {
      size_t word = line.size() - line.ltrim(' ').size();
      size_t room = kColumns - begun.size(), at = line.rfind(' ', room + 1);
      // What stands apart at the end, "  (node, ...)", stays together.
      if (size_t apart = line.rfind("  (");
          apart != llvm::StringRef::npos && apart > word && apart <= room &&
          indent.size() + line.size() - apart <= kColumns)
        at = apart;
      if (at == llvm::StringRef::npos || at < word) // longer than a line
        at = line.find(' ', word);
      if (at == llvm::StringRef::npos)
        break;
      result += begun + line.take_front(at).rtrim(' ').str() + "\n";
      line = line.drop_front(at).ltrim(' ');
      begun = indent;
    }
    result += begun + line.str() + (isEnded ? "\n" : "");
  }
  return result;
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
