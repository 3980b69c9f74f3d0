package discord

import "strings"

// spoken is what people read of a message: names in place of ids, without mikan's own mention. What bots show in embeds
// is part of it.
func spoken(m message, self string, facts guildFacts, known *places) string {
	text := named(m.content(), m, self, facts, known)
	var more []string
	if m.Author != nil && (m.Author.Bot || m.WebhookID != "") {
		for _, e := range m.Embeds {
			more = append(more, e.Title, e.Description)
			for _, f := range e.Fields {
				more = append(more, strings.TrimSpace(f.Name+": "+f.Value))
			}
		}
	}
	for _, s := range m.Snapshots {
		more = append(more, s.Message.Content)
	}
	for _, s := range m.Stickers {
		more = append(more, "[sticker: "+s.Name+"]")
	}
	for _, part := range more {
		if part = strings.TrimSpace(part); part != "" {
			text += "\n" + part
		}
	}
	return strings.TrimSpace(text)
}

// named replaces the mentions in a text: https://discord.com/developers/docs/reference#message-formatting.
func named(text string, m message, self string, facts guildFacts, known *places) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "<")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		inner, rest, closed := strings.Cut(after, ">")
		name, is := "", false
		if closed {
			name, is = mentionName(inner, m, self, facts, known)
		}
		if !is {
			out.WriteString("<")
			text = after
			continue
		}
		out.WriteString(name)
		text = rest
		if name == "" { // mikan's own mention goes with one of the spaces around it
			text = strings.TrimPrefix(text, " ")
		}
	}
}

func mentionName(inner string, m message, self string, facts guildFacts, known *places) (string, bool) {
	switch {
	case strings.HasPrefix(inner, "@&"):
		id := inner[2:]
		if id == facts.ownRole {
			return "", true
		}
		name, ok := facts.roles[id]
		return "@" + name, ok
	case strings.HasPrefix(inner, "@"):
		id := strings.TrimPrefix(inner[1:], "!")
		if id == self {
			return "", true
		}
		for _, u := range m.Mentions {
			if u.ID == id {
				return "@" + u.Username, true
			}
		}
	case strings.HasPrefix(inner, "#"):
		if p, ok := known.known(inner[1:]); ok && p.Name != "" {
			return "#" + p.Name, true
		}
	}
	return "", false
}
