// SPDX-License-Identifier: Apache-2.0
// The kind of partition that a user's compiled C runs: `collage.c_source.create`.
//
// The description's first node has the shared library ("library", in hexadecimal) and the C text
// ("source", for people). The library travels in the module, so neither compiler nor source is
// needed where the model runs. Precondition: Linux.
// Test: backends/test_own_code.py.
#include <dlfcn.h>
#include <sys/mman.h>
#include <tvm/runtime/logging.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/registry.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "own_code.h"

namespace tvm::collage::own_code {
namespace {

// Takes all tensors' data in order; generated beside the user's function (own_code.py).
constexpr const char* kEntry = "collage_c_source_entry";
using Entry = void (*)(void* const* tensors);

std::string FromHex(const std::string& hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  }
  return bytes;
}

// The path of an open file, spelled as for no other `count`.
//
// The loader takes a path that it knows for the library that it knows, while a closed file's
// number goes to the next one. So each bit of `count` is a way to write the same folder.
std::string PathOf(int file, size_t count) {
  std::string path = "/proc/self/fd/";
  for (; count; count /= 2) path += count % 2 ? "./" : "/";
  return path + std::to_string(file);
}

// A file in memory, closed at the end; child processes do not inherit it.
struct MemoryFile {
  MemoryFile() : number(memfd_create("collage_c_source", MFD_CLOEXEC)) {
    ICHECK(number >= 0) << "c_source: no file in memory";
  }
  ~MemoryFile() { close(number); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const int number;
};

// Loads the `count`-th shared library of this process.
void* Load(const std::string& bytes, size_t count) {
  const MemoryFile file;
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(file.number, bytes.data() + done, bytes.size() - done);
    ICHECK(written > 0) << "c_source: cannot write the library to memory";
    done += written;
  }
  void* handle = dlopen(PathOf(file.number, count).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    LOG(FATAL) << "RuntimeError: the compiled C of a partition cannot be loaded: " << dlerror();
  }
  return handle;
}

// The entry of a library, which is loaded once in a process however many modules have it.
//
// For good: the libraries that it brought have threads (OpenMP's sleep in libgomp), which outlive
// every module, and what a thread stands in must not be unloaded.
Entry EntryOf(const partition::GraphDesc& graph) {
  const std::string bytes = FromHex(AttributeOf(graph, "library"));
  static std::mutex mutex;
  static auto& entries = *new std::unordered_map<std::string, Entry>();
  std::lock_guard<std::mutex> lock(mutex);
  const auto known = entries.find(bytes);
  if (known != entries.end()) return known->second;
  OpenNeededLibrary(graph);
  static size_t loaded = 0;
  void* found = dlsym(Load(bytes, ++loaded), kEntry);
  ICHECK(found) << "c_source: the library has no " << kEntry;
  return entries[bytes] = reinterpret_cast<Entry>(found);
}

class CProgram final : public partition::Program {
 public:
  CProgram(const partition::GraphDesc& graph, std::vector<std::shared_ptr<void>> constants)
      : operands_(graph, std::move(constants)),
        source_(AttributeOf(graph, "source")),
        entry_(EntryOf(graph)) {}

  void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) final {
    thread_local std::vector<void*> data;
    operands_.Place(inputs, outputs, &data);
    entry_(data.data());
  }
  std::string Summary() const final { return source_; }

 private:
  const Operands operands_;
  const std::string source_;
  const Entry entry_;
};

std::unique_ptr<partition::Program> Compile(const partition::GraphDesc& graph,
                                            std::vector<std::shared_ptr<void>> constants) {
  return std::make_unique<CProgram>(graph, std::move(constants));
}

void Check(const partition::GraphDesc& graph) {
  AttributeOf(graph, "source");
  AttributeOf(graph, "library");
}

[[maybe_unused]] const bool registered =
    partition::RegisterPartitionKind("c_source", Check, Compile);

// Parts of cblas and mkl were of kinds of their own before they became C.
runtime::Module RefuseFormerKind(void*) {
  LOG(FATAL) << "ValueError: this library has parts of cblas or mkl from an earlier version of "
                "Collage, which this version cannot run: compile the model again";
  throw;
}
TVM_REGISTER_GLOBAL("runtime.module.loadbinary_collage.cblas").set_body_typed(RefuseFormerKind);
TVM_REGISTER_GLOBAL("runtime.module.loadbinary_collage.mkl").set_body_typed(RefuseFormerKind);

}  // namespace
}  // namespace tvm::collage::own_code
