//===- Checkpoints.cpp - a run that can be taken up again -----------------===//
#include "Checkpoints.h"

#include "../run/AtomicFile.h"
#include "kerf/Format/Schemas.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kerf::rt;

/// What a checkpoint says of itself and of its run. openHashed has read the
/// last.
static constexpr const char *factNames[] = {"format",
                                            "step",
                                            "updates",
                                            "epoch",
                                            "index",
                                            "seed",
                                            "batch_size",
                                            "samples",
                                            "data",
                                            "weights",
                                            "shuffle",
                                            "last_batch",
                                            "batches_per_epoch",
                                            "loss_scale",
                                            "loss_scale_steps",
                                            "learning_rate",
                                            "optimizer",
                                            "loss",
                                            "precision",
                                            "clip_norm",
                                            "xxh3"};
static const std::string prefix = "checkpoint-", ending = ".safetensors";

static std::string pathOf(const std::string &folder, int64_t step) {
  char number[32];
  std::snprintf(number, sizeof(number), "%09lld", static_cast<long long>(step));
  return folder + "/" + prefix + number + ending;
}

/// The digits of a name "checkpoint-000000100.safetensors", with whatever
/// follows them in `rest`; empty for any other name, the user's own included.
static std::string digitsOf(const std::string &name, std::string &rest) {
  if (name.compare(0, prefix.size(), prefix) != 0)
    return "";
  size_t end = name.find_first_not_of("0123456789", prefix.size());
  if (end == std::string::npos)
    return "";
  rest = name.substr(end);
  return name.substr(prefix.size(), end - prefix.size());
}

/// Names of checkpoints, the newest first.
static std::vector<std::string> list(const std::string &folder) {
  std::vector<std::string> names;
  if (DIR *open = ::opendir(folder.c_str())) {
    while (const dirent *entry = ::readdir(open)) {
      std::string rest;
      if (digitsOf(entry->d_name, rest).size() >= 9 && rest == ending)
        names.push_back(entry->d_name);
    }
    ::closedir(open);
  }
  std::sort(names.begin(), names.end(),
            [](const std::string &a, const std::string &b) {
              return std::make_pair(a.size(), a) > std::make_pair(b.size(), b);
            });
  return names;
}

void kerf::rt::keepCheckpoints(UsedFiles &files, const std::string &folder) {
  files.keeps("option checkpoint-dir", folder, prefix, ending);
}

std::string kerf::rt::holdsCheckpoints(const std::string &folder) {
  return folder + ": holds checkpoints of a run: option resume goes on with "
                  "it, another folder starts a new one";
}

bool kerf::rt::hasCheckpoints(const std::string &folder) {
  return !list(folder).empty();
}

/// Removes what a killed process left half written.
static void removeAbandoned(const std::string &folder) {
  DIR *open = ::opendir(folder.c_str());
  while (const dirent *entry = open ? ::readdir(open) : nullptr) {
    std::string rest;
    if (digitsOf(entry->d_name, rest).empty() ||
        rest.compare(0, ending.size() + 4, ending + ".tmp") != 0)
      continue;
    auto process =
        static_cast<pid_t>(std::atol(rest.c_str() + ending.size() + 4));
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH)
      ::unlink((folder + "/" + entry->d_name).c_str());
  }
  if (open)
    ::closedir(open);
}

/// A power of two as the file has it: "2^16".
static std::string exponentText(double power) {
  return "2^" + std::to_string(std::ilogb(power));
}

static void makeFolder(const std::string &folder) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    throw Error(KERF_IO_ERROR,
                folder + ": cannot create: " + whyFailed(folder, errno));
}

FolderLock::FolderLock(const std::string &folder, bool mayHaveSome) {
  makeFolder(folder);
  file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A file system without locks has none to tell.
  if (file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) != 0 &&
      errno == EWOULDBLOCK) {
    ::close(file);
    throw Error(KERF_INVALID_ARGUMENT,
                folder + ": another run that goes on writes its checkpoints "
                         "there: give this one another folder");
  }
  if (!mayHaveSome && hasCheckpoints(folder)) {
    ::close(file);
    throw Error(KERF_INVALID_ARGUMENT, holdsCheckpoints(folder));
  }
}

