//===- Package.cpp - write a lowered module as a package ------------------===//
//
// See kerf/Package/Package.h.
//
//===----------------------------------------------------------------------===//
#include "kerf/Package/Package.h"

#include "Manifest.h"

#include "kerf/Format/Schemas.h"
#include "kerf/Support/WriteFile.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/xxhash.h"

#include <unistd.h>

using namespace mlir;
using namespace kerf;
namespace fs = llvm::sys::fs;
namespace json = llvm::json;

static llvm::Error failure(StringRef path, std::error_code code) {
  return llvm::createStringError(code,
                                 path + ": cannot write: " + code.message());
}

namespace {
/// Writes the files of one package into a folder.
class FolderWriter {
public:
  explicit FolderWriter(StringRef folder) : folder(folder) {}

  /// Creates a file, fills it, syncs it, and notes its hash.
  llvm::Error
  write(StringRef name,
        llvm::function_ref<llvm::Error(llvm::raw_fd_ostream &)> fill) {
    SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    int descriptor = -1;
    if (auto code = fs::openFileForWrite(path, descriptor, fs::CD_CreateNew))
      return failure(path, code);
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    llvm::Error failed = fill(stream);
    stream.flush();
    std::error_code code = stream.error();
    if (!code && ::fsync(descriptor) != 0)
      code = std::error_code(errno, std::generic_category());
    stream.close();
    if (!code)
      code = stream.error();
    stream.clear_error(); // it ends the process where it is not asked for
    if (failed)
      return failed;
    if (code)
      return failure(path, code);
    auto content = llvm::MemoryBuffer::getFile(
        path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!content)
      return failure(path, content.getError());
    StringRef bytes = (*content)->getBuffer();
    uint64_t hash = llvm::xxh3_64bits(ArrayRef(
        reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
    std::string text;
    llvm::raw_string_ostream hex(text);
    hex << llvm::format_hex_no_prefix(hash, 16);
    files.push_back(json::Object{{"path", name.str()},
                                 {"bytes", static_cast<int64_t>(bytes.size())},
                                 {"xxh3", hex.str()}});
    return llvm::Error::success();
  }

  llvm::Error write(StringRef name, StringRef text) {
    return write(name, [&](llvm::raw_fd_ostream &stream) {
      stream << text;
      return llvm::Error::success();
    });
  }

  /// The entries of files written so far; the list begins anew.
  json::Array takeFiles() { return std::exchange(files, {}); }
  void giveFiles(json::Array given) { files = std::move(given); }

private:
  StringRef folder;
  json::Array files;
};
} // namespace

/// NAME.json and NAME.so: a manifest of its own, which names the weights of the
/// package.
static llvm::Error writeFurther(const FurtherProgram &program,
                                const WeightPlan &own, bool hasWeights,
                                FolderWriter &writer) {
  std::string library = program.name + ".so";
  json::Object manifest = buildManifest(program.module, program.contents, own);
  manifest["program"] = library;
  if (hasWeights)
    manifest["weights"] = "weights.safetensors";
  json::Array before = writer.takeFiles();
  if (llvm::Error error = writer.write(library, program.contents.sharedObject))
    return error;
  json::Array files = writer.takeFiles();
  for (const json::Value &file : before)
    if (file.getAsObject()->getString("path") == "weights.safetensors")
      files.push_back(file);
  manifest["files"] = std::move(files);
  writer.giveFiles(std::move(before));
  return writer.write(
      program.name + ".json",
      llvm::formatv("{0:2}\n", json::Value(std::move(manifest))).str());
}

static llvm::Error writeFolder(ModuleOp module, const PackageContents &contents,
                               StringRef folder,
                               MutableArrayRef<FurtherProgram> further,
                               StringRef sizes) {
  auto weights = planWeights(module, contents.weightsInPlace);
  if (!weights)
    return weights.takeError();
  json::Object manifest = buildManifest(module, contents, *weights);
  std::vector<WeightPlan> plans;
  for (FurtherProgram &program : further) {
    auto planned = planWeights(program.module, program.contents.weightsInPlace);
    if (!planned)
      return planned.takeError();
    shareWeights(*weights, plans.emplace_back(std::move(*planned)));
  }
  bool hasWeights = !weights->tensors.empty();
  if (!further.empty() && hasWeights)
    manifest["weights"] = "weights.safetensors";
  FolderWriter writer(folder);
  if (llvm::Error error = writer.write("program.so", contents.sharedObject))
    return error;
  if (contents.cuda) {
    if (llvm::Error error = writer.write(kPtxName, contents.cuda->ptx))
      return error;
    for (const auto &[arch, bytes] : contents.cuda->cubins)
      if (llvm::Error error = writer.write(cubinName(arch), bytes))
        return error;
  }
  if (hasWeights)
    if (llvm::Error error = writer.write(
            "weights.safetensors", [&](llvm::raw_fd_ostream &stream) {
              return writeWeights(module, *weights, stream);
            }))
      return error;
  for (auto [program, plan] : llvm::zip_equal(further, plans))
    if (llvm::Error error = writeFurther(program, plan, hasWeights, writer))
      return error;
  if (!sizes.empty())
    if (llvm::Error error = writer.write("sizes.json", sizes))
      return error;
  manifest["files"] = writer.takeFiles();
  if (!contents.plan.empty())
    if (llvm::Error error = writer.write("plan.json", contents.plan))
      return error;
  std::string text =
      llvm::formatv("{0:2}\n", json::Value(std::move(manifest))).str();
  return writer.write("manifest.json", text);
}

/// Moves `aside` to `path`, replacing a package that may be there.
static std::error_code moveIntoPlace(StringRef aside, StringRef path) {
  if (!fs::exists(path))
    return fs::rename(aside, path);
  std::string old = (aside + ".old").str();
  if (auto code = fs::rename(path, old))
    return code;
  if (auto code = fs::rename(aside, path)) {
    fs::rename(old, path);
    return code;
  }
  return fs::remove_directories(old);
}

/// The names of the files that the manifest `name` lists; nothing if there is
/// no such manifest.
static std::optional<std::vector<std::string>> filesOfManifest(StringRef folder,
                                                               StringRef name) {
  SmallString<128> path(folder);
  llvm::sys::path::append(path, name);
  auto text = llvm::MemoryBuffer::getFile(path);
  if (!text)
    return std::nullopt;
  auto manifest = json::parse((*text)->getBuffer());
  if (!manifest) {
    llvm::consumeError(manifest.takeError());
    return std::nullopt;
  }
  const json::Object *object = manifest->getAsObject();
  auto schema = object ? object->getString("schema") : std::nullopt;
  if (!schema || schema->rsplit('/').first != StringRef(packageSchema.name))
    return std::nullopt;
  std::vector<std::string> names;
  if (const json::Array *files = object->getArray("files"))
    for (const json::Value &file : *files)
      if (const json::Object *entry = file.getAsObject())
        if (auto own = entry->getString("path"))
          names.push_back(own->str());
  return names;
}

/// The names of a package's files, those of its further programs (writeFurther)
/// included; nothing if there is no package.
static std::optional<llvm::StringSet<>> filesOfPackage(StringRef path) {
  auto listed = filesOfManifest(path, "manifest.json");
  if (!listed)
    return std::nullopt;
  llvm::StringSet<> names{"manifest.json", "plan.json"};
  for (const std::string &name : *listed) {
    names.insert(name);
    if (StringRef(name).ends_with(".json"))
      if (auto further = filesOfManifest(path, name))
        names.insert_range(*further);
  }
  return names;
}

std::string kerf::whyNotReplaced(StringRef path) {
  path = path.rtrim('/');
  if (!fs::exists(path))
    return "";
  std::optional<llvm::StringSet<>> names = filesOfPackage(path);
  if (!names)
    return "exists and is not a package; it is not replaced";
  std::error_code code;
  std::vector<std::string> others;
  for (fs::directory_iterator it(path, code), end; it != end && !code;
       it.increment(code))
    if (StringRef name = llvm::sys::path::filename(it->path());
        !names->contains(name))
      others.push_back(name.str());
  if (code)
    return "cannot read: " + code.message();
  if (others.empty())
    return "";
  llvm::sort(others);
  return "is a package and has \"" + others.front() +
         "\", which is no file of it; it is not replaced";
}

LogicalResult kerf::writePackage(ModuleOp module,
                                 const PackageContents &contents,
                                 StringRef path,
                                 MutableArrayRef<FurtherProgram> further,
                                 StringRef sizes) {
  path = path.rtrim('/');
  if (std::string why = whyNotReplaced(path); !why.empty())
    return module.emitError("") << path << ": " << why;
  std::string aside =
      (path + ".tmp." + Twine(llvm::sys::Process::getProcessId())).str();
  if (auto code = fs::create_directory(aside, /*IgnoreExisting=*/false,
                                       fs::perms::all_all))
    return kerf::emitProblem(module.getLoc(), failure(path, code));
  llvm::scope_exit cleanup([&] { fs::remove_directories(aside); });
  if (llvm::Error error = writeFolder(module, contents, aside, further, sizes))
    return kerf::emitProblem(module.getLoc(), std::move(error));
  if (auto code = moveIntoPlace(aside, path))
    return kerf::emitProblem(module.getLoc(), failure(path, code));
  cleanup.release();
  return success();
}
