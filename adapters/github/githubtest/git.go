package githubtest

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

func sha(parts ...any) string {
	sum := sha1.Sum([]byte(fmt.Sprint(parts...)))
	return hex.EncodeToString(sum[:])
}

// commitOf resolves a branch or a commit id.
func (r *repo) commitOf(ref string) (string, bool) {
	ref = strings.TrimPrefix(ref, "refs/heads/")
	if at, is := r.branches[ref]; is {
		return at, true
	}
	_, is := r.commits[ref]
	return ref, is
}

// put commits files to a branch, which is made when it does not exist.
func (r *repo) put(branch, message string, files map[string]string) string {
	tree := map[string]string{}
	parents := []string{}
	if at, is := r.branches[branch]; is {
		maps.Copy(tree, r.trees[r.commits[at].tree])
		parents = append(parents, at)
	} else if at, is := r.branches["main"]; is {
		maps.Copy(tree, r.trees[r.commits[at].tree])
		parents = append(parents, at)
	}
	maps.Copy(tree, files)
	treeSHA := sha("tree", tree)
	r.trees[treeSHA] = tree
	at := sha("commit", message, treeSHA, parents)
	r.commits[at] = commit{message: message, tree: treeSHA, parents: parents}
	r.branches[branch] = at
	return at
}

func (c *call) getContents() reply {
	ref := c.query["ref"]
	if ref == "" {
		ref = "main"
	}
	at, is := c.repo.commitOf(ref)
	if !is {
		return refusal(http.StatusNotFound, "No commit found for the ref "+ref)
	}
	tree := c.repo.trees[c.repo.commits[at].tree]
	path := c.values["path"]
	if content, is := tree[path]; is {
		return ok(object{"type": "file", "name": path[strings.LastIndex(path, "/")+1:], "path": path, "sha": sha("blob", content), "size": len(content),
			"encoding": "base64", "content": base64.StdEncoding.EncodeToString([]byte(content))})
	}
	entries := []object{}
	for _, p := range slices.Sorted(maps.Keys(tree)) {
		if rest, below := strings.CutPrefix(p, path+"/"); below && !strings.Contains(rest, "/") {
			entries = append(entries, object{"type": "file", "name": rest, "path": p, "sha": sha("blob", tree[p]), "size": len(tree[p])})
		}
	}
	if len(entries) == 0 {
		return notFound()
	}
	return ok(entries)
}

func (c *call) refJSON(branch string) object {
	return object{"ref": "refs/heads/" + branch, "node_id": "REF_" + branch, "url": c.s.URL + "/repos/" + c.repo.full() + "/git/refs/heads/" + branch,
		"object": object{"type": "commit", "sha": c.repo.branches[branch]}}
}

func (c *call) getRef() reply {
	branch, heads := strings.CutPrefix(c.values["path"], "heads/")
	if _, is := c.repo.branches[branch]; !is || !heads {
		return notFound()
	}
	return ok(c.refJSON(branch))
}

func (c *call) createRef() reply {
	branch, heads := strings.CutPrefix(c.text("ref"), "refs/heads/")
	if !heads {
		return refusal(http.StatusUnprocessableEntity, "Reference name must start with 'refs/heads/'")
	}
	if _, is := c.repo.branches[branch]; is {
		return refusal(http.StatusUnprocessableEntity, "Reference already exists")
	}
	if _, is := c.repo.commits[c.text("sha")]; !is {
		return refusal(http.StatusUnprocessableEntity, "Object does not exist")
	}
	c.repo.branches[branch] = c.text("sha")
	return created(c.refJSON(branch))
}

func (c *call) updateRef() reply {
	branch := strings.TrimPrefix(c.values["path"], "heads/")
	at, is := c.repo.branches[branch]
	if !is {
		return refusal(http.StatusUnprocessableEntity, "Reference does not exist")
	}
	next, known := c.repo.commits[c.text("sha")]
	if !known {
		return refusal(http.StatusUnprocessableEntity, "Object does not exist")
	}
	force, _ := c.body["force"].(bool)
	if force {
		c.s.violation(Call{Method: c.route.Method, Route: c.route.Path}, "a branch was moved by force")
	}
	if !force && !slices.Contains(next.parents, at) && c.text("sha") != at {
		return refusal(http.StatusUnprocessableEntity, "Update is not a fast forward")
	}
	c.repo.branches[branch] = c.text("sha")
	return ok(c.refJSON(branch))
}

