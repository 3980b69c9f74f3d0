package slacktest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	gmtext "github.com/yuin/goldmark/text"
)

// tables parses Markdown with tables.
var tables = goldmark.New(goldmark.WithExtensions(extension.Table))

// surface is where blocks are shown.
type surface int

const (
	inMessage surface = iota
	inHome
)

// object is a JSON object as it came.
type object = map[string]any

// blockTypes are the blocks that the table allows, and where. Fields other than these are refused.
var blockTypes = map[string]struct {
	fields   []string
	surfaces []surface
	check    func(*blockCheck, object) error
}{
	"section":         {[]string{"text", "fields", "accessory", "expand"}, []surface{inMessage, inHome}, (*blockCheck).section},
	"divider":         {nil, []surface{inMessage, inHome}, func(*blockCheck, object) error { return nil }},
	"header":          {[]string{"text", "level"}, []surface{inMessage, inHome}, (*blockCheck).header},
	"context":         {[]string{"elements"}, []surface{inMessage, inHome}, (*blockCheck).context},
	"actions":         {[]string{"elements"}, []surface{inMessage, inHome}, (*blockCheck).actions},
	"context_actions": {[]string{"elements"}, []surface{inMessage}, (*blockCheck).contextActions},
	"image":           {[]string{"image_url", "slack_file", "alt_text", "title"}, []surface{inMessage, inHome}, (*blockCheck).image},
	"markdown":        {[]string{"text"}, []surface{inMessage}, (*blockCheck).markdown},
	"rich_text":       {[]string{"elements"}, []surface{inMessage, inHome}, (*blockCheck).richText},
	"table":           {[]string{"rows", "column_settings"}, []surface{inMessage}, (*blockCheck).table},
}

// blockCheck is what is counted over all blocks of one message or view.
type blockCheck struct {
	ids           map[string]bool
	actionIDs     map[string]bool // of the present block
	markdownChars int
	tables        int
	tableChars    int
}

// checkBlocks refuses what Slack's reference of blocks does not allow.
func checkBlocks(raw json.RawMessage, where surface) *apiError {
	var list []object
	if err := json.Unmarshal(raw, &list); err != nil {
		return wrong("invalid_blocks_format", "blocks must be a list of objects: %v", err)
	}
	most := MaxMessageBlocks
	if where == inHome {
		most = MaxViewBlocks
	}
	if len(list) > most {
		return wrong("invalid_blocks", "no more than %d items allowed [json-pointer:/blocks], there are %d", most, len(list))
	}
	c := &blockCheck{ids: map[string]bool{}}
	for i, b := range list {
		if err := c.block(b, where); err != nil {
			return wrong("invalid_blocks", "%v [json-pointer:/blocks/%d]", err, i)
		}
	}
	if c.markdownChars > MaxMarkdownBlocks {
		return wrong("msg_blocks_too_long", "%d characters in markdown blocks, at most %d", c.markdownChars, MaxMarkdownBlocks)
	}
	if c.tables > MaxTables {
		return wrong("invalid_attachments", "only_one_table_allowed: %d tables", c.tables)
	}
	if c.tableChars > MaxTableText {
		return wrong("invalid_blocks", "%d characters in tables, at most %d", c.tableChars, MaxTableText)
	}
	return nil
}

