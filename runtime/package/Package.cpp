//===- Package.cpp - an opened package ------------------------------------===//
//
// Order matters: the manifest is checked first, then files against their
// hashes, then the host against the target, and only then is native code
// loaded.
//
//===----------------------------------------------------------------------===//
#include "Package.h"

#include "../base/HostFeatures.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::rt;

// An unreadable file of a package is a bad package; one that is not there has
// been left behind by who names the package, as any file that is named. The
// package's own path is named by who opens it.
static std::shared_ptr<MappedFile> mapPackageFile(const std::string &folder,
                                                  const std::string &name) {
  try {
    return std::make_shared<MappedFile>(folder + name);
  } catch (const Error &error) {
    bool isThere = ::access((folder + name).c_str(), F_OK) == 0;
    throw Error(isThere ? KERF_BAD_PACKAGE : KERF_INVALID_ARGUMENT,
                error.message.substr(folder.size()));
  }
}

static constexpr const char *kModelKind = "an ONNX model";

/// What a file is that is no package, by its name; else empty.
static std::string kindOf(const std::string &path) {
  const std::pair<const char *, const char *> kinds[] = {
      {".onnx", kModelKind},
      {".mlir", "IR"},
      {".npy", "a NumPy array"},
      {".npz", "an archive of NumPy arrays"},
      {".json", "a JSON document"},
      {".so", "a program without its package"},
      {".safetensors", "a file of weights"},
      {".pt", "a file of PyTorch"},
      {".pth", "a file of PyTorch"}};
  for (const auto &[ending, kind] : kinds)
    if (size_t size = std::strlen(ending);
        path.size() > size &&
        path.compare(path.size() - size, size, ending) == 0)
      return kind;
  return "";
}

std::shared_ptr<Package> Package::open(const std::string &path, bool skipHashes,
                                       const std::string &program) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("cannot open: ", std::strerror(errno)));
  if (std::string kind = kindOf(path); !S_ISDIR(info.st_mode) && !kind.empty())
    throw Error(KERF_INVALID_ARGUMENT,
                cat("is ", kind,
                    ", expected a package, a folder that kerf "
                    "compile makes of a model",
                    kind == kModelKind ? "; kerf run takes models" : ""));
  // Something else was named, or a package without one of its files.
  if (!S_ISDIR(info.st_mode) ||
      (::access((path + "/manifest.json").c_str(), F_OK) != 0 &&
       ::access((path + "/program.so").c_str(), F_OK) != 0))
    throw Error(KERF_INVALID_ARGUMENT,
                "not a package, expected a folder with manifest.json, "
                "as kerf compile makes it of a model");
  auto package = std::make_shared<Package>();
  package->path = path;
  auto text = mapPackageFile(path + "/", program + ".json");
  package->manifest = parseManifest(text->data(), text->size());
  package->checkFiles(skipHashes);
  package->checkParameters();
  if (program == "manifest")
    package->readSizes();
  auto missing = missingHostFeatures(package->manifest.targetFeatures);
  if (!missing.empty()) {
    std::string list;
    for (const std::string &feature : missing)
      list += " " + feature;
    throw Error(KERF_UNSUPPORTED_HOST,
                cat("compiled for ", package->manifest.targetCpu,
                    ", this CPU lacks:", list));
  }
  package->loadProgram();
  return package;
}

void Package::readSizes() {
  if (!lists("sizes.json"))
    return;
  auto text = mapPackageFile(path + "/", "sizes.json");
  sizes = parseSizes(text->data(), text->size(), manifest);
  for (const Sizes::Program &each : sizes.programs)
    if (!each.name.empty() && !hasProgram(each.name))
      throw Error(KERF_BAD_PACKAGE,
                  "sizes.json: no program \"" + each.name + "\"");
}

bool Package::hasProgram(const std::string &program) const {
  return lists(program + ".json");
}

bool Package::lists(const std::string &file) const {
  return std::any_of(
      manifest.files.begin(), manifest.files.end(),
      [&](const FileEntry &entry) { return entry.path == file; });
}

