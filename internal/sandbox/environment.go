package sandbox

import (
	"os"
	"strings"
)

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// callVariable marks every process of a call, so that a later worker can recognise what a dead one left behind.
const callVariable = "SANDBOX_CALL"

// environment is all that a command gets of the worker's environment. It is a list of what is let through, so that a
// credential nobody thought of stays out. The sandbox's helper processes get no more either: a command can read
// /proc/1/environ.
func environment(dir, call string) []string {
	env := []string{
		"HOME=" + dir,
		"TMPDIR=/tmp",
		"TERM=dumb",
		"PAGER=cat",
		"GIT_TERMINAL_PROMPT=0",
		callVariable + "=" + call,
	}
	path := os.Getenv("PATH")
	if path == "" {
		path = defaultPath
	}
	env = append(env, "PATH="+path)
	language := false
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if name == "LANG" || name == "LANGUAGE" || name == "TZ" || strings.HasPrefix(name, "LC_") {
			env = append(env, entry)
			language = language || name == "LANG" || name == "LC_ALL"
		}
	}
	if !language {
		env = append(env, "LANG=C.UTF-8")
	}
	return env
}
