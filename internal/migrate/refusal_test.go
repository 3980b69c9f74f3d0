package migrate_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/migrate"
	"github.com/geminixiang/mikan/internal/office"
)

// listed are a refusal's problems as "name:line reason".
func listed(c *site, problems []migrate.Problem) []string {
	var all []string
	for _, p := range problems {
		name, _ := filepath.Rel(c.root, p.Path)
		all = append(all, fmt.Sprintf("%s:%d %s", name, p.Line, strings.ReplaceAll(p.What, c.root, "")))
	}
	return all
}

func TestRefusalsNameThePathAndTheReason(t *testing.T) {
	t.Parallel()
	good := head("s1") + jsonl(user("a", "", "one"))
	link := func(c *site, name string) {
		c.write("elsewhere/target", good)
		at := filepath.Join(c.root, name)
		_ = os.RemoveAll(at)
		if err := os.Symlink(filepath.Join(c.root, "elsewhere/target"), at); err != nil {
			c.t.Fatal(err)
		}
	}
	for name, w := range map[string]struct {
		make func(c *site)
		want []string
	}{
		"a conversation without an owner": {
			func(c *site) { c.write("workspace/general/log.jsonl", "") },
			[]string{"workspace/general:0 belongs to no platform whose tokens are set"},
		},
		"a conversation with two possible owners": {
			func(c *site) {
				c.o.Platforms = append(c.o.Platforms, office.Discord)
				c.write("workspace/123456/log.jsonl", "")
			},
			[]string{"workspace/123456:0 could belong to telegram or discord"},
		},
		"a directory for the office is there already": {
			func(c *site) { c.write("workspace/"+chat+"/scratch/x", "") },
			[]string{"workspace/C1:0 would become /workspace/" + chat + ", which exists"},
		},
		"a raw directory and one by key": {
			func(c *site) { c.write("workspace/"+chat+"/log.jsonl", "") },
			[]string{"workspace/C1:0 would become /workspace/" + chat + ", which exists", "workspace/" + chat + ":0 and /workspace/C1 are one conversation (" + chat + ")"},
		},
		"two directories that differ by case": {
			func(c *site) {
				c.o.Platforms = append(c.o.Platforms, office.GitHub)
				c.write("workspace/GH_a_b_1/log.jsonl", "")
				c.write("workspace/GH_A_b_1/log.jsonl", "")
			},
			[]string{"workspace/GH_a_b_1:0 and /workspace/GH_A_b_1 are one conversation (v1-github-gh-a-b-1-d5f450bd97ca0fe4)"},
		},
		"a link to a session":    {func(c *site) { link(c, session+"1.1.jsonl") }, []string{session + "1.1.jsonl:0 is a symbolic link, and links are never followed"}},
		"a link to the sessions": {func(c *site) { link(c, "workspace/C1/sessions") }, []string{"workspace/C1/sessions:0 is a symbolic link, and links are never followed"}},
		"a link to the log":      {func(c *site) { link(c, "workspace/C1/log.jsonl") }, []string{"workspace/C1/log.jsonl:0 is a symbolic link, and links are never followed"}},
		"a link to the memory":   {func(c *site) { link(c, "workspace/C1/MEMORY.md") }, []string{"workspace/C1/MEMORY.md:0 is a symbolic link, and links are never followed"}},
		"a link to current":      {func(c *site) { link(c, session+"current") }, []string{session + "current:0 is a symbolic link, and links are never followed"}},
		"a link to a conversation": {
			func(c *site) {
				c.write("elsewhere/C9/log.jsonl", "")
				_ = os.Symlink(filepath.Join(c.root, "elsewhere/C9"), filepath.Join(c.work, "C9"))
			},
			[]string{"workspace/C9:0 is a symbolic link, and links are never followed"},
		},
		"a socket for a session": {
			func(c *site) {
				// The path of a socket is short; moved, it may be anywhere.
				short, err := os.MkdirTemp("", "s")
				if err != nil {
					c.t.Fatal(err)
				}
				c.t.Cleanup(func() { _ = os.RemoveAll(short) })
				l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, "s"), Net: "unix"})
				if err != nil {
					c.t.Fatal(err)
				}
				c.t.Cleanup(func() { _ = l.Close() })
				if err := os.Rename(filepath.Join(short, "s"), filepath.Join(c.root, session+"1.1.jsonl")); err != nil {
					c.t.Fatal(err)
				}
			},
			[]string{session + "1.1.jsonl:0 is a socket, not a regular file"},
		},
		"current leads elsewhere": {func(c *site) { c.write(session+"current", "../../../etc/passwd") }, []string{session + "current:0 names no file of its directory"}},
		"a thread called ..":      {func(c *site) { c.write(session+"...jsonl", head("s2")) }, []string{session + "...jsonl:0 the session key's suffix \"..\" is . or .."}},
		"a conversation with a colon": {func(c *site) {
			c.write("workspace/C1:2/log.jsonl", "")
			c.o.Owners = map[string]office.Platform{"C1:2": office.Slack}
		}, []string{"workspace/C1:2:0 the conversation id \"C1:2\" contains a colon, which separates a session key's parts"}},
		"one id in two files": {func(c *site) { c.write(session+"1.1.jsonl", good) }, []string{session + "1.1.jsonl:0 and /" + session + active + " both have the session id s1"}},
		"sessions in two places": {
			func(c *site) { c.write("state/conversations/"+chat+"/sessions/1.1.jsonl", head("s2")) },
			[]string{"state/conversations/" + chat + "/sessions:0 and /workspace/C1/sessions both hold sessions of one conversation"},
		},
		"a directory by key that nobody knows": {
			func(c *site) { c.write("workspace/v1-slack-mystery-0123456789abcdef/log.jsonl", "") },
			[]string{"workspace/v1-slack-mystery-0123456789abcdef:0 is named by an office key, and nothing says which conversation that is"},
		},
		"broken lines": {
			func(c *site) {
				c.write(session+"1.1.jsonl", head("s2")+jsonl(user("a", "", "one"))+"nonsense\n"+jsonl(user("b", "a", "two")))
				c.write(session+"1.2.jsonl", "nonsense\n")
				c.write(session+"1.3.jsonl", `{"type":"session","version":2,"id":"s4"}`+"\n")
				c.write(session+"1.4.jsonl", head("s5")+`{"type":"message","parentId":null}`+"\n")
				c.write(session+"1.5.jsonl", head("s6")+`[1]`+"\n")
				c.write("workspace/C1/log.jsonl", `{"ts":"1.1","user":"U1","text":"x"}`+"\n{}}\n"+`{"ts":"1.2","user":"U1","text":"y"}`+"\n")
			},
			[]string{
				"workspace/C1/log.jsonl:2 is not valid JSON (at byte 3)",
				session + "1.1.jsonl:3 is not valid JSON (at byte 2)",
				session + "1.2.jsonl:1 is not valid JSON (at byte 2)",
				session + "1.3.jsonl:1 is of version 2, and only version 3 is read: let mikan 0.5.3 open the session once, which rewrites it",
				session + "1.4.jsonl:2 has no id",
				session + "1.5.jsonl:2 is no JSON object",
			},
		},
		"broken events and settings": {
			func(c *site) {
				c.write("workspace/events/a.json", `{"type":"periodic","conversationId":"C1","text":"x","schedule":"61 * * * *","timezone":"UTC"}`)
				c.write("workspace/events/b.json", `{"type":"periodic","conversationId":"C1","text":"x","schedule":"0 9 * * *","timezone":"Mars/Base"}`)
				c.write("workspace/events/c.json", `{"type":"one-shot","conversationId":"C1","text":"x","at":"tomorrow"}`)
				c.write("workspace/events/d.json", `nonsense`)
				c.write("workspace/C1/settings.json", `{"llm":`)
			},
			[]string{
				"workspace/C1/settings.json:0 is not valid JSON (at byte 7)",
				"workspace/events/a.json:0 \"61 * * * *\" is no cron expression of five fields, or six with seconds first",
				"workspace/events/b.json:0 \"Mars/Base\" is no time zone; write a name like Europe/Berlin or UTC",
				"workspace/events/c.json:0 has no time that can be read (ISO 8601 with an offset)",
				"workspace/events/d.json:0 is not valid JSON (at byte 2)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := one(t, good)
			w.make(c)
			equal(t, "problems", listed(c, c.refused()), w.want)
		})
	}
}

