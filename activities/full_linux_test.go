package activities_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.temporal.io/sdk/testsuite"

	"github.com/geminixiang/mikan/activities"
	"github.com/geminixiang/mikan/adapters"
	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/store"
)

func TestAFileThatTheWorkspaceHasNoRoomForIsToldOfOnce(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{
		"no room for the file":   "size=256k",
		"no room for its folder": "size=256k,nr_inodes=2", // the root and one file
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newToolRun(t)
			if err := syscall.Mount("tmpfs", r.workspace, "tmpfs", 0, options); err != nil {
				t.Skipf("a small file system cannot be mounted here: %v", err)
			}
			t.Cleanup(func() { _ = syscall.Unmount(r.workspace, syscall.MNT_DETACH) })
			if err := os.WriteFile(filepath.Join(r.workspace, "filler"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := r.s.Pool().Exec(t.Context(), `UPDATE chat_log SET attachments = $1`, []store.Attachment{{Name: "big.bin", Source: "f1"}})
			if err != nil {
				t.Fatal(err)
			}
			fetches := 0
			r.tools.Delivery.Outbounds = map[office.Platform]adapters.Outbound{office.Slack: &shelf{fetch: func(context.Context) []byte {
				fetches++
				return bytes.Repeat([]byte{1}, 1<<20)
			}}}
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.RegisterActivity(r.tools)
			for range 2 {
				if _, err := env.ExecuteActivity(r.tools.Files, activities.FilesInput{RunID: r.run.ID}); err != nil {
					t.Fatal(err)
				}
			}
			told, err := r.s.StepEntry(t.Context(), r.run.ID, "files/1")
			if err != nil || !strings.Contains(told.Body.Text(), "big.bin is not available: the workspace has no room for it") {
				t.Errorf("the model reads %q, %v", told.Body.Text(), err)
			}
			if fetches > 1 {
				t.Errorf("fetched %d times", fetches)
			}
			left, err := filepath.Glob(filepath.Join(r.workspace, "*", "attachments", "*"))
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
