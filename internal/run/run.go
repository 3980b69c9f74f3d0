// Package run names what a run is called on every side: run ids, workflow ids, wire names, search attributes.
// Each is made in one function, here.
package run

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"go.temporal.io/sdk/temporal"
)

// Wire names. They are part of stored histories: never rename one.
const (
	WorkflowType       = "Run"
	MemoryWorkflowType = "CaptureMemory"
	FireWorkflowType   = "FireSchedule"
	WakeSignal         = "wake" // content-free: something may have changed in Postgres
	DefaultQueue       = "mikan"
)

// ToolsQueue is the queue for everything that touches the workspace.
func ToolsQueue(queue string) string { return queue + "-tools" }

// Trigger is what caused a run.
type Trigger string

// The triggers.
const (
	Human     Trigger = "human"
	Command   Trigger = "command"
	Scheduled Trigger = "scheduled"
)

// CompactWord is the command whose run makes a summary of its session.
const CompactWord = "compact"

// MemoryWord is the command whose run shows what is remembered in its conversation.
const MemoryWord = "memory"

// Outcome is how an execution ended.
type Outcome string

// The outcomes. Dropped: the trigger was deleted before its run. Duplicate: nothing was waiting.
const (
	Answered  Outcome = "answered"
	Silent    Outcome = "silent"
	Failed    Outcome = "failed"
	Stopped   Outcome = "stopped"
	Dropped   Outcome = "dropped"
	Duplicate Outcome = "duplicate"
)

// WorkflowID is the address of a session: Temporal itself keeps one open run per session.
func WorkflowID(officeKey, sessionKey string) string { return officeKey + "/" + sessionKey }

// ParseWorkflowID splits a workflow id at its first slash; an office key never holds one.
func ParseWorkflowID(id string) (officeKey, sessionKey string, ok bool) {
	return strings.Cut(id, "/")
}

// MemoryWorkflowID is the id of a run's capture.
func MemoryWorkflowID(runID string) string { return "memory/" + runID }

// ID derives a run's id from what caused it, so that a repeated delivery is the same run. attempt is 1, or higher when
// an operator has a failed trigger run again.
func ID(officeKey, sessionKey, triggerMessageID string, attempt int) string {
	parts := []string{"run-v1", officeKey, sessionKey, triggerMessageID}
	if attempt > 1 {
		parts = append(parts, strconv.Itoa(attempt))
	}
	return digest(parts)[:32]
}

// DeliveryKey is the opaque key of one visible message: what names the message ("answer/0") within its run or command.
func DeliveryKey(cause, what string) string { return digest([]string{"delivery-v1", cause, what})[:24] }

func digest(parts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// Search attributes, all of type Keyword.
var (
	PlatformAttribute = temporal.NewSearchAttributeKeyKeyword("MikanPlatform")
	OfficeAttribute   = temporal.NewSearchAttributeKeyKeyword("MikanOffice")
	SessionAttribute  = temporal.NewSearchAttributeKeyKeyword("MikanSession")
	TriggerAttribute  = temporal.NewSearchAttributeKeyKeyword("MikanTrigger")
	OutcomeAttribute  = temporal.NewSearchAttributeKeyKeyword("MikanOutcome")
)

// AttributeNames lists the search attributes that a namespace must have.
func AttributeNames() []string {
	return []string{
		PlatformAttribute.GetName(), OfficeAttribute.GetName(), SessionAttribute.GetName(),
		TriggerAttribute.GetName(), OutcomeAttribute.GetName(),
	}
}

// Attributes are what an execution carries from its start. The trigger is not known before the run has claimed it, and
// the outcome not before it ends; the workflow sets all five anew, since continue-as-new copies them.
func Attributes(officeKey, sessionKey string) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(
		PlatformAttribute.ValueSet(PlatformOf(officeKey)),
		OfficeAttribute.ValueSet(officeKey),
		SessionAttribute.ValueSet(sessionKey),
	)
}

// PlatformOf reads the platform out of an office key ("v1-slack-…").
func PlatformOf(officeKey string) string {
	parts := strings.SplitN(officeKey, "-", 3)
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

// Memo is what the Temporal UI shows beside an execution. It holds ids only.
func Memo(officeKey, sessionKey string) map[string]any {
	return map[string]any{"office": officeKey, "session": sessionKey}
}

// Input starts an execution of the Run workflow. RunID and Step are set only when a run goes on in a new execution
// because its history outgrew the first.
type Input struct {
	OfficeKey  string `json:"office"`
	SessionKey string `json:"session"`
	RunID      string `json:"run,omitempty"`
	Step       int    `json:"step,omitempty"`
}

// FireInput starts an execution of the FireSchedule workflow. The task's text stays in the database.
type FireInput struct {
	ScheduleID string `json:"schedule"`
}

// ScheduleID is what Temporal calls a schedule of mikan's.
func ScheduleID(id string) string { return schedulePrefix + id }

// ParseScheduleID reads the schedule out of Temporal's name for it; false for a schedule of somebody else's.
func ParseScheduleID(temporalID string) (string, bool) {
	return strings.CutPrefix(temporalID, schedulePrefix)
}

const schedulePrefix = "mikan-"
