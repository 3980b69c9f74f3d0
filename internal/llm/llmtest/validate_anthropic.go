package llmtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Thinking as the models take it: which types, and whether earlier thinking is tied to the conversation.
var (
	alwaysThinks = regexp.MustCompile(`^claude-(opus-5-5|fable-|mythos-)`)
	betweenTools = regexp.MustCompile(`^claude-sonnet-5-5`)
	budgetOnly   = regexp.MustCompile(`^claude-(3-7|(opus|sonnet|haiku)-4(-[015])?(-\d{8})?$)`)
)

func validateAnthropic(o object) *Violation {
	if v := unknownFields(o, "", "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "thinking",
		"output_config", "metadata", "stop_sequences", "cache_control"); v != nil {
		return v
	}
	maxTokens, ok := integer(o["max_tokens"])
	if !ok || maxTokens < 1 {
		return invalid("max_tokens: Field required")
	}
	if v := validateAnthropicThinking(o, maxTokens); v != nil {
		return v
	}
	if s, ok := o["system"]; ok && strings.TrimSpace(contentText(s)) == "" {
		return invalid("system: text content blocks must be non-empty")
	}
	if v := validateAnthropicTools(o); v != nil {
		return v
	}
	c := &anthropicChecker{thinks: o["thinking"] != nil && toObject(o["thinking"]).text("type") != "disabled"}
	for i, m := range o.list("messages") {
		if v := c.message(i, toObject(m)); v != nil {
			return v
		}
	}
	switch {
	case len(o.list("messages")) == 0:
		return invalid("messages: at least one message is required")
	case len(c.open) > 0:
		return c.unanswered(len(o.list("messages")) - 1)
	case c.lastRole == "assistant":
		return invalid("This model does not support assistant message prefill. The conversation must end with a user message.")
	case c.tools && len(o.list("tools")) == 0:
		return invalid("Requests which include `tool_use` or `tool_result` blocks must define tools")
	}
	if n := countKey(map[string]any(o), "cache_control"); n > 4 {
		return invalid("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	return nil
}

func validateAnthropicThinking(o object, maxTokens int64) *Violation {
	model := o.text("model")
	thinking := toObject(o["thinking"])
	kind := thinking.text("type")
	unsupported := func(kind string) *Violation {
		return invalid("\"thinking.type.%s\" is not supported for this model. Use \"thinking.type.adaptive\" and "+
			"\"output_config.effort\" to control thinking behavior.", kind)
	}
	switch kind {
	case "":
	case "enabled":
		if !budgetOnly.MatchString(model) {
			return unsupported(kind)
		}
		budget, _ := integer(thinking["budget_tokens"])
		if budget < 1024 {
			return invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
		}
		if budget >= maxTokens {
			return invalid("`max_tokens` must be greater than `thinking.budget_tokens`")
		}
	case "adaptive":
		if budgetOnly.MatchString(model) {
			return invalid("adaptive thinking is not supported on this model")
		}
	case "disabled":
		if alwaysThinks.MatchString(model) || betweenTools.MatchString(model) {
			return unsupported(kind)
		}
	case "between_tools":
		if !betweenTools.MatchString(model) {
			return unsupported(kind)
		}
	default:
		return invalid("thinking: Input tag %q found using 'type' does not match any of the expected tags", kind)
	}
	if f := toObject(toObject(o["output_config"])["format"]); f != nil {
		if f.text("type") != "json_schema" {
			return invalid("output_config.format.type: Input should be 'json_schema'")
		}
		if v := closedSchema("output_config.format.schema", toObject(f["schema"])); v != nil {
			return v
		}
	}
	if e, ok := toObject(o["output_config"])["effort"]; ok {
		if budgetOnly.MatchString(model) {
			return invalid("This model does not support the effort parameter.")
		}
		if !slices.Contains([]any{"low", "medium", "high", "xhigh", "max"}, e) {
			return invalid("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
		}
	}
	return nil
}

func validateAnthropicTools(o object) *Violation {
	names := make(map[string]bool)
	for i, t := range o.list("tools") {
		tool := toObject(t)
		if v := unknownFields(tool, fmt.Sprintf("tools.%d.", i), "name", "description", "input_schema", "cache_control", "type"); v != nil {
			return v
		}
		switch name := tool.text("name"); {
		case !anthropicName.MatchString(name):
			return invalid("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		case names[name]:
			return invalid("tools: Tool names must be unique.")
		case toolSchemaProblem(tool["input_schema"]):
			return invalid("tools.%d.custom.input_schema.type: Field required", i)
		default:
			names[name] = true
		}
	}
	if kind := toObject(o["tool_choice"]).text("type"); kind == "any" || kind == "tool" {
		return invalid("tool_choice: forced tool use is not supported for this model")
	}
	return nil
}

type anthropicChecker struct {
	lastRole string
	thinks   bool
	tools    bool     // some block is a tool's
	open     []string // tool_use ids of the last assistant message, unanswered
	ids      map[string]bool
}

func (c *anthropicChecker) unanswered(i int) *Violation {
	return invalid("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` "+
		"block must have a corresponding `tool_result` block in the next message.", i, strings.Join(c.open, ", "))
}

func (c *anthropicChecker) message(i int, m object) *Violation {
	role := m.text("role")
	switch {
	case role != "user" && role != "assistant":
		return invalid("messages.%d.role: Input should be 'user' or 'assistant'", i)
	case i == 0 && role != "user":
		return invalid("messages: first message must use the \"user\" role")
	case role == c.lastRole:
		return invalid("messages: roles must alternate between \"user\" and \"assistant\", but found multiple %q roles in a row", role)
	}
	c.lastRole = role
	if s, ok := m["content"].(string); ok {
		if strings.TrimSpace(s) == "" {
			return invalid("messages.%d: all messages must have non-empty content", i)
		}
		if len(c.open) > 0 {
			return c.unanswered(i - 1)
		}
		return nil
	}
	blocks := m.list("content")
	if len(blocks) == 0 {
		return invalid("messages.%d: all messages must have non-empty content", i)
	}
	open := c.open
	c.open = nil
	afterOther := false
	for k, b := range blocks {
		block := toObject(b)
		where := fmt.Sprintf("messages.%d.content.%d", i, k)
		kind := block.text("type")
		if kind == "tool_result" {
			at := slices.Index(open, block.text("tool_use_id"))
			if at < 0 || role != "user" {
				return invalid("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must "+
					"have a corresponding `tool_use` block in the previous message.", where, block.text("tool_use_id"))
			}
			if afterOther {
				return invalid("%s: tool_result blocks must come first", where)
			}
			open = slices.Delete(slices.Clone(open), at, at+1)
			c.tools = true
			if v := anthropicResult(where, block); v != nil {
				return v
			}
			continue
		}
		afterOther = true
		if v := c.block(where, role, block); v != nil {
			return v
		}
	}
	if len(open) > 0 {
		answered := c.open
		c.open = open
		v := c.unanswered(i - 1)
		c.open = answered
		return v
	}
	if last := toObject(blocks[len(blocks)-1]).text("type"); role == "assistant" && (last == "thinking" || last == "redacted_thinking") {
		return invalid("messages.%d: The final block in an assistant message cannot be `thinking`.", i)
	}
	return nil
}

func (c *anthropicChecker) block(where, role string, block object) *Violation {
	kind := block.text("type")
	if role == "user" && kind != "text" && kind != "image" || role == "assistant" && kind == "image" {
		return invalid("%s: blocks of type %q are not permitted in a %s message", where, kind, role)
	}
	switch kind {
	case "text":
		if v := unknownFields(block, where+".text.", "type", "text", "cache_control"); v != nil {
			return v
		}
		if strings.TrimSpace(block.text("text")) == "" {
			return invalid("messages: text content blocks must contain non-whitespace text")
		}
	case "image":
		source := toObject(block["source"])
		if problem := imageProblem(source.text("media_type"), source.text("data")); problem != "" {
			return invalid("%s.image.source.base64: %s", where, problem)
		}
	case "thinking":
		if !c.thinks || !strings.HasPrefix(block.text("signature"), signaturePrefix) {
			return invalid("%s: Invalid `signature` in `thinking` block", where)
		}
	case "redacted_thinking":
		if !c.thinks || !strings.HasPrefix(block.text("data"), redactedPrefix) {
			return invalid("%s: Invalid `data` in `redacted_thinking` block", where)
		}
	case "tool_use":
		id := block.text("id")
		if c.ids == nil {
			c.ids = make(map[string]bool)
		}
		switch _, isObject := block["input"].(map[string]any); {
		case !anthropicID.MatchString(id):
			return invalid("%s.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", where)
		case c.ids[id]:
			return invalid("messages: `tool_use` ids must be unique")
		case !anthropicName.MatchString(block.text("name")):
			return invalid("%s.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", where)
		case !isObject:
			return invalid("%s.tool_use.input: Input should be a valid dictionary", where)
		}
		c.ids[id] = true
		c.tools = true
		c.open = append(c.open, id)
	default:
		return invalid("%s: Input tag %q found using 'type' does not match any of the expected tags", where, kind)
	}
	return nil
}

func anthropicResult(where string, block object) *Violation {
	if v := unknownFields(block, where+".tool_result.", "type", "tool_use_id", "content", "is_error", "cache_control"); v != nil {
		return v
	}
	failed, _ := block["is_error"].(bool)
	for k, p := range block.list("content") {
		part := toObject(p)
		switch kind := part.text("type"); {
		case failed && kind != "text":
			return invalid("%s.tool_result: all content must be type \"text\" if \"is_error\" is true", where)
		case kind == "text" && strings.TrimSpace(part.text("text")) == "":
			return invalid("messages: text content blocks must contain non-whitespace text")
		case kind == "image":
			source := toObject(part["source"])
			if problem := imageProblem(source.text("media_type"), source.text("data")); problem != "" {
				return invalid("%s.tool_result.content.%d.image.source.base64: %s", where, k, problem)
			}
		case kind != "text":
			return invalid("%s.tool_result.content.%d: unexpected type %q", where, k, kind)
		}
	}
	return nil
}

func integer(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

// countKey counts the objects of v that have the key, but not inside tool schemas.
func countKey(v any, key string) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v[key]; ok {
			n++
		}
		for k, child := range v {
			if k != "input_schema" && k != "input" {
				n += countKey(child, key)
			}
		}
	case []any:
		for _, child := range v {
			n += countKey(child, key)
		}
	}
	return n
}
