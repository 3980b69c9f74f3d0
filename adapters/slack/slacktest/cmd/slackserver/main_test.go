package main_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/slack-go/slack"

	"github.com/geminixiang/mikan/adapters/slack/slacktest"
)

// TestAServerInAnotherProcessIsDrivenOverHTTP builds and runs the command.
func TestAServerInAnotherProcessIsDrivenOverHTTP(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	program := filepath.Join(t.TempDir(), "slackserver")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(ctx, program, "-rates", "enforced")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var info slacktest.Info
	if err := json.NewDecoder(stdout).Decode(&info); err != nil {
		t.Fatal(err)
	}

	remote := slacktest.Remote{Control: info.Control}
	user, err := slacktest.Do[slacktest.User](ctx, remote, "user", slacktest.NewUser{Name: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	channel, err := slacktest.Do[slacktest.Channel](ctx, remote, "channel", slacktest.NewChannel{Name: "general", Members: []string{user.ID}, WithBot: true})
	if err != nil {
		t.Fatal(err)
	}
	said, err := slacktest.Do[slacktest.Message](ctx, remote, "say", slacktest.Saying{Channel: channel.ID, User: user.ID, Text: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	api := slack.New(info.Team.BotToken, slack.OptionAPIURL(info.API))
	if _, _, err := api.PostMessage(channel.ID, slack.MsgOptionText("hi", false), slack.MsgOptionTS(said.TS)); err != nil {
		t.Fatal(err)
	}
	seen, err := slacktest.Do[[]slacktest.Visible](ctx, remote, "messages", slacktest.Which{Thread: said.TS})
	if err != nil || len(seen) != 2 || seen[1].Shown != "hi" || !seen[1].ByApp {
		t.Errorf("%+v %v", seen, err)
	}
	calls, err := slacktest.Do[[]slacktest.Call](ctx, remote, "calls", slacktest.Listed{Names: []string{"chat.postMessage"}})
	if err != nil || len(calls) != 1 || calls[0].Args["text"] != "hi" {
		t.Errorf("%+v %v", calls, err)
	}
	if v, err := slacktest.Do[[]slacktest.Violation](ctx, remote, "violations", slacktest.None{}); err != nil || len(v) != 0 {
		t.Errorf("%v %v", v, err)
	}
	if _, err := slacktest.Do[slacktest.None](ctx, remote, "sing", slacktest.None{}); err == nil {
		t.Error("an unknown operation was done")
	}
	if _, err := slacktest.Do[slacktest.Message](ctx, remote, "say", map[string]any{"loudly": true}); err == nil {
		t.Error("an unknown field was accepted")
	}

	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}
