#include "io/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "mpfa/check.h"
#include "unit/io/io_test_util.h"

namespace mpfa::internal {
namespace {

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

// Gives up root for its lifetime, because root may write everywhere.
class Unprivileged {
 public:
  Unprivileged() : was_root_(::geteuid() == 0), ok_(!was_root_ || ::seteuid(65534) == 0) {}
  ~Unprivileged() {
    if (was_root_ && ok_ && ::seteuid(0) != 0) ADD_FAILURE() << "cannot become root again";
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  bool ok() const { return ok_; }

 private:
  bool was_root_;
  bool ok_;
};

// Lets no file grow past a size for its lifetime: writes come back short, then fail.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &old_), 0);
    const rlimit limit = {bytes, old_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old_), 0);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_ = {};
  void (*old_handler_)(int);
};

TEST(AtomicFile, NothingBeforeCommitEverythingAfter) {
  const TempFolder dir;
  AtomicFile file(dir.file("out"));
  file.write("first, ");
  file.write(as_span("second"));
  EXPECT_FALSE(std::filesystem::exists(dir.file("out")));
  file.commit();
  EXPECT_EQ(read_file(dir.file("out")), "first, second");
  EXPECT_EQ(dir.entries(), std::vector<std::string>{"out"});
}

TEST(AtomicFile, EmptyOutput) {
  const TempFolder dir;
  AtomicFile file(dir.file("out"));
  file.write("");
  file.commit();
  EXPECT_EQ(read_file(dir.file("out")), "");
}

TEST(AtomicFile, WithoutCommitTheOldFileStaysAndNothingIsLeft) {
  const TempFolder dir;
  write_file(dir.file("out"), "old");
  {
    AtomicFile file(dir.file("out"));
    file.write("new");
    EXPECT_EQ(read_file(dir.file("out")), "old");
    EXPECT_EQ(dir.entries().size(), 2u) << "the temporary belongs into the target's folder";
  }
  EXPECT_EQ(read_file(dir.file("out")), "old");
  EXPECT_EQ(dir.entries(), std::vector<std::string>{"out"});
}

TEST(AtomicFile, ReplacesAnExistingFileWhole) {
  const TempFolder dir;
  write_file(dir.file("out"), std::string(10'000, 'x'));
  const int old = ::open(dir.file("out").c_str(), O_RDONLY);
  ASSERT_GE(old, 0);
  AtomicFile file(dir.file("out"));
  file.write("short");
  file.commit();
  EXPECT_EQ(read_file(dir.file("out")), "short");
  struct stat status = {};
  ASSERT_EQ(::fstat(old, &status), 0);
  EXPECT_EQ(status.st_size, 10'000) << "whoever has the old file open keeps reading it";
  ::close(old);
}

TEST(AtomicFile, LargeOutput) {
  const TempFolder dir;
  const std::string piece(1'000'003, 'p');
  AtomicFile file(dir.file("out"));
  for (int i = 0; i < 8; ++i) file.write(piece);
  file.commit();
  EXPECT_EQ(std::filesystem::file_size(dir.file("out")), 8 * piece.size());
}

TEST(AtomicFile, PermissionsFollowTheUmaskOrTheOldFile) {
  const TempFolder dir;
  const mode_t old_mask = ::umask(027);
  { AtomicFile(dir.file("new")).commit(); }
  ::umask(old_mask);
  EXPECT_EQ(mode_of(dir.file("new")), 0640u);
  write_file(dir.file("kept"), "old");
  ASSERT_EQ(::chmod(dir.file("kept").c_str(), 0604), 0);
  { AtomicFile(dir.file("kept")).commit(); }
  EXPECT_EQ(mode_of(dir.file("kept")), 0604u);
}

TEST(AtomicFile, TwoWritersOfOneTarget) {
  const TempFolder dir;
  AtomicFile a(dir.file("out"));
  AtomicFile b(dir.file("out"));
  a.write("from a");
  b.write("from b");
  b.commit();
  EXPECT_EQ(read_file(dir.file("out")), "from b");
  a.commit();
  EXPECT_EQ(read_file(dir.file("out")), "from a");
  EXPECT_EQ(dir.entries().size(), 1u);
}

TEST(AtomicFile, LongestName) {
  const TempFolder dir;
  const std::string name(255, 'n');
  AtomicFile file(dir.file(name));
  file.write("x");
  file.commit();
  EXPECT_EQ(read_file(dir.file(name)), "x");
}

TEST(AtomicFile, RelativePath) {
  const TempFolder dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  {
    AtomicFile file("plain_name");
    file.write("x");
    file.commit();
  }
  std::filesystem::current_path(before);
  EXPECT_EQ(read_file(dir.file("plain_name")), "x");
}

TEST(AtomicFile, FollowsASymbolicLink) {
  const TempFolder dir;
  std::filesystem::create_directory(dir.path() / "real");
  write_file(dir.file("real/target"), "old");
  std::filesystem::create_symlink("real/target", dir.path() / "link");
  AtomicFile file(dir.file("link"));
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(dir.path() / "link"));
  EXPECT_EQ(read_file(dir.file("real/target")), "new");
}

TEST(AtomicFile, CreatesWhatADanglingLinkPointsTo) {
  const TempFolder dir;
  std::filesystem::create_directory(dir.path() / "real");
  std::filesystem::create_directory(dir.path() / "links");
  // Relative links count from their own folder, through other links and upwards.
  std::filesystem::create_symlink("links/second", dir.path() / "first");
  std::filesystem::create_symlink("../real/new", dir.path() / "links/second");
  std::filesystem::create_symlink(dir.path() / "real/other", dir.path() / "absolute");
  {
    AtomicFile file(dir.file("first"));
    file.write("x");
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path() / "real")) << "not committed";
  for (const char* name : {"first", "absolute"}) {
    AtomicFile file(dir.file(name));
    file.write(name);
    file.commit();
    EXPECT_TRUE(std::filesystem::is_symlink(dir.path() / name));
  }
  EXPECT_TRUE(std::filesystem::is_symlink(dir.path() / "links/second"));
  EXPECT_EQ(read_file(dir.file("real/new")), "first");
  EXPECT_EQ(read_file(dir.file("real/other")), "absolute");
}

TEST(AtomicFile, ALinkIntoNoFolderOrInACircleIsAnError) {
  const TempFolder dir;
  std::filesystem::create_symlink("no/such", dir.path() / "nowhere");
  std::filesystem::create_symlink("circle", dir.path() / "circle");
  const auto error = [&](const char* name) {
    return message_of<IoError>([&] { AtomicFile file(dir.file(name)); });
  };
  expect_parts(error("nowhere"), {dir.file("nowhere"), "No such file"});
  expect_parts(error("circle"), {dir.file("circle"), "symbolic links"});
  EXPECT_EQ(dir.entries().size(), 2u);
}

TEST(AtomicFile, FailingWriteLeavesTheOldFileAndNoTemporary) {
  const TempFolder dir;
  write_file(dir.file("out"), "old");
  std::string message;
  {
    AtomicFile file(dir.file("out"));
    const FileSizeLimit limit(5000);
    file.write(std::string(4000, 'x'));
    message = message_of<IoError>([&] { file.write(std::string(4000, 'y')); });
    EXPECT_EQ(dir.entries(), std::vector<std::string>{"out"});
    EXPECT_THROW(file.write("more"), InvalidArgument);
    EXPECT_THROW(file.commit(), InvalidArgument) << "a failed file must not get its name";
  }
  expect_parts(message, {dir.file("out"), "File too large"});
  EXPECT_EQ(read_file(dir.file("out")), "old");
  EXPECT_EQ(dir.entries(), std::vector<std::string>{"out"});
}

TEST(AtomicFile, FailingRenameLeavesNoTemporary) {
  const TempFolder dir;
  AtomicFile file(dir.file("out"));
  file.write("x");
  std::filesystem::create_directories(dir.path() / "out" / "in the way");
  expect_parts(message_of<IoError>([&] { file.commit(); }), {dir.file("out")});
  EXPECT_EQ(dir.entries(), std::vector<std::string>{"out"});
}

TEST(AtomicFile, CommitTwiceOrWriteAfterItIsAnError) {
  const TempFolder dir;
  AtomicFile file(dir.file("out"));
  file.commit();
  expect_parts(message_of<InvalidArgument>([&] { file.commit(); }), {dir.file("out"), "commit"});
  expect_parts(message_of<InvalidArgument>([&] { file.write("x"); }), {dir.file("out"), "commit"});
}

TEST(AtomicFile, ErrorsNameThePath) {
  const TempFolder dir;
  const auto error = [](const std::string& path) {
    return message_of<IoError>([&] { AtomicFile file(path); });
  };
  expect_parts(error(dir.file("no/such")), {dir.file("no/such"), "No such file"});
  expect_parts(error(dir.path().string()), {dir.path().string(), "directory"});
  expect_parts(error(dir.path().string() + "/"), {"directory"});
  expect_parts(error(dir.file("trailing/")), {dir.file("trailing/")});
  expect_parts(error(""), {"''", "No such file"});
  write_file(dir.file("plain"), "x");
  expect_parts(error(dir.file("plain/below")), {dir.file("plain/below"), "Not a directory"});
  expect_parts(error(dir.file(std::string(256, 'n'))), {"File name too long"});
}

TEST(AtomicFile, UnwritableFolderAndWriteProtectedFile) {
  const TempFolder dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  write_file(dir.file("protected"), "old");
  ASSERT_EQ(::chmod(dir.file("protected").c_str(), 0444), 0);
  std::filesystem::create_directory(dir.path() / "open");
  write_file(dir.file("open/protected"), "old");
  ASSERT_EQ(::chmod(dir.file("open").c_str(), 0777), 0);
  ASSERT_EQ(::chmod(dir.file("open/protected").c_str(), 0444), 0);
  if (::geteuid() != 0) {
    ASSERT_EQ(::chmod(dir.path().c_str(), 0555), 0);
  }
  std::string in_folder;
  std::string in_open_folder;
  {
    const Unprivileged guard;
    if (!guard.ok()) GTEST_SKIP() << "cannot give up root";
    in_folder = message_of<IoError>([&] { AtomicFile file(dir.file("new")); });
    in_open_folder = message_of<IoError>([&] { AtomicFile file(dir.file("open/protected")); });
  }
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  expect_parts(in_folder, {dir.file("new"), "Permission denied"});
  expect_parts(in_open_folder, {dir.file("open/protected"), "Permission denied"});
  EXPECT_EQ(read_file(dir.file("open/protected")), "old");
}

TEST(AtomicFile, WritesAFifoDirectly) {
  const TempFolder dir;
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = read_file(dir.file("fifo")); });
  const std::string text(300'000, 'f');  // more than a pipe holds, so writes come back short
  {
    AtomicFile file(dir.file("fifo"));
    file.write(text);
    file.commit();
  }
  reader.join();
  EXPECT_EQ(received, text);
  EXPECT_TRUE(std::filesystem::is_fifo(dir.file("fifo")));
}

TEST(AtomicFile, NonBlockingDescriptorIsWaitedFor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  std::string received;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
      received.append(buffer, static_cast<std::size_t>(n));
    }
  });
  const std::string text(300'000, 'n');
  {
    AtomicFile file("/dev/fd/" + std::to_string(ends[1]));
    file.write(text);
    file.commit();
  }
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(received, text);
}

// A redirected output must not be replaced or overwritten: what was printed before stays.
TEST(AtomicFile, StandardOutputKeepsItsPlaceWhenRedirected) {
  const TempFolder dir;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int out = ::open(dir.file("out").c_str(), O_WRONLY | O_CREAT, 0600);
    if (out < 0 || ::dup2(out, STDOUT_FILENO) < 0) ::_exit(1);
    if (::write(STDOUT_FILENO, "before ", 7) != 7) ::_exit(2);
    AtomicFile file("/dev/stdout");
    file.write("middle ");
    file.commit();
    if (::write(STDOUT_FILENO, "after", 5) != 5) ::_exit(3);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(dir.file("out")), "before middle after");
}

TEST(AtomicFile, FullDeviceIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  AtomicFile file("/dev/full");
  expect_parts(message_of<IoError>([&] { file.write("x"); }),
               {"/dev/full", "No space left on device"});
}

TEST(AtomicFile, ClosedDescriptorIsAnError) {
  expect_parts(message_of<IoError>([] { AtomicFile file("/dev/fd/987"); }),
               {"/dev/fd/987", "Bad file descriptor"});
}

}  // namespace
}  // namespace mpfa::internal