FolderLock::~FolderLock() { ::close(file); }

void kerf::rt::writeCheckpoint(const std::string &folder, const RunState &state,
                               const Recipe &recipe, const Weights &weights,
                               kerf_session_t *session) {
  makeFolder(folder);
  std::vector<NamedTensor> tensors;
  for (const Weights::Parameter &p : weights.parameters())
    tensors.push_back({p.name, p.dtype, p.shape});
  Metadata facts = {{"format", kerf::checkpointSchema.text()},
                    {"step", std::to_string(state.step)},
                    {"updates", std::to_string(state.updates)},
                    {"epoch", std::to_string(state.epoch)},
                    {"index", std::to_string(state.index)},
                    {"seed", std::to_string(state.seed)},
                    {"batch_size", std::to_string(state.batch)},
                    {"samples", std::to_string(state.samples)},
                    {"data", hexDigits(state.data)},
                    {"weights", hexDigits(weights.fingerprint())},
                    {"batches_per_epoch", std::to_string(state.perEpoch)},
                    {"shuffle", state.shuffle ? "on" : "off"},
                    {"last_batch", state.keepLast ? "keep" : "drop"}};
  facts.insert(recipe.begin(), recipe.end());
  if (state.lossScale) {
    facts["loss_scale"] = exponentText(state.lossScale->value);
    facts["loss_scale_steps"] = std::to_string(state.lossScale->steps);
  }
  removeAbandoned(folder);
  writeTensorFile(
      pathOf(folder, state.step), tensors,
      [&](size_t i, std::vector<char> &data) {
        weights.get(session, i, data.data());
        requireFinite(tensors[i], data.data(), state.step);
      },
      facts, /*hashed=*/true);
  // Later checkpoints belong to another run (or are damaged): they are kept.
  std::vector<std::string> names = list(folder);
  auto mine =
      std::find(names.begin(), names.end(), pathOf("", state.step).substr(1));
  for (size_t i = 0; mine != names.end(); ++i, ++mine)
    if (i >= keptCheckpoints)
      ::unlink((folder + "/" + *mine).c_str());
}

[[noreturn]] static void foreign(const std::string &path,
                                 const std::string &reason) {
  throw Error(KERF_INVALID_ARGUMENT, path + ": is of another run: " + reason);
}

static int64_t number(const Metadata &facts, const char *key) {
  auto it = facts.find(key);
  char *end = nullptr;
  errno = 0;
  int64_t value =
      it == facts.end() ? -1 : std::strtoll(it->second.c_str(), &end, 10);
  if (it == facts.end() || it->second.empty() || *end || errno || value < 0)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("has no number \"", key, "\" in its metadata"));
  return value;
}

/// The loss scale of a run in float16; runs in other types have none.
static std::optional<LossScale> lossScale(const Metadata &facts) {
  auto it = facts.find("loss_scale");
  if (it == facts.end())
    return std::nullopt;
  for (double value = LossScale::min; value <= LossScale::max; value *= 2)
    if (exponentText(value) == it->second)
      return LossScale{value, number(facts, "loss_scale_steps")};
  throw Error(KERF_INVALID_ARGUMENT, cat("loss_scale is ", it->second,
                                         ", expected a power of two as 2^16"));
}

/// Compares what the file says with this run.
static void checkFacts(const std::string &path, const Metadata &facts,
                       const RunState &state, const Weights &weights) {
  auto same = [&](const char *key, const std::string &mine,
                  const char *meaning = "") {
    auto it = facts.find(key);
    std::string theirs = it == facts.end() ? "missing" : it->second;
    if (theirs != mine)
      foreign(path, cat(key, " is ", theirs, ", this run has ", mine, meaning));
  };
  // Version 1 does not say with which weights its run began.
  if (facts.at("format") != kerf::checkpointSchema.text(1))
    same("weights", hexDigits(weights.fingerprint()),
         " (the model's file has other weights than the run began with)");
  same("seed", std::to_string(state.seed));
  same("batch_size", std::to_string(state.batch));
  same("samples", std::to_string(state.samples));
  same("data", hexDigits(state.data),
       " (the files of the data hold other numbers)");
  same("batches_per_epoch", std::to_string(state.perEpoch));
  same("shuffle", state.shuffle ? "on" : "off");
  same("last_batch", state.keepLast ? "keep" : "drop");
}

