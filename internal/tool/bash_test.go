package tool_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/sandbox"
	"github.com/geminixiang/mikan/internal/secret"
	"github.com/geminixiang/mikan/internal/tool"
)

func TestBashReturnsOutputAndExit(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	for _, test := range []struct {
		command, want string
		isError       bool
	}{
		{"echo out; echo err >&2", "out\nerr\n", false},
		{"true", "(no output)", false},
		{"false", "[Exit code 1]", true},
		{"printf partial; exit 3", "partial\n[Exit code 3]", true},
		{`printf '\033[31mred\033[0m\033]0;title\007 plain\n'`, "red plain\n", false},
		{`printf 'a\000b\377c\355\240\275d\n'`, "a\uFFFDb\uFFFDc\uFFFDd\n", false},
		{"echo 2932809024865746956", "2932809024865746956\n", false},
		{"pwd", b.dir + "\n", false},
	} {
		if got := b.call("bash", args{"command": test.command}); got.Text != test.want || got.IsError != test.isError {
			t.Errorf("%q: %+v, want %q", test.command, got, test.want)
		}
	}
	for _, group := range b.started {
		if group.PGID <= 1 || group.Alive() {
			t.Errorf("group %+v", group)
		}
	}
	if len(b.started) != 8 {
		t.Errorf("%d groups were announced", len(b.started))
	}
}

var fullOutput = regexp.MustCompile(`The full output is in (scratch/output-[a-z0-9]+\.txt)\.`)

func (b *bench) spilled(text string) string {
	b.t.Helper()
	match := fullOutput.FindStringSubmatch(text)
	if match == nil {
		b.t.Fatalf("no file is named in %.300q", text)
	}
	return b.content(match[1])
}

func TestLongOutputKeepsItsEndAndAFileTheWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	for _, test := range []struct{ name, command, first, last string }{
		{"many lines", "seq 1 5000", "of 5000 lines", "\n4999\n5000\n"},
		{"many bytes", "seq 1 1700 | sed 's/$/ " + strings.Repeat("x", 100) + "/'", "of 1700 lines", strings.Repeat("x", 100) + "\n"},
		{"one long line", "head -c 200000 /dev/zero | tr '\\0' y", "last 1 of 1 lines", "yyyy"},
	} {
		got := b.call("bash", args{"command": test.command})
		if got.IsError || !strings.HasPrefix(got.Text, "[Output cut: ") || !strings.Contains(got.Text, test.first) ||
			!strings.HasSuffix(got.Text, test.last) {
			t.Errorf("%s: %.200q … %.100q", test.name, got.Text, got.Text[len(got.Text)-50:])
		}
		_, shown, _ := strings.Cut(got.Text, "\n")
		if whole := b.spilled(got.Text); !strings.HasSuffix(whole, shown) || len(whole) <= len(shown) {
			t.Errorf("%s: the file has %d bytes, shown are %d", test.name, len(whole), len(shown))
		}
		if len(shown) < tool.MaxBytes*9/10 && strings.Count(shown, "\n") < tool.MaxLines*9/10 {
			t.Errorf("%s: only %d bytes are shown", test.name, len(shown))
		}
	}
}

