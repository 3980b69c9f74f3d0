package slacktest

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// args are a call's arguments by name: strings, bools, ints, string lists, and raw JSON for structures.
type args map[string]any

func (a args) text(name string) string { v, _ := a[name].(string); return v }
func (a args) flag(name string) bool   { v, _ := a[name].(bool); return v }
func (a args) words(name string) []string {
	v, _ := a[name].([]string)
	return v
}
func (a args) raw(name string) json.RawMessage { v, _ := a[name].(json.RawMessage); return v }
func (a args) has(name string) bool            { _, ok := a[name]; return ok }
func (a args) number(name string, otherwise int) int {
	if v, ok := a[name].(int); ok {
		return v
	}
	return otherwise
}

const maxBody = 4 << 20

// readArgs reads and checks a call's arguments against the method's row.
func readArgs(r *http.Request, m Method) (args, *apiError) {
	given, e := readBody(r, m)
	if e != nil {
		return args{}, e
	}
	out := args{}
	if t, ok := given["token"].(string); ok {
		out["token"] = t
		delete(given, "token")
	}
	for name, v := range given {
		p, ok := m.Param(name)
		if !ok {
			return out, wrong("invalid_arguments", "unknown argument: %s", name)
		}
		value, e := p.read(v)
		if e != nil {
			return out, e
		}
		if value != nil {
			out[name] = value
		}
	}
	for _, p := range m.Params {
		if p.Required && !out.has(p.Name) {
			if p.Kind == Conversation {
				return out, wrong("channel_not_found", "missing required field: %s", p.Name)
			}
			return out, wrong("invalid_arguments", "missing required field: %s", p.Name)
		}
	}
	return out, nil
}

// readBody returns the arguments as they came: strings from a form, JSON values from a JSON body.
func readBody(r *http.Request, m Method) (map[string]any, *apiError) {
	given := map[string]any{}
	for k, v := range r.URL.Query() {
		given[k] = v[0]
	}
	if r.Method == http.MethodGet || r.Body == nil {
		return given, nil
	}
	r.Body = http.MaxBytesReader(nil, r.Body, maxBody)
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && r.ContentLength != 0 {
		return given, wrong("missing_post_type", "no Content-Type")
	}
	switch kind {
	case "application/json":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return given, wrong("invalid_json", "%v", err)
		}
		if m.Encodings&JSON == 0 {
			return given, wrong("invalid_arguments", "%s does not read a JSON body", m.Name)
		}
		if len(body) == 0 {
			return given, nil
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil {
			return given, wrong("json_not_object", "%v", err)
		}
		for k, v := range object {
			if k == "token" {
				return given, wrong("not_authed", "a token in a JSON body is not seen")
			}
			given[k] = v
		}
	case "application/x-www-form-urlencoded":
		if err := r.ParseForm(); err != nil {
			return given, wrong("invalid_form_data", "%v", err)
		}
		for k, v := range r.PostForm {
			given[k] = v[0]
		}
	case "multipart/form-data":
		if err := r.ParseMultipartForm(maxBody); err != nil {
			return given, wrong("invalid_form_data", "%v", err)
		}
		for k, v := range r.MultipartForm.Value {
			given[k] = v[0]
		}
	case "":
	default:
		return given, wrong("invalid_post_type", "%s", kind)
	}
	return given, nil
}

var (
	conversationID = regexp.MustCompile(`^[CDG][A-Z0-9]{8,}$`)
	personID       = regexp.MustCompile(`^[UW][A-Z0-9]{8,}$`)
	messageTS      = regexp.MustCompile(`^\d{10}\.\d{6}$`)
	moment         = regexp.MustCompile(`^(0|\d{1,10}(\.\d{1,6})?)$`)
)

// read checks one argument and gives it its type. An empty text counts as absent where Slack sees it so.
func (p Param) read(v any) (any, *apiError) {
	s, isString := v.(string)
	if raw, ok := v.(json.RawMessage); ok {
		if string(raw) == "null" {
			return nil, nil
		}
		if json.Unmarshal(raw, &s) == nil {
			isString = true
		} else {
			isString = false
		}
	}
	switch p.Kind {
	case Text, Timestamp, Moment, Conversation, Person:
		if !isString {
			return nil, wrong("invalid_arguments", "%s must be a string", p.Name)
		}
		return p.readText(s)
	case Bool:
		if raw, ok := v.(json.RawMessage); ok {
			s = string(raw)
		}
		switch strings.Trim(s, `"`) {
		case "true", "1":
			return true, nil
		case "false", "0", "":
			return false, nil
		}
		return nil, wrong("invalid_arguments", "%s must be a boolean", p.Name)
	case Int:
		if raw, ok := v.(json.RawMessage); ok {
			s = string(raw)
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return nil, wrong("invalid_arguments", "%s must be a number", p.Name)
		}
		if p.Max > 0 && n > p.Max {
			return nil, wrong(p.TooLong, "%s is %d, at most %d", p.Name, n, p.Max)
		}
		return n, nil
	case Words:
		return p.readWords(v, s, isString)
	}
	// A structure: JSON, or a string that holds JSON.
	raw, _ := v.(json.RawMessage)
	if isString {
		if s == "" {
			return nil, nil
		}
		raw = json.RawMessage(s)
	}
	return p.readStructure(raw)
}

