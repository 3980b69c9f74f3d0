package redact_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/redact"
)

func TestSecretsAreReplacedByTheirNames(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"TOKEN": "xoxb-123456", "LONGER": "xoxb-123456-789", "ODD": `p@ss/w"rd&1`, "SHORT": "ab", "EMPTY": ""}
	r := redact.New(secrets)
	inJSON, _ := json.Marshal(secrets["ODD"])
	for name, c := range map[string]struct{ in, want string }{
		"plain":                    {"token xoxb-123456.", "token [SECRET:TOKEN]."},
		"a value inside a longer":  {"xoxb-123456-789", "[SECRET:LONGER]"},
		"twice":                    {"xoxb-123456xoxb-123456", "[SECRET:TOKEN][SECRET:TOKEN]"},
		"in a URL's path":          {"/" + url.PathEscape(secrets["ODD"]), "/[SECRET:ODD]"},
		"in a URL's query":         {"?k=" + url.QueryEscape(secrets["ODD"]), "?k=[SECRET:ODD]"},
		"in JSON":                  {`{"k":` + string(inJSON) + `}`, `{"k":"[SECRET:ODD]"}`},
		"values too short to hide": {"cab", "cab"},
		"nothing secret":           {"hello", "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := r.String(c.in); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if r.Longest() < len(secrets["LONGER"]) {
		t.Errorf("the longest form is said to have %d bytes", r.Longest())
	}
}

func TestNoSecretsNoChange(t *testing.T) {
	t.Parallel()
	var none *redact.Redactor
	for _, r := range []*redact.Redactor{none, redact.New(nil)} {
		if r.String("text") != "text" || r.Longest() != 0 {
			t.Error("text was changed")
		}
	}
}

func FuzzNoSecretSurvives(f *testing.F) {
	f.Add("before ", "hunter2-secret", " after")
	f.Add("aaaaa", "aaaaaa", "a")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		got := redact.New(map[string]string{"S": secret}).String(before + secret + after)
		// A value that is part of its own placeholder cannot vanish.
		if len(secret) >= redact.MinLength && !strings.Contains(redact.Placeholder("S"), secret) && strings.Contains(got, secret) {
			if !strings.Contains(strings.ReplaceAll(got, redact.Placeholder("S"), "\x00"), secret) {
				return // made of a placeholder's edge and the text beside it
			}
			t.Errorf("%q still holds %q", got, secret)
		}
	})
}
