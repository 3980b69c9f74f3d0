package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// Arguments reads a call's arguments into v, whose fields are pointers where they may be missing. Unknown fields are
// ignored: models add some. Numbers never pass through a float. The error is a sentence for the model.
func Arguments(raw json.RawMessage, v any) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if raw[0] != '{' {
		return errors.New("the arguments must be a JSON object")
	}
	err := json.Unmarshal(raw, v)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return fmt.Errorf("%q must be a %s, not a %s", mismatch.Field, jsonType(mismatch.Type), mismatch.Value)
	}
	if err != nil {
		return fmt.Errorf("the arguments are not valid JSON: %w", err)
	}
	return nil
}

func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "list"
	}
	return "JSON object"
}

// missing names the first required argument that is nil.
func missing(required ...field) error {
	for _, f := range required {
		if f.value == nil {
			return fmt.Errorf("the required argument %q is missing", f.name)
		}
	}
	return nil
}

type field struct {
	name  string
	value *string
}

// within checks an optional number and returns it or its default.
func within(name string, value *int64, low, high, otherwise int64) (int64, error) {
	if value == nil {
		return otherwise, nil
	}
	if *value < low || *value > high {
		return 0, fmt.Errorf("%q is %d; it must be from %d to %d", name, *value, low, high)
	}
	return *value, nil
}
