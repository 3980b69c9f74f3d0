package office_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/office"
)

func TestKeysMatchThePublishedVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("testdata", "office-keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ Platform, ConversationID, OfficeKey string }
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) == 0 {
		t.Fatal("no vectors")
	}
	for _, v := range vectors {
		t.Run(v.Platform+"/"+v.ConversationID, func(t *testing.T) {
			t.Parallel()
			a := office.Address{Platform: office.Platform(v.Platform), ConversationID: v.ConversationID}
			key, err := a.Key()
			if err != nil {
				t.Fatal(err)
			}
			if string(key) != v.OfficeKey {
				t.Errorf("key is %s, want %s", key, v.OfficeKey)
			}
			if parsed, err := office.ParseKey(v.OfficeKey); err != nil || parsed.Platform() != a.Platform {
				t.Errorf("ParseKey gives %q on %q, %v", parsed, parsed.Platform(), err)
			}
		})
	}
}

func TestRefusedConversationIDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id   string
		want office.Reason
	}{
		"empty":             {"", office.ReasonEmpty},
		"one dot":           {".", office.ReasonDots},
		"two dots":          {"..", office.ReasonDots},
		"path upwards":      {"../other", office.ReasonSlash},
		"slash":             {"foo/bar", office.ReasonSlash},
		"backslash":         {`foo\bar`, office.ReasonSlash},
		"NUL":               {"bad\x00id", office.ReasonControl},
		"unit separator":    {"a\x1fb", office.ReasonControl},
		"delete":            {"a\x7fb", office.ReasonControl},
		"first C1 control":  {"a\u0080b", office.ReasonControl},
		"last C1 control":   {"a\u009fb", office.ReasonControl},
		"colon":             {"bad:id", office.ReasonColon},
		"not UTF-8":         {"a\xffb", office.ReasonEncoding},
		"an encoded half":   {"a\xed\xa0\x80b", office.ReasonEncoding},
		"300 characters":    {strings.Repeat("a", 300), office.ReasonTooLong},
		"one byte too long": {strings.Repeat("a", 191), office.ReasonTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := office.Address{Platform: office.Slack, ConversationID: c.id}.Key()
			var refused *office.IDError
			if !errors.As(err, &refused) || refused.Reason != c.want {
				t.Fatalf("got %v, want the reason %q", err, c.want)
			}
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) || len(err.Error()) > 400 {
				t.Errorf("the sentence is not printable on one line: %q", err)
			}
		})
	}
}

func TestAcceptedConversationIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"C123", "-100", "with space", "..-outside", "...", "a\u00a0b", "頻道", strings.Repeat("a", 190)} {
		if err := office.ValidateConversationID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestUnknownPlatformsAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"matrix", "", "Slack", "slack ", "slack-"} {
		var refused *office.IDError
		_, err := office.NewAddress(name, "C1")
		if !errors.As(err, &refused) || refused.Part != office.PartPlatform {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestSimilarAddressesAreDifferentOffices(t *testing.T) {
	t.Parallel()
	seen := map[office.Key]office.Address{}
	for _, a := range []office.Address{
		{office.Slack, "foo.bar"}, {office.Slack, "foo-bar"}, {office.Slack, "FOO.BAR"}, {office.Discord, "foo.bar"},
		{office.Slack, "900100"}, {office.Telegram, "900100"}, {office.Discord, "900100"},
	} {
		key, err := a.Key()
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[key]; taken {
			t.Errorf("%v and %v share %s", a, other, key)
		}
		seen[key] = a
	}
}

func TestReadablePartIsCutWithoutATrailingDash(t *testing.T) {
	t.Parallel()
	key, err := office.Address{Platform: office.Slack, ConversationID: strings.Repeat("a", 31) + "-bcd"}.Key()
	if err != nil {
		t.Fatal(err)
	}
	if want := "v1-slack-" + strings.Repeat("a", 31) + "-"; !strings.HasPrefix(string(key), want) || strings.Contains(string(key), "--") {
		t.Errorf("key is %s", key)
	}
}

func TestWhatIsNoOfficeKey(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "v1-slack-c123-not-a-key", "v1-slack-c123", "v1-matrix-c123-f1bbf4ab194ff2ea", "v2-slack-c123-f1bbf4ab194ff2ea",
		"v1-slack--c123-f1bbf4ab194ff2ea", "v1-slack-c123--f1bbf4ab194ff2ea", "v1-slack-C123-f1bbf4ab194ff2ea",
		"v1-slack-c123-F1BBF4AB194FF2EA", "v1-slack-c123-f1bbf4ab194ff2ea\n", " v1-slack-c123-f1bbf4ab194ff2ea",
		"v1-slack-../x-f1bbf4ab194ff2ea", "v1-slack-f1bbf4ab194ff2ea", "v1-slack-" + strings.Repeat("a", 33) + "-f1bbf4ab194ff2ea",
	} {
		if office.IsKey(s) {
			t.Errorf("%q passes for an office key", s)
		}
		if dir, err := office.Key(s).Dir("/root"); err == nil {
			t.Errorf("%q has the directory %s", s, dir)
		}
	}
}

func TestDirectoriesStayRightBelowTheirRoot(t *testing.T) {
	t.Parallel()
	key, err := office.Address{Platform: office.Slack, ConversationID: "..-outside"}.Key()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := key.Dir("/srv/workspace")
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(dir) != "/srv/workspace" || filepath.Base(dir) != string(key) {
		t.Errorf("directory is %s", dir)
	}
}

func TestGitHubIssuesIgnoreCase(t *testing.T) {
	t.Parallel()
	i, err := office.NewIssue("Acme", "Web.App", 7)
	if err != nil {
		t.Fatal(err)
	}
	if i.Owner != "acme" || i.Repo != "web.app" || i.ConversationID() != "GH_acme_web.app_7" {
		t.Errorf("got %+v, id %s", i, i.ConversationID())
	}
	typed, err := office.NewAddress("github", "GH_Acme_Web.App_7")
	if err != nil || typed != i.Address() {
		t.Errorf("the typed address is %v, %v; want %v", typed, err, i.Address())
	}
	var refused *office.IDError
	err = office.Address{Platform: office.GitHub, ConversationID: "GH_Acme_Web.App_7"}.Validate()
	if !errors.As(err, &refused) || refused.Reason != office.ReasonUpperCase {
		t.Errorf("a second spelling of the same issue passes: %v", err)
	}
}

func TestIssuesThatShareAnIDAreToldApartByTheirFields(t *testing.T) {
	t.Parallel()
	a, errA := office.NewIssue("a_b", "c", 1)
	b, errB := office.NewIssue("a", "b_c", 1)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a == b || a.ConversationID() != b.ConversationID() {
		t.Errorf("got %+v and %+v", a, b)
	}
}

func TestWhatIsNoIssue(t *testing.T) {
	t.Parallel()
	for _, i := range []office.Issue{
		{"", "r", 1}, {"o", "", 1}, {"o", "r", 0}, {"o", "r", -1}, {"o/p", "r", 1}, {"o", "r:s", 1}, {"o", "r\x00", 1},
		{"o", strings.Repeat("r", 300), 1},
	} {
		if got, err := office.NewIssue(i.Owner, i.Repo, i.Number); err == nil {
			t.Errorf("%+v passes as %s", i, got.ConversationID())
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, id := range []string{"C123", "-1001234567890", "İstanbul", "GH_a_b_1", "..", "a:b", "a/b", "\x00", "頻道", "---"} {
		f.Add("slack", id)
		f.Add("github", id)
	}
	f.Fuzz(func(t *testing.T, platform, id string) {
		a := office.Address{Platform: office.Platform(platform), ConversationID: id}
		key, err := a.Key()
		if (a.Validate() == nil) != (err == nil) {
			t.Fatalf("Validate and Key disagree on %q", a)
		}
		if err != nil {
			return
		}
		if len(key) > 61 {
			t.Errorf("%s has %d bytes", key, len(key))
		}
		if parsed, err := office.ParseKey(string(key)); err != nil || parsed != key || key.Platform() != a.Platform {
			t.Errorf("%s does not come back: %q, %v", key, parsed, err)
		}
		if dir, err := key.Dir("/w"); err != nil || filepath.Dir(dir) != "/w" {
			t.Errorf("%s leaves its root: %s, %v", key, dir, err)
		}
	})
}
