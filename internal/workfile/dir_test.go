package workfile_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/workfile"
)

func open(t *testing.T) *workfile.Dir {
	t.Helper()
	dir, err := workfile.Open(filepath.Join(t.TempDir(), "workspace", "office"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func TestNamesStayInsideTheOffice(t *testing.T) {
	t.Parallel()
	dir := open(t)
	for called, want := range map[string]string{
		"a.txt": "a.txt", "./a/../b": "b", dir.Path() + "/a/b": filepath.Join("a", "b"), "~/x": "x", "~": ".", dir.Path(): ".",
		"..a": "..a", "漢字": "漢字",
	} {
		if got, err := dir.Name(called); err != nil || got != want {
			t.Errorf("%q is %q (%v), want %q", called, got, err, want)
		}
	}
	for _, called := range []string{
		"", "..", "../other/MEMORY.md", "a/../../x", "/etc/passwd", dir.Path() + "-other/x", dir.Path() + "/../x", "/", "a\x00b", "~/../x",
	} {
		if got, err := dir.Name(called); err == nil {
			t.Errorf("%q is taken as %q", called, got)
		}
	}
}

func TestLinksOutOfTheOfficeAreRefusedByName(t *testing.T) {
	t.Parallel()
	dir := open(t)
	outside := filepath.Join(filepath.Dir(dir.Path()), "other")
	mustWrite(t, filepath.Join(outside, "secret"), "secret")
	for link, target := range map[string]string{
		"absolute": filepath.Join(outside, "secret"), "relative": "../other/secret", "folder": "../other", "dangling": "../nowhere",
	} {
		if err := os.Symlink(target, filepath.Join(dir.Path(), link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"absolute", "relative", "folder/secret", "folder/new", "dangling"} {
		link, _, _ := strings.Cut(name, "/")
		_, _, err := dir.OpenRegular(name)
		if !errors.Is(err, workfile.ErrLink) || !strings.Contains(err.Error(), link) {
			t.Errorf("reading %s: %v", name, err)
		}
		_, err = dir.Replace(name, []byte("overwritten"))
		if !errors.Is(err, workfile.ErrLink) || !strings.Contains(err.Error(), link) {
			t.Errorf("replacing %s: %v", name, err)
		}
		if info, err := os.Lstat(filepath.Join(dir.Path(), link)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("the link %s was touched (%v)", link, err)
		}
	}
	if left := mustRead(t, filepath.Join(outside, "secret")); left != "secret" {
		t.Errorf("the other office's file now holds %q", left)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("the other office now holds %v", entries)
	}
}

func TestALinkInsideTheOfficeIsFollowedForReadingOnly(t *testing.T) {
	t.Parallel()
	dir := open(t)
	mustWrite(t, filepath.Join(dir.Path(), "real"), "text")
	if err := os.Symlink("real", filepath.Join(dir.Path(), "link")); err != nil {
		t.Fatal(err)
	}
	if content, err := dir.ReadAll("link", 100); err != nil || string(content) != "text" {
		t.Errorf("read %q (%v)", content, err)
	}
	if _, err := dir.Replace("link", []byte("new")); !errors.Is(err, workfile.ErrLink) {
		t.Errorf("replacing a link: %v", err)
	}
}

func TestAnOfficeThatIsALinkIsRefused(t *testing.T) {
	t.Parallel()
	dir := open(t)
	link := dir.Path() + "-link"
	if err := os.Symlink(dir.Path(), link); err != nil {
		t.Fatal(err)
	}
	if d, err := workfile.Open(link); err == nil {
		_ = d.Close()
		t.Error("a link to another office was opened")
	}
	if d, err := workfile.Open("relative"); err == nil {
		_ = d.Close()
		t.Error("a relative path was opened")
	}
}

func TestSpecialFilesAreRefusedWithoutWaiting(t *testing.T) {
	t.Parallel()
	dir := open(t)
	if err := syscall.Mkfifo(filepath.Join(dir.Path(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir.Path(), "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{"pipe": "named pipe", "folder": "directory"} {
		if _, _, err := dir.OpenRegular(name); err == nil || !strings.Contains(err.Error(), kind) {
			t.Errorf("reading a %s: %v", kind, err)
		}
		if _, err := dir.Replace(name, nil); err == nil || !strings.Contains(err.Error(), kind) {
			t.Errorf("replacing a %s: %v", kind, err)
		}
	}
}

func TestReplaceKeepsPermissionsAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := open(t)
	if outcome, err := dir.Replace("a/b/script.sh", []byte("one")); err != nil || outcome != workfile.Created {
		t.Fatalf("outcome %v, %v", outcome, err)
	}
	path := filepath.Join(dir.Path(), "a", "b", "script.sh")
	if err := os.Chmod(path, 0o750); err != nil {
		t.Fatal(err)
	}
	if outcome, err := dir.Replace("a/b/script.sh", []byte("two")); err != nil || outcome != workfile.Replaced {
		t.Fatalf("outcome %v, %v", outcome, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o750 || mustRead(t, path) != "two" {
		t.Errorf("mode %v, content %q (%v)", info.Mode(), mustRead(t, path), err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestAFailedReplacementLeavesTheOldContent(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := open(t)
	small := filepath.Join(dir.Path(), "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	mountSmall(t, small)
	if _, err := dir.Replace("small/file", []byte("old")); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Replace("small/file", make([]byte, 4<<20)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	if got := mustRead(t, filepath.Join(small, "file")); got != "old" {
		t.Errorf("the file now holds %d bytes", len(got))
	}
	if entries, _ := os.ReadDir(small); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestWritersWaitForEachOther(t *testing.T) {
	t.Parallel()
	dir := open(t)
	path := filepath.Join(dir.Path(), "count")
	mustWrite(t, path, "")
	const writers = 20
	var wait sync.WaitGroup
	for range writers {
		wait.Go(func() {
			// Each opens the office itself, as another process would.
			own, err := workfile.Open(dir.Path())
			if err != nil {
				t.Error(err)
				return
			}
			defer own.Close()
			release, err := own.Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			content, err := own.ReadAll("count", 1000)
			if err == nil {
				_, err = own.Replace("count", append(content, 'x'))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := mustRead(t, path); len(got) != writers {
		t.Errorf("%d of %d writes are left", len(got), writers)
	}
	if entries, _ := os.ReadDir(dir.Path()); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestAHeldLockEndsTheWaitWithTheContext(t *testing.T) {
	t.Parallel()
	dir := open(t)
	release, err := dir.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := dir.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second lock: %v", err)
	}
}

func TestTheSharedFileIsReadOnlyIfItIsOne(t *testing.T) {
	t.Parallel()
	dir := open(t)
	shared := filepath.Join(filepath.Dir(dir.Path()), "MEMORY.md")
	if _, _, err := dir.ReadShared("MEMORY.md"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	mustWrite(t, shared, "shared")
	file, _, err := dir.ReadShared("MEMORY.md")
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(file)
	if err != nil || string(content) != "shared" {
		t.Errorf("read %q (%v)", content, err)
	}
	_ = file.Close()
	mustWrite(t, filepath.Join(filepath.Dir(dir.Path()), "other", "MEMORY.md"), "private")
	if err := errors.Join(os.Remove(shared), os.Symlink("other/MEMORY.md", shared)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := dir.ReadShared("MEMORY.md"); !errors.Is(err, workfile.ErrLink) {
		t.Errorf("a link to another office's memory: %v", err)
	}
}

func mustWrite(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
