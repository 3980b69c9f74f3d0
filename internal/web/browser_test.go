package web_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/geminixiang/mikan/internal/llm"
)

// browserPatience bounds waits for a browser on a busy machine.
const browserPatience = 2 * time.Minute

// browser is a headless Chromium with one page, spoken to by its DevTools protocol.
type browser struct {
	t    *testing.T
	conn *websocket.Conn

	mu       sync.Mutex
	next     int
	waiting  map[int]chan reply
	problems []string // what the console and the network complained about
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// findChromium looks where browsers are usually installed.
func findChromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if runtime.GOOS == "darwin" {
		for _, app := range []string{"Google Chrome", "Chromium"} {
			path := "/Applications/" + app + ".app/Contents/MacOS/" + app
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return ""
}

func startBrowser(t *testing.T) *browser {
	t.Helper()
	path := findChromium()
	if path == "" {
		t.Skip("no Chromium or Chrome is installed; install one (Debian: apt-get install chromium) to run this test")
	}
	profile := t.TempDir()
	command := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
		"--user-data-dir="+profile, "about:blank")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { _ = command.Wait(); close(exited) }()
	b := &browser{t: t, waiting: map[int]chan reply{}}
	t.Cleanup(func() {
		if b.conn != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, _ = b.ask(ctx, "", "Browser.close", nil)
		}
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			_ = command.Process.Kill()
			<-exited
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), browserPatience)
	defer cancel()
	var address []byte
	for len(strings.Fields(string(address))) < 2 { // port and path, written when it listens
		select {
		case <-exited:
			t.Fatal("Chromium ended at its start")
		case <-ctx.Done():
			t.Fatal("Chromium does not listen")
		case <-time.After(50 * time.Millisecond):
		}
		address, _ = os.ReadFile(filepath.Join(profile, "DevToolsActivePort"))
	}
	fields := strings.Fields(string(address))
	conn, _, err := websocket.Dial(ctx, "ws://127.0.0.1:"+fields[0]+fields[1], nil)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(64 << 20)
	b.conn = conn
	go b.read(context.WithoutCancel(t.Context()))
	return b
}

func (b *browser) read(ctx context.Context) {
	for {
		_, raw, err := b.conn.Read(ctx)
		if err != nil {
			b.mu.Lock()
			for _, waiting := range b.waiting {
				close(waiting)
			}
			b.waiting = map[int]chan reply{}
			b.mu.Unlock()
			return
		}
		var message struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(raw, &message) != nil {
			continue
		}
		b.mu.Lock()
		switch message.Method {
		case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Network.loadingFailed":
			b.problems = append(b.problems, message.Method+" "+string(message.Params))
		case "":
			if waiting, ok := b.waiting[message.ID]; ok {
				waiting <- message.reply
				delete(b.waiting, message.ID)
			}
		}
		b.mu.Unlock()
	}
}

func (b *browser) ask(ctx context.Context, tab, method string, params any) (json.RawMessage, error) {
	answer := make(chan reply, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.waiting[id] = answer
	b.mu.Unlock()
	if params == nil {
		params = struct{}{}
	}
	request := map[string]any{"id": id, "method": method, "params": params}
	if tab != "" {
		request["sessionId"] = tab
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if err := b.conn.Write(ctx, websocket.MessageText, raw); err != nil {
		return nil, err
	}
	select {
	case got, open := <-answer:
		if !open {
			return nil, errors.New("the browser is gone")
		}
		if got.Error != nil {
			return nil, errors.New(method + ": " + got.Error.Message)
		}
		return got.Result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tab is one page of a browser.
type tab struct {
	*browser
	id string
}

func (b *browser) open(url string) tab {
	b.t.Helper()
	var target struct{ TargetID string }
	b.into(&target, tab{b, ""}.call("Target.createTarget", map[string]any{"url": "about:blank"}))
	var attached struct{ SessionID string }
	b.into(&attached, tab{b, ""}.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}))
	p := tab{b, attached.SessionID}
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", nil)
	}
	p.call("Page.navigate", map[string]any{"url": url})
	p.await("the page to load", `document.readyState === "complete" && location.href !== "about:blank"`)
	return p
}

func (b *browser) into(to any, raw json.RawMessage) {
	b.t.Helper()
	if err := json.Unmarshal(raw, to); err != nil {
		b.t.Fatal(err)
	}
}

func (p tab) call(method string, params any) json.RawMessage {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), browserPatience)
	defer cancel()
	result, err := p.ask(ctx, p.id, method, params)
	if err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	return result
}

