//===- FileKinds.cpp - what a file is, by its content ---------------------===//
#include "FileKinds.h"

#include "../Setup.h"

#include "kerf/Format/Schemas.h"
#include "kerf/Import/ModelImage.h"
#include "kerf/Support/Json.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace kerf;
using namespace kerf::tool;

/// What a JSON document with a schema of Kerf's is; else empty.
static std::string kindOfJson(llvm::StringRef text) {
  auto value = kerf::parseJson(text);
  if (!value) {
    llvm::consumeError(value.takeError());
    return "";
  }
  const llvm::json::Object *root = value->getAsObject();
  std::string schema =
      root ? root->getString("schema").value_or("").str() : std::string();
  auto is = [&](const Schema &known) {
    return matchSchema(known, schema) != SchemaMatch::OtherFormat;
  };
  if (is(planSchema))
    return kPlan;
  if (is(machineSchema))
    return kMachine;
  if (is(runSchema))
    return kRunReport;
  for (const Schema *known : allSchemas)
    if (is(*known))
      return schema;
  return "";
}

std::string kerf::tool::fileKind(const std::string &path) {
  namespace fs = llvm::sys::fs;
  if (fs::is_directory(path))
    return fs::exists(path + "/manifest.json") ? "a package" : "a folder";
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return "";
  llvm::StringRef text = (*buffer)->getBuffer();
  if (text.ltrim().starts_with("{"))
    return kindOfJson(text);
  if (text.starts_with("\x93NUMPY"))
    return kArray;
  if (text.starts_with("PK\x03\x04"))
    return kArchive;
  // The length of a JSON header, then the header.
  if (text.size() > 9 && text[8] == '{' &&
      llvm::support::endian::read64le(text.data()) <= text.size() - 8)
    return kSafetensors;
  ModelFacts facts;
  std::string error;
  // Bytes of other formats may parse, but have no graph.
  return readModelFacts(path, facts, error) && !facts.outputs.empty()
             ? kOnnxModel
             : "";
}

void kerf::tool::requireReplaceable(const std::string &flag,
                                    const std::string &path,
                                    const std::string &kind) {
  namespace fs = llvm::sys::fs;
  uint64_t size = 0;
  if (path.empty() || !fs::is_regular_file(path) || fs::file_size(path, size) ||
      size == 0)
    return;
  static constexpr llvm::StringLiteral kOthers[] = {
      ".py", ".ipynb", ".sh", ".pt",  ".pth",  ".ckpt",
      ".md", ".toml",  ".c",  ".cpp", ".data", ".csv"};
  std::string found = fileKind(path);
  llvm::StringRef ending = llvm::sys::path::extension(path);
  if (found.empty() && llvm::is_contained(kOthers, ending))
    found = "a file of another kind (" + ending.str() + ")";
  if (!found.empty() && found != kind)
    throw Failure{kUsage,
                  flag + ": " + path + ": exists and is " + found +
                      (kind.empty() ? "" : ", not " + kind) +
                      "; it is not replaced",
                  {"another name, or remove the file first"}};
}

void kerf::tool::requirePlan(const std::string &path) {
  std::string kind = fileKind(path);
  if (!kind.empty() && kind != kPlan)
    throw Failure{kUsage,
                  "--plan: " + path + ": is " + kind + ", expected a plan",
                  {"kerf plan -o plan.json writes one"}};
}

void kerf::tool::requireMachine(const std::string &nameOrPath) {
  // No machine that is known by name has one of these.
  if (nameOrPath.find_first_of("./") == std::string::npos)
    return;
  namespace fs = llvm::sys::fs;
  std::string where = "--machine: " + nameOrPath + ": ";
  std::vector<std::string> notes = {
      "kerf calibrate -o machine.json measures this host; --machine=h100-8 is "
      "one of those that are known by name"};
  fs::file_status status;
  if (std::error_code error = fs::status(nameOrPath, status))
    throw Failure{kUsage, where + error.message(), notes};
  std::string kind = fileKind(nameOrPath);
  bool isNamed = llvm::StringRef(nameOrPath).ends_with(".json");
  if (kind == kMachine && !isNamed)
    throw Failure{
        kUsage, where + "the name of a machine file must end in .json", {}};
  if (kind != kMachine && (!kind.empty() || !isNamed))
    throw Failure{kUsage,
                  where + "is " + (kind.empty() ? "no JSON" : kind) +
                      ", expected a machine file",
                  notes};
}
