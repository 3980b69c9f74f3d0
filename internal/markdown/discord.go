package markdown

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// discordAtMost is the length of a message in code points, which is what Discord counts (discord-api-docs#1315).
	discordAtMost = 2_000
	// discordTableWidth is how many columns of a fixed font a message shows without a break on a small screen.
	discordTableWidth = 64
)

// DiscordOptions adapts a rendering to one guild.
type DiscordOptions struct {
	Names Names // to "<@id>"
}

// discordDialect is how Discord reads the text of a paragraph.
var discordDialect = dialect{flavour: loose, autoLinks: true, cellBreak: " ", text: discordText}

// Discord renders Markdown in Discord's dialect: the "content" of a message. Discord shows three levels of headings,
// one of quotes, no tables and no images. Code comes out as it is, with one exception that Discord has no way around:
// three backticks in a code block have a character without width between them.
//
// Code may hold "@everyone" and "<@1>", which notify nobody there: a caller allows no mentions but those it resolved.
func Discord(source string, o DiscordOptions) string {
	blocks := mapRuns(parse(source, lenient), func(runs []run) []run {
		return addressed(discordLinks(runs), o.Names, discordNotifies)
	})
	return discordBlocks(blocks, 0)
}

// FitsDiscord tells of a part whether its rendering is within Discord's 2,000 characters.
func FitsDiscord(o DiscordOptions) func(part string) bool {
	return func(part string) bool { return utf8.RuneCountInString(Discord(part, o)) <= discordAtMost }
}

// discordNotifies tells of "@everyone" and "@here", which Discord finds wherever they stand.
func discordNotifies(_ rune, name string, _ *link) bool { return everybody(name) }

// discordLinks takes those links apart that Discord would not show as links: other addresses than of the web, and
// labels that look like an address of their own or have brackets.
func discordLinks(runs []run) []run {
	labels := labelsOf(runs)
	return unlinkedIf(runs, func(l *link) bool {
		label := labels[l]
		if !absolute(l.dest) {
			return false
		}
		return l.auto && label == l.dest && !strings.ContainsAny(label, " <>\\|`") || !strings.ContainsAny(label, "[]") && !strings.Contains(label, "://")
	})
}

// discordBlocks writes blocks at a depth of lists.
func discordBlocks(blocks []*block, depth int) string {
	var b strings.Builder
	for i, block := range blocks {
		if i > 0 {
			b.WriteString(discordGap(blocks[i-1], block, depth))
		}
		b.WriteString(discordBlock(block, depth))
	}
	return b.String()
}

// discordGap is what stands between two blocks. Headings have room around them already, and a blank line ends a list.
func discordGap(last, next *block, depth int) string {
	if depth > 0 || last.kind == heading || next.kind == heading {
		return "\n"
	}
	return "\n\n"
}

func discordBlock(b *block, depth int) string {
	switch b.kind {
	case heading:
		if b.level <= 3 && depth == 0 && len(b.runs) > 0 {
			return strings.Repeat("#", b.level) + " " + discordDialect.inline(b.runs, inHeading)
		}
		return discordDialect.inline(boldly(b.runs), inParagraph)
	case quote:
		return prefixed(discordBlocks(b.children, 0), "> ", "> ")
	case list:
		return discordList(b, depth)
	case code:
		return discordCode(b)
	case table:
		return discordBlock(monospaced(b, discordTableWidth), depth)
	case rule:
		return ruleLine
	default:
		return discordDialect.inline(b.runs, inParagraph)
	}
}

// discordList writes a list. Code and quotes within an item stand at the margin: Discord shows none that is indented.
func discordList(b *block, depth int) string {
	var out []string
	for i, it := range b.children {
		marker := "- "
		if b.ordered {
			marker = strconv.Itoa(b.start+i) + ". "
		}
		rest := strings.Repeat(" ", len(marker))
		first := marker + [...]string{"", openBox, doneBox}[it.task]
		for _, c := range it.children {
			s := discordBlock(c, depth+1)
			switch {
			case c.kind == paragraph || c.kind == heading || c.kind == rule:
				out = append(out, prefixed(s, first, rest))
			case c.kind == list && first == marker: // an item that is nothing but a list
				out = append(out, indented(s, rest))
			default:
				if first != rest {
					out = append(out, strings.TrimRight(first, " "))
				}
				if c.kind == list || c.kind == table {
					s = indented(s, rest)
				}
				out = append(out, s)
			}
			first = rest
		}
		if len(it.children) == 0 {
			out = append(out, strings.TrimRight(first, " "))
		}
	}
	return strings.Join(out, "\n")
}

// indented indents lines outside of code blocks and quotes.
func indented(s, by string) string {
	var b strings.Builder
	inCode := false
	for line := range strings.Lines(s) {
		fence := strings.HasPrefix(line, "```") && strings.Count(line, "```") == 1
		if !inCode && !fence && line != "\n" && line[0] != '>' {
			b.WriteString(by)
		}
		if fence {
			inCode = !inCode
		}
		b.WriteString(line)
	}
	return b.String()
}

func discordCode(b *block) string {
	lang := b.lang
	for i := range len(lang) {
		if !isAlnum(lang[i]) && strings.IndexByte("_+-.#", lang[i]) < 0 {
			lang = ""
			break
		}
	}
	return "```" + lang + "\n" + unfenced(b.code) + "\n```"
}

// unfenced keeps three backticks apart.
func unfenced(s string) string {
	if !strings.Contains(s, "```") {
		return s
	}
	var b strings.Builder
	n := 0
	for i := range len(s) {
		if s[i] != '`' {
			n = 0
		} else if n++; n == 3 {
			b.WriteString(wordJoiner)
			n = 1
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// discordText escapes what Discord reads as markup. Bare addresses stay as they are as far as they hold nothing
// that could end markup around them: a backslash would be part of them.
func discordText(s string) string {
	if !strings.ContainsAny(s, "\\`*_~|[]<") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == 'h' && absolute(s[i:]) && (i == 0 || !isAlnum(s[i-1])) {
			end := i + strings.IndexFunc(s[i:]+" ", func(r rune) bool {
				return unicode.IsSpace(r) || strings.ContainsRune("<>`*~|\\", r)
			})
			b.WriteString(s[i:end])
			i = end - 1
			continue
		}
		switch c {
		case '\\', '`', '*', '_', '~', '|', '[':
			b.WriteByte('\\')
		case '<':
			b.WriteByte('\\')
			if i+1 < len(s) && s[i+1] == '@' {
				b.WriteString("<" + wordJoiner)
				continue
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}
