package memory_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/geminixiang/mikan/internal/fault"
	"github.com/geminixiang/mikan/internal/memory"
	"github.com/geminixiang/mikan/internal/secret"
)

func answer(t testing.TB, operations ...memory.Operation) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"operations": operations})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestParseTakesOnlyWhatWasAgreed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", memory.MaxText)
	one := func(op, text, line string) string {
		return fmt.Sprintf(`{"operations":[{"op":%q,"text":%q,"line":%q}]}`, op, text, line)
	}
	for _, c := range []struct {
		name, answer string
		want         []memory.Operation // nil: refused
	}{
		{"nothing to do", `{"operations":[]}`, []memory.Operation{}},
		{"an add", one("add", "A.", ""), []memory.Operation{add("A.")}},
		{"in a code fence", "```json\n" + one("add", "A.", "") + "\n```", []memory.Operation{add("A.")}},
		{"an update", one("update", "A.", "- B."), []memory.Operation{update("- B.", "A.")}},
		{"lines and spaces become one line", `{"operations":[{"op":"add","text":" A\n\nb\t  c\u2028d ","line":""}]}`, []memory.Operation{add("A b c d")}},
		{"a marker in front is taken off", one("add", "- ## A.", ""), []memory.Operation{add("A.")}},
		{"a provenance is not the model's to state", one("add", "A. (captured 2020-01-01 from 9)", ""), []memory.Operation{add("A.")}},
		{"characters that hide text are taken out", answer(t, add("A\u202eb\u200b\U000E0041.")), []memory.Operation{add("Ab.")}},
		{"the longest text", one("add", long, ""), []memory.Operation{add(long)}},
		{"a longer one", one("add", long+"x", ""), nil},
		{"too many", answer(t, add("1"), add("2"), add("3"), add("4"), add("5"), add("6"), add("7")), nil},
		{"a deletion", one("delete", "A.", "- B."), nil},
		{"one good and one unknown", `{"operations":[{"op":"add","text":"A.","line":""},{"op":"rewrite","text":"B","line":""}]}`, nil},
		{"an empty text", one("add", " \n", ""), nil},
		{"punctuation alone", one("add", "...", ""), nil},
		{"an update of nothing", one("update", "A.", ""), nil},
		{"another field", `{"operations":[{"op":"add","text":"A.","line":"","path":"../x"}]}`, nil},
		{"no list", `{}`, nil},
		{"prose", "I would add: A.", nil},
		{"prose around it", "Sure: " + one("add", "A.", ""), nil},
		{"two answers", one("add", "A.", "") + one("add", "B.", ""), nil},
		{"nothing", "", nil},
	} {
		got, err := memory.Parse(c.answer)
		if c.want == nil {
			if fault.CodeOf(err) != fault.Invalid {
				t.Errorf("%s: %+v, %v; want a refusal", c.name, got, err)
			}
			continue
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func TestCredentialsAreKeptOut(t *testing.T) {
	t.Parallel()
	// Put together here, so that no scanner takes this file for a leak.
	for _, secret := range []string{
		"The bot's token is xoxb-" + "17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy",
		"Use ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a to push",
		"Key: github_pat_" + "11AAAAAAA0abcdefghijkl_mnop",
		"-----BEGIN RSA PRIVATE " + "KEY----- MIIEpAIBAAKCAQEA7yc2",
		"AWS is AKIA" + "IOSFODNN7EXAMPLE", "sk-ant-" + "api03-abcdefghijklmnop", "AIza" + "SyA1234567890abcdefghijklmnopqrs",
		"The database is postgres://mikan:hunter2@db/mikan", "The staging password is hunter2!", "Passwort: geheim123",
		"Das Passwort für das WLAN lautet Sommer2024", "密码是abc12345", "Пароль: qwerty123", "La contraseña es Verano2024", "api key = 9f8e7d6c5b",
		"The door's PIN is 4711", "Authorization: Bearer " + "abcdefghijklmnopqrstuvwx", "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.x",
		"The hash is 5f4dcc3b5aa765d61d8327deb882cf99", "It is wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY12",
		"ｇｈｐ_" + "16C7e42F292c6912E7710c838347Ae178B4a",
	} {
		if !memory.LooksSecret(secret) {
			t.Errorf("%q is not seen as a credential", secret)
		}
	}
	for _, plain := range []string{
		"The password is stored in Vault.", "Passwords are rotated every 90 days.", "Never post tokens in this channel.",
		"The API key belongs to the payments team.", "Ann prefers short answers.", "Deploys go through internal/platform/deployment/pipeline.yaml.",
		"Ticket 123e4567-e89b-12d3-a456-426614174000 is the template.", "The service runs on port 8443 at https://status.example.com/board.",
		"The token is [SECRET:SLACK_BOT_TOKEN]", "密码由运维团队保管", "Invoices are due on 2026-10-31.", "Das Passwort ist im Tresor.",
		"The secret is to stir slowly.", "Call the module CustomerNotificationPreferencesService.",
	} {
		if memory.LooksSecret(plain) {
			t.Errorf("%q is taken for a credential", plain)
		}
	}
	known := secret.NewRedactor(map[string]string{"API": "known-secret-value"})
	allowed, withheld := memory.Screen([]memory.Operation{
		add("The key known-secret-value is used."), add("Use ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"), update("- the key known-secret-value", "It is elsewhere."),
	}, known)
	if len(allowed) != 2 || allowed[0].Text != "The key [SECRET:API] is used." || allowed[1].Line != "- the key [SECRET:API]" {
		t.Errorf("allowed %+v", allowed)
	}
	if len(withheld) != 1 || withheld[0].Text != "" || withheld[0].Kind != memory.Credential {
		t.Errorf("withheld %+v", withheld)
	}
}