func TestAllProblemsAreListedTogether(t *testing.T) {
	t.Parallel()
	c := one(t, head("s1")+"nonsense\n"+jsonl(user("a", "", "x")))
	c.write("workspace/general/log.jsonl", "")
	c.write("workspace/other/log.jsonl", "")
	_ = os.Symlink("/etc/passwd", filepath.Join(c.work, "C1/MEMORY.md"))
	if got := c.refused(); len(got) != 4 {
		t.Errorf("%v", listed(c, got))
	}
	c.o.Mode = migrate.DryRun // which says the same
	if got := c.refused(); len(got) != 4 {
		t.Errorf("%v", listed(c, got))
	}
}

func TestBrokenFilesCanBeLeftOutButNothingElse(t *testing.T) {
	t.Parallel()
	c := one(t, head("s1")+jsonl(user("a", "", "one")))
	c.write(session+"1.1.jsonl", head("s2")+"nonsense\n"+jsonl(user("a", "", "x")))
	c.write("workspace/C1/log.jsonl", "nonsense\n"+`{"ts":"1.2","user":"U1","text":"y"}`+"\n")
	c.write("workspace/other/log.jsonl", "")
	c.o.Broken = migrate.SkipBroken
	if got := c.refused(); len(got) != 3 {
		t.Errorf("%v", listed(c, got))
	}
	_ = os.RemoveAll(filepath.Join(c.work, "other"))
	result := c.mustRun()
	equal(t, "left out", listed(c, result.Skipped), []string{"workspace/C1/log.jsonl:1 is not valid JSON (at byte 2)", session + "1.1.jsonl:2 is not valid JSON (at byte 2)"})
	if len(c.said("s1")) != 1 {
		t.Error("the good session is not in")
	}
	if _, err := c.s.ChatMessage(t.Context(), chat, "1.2"); err != nil {
		t.Error(err)
	}
	// The broken file is with the originals, where it can be mended.
	if _, err := os.Stat(filepath.Join(c.home, "conversations", chat, "sessions-v3", "1.1.jsonl")); err != nil {
		t.Error(err)
	}
}

