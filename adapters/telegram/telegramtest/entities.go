package telegramtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// entity is a MessageEntity. Offset and Length count UTF-16 units.
type entity struct {
	Type     string         `json:"type"`
	Offset   int            `json:"offset"`
	Length   int            `json:"length"`
	URL      string         `json:"url,omitempty"`
	Language string         `json:"language,omitempty"`
	User     map[string]any `json:"user,omitempty"`
}

func (e entity) end() int { return e.Offset + e.Length }

// What may stand in what (https://core.telegram.org/bots/api#messageentity): the splittable ones anywhere but in code,
// code in nothing but a quote, the others not in each other, quotes not in quotes.
var (
	splittable = []string{"bold", "italic", "underline", "strikethrough", "spoiler"}
	quotes     = []string{"blockquote", "expandable_blockquote"}
	code       = []string{"code", "pre"}
	links      = []string{"text_link", "text_mention"}
)

// formatted is a text as Telegram keeps it.
type formatted struct {
	text     string
	entities []entity
}

// format checks a text and its entities as Telegram does, and returns what is left of them: without control characters
// and the space around it, and with entities for what Telegram recognises by itself. long is the refusal of a text that
// is too long, method the one to blame for what Telegram would only mend.
func (s *Server) format(method, text, rawEntities, long string) (formatted, *refusal) {
	if text == "" {
		return formatted{}, &refusal{code: 400, description: emptyText, blame: ClientsFault}
	}
	if len(text) > 1<<15 {
		return formatted{}, wrong("text is too long")
	}
	entities, problem := parseEntities(rawEntities)
	if problem != nil {
		return formatted{}, problem
	}
	units := utf16.Encode([]rune(text))
	for _, e := range entities {
		if problem := inside(units, e); problem != nil {
			return formatted{}, problem
		}
	}
	entities = slices.DeleteFunc(entities, func(e entity) bool { return e.Length == 0 })
	if what := misnested(entities); what != "" {
		s.violateLocked(method, "Telegram would mend its entities: "+what)
		entities = nil
	}
	if len(entities) > MaxEntities {
		s.violateLocked(method, fmt.Sprintf("%d entities, of which Telegram keeps %d", len(entities), MaxEntities))
		entities = entities[:MaxEntities]
	}
	f := trim(clean(units), entities)
	if f.text == "" {
		return formatted{}, &refusal{code: 400, description: blankText, blame: ClientsFault}
	}
	if len(utf16.Encode([]rune(f.text))) > MaxText {
		return formatted{}, &refusal{code: 400, description: long, blame: ClientsFault}
	}
	f.entities = append(f.entities, recognise(f.text, f.entities)...)
	slices.SortStableFunc(f.entities, func(a, b entity) int {
		if a.Offset != b.Offset {
			return a.Offset - b.Offset
		}
		return b.Length - a.Length
	})
	return f, nil
}

// Refusal tells why Telegram would refuse or mend a text with its entities, without a server; nothing when it would not.
func Refusal(text, entities string) string {
	s := New(Options{})
	_, problem := s.format("sendMessage", text, entities, tooLong)
	switch {
	case problem != nil:
		return problem.description
	case len(s.violations) > 0:
		return s.violations[0].What
	}
	return ""
}

func parseEntities(raw string) ([]entity, *refusal) {
	if raw == "" {
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(raw), &items); err != nil {
		return nil, nil // Telegram takes anything but an array for none
	}
	var entities []entity
	for _, item := range items {
		var fields map[string]json.RawMessage
		if json.Unmarshal(item, &fields) != nil {
			return nil, wrong("can't parse MessageEntity: expected an Object")
		}
		for _, name := range []string{"offset", "length"} {
			if _, err := strconv.Atoi(string(fields[name])); err != nil {
				return nil, wrong(`can't parse MessageEntity: Field %q must be of type Number`, name)
			}
		}
		var e entity
		if json.Unmarshal(item, &e) != nil || e.Type == "" {
			return nil, wrong("can't parse MessageEntity: Type is not specified")
		}
		switch {
		case slices.Contains(splittable, e.Type), slices.Contains(quotes, e.Type), slices.Contains(code, e.Type):
		case e.Type == "text_link":
			if what := checkLink(e.URL); what != "" {
				return nil, wrong("entity URL '%s' is invalid: %s", e.URL, what)
			}
		case e.Type == "text_mention":
			if e.User["id"] == nil {
				return nil, wrong(`can't parse MessageEntity: can't find field "user"`)
			}
		default:
			continue // Telegram passes over types that only it makes
		}
		entities = append(entities, e)
	}
	slices.SortStableFunc(entities, func(a, b entity) int {
		if a.Offset != b.Offset {
			return a.Offset - b.Offset
		}
		return b.Length - a.Length
	})
	return entities, nil
}

// inside tells whether an entity begins and ends within the text, and in no surrogate pair.
func inside(units []uint16, e entity) *refusal {
	switch {
	case e.Offset < 0 || e.Offset > 1_000_000:
		return wrong("receive an entity with incorrect offset %d", e.Offset)
	case e.Length < 0 || e.Length > 1_000_000:
		return wrong("receive an entity with incorrect length %d", e.Length)
	case e.Offset >= len(units) && e.Length > 0:
		return wrong("entity begins after the end of the text at UTF-16 offset %d", e.Offset)
	case e.end() > len(units):
		return wrong("entity beginning at UTF-16 offset %d ends after the end of the text at UTF-16 offset %d", e.Offset, e.end())
	case middle(units, e.Offset):
		return wrong("entity begins in a middle of a UTF-16 symbol at UTF-16 offset %d", e.Offset)
	case middle(units, e.end()):
		return wrong("entity beginning at UTF-16 offset %d ends in a middle of a UTF-16 symbol", e.Offset)
	}
	return nil
}