func (c *call) getCommit() reply {
	m, is := c.repo.commits[c.values["sha"]]
	if !is {
		return notFound()
	}
	return ok(c.commitJSON(c.values["sha"], m))
}

func (c *call) commitJSON(at string, m commit) object {
	parents := []object{}
	for _, p := range m.parents {
		parents = append(parents, object{"sha": p})
	}
	return object{"sha": at, "message": m.message, "tree": object{"sha": m.tree}, "parents": parents}
}

func (c *call) createCommit() reply {
	if _, is := c.repo.trees[c.text("tree")]; !is {
		return refusal(http.StatusUnprocessableEntity, "Tree SHA does not exist")
	}
	m := commit{message: c.text("message"), tree: c.text("tree"), parents: c.strings("parents")}
	for _, p := range m.parents {
		if _, is := c.repo.commits[p]; !is {
			return refusal(http.StatusUnprocessableEntity, "Parent SHA does not exist or is not a commit object")
		}
	}
	at := sha("commit", m.message, m.tree, m.parents)
	c.repo.commits[at] = m
	return created(c.commitJSON(at, m))
}

func (c *call) createTree() reply {
	tree := map[string]string{}
	if base := c.text("base_tree"); base != "" {
		if m, is := c.repo.commits[base]; is {
			base = m.tree
		}
		old, is := c.repo.trees[base]
		if !is {
			return refusal(http.StatusUnprocessableEntity, "base_tree is not a valid tree oid")
		}
		maps.Copy(tree, old)
	}
	entries, _ := c.body["tree"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		path, _ := entry["path"].(string)
		mode, _ := entry["mode"].(string)
		if path == "" || strings.HasPrefix(path, "/") || !slices.Contains([]string{"100644", "100755", "040000", "160000", "120000"}, mode) {
			return refusal(http.StatusUnprocessableEntity, "tree.path contains a malformed path component")
		}
		content, is := entry["content"].(string)
		sha, hasSHA := entry["sha"]
		switch {
		case is:
			tree[path] = content
		case hasSHA && sha == nil:
			delete(tree, path)
		default:
			return refusal(http.StatusUnprocessableEntity, "Must supply either tree.sha or tree.content")
		}
	}
	at := sha("tree", tree)
	c.repo.trees[at] = tree
	return created(object{"sha": at, "truncated": false, "tree": []object{}})
}

func (c *call) checkRuns() reply {
	at, is := c.repo.commitOf(c.values["sha"])
	if !is {
		return refusal(http.StatusUnprocessableEntity, "No commit found for SHA: "+c.values["sha"])
	}
	shown := []object{}
	for n, k := range c.repo.checks[at] {
		shown = append(shown, object{"id": n + 1, "name": k.Name, "status": k.Status, "conclusion": nullable(k.Conclusion), "head_sha": at,
			"html_url": "https://github.com/" + c.repo.full() + "/runs/" + fmt.Sprint(n+1),
			"output":   object{"title": nil, "summary": nullable(k.Summary), "annotations_count": 0}})
	}
	return ok(object{"total_count": len(shown), "check_runs": shown})
}

func (c *call) combinedStatus() reply {
	at, is := c.repo.commitOf(c.values["sha"])
	if !is {
		return refusal(http.StatusNotFound, "Not Found")
	}
	state := "success"
	shown := []object{}
	for _, k := range c.repo.statuses[at] {
		if k.State != "success" {
			state = k.State
		}
		shown = append(shown, object{"context": k.Context, "state": k.State, "description": nullable(k.Description)})
	}
	if len(shown) == 0 {
		state = "pending"
	}
	return ok(object{"state": state, "sha": at, "total_count": len(shown), "statuses": shown})
}
