package llmtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif"  // registers the decoder that imageProblem uses
	_ "image/jpeg" // same
	_ "image/png"  // same
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Violation is what a provider would say against a request: an HTTP status, the type of the error and its message.
type Violation struct {
	Status  int
	Kind    string
	Message string
}

func (v *Violation) Error() string { return fmt.Sprintf("%d %s: %s", v.Status, v.Kind, v.Message) }

func invalid(format string, args ...any) *Violation {
	return &Violation{Status: 400, Kind: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

// Validate checks a request body as strictly as the strictest provider of the dialect known to us and returns a
// *Violation for what it would refuse.
func Validate(d Dialect, body []byte) error {
	if v := validate(d, body); v != nil {
		return v
	}
	return nil
}

func validate(d Dialect, body []byte) *Violation {
	if v := validText(body); v != nil {
		return v
	}
	var o object
	if err := decode(body, &o); err != nil {
		return invalid("The request body is not valid JSON: %s", err)
	}
	if o.text("model") == "" {
		return invalid("model: Field required")
	}
	if stream, _ := o["stream"].(bool); !stream {
		return invalid("stream: this server only streams")
	}
	switch d {
	case Anthropic:
		return validateAnthropic(o)
	case Chat:
		return validateChat(o)
	default:
		return validateResponses(o)
	}
}

func decode(body []byte, into *object) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	return dec.Decode(into)
}

var surrogate = regexp.MustCompile(`(?i)\\u(d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|d[89a-f][0-9a-f]{2})`)

// validText refuses what breaks providers or the database: invalid UTF-8, lone surrogates, NUL.
func validText(body []byte) *Violation {
	if !utf8.Valid(body) {
		return invalid("The request body is not valid JSON: invalid UTF-8")
	}
	plain := strings.ReplaceAll(string(body), `\\`, "")
	for _, m := range surrogate.FindAllString(plain, -1) {
		if len(m) == len(`\ud83d`) {
			return invalid("The request body is not valid JSON: no low surrogate in string")
		}
	}
	if strings.Contains(plain, `\u0000`) || bytes.IndexByte(body, 0) >= 0 {
		return invalid("The request body holds a NUL character")
	}
	return nil
}

func unknownFields(o object, where string, known ...string) *Violation {
	var extra []string
	for key := range o {
		if !slices.Contains(known, key) {
			extra = append(extra, key)
		}
	}
	if len(extra) == 0 {
		return nil
	}
	slices.Sort(extra)
	return invalid("%s%s: Extra inputs are not permitted", where, extra[0])
}

var (
	anthropicID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	anthropicName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	openAIName    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// imageProblem tells why base64 data is no picture of its media type; "" = it is one.
func imageProblem(mediaType, data string) string {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil || len(raw) == 0 {
		return "Could not process image"
	}
	if len(data) > 5<<20 {
		return fmt.Sprintf("image exceeds 5 MB maximum: %d bytes > %d bytes", len(data), 5<<20)
	}
	switch mediaType {
	case "image/webp":
		if len(raw) < 16 || string(raw[:4]) != "RIFF" || string(raw[8:12]) != "WEBP" {
			return "Image does not match the provided media type " + mediaType
		}
		return ""
	case "image/png", "image/jpeg", "image/gif":
		config, format, err := image.DecodeConfig(bytes.NewReader(raw))
		switch {
		case err != nil:
			return "Could not process image"
		case "image/"+format != mediaType:
			return "Image does not match the provided media type " + mediaType
		case max(config.Width, config.Height) > 8000:
			return "image dimensions exceed max allowed size: 8000 pixels"
		}
		return ""
	default:
		return "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
	}
}

func dataURLProblem(url string) string {
	rest, ok := strings.CutPrefix(url, "data:")
	mediaType, data, found := strings.Cut(rest, ";base64,")
	if !ok || !found {
		return "Invalid image URL"
	}
	return imageProblem(mediaType, data)
}

func toolSchemaProblem(schema any) bool { return toObject(schema).text("type") != "object" }