/// Whether a name is "STATE/PARAMETER" of one of `names`.
static bool isStateOf(const std::string &name,
                      const std::set<std::string> &names) {
  size_t slash = name.find('/');
  return slash != std::string::npos && names.count(name.substr(slash + 1));
}

/// What makes a tensor be in one of two runs alone: a state that the other
/// keeps of nothing is another optimizer's, all else is what is trained.
static std::string whyAlone(const std::string &name,
                            const std::set<std::string> &own,
                            const std::set<std::string> &others) {
  std::string state = name.substr(0, name.find('/') + 1);
  bool isKnown =
      std::any_of(others.begin(), others.end(), [&](const auto &each) {
        return each.compare(0, state.size(), state) == 0;
      });
  return isStateOf(name, own) && !isKnown
             ? ": a state of another optimizer (option optimizer): to go on "
               "with this one, train the model that the run has written "
               "(option output), without option resume and with another "
               "folder as option checkpoint-dir"
             : ": another option frozen or option trainable than before trains "
               "other parameters";
}

static std::string describe(kerf_dtype_t dtype,
                            const std::vector<int64_t> &shape) {
  return cat(kerf_dtype_name(dtype), " ", shapeString(shape));
}

static void checkTensors(const std::string &path, const Safetensors &file,
                         const Weights &weights) {
  std::set<std::string> names, found;
  for (const Weights::Parameter &p : weights.parameters())
    names.insert(p.name);
  for (auto &[name, tensor] : file.all())
    found.insert(name);
  for (const Weights::Parameter &p : weights.parameters()) {
    const Safetensors::Tensor *tensor = file.find(p.name);
    if (!tensor)
      foreign(path,
              "it has no \"" + p.name + "\"" + whyAlone(p.name, names, found));
    if (tensor->dtype != p.dtype || tensor->shape != p.shape)
      foreign(path, cat("\"", p.name, "\" is ",
                        describe(tensor->dtype, tensor->shape),
                        ", this run has ", describe(p.dtype, p.shape)));
  }
  for (const std::string &name : found)
    if (!names.count(name))
      foreign(path, "it has \"" + name + "\", which this run does not have" +
                        whyAlone(name, found, names));
}

/// A model of other weights that has other parameters is another model: its
/// run differs in more, which is no matter then.
static void checkModel(const std::string &path, const Safetensors &file,
                       const Weights &weights) {
  const Metadata &facts = file.metadata();
  if (auto it = facts.find("weights");
      it != facts.end() && it->second == hexDigits(weights.fingerprint()))
    return;
  std::set<std::string> own, found;
  for (const Weights::Parameter &p : weights.parameters())
    own.insert(p.name);
  for (auto &[name, tensor] : file.all())
    found.insert(name);
  auto other = [&](const std::string &theirs, const std::string &mine) {
    throw Error(KERF_INVALID_ARGUMENT,
                cat(path, ": is of another model: it has ", theirs,
                    ", this model has ", mine));
  };
  auto alone = [](const std::set<std::string> &some,
                  const std::set<std::string> &others) -> std::string {
    for (bool isState : {false, true})
      for (const std::string &name : some)
        if (!others.count(name) && !isStateOf(name, some) &&
            (name.find('/') != std::string::npos) == isState)
          return "\"" + name + "\"";
    return "";
  };
  std::string mine = alone(own, found), theirs = alone(found, own);
  if (!mine.empty() && !theirs.empty())
    other(theirs, mine);
  for (const Weights::Parameter &p : weights.parameters())
    if (const Safetensors::Tensor *tensor = file.find(p.name);
        tensor && tensor->shape != p.shape)
      other("\"" + p.name + "\" as " + describe(tensor->dtype, tensor->shape),
            "it as " + describe(p.dtype, p.shape));
}

