package markdown

import (
	"regexp"
	"unicode/utf8"
)

// gitHubAtMost is the length of a comment in characters. GitHub's own limit is 65,536; the rest is for what a caller
// adds.
const gitHubAtMost = 60_000

// GitHubOptions adapts a rendering to one repository.
type GitHubOptions struct {
	Names Names // to "@login" or "@org/team"
}

var gitHub = dialect{flavour: strict, angles: entityAngles, autoLinks: true, decodes: true, cellBreak: "<br>", code: unmarked}

// GitHub renders Markdown as the body of a comment. HTML within it is text, and so is a comment of HTML: nothing in
// what it returns can pass for the marker of a delivery, "<!-- mikan:", which a caller appends.
func GitHub(source string, o GitHubOptions) string {
	blocks := mapRuns(parse(source, lenient), func(runs []run) []run {
		return addressed(unlinked(runs, gitHubFollows), o.Names, gitHubNotifies)
	})
	return gitHub.write(blocks)
}

// FitsGitHub tells of a part whether its rendering is within 60,000 characters.
func FitsGitHub(o GitHubOptions) func(part string) bool {
	return func(part string) bool { return utf8.RuneCountInString(GitHub(part, o)) <= gitHubAtMost }
}

// gitHubNotifies tells whether GitHub may read a mention of a person or a team. What stands before the "@" does not
// count: behind what GitHub takes for an address of its own accord a mention may begin within a word.
func gitHubNotifies(_ rune, name string, in *link) bool {
	return (in == nil || !in.auto) && name != "" && isAlnum(name[0])
}

// gitHubFollows tells whether GitHub makes a link of an address: of the web, of a mailbox, or of a file beside it.
func gitHubFollows(dest string) bool {
	switch scheme(dest) {
	case "http", "https", "mailto", "":
		return true
	}
	return false
}

var marker = regexp.MustCompile(`(?i)<(!--\s*mikan:)`)

// unmarked keeps code from holding a marker of ours, by a character without width.
func unmarked(code string) string { return marker.ReplaceAllString(code, "<"+wordJoiner+"$1") }
