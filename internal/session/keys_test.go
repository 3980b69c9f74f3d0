package session_test

import (
	"encoding/json"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/quick"

	"github.com/geminixiang/mikan/internal/office"
	"github.com/geminixiang/mikan/internal/session"
)

type vectors struct {
	Valid []struct {
		Key, Conversation string
		Suffix            *string
	}
	Invalid []string
	Belongs []struct {
		Key, Conversation string
		OK                bool
	}
	Derive []struct {
		Platform, Channel, TS, ThreadTS, ThreadParent, Message, RepliedTo, Chat, Owner, Repo, Key, Conversation string
		Guild, Private                                                                                          bool
		Number                                                                                                  int64
	}
}

func load(t *testing.T) vectors {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "session-keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Valid) == 0 || len(v.Invalid) == 0 || len(v.Belongs) == 0 || len(v.Derive) == 0 {
		t.Fatal("a group of vectors is empty")
	}
	return v
}

func TestValidKeysSplitAndRoundTrip(t *testing.T) {
	t.Parallel()
	for _, v := range load(t).Valid {
		key, err := session.ParseKey(v.Key)
		if err != nil {
			t.Errorf("%q: %v", v.Key, err)
			continue
		}
		suffix, scoped := key.Suffix()
		if key.Conversation() != v.Conversation || scoped != (v.Suffix != nil) || (scoped && suffix != *v.Suffix) {
			t.Errorf("%q splits into %q and %q (%v)", v.Key, key.Conversation(), suffix, scoped)
		}
		if scoped {
			if made, err := session.MakeKey(v.Conversation, *v.Suffix); err != nil || made != key {
				t.Errorf("%q is made as %q, %v", v.Key, made, err)
			}
		}
	}
}

func TestInvalidKeysAreRefused(t *testing.T) {
	t.Parallel()
	refused := append(load(t).Invalid, "a\xff", "C1:a\xff", "C1:\u009f", "\u0080", strings.Repeat("a", 191), "C1:"+strings.Repeat("a", 188))
	for _, s := range refused {
		key, err := session.ParseKey(s)
		var wrong *session.KeyError
		if !errors.As(err, &wrong) {
			t.Errorf("%q passes as %q (%v)", s, key, err)
		}
	}
}

func TestKeysReachExactly190Bytes(t *testing.T) {
	t.Parallel()
	for _, s := range []string{strings.Repeat("a", 190), "C1:" + strings.Repeat("a", 187)} {
		if _, err := session.ParseKey(s); err != nil {
			t.Errorf("%d bytes: %v", len(s), err)
		}
	}
}

func TestMakeRefusesBadParts(t *testing.T) {
	t.Parallel()
	bad := []string{"", ".", "..", "../other", "foo/bar", `foo\bar`, "bad\x00id"}
	for _, s := range append(bad, "bad:id") {
		if key, err := session.MakeKey(s, "1"); err == nil {
			t.Errorf("conversation %q passes as %q", s, key)
		}
	}
	for _, s := range bad {
		if key, err := session.MakeKey("C1", s); err == nil {
			t.Errorf("suffix %q passes as %q", s, key)
		}
	}
}

func TestAKeyBelongsToExactlyOneConversation(t *testing.T) {
	t.Parallel()
	for _, v := range load(t).Belongs {
		if err := session.Key(v.Key).BelongsTo(v.Conversation); (err == nil) != v.OK {
			t.Errorf("%q in %q: %v", v.Key, v.Conversation, err)
		}
	}
	for _, k := range []session.Key{"C1:", "C1:..", ""} {
		if k.BelongsTo("C1") == nil {
			t.Errorf("the malformed key %q belongs to C1", k)
		}
	}
}

func TestPlatformRules(t *testing.T) {
	t.Parallel()
	for _, v := range load(t).Derive {
		place := session.Shared
		if v.Private || (v.Platform == "discord" && !v.Guild) {
			place = session.Private
		}
		var key session.Key
		var err error
		switch v.Platform {
		case "slack":
			key, err = session.SlackKey(session.SlackPlace{Channel: v.Channel, TS: v.TS, ThreadTS: v.ThreadTS})
		case "discord":
			key, err = session.DiscordKey(session.DiscordPlace{Place: place, Channel: v.Channel, ThreadParent: v.ThreadParent, RepliedTo: v.RepliedTo})
		case "telegram":
			key, err = session.TelegramKey(session.TelegramPlace{Place: place, Chat: v.Chat, Message: v.Message, RepliedTo: v.RepliedTo})
		case "github":
			issue, issueErr := office.NewIssue(v.Owner, v.Repo, v.Number)
			if issueErr != nil {
				t.Fatal(issueErr)
			}
			key, err = session.GitHubKey(issue.ConversationID())
		default:
			t.Fatalf("unknown platform %q", v.Platform)
		}
		if err != nil || string(key) != v.Key {
			t.Errorf("%+v gives %q, %v", v, key, err)
		}
		if v.Conversation != "" && key.Conversation() != v.Conversation {
			t.Errorf("%+v is of conversation %q", v, key.Conversation())
		}
	}
}

