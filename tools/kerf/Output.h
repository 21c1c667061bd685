//===- Output.h - text of the driver on stdout and stderr -------*- C++ -*-===//
#ifndef KERF_TOOLS_OUTPUT_H
#define KERF_TOOLS_OUTPUT_H

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace kerf::tool {

/// A stream of text for people to stdout or stderr, which makes names of files
/// and models printable (kerf/rt/printable.h). Used as a temporary; the
/// destructor writes the rest.
class PrintableStream : public llvm::raw_ostream {
public:
  explicit PrintableStream(llvm::raw_ostream &out)
      : raw_ostream(/*unbuffered=*/true), out(out) {}
  ~PrintableStream() override;

private:
  void write_impl(const char *data, size_t size) override;
  uint64_t current_pos() const override { return out.tell() + rest.size(); }

  llvm::raw_ostream &out;
  std::string rest; ///< the beginning of a character
};

/// Breaks lines of more than 120 columns at the last blank that fits, and goes
/// on in the next line, indented. Text without blanks is not broken.
std::string fitLines(llvm::StringRef text);

/// A name of more than 60 letters with "..." in its middle, for lines of text.
std::string shortName(const std::string &name);

/// Flushes stdout; false, with an error printed, if something of it was lost.
bool finishOutput();

} // namespace kerf::tool

#endif // KERF_TOOLS_OUTPUT_H