func middle(units []uint16, at int) bool {
	return at > 0 && at < len(units) && units[at] >= 0xdc00 && units[at] <= 0xdfff && units[at-1] >= 0xd800 && units[at-1] <= 0xdbff
}

// misnested tells what is wrong with the nesting of sorted entities; nothing when it is right.
func misnested(entities []entity) string {
	var open []entity
	for _, e := range entities {
		for len(open) > 0 && e.Offset >= open[len(open)-1].end() {
			open = open[:len(open)-1]
		}
		for _, outer := range open {
			switch {
			case e.end() > outer.end():
				return fmt.Sprintf("%s at %d crosses the end of %s", e.Type, e.Offset, outer.Type)
			case outer.Type == e.Type:
				return fmt.Sprintf("%s at %d stands within another", e.Type, e.Offset)
			case slices.Contains(code, outer.Type):
				return fmt.Sprintf("%s at %d stands within %s", e.Type, e.Offset, outer.Type)
			case slices.Contains(code, e.Type) && !slices.Contains(quotes, outer.Type):
				return fmt.Sprintf("%s at %d stands within %s", e.Type, e.Offset, outer.Type)
			case slices.Contains(links, outer.Type) && !slices.Contains(splittable, e.Type):
				return fmt.Sprintf("%s at %d stands within %s", e.Type, e.Offset, outer.Type)
			case slices.Contains(quotes, outer.Type) && slices.Contains(quotes, e.Type):
				return fmt.Sprintf("%s at %d stands within %s", e.Type, e.Offset, outer.Type)
			}
		}
		open = append(open, e)
	}
	return ""
}

// clean makes control characters spaces. Telegram takes carriage returns out; here they are spaces, too, and no client
// should send them.
func clean(units []uint16) []uint16 {
	cleaned := slices.Clone(units)
	for i, u := range cleaned {
		if u < ' ' && u != '\n' {
			cleaned[i] = ' '
		}
	}
	return cleaned
}

// trim takes the space around a text away, at its beginning only what stands before the first entity.
func trim(units []uint16, entities []entity) formatted {
	blank := func(u uint16) bool { return u == ' ' || u == '\n' }
	last := len(units)
	for last > 0 && blank(units[last-1]) {
		last--
	}
	first := 0
	bound := last
	if len(entities) > 0 {
		bound = min(bound, entities[0].Offset)
	}
	for first < bound && blank(units[first]) {
		first++
	}
	var kept []entity
	for _, e := range entities {
		end := min(e.end(), last)
		e.Offset -= first
		e.Length = end - first - e.Offset
		if e.Length > 0 {
			kept = append(kept, e)
		}
	}
	return formatted{string(utf16.Decode(units[first:last])), kept}
}

var recognised = []struct {
	kind    string
	pattern *regexp.Regexp
}{
	{"bot_command", regexp.MustCompile(`(?:^|[^\w/@])(/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?)`)},
	{"mention", regexp.MustCompile(`(?:^|[^\w@/])(@[A-Za-z0-9_]{3,32})`)},
	{"url", regexp.MustCompile(`(?:^|\s)(https?://[^\s<>"]+)`)},
}

// recognise finds what Telegram makes entities of by itself, outside of code.
func recognise(text string, given []entity) []entity {
	var found []entity
	for _, r := range recognised {
		for _, at := range r.pattern.FindAllStringSubmatchIndex(text, -1) {
			e := entity{Type: r.kind, Offset: Units(text[:at[2]]), Length: Units(text[at[2]:at[3]])}
			if !slices.ContainsFunc(given, func(g entity) bool {
				return !slices.Contains(splittable, g.Type) && !slices.Contains(quotes, g.Type) && g.Offset < e.end() && e.Offset < g.end()
			}) {
				found = append(found, e)
			}
		}
	}
	return found
}

// Units counts the UTF-16 units of a text.
func Units(text string) int { return len(utf16.Encode([]rune(text))) }

// checkLink tells why Telegram refuses an address of a text_link; nothing when it takes it.
func checkLink(link string) string {
	lower := strings.ToLower(link)
	app := strings.HasPrefix(lower, "tg:") || strings.HasPrefix(lower, "ton:")
	if app {
		_, link, _ = strings.Cut(link, ":")
		link = strings.TrimPrefix(link, "//")
	}
	if scheme, rest, ok := strings.Cut(link, "://"); ok && !strings.ContainsAny(scheme, "/?#@[]:") {
		if !equalFold(scheme, "http") && !equalFold(scheme, "https") {
			return "Unsupported URL protocol"
		}
		link = rest
	}
	host := link
	if i := strings.IndexAny(host, "/?#"); i >= 0 {
		host = host[:i]
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	if name, port, ok := strings.Cut(host, ":"); ok && !strings.HasPrefix(host, "[") {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "Wrong port number specified in the URL"
		}
		host = name
	}
	switch {
	case host == "":
		return "URL host is empty"
	case strings.HasPrefix(host, "["):
		return ""
	case host == ".":
		return "Host is invalid"
	case hostCharacters.MatchString(host):
		return "Disallowed character in URL host"
	case !app && !strings.Contains(host, "."):
		return "Wrong HTTP URL"
	}
	return ""
}

var hostCharacters = regexp.MustCompile(`[\x00-\x20"#/<>?@\[\\\]^{|}` + "`" + `]`)
