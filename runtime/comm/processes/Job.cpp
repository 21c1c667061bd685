//===- processes/Job.cpp - the processes that run a package ---------------===//
//
// Control messages are one letter and text: H heard, F failure, Q question
// (number), A answer (number and note), P still there? and p yes, C close (exit
// code), B goodbye.
//
//===----------------------------------------------------------------------===//
#include "Job.h"

#include "../../base/Seconds.h"
#include "../mpi/MpiTransport.h"
#include "../tcp/TcpTransport.h"

#include <algorithm>
#include <cstring>

using namespace kerf::rt;

namespace {
// An Error as lines: code, blamed rank, node, message, notes.
std::string serialize(const Error &error) {
  std::string text = cat(static_cast<int>(error.code), "\n", error.blamed, "\n",
                         error.node, "\n", error.message);
  for (const std::string &note : error.notes)
    if (text.size() + note.size() + 2 < Transport::maxControlBytes)
      text += "\n" + note;
  return text.substr(0, Transport::maxControlBytes - 1);
}

Error deserialize(const std::string &text) {
  std::vector<std::string> lines(1);
  for (char c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  lines.resize(std::max<size_t>(lines.size(), 4));
  Error error(static_cast<kerf_code_t>(std::atoi(lines[0].c_str())), lines[3],
              lines[2], {lines.begin() + 4, lines.end()});
  error.blamed = std::atoll(lines[1].c_str());
  return error;
}
} // namespace

Job::Job(const JobEnvironment &environment,
         std::unique_ptr<Transport> transport, double deadlineSeconds)
    : env(environment), link(std::move(transport)), deadline(deadlineSeconds),
      known(static_cast<size_t>(env.size)),
      heard(static_cast<size_t>(env.size), SteadyClock::now()),
      answered(static_cast<size_t>(env.size)),
      bye(static_cast<size_t>(env.size)),
      silent(static_cast<size_t>(env.size)) {
  watcher = std::thread([this] { watch(); });
}

Job::~Job() {
  ending = true;
  watcher.join();
}

uint32_t Job::allocateTags(uint32_t count) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  uint32_t tag = nextTag;
  nextTag += count;
  return tag;
}

void Job::tell(int64_t to, char kind, const std::string &text) {
  link->sendControl(to, kind + text);
}

void Job::tellAll(char kind, const std::string &text) {
  for (int64_t r = 0; r < env.size; ++r)
    if (r != env.rank)
      tell(r, kind, text);
}

void Job::fail(const Error &error) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (first)
    return;
  first = error;
  aborted.store(true, std::memory_order_release);
  try {
    tellAll('F', serialize(error));
  } catch (const Error &) { // the transport itself has failed
  }
}

Error Job::failure() const {
  std::lock_guard<std::recursive_mutex> guard(lock);
  return first ? *first : Error(KERF_INTERNAL, "no failure");
}

void Job::handle(int64_t from, const std::string &message) {
  heard[from] = SteadyClock::now();
  if (message.empty())
    return;
  std::string text = message.substr(1);
  switch (message[0]) {
  case 'F':
    if (!first) {
      first = deserialize(text);
      aborted.store(true, std::memory_order_release);
    }
    return;
  case 'Q':
    tell(from, 'A',
         text +
             std::string(reinterpret_cast<const char *>(&mine), sizeof(mine)));
    return;
  case 'A': {
    uint64_t number;
    ProcessNote note;
    if (text.size() != sizeof(number) + sizeof(note))
      return;
    std::memcpy(&number, text.data(), sizeof(number));
    std::memcpy(&note, text.data() + sizeof(number), sizeof(note));
    if (number == inquiry && answers.size() == bye.size())
      answers[from] = note;
    return;
  }
  case 'P':
    tell(from, 'p');
    return;
  case 'p':
    answered[from] = true;
    return;
  case 'C':
    if (from == 0)
      closeCode = std::atoi(text.c_str());
    return;
  case 'B':
    bye[from] = true;
    return;
  case 'H':
    if (text.size() == sizeof(ProcessNote)) {
      known[from].emplace();
      std::memcpy(&*known[from], text.data(), sizeof(ProcessNote));
    }
    return;
  default:
    return;
  }
}

