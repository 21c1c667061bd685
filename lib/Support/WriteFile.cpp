//===- WriteFile.cpp - a file that is whole or not there ------------------===//
#include "kerf/Support/WriteFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"

using namespace kerf;
namespace fs = llvm::sys::fs;

llvm::Error
kerf::writeFile(llvm::StringRef path,
                llvm::function_ref<void(llvm::raw_ostream &)> body) {
  std::string aside =
      (path + ".tmp" + llvm::Twine(llvm::sys::Process::getProcessId())).str();
  auto failure = [&](std::error_code code) {
    fs::remove(aside);
    return llvm::createStringError(code,
                                   path + ": cannot write: " + code.message());
  };
  std::error_code code;
  llvm::raw_fd_ostream stream(aside, code);
  if (code)
    return failure(code);
  body(stream);
  stream.close();
  code = stream.error();
  stream.clear_error();
  if (code)
    return failure(code);
  if (std::error_code renamed = fs::rename(aside, path))
    return failure(renamed);
  return llvm::Error::success();
}

mlir::LogicalResult kerf::emitProblem(mlir::Location location,
                                      llvm::Error error) {
  std::error_code code;
  std::string text;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &info) {
    code = info.convertToErrorCode();
    text = info.message();
  });
  mlir::InFlightDiagnostic diagnostic = mlir::emitError(location) << text;
  if (code != llvm::inconvertibleErrorCode())
    diagnostic.getUnderlyingDiagnostic()->getMetadata().push_back(
        mlir::DiagnosticArgument(int64_t(code.value())));
  return diagnostic;
}

bool kerf::isFileError(mlir::Diagnostic &diagnostic) {
  return !diagnostic.getMetadata().empty();
}