func (p Param) readText(s string) (any, *apiError) {
	if !utf8.ValidString(s) {
		return nil, wrong("invalid_charset", "%s is not UTF-8", p.Name)
	}
	if s == "" {
		if p.Required && p.Kind == Text && p.Name == "status" {
			return s, nil // an empty status clears the status
		}
		return nil, nil
	}
	bad := func(code string) *apiError { return wrong(code, "%s: %q has not the form of one", p.Name, s) }
	switch p.Kind {
	case Conversation:
		if !conversationID.MatchString(s) {
			return nil, bad("channel_not_found")
		}
	case Person:
		if !personID.MatchString(s) {
			return nil, bad("user_not_found")
		}
	case Timestamp:
		if !messageTS.MatchString(s) {
			return nil, bad("invalid_arguments")
		}
	case Moment:
		if !moment.MatchString(s) {
			return nil, bad("invalid_ts_" + p.Name)
		}
	case Text:
		if p.Max > 0 && utf8.RuneCountInString(s) > p.Max {
			return nil, wrong(p.TooLong, "%s has %d characters, at most %d", p.Name, utf8.RuneCountInString(s), p.Max)
		}
		if len(p.OneOf) > 0 && !containsString(p.OneOf, s) {
			return nil, wrong("invalid_arguments", "%s must be one of %v", p.Name, p.OneOf)
		}
	}
	return s, nil
}

func (p Param) readWords(v any, s string, isString bool) (any, *apiError) {
	var list []string
	switch {
	case !isString:
		raw, _ := v.(json.RawMessage)
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, wrong("invalid_arguments", "%s must be a list of strings", p.Name)
		}
	case strings.HasPrefix(s, "["):
		if err := json.Unmarshal([]byte(s), &list); err != nil {
			return nil, wrong("invalid_arguments", "%s must be a list of strings", p.Name)
		}
	case s == "":
		return nil, nil
	default:
		for w := range strings.SplitSeq(s, ",") {
			list = append(list, strings.TrimSpace(w))
		}
	}
	if p.Max > 0 && len(list) > p.Max {
		return nil, wrong(p.TooLong, "%s has %d items, at most %d", p.Name, len(list), p.Max)
	}
	return list, nil
}

func (p Param) readStructure(raw json.RawMessage) (any, *apiError) {
	var shape any
	if err := json.Unmarshal(raw, &shape); err != nil {
		code := map[ParamKind]string{Blocks: "invalid_blocks_format", Chunks: "invalid_chunks", Metadata: "invalid_metadata_format", Attachments: "invalid_attachments"}[p.Kind]
		if code == "" {
			code = "invalid_arguments"
		}
		return nil, wrong(code, "%s is not JSON: %v", p.Name, err)
	}
	switch p.Kind {
	case Metadata:
		if e := checkMetadata(raw); e != nil {
			return nil, e
		}
	case Attachments:
		list, ok := shape.([]any)
		if !ok {
			return nil, wrong("invalid_attachments", "attachments must be a list")
		}
		if len(list) > MaxAttachments {
			return nil, wrong("too_many_attachments", "%d attachments, at most %d", len(list), MaxAttachments)
		}
		for _, v := range list {
			a, ok := v.(object)
			if !ok {
				return nil, wrong("invalid_attachments", "an attachment is no object")
			}
			if b, ok := a["blocks"]; ok {
				if e := checkBlocks(copyJSON(b), inMessage); e != nil {
					return nil, e
				}
			}
		}
	case Files, Prompts:
		list, ok := shape.([]any)
		if !ok || len(list) == 0 {
			return nil, wrong("invalid_arguments", "%s must be a list with at least one item", p.Name)
		}
		if p.Max > 0 && len(list) > p.Max {
			return nil, wrong(p.TooLong, "%s has %d items, at most %d", p.Name, len(list), p.Max)
		}
	}
	// Blocks, chunks and views are checked where they are used: the page that they are for decides what is allowed.
	return raw, nil
}

// checkMetadata wants {"event_type": "…", "event_payload": {…}} of a bounded size.
func checkMetadata(raw json.RawMessage) *apiError {
	if string(raw) == "{}" {
		return nil // removes what was there
	}
	var m struct {
		EventType    string                     `json:"event_type"`
		EventPayload map[string]json.RawMessage `json:"event_payload"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return wrong("invalid_metadata_format", "%v", err)
	}
	if m.EventType == "" || m.EventPayload == nil {
		return wrong("invalid_metadata_schema", "metadata needs event_type and event_payload")
	}
	if len(raw) > MaxMetadata {
		return wrong("metadata_too_large", "metadata has %d bytes, at most %d", len(raw), MaxMetadata)
	}
	return nil
}

func containsString(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
