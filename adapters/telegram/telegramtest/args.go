package telegramtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }

// upload is a file in a request.
type upload struct {
	Name    string
	Content []byte
}

// args are a request's parameters by name.
type args struct {
	values map[string]string
	files  map[string]upload
}

func (a args) has(name string) bool { _, ok := a.values[name]; return ok }

func (a args) text(name string) string { return a.values[name] }

func (a args) integer(name string) int64 {
	n, _ := strconv.ParseInt(a.values[name], 10, 64) // checked by readArgs
	return n
}

func (a args) flag(name string) bool { return a.values[name] == "true" }

// bodyLimit is above the largest upload, so that one which is too large can be refused as Telegram does.
const bodyLimit = MaxUpload + 1<<20

// readArgs reads parameters in every form that Telegram takes (query, form, multipart, JSON) and checks them against the
// table.
func (s *Server) readArgs(r *http.Request, m Method) (args, *refusal) {
	given := args{values: map[string]string{}, files: map[string]upload{}}
	for name, values := range r.URL.Query() {
		given.values[name] = values[0]
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit+1))
	switch {
	case err != nil:
		return given, &refusal{code: http.StatusBadRequest, description: "Bad Request: the body could not be read"}
	case len(body) > bodyLimit:
		return given, &refusal{code: http.StatusRequestEntityTooLarge, description: "Request Entity Too Large", blame: ClientsFault}
	case len(body) > 0:
		if err := given.read(r.Header.Get("Content-Type"), body); err != nil {
			return given, wrong("%v", err)
		}
	}
	for name := range given.values {
		if _, ok := m.Param(name); !ok {
			s.violate(m.Name, fmt.Sprintf("the parameter %s is not in the table", name))
		}
	}
	for _, p := range m.Params {
		if problem := given.check(p); problem != nil {
			return given, problem
		}
	}
	return given, nil
}

func (a args) read(contentType string, body []byte) error {
	kind, options, err := mime.ParseMediaType(contentType)
	if err != nil {
		return fmt.Errorf("content type %q", contentType)
	}
	switch kind {
	case "application/json":
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			return errors.New("can't parse JSON")
		}
		for name, raw := range fields {
			a.values[name] = strings.Trim(string(raw), `"`)
			if raw[0] == '"' {
				var text string
				_ = json.Unmarshal(raw, &text)
				a.values[name] = text
			}
		}
		return nil
	case "multipart/form-data":
		return a.readMultipart(body, options["boundary"])
	case "application/x-www-form-urlencoded":
		fake := &http.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(string(body)))}
		if err := fake.ParseForm(); err != nil {
			return err
		}
		for name, values := range fake.PostForm {
			a.values[name] = values[0]
		}
		return nil
	}
	return fmt.Errorf("content type %q", kind)
}

// check holds one parameter against its row.
func (a args) check(p Param) *refusal {
	value, given := a.values[p.Name]
	if _, uploaded := a.files[p.Name]; uploaded {
		if p.Kind != File {
			return wrong("%s must not be a file", p.Name)
		}
		return nil
	}
	if !given {
		if p.Need == Required {
			return wrong("%s is empty", p.Name)
		}
		return nil
	}
	if !utf8.ValidString(value) {
		return wrong("strings must be encoded in UTF-8")
	}
	switch p.Kind {
	case Integer:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return wrong("%s is not a valid Integer", p.Name)
		}
		if p.Max > 0 && n > int64(p.Max) {
			return wrong("%s is over %d", p.Name, p.Max)
		}
	case ChatID:
		if _, err := strconv.ParseInt(value, 10, 64); err != nil && !strings.HasPrefix(value, "@") {
			return refuse(chatNotFound)
		}
	case Boolean:
		if value != "true" && value != "false" {
			return wrong("%s is neither true nor false", p.Name)
		}
	case JSON:
		if !json.Valid([]byte(value)) {
			return wrong("can't parse %s JSON object", p.Name)
		}
	}
	return nil
}
