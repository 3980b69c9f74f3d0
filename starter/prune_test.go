package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/store"
	"github.com/geminixiang/mikan/internal/store/storetest"
	"github.com/geminixiang/mikan/internal/testenv"
)

// TestPruneCountsAndDeletes runs in order: the process's environment names the database.
func TestPruneCountsAndDeletes(t *testing.T) {
	url := testenv.PostgresURL(t)
	t.Setenv("MIKAN_DATABASE_URL", url)
	s := storetest.At(t, url)
	if _, err := s.Pool().Exec(t.Context(), `
		INSERT INTO run_waits VALUES ('a', 'w', now() - interval '40 days'), ('b', 'w', now() - interval '50 days'), ('c', 'w', now() - interval '100 days')`); err != nil {
		t.Fatal(err)
	}
	waits := func(args ...string) int64 {
		t.Helper()
		out, code := mikan(t, append([]string{"prune", "--json"}, args...)...)
		var pruned []store.Pruned
		if err := json.Unmarshal([]byte(out), &pruned); err != nil || code != 0 {
			t.Fatalf("prune %v prints %q and exits with %d", args, out, code)
		}
		for _, p := range pruned {
			if p.Table == "run_waits" {
				return p.Rows
			}
		}
		t.Fatal("prune says nothing of run_waits")
		return 0
	}
	for _, c := range []struct {
		args []string
		want int64
	}{
		{[]string{"--dry-run"}, 3},
		{[]string{"--older-than", "90d"}, 1},
		{[]string{"--older-than", "1080h"}, 1},
		{nil, 1},
		{nil, 0},
	} {
		if got := waits(c.args...); got != c.want {
			t.Errorf("prune %v: %d rows, want %d", c.args, got, c.want)
		}
	}
	if out, code := mikan(t, "prune"); code != 0 || !strings.Contains(out, "deliveries") {
		t.Errorf("it prints %q and exits with %d", out, code)
	}
	for _, refused := range []string{"1h", "23h59m", "0d", "soon", "-1d"} {
		if _, code := mikan(t, "prune", "--older-than", refused); code != exitUsage {
			t.Errorf("--older-than %s: exit code %d", refused, code)
		}
	}
}
