#include "common/output_guard.h"

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <csignal>

#include "io/atomic_file.h"

namespace mpfa::tools {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> open_guards = 0;
std::atomic<int> pending_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void die_by(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

bool is_pipe_or_device(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

void on_signal(int signal) {
  if (open_guards.load() > 0) {
    pending_signal.store(signal);
  } else {
    die_by(signal);
  }
}

}  // namespace

void install_signal_handlers() {
  for (const int signal : kSignals) {
    struct sigaction old {};
    if (sigaction(signal, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

OutputGuard::OutputGuard(const std::string& path) : holds_(!is_pipe_or_device(path)) {
  if (holds_) ++open_guards;
}

OutputGuard::~OutputGuard() {
  if (!holds_ || --open_guards > 0) return;
  if (const int signal = pending_signal.exchange(0); signal != 0) die_by(signal);
}

void check_writable(const std::string& path) {
  if (is_pipe_or_device(path)) return;
  const OutputGuard guard(path);
  const internal::AtomicFile probe(path);
}

void write_text_file(const std::string& path, const std::string& text) {
  const OutputGuard guard(path);
  internal::AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace mpfa::tools
