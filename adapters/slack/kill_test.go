package slack_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/geminixiang/mikan/adapters/platforms"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/backend"
	"github.com/geminixiang/mikan/internal/config"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/telemetry"
	"github.com/geminixiang/mikan/worker/service"
)

// asMikan makes this binary a gateway and worker instead of the tests: processes that can be killed.
const asMikan = "MIKAN_SLACK_TEST_DATA_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asMikan); dir != "" {
		if err := beMikan(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// These tests mostly wait for deadlines and rates: more of them than cores can run at once. A number on the command
	// line wins.
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("5") // it is a number
	}
	os.Exit(m.Run())
}

// beMikan runs a gateway and a worker until standard input ends.
func beMikan(dir string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg, err := config.Load(os.Getenv, dir)
	if err != nil {
		return err
	}
	metrics, err := telemetry.NewMetrics(log)
	if err != nil {
		return err
	}
	b, err := backend.Open(ctx, cfg, log, backend.Instruments{TemporalLog: telemetry.TemporalLogger(log)})
	if err != nil {
		return err
	}
	defer b.Close()
	p, err := platforms.New(b, metrics)
	if err != nil {
		return err
	}
	s, err := service.Start(ctx, service.Options{Backend: b, Platforms: p, Metrics: metrics, Fallback: sandbox.Refuse, Say: func(string) {}})
	if err != nil {
		return err
	}
	defer s.Stop()
	go p.Sweeper.Run(ctx)
	go p.Gateway(http.NewServeMux(), telemetry.NewHealth(metrics, log)).Run(ctx)
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the test
	return nil
}

// child starts mikan as a process of its own. failpoint names where it kills itself.
func (in *installation) child(failpoint string) *exec.Cmd {
	in.Helper()
	self, err := os.Executable()
	in.must(err)
	cmd := exec.Command(self)
	for name, value := range in.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, asMikan+"="+in.Dir, "MIKAN_FAILPOINT="+failpoint, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"))
	cmd.Stderr = in.Output()
	stdin, err := cmd.StdinPipe()
	in.must(err)
	in.must(cmd.Start())
	in.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	in.eventually("the process is connected, or dead", func() bool { return in.slack.Sockets() >= 2 || cmd.ProcessState != nil })
	return cmd
}

func TestAProcessMayDieAtAnyCall(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		point    string
		inThread bool
	}{
		{"slack.ack.before", false}, {"slack.chat.postMessage.after", false}, {"slack.chat.startStream.after", true},
		{"slack.chat.update.after", false}, {"slack.chat.stopStream.after", true},
		// These with MIKAN_DEATHS=all: each starts real processes and waits for a deadline.
		{"slack.chat.postMessage.before", false}, {"slack.chat.appendStream.after", true}, {"slack.chat.update.after", true},
	} {
		if i > 2 && testing.Short() || i > 4 && os.Getenv("MIKAN_DEATHS") != "all" {
			break
		}
		t.Run(fmt.Sprintf("%s in a thread %v", c.point, c.inThread), func(t *testing.T) {
			t.Parallel()
			in := install(t, slacktest.Options{}, slowly(poem))
			thread := ""
			if c.inThread {
				thread = in.say(slacktest.Saying{Channel: in.general.ID, User: in.ann.ID, Text: "root"}).TS
			}
			dying := in.child(c.point)
			in.mention(in.general.ID, thread, "hello")
			died := make(chan error, 1)
			go func() { died <- dying.Wait() }()
			select {
			case <-died:
			case <-time.After(time.Minute):
				t.Fatal("the process passed the point alive")
			}
			in.child("")
			in.answered(in.general.ID, poem)
			if v := in.shown(in.general.ID)[0]; v.Stream != nil && v.Stream.State == slacktest.Streaming {
				t.Error("the stream is still open")
			}
		})
	}
}
