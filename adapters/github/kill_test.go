package github_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/github"
	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/llm/llmtest"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/worker/service"
)

// asProcess makes the test binary a process of mikan's: gateway and worker in one, as dev has them.
const asProcess = "MIKAN_TEST_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) == "" {
		// These tests mostly wait for deadlines and rates: more of them than cores can run at once. A number on the command
		// line wins.
		if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
			_ = parallel.Value.Set("5") // it is a number
		}
		os.Exit(m.Run())
	}
	if err := mikan(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func mikan() error {
	ctx := context.Background()
	var env map[string]string
	if err := json.Unmarshal([]byte(os.Getenv(asProcess)), &env); err != nil {
		return err
	}
	cfg, err := config.Load(func(name string) string { return env[name] }, env["dir"])
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	metrics, err := telemetry.NewMetrics(log)
	if err != nil {
		return err
	}
	b, err := backend.Open(ctx, cfg, log, backend.Instruments{TemporalLog: telemetry.TemporalLogger(log)})
	if err != nil {
		return err
	}
	all, err := platforms.New(b, metrics)
	if err != nil {
		return err
	}
	if _, err := service.Start(ctx, service.Options{Backend: b, Platforms: all, Metrics: metrics, Fallback: sandbox.Refuse, Say: func(string) {}}); err != nil {
		return err
	}
	mux := http.NewServeMux()
	gateway := all.Gateway(mux, telemetry.NewHealth(metrics, log))
	ln, err := telemetry.Listen(ctx, "", cfg.Listen, telemetry.ExactPort)
	if err != nil {
		return err
	}
	go gateway.Run(ctx)
	go all.Sweeper.Run(ctx)
	fmt.Println("listening on", ln.Addr())
	return (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(ln)
}

// spawn starts a process that dies at a point; an empty one never does. It returns where it listens, and a channel that
// closes when it is gone.
func (in *installation) spawn(point string) (address string, gone chan struct{}) {
	in.Helper()
	raw, err := json.Marshal(in.Env)
	in.must(err)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), asProcess+"="+string(raw), "MIKAN_FAILPOINT="+point)
	c.Stderr = in.Output()
	out, err := c.StdoutPipe()
	in.must(err)
	in.must(c.Start())
	gone = make(chan struct{})
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), "listening on ")
	}
	go func() { defer close(gone); _ = c.Wait() }()
	in.Cleanup(func() { _ = c.Process.Kill(); <-gone })
	return address, gone
}

// Gateway and worker die together, by SIGKILL, next to each call that a conversation needs. There is one answer.
func TestADeathNextToEachCallCostsNoAnswerAndRepeatsNone(t *testing.T) {
	t.Parallel()
	points := []string{"github.comment.after", "github.permission.after", "github.react.after"}
	if os.Getenv("MIKAN_DEATHS") == "all" {
		points = append(points, "github.comment.before", "github.list.after", "github.cursor.before")
	}
	if testing.Short() {
		points = points[:1]
	}
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			in := prepare(t, llmtest.Always(llmtest.Say("Done.")))
			w := in.world
			in.Env["MIKAN_LISTEN"], in.Env["dir"] = "127.0.0.1:0", in.Dir
			// The repository is followed already, as after a first conversation.
			w.must(w.store.SetCursor(t.Context(), followed, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
			address, gone := in.spawn(point)
			w.hub.AddHook(repo, "http://"+address+github.WebhookPath, secret, "json")
			number := w.hub.OpenIssue(repo, ann, "Broken", "@mikan-bot look")
			select {
			case <-gone:
			case <-time.After(time.Minute):
				t.Fatal("it never came to this point")
			}
			second, _ := in.spawn("")
			w.hub.AddHook(repo, "http://"+second+github.WebhookPath, secret, "json")
			w.hub.Redeliver(2)
			in.eventually("it is answered", func() bool { return len(in.answers(number)) > 0 })
			in.settled()
			if answers := in.answers(number); len(answers) != 1 {
				t.Errorf("answers: %+v", answers)
			}
		})
	}
}
