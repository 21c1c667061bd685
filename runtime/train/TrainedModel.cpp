//===- TrainedModel.cpp - the model with other weights --------------------===//
#include "TrainedModel.h"

#include "../run/AtomicFile.h"
#include "TensorFile.h"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::rt;

static std::string realPath(const std::string &path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) ? buffer : path;
}

static std::string nameOf(const std::string &path) {
  return path.substr(path.rfind('/') + 1);
}

void kerf::rt::requireWritable(const std::string &path) {
  AtomicFile trial(path); // what permissions say is not all: a full disk, /proc
}

std::vector<std::string> kerf::rt::placesOf(const TrainOptions &options) {
  const std::vector<std::string> &files = options.modelFiles;
  const std::string &output = options.output;
  requireWritable(output);
  std::vector<std::string> places = {output};
  std::string from = folderOf(realPath(files.at(0))), to = folderOf(output);
  for (size_t i = 1; i < files.size(); ++i) {
    std::string real = realPath(files[i]);
    // External data lies below the model's folder: the importer refuses others.
    if (real.compare(0, from.size() + 1, from + "/") != 0)
      throw Error(KERF_INVALID_ARGUMENT,
                  files[i] + ": external data is not below " + from);
    std::string relative = real.substr(from.size() + 1);
    if (auto own = options.dataNames.find(files[i]);
        own != options.dataNames.end())
      relative = own->second;
    places.push_back(to + "/" + relative);
    if (realPath(folderOf(places.back())) == realPath(to) &&
        folderOf(relative) == "." && places.back() == to + "/" + nameOf(output))
      throw Error(KERF_INVALID_ARGUMENT,
                  output + ": is the name of the model's external data: give "
                           "the model another");
    if (realPath(places.back()) == real)
      throw Error(KERF_INVALID_ARGUMENT,
                  output + ": its external data would replace " + files[i] +
                      " of the model it is trained from: write to another "
                      "folder");
  }
  return places;
}

/// Makes the folders between `base` and the file.
static void makeFolders(const std::string &base, const std::string &path) {
  for (size_t at = base.size() + 1;
       (at = path.find('/', at)) != std::string::npos; ++at)
    if (::mkdir(path.substr(0, at).c_str(), 0777) != 0 && errno != EEXIST)
      throw Error(KERF_IO_ERROR, path.substr(0, at) + ": cannot create: " +
                                     whyFailed(path.substr(0, at), errno));
}

/// Writes the pieces of `image`, or if it is empty a copy of the model's file.
static void writeImage(AtomicFile &file, const MappedFile &original,
                       const std::vector<TrainOptions::Piece> &image) {
  if (image.empty())
    file.write(original.data(), original.size());
  for (const TrainOptions::Piece &piece : image)
    if (piece.length == 0)
      file.write(piece.bytes.data(), piece.bytes.size());
    else if (piece.begin > original.size() ||
             piece.length > original.size() - piece.begin)
      throw Error(KERF_IO_ERROR, "the model's file has become shorter");
    else
      file.write(original.data() + piece.begin, piece.length);
}

/// Where a byte of the model's file lies in its image.
static uint64_t placeInImage(const std::vector<TrainOptions::Piece> &image,
                             uint64_t offset) {
  uint64_t at = 0;
  for (const TrainOptions::Piece &piece : image) {
    if (piece.length > 0 && offset >= piece.begin &&
        offset - piece.begin < piece.length)
      return at + (offset - piece.begin);
    at += piece.length > 0 ? piece.length : piece.bytes.size();
  }
  if (image.empty())
    return offset;
  throw Error(KERF_INTERNAL, "a weight is not in the trained model's file");
}

void kerf::rt::writeTrainedModel(const TrainOptions &options,
                                 const Weights &weights,
                                 kerf_session_t *session, int64_t step) {
  const std::vector<std::string> &files = options.modelFiles;
  const std::string &output = options.output;
  std::vector<std::string> places = placesOf(options);
  std::vector<std::unique_ptr<AtomicFile>> copies;
  std::map<std::string, AtomicFile *> byFile;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i > 0)
      makeFolders(folderOf(output), places[i]);
    MappedFile original(files[i]);
    copies.push_back(std::make_unique<AtomicFile>(places[i]));
    if (i == 0)
      writeImage(*copies.back(), original, options.image);
    else
      copies.back()->write(original.data(), original.size());
    byFile[realPath(files[i])] = copies.back().get();
  }
  for (const Weights::Tensor &tensor : weights.tensors()) {
    if (tensor.parts.empty())
      continue;
    auto it = byFile.find(realPath(tensor.file));
    if (it == byFile.end())
      throw Error(KERF_INTERNAL, "weight \"" + tensor.name + "\" is in " +
                                     tensor.file +
                                     ", which is no file of the model");
    std::vector<char> data = weights.gather(session, tensor);
    requireFinite({tensor.name, tensor.dtype, tensor.shape}, data.data(), step);
    AtomicFile &copy = *it->second;
    if (auto own = options.copies.find(tensor.name);
        own != options.copies.end())
      copies.front()->writeAt(own->second, data.data(), data.size());
    else if (&copy == copies.front().get())
      copy.writeAt(placeInImage(options.image, tensor.offset), data.data(),
                   data.size());
    else
      copy.writeAt(tensor.offset, data.data(), data.size());
  }
  for (auto &copy : copies)
    copy->sync();
  for (size_t i = copies.size(); i-- > 0;) // the model last
    copies[i]->commit();
}

void kerf::rt::writeTrainedSafetensors(
    const std::string &path, const Weights &weights,
    const std::map<std::string, Shape> &shapes, kerf_session_t *session,
    int64_t step) {
  // The same tensor under two names, or two files' tensors of one name: by
  // name.
  std::set<std::string> seen;
  std::vector<NamedTensor> tensors;
  std::vector<const Weights::Tensor *> sources;
  for (const Weights::Tensor &tensor : weights.tensors())
    if (seen.insert(tensor.name).second) {
      auto known = shapes.find(tensor.name);
      bool fits = known != shapes.end() &&
                  numElements(known->second) == numElements(tensor.shape);
      tensors.push_back(
          {tensor.name, tensor.dtype, fits ? known->second : tensor.shape});
      sources.push_back(&tensor);
    }
  writeTensorFile(
      path, tensors,
      [&](size_t i, std::vector<char> &data) {
        data = weights.gather(session, *sources[i]);
        if (!sources[i]->parts.empty())
          requireFinite(tensors[i], data.data(), step);
      },
      {{"format", "pt"}}, /*hashed=*/false);
}
