#include "Emulator.h"

#include "lib/Lower/Codegen/ObjectCode.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace llvm;

//===----------------------------------------------------------------------===//
// Fibers
//===----------------------------------------------------------------------===//

// Saves what a call keeps, changes stacks, restores.
asm(R"(
.text
.type kerf_test_switch, @function
kerf_test_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kerf_test_switch, .-kerf_test_switch
)");
extern "C" void kerf_test_switch(void **save, void *to);

namespace kerf::test {

namespace {

/// What the code asks of the emulator, and reads.
struct Hooks {
  uint32_t thread = 0, block = 0;
  void (*barrier)() = nullptr;
  uint32_t (*shuffle)(uint32_t value, uint32_t distance) = nullptr;
};

constexpr size_t kStack = 128 << 10;
constexpr uint32_t kWarp = 32;
/// Distances of what is no shuffle, but lets a warp's threads meet as one does.
constexpr uint32_t kBallot = ~0u, kWarpBarrier = ~1u;

/// The threads of one block.
class Block {
public:
  using Kernel = void (*)(void *const *);
  enum class State { Ready, Barrier, Shuffle, Done };

  Block(uint32_t threads, Kernel kernel, void *const *buffers, Hooks *hooks)
      : fibers(threads), kernel(kernel), buffers(buffers), hooks(hooks) {
    bytes = threads * kStack;
    memory = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Block() { munmap(memory, bytes); }

  std::string run(std::mt19937_64 &random) {
    current = this;
    std::vector<uint32_t> order(fibers.size());
    for (uint32_t at = 0; at < fibers.size(); ++at) {
      order[at] = at;
      prepare(at);
    }
    while (true) {
      std::shuffle(order.begin(), order.end(), random);
      for (uint32_t at : order) {
        if (fibers[at].state != State::Ready)
          continue;
        running = at;
        hooks->thread = at;
        kerf_test_switch(&scheduler, fibers[at].stack);
      }
      if (std::all_of(fibers.begin(), fibers.end(),
                      [](const Fiber &f) { return f.state == State::Done; }))
        return "";
      std::string error = meet();
      if (!error.empty())
        return error;
    }
  }

  static void atBarrier() { current->wait(State::Barrier); }
  static uint32_t atShuffle(uint32_t value, uint32_t distance) {
    Fiber &fiber = current->fibers[current->running];
    fiber.value = value;
    fiber.distance = distance;
    Block *block = current;
    uint32_t self = block->running;
    block->wait(State::Shuffle);
    return block->fibers[self].value;
  }

private:
  struct Fiber {
    void *stack = nullptr;
    State state = State::Ready;
    uint32_t value = 0, distance = 0;
  };

  static void entry() {
    Block *block = current;
    block->kernel(block->buffers);
    block->wait(State::Done);
    abort();
  }

  void prepare(uint32_t at) {
    auto *top = reinterpret_cast<uint64_t *>(memory + (at + 1) * kStack - 64);
    // Aligned as behind a call, then what the switch restores.
    *--top = 0;
    *--top = reinterpret_cast<uint64_t>(&entry);
    for (int kept = 0; kept < 6; ++kept)
      *--top = 0;
    fibers[at] = {top, State::Ready, 0, 0};
  }

  void wait(State state) {
    Fiber &fiber = fibers[running];
    fiber.state = state;
    kerf_test_switch(&fiber.stack, scheduler);
  }

  /// Nobody is ready: warps whose threads all shuffle go on, or the whole block
  /// if all are at a barrier.
  std::string meet() {
    bool any = false;
    for (size_t warp = 0; warp < fibers.size(); warp += kWarp) {
      size_t end = std::min(fibers.size(), warp + kWarp);
      size_t shuffling = 0;
      for (size_t at = warp; at < end; ++at)
        shuffling += fibers[at].state == State::Shuffle;
      if (!shuffling)
        continue;
      if (shuffling != kWarp)
        return "a shuffle is reached by " + std::to_string(shuffling) +
               " threads of a warp";
      std::vector<uint32_t> values;
      for (size_t at = warp; at < end; ++at) {
        if (fibers[at].distance != fibers[warp].distance)
          return "threads of a warp are at different shuffles";
        values.push_back(fibers[at].value);
      }
      uint32_t votes = 0, distance = fibers[warp].distance;
      for (size_t lane = 0; lane < kWarp; ++lane)
        votes |= (values[lane] & 1) << lane;
      for (size_t at = warp; at < end; ++at) {
        fibers[at].value =
            distance < kWarp ? values[(at - warp) ^ distance] : votes;
        fibers[at].state = State::Ready;
      }
      any = true;
    }
    if (any)
      return "";
    for (Fiber &fiber : fibers)
      if (fiber.state != State::Barrier)
        return "not all threads of a block reach a barrier";
    for (Fiber &fiber : fibers)
      fiber.state = State::Ready;
    return "";
  }

  static thread_local Block *current;
  std::vector<Fiber> fibers;
  Kernel kernel;
  void *const *buffers;
  Hooks *hooks;
  char *memory;
  size_t bytes;
  void *scheduler = nullptr;
  uint32_t running = 0;
};
thread_local Block *Block::current = nullptr;

//===----------------------------------------------------------------------===//
// From a GPU's module to one of this CPU
//===----------------------------------------------------------------------===//

/// The hardware of a CPU may flush what the GPU rounds.
Value *truncateToBFloat(IRBuilder<> &b, Value *value, Type *to) {
  Type *i32 = value->getType()->getWithNewBitWidth(32);
  if (value->getType()->isVectorTy())
    i32 = VectorType::get(
        b.getInt32Ty(), cast<VectorType>(value->getType())->getElementCount());
  else
    i32 = b.getInt32Ty();
  Type *i16 = i32->getWithNewBitWidth(16);
  auto number = [&](uint32_t n) { return ConstantInt::get(i32, n); };
  Value *bits = b.CreateBitCast(value, i32);
  Value *odd = b.CreateAnd(b.CreateLShr(bits, 16), number(1));
  Value *rounded = b.CreateAdd(b.CreateAdd(bits, odd), number(0x7fff));
  Value *nan = b.CreateOr(bits, number(0x400000));
  rounded = b.CreateSelect(b.CreateFCmpUNO(value, value), nan, rounded);
  return b.CreateBitCast(b.CreateTrunc(b.CreateLShr(rounded, 16), i16), to);
}

} // namespace

bool Emulator::add(mlir::Operation *op, const std::string &name) {
  Entry entry;
  entry.context = std::make_unique<LLVMContext>();
  auto emitted = emitGpuEntry(op, name, *entry.context);
  if (failed(emitted))
    return false;
  entry.info = std::move(*emitted);
  return take(std::move(entry), name);
}

bool Emulator::addBatch(exec::KernelOp kernel, const std::string &name) {
  Entry entry;
  entry.context = std::make_unique<LLVMContext>();
  auto emitted = emitGpuBatch(kernel, name, *entry.context);
  if (!emitted)
    return false;
  entry.info = std::move(*emitted);
  return take(std::move(entry), name);
}

bool Emulator::take(Entry entry, const std::string &name) {
  Module &module = *entry.info.module;
  IRBuilder<> b(module.getContext());
  auto *hooksType = StructType::create(
      {b.getInt32Ty(), b.getInt32Ty(), b.getPtrTy(), b.getPtrTy()});
  auto *hooks = new GlobalVariable(
      module, hooksType, false, GlobalValue::ExternalLinkage,
      ConstantAggregateZero::get(hooksType), name + ".hooks");
  auto hook = [&](unsigned field) {
    Type *type = hooksType->getElementType(field);
    return b.CreateLoad(type, b.CreateStructGEP(hooksType, hooks, field));
  };
  auto meetInWarp = [&](Value *value, Value *distance) {
    entry.meets = true;
    auto *type = FunctionType::get(b.getInt32Ty(),
                                   {b.getInt32Ty(), b.getInt32Ty()}, false);
    return b.CreateCall(type, hook(3), {value, distance});
  };
  for (GlobalVariable &global : module.globals())
    if (global.getAddressSpace() == 3) {
      // As a GPU's shared memory: without a value, and seen from outside.
      global.setLinkage(GlobalValue::ExternalLinkage);
      global.setInitializer(Constant::getNullValue(global.getValueType()));
      entry.shared.push_back({global.getName().str(),
                              (int64_t)module.getDataLayout().getTypeAllocSize(
                                  global.getValueType())});
    }
  for (Function &function : module) {
    function.setCallingConv(CallingConv::C);
    if (function.isDeclaration())
      continue;
    function.setAttributes(AttributeList());
    function.addFnAttr("no-builtins");
    function.addFnAttr(Attribute::NoUnwind);
    for (Instruction &at : make_early_inc_range(instructions(function))) {
      b.SetInsertPoint(&at);
      if (isa<FPTruncInst>(at) && at.getType()->getScalarType()->isBFloatTy()) {
        at.replaceAllUsesWith(
            truncateToBFloat(b, at.getOperand(0), at.getType()));
        at.eraseFromParent();
        continue;
      }
      auto *call = dyn_cast<CallInst>(&at);
      if (!call || !call->getCalledFunction())
        continue;
      StringRef callee = call->getCalledFunction()->getName();
      if (!callee.starts_with("llvm.nvvm."))
        continue;
      Value *result = nullptr;
      if (callee == "llvm.nvvm.read.ptx.sreg.tid.x") {
        result = hook(0);
      } else if (callee == "llvm.nvvm.read.ptx.sreg.ctaid.x") {
        result = hook(1);
      } else if (callee.starts_with("llvm.nvvm.barrier")) {
        if (!dropBarriers) {
          entry.meets = true;
          b.CreateCall(FunctionType::get(b.getVoidTy(), false), hook(2));
        }
      } else if (callee.starts_with("llvm.nvvm.shfl.sync.bfly")) {
        Value *value = b.CreateBitCast(call->getArgOperand(1), b.getInt32Ty());
        result = b.CreateBitCast(meetInWarp(value, call->getArgOperand(2)),
                                 call->getType());
      } else if (callee == "llvm.nvvm.vote.ballot.sync") {
        Value *vote = b.CreateZExt(call->getArgOperand(1), b.getInt32Ty());
        result = meetInWarp(vote, b.getInt32(kBallot));
      } else if (callee == "llvm.nvvm.bar.warp.sync") {
        if (!dropBarriers)
          meetInWarp(b.getInt32(0), b.getInt32(kWarpBarrier));
      } else {
        errs() << "unknown intrinsic " << callee << "\n";
        return false;
      }
      if (result)
        call->replaceAllUsesWith(result);
      call->eraseFromParent();
    }
  }
  Function *kernel = module.getFunction(name);
  Function *caller =
      Function::Create(FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
                       GlobalValue::ExternalLinkage, name + ".call", module);
  caller->addFnAttr("no-builtins");
  kernel->setLinkage(GlobalValue::InternalLinkage);
  b.SetInsertPoint(BasicBlock::Create(module.getContext(), "entry", caller));
  SmallVector<Value *> arguments;
  for (auto [at, argument] : enumerate(kernel->args())) {
    Value *pointer =
        b.CreateLoad(b.getPtrTy(),
                     b.CreateConstGEP1_64(b.getPtrTy(), caller->getArg(0), at));
    arguments.push_back(argument.getType()->isPointerTy()
                            ? b.CreateAddrSpaceCast(pointer, argument.getType())
                            : b.CreatePtrToInt(pointer, argument.getType()));
  }
  b.CreateCall(kernel, arguments);
  b.CreateRetVoid();
  entries.emplace(name, std::move(entry));
  return true;
}

std::string Emulator::compile() {
  auto target = codegen::resolve("host");
  if (!target)
    return toString(target.takeError());
  std::vector<SmallString<0>> objects;
  for (auto &[name, entry] : entries) {
    const char *dump = getenv("KERF_TEST_DUMP");
    auto object =
        codegen::compileModule(*entry.info.module, *target, dump ? dump : "");
    if (!object)
      return toString(object.takeError());
    objects.push_back(std::move(*object));
    entry.info.module.reset();
  }
  auto shared = codegen::linkShared(objects);
  if (!shared)
    return toString(shared.takeError());
  char path[] = "/tmp/kerf-test-XXXXXX";
  int file = mkstemp(path);
  if (write(file, shared->data(), shared->size()) != (ssize_t)shared->size())
    return "cannot write";
  close(file);
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  return library ? "" : dlerror();
}

std::string Emulator::launch(const std::string &name,
                             std::vector<void *> buffers, FailureRecord &record,
                             uint64_t seed, const std::vector<uint32_t> &only) {
  const Entry &entry = entries.at(name);
  auto kernel =
      reinterpret_cast<Block::Kernel>(dlsym(library, (name + ".call").c_str()));
  auto *hooks = static_cast<Hooks *>(dlsym(library, (name + ".hooks").c_str()));
  if (!kernel || !hooks)
    return name + " is not in the library";
  hooks->barrier = Block::atBarrier;
  hooks->shuffle = Block::atShuffle;
  buffers.push_back(&record);
  auto [gx, gy, gz] = entry.info.grid;
  auto [bx, by, bz] = entry.info.block;
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || bx > 1024 || gx > INT32_MAX)
    return "a launch that the emulator does not know";
  std::mt19937_64 random(seed);
  std::vector<uint32_t> order = only;
  for (uint32_t at = 0; only.empty() && at < gx; ++at)
    order.push_back(at);
  std::shuffle(order.begin(), order.end(), random);
  std::unique_ptr<Block> fibers;
  if (entry.meets)
    fibers = std::make_unique<Block>(bx, kernel, buffers.data(), hooks);
  for (uint32_t block : order) {
    for (const auto &[variable, bytes] : entry.shared)
      memset(dlsym(library, variable.c_str()), 0x7b, bytes);
    hooks->block = block;
    if (entry.meets) {
      std::string error = fibers->run(random);
      if (!error.empty())
        return error;
      continue;
    }
    for (int64_t thread = 0; thread < bx; ++thread) {
      hooks->thread = thread;
      kernel(buffers.data());
    }
  }
  return "";
}

Emulator::~Emulator() {
  if (library)
    dlclose(library);
}

} // namespace kerf::test