func TestOutputThatFitsLeavesNoFile(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	// More than the bound as printed, less once the escape sequences are out.
	got := b.call("bash", args{"command": `for i in $(seq 1 1000); do printf '\033[38;5;196m\033[1m\033[4m\033[48;5;22m\033[0m%d\n' $i; done`})
	if strings.Contains(got.Text, "cut") || strings.Count(got.Text, "\n") != 1000 {
		t.Errorf("%.200q", got.Text)
	}
	if entries, err := os.ReadDir(filepath.Join(b.dir, "scratch")); err == nil && len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestBinaryOutputIsStorable(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	b.write("random", string(randomBytes(200_000)))
	for _, n := range []int{4096, 30_000, 200_000} {
		got := b.call("bash", args{"command": fmt.Sprintf("head -c %d random; echo; echo end", n)})
		if !strings.HasSuffix(got.Text, "\nend\n") { // the bench checks that it can be stored
			t.Errorf("%d bytes: ends in %q", n, got.Text[len(got.Text)-20:])
		}
	}
}

// randomBytes is the same noise every time (xorshift).
func randomBytes(n int) []byte {
	out, x := make([]byte, n), uint64(88172645463325252)
	for i := range out {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		out[i] = byte(x)
	}
	return out
}

func TestOutputIsNeverCutInsideACharacter(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	family := "👨‍👩‍👧‍👦"
	b.write("emoji", strings.Repeat(family, 4000))
	for offset := range len(family) + 1 {
		got := b.call("bash", args{"command": fmt.Sprintf("cat emoji; printf '%s'", strings.Repeat("x", offset+1))})
		_, shown, _ := strings.Cut(got.Text, "\n")
		if !strings.HasPrefix(shown, family) || strings.ContainsRune(shown, '\uFFFD') {
			t.Errorf("offset %d: the shown part begins with %q", offset, shown[:30])
		}
	}
}

// TestHugeOutputIsReadInFlatMemory compares a small and a huge output: what is allocated may not grow with them.
func TestHugeOutputIsReadInFlatMemory(t *testing.T) {
	b := newBench(t, "host", map[string]string{"KEY": "canary-0123456789"})
	measure := func(megabytes int) uint64 {
		command := fmt.Sprintf("yes 'a line of text, as programs print them, and some more of it' | head -c %d", megabytes<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := b.call("bash", args{"command": command})
		runtime.ReadMemStats(&after)
		if whole := b.spilled(got.Text); len(whole) != megabytes<<20 {
			t.Errorf("the file has %d bytes, want %d MB", len(whole), megabytes)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	small, huge := measure(2), measure(120)
	if huge > 2*small+(1<<20) {
		t.Errorf("120 MB of output allocate %d bytes, 2 MB allocate %d", huge, small)
	}
}

func TestTheOutputFileHasALimit(t *testing.T) {
	t.Parallel()
	box, err := sandbox.Parse(sandbox.Config{Spec: "host"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, "host", nil)
	if b.registry, err = tool.NewRegistry(nil, &tool.Bash{Sandbox: box, SpillLimit: 100_000}); err != nil {
		t.Fatal(err)
	}
	got := b.call("bash", args{"command": "seq 1 100000"})
	if got.IsError || !strings.Contains(got.Text, "The first 97.7 KB of the output are in scratch/") || !strings.HasSuffix(got.Text, "\n100000\n") {
		t.Errorf("%.300q", got.Text)
	}
	entries, err := os.ReadDir(filepath.Join(b.dir, "scratch"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v %v", entries, err)
	}
	if whole := b.content("scratch/" + entries[0].Name()); len(whole) != 100_000 || !strings.HasPrefix(whole, "1\n2\n") {
		t.Errorf("the file has %d bytes", len(whole))
	}
}

func TestAnOutputFileThatCannotBeWrittenIsSaid(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*testing.T, *bench)
		reason  string
	}{
		"a full disk":         {fullScratch, "no space left on device"},
		"a file in its place": {func(_ *testing.T, b *bench) { b.write("scratch", "mine") }, "not a directory"},
		"a link out": {func(t *testing.T, b *bench) {
			b.write("x", "")
			if err := os.Symlink(t.TempDir(), filepath.Join(b.dir, "scratch")); err != nil {
				t.Fatal(err)
			}
		}, "symbolic link"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "host", nil)
			test.prepare(t, b)
			got := b.call("bash", args{"command": "seq 1 1000000"})
			if got.IsError || !strings.Contains(got.Text, "The full output could not be kept: ") || !strings.Contains(got.Text, test.reason) ||
				!strings.HasSuffix(got.Text, "\n1000000\n") {
				t.Errorf("%.300q", got.Text)
			}
		})
	}
}

func TestATimeoutIsTheModelsAffair(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"host", "bwrap"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, spec, nil)
			got := b.call("bash", args{"command": "echo begun; sleep 1000 & sleep 1000", "timeout": 1})
			if !got.IsError || !strings.HasPrefix(got.Text, "begun\n[The command was killed after 1 s") {
				t.Errorf("%+v", got)
			}
			if len(b.started) != 1 || b.started[0].Alive() {
				t.Errorf("groups %+v", b.started)
			}
		})
	}
}