// evaluate runs an expression in the page, as somebody who clicks would: the page believes that the reader acts.
func (p tab) evaluate(expression string) any {
	p.t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	p.into(&answer, p.call("Runtime.evaluate", map[string]any{
		"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true,
	}))
	if answer.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", expression, answer.ExceptionDetails)
	}
	return answer.Result.Value
}

func (p tab) await(what, expression string) {
	p.t.Helper()
	deadline := time.After(browserPatience)
	for p.evaluate(expression) != true {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			p.t.Fatalf("waited in vain for %s; the page shows: %v", what, p.evaluate(`document.body.innerText`))
		}
	}
}

// width makes the page as wide as a device.
func (p tab) width(pixels int, mobile bool) {
	p.t.Helper()
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": mobile})
}

// picture keeps a screenshot where MIKAN_TEST_SCREENSHOTS says, for people to look at.
func (p tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv("MIKAN_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	p.into(&shot, p.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}))
	raw, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), raw, 0o600)
	}
	if err != nil {
		p.t.Error(err)
	}
}

func TestInARealBrowser(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	c := newScene(t)
	c.message("C1", "bob", "the deploy of v2.4 is red again, see https://ci.example/4711")
	first := c.ask("C1", "ann", "Why is the deploy red?\n\nPlease look at the log and say which step failed.")
	c.think(first, 1, llm.Block{Kind: llm.BlockThinking, Text: "The log is in the workspace."}, words("I look at the log."),
		calling("k1", "bash", `{"command":"grep -n ERROR deploy.log | head -20"}`), calling("k2", "read", `{"path":"deploy.yaml","limit":40}`))
	c.result(first, 1, 0, "k1", "118: ERROR migrate: relation \"offices\" already exists\n119: ERROR exit status 1")
	c.result(first, 1, 1, "k2", "steps:\n  - build\n  - migrate\n  - rollout")
	c.think(first, 2, words("The step **migrate** failed: the table `offices` exists already.\n\n1. Run the migration with its ledger.\n2. Deploy again.\n\n```sh\nmikan migrate --schema-only\n```"))
	answered := c.answer(first, "The step migrate failed.")
	c.now = c.now.Add(time.Minute)
	thread := c.ask("C1:"+answered, "bob", "and who changed that file last?")
	c.think(thread, 1, words("Ann did, this morning."))
	c.answer(thread, "Ann did, this morning.")
	reset := c.message("C1", "ann", "/new")
	_, _, err := c.s.Reset(t.Context(), c.office.Key, "C1", reset, c.now)
	c.must(err)
	second := c.ask("C1", "ann", `<img src=x onerror="document.title='owned'"> \u202e and 2932809024865746956`)

	url := c.link(first.SessionID)
	p := b.open(url)
	p.width(1280, false)
	if got := p.evaluate(`[...document.querySelectorAll("li.entry")].map(e => e.id).join(" ")`); got != "e1 e2 e3 e6 e7 e8" {
		t.Errorf("the page shows the entries %v", got)
	}
	if got := p.evaluate(`getComputedStyle(document.querySelector(".entry")).borderRadius`); got == "0px" {
		t.Error("the page's own style is not in force")
	}

	p.evaluate(`window.told = []; new MutationObserver(() => told.push(document.getElementById("status").textContent))
		.observe(document.getElementById("status"), { childList: true })`)

	// A run goes on while the page is open.
	c.draw(second, "I am thin")
	p.await("the growing answer", `document.getElementById("draft-text").textContent === "I am thin" && !document.getElementById("draft").hidden`)
	p.picture("desktop-running")
	c.think(second, 1, words("I am thinking of <b>it</b>."), calling("k3", "bash", `{"command":"true"}`))
	p.await("the finished turn", `document.querySelector("#e9 .markdown")?.textContent.trim() === "I am thinking of <b>it</b>."`)
	p.await("the draft's end", `document.getElementById("draft").hidden`)
	p.evaluate(`document.querySelector("#e9 details").open = true`)
	c.result(second, 1, 0, "k3", "fine")
	p.await("the result inside its call", `document.querySelector("#e9 details #e10 pre")?.textContent === "fine"`)
	if p.evaluate(`document.querySelector("#e9 details").open`) != true {
		t.Error("a call that was open is folded when its result comes")
	}
	c.think(second, 2, words("Done."))
	c.answer(second, "Done.")
	p.await("the run's end", `document.querySelector("#e11 .run") !== null && document.body.dataset.running === "no"`)

	if p.evaluate(`told.includes("New: Assistant")`) != true {
		t.Errorf("a screen reader is told %v", p.evaluate(`told`))
	}

	// Copying gives the text as it is kept.
	p.evaluate(`navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }`)
	p.evaluate(`document.querySelector("#e6 button.copy").click()`)
	p.await("the copied text", `(window.copied ?? "").includes("step **migrate** failed") && document.querySelector("#e6 button.copy").textContent === "Copied"`)

	if got := p.evaluate(`document.title`); strings.Contains(fmt.Sprint(got), "owned") {
		t.Error("a message ran as script")
	}
	p.picture("desktop")

	// An address of something folded opens it.
	p.evaluate(`location.hash = "#e4"`)
	p.await("the folded result", `document.querySelector("#e4").closest("details").open`)
	p.picture("desktop-open")

	// A phone needs no scrolling sideways, also with the longest word.
	p.width(360, true)
	for _, address := range []string{url, url + "/all"} {
		p.call("Page.navigate", map[string]any{"url": address})
		p.await("the page to load", `document.readyState === "complete"`)
		if got := p.evaluate(`document.documentElement.scrollWidth <= innerWidth`); got != true {
			t.Errorf("%s is wider than a phone: %v", strings.TrimPrefix(address, url), p.evaluate(`document.documentElement.scrollWidth`))
		}
		p.picture("phone" + strings.ReplaceAll(strings.TrimPrefix(address, url), "/", "-"))
	}
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": "dark"}}})
	p.call("Page.navigate", map[string]any{"url": url})
	p.await("the page to load", `document.readyState === "complete" && document.getElementById("entries") !== null`)
	p.picture("phone-dark")

	// What a keyboard and a screen reader go by.
	for what, expression := range map[string]string{
		"a main landmark":             `document.querySelectorAll("main").length === 1`,
		"one first heading":           `document.querySelectorAll("h1").length === 1`,
		"entries named by headings":   `[...document.querySelectorAll("article")].every(a => document.getElementById(a.getAttribute("aria-labelledby"))?.tagName === "H3")`,
		"the skip link first":         `document.querySelector("a, button, summary").className === "skip"`,
		"names for all that acts":     `[...document.querySelectorAll("a, button, summary")].every(e => (e.getAttribute("aria-label") ?? e.textContent).trim() !== "")`,
		"distinct ids":                `new Set([...document.querySelectorAll("[id]")].map(e => e.id)).size === document.querySelectorAll("[id]").length`,
		"a language":                  `document.documentElement.lang === "en"`,
		"a polite status":             `document.querySelector("[role=status][aria-live=polite]") !== null`,
		"headings without a gap":      `[...document.querySelectorAll("h1,h2,h3,h4")].every((h, i, all) => i === 0 || h.tagName[1] - all[i - 1].tagName[1] <= 1)`,
		"nothing taken out of order":  `document.querySelector("[tabindex]:not([tabindex='-1'])") === null`,
		"a page that has no handlers": `[...document.querySelectorAll("*")].every(e => [...e.attributes].every(a => !a.name.startsWith("on")))`,
	} {
		if p.evaluate(expression) != true {
			t.Errorf("the page lacks %s", what)
		}
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.problems {
		// A page that is left ends its stream.
		if strings.Contains(problem, "Network.loadingFailed") && strings.Contains(problem, `"canceled":true`) || strings.Contains(problem, "net::ERR_ABORTED") {
			continue
		}
		t.Errorf("the browser complains: %s", problem)
	}
}
