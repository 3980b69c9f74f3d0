package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/geminixiang/mikan/internal/memory"
	"github.com/geminixiang/mikan/internal/tool"
)

// capture applies one addition to the file of an office, as capture does.
func capture(ctx context.Context, dir, text string) error {
	return memory.Change(ctx, dir, func(content []byte) ([]byte, error) {
		after, _, err := memory.Apply(content, []memory.Operation{add(text)}, origin, nil)
		return after, err
	})
}

func TestAnEditWithoutTheLockIsNotLost(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"in a file": "# M\n", "where there was none": ""} {
		dir := filepath.Join(t.TempDir(), "office")
		path := filepath.Join(dir, memory.File)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if before != "" {
			if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tries := 0
		err := memory.Change(t.Context(), dir, func(content []byte) ([]byte, error) {
			if tries++; tries == 1 { // a command of the agent, between our read and our write
				if err := os.WriteFile(path, []byte("# M\n- by hand\n"), 0o600); err != nil {
					return nil, err
				}
			}
			after, _, err := memory.Apply(content, []memory.Operation{add("A.")}, origin, nil)
			return after, err
		})
		got, readErr := os.ReadFile(path)
		if want := "# M\n- by hand\n\n## Captured knowledge\n\n- A." + from + "\n"; err != nil || readErr != nil || string(got) != want || tries != 2 {
			t.Errorf("%s: %q after %d tries (%v, %v), want %q", name, got, tries, err, readErr, want)
		}
	}
}

func TestCapturesAndEditsAtOnceAreAllThere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "office")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, memory.File)
	if err := os.WriteFile(path, []byte("# Notes\n\nlast\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	const each = 15
	var all sync.WaitGroup
	for i := range each {
		all.Go(func() {
			if err := capture(t.Context(), dir, fmt.Sprintf("Fact %d.", i)); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			arguments, err := json.Marshal(map[string]any{"path": memory.File, "edits": []map[string]string{{"old": "\nlast\n", "new": fmt.Sprintf("\n- note %d\n\nlast\n", i)}}})
			if err != nil {
				t.Error(err)
			}
			result, err := (&tool.Edit{}).Run(t.Context(), tool.Call{Arguments: arguments, Place: tool.Place{Dir: dir}})
			if err != nil || result.IsError {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
	all.Wait()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range each {
		if strings.Count(string(raw), fmt.Sprintf("- Fact %d.%s\n", i, from)) != 1 || strings.Count(string(raw), fmt.Sprintf("- note %d\n", i)) != 1 {
			t.Errorf("fact or note %d is not there once", i)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