func TestASessionThatTheDatabaseHasAlreadyIsRefused(t *testing.T) {
	t.Parallel()
	c := one(t, head("s1")+jsonl(user("a", "", "one")))
	c.mustRun()
	c.write("workspace/C2/sessions/1.1.jsonl", head("s1")+jsonl(user("a", "", "one")))
	c.write("workspace/"+chat+"/sessions/current", active)
	c.write("workspace/"+chat+"/sessions/"+active, head("s9")+jsonl(user("a", "", "other")))
	equal(t, "problems", listed(c, c.refused()), []string{
		"workspace/C2/sessions/1.1.jsonl:0 has the session id s1, which " + chat + " has already",
		"workspace/" + chat + "/sessions/" + active + ":0 was imported already, and has changed since",
	})
}

func TestOwnersAreSplitAtTheLastEqualsSign(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{"C1=slack": "C1 slack", "a=b=telegram": "a=b telegram", "=slack": "", "C1": "", "C1=irc": ""} {
		id, platform, err := migrate.ParseOwner(said)
		got := id + " " + string(platform)
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

func TestAnImportThatWasBegunKeepsGatewayAndWorkerAway(t *testing.T) {
	t.Parallel()
	c := one(t, head("s1")+jsonl(user("a", "", "one")))
	c.mustRun()
	if err := c.s.BeginImport(t.Context(), "x", "mikan migrate --workspace /srv/w --state-dir '/srv/my state'"); err != nil {
		t.Fatal(err)
	}
	err := c.s.CheckSchema(t.Context())
	if err == nil || !strings.Contains(err.Error(), "run: mikan migrate --workspace /srv/w --state-dir '/srv/my state'") {
		t.Errorf("%v", err)
	}
}

func TestAnAmbiguousNumberNeedsItsOwnerAndThenFitsIt(t *testing.T) {
	t.Parallel()
	c := newSite(t)
	c.o.Platforms = []office.Platform{office.Telegram, office.Discord}
	c.o.Owners = map[string]office.Platform{"123456": office.Discord}
	c.write("workspace/123456/log.jsonl", `{"ts":"9","threadTs":"777","user":"U1","text":"y"}`+"\n")
	c.write("workspace/123456/sessions/777.jsonl", head("s1")+jsonl(user("a", "", "one")))
	c.mustRun()
	s, err := c.s.SessionByID(t.Context(), "s1")
	if err != nil || s.SessionKey != "123456:777" || !strings.HasPrefix(s.OfficeKey, "v1-discord-123456-") {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAMissingStateDirectoryIsAUsageError(t *testing.T) {
	t.Parallel()
	c := newSite(t)
	c.o.StateDir = filepath.Join(c.root, "nowhere")
	_, err := c.run()
	var refused *migrate.Refused
	if err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("%v", err)
	}
}
