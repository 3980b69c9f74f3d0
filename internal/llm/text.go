package llm

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/geminixiang/mikan/internal/text"
)

// emptyArguments is what a call without arguments means.
const emptyArguments = "{}"

// cleanArguments makes the argument text of a tool call storable and tells, in a sentence for the model, why it cannot
// be executed; invalid is "" for a good call. Apart from characters that cannot be stored the text is kept byte for
// byte: numbers never pass through a float.
func cleanArguments(raw string) (arguments, invalid string) {
	arguments = cleanEscapes(text.Storable(strings.TrimSpace(raw)))
	if arguments == "" {
		return emptyArguments, ""
	}
	var probe json.RawMessage
	if err := json.Unmarshal([]byte(arguments), &probe); err != nil {
		return arguments, fmt.Sprintf("The call was not executed: its arguments are not valid JSON (%s). "+
			"Send it again with one complete JSON object.", err)
	}
	if arguments[0] != '{' {
		return arguments, "The call was not executed: its arguments must be a JSON object. " +
			"Send it again with one JSON object."
	}
	return arguments, ""
}

// cleanEscapes replaces, inside the strings of a JSON text, the escapes of characters that cannot be stored: \u0000 and
// halves of a surrogate pair. Everything else stays byte for byte; the text need not be valid JSON.
func cleanEscapes(s string) string {
	if !strings.Contains(s, `\u`) {
		return s
	}
	const replacement = `\ufffd`
	var out strings.Builder
	out.Grow(len(s))
	inString := false
	for i := 0; i < len(s); {
		switch {
		case s[i] == '"':
			inString = !inString
			out.WriteByte('"')
			i++
		case !inString || s[i] != '\\':
			out.WriteByte(s[i])
			i++
		default:
			unit, ok := unicodeEscape(s[i:])
			if !ok {
				end := min(i+2, len(s))
				out.WriteString(s[i:end])
				i = end
				continue
			}
			low, lowOK := unicodeEscape(s[i+6:])
			switch {
			case unit >= 0xD800 && unit < 0xDC00 && lowOK && low >= 0xDC00 && low < 0xE000:
				out.WriteString(s[i : i+12])
				i += 12
			case unit == 0 || unit >= 0xD800 && unit < 0xE000:
				out.WriteString(replacement)
				i += 6
			default:
				out.WriteString(s[i : i+6])
				i += 6
			}
		}
	}
	return out.String()
}

// unicodeEscape reads \uXXXX at the start of s.
func unicodeEscape(s string) (unit uint32, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range []byte(s[2:6]) {
		unit <<= 4
		switch {
		case c >= '0' && c <= '9':
			unit |= uint32(c - '0')
		case c >= 'a' && c <= 'f':
			unit |= uint32(c-'a') + 10
		case c >= 'A' && c <= 'F':
			unit |= uint32(c-'A') + 10
		default:
			return 0, false
		}
	}
	return unit, true
}

// Limits that every provider's pattern for identifiers satisfies: Anthropic takes 128 characters for a name, OpenAI 64.
const maxIdentifier = 64

// identifier maps s to ^[a-zA-Z0-9_-]{1,64}$, the pattern both providers accept for call ids and tool names. A good
// identifier is unchanged; fallback is used for an empty one.
func identifier(s, fallback string) string {
	if s == "" {
		return fallback
	}
	var out strings.Builder
	for _, r := range s {
		if out.Len() == maxIdentifier {
			break
		}
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			out.WriteRune(r)
		default:
			out.WriteByte('_')
		}
	}
	return out.String()
}

// uniqueIdentifier returns id, or id with a number behind it when used has it already, and adds it to used.
func uniqueIdentifier(id string, used map[string]bool) string {
	candidate := id
	for n := 2; used[candidate]; n++ {
		suffix := fmt.Sprintf("_%d", n)
		candidate = id[:min(len(id), maxIdentifier-len(suffix))] + suffix
	}
	used[candidate] = true
	return candidate
}

// wireArguments is the object to send back for a call that the model made: its own text, or, when that is no JSON
// object, an object that quotes it, since Anthropic takes only objects and many servers parse what they get.
func wireArguments(b Block) json.RawMessage {
	arguments, invalid := cleanArguments(b.Arguments)
	if invalid == "" {
		return json.RawMessage(arguments)
	}
	quoted, err := json.Marshal(map[string]string{"invalid_arguments": arguments})
	if err != nil {
		return json.RawMessage(emptyArguments)
	}
	return quoted
}
