package slack_test

import (
	"os"
	"slices"
	"testing"

	"github.com/geminixiang/mikan/adapters/slack"
	"github.com/geminixiang/mikan/adapters/slack/slacktest"
	"github.com/geminixiang/mikan/internal/config"
)

// uses are what the adapter makes use of, as its source says. The tests against the local Slack fail when a call needs
// more: the server knows the scopes of each method.
func uses() slacktest.Uses {
	return slacktest.Uses{
		Methods: []string{
			"apps.connections.open", "auth.test", "users.info", "users.list", "users.conversations", "conversations.info", "conversations.history",
			"conversations.replies", "chat.postMessage", "chat.postEphemeral", "chat.update", "chat.delete", "chat.startStream", "chat.appendStream",
			"chat.stopStream", "assistant.threads.setStatus", "assistant.threads.setSuggestedPrompts", "assistant.threads.setTitle", "reactions.add",
			"reactions.remove", "views.publish", "files.getUploadURLExternal", "files.completeUploadExternal", "files.info",
		},
		Events: slack.Events(), Commands: slack.Commands(), Kinds: slacktest.AllKinds, Downloads: true, Buttons: true, Home: true, Assistant: true,
	}
}

func TestTheManifestAsksForWhatIsUsedAndNothingElse(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../deployments/slack/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := slacktest.ParseManifest(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range m.Problems(uses()) {
		t.Error(problem)
	}
	if !slices.Equal(slices.Sorted(slices.Values(m.OAuth.Scopes.Bot)), slack.Scopes()) {
		t.Errorf("doctor asks for other scopes than the manifest")
	}
}

func TestDoctorTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t, slacktest.Options{}, config.SlackSettings{})
	r.slack.SetScopes(slack.Scopes()...)
	for _, f := range r.adapter.Check(t.Context()) {
		if f.Err != nil {
			t.Errorf("%s: %v", f.What, f.Err)
		}
	}
	r.slack.SetScopes("chat:write")
	missing := 0
	for _, f := range r.adapter.Check(t.Context()) {
		if f.Err != nil {
			missing++
			t.Logf("%s: %v", f.What, f.Err)
		}
	}
	if missing != 1 {
		t.Errorf("%d findings about missing scopes, want 1", missing)
	}
}