void Package::checkFiles(bool skipHashes) {
  for (const FileEntry &entry : manifest.files) {
    auto file = mapPackageFile(path + "/", entry.path);
    if (static_cast<int64_t>(file->size()) != entry.bytes)
      throw Error(KERF_BAD_PACKAGE,
                  cat(entry.path, ": has ", file->size(),
                      " bytes, the manifest says ", entry.bytes));
    if (!skipHashes) {
      std::string hash = file->hash();
      if (hash != entry.xxh3)
        throw Error(KERF_BAD_PACKAGE, cat(entry.path, ": has hash ", hash,
                                          ", the manifest says ", entry.xxh3));
    }
    if (entry.path == manifest.weights)
      weightsFile = file;
  }
  for (const ExternalFile &entry : manifest.externalFiles) {
    externalFiles.push_back(mapPackageFile("", entry.path));
    if (static_cast<int64_t>(externalFiles.back()->size()) != entry.bytes)
      throw Error(KERF_BAD_PACKAGE,
                  cat(entry.path, ": has ", externalFiles.back()->size(),
                      " bytes, the manifest says ", entry.bytes));
  }
  if (weightsFile)
    weights = Safetensors(weightsFile, manifest.weights);
}

void Package::checkParameters() {
  for (size_t i = 0; i < manifest.parameters.size(); ++i) {
    const Parameter &p = manifest.parameters[i];
    auto bad = [&](const std::string &reason) {
      throw Error(KERF_BAD_PACKAGE, cat("manifest.json: parameters[", i, "] (",
                                        p.name, "): ", reason));
    };
    stored.emplace_back();
    if (p.source == Parameter::Splat || p.source == Parameter::Derived)
      continue;
    StoredTensor &place = stored.back();
    if (p.source == Parameter::Seeded) {
      place = {p.externalShape, nullptr};
    } else if (p.source == Parameter::External) {
      place = {p.externalShape,
               externalFiles[p.externalFile]->data() + p.externalOffset};
    } else {
      const Safetensors::Tensor *tensor = weights.find(p.tensor);
      if (!tensor)
        bad("no tensor \"" + p.tensor + "\" in " + manifest.weights);
      if (tensor->dtype != p.dtype &&
          !(tensor->dtype == KERF_U8 && codeBits(p.dtype)))
        bad(cat("is ", kerf_dtype_name(p.dtype), ", the stored tensor is ",
                kerf_dtype_name(tensor->dtype)));
      place = {tensor->shape, tensor->data};
    }
    if (p.hasView) {
      bool inside = place.shape.size() == p.globalShape.size();
      for (size_t d = 0; inside && d < p.globalShape.size(); ++d)
        inside =
            addChecked(p.viewStarts[d], p.globalShape[d]) <= place.shape[d];
      if (!inside)
        bad(cat("view of ", shapeString(p.globalShape), " at ",
                shapeString(p.viewStarts), " is not inside ",
                shapeString(place.shape)));
    } else if (numElements(p.globalShape) != numElements(place.shape)) {
      bad(cat("is ", shapeString(p.globalShape), ", the stored tensor is ",
              shapeString(place.shape)));
    }
  }
}

void Package::loadProgram() {
  // An absolute or relative path with a slash: never searched for.
  std::string file = path + "/" + manifest.program;
  if (file.find('/') == std::string::npos)
    file = "./" + file;
  program = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!program)
    throw Error(KERF_BAD_PACKAGE,
                cat(manifest.program, ": cannot load: ", ::dlerror()));
  link_map *base = nullptr;
  ::dlinfo(program, RTLD_DI_LINKMAP, &base);
  for (const FunctionDesc &f : manifest.functions) {
    void *address = ::dlsym(program, f.symbol.c_str());
    // dlsym also looks into libraries that the program may depend on.
    Dl_info info;
    if (!address || !::dladdr(address, &info) ||
        reinterpret_cast<uintptr_t>(info.dli_fbase) != base->l_addr)
      throw Error(KERF_BAD_PACKAGE,
                  cat(manifest.program, ": no function \"", f.symbol, "\""));
    functions.push_back(reinterpret_cast<kerf_program_function_t>(address));
  }
}

Package::~Package() {
  if (program)
    ::dlclose(program);
}
