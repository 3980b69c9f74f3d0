package text_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/geminixiang/mikan/internal/text"
	"github.com/rivo/uniseg"
)

// A family (joined), a flag, a skin tone, a keycap, a letter with two accents, Korean, Chinese, Devanagari.
const clusters = "a👨‍👩‍👧‍👦b🇩🇪c👍🏽d1️⃣e\u0301\u0323f각g漢字क्षि!"

func TestStorableReplacesOnlyWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"plain", "plain ä 😀\n", "plain ä 😀\n"},
		{"nothing", "", ""},
		{"NUL", "a\x00b\x00", "a\uFFFDb\uFFFD"},
		{"stray byte", "a\xFFb", "a\uFFFDb"},
		{"lone high surrogate", "a\xED\xA0\xBDb", "a\uFFFDb"},
		{"lone low surrogate", "\xED\xB8\x80", "\uFFFD"},
		{"half a surrogate", "\xED\xA0", "\uFFFD\uFFFD"},
		{"half an emoji", "x\xF0\x9F\x98", "x\uFFFD\uFFFD\uFFFD"},
		{"an emoji after half of one", "\xF0\x9F😀", "\uFFFD\uFFFD😀"},
		{"Korean begins with the same byte as a surrogate", "\xED\x95\x9C", "한"},
		{"the replacement itself", "\uFFFD", "\uFFFD"},
		{"other controls stay", "\x01\x1b[0m\r\n", "\x01\x1b[0m\r\n"},
	} {
		if got := text.Storable(test.in); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestClipCutsBetweenGraphemes(t *testing.T) {
	t.Parallel()
	starts := graphemeEnds(clusters)
	for max := range utf8.RuneCountInString(clusters) + 3 {
		got := text.Clip(clusters, max)
		if n := utf8.RuneCountInString(got); n > max {
			t.Errorf("max %d gives %d characters", max, n)
		}
		if body, cut := strings.CutSuffix(got, "…"); cut && !starts[len(body)] {
			t.Errorf("max %d cuts inside a grapheme: %q", max, got)
		} else if !cut && got != clusters && max > 0 {
			t.Errorf("max %d is cut without saying so: %q", max, got)
		}
	}
	if got := text.Clip("abcdef", 4); got != "abc…" {
		t.Errorf("got %q", got)
	}
	if got := text.Clip("abcd", 4); got != "abcd" {
		t.Errorf("got %q", got)
	}
}

func TestHeadAndTailCutBetweenGraphemesAtEveryOffset(t *testing.T) {
	t.Parallel()
	for _, s := range []string{clusters, strings.Repeat("x", 3000) + clusters + strings.Repeat("y", 3000), "line\n" + clusters + "\n" + clusters} {
		ends := graphemeEnds(s)
		for max := range len(s) + 2 {
			head, tail := text.Head(s, max), text.Tail(s, max)
			if len(head) > max || len(tail) > max {
				t.Fatalf("max %d: head has %d bytes, tail %d", max, len(head), len(tail))
			}
			if !strings.HasPrefix(s, head) || !ends[len(head)] {
				t.Errorf("max %d: the head ends inside a grapheme: %q", max, head[len(head)-min(len(head), 8):])
			}
			if !strings.HasSuffix(s, tail) || !ends[len(s)-len(tail)] {
				t.Errorf("max %d: the tail begins inside a grapheme: %q", max, tail[:min(len(tail), 8)])
			}
			// No more is left out than the grapheme at the cut has.
			if max <= len(s) && (max-len(head) > 40 || max-len(tail) > 40) {
				t.Errorf("max %d: head %d, tail %d bytes", max, len(head), len(tail))
			}
		}
	}
}

func TestAnEndlessGraphemeIsStillCutIntoValidText(t *testing.T) {
	t.Parallel()
	s := "a" + strings.Repeat("\u0301", 100_000)
	for _, max := range []int{1, 2, 5000, 5001, 50_000} {
		for _, got := range []string{text.Head(s, max), text.Tail(s, max), text.Clip(s, max)} {
			if len(got) > 4*max || !utf8.ValidString(got) {
				t.Errorf("max %d: %d bytes, valid %v", max, len(got), utf8.ValidString(got))
			}
		}
	}
}

func graphemeEnds(s string) map[int]bool {
	ends, at := map[int]bool{0: true}, 0
	for rest, state := s, -1; rest != ""; {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		at += len(cluster)
		ends[at] = true
	}
	return ends
}

func TestStripANSI(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"colour", "\x1b[1;31mred\x1b[0m plain", "red plain"},
		{"private mode", "\x1b[?25l\x1b[2Kx", "x"},
		{"title", "\x1b]0;title\x07x", "x"},
		{"link", "\x1b]8;;https://example.org\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"device string", "\x1bP1$r0m\x1b\\x", "x"},
		{"character set", "\x1b(Bx", "x"},
		{"two characters", "\x1b=x\x1b>", "x"},
		{"emoji around", "😀\x1b[0m😀", "😀😀"},
		{"a lone escape", "a\x1b", "a"},
		{"an unfinished sequence keeps its text", "\x1b[12", "[12"},
		{"an unfinished title does not swallow the next line", "\x1b]0;never\nline", "]0;never\nline"},
		{"nor does one without end", "\x1b]0;" + strings.Repeat("x", 5000), "]0;" + strings.Repeat("x", 5000)},
		{"a sequence cut by another", "\x1b[1\x1b[0mx", "[1x"},
		{"no escapes", "plain\n", "plain\n"},
	} {
		if got := text.StripANSI(test.in); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestStorableJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{"NUL", `{"a":"x\u0000y"}`, "{\"a\":\"x\uFFFDy\"}"},
		{"lone surrogates", `["\ud83d","\ude00x","\ud83d\u0041"]`, "[\"\uFFFD\",\"\uFFFDx\",\"\uFFFD\\u0041\"]"},
		{"a pair stays", `"\ud83d\ude00"`, `"\ud83d\ude00"`},
		{"an escaped backslash is no escape", `"\\u0000"`, `"\\u0000"`},
		{"numbers keep their digits", `{"id":2932809024865746956,"x":1.10}`, `{"id":2932809024865746956,"x":1.10}`},
		{"raw bytes", "\"\xFF\"", "\"\uFFFD\""},
	} {
		if got := text.StorableJSON(json.RawMessage(test.in)); string(got) != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func FuzzStorable(f *testing.F) {
	f.Add("a\x00\xED\xA0\xBD\xF0\x9F😀")
	f.Fuzz(func(t *testing.T, s string) {
		got := text.Storable(s)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Errorf("%q is not storable", got)
		}
		if text.Storable(got) != got {
			t.Errorf("%q changes again", got)
		}
		if utf8.ValidString(s) && strings.ReplaceAll(s, "\x00", "\uFFFD") != got {
			t.Errorf("%q became %q", s, got)
		}
	})
}

// However the input is cut into writes, the result is the same as of the whole.
func FuzzCleaner(f *testing.F) {
	f.Add([]byte("a\x1b[31mred\x1b]0;t\x07😀\xED\xA0\xBD\x00"), uint8(1))
	f.Add([]byte("\x1b]8;;x\x1b\\\xED\xED\xA0\x1b"), uint8(2))
	f.Add([]byte("\xF0\x9F\x1b[0m\x98\x80"), uint8(3))
	f.Fuzz(func(t *testing.T, input []byte, step uint8) {
		var out bytes.Buffer
		c := text.NewCleaner(&out)
		for rest := input; len(rest) > 0; {
			n := min(int(step%7)+1, len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if want := text.Storable(text.StripANSI(string(input))); out.String() != want {
			t.Errorf("%q in steps became %q, at once %q", input, out.String(), want)
		}
	})
}

func FuzzCuts(f *testing.F) {
	f.Add(clusters, 7)
	f.Fuzz(func(t *testing.T, s string, max int) {
		if !utf8.ValidString(s) {
			return
		}
		for _, got := range []string{text.Head(s, max), text.Tail(s, max), text.Clip(s, max)} {
			if !utf8.ValidString(got) {
				t.Errorf("%q cut to %d gives %q", s, max, got)
			}
		}
	})
}

func FuzzStorableJSON(f *testing.F) {
	f.Add(`{"a":"\u0000\ud83d\ude00\ud83d","b":12345678901234567890}`)
	f.Fuzz(func(t *testing.T, s string) {
		if !json.Valid([]byte(s)) {
			return
		}
		got := text.StorableJSON(json.RawMessage(s))
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Errorf("%q became %q", s, got)
		}
		var before, after any
		decode(t, []byte(s), &before)
		decode(t, got, &after)
		a, _ := json.Marshal(before)
		b, _ := json.Marshal(after)
		if !bytes.Equal(bytes.ReplaceAll(a, []byte(`\u0000`), []byte("\uFFFD")), b) && !strings.Contains(s, `\u0000`) {
			t.Errorf("%s means %s, before %s", got, b, a)
		}
	})
}

func decode(t *testing.T, raw []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}
