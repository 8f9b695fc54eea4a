// SPDX-License-Identifier: Apache-2.0
/*!
 * \file c_source.cc
 * \brief The kind of partition that a user's compiled C runs: `collage.c_source.create`.
 *
 * The description's first node has the shared library ("library", in hexadecimal) and the C text
 * ("source", for people). The library travels in the module, so neither compiler nor source is
 * needed where the model runs. Precondition: Linux. Tested by test_backend_codegen.py.
 */
#include <dlfcn.h>
#include <sys/mman.h>
#include <tvm/runtime/logging.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "own_code.h"

namespace tvm {
namespace collage {
namespace own_code {
namespace {

// Takes all tensors' data in order; generated beside the user's function (c_source.py).
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

/*! \brief A shared library that is loaded from memory. */
class LoadedLibrary {
 public:
  explicit LoadedLibrary(const std::string& bytes) : file_(memfd_create("collage_c_source", 0)) {
    ICHECK(file_ >= 0) << "c_source: no file in memory";
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t count = write(file_, bytes.data() + done, bytes.size() - done);
      ICHECK(count > 0) << "c_source: cannot write the library to memory";
      done += count;
    }
    // The file stays open: the loader takes a path that it knows for the library that it knows.
    path_ = "/proc/self/fd/" + std::to_string(file_);
    handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) {
      const std::string reason = dlerror();
      close(file_);
      LOG(FATAL) << "RuntimeError: the compiled C of a partition cannot be loaded: " << reason;
    }
  }
  ~LoadedLibrary() {
    dlclose(handle_);
    // What cannot be unloaded keeps its file, so that the path is never another library's.
    if (!dlopen(path_.c_str(), RTLD_LAZY | RTLD_NOLOAD)) close(file_);
  }
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;

  Entry entry() const {
    void* found = dlsym(handle_, kEntry);
    ICHECK(found) << "c_source: the library has no " << kEntry;
    return reinterpret_cast<Entry>(found);
  }

 private:
  int file_;
  std::string path_;
  void* handle_ = nullptr;
};

class CProgram final : public partition::Program {
 public:
  CProgram(const partition::GraphDesc& graph, const std::vector<std::shared_ptr<void>>& constants)
      : operands_(graph, constants),
        source_(graph.nodes.at(0).Str("source")),
        library_(FromHex(graph.nodes.at(0).Str("library"))),
        entry_(library_.entry()) {}

  void Run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) final {
    thread_local std::vector<void*> data;
    operands_.Place(inputs, outputs, &data);
    entry_(data.data());
  }
  std::string Summary() const final { return source_; }

 private:
  const Operands operands_;
  const std::string source_;
  const LoadedLibrary library_;
  const Entry entry_;
};

std::unique_ptr<partition::Program> Compile(const partition::GraphDesc& graph,
                                            const std::vector<std::shared_ptr<void>>& constants) {
  return std::make_unique<CProgram>(graph, constants);
}

[[maybe_unused]] const bool registered = partition::RegisterPartitionKind("c_source", Compile);

}  // namespace
}  // namespace own_code
}  // namespace collage
}  // namespace tvm
