package markdown

import (
	"unicode"

	"github.com/yuin/goldmark/util"
)

// flavour is whose reading of emphasis counts.
type flavour uint8

const (
	// lenient is how the model's text is read: beside Chinese, Japanese and Korean letters, which no space separates,
	// a mark may stand between a letter and punctuation, so that "**「強調」**だ" is bold.
	lenient flavour = iota
	// strict is CommonMark to the letter, which is how the platforms read what is sent to them.
	strict
	// loose is Discord: a mark opens before and closes behind anything but space.
	loose
)

// flanking tells whether a run of marks between two characters may open and may close emphasis (CommonMark 0.31,
// section 6.2).
func flanking(mark byte, before, after rune, f flavour) (opens, closes bool) {
	if f == loose {
		return !util.IsSpaceRune(after), !util.IsSpaceRune(before)
	}
	beforeSpace, afterSpace := util.IsSpaceRune(before), util.IsSpaceRune(after)
	beforePunct, afterPunct := util.IsPunctRune(before), util.IsPunctRune(after)
	left := !afterSpace && (!afterPunct || beforeSpace || beforePunct || f == lenient && eastAsian(before))
	right := !beforeSpace && (!beforePunct || afterSpace || afterPunct || f == lenient && eastAsian(after))
	if mark == '_' {
		return left && (!right || beforePunct), right && (!left || afterPunct)
	}
	return left, right
}

func eastAsian(r rune) bool {
	return r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo) ||
		r >= 0x3000 && r <= 0x303f || r >= 0xff00 && r <= 0xffef)
}
