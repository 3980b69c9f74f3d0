package slacktest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// plainBlocks is what a person reads in blocks, without formatting: one block a paragraph, cells parted by " | ".
// Markdown stays as it was written, since Slack renders it.
func plainBlocks(raw json.RawMessage) string {
	var blocks []object
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	var parts []string
	for _, b := range blocks {
		if t := plainBlock(b); t != "" {
			parts = append(parts, t)
		}
	}
	return strings.Join(parts, "\n\n")
}

func plainBlock(b object) string {
	switch b["type"] {
	case "markdown":
		t, _ := b["text"].(string)
		return t
	case "section":
		parts := []string{plainText(b["text"])}
		fields, _ := b["fields"].([]any)
		for _, f := range fields {
			parts = append(parts, plainText(f))
		}
		if a, ok := b["accessory"].(object); ok && a["type"] == "button" {
			parts = append(parts, "["+plainText(a["text"])+"]")
		}
		return joined(parts, "\n")
	case "header":
		return plainText(b["text"])
	case "context", "actions":
		var parts []string
		elements, _ := b["elements"].([]any)
		for _, v := range elements {
			e, _ := v.(object)
			if e["type"] == "button" {
				parts = append(parts, "["+plainText(e["text"])+"]")
			} else {
				parts = append(parts, plainText(v))
			}
		}
		return joined(parts, " ")
	case "image":
		alt, _ := b["alt_text"].(string)
		return alt
	case "rich_text":
		return plainRich(b)
	case "table":
		var lines []string
		rows, _ := b["rows"].([]any)
		for _, r := range rows {
			var cells []string
			list, _ := r.([]any)
			for _, v := range list {
				cells = append(cells, plainCell(v))
			}
			lines = append(lines, strings.Join(cells, " | "))
		}
		return strings.Join(lines, "\n")
	case "task_card":
		return fmt.Sprintf("(%v) %v", b["status"], b["title"])
	case "divider":
		return "---"
	}
	return ""
}

func plainCell(v any) string {
	o, _ := v.(object)
	if o["type"] == "raw_text" {
		t, _ := o["text"].(string)
		return t
	}
	return plainRich(o)
}

func plainText(v any) string {
	o, _ := v.(object)
	t, _ := o["text"].(string)
	return t
}

func plainRich(b object) string {
	var lines []string
	elements, _ := b["elements"].([]any)
	for _, v := range elements {
		e, _ := v.(object)
		if e["type"] == "rich_text_list" {
			items, _ := e["elements"].([]any)
			for _, i := range items {
				o, _ := i.(object)
				lines = append(lines, "• "+plainInlines(o))
			}
			continue
		}
		lines = append(lines, plainInlines(e))
	}
	return strings.Join(lines, "\n")
}

func plainInlines(e object) string {
	var b strings.Builder
	items, _ := e["elements"].([]any)
	for _, v := range items {
		i, _ := v.(object)
		switch i["type"] {
		case "text":
			fmt.Fprint(&b, i["text"])
		case "link":
			if t, ok := i["text"].(string); ok && t != "" {
				b.WriteString(t)
			} else {
				fmt.Fprint(&b, i["url"])
			}
		case "emoji":
			fmt.Fprintf(&b, ":%v:", i["name"])
		case "user":
			fmt.Fprintf(&b, "<@%v>", i["user_id"])
		case "channel":
			fmt.Fprintf(&b, "<#%v>", i["channel_id"])
		case "usergroup":
			fmt.Fprintf(&b, "<!subteam^%v>", i["usergroup_id"])
		case "broadcast":
			fmt.Fprintf(&b, "<!%v>", i["range"])
		}
	}
	return b.String()
}

func joined(parts []string, by string) string {
	var full []string
	for _, p := range parts {
		if p != "" {
			full = append(full, p)
		}
	}
	return strings.Join(full, by)
}
