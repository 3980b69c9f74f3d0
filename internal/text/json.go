package text

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// StorableJSON returns valid JSON text in a form that Postgres takes as jsonb: escapes of NUL and of lone surrogates
// and invalid UTF-8 inside strings become U+FFFD. All else, numbers and paired surrogates included, keeps its bytes.
func StorableJSON(raw json.RawMessage) json.RawMessage {
	if utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\u`)) {
		return raw
	}
	out := make([]byte, 0, len(raw)+8)
	for i := 0; i < len(raw); {
		switch {
		case raw[i] != '\\':
			out = append(out, raw[i])
			i++
		case i+6 > len(raw) || raw[i+1] != 'u':
			n := min(2, len(raw)-i)
			out = append(out, raw[i:i+n]...)
			i += n
		default:
			n := escapeLength(raw[i:])
			if n == 0 {
				out = append(out, replacement...)
				n = 6
			} else {
				out = append(out, raw[i:i+n]...)
			}
			i += n
		}
	}
	return json.RawMessage(Storable(string(out)))
}

// escapeLength tells how many bytes of src, which starts with a \uXXXX escape, form one storable character; 0 when
// that escape has to be replaced.
func escapeLength(src []byte) int {
	switch unit := hex4(src[2:6]); {
	case unit == 0 || unit >= 0xDC00 && unit <= 0xDFFF:
		return 0
	case unit >= 0xD800 && unit <= 0xDBFF:
		if len(src) >= 12 && src[6] == '\\' && src[7] == 'u' {
			if low := hex4(src[8:12]); low >= 0xDC00 && low <= 0xDFFF {
				return 12
			}
		}
		return 0
	}
	return 6
}

func hex4(b []byte) rune {
	var v rune
	for _, c := range b {
		v <<= 4
		switch {
		case c >= '0' && c <= '9':
			v |= rune(c - '0')
		case c >= 'a' && c <= 'f':
			v |= rune(c-'a') + 10
		case c >= 'A' && c <= 'F':
			v |= rune(c-'A') + 10
		}
	}
	return v
}
