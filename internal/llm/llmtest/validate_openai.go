package llmtest

import (
	"slices"
	"strings"
)

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

func validateChat(o object) *Violation {
	if v := unknownFields(o, "", "model", "messages", "tools", "tool_choice", "stream", "stream_options", "max_tokens",
		"max_completion_tokens", "reasoning_effort", "prompt_cache_key", "cache_control", "response_format", "logprobs",
		"top_logprobs"); v != nil {
		return v
	}
	if f := toObject(o["response_format"]); f != nil {
		schema := toObject(f["json_schema"])
		if v := strictSchema("response_format", f.text("type"), schema.text("name"), toObject(schema["schema"])); v != nil {
			return v
		}
	}
	if e, ok := o["reasoning_effort"]; ok && !slices.Contains(efforts, o.text("reasoning_effort")) {
		return invalid("Invalid value: %v. Supported values are: %s.", e, strings.Join(efforts, ", "))
	}
	for i, t := range o.list("tools") {
		f := toObject(toObject(t)["function"])
		if v := openAITool(i, f.text("name"), f["parameters"]); v != nil {
			return v
		}
	}
	messages := o.list("messages")
	if len(messages) == 0 {
		return invalid("Invalid 'messages': empty array. Expected an array with minimum length 1.")
	}
	var open []string
	ids := make(map[string]bool)
	last := ""
	for i, raw := range messages {
		m := toObject(raw)
		role := m.text("role")
		if role != "tool" && len(open) > 0 {
			return unansweredChat(open)
		}
		switch role {
		case "system", "developer":
			if i != 0 {
				return invalid("System message must be at the beginning.")
			}
			if strings.TrimSpace(contentText(m["content"])) == "" {
				return invalid("messages[%d].content: must not be empty", i)
			}
		case "user":
			if last == "user" {
				return invalid("Conversation roles must alternate user/assistant/user/assistant/...")
			}
			if v := chatUserContent(i, m["content"]); v != nil {
				return v
			}
		case "assistant":
			if last == "assistant" || last == "" || last == "system" {
				return invalid("Conversation roles must alternate user/assistant/user/assistant/...")
			}
			calls := m.list("tool_calls")
			if strings.TrimSpace(contentText(m["content"])) == "" && len(calls) == 0 {
				return invalid("Invalid value for 'content': expected a string, got null. (messages[%d])", i)
			}
			for _, c := range calls {
				call := toObject(c)
				f := toObject(call["function"])
				if v := openAICall(call.text("id"), f, ids); v != nil {
					return v
				}
				open = append(open, call.text("id"))
			}
		case "tool":
			at := slices.Index(open, m.text("tool_call_id"))
			if at < 0 {
				return invalid("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
			}
			open = slices.Delete(open, at, at+1)
			if _, ok := m["content"]; !ok {
				return invalid("Missing required parameter: 'messages[%d].content'.", i)
			}
			if countType(m["content"], "image_url") > 0 {
				return invalid("Image URLs are only allowed for messages with role 'user', but this message with role 'tool' contains an image URL.")
			}
		default:
			return invalid("Invalid value: %q. Supported values are: 'system', 'assistant', 'user', 'tool', and 'developer'.", role)
		}
		last = role
	}
	switch {
	case len(open) > 0:
		return unansweredChat(open)
	case last != "user" && last != "tool":
		return invalid("The last message must be from the user or a tool.")
	}
	return nil
}

func unansweredChat(open []string) *Violation {
	return invalid("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
		"The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
}

func chatUserContent(i int, content any) *Violation {
	if s, ok := content.(string); ok {
		if strings.TrimSpace(s) == "" {
			return invalid("messages[%d].content: must not be empty", i)
		}
		return nil
	}
	parts, _ := content.([]any)
	if len(parts) == 0 {
		return invalid("Invalid 'messages[%d].content': empty array.", i)
	}
	for _, p := range parts {
		part := toObject(p)
		switch part.text("type") {
		case "text":
			if strings.TrimSpace(part.text("text")) == "" {
				return invalid("messages[%d].content: text must not be empty", i)
			}
		case "image_url":
			if problem := dataURLProblem(toObject(part["image_url"]).text("url")); problem != "" {
				return invalid("You uploaded an unsupported image: %s", problem)
			}
		default:
			return invalid("Invalid value: %q. Supported values are: 'text' and 'image_url'.", part.text("type"))
		}
	}
	return nil
}

func openAITool(i int, name string, parameters any) *Violation {
	if !openAIName.MatchString(name) {
		return invalid("Invalid 'tools[%d].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", i)
	}
	if toolSchemaProblem(parameters) {
		return invalid("Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"'.", name)
	}
	return nil
}

func openAICall(id string, f object, ids map[string]bool) *Violation {
	var arguments object
	switch {
	case id == "" || len(id) > 64:
		return invalid("Invalid 'call_id': string too long or empty. Expected a string with maximum length 64.")
	case ids[id]:
		return invalid("Duplicate tool call id: %s", id)
	case !openAIName.MatchString(f.text("name")):
		return invalid("Invalid function name: string does not match pattern '^[a-zA-Z0-9_-]+$'.")
	case decode([]byte(f.text("arguments")), &arguments) != nil || arguments == nil:
		// What vLLM's chat templates do with arguments that they cannot parse.
		return invalid("Invalid function arguments: not a JSON object.")
	}
	ids[id] = true
	return nil
}

// strictSchema checks a structured output: strict schemas require every property and allow no others.
func strictSchema(where, kind, name string, schema object) *Violation {
	switch {
	case kind != "json_schema":
		return invalid("Invalid value: %q for '%s.type'.", kind, where)
	case !openAIName.MatchString(name):
		return invalid("Missing required parameter: '%s.name'.", where)
	}
	return closedSchema(where, schema)
}

// closedSchema checks what all providers of structured outputs want of every object in a schema.
func closedSchema(where string, schema object) *Violation {
	switch schema.text("type") {
	case "array":
		return closedSchema(where, toObject(schema["items"]))
	case "object":
		properties := toObject(schema["properties"])
		if schema["additionalProperties"] != false || len(schema.list("required")) != len(properties) {
			return invalid("Invalid schema for %s: 'additionalProperties' is required to be false and 'required' to name every property.", where)
		}
		for _, property := range properties {
			if v := closedSchema(where, toObject(property)); v != nil {
				return v
			}
		}
	case "":
		return invalid("Invalid schema for %s: schema must have a 'type' key.", where)
	}
	return nil
}

func validateResponses(o object) *Violation {
	if v := unknownFields(o, "", "model", "input", "instructions", "tools", "tool_choice", "stream", "store", "include",
		"reasoning", "max_output_tokens", "prompt_cache_key", "text"); v != nil {
		return v
	}
	if f := toObject(toObject(o["text"])["format"]); f != nil {
		if v := strictSchema("text.format", f.text("type"), f.text("name"), toObject(f["schema"])); v != nil {
			return v
		}
	}
	if store, ok := o["store"].(bool); !ok || store {
		return invalid("store: this account keeps nothing, set it to false")
	}
	if e := toObject(o["reasoning"]).text("effort"); e != "" && !slices.Contains(efforts, e) {
		return invalid("Invalid value: %q. Supported values are: %s.", e, strings.Join(efforts, ", "))
	}
	for i, t := range o.list("tools") {
		tool := toObject(t)
		if v := openAITool(i, tool.text("name"), tool["parameters"]); v != nil {
			return v
		}
	}
	input := o.list("input")
	if len(input) == 0 {
		return invalid("One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided.")
	}
	calls, ids := make(map[string]bool), make(map[string]bool)
	reasoning := ""
	last := ""
	for i, raw := range input {
		item := toObject(raw)
		kind := item.text("type")
		if kind == "" && item.text("role") != "" {
			kind = "message"
		}
		produced := kind == "function_call" || kind == "message" && item.text("role") == "assistant" || kind == "reasoning"
		if reasoning != "" && !produced {
			return withoutFollowing(reasoning)
		}
		switch kind {
		case "message":
			reasoning = ""
			if v := responsesMessage(i, item); v != nil {
				return v
			}
			last = item.text("role")
		case "reasoning":
			if !strings.HasPrefix(item.text("encrypted_content"), encryptedPrefix) {
				return &Violation{Status: 400, Kind: "invalid_encrypted_content",
					Message: "The encrypted content for item " + item.text("id") + " could not be verified."}
			}
			if _, ok := item["summary"].([]any); !ok {
				return invalid("Missing required parameter: 'input[%d].summary'.", i)
			}
			reasoning, last = item.text("id"), "assistant"
		case "function_call":
			reasoning, last = "", "assistant"
			id := item.text("call_id")
			if v := openAICall(id, item, ids); v != nil {
				return v
			}
			calls[id] = true
		case "function_call_output":
			last = "tool"
			id := item.text("call_id")
			if !calls[id] {
				return invalid("No tool call found for function call output with call_id %s.", id)
			}
			delete(calls, id)
			if _, ok := item["output"]; !ok {
				return invalid("Missing required parameter: 'input[%d].output'.", i)
			}
			if v := inputParts(i, item["output"]); v != nil {
				return v
			}
		default:
			return invalid("Invalid value: %q (input[%d].type).", kind, i)
		}
	}
	switch {
	case reasoning != "":
		return withoutFollowing(reasoning)
	case len(calls) > 0:
		for id := range calls {
			return invalid("No tool output found for function call %s.", id)
		}
	case last == "assistant":
		return invalid("The input must end with a user message or a tool output.")
	}
	return nil
}

func withoutFollowing(id string) *Violation {
	return invalid("Item '%s' of type 'reasoning' was provided without its required following item.", id)
}

func responsesMessage(i int, item object) *Violation {
	role := item.text("role")
	if s, ok := item["content"].(string); ok {
		if strings.TrimSpace(s) == "" {
			return invalid("Invalid 'input[%d].content': empty string.", i)
		}
		return nil
	}
	if role != "user" || len(item.list("content")) == 0 {
		return invalid("Invalid 'input[%d].content': expected content for role %q.", i, role)
	}
	return inputParts(i, item["content"])
}

func inputParts(i int, content any) *Violation {
	parts, _ := content.([]any)
	for _, p := range parts {
		part := toObject(p)
		switch kind := part.text("type"); {
		case kind == "input_text" && strings.TrimSpace(part.text("text")) == "":
			return invalid("Invalid 'input[%d].content': empty text.", i)
		case kind == "input_image":
			if problem := dataURLProblem(part.text("image_url")); problem != "" {
				return &Violation{Status: 400, Kind: "invalid_image", Message: "The image data you provided does not represent a valid image: " + problem}
			}
		case kind != "input_text":
			return invalid("Invalid value: %q. Supported values are: 'input_text' and 'input_image'.", kind)
		}
	}
	return nil
}
