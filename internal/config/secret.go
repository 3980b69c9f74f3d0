package config

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
)

// Secret is a configured value that must never be printed. Whatever prints a Config, in whatever format, prints
// "[set]" in its place; the value comes out by Reveal only.
type Secret string

// Reveal returns the value, for the one client that needs it.
func (s Secret) Reveal() string { return string(s) }

// String says whether there is a value.
func (s Secret) String() string { return shown(s != "") }

// Format covers every verb of package fmt, those that would show the bytes included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue hides the value from log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON hides the value from JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Key is a 256-bit key. It prints as a Secret does.
type Key struct {
	bytes [32]byte
	set   bool
}

var errNotAKey = errors.New("is not 32 bytes in base64 or hex")

// ParseKey reads 32 bytes from base64 (either alphabet, with or without padding) or 64 hex digits. Its error says
// nothing about the value.
func ParseKey(s string) (Key, error) {
	decoders := []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	}
	for _, decode := range decoders {
		if raw, err := decode(s); err == nil && len(raw) == 32 {
			return Key{bytes: [32]byte(raw), set: true}, nil
		}
	}
	return Key{}, errNotAKey
}

// IsSet tells whether there is a key.
func (k Key) IsSet() bool { return k.set }

// Bytes returns a copy of the key; nil when there is none.
func (k Key) Bytes() []byte {
	if !k.set {
		return nil
	}
	return append([]byte(nil), k.bytes[:]...)
}

// String says whether there is a key.
func (k Key) String() string { return shown(k.set) }

// Format covers every verb of package fmt.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

// LogValue hides the key from log/slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON hides the key from JSON.
func (k Key) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

func shown(set bool) string {
	if set {
		return "[set]"
	}
	return ""
}
