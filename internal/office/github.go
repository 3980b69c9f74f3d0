package office

import (
	"regexp"
	"strconv"
	"strings"
)

// Issue is a GitHub issue or pull request: what a conversation on GitHub is about. The three are kept beside the
// conversation id, because the id alone is ambiguous: GH_a_b_c_1 can be issue 1 of a_b/c or of a/b_c.
type Issue struct {
	Owner  string
	Repo   string
	Number int64
}

// gitHubName is what GitHub lets a person or repository be called, and no more than what an id may hold.
var gitHubName = regexp.MustCompile(`^[a-z0-9._-]+$`)

// NewIssue lower-cases owner and repo, since GitHub's names ignore case. The error is an *IDError.
func NewIssue(owner, repo string, number int64) (Issue, error) {
	i := Issue{Owner: strings.ToLower(owner), Repo: strings.ToLower(repo), Number: number}
	if number <= 0 || !gitHubName.MatchString(i.Owner) || !gitHubName.MatchString(i.Repo) {
		return Issue{}, &IDError{
			Part: PartRepository, Reason: ReasonName, Value: owner + "/" + repo + "#" + strconv.FormatInt(number, 10),
		}
	}
	if err := ValidateConversationID(i.ConversationID()); err != nil {
		return Issue{}, err
	}
	return i, nil
}

// ConversationID is the id of the issue's one conversation, GH_<owner>_<repo>_<number>.
func (i Issue) ConversationID() string {
	return gitHubPrefix + i.Owner + "_" + i.Repo + "_" + strconv.FormatInt(i.Number, 10)
}

// Address is the address of the issue's office.
func (i Issue) Address() Address {
	return Address{Platform: GitHub, ConversationID: i.ConversationID()}
}

const gitHubPrefix = "GH_"

// canonicalGitHub spells a GitHub conversation id as Issue.ConversationID does: all but the prefix in lower case.
func canonicalGitHub(id string) string {
	rest, found := strings.CutPrefix(id, gitHubPrefix)
	if !found {
		return id
	}
	return gitHubPrefix + strings.ToLower(rest)
}