void Job::poll() {
  std::lock_guard<std::recursive_mutex> guard(lock);
  link->progress();
  int64_t from;
  std::string message;
  while (link->receiveControl(from, message))
    if (from >= 0 && from < env.size)
      handle(from, message);
  if (!leaving && !lost)
    for (int64_t r = 0; r < env.size; ++r)
      if (r != env.rank && !bye[r] && isGone(r))
        lost = SteadyClock::now();
}

bool Job::terminating() {
  if (!terminateSignal())
    return false;
  if (!terminated)
    terminated = SteadyClock::now();
  return secondsSince(*terminated) > 0.15;
}

/// After a SIGCONT: a rank that does not answer soon has died. Old messages of
/// it may still arrive, so only an answer counts.
void Job::askAround() {
  if (!asked && signals && resumed != signals->resumed) {
    resumed = signals->resumed;
    asked = SteadyClock::now();
    answered.assign(answered.size(), false);
    tellAll('P');
  }
  if (!asked || secondsSince(*asked) < 0.6)
    return;
  for (int64_t r = 0; r < env.size; ++r)
    if (r != env.rank && !bye[r] && !answered[r])
      silent[r] = true;
  asked.reset();
}

void Job::watch() {
  auto beaten = SteadyClock::now();
  while (!ending) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (leaving)
      continue;
    try {
      poll();
      askAround();
      if (secondsSince(beaten) > std::min(0.25, deadline / 4)) {
        beaten = SteadyClock::now();
        std::string note(reinterpret_cast<const char *>(&mine), sizeof(mine));
        if (leads())
          tellAll('H', note);
        else
          tell(0, 'H', note);
      }
      // A waiting rank has a better message; but if no rank waits, this one
      // ends the job.
      if (first || closed())
        continue;
      if (waiting != 0)
        continue;
      bool ended = terminating();
      if (lost && (ended || secondsSince(*lost) > 3)) {
        Error error(KERF_RANK_FAILURE, cat("rank ", lostRank(), " has ended"));
        error.blamed = lostRank();
        fail(error);
      } else if (ended) {
        Error error(KERF_RANK_FAILURE, cat("signal ", terminateSignal(),
                                           " ended rank ", env.rank));
        error.blamed = env.rank;
        fail(error);
      }
    } catch (const Error &error) {
      fail(error);
    }
  }
}

Notes Job::inquire(double seconds) {
  uint64_t number;
  {
    std::lock_guard<std::recursive_mutex> guard(lock);
    number = ++inquiry;
    answers.assign(static_cast<size_t>(env.size), std::nullopt);
    answers[env.rank] = mine;
    tellAll('Q',
            std::string(reinterpret_cast<char *>(&number), sizeof(number)));
  }
  auto begin = SteadyClock::now();
  for (int round = 0;; link->rest(round++)) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    poll();
    bool all = true;
    for (int64_t r = 0; r < env.size; ++r)
      all = all && (answers[r] || isGone(r));
    if (all || failed() || secondsSince(begin) > seconds)
      return answers;
  }
}

void Job::await(const std::function<bool()> &done, const Expired &expired) {
  struct Counter {
    std::atomic<int> &count;
    explicit Counter(std::atomic<int> &c) : count(c) { ++count; }
    ~Counter() { --count; }
  } counter(waiting);
  auto begin = SteadyClock::now();
  for (int round = 0;; link->rest(round++)) {
    std::optional<Reason> reason;
    {
      std::lock_guard<std::recursive_mutex> guard(lock);
      if (failed())
        throw failure();
      poll();
      if (done())
        return;
      if (failed())
        throw failure();
      if (closed())
        throw Error(KERF_CLOSED, "rank 0 has ended the job");
      if (lost)
        reason = Reason::PeerLost;
      else if (terminating())
        reason = Reason::Signal;
      else if (secondsSince(begin) > deadline)
        reason = Reason::Deadline;
    }
    if (!reason)
      continue;
    std::optional<Error> error = expired(*reason);
    if (failed())
      throw failure();
    if (error) {
      fail(*error);
      throw failure();
    }
    begin = SteadyClock::now();
  }
}

int64_t Job::lostRank(double *seconds) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (seconds)
    *seconds = lost ? secondsSince(*lost) : 0;
  for (int64_t r = 0; r < env.size; ++r)
    if (r != env.rank && !bye[r] && isGone(r))
      return r;
  return -1;
}

