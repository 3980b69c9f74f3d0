package markdown

import "unicode/utf8"

// DiscordOptions adapts a rendering to one guild.
type DiscordOptions struct {
	Names Names // to "<@id>"
}

// Discord renders Markdown in Discord's dialect: the "content" of a message.
func Discord(source string, _ DiscordOptions) string { return source }

// FitsDiscord tells of a part whether its rendering is within Discord's 2,000 characters, which are code points.
func FitsDiscord(o DiscordOptions) func(part string) bool {
	return func(part string) bool { return utf8.RuneCountInString(Discord(part, o)) <= 2_000 }
}