func (c *blockCheck) block(b object, where surface) error {
	kind, _ := b["type"].(string)
	t, ok := blockTypes[kind]
	if !ok {
		return fmt.Errorf("unsupported block type %q", kind)
	}
	if !slices.Contains(t.surfaces, where) {
		return fmt.Errorf("no %s block here", kind)
	}
	if err := only(b, append([]string{"type", "block_id"}, t.fields...)...); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	if id, ok := b["block_id"].(string); ok && id != "" {
		if utf8.RuneCountInString(id) > MaxBlockID {
			return fmt.Errorf("block_id has more than %d characters", MaxBlockID)
		}
		if c.ids[id] {
			return fmt.Errorf("block_id %q twice", id)
		}
		c.ids[id] = true
	}
	c.actionIDs = map[string]bool{} // unique within their block
	if err := t.check(c, b); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

// only refuses fields that are not named.
func only(o object, fields ...string) error {
	for k := range o {
		if !slices.Contains(fields, k) {
			return fmt.Errorf("unknown field %q", k)
		}
	}
	return nil
}

func list(o object, field string, least, most int) ([]object, error) {
	values, ok := o[field].([]any)
	if !ok || len(values) < least || len(values) > most {
		return nil, fmt.Errorf("%s: %d to %d items, not %d", field, least, most, len(values))
	}
	out := make([]object, len(values))
	for i, v := range values {
		if out[i], ok = v.(object); !ok {
			return nil, fmt.Errorf("%s/%d is no object", field, i)
		}
	}
	return out, nil
}

func textOf(o object, field string, least, most int) error {
	s, ok := o[field].(string)
	if n := utf8.RuneCountInString(s); !ok || n < least || n > most {
		return fmt.Errorf("%s: %d to %d characters, not %d", field, least, most, n)
	}
	return nil
}

// textObject checks {"type": "plain_text"|"mrkdwn", "text": …}.
func textObject(v any, most int, kinds ...string) error {
	o, ok := v.(object)
	if !ok {
		return fmt.Errorf("a text object is missing")
	}
	kind, _ := o["type"].(string)
	if !slices.Contains(kinds, kind) {
		return fmt.Errorf("text of type %q, not %v", kind, kinds)
	}
	fields := []string{"type", "text", "emoji"}
	if kind == "mrkdwn" {
		fields = []string{"type", "text", "verbatim"}
	}
	if err := only(o, fields...); err != nil {
		return err
	}
	return textOf(o, "text", 1, most)
}

func (c *blockCheck) section(b object) error {
	_, hasText := b["text"]
	_, hasFields := b["fields"]
	if !hasText && !hasFields {
		return fmt.Errorf("neither text nor fields")
	}
	if hasText {
		if err := textObject(b["text"], MaxSectionText, "plain_text", "mrkdwn"); err != nil {
			return err
		}
	}
	if hasFields {
		fields, err := list(b, "fields", 1, MaxSectionFields)
		if err != nil {
			return err
		}
		for _, f := range fields {
			if err := textObject(f, MaxFieldText, "plain_text", "mrkdwn"); err != nil {
				return err
			}
		}
	}
	if a, ok := b["accessory"].(object); ok {
		if a["type"] == "image" {
			return c.image(without(a, "type"))
		}
		return c.element(a)
	}
	return nil
}

func (c *blockCheck) header(b object) error {
	return textObject(b["text"], MaxHeaderText, "plain_text")
}

func (c *blockCheck) context(b object) error {
	elements, err := list(b, "elements", 1, MaxContextItems)
	if err != nil {
		return err
	}
	for _, e := range elements {
		if e["type"] == "image" {
			err = c.image(without(e, "type"))
		} else {
			err = textObject(e, MaxSectionText, "plain_text", "mrkdwn")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *blockCheck) actions(b object) error {
	elements, err := list(b, "elements", 1, MaxActionItems)
	if err != nil {
		return err
	}
	for _, e := range elements {
		if err := c.element(e); err != nil {
			return err
		}
	}
	return nil
}

// element checks an interactive element. The table knows buttons only.
func (c *blockCheck) element(e object) error {
	if e["type"] != "button" {
		return fmt.Errorf("unsupported element type %v", e["type"])
	}
	if err := only(e, "type", "text", "action_id", "url", "value", "style", "confirm", "accessibility_label"); err != nil {
		return err
	}
	if err := textObject(e["text"], MaxButtonText, "plain_text"); err != nil {
		return err
	}
	if err := textOf(e, "action_id", 1, MaxActionID); err != nil {
		return err
	}
	id := e["action_id"].(string)
	if c.actionIDs[id] {
		return fmt.Errorf("action_id %q twice", id)
	}
	c.actionIDs[id] = true
	if _, ok := e["value"]; ok {
		if err := textOf(e, "value", 0, MaxButtonValue); err != nil {
			return err
		}
	}
	if _, ok := e["url"]; ok {
		if err := textOf(e, "url", 1, MaxURL); err != nil {
			return err
		}
	}
	if style, ok := e["style"]; ok && style != "primary" && style != "danger" {
		return fmt.Errorf("a button of style %v", style)
	}
	return nil
}

func (c *blockCheck) contextActions(b object) error {
	elements, err := list(b, "elements", 1, MaxContextAction)
	if err != nil {
		return err
	}
	for _, e := range elements {
		if e["type"] != "feedback_buttons" && e["type"] != "icon_button" {
			return fmt.Errorf("unsupported element type %v", e["type"])
		}
	}
	return nil
}

func (c *blockCheck) image(b object) error {
	if err := textOf(b, "alt_text", 1, MaxAltText); err != nil {
		return err
	}
	if t, ok := b["title"]; ok {
		if err := textObject(t, MaxImageTitle, "plain_text"); err != nil {
			return err
		}
	}
	if _, ok := b["slack_file"].(object); ok {
		return nil
	}
	if err := textOf(b, "image_url", 1, MaxURL); err != nil {
		return err
	}
	if u := b["image_url"].(string); !strings.HasPrefix(u, "https://") && !strings.HasPrefix(u, "http://") {
		return fmt.Errorf("image_url is no URL")
	}
	return nil
}

func (c *blockCheck) markdown(b object) error {
	text, ok := b["text"].(string)
	if !ok || text == "" {
		return fmt.Errorf("no text")
	}
	c.markdownChars += utf8.RuneCountInString(text)
	// Slack turns Markdown's tables into table blocks, and counts them like any (observed, not documented).
	root := tables.Parser().Parse(gmtext.NewReader([]byte(text)))
	return ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering && n.Kind() == extast.KindTable {
			c.tables++
		}
		return ast.WalkContinue, nil
	})
}

func (c *blockCheck) table(b object) error {
	c.tables++
	rows, ok := b["rows"].([]any)
	if !ok || len(rows) == 0 || len(rows) > MaxTableRows {
		return fmt.Errorf("1 to %d rows, not %d", MaxTableRows, len(rows))
	}
	width := -1
	for i, r := range rows {
		cells, ok := r.([]any)
		if !ok || len(cells) == 0 || len(cells) > MaxTableColumns {
			return fmt.Errorf("row %d: 1 to %d cells, not %d", i, MaxTableColumns, len(cells))
		}
		if width >= 0 && len(cells) != width {
			return fmt.Errorf("row %d has %d cells, the first has %d", i, len(cells), width)
		}
		width = len(cells)
		for _, v := range cells {
			if err := c.cell(v); err != nil {
				return fmt.Errorf("row %d: %w", i, err)
			}
		}
	}
	settings, _ := b["column_settings"].([]any)
	if len(settings) > MaxTableSettings {
		return fmt.Errorf("%d column settings, at most %d", len(settings), MaxTableSettings)
	}
	for _, v := range settings {
		if v == nil {
			continue // null skips a column
		}
		o, ok := v.(object)
		if !ok {
			return fmt.Errorf("a column setting is no object")
		}
		if err := only(o, "align", "is_wrapped"); err != nil {
			return err
		}
		if a, ok := o["align"]; ok && a != "left" && a != "center" && a != "right" {
			return fmt.Errorf("align %v", a)
		}
	}
	return nil
}

// cell checks a table's cell: raw_text or rich_text. A raw_text cell must hold something.
func (c *blockCheck) cell(v any) error {
	o, ok := v.(object)
	if !ok {
		return fmt.Errorf("a cell is no object")
	}
	switch o["type"] {
	case "raw_text":
		if err := only(o, "type", "text"); err != nil {
			return err
		}
		text, ok := o["text"].(string)
		if !ok || text == "" {
			return fmt.Errorf("a raw_text cell without text")
		}
		c.tableChars += utf8.RuneCountInString(text)
		return nil
	case "rich_text":
		before := plainRich(o)
		c.tableChars += utf8.RuneCountInString(before)
		return c.richText(o)
	}
	return fmt.Errorf("a cell of type %v", o["type"])
}

// richText checks sections, lists, quotes and preformatted parts, and what they hold.
func (c *blockCheck) richText(b object) error {
	elements, err := list(b, "elements", 1, 1000)
	if err != nil {
		return err
	}
	for _, e := range elements {
		switch e["type"] {
		case "rich_text_section", "rich_text_quote", "rich_text_preformatted":
			err = only(e, "type", "elements", "border", "language")
			if err == nil {
				err = inlines(e)
			}
		case "rich_text_list":
			err = richList(e)
		default:
			err = fmt.Errorf("rich text of type %v", e["type"])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func richList(e object) error {
	if err := only(e, "type", "elements", "style", "indent", "offset", "border"); err != nil {
		return err
	}
	if e["style"] != "bullet" && e["style"] != "ordered" {
		return fmt.Errorf("a list of style %v", e["style"])
	}
	items, err := list(e, "elements", 1, 1000)
	if err != nil {
		return err
	}
	for _, i := range items {
		if i["type"] != "rich_text_section" {
			return fmt.Errorf("a list item of type %v", i["type"])
		}
		if err := inlines(i); err != nil {
			return err
		}
	}
	return nil
}

func inlines(e object) error {
	items, err := list(e, "elements", 0, 10_000)
	if err != nil {
		return err
	}
	for _, i := range items {
		switch i["type"] {
		case "text":
			err = textOf(i, "text", 1, MaxPostText)
		case "link":
			err = textOf(i, "url", 1, MaxURL)
		case "emoji":
			err = textOf(i, "name", 1, 255)
		case "user":
			err = textOf(i, "user_id", 1, 255)
		case "channel":
			err = textOf(i, "channel_id", 1, 255)
		case "usergroup":
			err = textOf(i, "usergroup_id", 1, 255)
		case "broadcast", "color", "date":
		default:
			err = fmt.Errorf("an inline element of type %v", i["type"])
		}
		if err != nil {
			return err
		}
		if style, ok := i["style"].(object); ok {
			if err := only(style, "bold", "italic", "strike", "code", "underline", "highlight", "client_highlight", "unlink"); err != nil {
				return err
			}
		}
	}
	return nil
}

func without(o object, field string) object {
	out := object{}
	for k, v := range o {
		if k != field {
			out[k] = v
		}
	}
	return out
}