func TestACancelledCallReturnsAnError(t *testing.T) {
	t.Parallel()
	b := newBench(t, "host", nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	go func() {
		for { // until the command has begun
			if _, err := os.Stat(filepath.Join(b.dir, "begun")); err == nil {
				cancel(stopped)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	got, err := b.run(ctx, "bash", args{"command": "echo some output; touch begun; sleep 1000"})
	if !errors.Is(err, stopped) || fault.CodeOf(err) != fault.Interrupted {
		t.Errorf("error %v", err)
	}
	if !got.IsError || !strings.Contains(got.Text, "some output\n[The command was interrupted. It may have had effects.]") {
		t.Errorf("%+v", got)
	}
}

func TestNoConfiguredSecretComesOut(t *testing.T) {
	const value = "canary-8c1f+/77e2"
	t.Setenv("MIKAN_SECRET_KEY", value)
	for _, spec := range []string{"host", "bwrap"} {
		t.Run(spec, func(t *testing.T) {
			b := newBench(t, spec, map[string]string{"MIKAN_SECRET_KEY": value})
			b.write("leaked.env", "KEY="+value+"\n")
			check := func(what, text string) {
				t.Helper()
				encoded := base64.StdEncoding.EncodeToString([]byte(value))
				if strings.Contains(text, value) || strings.Contains(text, encoded[:16]) {
					t.Errorf("%s shows the secret", what)
				}
			}
			check("the environment", b.call("bash", args{"command": "env; set; cat /proc/self/environ"}).Text)
			for _, command := range []string{
				"cat leaked.env", "cut -c5- leaked.env | tr -d '\\n' | base64", "base64 leaked.env",
				"GREP_COLORS=mt='01;31' grep --color=always canary leaked.env",
				"printf canary-; sleep 0.1; printf '8c1f+/77e2\\n'", // in two reads
			} {
				got := b.call("bash", args{"command": command})
				check(command, got.Text)
				if !strings.Contains(got.Text, "[SECRET:MIKAN_SECRET_KEY]") {
					t.Errorf("%s prints %q", command, got.Text)
				}
			}
			check("read", b.call("read", args{"path": "leaked.env"}).Text)
			long := b.call("bash", args{"command": "yes \"$(cat leaked.env)\" | head -n 9000"})
			check("a long output", long.Text)
			check("its file", b.spilled(long.Text))
		})
	}
}

func TestASandboxThatFailsIsNotTheModelsAffair(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	box, err := sandbox.Parse(sandbox.Config{Spec: "bwrap"})
	if err != nil {
		t.Fatal(err)
	}
	bash := &tool.Bash{Sandbox: box, Redactor: secret.NewRedactor(nil)}
	_, err = bash.Run(t.Context(), tool.Call{
		Arguments: []byte(`{"command":"true"}`), Place: tool.Place{Dir: filepath.Join(t.TempDir(), "office")},
	})
	if fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("error %v", err)
	}
}

func TestDescriptionsStayTheSame(t *testing.T) {
	t.Parallel()
	a, b := newBench(t, "host", nil), newBench(t, "host", nil)
	for i, spec := range a.registry.Specs() {
		other := b.registry.Specs()[i]
		if spec.Description != other.Description || !bytes.Equal(spec.Schema, other.Schema) || strings.Contains(spec.Description, a.dir) {
			t.Errorf("%s differs between processes", spec.Name)
		}
	}
}
