package memory_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/memory"
)

var origin = memory.Origin{Date: time.Date(2026, 9, 23, 23, 30, 0, 0, time.FixedZone("", -3600)), MessageID: "1.0001"}

const from = " (captured 2026-09-24 from 1.0001)"

func add(text string) memory.Operation { return memory.Operation{Kind: memory.Add, Text: text} }

func update(line, text string) memory.Operation {
	return memory.Operation{Kind: memory.Update, Line: line, Text: text}
}

func TestApply(t *testing.T) {
	t.Parallel()
	const section = "## Captured knowledge\n\n"
	old := "- Deploys run on Monday. (captured 2026-01-01 from 7)\n"
	for _, c := range []struct {
		name       string
		before     string
		operations []memory.Operation
		after      string
		effects    string
	}{
		{"a missing or empty file gets the section", "", []memory.Operation{add("A.")}, section + "- A." + from + "\n", "added"},
		{"the section comes last in a file without one", "# Memory\n\n- Existing fact.\n", []memory.Operation{add("A.")},
			"# Memory\n\n- Existing fact.\n\n" + section + "- A." + from + "\n", "added"},
		{"a blank line at the end is not doubled", "# Memory\n\n", []memory.Operation{add("A.")}, "# Memory\n\n" + section + "- A." + from + "\n", "added"},
		{"no final newline", "# Memory", []memory.Operation{add("A.")}, "# Memory\n\n" + section + "- A." + from + "\n", "added"},
		{"no final newline inside the section", section + "- B", []memory.Operation{add("A.")}, section + "- B\n- A." + from + "\n", "added"},
		{"a file of blank lines", "\n\n", []memory.Operation{add("A.")}, "\n\n" + section + "- A." + from + "\n", "added"},
		{"behind the last entry, before the next heading", section + old + "\n## Open threads\n- x\n", []memory.Operation{add("A.")},
			section + old + "- A." + from + "\n\n## Open threads\n- x\n", "added"},
		{"an empty section in the middle", section + "## Open\n", []memory.Operation{add("A.")}, "## Captured knowledge\n\n- A." + from + "\n\n## Open\n", "added"},
		{"a section that is only a heading", "## Captured knowledge", []memory.Operation{add("A.")}, section + "- A." + from + "\n", "added"},
		{"behind text of the section", section + "Notes.\n\n## Open\n", []memory.Operation{add("A.")}, section + "Notes.\n\n- A." + from + "\n\n## Open\n", "added"},
		{"a deeper heading stays in the section", section + old + "\n### More\n\n- b\n\n# End\n", []memory.Operation{add("A.")},
			section + old + "\n### More\n\n- b\n- A." + from + "\n\n# End\n", "added"},
		{"behind an entry of several lines", section + "- b\n  more\n  ```\n  code\n  ```\n\n## Open\n", []memory.Operation{add("A.")},
			section + "- b\n  more\n  ```\n  code\n  ```\n- A." + from + "\n\n## Open\n", "added"},
		{"CR LF", "# M\r\n\r\n## Captured knowledge\r\n\r\n- b\r\n\r\n## Open\r\n", []memory.Operation{add("A.")},
			"# M\r\n\r\n## Captured knowledge\r\n\r\n- b\r\n- A." + from + "\r\n\r\n## Open\r\n", "added"},
		{"CR LF without a section", "# M\r\n", []memory.Operation{add("A.")}, "# M\r\n\r\n## Captured knowledge\r\n\r\n- A." + from + "\r\n", "added"},
		{"a byte order mark", "\uFEFF" + section + old, []memory.Operation{add("A.")}, "\uFEFF" + section + old + "- A." + from + "\n", "added"},
		{"a heading inside a code fence is none", "```\n" + section + "```\n", []memory.Operation{add("A.")},
			"```\n" + section + "```\n\n" + section + "- A." + from + "\n", "added"},
		{"a fence left open does not make a second section", "```\n\n" + section + old, []memory.Operation{add("A.")},
			"```\n\n" + section + old + "- A." + from + "\n", "added"},
		{"a heading of another level is another section", "# Captured knowledge\n", []memory.Operation{add("A.")},
			"# Captured knowledge\n\n" + section + "- A." + from + "\n", "added"},

		{"an update replaces its line", section + old + "- b\n", []memory.Operation{update("- Deploys run on Monday. (captured 2026-01-01 from 7)", "Deploys run on Friday.")},
			section + "- Deploys run on Friday." + from + "\n- b\n", "replaced"},
		{"an update may quote without marker and provenance", section + old, []memory.Operation{update("deploys run on Monday", "Deploys run on Friday.")},
			section + "- Deploys run on Friday." + from + "\n", "replaced"},
		{"an update keeps its line's ending", section + "- x\r\n- y\n", []memory.Operation{update("x", "z")}, section + "- z" + from + "\r\n- y\n", "replaced"},
		{"an update of a line elsewhere adds", "- Deploys run on Monday.\n\n" + section + "- b\n", []memory.Operation{update("- Deploys run on Monday.", "Deploys run on Friday.")},
			"- Deploys run on Monday.\n\n" + section + "- b\n- Deploys run on Friday." + from + "\n", "added"},
		{"an update of a line that is gone adds", section + "- b\n", []memory.Operation{update("- nowhere", "A.")}, section + "- b\n- A." + from + "\n", "added"},
		{"an update never replaces a heading", section + "### Rules\n\n- b\n", []memory.Operation{update("### Rules", "A.")},
			section + "### Rules\n\n- b\n- A." + from + "\n", "added"},
		{"nor the section's own", section + "- b\n", []memory.Operation{update("## Captured knowledge", "A.")}, section + "- b\n- A." + from + "\n", "added"},
		{"nor a part of a longer entry", section + "- b\n  goes on\n", []memory.Operation{update("- b", "A.")}, section + "- b\n  goes on\n- A." + from + "\n", "added"},
		{"nor text of the section", section + "plain\n\n- b\n", []memory.Operation{update("plain", "A.")}, section + "plain\n\n- b\n- A." + from + "\n", "added"},
		{"an update that says the same changes nothing", section + old, []memory.Operation{update("Deploys run on Monday.", "Deploys run on MONDAY!")}, section + old, "duplicate"},

		{"the same again adds nothing", section + old, []memory.Operation{add("deploys  run on Monday")}, section + old, "duplicate"},
		{"the same elsewhere in the file adds nothing", "# M\n* **Deploys** run on Monday\n", []memory.Operation{add("Deploys run on Monday.")}, "# M\n* **Deploys** run on Monday\n", "duplicate"},
		{"another figure is not the same", section + "- The limit is 1.5 GB\n", []memory.Operation{add("The limit is 15 GB")},
			section + "- The limit is 1.5 GB\n- The limit is 15 GB" + from + "\n", "added"},
		{"operations see what came before", section + old, []memory.Operation{add("A."), add("a"), update("A.", "B."), update("Deploys run on Monday.", "C.")},
			section + "- C." + from + "\n- B." + from + "\n", "added duplicate replaced replaced"},
		{"in their order", "", []memory.Operation{add("A."), add("B.")}, section + "- A." + from + "\n- B." + from + "\n", "added added"},
		{"what was forgotten stays so", section + "- b\n", []memory.Operation{add("Forgotten fact"), update("b", "forgotten fact")}, section + "- b\n", "forgotten forgotten"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			after, effects, err := memory.Apply([]byte(c.before), c.operations, origin, []string{"Forgotten fact."})
			if err != nil {
				t.Fatal(err)
			}
			if string(after) != c.after {
				t.Errorf("got\n%q, want\n%q", after, c.after)
			}
			var kinds []string
			for _, e := range effects {
				kinds = append(kinds, string(e.Kind))
			}
			if got := strings.Join(kinds, " "); got != c.effects {
				t.Errorf("effects %q, want %q", got, c.effects)
			}
			again, _, err := memory.Apply(after, c.operations, origin, []string{"Forgotten fact."})
			if c.effects == "added" && (err != nil || string(again) != string(after)) {
				t.Errorf("a second time: %q, %v", again, err)
			}
			restored, undone := memory.Revert(after, effects)
			for _, u := range undone {
				if u.Kind == memory.Changed {
					t.Errorf("%q is not undone", u.Line)
				}
			}
			if bytes.Contains(restored, []byte(from)) {
				t.Errorf("a line is left after the revert: %q", restored)
			}
			if strings.Contains(c.before, strings.TrimSpace(memory.Heading)) && !strings.Contains(c.name, "final newline") &&
				len(c.effects) > 0 && strings.HasPrefix(c.effects, "replaced") && string(restored) != c.before {
				t.Errorf("reverted to %q, want %q", restored, c.before)
			}
		})
	}
}

func TestAFullSectionIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	lines := func(n, width int) string {
		var b strings.Builder
		b.WriteString("## Captured knowledge\n\n")
		for i := range n {
			fmt.Fprintf(&b, "- %04d %s\n", i, strings.Repeat("x", width))
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		before string
		full   bool
	}{
		"room for one line": {lines(497, 1), false}, "no room for a line": {lines(498, 1), true},
		"room for its bytes": {lines(320, 190), false}, "no room for its bytes": {lines(328, 192), true},
		"the rest of the file does not count": {"# M\n" + strings.Repeat("text\n", 200_000) + "\n## Captured knowledge\n\n- b\n", false},
	} {
		after, effects, err := memory.Apply([]byte(c.before), []memory.Operation{add("A.")}, origin, nil)
		if memory.Full(err) != c.full || !c.full && (err != nil || len(after) <= len(c.before)) {
			t.Errorf("%s: %v, %+v", name, err, effects)
		}
	}
}

func TestRevertTakesBackExactlyItsLines(t *testing.T) {
	t.Parallel()
	before := "# M\n\n## Captured knowledge\n\n- a\n- b\n\n## Open\n"
	after, effects, err := memory.Apply([]byte(before), []memory.Operation{update("a", "A2"), add("C."), add("D.")}, origin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if restored, _ := memory.Revert(after, effects); string(restored) != before {
		t.Errorf("restored\n%q, want\n%q", restored, before)
	}
	edited := strings.Replace(string(after), "- C.", "- C, as we say now.", 1)
	restored, undone := memory.Revert([]byte(edited), effects)
	if undone[0].Kind != memory.Restored || undone[1].Kind != memory.Changed || undone[2].Kind != memory.Removed {
		t.Errorf("undone %+v", undone)
	}
	if want := "# M\n\n## Captured knowledge\n\n- a\n- b\n- C, as we say now." + from + "\n\n## Open\n"; string(restored) != want {
		t.Errorf("restored\n%q, want\n%q", restored, want)
	}
}

func TestGoneIsWhatTheFileSaysNoMore(t *testing.T) {
	t.Parallel()
	gone := memory.Gone([]string{"# M\n- Ann likes tea.\n- Bob likes coffee. (captured 2026-01-01 from 7)\n", "- bob likes coffee\n"}, []byte("* ann likes tea\n"))
	if len(gone) != 1 || gone[0] != "Bob likes coffee." {
		t.Errorf("%q", gone)
	}
}

// FuzzApply proves that nothing of a file changes but lines that were added or replaced.
func FuzzApply(f *testing.F) {
	for _, seed := range []string{"", "# M\n\n- x\n", "## Captured knowledge\n\n- a\n- b\r\n## Next", "\uFEFF## Captured knowledge", "<!--\n```\n## Captured knowledge\n- a", "- a\n===\n\t- b\n\x00\xff"} {
		f.Add(seed, "New fact.", "a", "Another")
	}
	f.Fuzz(func(t *testing.T, before, added, quote, replacement string) {
		operations, err := memory.Parse(answer(t, add(added), update(quote, replacement)))
		if err != nil || len(before) > 20_000 {
			return
		}
		after, effects, err := memory.Apply([]byte(before), operations, origin, nil)
		if err != nil {
			if memory.Full(err) {
				return
			}
			t.Fatal(err)
		}
		// Take the new lines out again by hand: what is left must be the file, byte for byte, but for the replaced lines,
		// the heading, blank lines beside them, and a line ending where the last line had none.
		old, rest := strings.SplitAfter(before, "\n"), strings.SplitAfter(string(after), "\n")
		for len(rest) > 0 {
			line := rest[0]
			bare := strings.TrimRight(line, "\r\n")
			switch {
			case len(old) > 0 && line == old[0]:
				old = old[1:]
			case len(old) == 1 && bare == strings.TrimRight(old[0], "\n") && strings.HasSuffix(line, "\n"), len(old) == 1 && line == old[0]+"\r\n":
				old = old[1:]
			case len(old) > 0 && replaced(effects, line, old[0]):
				old = old[1:]
			case bare == "" || bare == memory.Heading || isNew(effects, bare):
			default:
				t.Fatalf("the line %q is neither old (next: %q) nor new\nbefore %q\nafter %q\n%+v", line, first(old), before, after, effects)
			}
			rest = rest[1:]
		}
		if strings.Join(old, "") != "" {
			t.Fatalf("%q is lost\nbefore %q\nafter %q", old, before, after)
		}
		for _, e := range effects {
			if e.Changes() && (strings.ContainsAny(e.Now, "\r\n") || !strings.HasPrefix(strings.TrimLeft(e.Now, " "), "- ")) {
				t.Fatalf("%q is not one list line", e.Now)
			}
		}
		again, _, err := memory.Apply(after, operations, origin, nil)
		if err == nil && strings.Count(string(again), memory.Heading) > max(1, strings.Count(string(after), memory.Heading)) {
			t.Fatalf("a second section: %q", again)
		}
	})
}

func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

func replaced(effects []memory.Effect, now, was string) bool {
	now, end := strings.CutSuffix(now, "\n")
	was, ended := strings.CutSuffix(was, "\n")
	if ended && !end {
		return false
	}
	now, was = strings.TrimSuffix(now, "\r"), strings.TrimSuffix(was, "\r")
	for _, e := range effects {
		if e.Kind == memory.Replaced && e.Now == now && e.Was == was {
			return true
		}
	}
	return false
}

func isNew(effects []memory.Effect, line string) bool {
	for _, e := range effects {
		if e.Changes() && e.Now == line {
			return true
		}
	}
	return false
}
