package memory

import (
	"math"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// normalise gives texts that read the same the same characters, in one case.
func normalise(s string) string { return cases.Fold().String(norm.NFKC.String(s)) }

// shapes are credentials that are known by their form, wherever they stand.
var shapes = []*regexp.Regexp{
	regexp.MustCompile(`xox[a-z]-[A-Za-z0-9-]{8,}`),                                      // Slack
	regexp.MustCompile(`xapp-[A-Za-z0-9-]{8,}`),                                          // Slack
	regexp.MustCompile(`(?:gh[pousr]_|github_pat_|glpat-|npm_|hf_)[A-Za-z0-9_-]{10,}`),   // GitHub, GitLab, npm, Hugging Face
	regexp.MustCompile(`\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}`),                           // model providers, Stripe
	regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{12,}`),                                   // AWS
	regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{20,}`),                                       // Google
	regexp.MustCompile(`\bya29\.[A-Za-z0-9_-]{10,}`),                                     // Google
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`),                      // JSON web token
	regexp.MustCompile(`\b\d{6,12}:[A-Za-z0-9_-]{30,}`),                                  // Telegram
	regexp.MustCompile(`\b[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,}`), // Discord
	regexp.MustCompile(`-----BEGIN [A-Z ]*(?:KEY|CERTIFICATE)`),
	regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s/@:]*:[^\s/@]+@`), // a password inside a URL
	regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+[A-Za-z0-9+/=._~-]{16,}`),
	regexp.MustCompile(`(?i)hooks\.slack\.com/services/\S+|discord(?:app)?\.com/api/webhooks/\S+`),
	regexp.MustCompile(`(?i)otpauth://\S+`),
}

// named is a value that is called a secret, in the languages that people most often say it in.
var named = regexp.MustCompile(`(?i)(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|(?:api|access|private|secret)[ _-]?key|` +
	`passwort|kennwort|mot de passe|contraseña|senha|parola|пароль|токен|密码|密碼|口令|パスワード|비밀번호|암호)` +
	`[^\s:=]{0,12}?(?:[ ]+[\p{L}\d._-]+){0,4}?\s*(?::|=|：|->|→|\bis\b|\bist\b|\blautet\b|\best\b|\bes\b|\bé\b|это|是|は|为|為|는|은)\s*["'“„«` + "`" + `]?(\S+)`)

var pin = regexp.MustCompile(`(?i)\b(?:pin|tan|otp|cvc|cvv)\b(?:[ -]?code)?\W{0,3}(?:(?:is|ist|est|es|:|=)\s*)?\d{3,8}\b`)

var placeholder = regexp.MustCompile(`\[SECRET:[^\]]*\]`)

// word is a run of characters that keys are made of.
var word = regexp.MustCompile(`[A-Za-z0-9+/=_-]{24,}`)

// LooksSecret tells whether a text looks as if it held a credential. It errs on the side of secrecy: a fact that is not
// remembered can be said again. Placeholders of secrets that mikan knows do not count.
func LooksSecret(s string) bool {
	s = placeholder.ReplaceAllString(norm.NFKC.String(s), "")
	for _, shape := range shapes {
		if shape.MatchString(s) {
			return true
		}
	}
	if pin.MatchString(s) {
		return true
	}
	for _, found := range named.FindAllStringSubmatch(s, -1) {
		if valueLike(strings.TrimRight(found[1], `.,;!?)"'”»`+"`。、")) {
			return true
		}
	}
	for _, w := range word.FindAllString(s, -1) {
		if random(w) {
			return true
		}
	}
	return false
}

// valueLike tells a password from the word after "the password is": "hunter2" from "stored" or "in".
func valueLike(s string) bool {
	if len([]rune(s)) < 5 {
		return false
	}
	var digit, upper, lower, other bool
	for i, r := range s {
		switch {
		case unicode.IsDigit(r):
			digit = true
		case unicode.IsUpper(r):
			upper = upper || i > 0 // a capital in front is any noun's
		case unicode.IsLower(r):
			lower = true
		case r != '-' && r != '/' && r != '\'' && !unicode.IsLetter(r):
			other = true
		}
	}
	return digit || upper && lower || other
}

// random tells whether a long word is more likely drawn than written: hexadecimal, or mixed classes at high entropy.
func random(w string) bool {
	w = strings.Trim(w, "=/-_+")
	if len(w) < 24 {
		return false
	}
	counts := map[rune]int{}
	var digit, upper, lower int
	hex := true
	for _, r := range w {
		counts[r]++
		switch {
		case unicode.IsDigit(r):
			digit++
		case unicode.IsUpper(r):
			upper++
		case unicode.IsLower(r):
			lower++
		}
		hex = hex && strings.ContainsRune("0123456789abcdefABCDEF", r)
	}
	if hex {
		return len(w) >= 32
	}
	entropy := 0.0
	for _, n := range counts {
		p := float64(n) / float64(len(w))
		entropy -= p * math.Log2(p)
	}
	// Paths and identifiers made of words have few digits, or few capitals between small letters.
	mixed := digit >= 3 && (upper >= 2 || lower >= 2)
	return mixed && entropy > 3.7 && !strings.ContainsAny(w, "/") || mixed && upper >= 4 && lower >= 4 && entropy > 4
}
