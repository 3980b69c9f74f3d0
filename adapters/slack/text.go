package slack

import (
	"encoding/json"
	"strings"
)

// namer tells what people and channels are called; false when it is not known.
type namer interface {
	personNamed(id string) (string, bool)
	channelNamed(id string) (string, bool)
}

// unescape undoes the three characters that Slack escapes in texts. Once, and the ampersand last, so that what somebody
// typed as "&lt;" stays as typed.
var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

// readable turns the text of a message into what people see: entities decoded, mentions as @name, links as they read.
// Mentions of self are left out.
func readable(source string, self ref, names namer) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(source, '<')
		if open < 0 {
			break
		}
		end := strings.IndexByte(source[open:], '>')
		if end < 0 {
			break
		}
		before, token := source[:open], source[open+1:open+end]
		source = source[open+end+1:]
		b.WriteString(unescape.Replace(before))
		if token == "@"+string(self) || strings.HasPrefix(token, "@"+string(self)+"|") {
			// The space around the mention goes with it: "hey <@U1> you" is "hey you".
			if said := b.String(); said == "" || strings.HasSuffix(said, " ") || strings.HasSuffix(said, "\n") {
				source = strings.TrimLeft(source, " ")
			}
			continue
		}
		b.WriteString(readToken(token, names))
	}
	b.WriteString(unescape.Replace(source))
	return strings.TrimSpace(b.String())
}

// readToken reads what stands between angle brackets.
// https://docs.slack.dev/messaging/formatting-message-text#advanced
func readToken(token string, names namer) string {
	what, label, labelled := strings.Cut(token, "|")
	label = unescape.Replace(label)
	switch {
	case strings.HasPrefix(what, "@"):
		id := what[1:]
		if name, known := names.personNamed(id); known {
			return "@" + name
		}
		if labelled && label != "" {
			return "@" + strings.TrimPrefix(label, "@")
		}
		return "@" + id
	case strings.HasPrefix(what, "#"):
		id := what[1:]
		if labelled && label != "" {
			return "#" + label
		}
		if name, known := names.channelNamed(id); known {
			return "#" + name
		}
		return "#" + id
	case strings.HasPrefix(what, "!subteam^"):
		if labelled {
			return "@" + strings.TrimPrefix(label, "@")
		}
		return "@" + strings.TrimPrefix(what, "!subteam^")
	case strings.HasPrefix(what, "!date^"):
		return label
	case strings.HasPrefix(what, "!"):
		return "@" + what[1:] // here, channel, everyone
	}
	address := unescape.Replace(what)
	bare := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(address, "mailto:"), "tel:"), "https://")
	switch {
	case !labelled || label == "" || label == address:
		return address
	case label == bare || label == strings.TrimPrefix(bare, "http://"):
		return label // Slack made the link by itself out of what was typed
	}
	return label + " (" + address + ")"
}

// mentions tells whether a text mentions somebody.
func mentions(source string, who ref) bool {
	return who != "" && (strings.Contains(source, "<@"+string(who)+">") || strings.Contains(source, "<@"+string(who)+"|"))
}

// flatten gathers what a message shows beside its text, from blocks and attachments of whatever type, in order: other
// apps put all that they say there. A line of text and its copy in a block are one.
func flatten(m message, self ref, names namer) string {
	said := readable(m.Text, self, names)
	seen := map[string]bool{said: true, "": true}
	var lines []string
	if said != "" {
		lines = append(lines, said)
	}
	add := func(line string) {
		line = strings.TrimSpace(line)
		if !seen[line] && !strings.Contains(said, line) {
			seen[line] = true
			lines = append(lines, line)
		}
	}
	f := flattener{self: self, names: names, add: add}
	f.blocks(m.Blocks)
	f.attachments(m.Attachments)
	return strings.Join(lines, "\n")
}

type flattener struct {
	self  ref
	names namer
	add   func(line string)
}

// element is any block, text object or rich text element: they share these few names.
type element struct {
	Type     string            `json:"type"`
	Text     json.RawMessage   `json:"text"` // a string, or a text object
	Title    json.RawMessage   `json:"title"`
	Alt      string            `json:"alt_text"`
	URL      string            `json:"url"`
	User     string            `json:"user_id"`
	Channel  string            `json:"channel_id"`
	Name     string            `json:"name"`
	Range    string            `json:"range"`
	Fields   []json.RawMessage `json:"fields"`
	Elements []json.RawMessage `json:"elements"`
	Rows     [][]element       `json:"rows"`
}

