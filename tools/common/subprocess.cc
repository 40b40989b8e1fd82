#include "common/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "io/quote.h"
#include "mpfa/check.h"

namespace mpfa::tools {
namespace {

// The two ends of a pipe; whatever is still open is closed in the end.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(fds_.data(), O_CLOEXEC) != 0) {
      throw IoError("cannot make a pipe: " + std::generic_category().message(errno));
    }
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return fds_[0]; }
  int write_end() const { return fds_[1]; }
  void close_end(size_t i) {
    if (fds_[i] >= 0) ::close(fds_[i]);
    fds_[i] = -1;
  }

 private:
  std::array<int, 2> fds_ = {-1, -1};
};

pid_t spawn(const std::vector<std::string>& argv, int out, int err) {
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw IoError("cannot run " + internal::quote_path(argv[0]) + ": " +
                  std::generic_category().message(error));
  }
  return pid;
}

constexpr size_t kMaxOutput = size_t{256} << 20;  // of a program that never stops printing

// Reads both streams to their ends as they come, so that neither can fill its pipe and stall.
void read_both(int out, int err, ProcessResult& result) {
  std::array<pollfd, 2> fds = {pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  std::array<std::string*, 2> texts = {&result.out, &result.err};
  std::array<char, 1 << 16> buffer;
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      const ssize_t n = ::read(fds[i].fd, buffer.data(), buffer.size());
      if (n > 0 && texts[i]->size() < kMaxOutput) {
        texts[i]->append(buffer.data(), static_cast<size_t>(n));
      } else if (n >= 0 || errno != EINTR) {
        fds[i].fd = -1;  // poll skips it
      }
      fds[i].revents = 0;
    }
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv) {
  constexpr int kSignalBase = 128;
  Pipe out;
  Pipe err;
  const pid_t pid = spawn(argv, out.write_end(), err.write_end());
  out.close_end(1);
  err.close_end(1);
  ProcessResult result;
  read_both(out.read_end(), err.read_end(), result);
  // Whoever has more to say is stopped by it.
  out.close_end(0);
  err.close_end(0);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status)
                                       : kSignalBase + (WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return result;
}

}  // namespace mpfa::tools