func TestPlatformRulesBeyondTheVectors(t *testing.T) {
	t.Parallel()
	must := func(key session.Key, err error) session.Key {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	for name, c := range map[string]struct{ got, want session.Key }{
		"a Slack root that has replies stands at the top level": {
			must(session.SlackKey(session.SlackPlace{Channel: "C1", TS: "1.1", ThreadTS: "1.1"})), "C1"},
		"a reply inside a Discord thread stays in the thread": {
			must(session.DiscordKey(session.DiscordPlace{Place: session.Shared, Channel: "20", ThreadParent: "10", RepliedTo: "7"})), "10:20"},
		"a Telegram topic ignores the implicit reply to its creation": {
			must(session.TelegramKey(session.TelegramPlace{Place: session.Shared, Chat: "-1", Message: "9", RepliedTo: "5", Topic: "5"})), "-1:5"},
		"a Telegram topic ignores replies inside it": {
			must(session.TelegramKey(session.TelegramPlace{Place: session.Shared, Chat: "-1", Message: "9", RepliedTo: "8", Topic: "5"})), "-1:5"},
		"the terminal's top level": {must(session.TerminalKey("demo", "")), "demo"},
		"a terminal thread":        {must(session.TerminalKey("demo", "t1")), "demo:t1"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", name, c.got, c.want)
		}
	}
}

func TestRulesRefuseConversationIDsWithAColon(t *testing.T) {
	t.Parallel()
	for name, derive := range map[string]func() (session.Key, error){
		"slack": func() (session.Key, error) { return session.SlackKey(session.SlackPlace{Channel: "bad:id"}) },
		"discord": func() (session.Key, error) {
			return session.DiscordKey(session.DiscordPlace{Place: session.Shared, Channel: "bad:id"})
		},
		"telegram": func() (session.Key, error) {
			return session.TelegramKey(session.TelegramPlace{Place: session.Private, Chat: "bad:id"})
		},
		"github":   func() (session.Key, error) { return session.GitHubKey("bad:id") },
		"terminal": func() (session.Key, error) { return session.TerminalKey("bad:id", "") },
	} {
		if key, err := derive(); err == nil {
			t.Errorf("%s makes %q", name, key)
		}
	}
}

// awkward generates strings from the characters that the rules are about.
func awkward(r *rand.Rand) string {
	alphabet := []string{"a", "Z", "7", ".", ":", "/", `\`, "\x00", "\x1f", "\x7f", "\u0080", "\u009f", "\u00a0", " ", "頻", "İ", "\xff", "-", "😀"}
	var b strings.Builder
	for range r.Intn(8) {
		b.WriteString(alphabet[r.Intn(len(alphabet))])
	}
	return b.String()
}

func TestMadeKeysComeApartAsTheyWerePut(t *testing.T) {
	t.Parallel()
	property := func(seed int64) bool {
		r := rand.New(rand.NewSource(seed))
		conversation, suffix := awkward(r), awkward(r)
		key, err := session.MakeKey(conversation, suffix)
		_, parseErr := session.ParseKey(conversation + ":" + suffix)
		if err != nil {
			// Only a colon in the conversation id may be refused by MakeKey and read otherwise by ParseKey.
			return parseErr != nil || strings.Contains(conversation, ":")
		}
		gotSuffix, scoped := key.Suffix()
		return scoped && key.Conversation() == conversation && gotSuffix == suffix &&
			key.BelongsTo(conversation) == nil && key.BelongsTo(conversation+"x") != nil
	}
	if err := quick.Check(property, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{"C123", "C1:a:b", "C1:", ":x", "..", "C1:..", "a/b", "頻道:1", "C1:\u0085", "a\xff", "C1:with space"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := session.ParseKey(s)
		conversation, suffix, scoped := strings.Cut(s, ":")
		// An office's conversation id and a key of its top level are the same thing, so their rules must agree.
		officeErr := office.ValidateConversationID(conversation)
		if !scoped && (officeErr == nil) != (err == nil) {
			t.Fatalf("office says %v of %q, session says %v", officeErr, conversation, err)
		}
		if err != nil {
			return
		}
		if officeErr != nil {
			t.Errorf("%q is accepted, but its office is not: %v", s, officeErr)
		}
		if string(key) != s || len(key) > session.MaxKey {
			t.Errorf("%q became %q", s, key)
		}
		gotSuffix, gotScoped := key.Suffix()
		if key.Conversation() != conversation || gotSuffix != suffix || gotScoped != scoped {
			t.Errorf("%q splits into %q and %q", s, key.Conversation(), gotSuffix)
		}
		for _, part := range strings.SplitN(s, ":", 2) {
			if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\\\x00\x1f\x7f") {
				t.Errorf("%q holds the forbidden part %q", s, part)
			}
		}
		if err := key.BelongsTo(conversation); err != nil {
			t.Error(err)
		}
	})
}
