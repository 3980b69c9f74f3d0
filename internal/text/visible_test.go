package text_test

import (
	"testing"

	"github.com/geminixiang/mikan/internal/text"
)

func TestVisibleShowsWhatHides(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"plain\n\ttext":            "plain\n\ttext",
		"a\r\nb\rc":                "a\nb␍c",
		"a\x00b\x1b[31mc\x7f":      "a␀b␛[31mc␡",
		"a\u0085b\u202ec":          "a⟨U+0085⟩b⟨U+202E⟩c",
		"\u200b\ufeff\u2066\u061c": "⟨U+200B⟩⟨U+FEFF⟩⟨U+2066⟩⟨U+061C⟩",
		"\U000e0041\U000e0101":     "⟨U+E0041⟩⟨U+E0101⟩",
		"\u3164\u2028":             "⟨U+3164⟩⟨U+2028⟩",
		"👨\u200d👩\u200d👧 ❤\ufe0f":  "👨\u200d👩\u200d👧 ❤\ufe0f",
		"می\u200cخواهم \u0601":     "می\u200cخواهم \u0601",
		"\xff":                     "\ufffd",
	} {
		if got := text.Visible(said); got != want {
			t.Errorf("%q shows as %q, want %q", said, got, want)
		}
	}
	if got := text.VisibleLine(" a\n\x1b b "); got != "a ␛ b" {
		t.Errorf("in one line it shows as %q", got)
	}
}
