package discord

import (
	"context"
	"sync"
)

// lanes work off what belongs to one channel in order, and different channels side by side, so that a slow channel holds
// nobody up.
type lanes struct {
	mu     sync.Mutex
	queues map[string][]func(context.Context)
	busy   int
	idle   *sync.Cond
}

func newLanes() *lanes {
	l := &lanes{queues: map[string][]func(context.Context){}}
	l.idle = sync.NewCond(&l.mu)
	return l
}

// put appends a task to a lane. When ctx has ended, what is left of the lane is dropped.
func (l *lanes) put(ctx context.Context, lane string, task func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, running := l.queues[lane]
	l.queues[lane] = append(queue, task)
	l.busy++
	if !running {
		go l.work(ctx, lane)
	}
}

func (l *lanes) work(ctx context.Context, lane string) {
	for {
		l.mu.Lock()
		queue := l.queues[lane]
		if len(queue) == 0 {
			delete(l.queues, lane)
			l.mu.Unlock()
			return
		}
		l.queues[lane] = queue[1:]
		l.mu.Unlock()
		if ctx.Err() == nil {
			queue[0](ctx)
		}
		l.mu.Lock()
		l.busy--
		l.idle.Broadcast()
		l.mu.Unlock()
	}
}

// outstanding counts the tasks that are not done.
func (l *lanes) outstanding() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy
}

// wait returns when nothing is left to do.
func (l *lanes) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.busy > 0 {
		l.idle.Wait()
	}
}
