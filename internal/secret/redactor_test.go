package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/secret"
)

const token = "xoxb-17-Ab/9+c d\"e"

var pem = "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7yc2\nqPz0kL1mN3xV8wB6tR4u\nQ==\n-----END KEY-----\n"

func redactor() *secret.Redactor {
	return secret.NewRedactor(map[string]string{
		"TOKEN": token, "KEY": pem, "DB": "postgres://mikan:hunter2hunter2@localhost/mikan", "SHORT": "abc", "EMPTY": "",
		"LONG": token + "-and-more",
	})
}

func TestSecretsAreFoundInEveryForm(t *testing.T) {
	t.Parallel()
	quoted, err := json.Marshal(token)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, in, want string }{
		{"plain", "a " + token + " b", "a [SECRET:TOKEN] b"},
		{"the longer one wins", token + "-and-more", "[SECRET:LONG]"},
		{"twice in a row", token + token, "[SECRET:TOKEN][SECRET:TOKEN]"},
		{"in JSON", string(quoted), `"[SECRET:TOKEN]"`},
		{"in a query", "k=" + url.QueryEscape(token), "k=[SECRET:TOKEN]"},
		{"in a path", "/" + url.PathEscape(token), "/[SECRET:TOKEN]"},
		{"a URL's password", "PGPASSWORD=hunter2hunter2", "PGPASSWORD=[SECRET:DB]"},
		{"one line of a key", "grep: MIIEpAIBAAKCAQEA7yc2", "grep: [SECRET:KEY]"},
		{"a whole key", strings.TrimSpace(pem) + "\n", "[SECRET:KEY]\n"},
		{"everybody's key header", "-----BEGIN KEY-----", "-----BEGIN KEY-----"},
		{"too short to be searched for", "abc", "abc"},
		{"nothing", "plain text\n", "plain text\n"},
	} {
		if got := redactor().String(test.in); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestSecretsAreFoundInBase64AtEveryPosition(t *testing.T) {
	t.Parallel()
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
		for before := range 5 {
			for after := range 5 {
				plain := strings.Repeat("u", before) + token + strings.Repeat("v", after)
				got := redactor().String(encoding.EncodeToString([]byte(plain)))
				if !strings.Contains(got, "[SECRET:TOKEN]") || len(got) > len("[SECRET:TOKEN]")+18 {
					t.Errorf("%d before, %d after: %s", before, after, got)
				}
			}
		}
	}
}

func TestASecretCutOverWritesIsFound(t *testing.T) {
	t.Parallel()
	input := []byte("start " + token + " middle\n" + pem + " hunter2hunter2hunter2 end" + token)
	want := redactor().String(string(input))
	if strings.Contains(want, "hunter2hunter2") || strings.Count(want, "[SECRET:") != 4 {
		t.Fatalf("at once: %q", want)
	}
	for step := 1; step < len(input); step++ {
		var out bytes.Buffer
		w := redactor().Writer(&out)
		for rest := input; len(rest) > 0; rest = rest[min(step, len(rest)):] {
			if _, err := w.Write(rest[:min(step, len(rest))]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("in steps of %d: %q, want %q", step, out.String(), want)
		}
	}
}

func TestNoSecretsNoChange(t *testing.T) {
	t.Parallel()
	var none *secret.Redactor
	for _, r := range []*secret.Redactor{none, secret.NewRedactor(nil), secret.NewRedactor(map[string]string{"A": "short"})} {
		var out bytes.Buffer
		w := r.Writer(&out)
		if _, err := w.Write([]byte("text\x00")); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil || out.String() != "text\x00" || r.String("text") != "text" {
			t.Errorf("%q (%v)", out.String(), err)
		}
	}
}

func FuzzNoSecretSurvives(f *testing.F) {
	f.Add([]byte("before"), []byte("after"), "secret-value", uint8(3))
	f.Fuzz(func(t *testing.T, before, after []byte, value string, step uint8) {
		value = strings.TrimSpace(value)
		placeholder := "[SECRET:N]"
		if len(value) < secret.MinLength || strings.ContainsAny(value, placeholder) {
			return
		}
		input := append(append(before, value...), after...)
		r := secret.NewRedactor(map[string]string{"N": value})
		var out bytes.Buffer
		w := r.Writer(&out)
		for rest := input; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			_, _ = w.Write(rest[:n])
			rest = rest[n:]
		}
		_ = w.Flush()
		if strings.Contains(out.String(), value) {
			t.Errorf("%q still holds %q", out.String(), value)
		}
		if whole := r.String(string(input)); whole != out.String() {
			t.Errorf("in steps %q, at once %q", out.String(), whole)
		}
	})
}
