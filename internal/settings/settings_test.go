package settings_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/settings"
)

func TestSettingsAreKeptAsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"model", " anthropic/claude-sonnet-5-5:high ", `"anthropic/claude-sonnet-5-5:high"`},
		{"model", "openai/llama3:8b", `"openai/llama3:8b"`},
		{"instructions", "Answer in rhyme.\nAlways.", `"Answer in rhyme.\nAlways."`},
		{"timezone", "Europe/Berlin", `"Europe/Berlin"`},
		{"timezone", "UTC", `"UTC"`},
		{"admins", "U1, U2,U1", `["U1","U2"]`},
		{"allowed", "2932809024865746956", `["2932809024865746956"]`},
		{"tools", "bash=off, read=on", `{"bash":"off","read":"on"}`},
		{"spend-limit", "2.50", `2.50`},
		{"spend-limit", "$007", `7`},
		{"spend-limit", "0", `0`},
	} {
		name, value, err := settings.Parse(c.name, c.text)
		if err != nil || string(name) != c.name {
			t.Errorf("%s %q: %v", c.name, c.text, err)
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil || string(raw) != c.want {
			t.Errorf("%s %q is kept as %s, want %s", c.name, c.text, raw, c.want)
		}
	}
}

func TestWhatIsNoValueIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, says string }{
		{"colour", "red", "model, instructions, timezone, admins, allowed, tools, auto-reply, spend-limit"},
		{"Model", "demo/demo", "there is no setting"},
		{"model", "gpt", "provider/model"},
		{"model", "", "provider/model"},
		{"instructions", " ", "--unset"},
		{"instructions", strings.Repeat("ü", 20_001), "20000"},
		{"timezone", "Mars/Olympus", "Europe/Berlin"},
		{"timezone", "", "Europe/Berlin"},
		{"timezone", "Local", "Europe/Berlin"},
		{"timezone", "../../etc/passwd", "Europe/Berlin"},
		{"admins", "", "user id"},
		{"admins", "U1,,U2", "user id"},
		{"allowed", "two words", "user id"},
		{"tools", "bash", "bash=off"},
		{"tools", "bash=maybe", "bash=off"},
		{"tools", "a b=on", "bash=off"},
		{"tools", "bash=on,bash=off", "both"},
		{"spend-limit", "-1", "amount"},
		{"spend-limit", "NaN", "amount"},
		{"spend-limit", "1e3", "amount"},
	} {
		_, _, err := settings.Parse(c.name, c.text)
		if fault.CodeOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: %v, want a refusal that says %q", c.name, c.text, err, c.says)
		}
	}
}