std::string Job::describe(Reason reason) const {
  switch (reason) {
  case Reason::Deadline:
    return cat("within ", deadline.load(), " s");
  case Reason::PeerLost:
    return "before it ended";
  case Reason::Signal:
    return cat("before signal ", terminateSignal(), " ended the job");
  }
  return "";
}

std::optional<std::pair<ProcessNote, double>>
Job::lastKnown(int64_t rank) const {
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (!known[rank])
    return std::nullopt;
  return std::make_pair(*known[rank], secondsSince(heard[rank]));
}

/// Why the wait for a peer that may be busy ends without success.
std::optional<Error> Job::silence(Reason reason, int64_t peer,
                                  const std::string &what, int64_t &progress) {
  std::unique_lock<std::recursive_mutex> guard(lock);
  std::string message =
      cat("rank ", peer, " did not ", what, " ", describe(reason));
  int64_t missing = peer;
  if (reason == Reason::PeerLost) {
    // Ranks that wait for the lost rank in a collective have a better message.
    double since = 0;
    missing = lostRank(&since);
    // A launcher that ends the job leaves no time for these.
    if (since < 1 && !terminateSignal())
      return std::nullopt;
    message = cat("rank ", missing, " has ended",
                  mine.phase == ProcessNote::Stepping ? " during a step"
                                                      : " between two steps");
  }
  guard.unlock();
  Notes notes = inquire(reason == Reason::Signal ? 0.2 : 1);
  guard.lock();
  if (reason == Reason::Deadline &&
      secondsSince(heard[peer]) < deadline / 2 + 1) {
    bool stepping = leads() && mine.phase == ProcessNote::Stepping &&
                    notes[peer] && notes[peer]->phase == ProcessNote::Stepping;
    if (!stepping || notes[peer]->state != ProcessNote::Working ||
        notes[peer]->progress != progress) {
      progress = notes[peer] ? notes[peer]->progress : -1;
      return std::nullopt;
    }
    message = cat("rank ", peer, " did not get on from instruction ", progress,
                  " ", describe(reason));
  }
  Error error(KERF_RANK_FAILURE, message, "",
              table ? table(notes) : std::vector<std::string>());
  error.blamed = missing;
  return error;
}

void Job::awaitAlive(Request &request, int64_t peer, const std::string &what) {
  int64_t progress = -1;
  {
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (known[peer])
      progress = known[peer]->progress;
  }
  try {
    await([&] { return link->test(request); },
          [&](Reason reason) { return silence(reason, peer, what, progress); });
  } catch (...) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    link->cancel(request);
    throw;
  }
}

namespace {
/// Requests that are cancelled when a wait throws.
class Requests {
public:
  Requests(Job &job, size_t count) : list(count), job(job) {}
  ~Requests() {
    std::lock_guard<std::recursive_mutex> guard(job.mutex());
    for (Request &request : list)
      job.transport().cancel(request);
  }
  Request &operator[](size_t i) { return list[i]; }
  size_t size() const { return list.size(); }

private:
  std::vector<Request> list;
  Job &job;
};
} // namespace

void Job::broadcast(void *data, size_t bytes) {
  uint32_t tag = allocateTags(1);
  Requests requests(*this, leads() ? static_cast<size_t>(env.size) : 1);
  {
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (!leads())
      link->receive(requests[0], 0, tag, data, bytes);
    else
      for (int64_t r = 1; r < env.size; ++r)
        link->send(requests[r], r, tag, data, bytes);
  }
  for (size_t i = 0; i < requests.size(); ++i)
    awaitAlive(requests[i], static_cast<int64_t>(i),
               cat(leads() ? "take" : "send", " what rank 0 gives to all"));
}

