//===- Output.h - what the driver prints ------------------------*- C++ -*-===//
#ifndef KERF_TOOLS_OUTPUT_H
#define KERF_TOOLS_OUTPUT_H

#include "llvm/Support/raw_ostream.h"

#include <string>

namespace kerf::tool {

/// Text for people on its way to stdout or stderr: names of files and models
/// pass it and become printable (kerf/rt/printable.h). Made where it is used;
/// what it was given is on its way when it dies.
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

/// Flushes stdout; false, with an error printed, if something of it was lost.
bool finishOutput();

} // namespace kerf::tool

#endif // KERF_TOOLS_OUTPUT_H
