package llm

import "unicode"

// What Estimate counts for things that are not text.
const (
	tokensPerMessage = 4
	tokensPerCall    = 12
	tokensPerImage   = 1500
)

// Estimate tells roughly how many input tokens messages take, somewhat on the high side, without asking a provider:
//
//	4 per message, 12 per tool call or result, 1,500 per picture (about 1100 × 1100 pixels), EstimateText of every
//	text, tool name and argument text, and one token per 6 bytes of signatures and encrypted thinking.
func Estimate(messages []Message) int64 {
	var n int64
	for _, m := range messages {
		n += tokensPerMessage
		for _, b := range m.Blocks {
			n += EstimateText(b.Text) + EstimateText(b.Name) + EstimateText(b.Arguments)
			n += int64(len(b.Signature)+len(b.Opaque)) / 6
			n += int64(len(b.Images)) * tokensPerImage
			switch b.Kind {
			case BlockImage:
				n += tokensPerImage
			case BlockToolCall, BlockToolResult:
				n += tokensPerCall
			}
		}
	}
	return n
}

// EstimateText tells roughly how many tokens a text takes: one per 3.5 bytes of ASCII, one per character of Chinese,
// Japanese and Korean, one per two characters of any other script or symbol; at least one for a text that is not empty.
func EstimateText(s string) int64 {
	if s == "" {
		return 0
	}
	var ascii, wide, other int64
	for _, r := range s {
		switch {
		case r < 0x80:
			ascii++
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul) || r >= 0x3000 && r <= 0x303F ||
			r >= 0xFF00 && r <= 0xFFEF || r >= 0x1F000:
			wide++
		default:
			other++
		}
	}
	return max(1, (2*ascii+6)/7+wide+(other+1)/2)
}