std::vector<std::string> Job::gather(const std::string &mine,
                                     const std::string &what) {
  uint32_t tag = allocateTags(2);
  std::vector<std::string> all;
  if (!leads()) {
    uint64_t bytes = mine.size();
    Requests requests(*this, 2);
    {
      std::lock_guard<std::recursive_mutex> guard(lock);
      link->send(requests[0], 0, tag, &bytes, sizeof(bytes));
      link->send(requests[1], 0, tag + 1, mine.data(), mine.size());
    }
    awaitAlive(requests[0], 0, "take what ranks give");
    awaitAlive(requests[1], 0, "take what ranks give");
    return all;
  }
  all.resize(static_cast<size_t>(env.size));
  all[0] = mine;
  for (int64_t r = 1; r < env.size; ++r) {
    uint64_t bytes = 0;
    Requests requests(*this, 1);
    auto take = [&](uint32_t messageTag, void *to, size_t count) {
      {
        std::lock_guard<std::recursive_mutex> guard(lock);
        link->receive(requests[0], r, messageTag, to, count);
      }
      awaitAlive(requests[0], r, what);
    };
    take(tag, &bytes, sizeof(bytes));
    all[r].resize(bytes);
    take(tag + 1, all[r].data(), bytes);
  }
  return all;
}

void Job::close(int code) {
  std::lock_guard<std::recursive_mutex> guard(lock);
  if (!leads() || closed() || failed())
    return;
  closeCode = code;
  tellAll('C', std::to_string(code));
}

void Job::leave() {
  {
    std::lock_guard<std::recursive_mutex> guard(lock);
    tellAll('B');
  }
  // A goodbye is the last message of a rank.
  auto begin = SteadyClock::now();
  for (int round = 0;; link->rest(round++)) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    poll();
    int64_t missing = -1;
    for (int64_t r = 0; r < env.size; ++r)
      if (r != env.rank && !bye[r])
        missing = r;
    if (missing < 0)
      break;
    if (failed())
      throw failure();
    if (secondsSince(begin) > deadline || isGone(missing)) {
      Error error(KERF_RANK_FAILURE,
                  cat("rank ", missing, " did not end with the others ",
                      isGone(missing) ? "but on its own"
                                      : cat("within ", deadline.load(), " s")));
      error.blamed = missing;
      fail(error);
      throw error;
    }
  }
  leaving = true;
  std::unique_lock<std::recursive_mutex> guard(lock); // the watcher is out
  guard.unlock();
  link->finish(deadline);
}

int Job::awaitTurnToReport() {
  int64_t reporter = failed() && failure().blamed == 0 ? 1 : 0;
  // mpirun takes a while to end the others.
  double patience = env.launcher == JobEnvironment::OpenMpi ? 2.5 : 1;
  auto begin = SteadyClock::now();
  // The message about the failure must be sent first.
  while (secondsSince(begin) < (env.rank == reporter ? 0.05 : patience)) {
    try {
      poll();
    } catch (const Error &) {
    }
    if (closed() && !leads())
      return closedCode();
    // The launcher knows of it; but mpirun also kills the reporting rank as
    // soon as another one ends.
    if (env.rank != reporter && terminateSignal() && secondsSince(begin) > 0.4)
      return exitCode(KERF_RANK_FAILURE);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return -1;
}

int Job::awaitClose() {
  auto begin = SteadyClock::now();
  for (int round = 0; !closed(); link->rest(round++)) {
    poll();
    if (failed())
      throw failure();
    std::lock_guard<std::recursive_mutex> guard(lock);
    bool silent = secondsSince(begin) > deadline &&
                  secondsSince(heard[0]) > deadline / 2 + 1;
    if (closed() || (!silent && !isGone(0)))
      continue;
    Error error(KERF_RANK_FAILURE,
                cat("rank 0 did not end the job ",
                    describe(isGone(0) ? Reason::PeerLost : Reason::Deadline)));
    error.blamed = 0;
    fail(error);
    throw error;
  }
  return closedCode();
}

std::shared_ptr<Job> kerf::rt::joinJob(const JobEnvironment &environment,
                                       double deadlineSeconds) {
  if (environment.launcher == JobEnvironment::OpenMpi)
    return std::make_shared<Job>(environment,
                                 makeMpiTransport(environment, deadlineSeconds),
                                 deadlineSeconds);
  auto store = openJobStore(environment, deadlineSeconds);
  auto transport =
      std::make_unique<TcpTransport>(environment, *store, deadlineSeconds);
  store->gather("tcp/connected", environment.rank, environment.size, "",
                deadlineSeconds);
  // Rank 0's store must outlive the others' last question.
  auto job =
      std::make_shared<Job>(environment, std::move(transport), deadlineSeconds);
  job->keepStore(std::move(store));
  return job;
}