/// Steps, epochs and batches of a run that has been at this place.
static void checkPlace(const RunState &state, int64_t perEpoch) {
  int64_t done = 0;
  bool isPlace =
      perEpoch > 0 && state.index < perEpoch && state.updates <= state.step &&
      !__builtin_mul_overflow(state.epoch, perEpoch, &done) &&
      !__builtin_add_overflow(done, state.index, &done) && done == state.step;
  if (!isPlace)
    throw Error(KERF_INVALID_ARGUMENT,
                cat("stands at no place of a run: step ", state.step, " with ",
                    state.updates, " updates, batch ", state.index, " of ",
                    perEpoch, " in epoch ", state.epoch));
}

Safetensors kerf::rt::openCheckpoint(const std::string &path, RunState &state) {
  Safetensors file = openHashed(path);
  const Metadata &facts = file.metadata();
  auto it = facts.find("format");
  std::string found = it == facts.end() ? "" : it->second;
  std::string wrong = kerf::schemaMismatch(kerf::checkpointSchema, found);
  if (!wrong.empty())
    throw Error(kerf::matchSchema(kerf::checkpointSchema, found) ==
                        kerf::SchemaMatch::OtherVersion
                    ? KERF_OTHER_VERSION
                    : KERF_INVALID_ARGUMENT,
                "format " + wrong);
  for (const auto &fact : facts)
    if (std::find(std::begin(factNames), std::end(factNames), fact.first) ==
        std::end(factNames))
      throw Error(KERF_INVALID_ARGUMENT,
                  "has an unknown \"" + fact.first + "\" in its metadata");
  state.step = number(facts, "step");
  state.updates = number(facts, "updates");
  state.epoch = number(facts, "epoch");
  state.index = number(facts, "index");
  checkPlace(state, number(facts, "batches_per_epoch"));
  state.lossScale = lossScale(facts);
  return file;
}

/// "loss is mse(y,t), was l1(y,t)" of each that the file has and that is
/// another.
static std::string changesOf(const Metadata &facts, const Recipe &recipe) {
  std::string text;
  for (const auto &[key, mine] : recipe) {
    auto it = facts.find(key);
    if (it == facts.end() || it->second == mine)
      continue;
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    text +=
        cat(text.empty() ? "" : "; ", name, " is ", mine, ", was ", it->second);
  }
  return text;
}

bool kerf::rt::loadNewestCheckpoint(const std::string &folder,
                                    const Recipe &recipe,
                                    const Weights &weights,
                                    kerf_session_t *session, RunState &state,
                                    std::vector<std::string> &refused,
                                    std::string &changed) {
  std::vector<std::string> names = list(folder);
  for (const std::string &name : names) {
    std::string path = folder + "/" + name;
    Safetensors file;
    RunState found = state;
    try {
      file = openCheckpoint(path, found);
    } catch (const Error &error) {
      // It is whole: the run does not go back to an earlier one unasked.
      if (error.code == KERF_OTHER_VERSION)
        throw Error(KERF_INVALID_ARGUMENT, path + ": " + error.message);
      refused.push_back(error.code == KERF_IO_ERROR
                            ? error.message
                            : path + ": is damaged: " + error.message);
      continue;
    }
    checkModel(path, file, weights);
    // Before names: of another model, these have no other reason to differ.
    checkFacts(path, file.metadata(), state, weights);
    checkTensors(path, file, weights);
    if (found.lossScale.has_value() != state.lossScale.has_value())
      foreign(path, found.lossScale ? "it has a scale of the loss, this run is "
                                      "not in float16"
                                    : "it has no scale of the loss, this run "
                                      "is in float16");
    for (size_t i = 0; i < weights.parameters().size(); ++i)
      weights.set(session, i, file.find(weights.parameters()[i].name)->data);
    changed = changesOf(file.metadata(), recipe);
    state = found;
    return true;
  }
  if (!names.empty())
    throw Error(KERF_INVALID_ARGUMENT,
                folder + ": no checkpoint in it can be loaded");
  return false;
}