func (f flattener) blocks(raw json.RawMessage) {
	var blocks []json.RawMessage
	_ = json.Unmarshal(raw, &blocks)
	for _, one := range blocks {
		f.block(one)
	}
}

func (f flattener) block(raw json.RawMessage) {
	var e element
	if json.Unmarshal(raw, &e) != nil {
		return
	}
	switch e.Type {
	case "rich_text", "rich_text_list":
		for _, child := range e.Elements {
			f.block(child)
		}
		return
	case "rich_text_section", "rich_text_quote", "rich_text_preformatted":
		f.add(f.inline(e.Elements))
		return
	case "table":
		for _, row := range e.Rows {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = f.cell(cell)
			}
			f.add(strings.Join(cells, " | "))
		}
		return
	case "markdown":
		f.add(plainText(e.Text))
		return
	case "actions":
		return // buttons are no text
	}
	f.add(f.textOf(e.Title))
	f.add(f.textOf(e.Text))
	for _, field := range e.Fields {
		f.add(f.textOf(field))
	}
	for _, child := range e.Elements {
		f.add(f.textOf(child))
	}
	f.add(e.Alt)
}

func (f flattener) cell(e element) string {
	if len(e.Elements) == 0 {
		return plainText(e.Text)
	}
	var b strings.Builder
	for _, raw := range e.Elements {
		var section element
		if json.Unmarshal(raw, &section) == nil {
			b.WriteString(f.inline(section.Elements))
		}
	}
	return b.String()
}

// inline joins the elements of a rich text section: their texts are not escaped.
func (f flattener) inline(elements []json.RawMessage) string {
	var b strings.Builder
	for _, raw := range elements {
		var e element
		if json.Unmarshal(raw, &e) != nil {
			continue
		}
		switch e.Type {
		case "user":
			if e.User != string(f.self) {
				b.WriteString(readToken("@"+e.User, f.names))
			}
		case "channel":
			b.WriteString(readToken("#"+e.Channel, f.names))
		case "broadcast":
			b.WriteString("@" + e.Range)
		case "emoji":
			b.WriteString(":" + e.Name + ":")
		case "link":
			if shown := plainText(e.Text); shown != "" && shown != e.URL {
				b.WriteString(shown + " (" + e.URL + ")")
			} else {
				b.WriteString(e.URL)
			}
		default:
			b.WriteString(plainText(e.Text))
		}
	}
	return b.String()
}

// textOf reads a text object (or a nested text, such as an image's title).
func (f flattener) textOf(raw json.RawMessage) string {
	var e element
	if json.Unmarshal(raw, &e) != nil {
		return ""
	}
	switch e.Type {
	case "mrkdwn":
		return readable(plainText(e.Text), f.self, f.names)
	case "plain_text":
		return plainText(e.Text)
	case "image":
		return e.Alt
	}
	return ""
}

func plainText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var e struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &e)
	return e.Text
}

func (f flattener) attachments(raw json.RawMessage) {
	var attachments []struct {
		Pretext  string `json:"pretext"`
		Title    string `json:"title"`
		Text     string `json:"text"`
		Fallback string `json:"fallback"`
		Fields   []struct {
			Title string `json:"title"`
			Value string `json:"value"`
		} `json:"fields"`
		Blocks json.RawMessage `json:"blocks"`
	}
	if json.Unmarshal(raw, &attachments) != nil {
		return
	}
	for _, a := range attachments {
		said := false
		for _, text := range []string{a.Pretext, a.Title, a.Text} {
			said = said || text != ""
			f.add(readable(text, f.self, f.names))
		}
		for _, field := range a.Fields {
			said = true
			f.add(readable(strings.TrimPrefix(field.Title+": "+field.Value, ": "), f.self, f.names))
		}
		f.blocks(a.Blocks)
		if !said && len(a.Blocks) == 0 {
			f.add(readable(a.Fallback, f.self, f.names))
		}
	}
}

// sharedOnly keeps the attachments that are messages which somebody passed on.
func sharedOnly(raw json.RawMessage) json.RawMessage {
	var all, shared []json.RawMessage
	_ = json.Unmarshal(raw, &all)
	for _, one := range all {
		var a struct {
			IsShare bool `json:"is_share"`
		}
		if json.Unmarshal(one, &a) == nil && a.IsShare {
			shared = append(shared, one)
		}
	}
	kept, _ := json.Marshal(shared) // what was decoded can be encoded
	return kept
}
